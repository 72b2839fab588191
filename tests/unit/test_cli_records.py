"""`kgen records ...` as a user runs it."""

import csv
import json
import sys
from pathlib import Path

import pytest
from command_line import ROOT, kgen, kgen_json
from record_rows import benched, emitted

from kgen.errors.records import ParquetMissingError
from kgen.records import Record, Status, Store
from kgen.records.export import columns, export

PACKAGE = ROOT / "generated" / "h200" / "gemm_bf16"
WRONG = benched(figures={"registers": 168.0}, status=Status.ERROR, error="FAIL: rel_err 0.7", case="tall, odd")
ROWS = (emitted(host=None), benched(), WRONG)


def filled(folder: Path, name: str = "kgen-records.sqlite", rows: tuple[Record, ...] = ROWS) -> Path:
    with Store.open(folder / name) as store:
        store.add(rows)
    return folder / name


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_add_list_show(tmp_path: Path) -> None:
    report = json.loads((PACKAGE / "measured" / "report.json").read_text())
    added = kgen_json(tmp_path, "records", "add", str(PACKAGE))
    assert (added["added"], added["known"], added["file"]) == (1 + len(report["cases"]), 0, "kgen-records.sqlite")
    assert kgen_json(tmp_path, "records", "add", str(PACKAGE), str(PACKAGE))["added"] == 0
    (row,) = kgen_json(tmp_path, "records", "list", "--kind", "bench", "--latest")["results"]
    assert row["figures"]["latency_us"] == report["cases"][0]["comparison"]["kgen"]["device_us"]["median"]
    assert "plan" not in row
    (emit,) = kgen_json(tmp_path, "records", "list", "--kind", "emit", "--spec", "gemm_bf16")["results"]
    shown = kgen_json(tmp_path, "records", "show", emit["key"][:10])["record"]
    assert json.loads(shown["plan"])[0]["choice"]["choices"]["tile_m"] == 128
    text = kgen(tmp_path, "records", "show", emit["key"][:10]).stdout
    assert "gemm_bf16: default_tma: load_path tma" in text and "bound by" in text


def test_the_table_shows_errors_as_errors(tmp_path: Path) -> None:
    filled(tmp_path)
    lines = kgen(tmp_path, "records", "list").stdout.splitlines()
    wrong = next(line for line in lines if "tall, odd" in line)
    assert "error" in wrong and "FAIL: rel_err 0.7" in wrong
    assert "180.00" in next(line for line in lines if "interleaved" in line)
    assert lines[-1] == "3 records of kgen-records.sqlite"
    assert len(kgen_json(tmp_path, "records", "list", "--status", "error", "--case", "tall, odd")["results"]) == 1


def test_merge(tmp_path: Path) -> None:
    filled(tmp_path, "a", ROWS[:2])
    filled(tmp_path, "b", ROWS[1:])
    assert kgen_json(tmp_path, "records", "merge", "a", "b", "--records", "all")["added"] == {"a": 2, "b": 1}
    assert kgen_json(tmp_path, "records", "merge", "a", "b", "--records", "all")["added"] == {"a": 0, "b": 0}
    assert len(kgen_json(tmp_path, "records", "list", "--records", "all")["results"]) == 3


def test_refusals(tmp_path: Path) -> None:
    assert kgen_json(tmp_path, "records", "list")["error"] == "RecordsMissingError"
    assert not (tmp_path / "kgen-records.sqlite").exists()
    assert kgen_json(tmp_path, "records", "merge", "nothing")["error"] == "RecordsMissingError"
    assert kgen_json(tmp_path, "records", "add", ".")["error"] == "NotAPackageError"
    filled(tmp_path)
    assert kgen_json(tmp_path, "records", "list", "--kind", "tune")["remedy"] == "one of emit, check, bench"
    assert kgen_json(tmp_path, "records", "export", "-o", "a.xml")["error"] == "ExportFormatError"
    assert kgen_json(tmp_path, "records", "export", "-o", "no/a.csv")["error"] == "RecordsAccessError"
    (tmp_path / "text").write_text("not SQLite at all")
    answer = kgen(tmp_path, "records", "list", "--records", "text")
    assert answer.returncode == 2
    assert answer.stderr == (
        "error: text is no database of records: it is no SQLite file\n"
        "  = name another file with --records; nothing was written to this one\n"
    )


def test_export_json_is_the_records(tmp_path: Path) -> None:
    export(ROWS, tmp_path / "a.json")
    values = json.loads((tmp_path / "a.json").read_text())
    assert [value.pop("key") for value in values] == [record.key for record in ROWS]
    assert tuple(map(Record.from_json, values)) == ROWS


def test_export_csv_is_a_flat_table(tmp_path: Path) -> None:
    filled(tmp_path)
    assert kgen_json(tmp_path, "records", "export", "-o", "a.csv", "--status", "error")["exported"] == 1
    (row,) = rows_of(tmp_path / "a.csv")
    assert (row["case"], row["figures.registers"], row["toolchain.torch"]) == ("tall, odd", "168.0", "2.99")
    assert "figures.latency_us" not in row  # nobody has one
    export(ROWS, tmp_path / "a.csv")
    assert [row["figures.latency_us"] for row in rows_of(tmp_path / "a.csv")] == ["", "180.0", ""]
    assert {p.name for p in tmp_path.iterdir()} == {"a.csv", "kgen-records.sqlite"}


def test_export_parquet_is_the_same_table_with_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    export(ROWS, tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    wanted = columns(ROWS)
    assert table.column_names == list(wanted)
    times = [time.isoformat(timespec="milliseconds") for time in table["at"].to_pylist()]
    assert table.to_pydict() | {"at": times} == wanted
    kinds = {str(table.schema.field(name).type) for name in wanted if name.startswith("figures.")}
    assert kinds == {"double"} and str(table.schema.field("at").type) == "timestamp[ms, tz=UTC]"
    export((), tmp_path / "none.parquet")
    assert parquet.read_table(tmp_path / "none.parquet").num_rows == 0


def test_parquet_without_its_library_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ParquetMissingError, match=r"pip install 'kgen\[records\]'"):
        export(ROWS, tmp_path / "a.parquet")
