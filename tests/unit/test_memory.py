"""Memory files: what is written, what is refused and how, and that a writer that dies or waits loses nothing."""

import json
import multiprocessing
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kgen.bench import Assignment, create, mask, memory_file, read, summary, unmask, update
from kgen.bench.memory import parse_assignment, versions
from kgen.errors.base import KgenError
from kgen.errors.bench import (
    AssignmentError,
    MemoryExistsError,
    MemoryFieldError,
    MemoryInvalidError,
    MemoryMaskedError,
    MemoryMissingError,
    MemorySyntaxError,
    MemoryVersionError,
    NoMemoryError,
)

EXPERIMENT = {"index": 0, "name": "stages=5", "hypothesis": "loads are late", "change": None, "evidence": None}
EXPERIMENT |= {"result": None, "decision": "revert"}


def put(workspace: Path, *texts: str, version: str = "v0", append: bool = False) -> dict:
    assignments = [parse_assignment(text, append=append) for text in texts]
    return update(memory_file(workspace, version), assignments).document


def test_create_states_nothing_but_version_and_time(tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    made = create(tmp_path, "v0")
    text = (tmp_path / "memory" / "v0.json").read_text(encoding="utf-8")
    assert text == json.dumps(made.document, indent=2, ensure_ascii=False) + "\n"
    assert before <= datetime.fromisoformat(made.document["timestamp"]) <= datetime.now(UTC)
    rest = {k: v for k, v in made.document.items() if k not in ("version", "timestamp", "masked")}
    stated = [v for v in json.loads(json.dumps(rest), object_hook=lambda o: [*o.values()]) if v]
    assert {leaf for member in stated for leaf in _flat(member)} == {None, 0}  # 0: experiments listed
    assert sorted(p.name for p in (tmp_path / "memory").iterdir()) == ["v0.json"]


def _flat(value: object) -> list:
    return [leaf for member in value for leaf in _flat(member)] if isinstance(value, list) else [value]


def test_create_overwrites_nothing(tmp_path: Path) -> None:
    create(tmp_path, "v0")
    put(tmp_path, "performance.latency_us=12.5")
    with pytest.raises(MemoryExistsError, match=r"v0\.json exists\n  = change it with"):
        create(tmp_path, "v0")
    assert read(tmp_path).value("performance.latency_us") == 12.5


@pytest.mark.parametrize("version", ["0", "v", "v01", "V1", "v1.json", "../v1", "v1\n", "v-1"])
def test_a_version_is_v_and_a_number(version: str, tmp_path: Path) -> None:
    with pytest.raises(MemoryVersionError):
        create(tmp_path, version)
    assert not (tmp_path / "memory").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("performance.latency_us=12.3", 12.3),
        ("performance.latency_us=null", None),
        ("performance.measured_shape_count=3", 3),
        ("performance.latency_us_by_shape.m16.n4096=7.25", 7.25),
        ("correctness.status=PASS", "PASS"),
        ('correctness.status="PASS"', "PASS"),
        ("optimization.action_description=tile=128,256,64; déjà vu", "tile=128,256,64; déjà vu"),
        ("optimization.action_description=4096", "4096"),
        ("git_commit_hash=" + "1" * 40, "1" * 40),
        ("git_commit_hash=null", None),
        ("masked=true", True),
    ],
)
def test_values_have_the_type_of_their_field(text: str, value: object, tmp_path: Path) -> None:
    create(tmp_path, "v0")
    put(tmp_path, text)
    found = read(tmp_path, "v0", include_masked=True).value(text.partition("=")[0])
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("field", "nearest"),
    [
        ("performance.latncy_us", "performance.latency_us"),
        ("latency_us", "performance.latency_us"),
        ("correct.status", "correctness.status"),
        ("quality_gate.status", "quality_gate.result"),
        ("pitfalls_and_fixes.0.leson", "pitfalls_and_fixes.lesson"),
        ("performance.comparison_with_previous.latency", "performance.comparison_with_previous.latency_delta"),
        ("references.last.description", "references.description"),
    ],
)
def test_a_typo_names_the_nearest_field(field: str, nearest: str, tmp_path: Path) -> None:
    with pytest.raises(MemoryFieldError, match=rf"there is no field {field}\n  = nearest: {nearest}$"):
        parse_assignment(f"{field}=1")
    create(tmp_path, "v0")
    with pytest.raises(MemoryFieldError, match=rf"v0\.json: there is no field {field}\n  = nearest: {nearest}$"):
        update(memory_file(tmp_path, "v0"), [Assignment(field, 1)])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["performance.latency_us=0"], "performance.latency_us: 0 is less than or equal to the minimum"),
        (["performance.tflops_peak_utilization_pct=104"], "104 is greater than the maximum of 100"),
        (["correctness.status=OK"], "correctness.status: 'OK' is not one of"),
        (["git_commit_hash=abc"], "git_commit_hash: 'abc' does not match"),
        (["version=v1"], "version: 'v1' in a file named v0.json"),
        (["timestamp=2026-02-30T00:00:00Z"], "timestamp: day is out of range"),
        (["timestamp=2026-02-03T00:00:00+02:00"], "does not match"),
        (["optimization.action_category=swizzle"], r"\(v0 is the baseline\)"),
        (["quality_gate.result=PASS"], r"correctness.status: 'PASS' was expected \(the gate passes for"),
        (
            ["correctness.status=FAIL", "performance.latency_us=3"],
            r"latency_us: 3 is not of type 'null' \(a kernel that",
        ),
        (["experience.recorded_experiment_count=2"], "not 0, the number of experiments listed"),
        (["performance=null"], "performance: None is not of type 'object'"),
        (["performance={}"], "'latency_us' is a required property"),
        (['open_directions=[{"direction": "a"}]'], "'rationale' is a required property"),
    ],
)
def test_what_the_schema_excludes_is_not_written(texts: list[str], message: str, tmp_path: Path) -> None:
    create(tmp_path, "v0")
    before = memory_file(tmp_path, "v0").read_bytes()
    with pytest.raises(MemoryInvalidError, match=message):
        put(tmp_path, *texts)
    assert memory_file(tmp_path, "v0").read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "performance.latency_us=fast",
        "performance.latency_us=NaN",
        "performance.latency_us=1e999",
        "performance.latency_us=",
        "performance.latency_us_by_shape=[1",
        'performance.latency_us_by_shape={"a": 1, "a": 2}',
        "masked=yes",
        "masked",
        "=3",
    ],
)
def test_values_that_are_no_json_of_the_type(text: str) -> None:
    with pytest.raises(AssignmentError):
        parse_assignment(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\udcff"])
def test_what_json_cannot_hold_is_refused_from_python_too(value: object, tmp_path: Path) -> None:
    create(tmp_path, "v0")
    field = "optimization.expected_impact" if isinstance(value, str) else "correctness.rel_err"
    with pytest.raises(MemoryInvalidError):
        update(memory_file(tmp_path, "v0"), [Assignment(field, value)])
    read(tmp_path)


def test_lists_grow_and_the_listed_experiments_are_counted(tmp_path: Path) -> None:
    create(tmp_path, "v0")
    for index in range(2):
        put(tmp_path, f"experience.experiments={json.dumps(EXPERIMENT | {'index': index})}", append=True)
    experience = put(tmp_path, "experience.experiments.1.decision=continue", "experience.experiment_count=3")[
        "experience"
    ]
    assert experience["recorded_experiment_count"] == 2
    assert [e["decision"] for e in experience["experiments"]] == ["revert", "continue"]
    with pytest.raises(MemoryInvalidError, match="experiment_count: 1 is less than the 2 listed"):
        put(tmp_path, "experience.experiment_count=1")
    with pytest.raises(
        MemoryFieldError, match=r"experience.experiments.0.why\n  = nearest: experience.experiments.\w+$"
    ):
        put(tmp_path, "experience.experiments.0.why=1")
    with pytest.raises(AssignmentError, match="there is no entry 2 in a list of 2"):
        put(tmp_path, "experience.experiments.2.name=x")
    with pytest.raises(AssignmentError, match=r"correctness\.status is not a list"):
        put(tmp_path, "correctness.status=PASS", append=True)


def test_an_unknown_field_of_an_entry_is_named_with_its_place(tmp_path: Path) -> None:
    create(tmp_path, "v0")
    entry = {"direction": "cluster 2x1", "rational": "A is read twice"}
    with pytest.raises(MemoryFieldError, match=r"open_directions.0.rational\n  = nearest: open_directions.rationale"):
        put(tmp_path, f"open_directions={json.dumps(entry)}", append=True)


def test_at_most_three_open_directions(tmp_path: Path) -> None:
    create(tmp_path, "v0")
    text = 'open_directions={"direction": "another tile", "rationale": null}'
    put(tmp_path, text, text, text, append=True)
    with pytest.raises(MemoryInvalidError, match=r"open_directions: .* is too long"):
        put(tmp_path, text, append=True)


def test_a_shape_that_was_not_measured_has_no_value(tmp_path: Path) -> None:
    create(tmp_path, "v0")
    put(tmp_path, "performance.latency_us_by_shape.a.b=2.5")
    assert read(tmp_path).value("performance.latency_us_by_shape") == {"a.b": 2.5}
    with pytest.raises(AssignmentError, match=r"latency_us_by_shape.c: it has a\.b"):
        read(tmp_path).value("performance.latency_us_by_shape.c")


def test_an_assignment_below_a_value_that_is_no_object(tmp_path: Path) -> None:
    create(tmp_path, "v0")
    with pytest.raises(AssignmentError, match="performance was set to 5 before"):
        put(tmp_path, "performance=5", "performance.latency_us=1")


def test_masked_files_are_skipped_unless_asked_for(tmp_path: Path) -> None:
    for version in ("v0", "v9", "v10"):
        create(tmp_path, version)
    assert versions(tmp_path) == ("v0", "v9", "v10") and read(tmp_path).version == "v10"
    mask(tmp_path, "v10")
    assert read(tmp_path).version == "v9" and [m.version for m in summary(tmp_path)] == ["v0", "v9"]
    with pytest.raises(MemoryMaskedError, match="is masked"):
        read(tmp_path, "v10")
    assert read(tmp_path, "v10", include_masked=True).masked and read(tmp_path, include_masked=True).version == "v10"
    assert len(summary(tmp_path, include_masked=True)) == 3
    unmask(tmp_path, "v10")
    assert read(tmp_path).version == "v10"
    for version in versions(tmp_path):
        mask(tmp_path, version)
    with pytest.raises(NoMemoryError, match="3 masked"):
        read(tmp_path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MemoryMissingError, match="versions there: none"):
        mask(tmp_path, "v0")
    assert not (tmp_path / "memory").exists() and summary(tmp_path) == ()
    create(tmp_path, "v0")
    with pytest.raises(MemoryMissingError, match=r"v1\.json\n  = versions there: v0;"):
        read(tmp_path, "v1")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"rel_err": null', '"rel_err": NaN', MemorySyntaxError),
        ('"rel_err": null', '"rel_err": 1e999', MemorySyntaxError),
        ('"rel_err": null', '"rel_err": null, "rel_err": 1', MemorySyntaxError),
        ('"rel_err": null', '"rel_er": null', MemoryFieldError),
        ('  "masked": false,\n', "", MemoryInvalidError),
        ('"version": "v0"', '"version": "v3"', MemoryInvalidError),
        ("{", "[", MemorySyntaxError),
        ("{", "[" * 100_000, MemorySyntaxError),
        ("v0", "\udcff", MemorySyntaxError),
    ],
)
def test_files_are_validated_when_read(old: str, new: str, error: type[KgenError], tmp_path: Path) -> None:
    file = create(tmp_path, "v0").file
    file.write_bytes(file.read_text().replace(old, new, 1).encode("utf-8", "surrogateescape"))
    for reader in (read, summary):
        with pytest.raises(error, match=r"v0\.json"):
            reader(tmp_path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = create(tmp_path, "v0").file
    before = file.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        put(tmp_path, "correctness.status=PASS")
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert put(tmp_path, "correctness.status=PASS")["correctness"]["status"] == "PASS"
    assert [p.name for p in file.parent.iterdir()] == ["v0.json"]


def _append(workspace: Path, worker: int) -> None:
    for index in range(10):
        entry = {"source": f"{worker}/{index}", "query": None, "finding": None, "actionability": None}
        put(workspace, f"search_log={json.dumps(entry)}", append=True)


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    create(tmp_path, "v0")
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_append, args=(tmp_path, worker)) for worker in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {e["source"] for e in read(tmp_path).value("search_log")} == {
        f"{w}/{i}" for w in range(3) for i in range(10)
    }
