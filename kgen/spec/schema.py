"""The JSON Schema of a spec file, as `kgen schema` prints it."""

from kgen.spec.document import SpecDocument

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def spec_schema() -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a spec file."""
    return {"$schema": DRAFT, **SpecDocument.model_json_schema()}
