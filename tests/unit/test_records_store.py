"""The database: what is added is found again, once; what is no whole database of this schema is refused, untouched."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_rows import benched, emitted, records

import kgen.records.locking as locking
from kgen.errors import BadInputError, KgenError
from kgen.errors.records import (
    AmbiguousRecordError,
    RecordsAccessError,
    RecordsBusyError,
    RecordsDamagedError,
    RecordsForeignError,
    RecordsMissingError,
    RecordsNewerError,
    UnknownRecordError,
)
from kgen.records import Kind, Record, Status, Store

LATER = "2031-01-03T00:00:00.000+00:00"
several = st.lists(records(), max_size=6, unique_by=lambda record: record.key)
slow_disk = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def as_set(file: Path) -> set[Record]:
    with Store.read(file) as store:
        return set(store.find())


@slow_disk
@given(several)
def test_what_is_added_is_found(tmp_path_factory: pytest.TempPathFactory, rows: list[Record]) -> None:
    file = tmp_path_factory.mktemp("store") / "records.sqlite"
    with Store.open(file) as store:
        assert store.add(rows) == len(rows)
        assert store.add(rows) == 0
        assert set(store.find()) == set(rows)
        assert [r.at for r in store.find()] == sorted(r.at for r in rows)
        assert all(store.get(record.key) == record for record in rows)
    assert as_set(file) == set(rows)


@slow_disk
@given(several, several, several)
def test_merging_is_a_union(
    tmp_path_factory: pytest.TempPathFactory, one: list[Record], other: list[Record], both: list[Record]
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    files = {name: folder / f"{name}.sqlite" for name in ("a", "b", "ab", "ba")}
    moved = [replace(record, at=LATER, host="there") for record in both]
    for name, rows in (("a", (*one, *both)), ("b", (*other, *moved)), ("ab", ()), ("ba", ())):
        with Store.open(files[name]) as store:
            store.add(rows)
    wanted = {record.key for record in (*one, *other, *both)}
    for name in ("ab", "ba"):
        with Store.open(files[name]) as store:
            assert sum(store.merge(files[part]) for part in name) == len(wanted)
            assert [store.merge(files[part]) for part in name] == [0, 0]
    assert as_set(files["ab"]) == as_set(files["ba"])
    assert {record.key for record in as_set(files["ab"])} == wanted


def test_merging_a_database_into_itself_changes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a") as store:
        store.add([emitted()])
        assert store.merge(tmp_path / "a") == 0
        assert store.find() == (emitted(),)


def test_a_record_found_again_has_the_newest_time_and_its_host(tmp_path: Path) -> None:
    later = emitted(at=LATER, host="there")
    with Store.open(tmp_path / "a") as store:
        for record, there in ((emitted(), emitted()), (later, later), (emitted(), later)):
            store.add([record])
            assert store.find() == (there,)
        other = emitted(kernel_digest="d" * 64, at="2031-01-02T12:00:00.000+00:00")
        store.add([other])
        assert store.find(latest=True) == (later,)  # what was found first came back after the other


def test_find_compares_what_is_given(tmp_path: Path) -> None:
    rows = (
        emitted(),
        emitted(spec="softmax_bf16", device="h20"),
        emitted(kind=Kind.CHECK, how="compiled", status=Status.FAILED, error="it spills"),
        benched(),
        benched(case="tall"),
        benched(170.0, at=LATER),
    )
    with Store.open(tmp_path / "a") as store:
        store.add(rows)
        assert store.find(spec="softmax_bf16") == (rows[1],) == store.find(device="h20")
        assert store.find(status=Status.FAILED) == (rows[2],) == store.find(kind=Kind.CHECK)
        assert set(store.find(kind=Kind.BENCH, case="default")) == {rows[3], rows[5]}
        assert set(store.find(kind=Kind.BENCH, latest=True)) == {rows[4], rows[5]}
        assert set(store.find(latest=True)) == {*rows} - {rows[3]}
        assert store.find(spec="'; DROP TABLE record; --") == ()


def test_the_latest_is_the_newest_of_what_matches(tmp_path: Path) -> None:
    wrong = benched(figures={}, status=Status.ERROR, error="it fails", at=LATER)
    with Store.open(tmp_path / "a") as store:
        store.add([benched(), wrong])
        assert store.find(latest=True) == (wrong,)
        assert store.find(latest=True, status=Status.OK) == (benched(),)


def test_adding_is_all_or_none(tmp_path: Path) -> None:
    def breaks() -> Record:
        raise KeyboardInterrupt

    with Store.open(tmp_path / "a") as store:
        with pytest.raises(KeyboardInterrupt):
            store.add(breaks() if n else emitted() for n in range(2))
        assert store.find() == ()


def test_a_key_may_be_cut_short(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a") as store:
        store.add(emitted(spec_digest=str(n)) for n in range(40))
        key = store.find()[0].key
        assert store.get(key[:12]).key == key
        with pytest.raises(UnknownRecordError, match="has no record 'x'"):
            store.get("x")
        with pytest.raises(AmbiguousRecordError, match=r"\d+ records of .* start with"):
            store.get(next(c for c in "0123456789abcdef" if sum(r.key[0] == c for r in store.find()) > 1))


def test_reading_makes_no_file_and_leaves_none(tmp_path: Path) -> None:
    with pytest.raises(RecordsMissingError, match="there is no"):
        Store.read(tmp_path / "a")
    Store.open(tmp_path / "a").close()
    assert as_set(tmp_path / "a") == set()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_who_reads_cannot_write(tmp_path: Path) -> None:
    Store.open(tmp_path / "a").close()
    with Store.read(tmp_path / "a") as store, pytest.raises(RecordsAccessError, match="readonly"):
        store.add([emitted()])


def filled(file: Path) -> None:
    with Store.open(file) as store:
        store.add(emitted(spec_digest=str(n), plan="x" * 3000) for n in range(20))


def sql(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def foreign(file: Path) -> None:
    sql(file, "CREATE TABLE songs (name TEXT)", "INSERT INTO songs VALUES ('a')")


def newer(file: Path) -> None:
    filled(file)
    sql(file, "PRAGMA user_version = 2", "ALTER TABLE record ADD COLUMN mood TEXT")


def truncated(file: Path) -> None:
    filled(file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def overwritten(file: Path) -> None:
    filled(file)
    content = bytearray(file.read_bytes())
    for page in range(3, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    file.write_bytes(content)


def no_table(file: Path) -> None:
    filled(file)
    sql(file, "DROP TABLE record")


def changed_row(file: Path) -> None:
    filled(file)
    sql(file, "UPDATE record SET figures = '{\"variants\": 3.0}' WHERE rowid = 4")


def impossible_row(file: Path) -> None:
    filled(file)
    sql(file, "UPDATE record SET figures = '{\"latency_us\": 1.0}' WHERE rowid = 4")


def no_json(file: Path) -> None:
    filled(file)
    sql(file, "UPDATE record SET toolchain = 'torch' WHERE rowid = 4")


REFUSED: list[tuple[Callable[[Path], object], type[KgenError], str]] = [
    (foreign, RecordsForeignError, "{file} is no database of records: it is a SQLite database of another program\n"),
    (
        lambda f: f.write_text("name,us\n" * 99),
        RecordsForeignError,
        "{file} is no database of records: it is no SQLite",
    ),
    (
        newer,
        RecordsNewerError,
        "{file} has schema 2, and this kgen knows schemas up to 1\n  = use a kgen at least as new",
    ),
    (truncated, RecordsDamagedError, "{file} is damaged: "),
    (overwritten, RecordsDamagedError, "{file} is damaged: "),
    (no_table, RecordsDamagedError, "{file} is damaged: no such table: record"),
    (changed_row, RecordsDamagedError, "{file} is damaged: row "),
    (impossible_row, RecordsDamagedError, "{file} is damaged: row "),
    (no_json, RecordsDamagedError, "{file} is damaged: row "),
]


@pytest.mark.parametrize(("damage", "error", "message"), REFUSED, ids=lambda v: getattr(v, "__name__", None))
def test_what_is_no_whole_database_is_refused_and_left_as_it_is(
    tmp_path: Path, damage: Callable[[Path], object], error: type[KgenError], message: str
) -> None:
    file = tmp_path / "a.sqlite"
    damage(file)
    before = file.read_bytes()
    with pytest.raises(error) as refused:
        as_set(file)
    assert str(refused.value).startswith(message.format(file=file)), refused.value
    assert isinstance(refused.value, BadInputError) and "\n  = " in str(refused.value)
    with Store.open(tmp_path / "mine") as store:
        store.add([benched()])
        with pytest.raises(error):
            store.merge(file)
        assert store.find() == (benched(),)  # nothing of it came in
    if error is not RecordsDamagedError or damage in (truncated, overwritten):
        with pytest.raises(error):
            Store.open(file)
    assert file.read_bytes() == before


def test_a_newer_file_says_where_to_go(tmp_path: Path) -> None:
    newer(tmp_path / "a")
    with pytest.raises(RecordsNewerError) as refused:
        Store.open(tmp_path / "a")
    assert refused.value.to_json()["remedy"] == (
        "use a kgen at least as new as the one that wrote it, or name another file with --records"
    )


@pytest.mark.parametrize("path", ["", "missing/a.sqlite"])
def test_a_place_where_no_file_can_be(tmp_path: Path, path: str) -> None:
    with pytest.raises(RecordsAccessError, match=r"cannot use .*: unable to open database file"):
        Store.open(tmp_path / path)


@pytest.mark.parametrize("name", ["a?mode=memory", "a#b", "a%20b", "ä b"])
def test_a_name_is_a_name(tmp_path: Path, name: str) -> None:
    Store.open(tmp_path / name).close()
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "a").touch()  # what a creator leaves that is killed before its first write
    with pytest.raises(RecordsForeignError, match="it is empty"):
        Store.read(tmp_path / "a")
    with Store.open(tmp_path / "a") as store:
        assert store.add([emitted()]) == 1


def test_the_file_is_marked(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    assert content[68:72] == b"kgen" and int.from_bytes(content[60:64], "big") == 1
    assert content[18:20] == b"\2\2"  # WAL


def test_a_lock_is_waited_out(tmp_path: Path) -> None:
    file = tmp_path / "a"
    filled(file)
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.4, other.execute, ["COMMIT"])
        timer.start()
        with Store.open(file) as store:
            assert store.add([emitted()]) == 1
            assert emitted() in store.find()
        timer.join()


def test_a_lock_that_stays_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "PATIENCE_S", 0.2)
    file = tmp_path / "a"
    filled(file)
    with closing(sqlite3.connect(file, isolation_level=None)) as other, Store.open(file) as store:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecordsBusyError, match=f"{file} was locked by another process for 0 s\n  = nothing was"):
            store.add([benched()])
        assert len(store.find()) == 20  # readers do not wait
        other.execute("ROLLBACK")
        assert store.add([benched()]) == 1
