"""Load a spec from a file: the first stage.

A `.yaml` file is read here. A Python file in place of a spec has to be executed under PyTorch, so its importer lives in
the front end and is found by the file's ending, at the call.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from kgen.errors.base import Where
from kgen.errors.spec import SpecFileError, SpecFormatError
from kgen.spec.model import Spec
from kgen.spec.resolve import resolve_spec
from kgen.spec.validate import validate
from kgen.spec.yaml_text import parse_yaml


def load_spec(path: str | Path) -> Spec:
    """Load a spec from a `.yaml` file, or from a Python file with Model, get_inputs and get_init_inputs."""
    path = Path(path)
    loader = _LOADERS.get(path.suffix)
    if loader is None:
        raise SpecFormatError(where=Where(path.name or str(path)), suffix=path.suffix, formats=" or ".join(_LOADERS))
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecFileError(where=Where(path.name), reason=error.strerror) from None
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 text (byte {error.start})"
        raise SpecFileError(where=Where(path.name), reason=reason) from None
    return loader(text, path)


def parse_spec(text: str, path: Path) -> Spec:
    """Return the spec that a YAML text means; `path` names it in errors and anchors its file references."""
    document = parse_yaml(text, path.name)
    return resolve_spec(document, validate(document), path.parent)


def _parse_module(text: str, path: Path) -> Spec:
    importer = import_module("kgen.frontend.importers")
    spec = importer.parse_module(text, path)
    assert isinstance(spec, Spec)
    return spec


_LOADERS: dict[str, Callable[[str, Path], Spec]] = {".yaml": parse_spec, ".yml": parse_spec, ".py": _parse_module}
