"""The JSON Schema accepts the shipped specs and refuses what the loader refuses for its form alone."""

from pathlib import Path

import jsonschema
import pytest

from kgen.spec.schema import spec_schema
from kgen.spec.yaml_text import parse_yaml

ROOT = Path(__file__).parent.parent.parent
VALIDATOR = jsonschema.Draft202012Validator(spec_schema())


def data(path: Path) -> object:
    return parse_yaml(path.read_text(), path.name).data


@pytest.mark.parametrize("path", sorted((ROOT / "specs").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_specs_are_valid(path: Path) -> None:
    VALIDATOR.validate(data(path))


@pytest.mark.parametrize(
    "name",
    ["unknown_key", "missing_dtype", "unknown_dtype", "bad_layout", "negative_extent", "fixed_without_because"],
)
def test_wrong_specs_are_invalid(name: str) -> None:
    assert not VALIDATOR.is_valid(data(ROOT / "tests" / "errors" / f"{name}.yaml"))


def test_the_schema_is_a_schema_and_describes_every_key() -> None:
    schema = spec_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all("description" in p for p in schema["properties"].values())  # type: ignore[attr-defined]
