"""What may be replaced, what is compared, and which names a package may hold."""

import json

import pytest

from kgen.errors.package import FileNameError, FolderError, ForeignFilesError, OccupiedFolderError
from kgen.exchange import aside, exchange, incoming
from kgen.package.folder import compare_package, text_digest
from kgen.package.write import Measurements, Outcome, write_package


def files(version="1", extra=()):
    texts = {"kernel.py": f"VERSION = {version}\n", "plans/v0_plan.md": "plan\n", **dict.fromkeys(extra, "x\n")}
    return {**texts, "plan.json": json.dumps({"generator": "kgen", "files": sorted(texts)})}


def measure(folder, kernel):
    (folder / "measured").mkdir()
    (folder / "measured" / "report.json").write_text("{}")
    (folder / "measured" / "kernel.sha256").write_text(text_digest(kernel) + "\n")


def test_writes_exactly_the_files(tmp_path):
    written = write_package(files(), tmp_path / "a" / "p")
    assert (written.outcome, written.measurements) == (Outcome.CREATED, Measurements.NONE)
    assert not compare_package(files(), tmp_path / "a" / "p")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["p"]


def test_replaces_and_drops_files_that_are_no_longer_part(tmp_path):
    write_package(files(extra=["old.md"]), tmp_path / "p")
    assert write_package(files("2"), tmp_path / "p").outcome is Outcome.REPLACED
    assert not (tmp_path / "p" / "old.md").exists()
    assert not compare_package(files("2"), tmp_path / "p")


def test_an_equal_folder_is_left_alone(tmp_path):
    write_package(files(), tmp_path / "p")
    before = (tmp_path / "p" / "kernel.py").stat()
    assert write_package(files(), tmp_path / "p").outcome is Outcome.UNCHANGED
    assert (tmp_path / "p" / "kernel.py").stat() == before


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "p").mkdir()
    assert write_package(files(), tmp_path / "p").outcome is Outcome.REPLACED


def test_a_link_to_a_package_stays_a_link(tmp_path):
    write_package(files(), tmp_path / "p")
    (tmp_path / "link").symlink_to(tmp_path / "p")
    write_package(files("2"), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert not compare_package(files("2"), tmp_path / "p")


def test_compare_names_every_difference(tmp_path):
    write_package(files(extra=["gone.md", "other.md"]), tmp_path / "p")
    (tmp_path / "p" / "gone.md").unlink()
    (tmp_path / "p" / "__pycache__").mkdir()
    (tmp_path / "p" / "__pycache__" / "kernel.pyc").write_bytes(b"\0")
    measure(tmp_path / "p", "whatever")
    (tmp_path / "p" / "new.md").write_text("mine")
    found = compare_package(files("2", extra=["gone.md", "other.md"]), tmp_path / "p")
    assert str(found) == "missing gone.md\nextra new.md\nchanged kernel.py"


def test_compare_with_no_folder(tmp_path):
    assert compare_package(files(), tmp_path / "none").missing == ("kernel.py", "plan.json", "plans/v0_plan.md")


def test_measurements_stay_with_their_kernel(tmp_path):
    write_package(files(), tmp_path / "p")
    measure(tmp_path / "p", files()["kernel.py"])
    changed_plan = files() | {"plans/v0_plan.md": "another plan\n"}
    written = write_package(changed_plan, tmp_path / "p")
    assert (written.outcome, written.measurements) == (Outcome.REPLACED, Measurements.KEPT)
    assert (tmp_path / "p" / "measured" / "report.json").read_text() == "{}"
    written = write_package(files("2"), tmp_path / "p")
    assert written.measurements is Measurements.DROPPED
    assert "measured/ dropped" in str(written)
    assert not (tmp_path / "p" / "measured").exists()


def test_stale_measurements_go_even_when_the_files_are_equal(tmp_path):
    write_package(files(), tmp_path / "p")
    measure(tmp_path / "p", "another kernel")
    assert write_package(files(), tmp_path / "p").measurements is Measurements.DROPPED
    assert not (tmp_path / "p" / "measured").exists()


def test_refuses_a_folder_of_something_else(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "thesis.tex").write_text("precious")
    with pytest.raises(OccupiedFolderError, match=r"has no readable plan\.json"):
        write_package(files(), tmp_path / "p")
    (tmp_path / "p" / "plan.json").write_text('{"generator": "another"}')
    with pytest.raises(OccupiedFolderError, match='does not say "generator": "kgen"'):
        write_package(files(), tmp_path / "p")
    assert (tmp_path / "p" / "thesis.tex").read_text() == "precious"


def test_refuses_a_file(tmp_path):
    (tmp_path / "p").write_text("a file")
    with pytest.raises(OccupiedFolderError, match="it is a file"):
        write_package(files(), tmp_path / "p")


def test_refuses_to_lose_files_of_others(tmp_path):
    write_package(files(), tmp_path / "p")
    (tmp_path / "p" / "notes.md").write_text("mine")
    with pytest.raises(ForeignFilesError, match=r"did not write: notes\.md"):
        write_package(files("2"), tmp_path / "p")
    assert (tmp_path / "p" / "notes.md").read_text() == "mine"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", ".", "a//b", "a\\b", "measured/report.json"])
def test_refuses_names_outside(tmp_path, name):
    with pytest.raises(FileNameError):
        write_package({name: ""}, tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="File exists"):
        write_package(files(), tmp_path / "file" / "p")


class TestWithoutExchange:
    """Where the system cannot swap two folders, a writer killed between two renames is mended by the next one."""

    @pytest.fixture(autouse=True)
    def no_exchange(self, monkeypatch):
        monkeypatch.setattr("kgen.exchange.exchange", lambda one, other: False)

    def test_replaces(self, tmp_path):
        write_package(files(), tmp_path / "p")
        write_package(files("2"), tmp_path / "p")
        assert not compare_package(files("2"), tmp_path / "p")
        assert [p.name for p in tmp_path.iterdir()] == ["p"]

    def test_puts_the_old_folder_back(self, tmp_path):
        write_package(files(), tmp_path / "p")
        (tmp_path / "p").rename(aside(tmp_path / "p"))
        incoming(tmp_path / "p").mkdir()
        assert write_package(files(), tmp_path / "p").outcome is Outcome.UNCHANGED
        assert [p.name for p in tmp_path.iterdir()] == ["p"]


def test_exchange_swaps_two_folders(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("no renameat2 here")
    assert (tmp_path / "a" / "b").exists() and (tmp_path / "b" / "a").exists()
