"""Documents that scripts of the GPU write section by section."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))

import records
import sections

LACKING = {"one": "## one\n\nno\n", "two": "## two\n\nno\n", "three": "## three\n\nno\n"}


def test_what_was_not_measured_again_stays_where_it_is():
    before = "# Old\n\n## by hand\n\nkept\n\n## three\n\nold three\n\n### within\n\nkept, too\n"
    text = sections.renewed("# New\n", before, {"two": "## two\n\nnew two\n"}, LACKING)
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# New",
        "## one",
        "## two",
        "## by hand",
        "## three",
        "### within",
    ]
    assert "new two" in text and "old three" in text and "kept, too" in text and text.count("\nno\n") == 1
    assert sections.renewed("# New\n", text, {}, LACKING) == text


def test_a_record_names_no_folder_of_the_machine():
    words = records._shown(
        [str(Path(records.__file__)), "--suite", "/somewhere/level1", "--out", "/tmp/x", "--only", "3"]
    )
    assert words == ["tests/gpu/records.py", "--suite", "level1", "--only", "3"]
