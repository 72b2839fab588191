"""Axes that a measurement decided, written into a spec: nothing else in the file changes."""

from pathlib import Path

import pytest
from command_line import ROOT

from kgen.spec.load import load_spec, parse_spec
from kgen.spec.model import FixedAxis
from kgen.spec.update import fixed_block, write_fixed

SPEC = """\
# what this is for
name: "two"   # quoted
reference: |
  def product(a, b):
      # the product
      return a @ b
inputs:
    a: {shape: [M, K], dtype: bf16}   # four columns in
    b: {shape:   [K, N],  dtype: bf16}

extents: {N: 256, K: 128, M: {range: [1, 8192]}}
cases: {few: {M: 128}, many: {M: 4096}}
targets:
  - h200  # the only one
fixed:
  stages: {value: 4, because: 'by hand: "four"'}  # a remark
# the end
"""
FEW = (FixedAxis("tile_n", 64, "measured: 0.9 of the time", None, "few"),)
MANY = (FixedAxis("tile_n", 256, "measured", None, "many"), FixedAxis("schedule", "pingpong", "it is", None, "many"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "two.yaml").write_text(SPEC)
    return tmp_path / "two.yaml"


def decided(file: Path) -> list[tuple[str | None, str, object, str]]:
    return [(f.case, f.axis, f.value, f.because) for f in load_spec(file).fixed]


BY_HAND = (None, "stages", 4, 'by hand: "four"')


def test_comments_order_and_spelling_stay(file: Path) -> None:
    write_fixed(file, FEW)
    assert file.read_text() == f"{SPEC}{fixed_block(FEW)}"
    assert decided(file) == [BY_HAND, ("few", "tile_n", 64, "measured: 0.9 of the time")]
    assert [p.name for p in file.parent.iterdir()] == ["two.yaml"]


# Cases of an extent of run time share their plans: nothing is decided for one of them.
NAMES = sorted(p.name for p in (ROOT / "specs").glob("*.yaml") if "dynamic" not in p.name)


@pytest.mark.parametrize("name", NAMES)
def test_specs_of_this_repository_change_nowhere_else(name: str, tmp_path: Path) -> None:
    text = (ROOT / "specs" / name).read_text()
    file = tmp_path / name
    file.write_text(text)
    case = parse_spec(text, ROOT / "specs" / name).cases[0].id
    write_fixed(file, (FixedAxis("stages", 3, "measured", None, case),))
    lines, before = file.read_text().splitlines(), text.splitlines()
    assert [line for line in lines if line in before] == before
    assert ("stages", 3) in [(f.axis, f.value) for f in load_spec_beside(file, name).fixed_for(case)]


def load_spec_beside(file: Path, name: str):
    return parse_spec(file.read_text(), ROOT / "specs" / name)


def test_a_second_case_is_added(file: Path) -> None:
    write_fixed(file, FEW)
    write_fixed(file, MANY)
    assert decided(file) == [
        BY_HAND,
        ("few", "tile_n", 64, "measured: 0.9 of the time"),
        ("many", "tile_n", 256, "measured"),
        ("many", "schedule", "pingpong", "it is"),
    ]
    assert file.read_text().startswith(SPEC) and file.read_text().count("fixed_by_case:") == 1


def test_a_second_measurement_replaces_what_it_decides_of_the_same_case_only(file: Path) -> None:
    write_fixed(file, (*FEW, *MANY))
    write_fixed(file, (FixedAxis("tile_n", 128, "measured again", None, "many"),))
    assert decided(file)[1:] == [
        ("few", "tile_n", 64, "measured: 0.9 of the time"),
        ("many", "tile_n", 128, "measured again"),
        ("many", "schedule", "pingpong", "it is"),
    ]
    text = file.read_text()
    write_fixed(file, (FixedAxis("tile_n", 128, "measured again", None, "many"),))
    assert file.read_text() == text


def test_remarks_between_decided_cases_stay(file: Path) -> None:
    block = """\
fixed_by_case:
  # before few
  few:  # beside few
    # before tile_n
    tile_n: {value: 64, because: "by hand"}  # beside tile_n
    # before stages
    stages: {value: 3, because: "by hand"}
  # before many
  many:
    tile_n: {value: 128, because: "by hand"}
# after all
tolerance: {rel_err: 0.02}
"""
    file.write_text(SPEC + block)
    write_fixed(file, (FixedAxis("tile_n", 96, "measured", None, "few"),))
    old, new = '{value: 64, because: "by hand"}  #', '{value: 96, because: "measured"} #'
    wanted = block.replace(old, new)
    assert file.read_text() == SPEC + wanted


@pytest.mark.parametrize(
    "because",
    ["plain", "a: b # c", "- 'x' \"y\"", "{braces}, [brackets]", "µs — ü", "x" * 300, "yes", "", "3", "@%&*!|>"],
)
def test_every_reason_survives(file: Path, because: str) -> None:
    reason = because or "said"
    axes = (FixedAxis("tile_n", 64, reason, None, "few"),)
    write_fixed(file, axes)
    assert decided(file)[1:] == [("few", "tile_n", 64, reason)]
    assert fixed_block(axes).count("\n") == 3  # a line per decision


def test_the_block_loads_as_a_part_of_a_spec() -> None:
    axes = (*FEW, *MANY)
    text = fixed_block(axes)
    assert text.startswith("fixed_by_case:\n  few:\n    tile_n: {value: 64, because: ")
    spec = parse_spec(SPEC + text, Path("two.yaml"))
    assert spec.fixed[1:] == axes
    assert spec.fixed_for("few") == (spec.fixed[0], *FEW) and spec.fixed_for("many") == (spec.fixed[0], *MANY)


def test_line_endings_stay(file: Path) -> None:
    file.write_bytes(SPEC.replace("\n", "\r\n").encode())
    write_fixed(file, FEW)
    assert file.read_bytes() == f"{SPEC}{fixed_block(FEW)}".replace("\n", "\r\n").encode()


def test_a_file_without_a_last_line_break(file: Path) -> None:
    file.write_text(SPEC.rstrip("\n"))
    write_fixed(file, FEW)
    assert file.read_text() == f"{SPEC}{fixed_block(FEW)}"


def test_a_writer_that_cannot_write_leaves_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise OSError("full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="full"):
        write_fixed(file, FEW)
    assert file.read_text() == SPEC


@pytest.mark.parametrize("empty", ["fixed_by_case:\n", "fixed_by_case: {}\n", "fixed_by_case:\n  few:\n"])
def test_a_key_that_decides_nothing_yet(file: Path, empty: str) -> None:
    file.write_text(f"{empty}\n# what this is\n{SPEC}")
    write_fixed(file, FEW)
    assert file.read_text().endswith(f"\n# what this is\n{SPEC}")
    assert decided(file) == [BY_HAND, ("few", "tile_n", 64, "measured: 0.9 of the time")]


def test_a_spec_of_one_line(file: Path) -> None:
    file.write_text("{name: two, cases: {few: {M: 1}}}\n")
    write_fixed(file, FEW)
    write_fixed(file, MANY[:1])
    text = file.read_text()
    assert text.count("\n") == 1 and text.startswith("{name: two, cases: {few: {M: 1}}, fixed_by_case: {few: {tile_n: ")
    assert text.endswith("many: {tile_n: {value: 256, because: measured}}}}\n")
