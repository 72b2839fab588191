"""Each wrong spec of `tests/errors` is refused with exactly the message of the text file beside it.

`KGEN_WRITE_MESSAGES=1` writes the messages anew; read the difference before you keep it.
"""

import os
import shutil
from pathlib import Path

import pytest

from kgen.errors import BadInputError, KgenError, UnsupportedError
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace
from kgen.spec.load import load_spec

FOLDER = Path(__file__).parent.parent / "errors"
WRONG = sorted(FOLDER.glob("*.yaml"))


def refusal(path: Path) -> KgenError:
    try:
        spec = load_spec(path)
        lower(trace(spec, spec.cases[0]), spec)
    except KgenError as error:
        return error
    raise AssertionError(f"{path.name} is not refused")


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_message(path: Path) -> None:
    error = refusal(path)
    expected = path.with_suffix(".txt")
    if os.environ.get("KGEN_WRITE_MESSAGES"):
        expected.write_text(f"{error}\n", encoding="utf-8")
    assert f"{error}\n" == expected.read_text(encoding="utf-8")
    assert error.where is not None and error.where.file == path.name
    assert isinstance(error, BadInputError | UnsupportedError)


def test_every_message_has_a_spec_and_there_are_enough() -> None:
    assert {p.stem for p in FOLDER.glob("*.txt")} == {p.stem for p in WRONG}
    assert len(WRONG) >= 25


def test_messages_do_not_depend_on_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("unknown_key", "file_missing", "sorted_rows", "reference_syntax"):
        copy = Path(shutil.copy(FOLDER / f"{name}.yaml", tmp_path))
        monkeypatch.chdir(tmp_path)
        assert str(refusal(Path(copy.name))) == str(refusal(FOLDER / f"{name}.yaml"))
