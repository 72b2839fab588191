"""The JSON Schema of memory files: it is valid, closed, and names what the packages promise to record."""

from collections.abc import Iterator
from typing import Any

import jsonschema

from kgen.bench.memory_fields import empty_document, memory_schema, nearest_field

FIELDS = {
    "version masked timestamp performance optimization profile_evidence experience correctness isa_metric_progress "
    "search_log pitfalls_and_fixes references open_directions quality_gate git_commit_hash": (),
    "latency_us latency_us_by_shape latency_us_geomean latency_us_arith_mean speedup_vs_ref_geomean tflops "
    "bandwidth_gbps tflops_peak_utilization_pct bandwidth_peak_utilization_pct comparison_with_previous "
    "measurement_scope shape_ids_are_opaque measurement_status measured_shape_count": ("performance",),
    "latency_delta tflops_delta bandwidth_delta": ("performance", "comparison_with_previous"),
    "action_category action_description expected_impact risks_and_rollback": ("optimization",),
    "tool_used evidence_summary bottleneck_type evidence_chain": ("profile_evidence",),
    "experiment_count recorded_experiment_count experiments": ("experience",),
    "index name hypothesis change evidence result decision": ("experience", "experiments"),
    "rel_err status max_abs_err max_rel_err": ("correctness",),
    "metric target current met": ("isa_metric_progress",),
    "source query finding actionability": ("search_log",),
    "error_type error_message root_cause fix_applied lesson": ("pitfalls_and_fixes",),
    "source_type path_or_url description": ("references",),
    "direction rationale": ("open_directions",),
    "result failure_reason": ("quality_gate",),
}


def followed(schema: dict[str, Any]) -> dict[str, Any]:
    if "items" in schema:
        return followed(schema["items"])
    return memory_schema()["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    schema = followed(schema)
    if "properties" in schema:
        yield schema
        for member in schema["properties"].values():
            yield from objects(member)


def test_the_schema_is_valid_and_names_every_field() -> None:
    jsonschema.Draft202012Validator.check_schema(memory_schema())
    for names, path in FIELDS.items():
        schema = memory_schema()
        for step in path:
            schema = followed(schema["properties"][step])
        assert set(schema["properties"]) == set(names.split()), path


def test_every_object_is_closed_and_complete() -> None:
    found = list(objects(memory_schema()))
    assert len(found) == len(FIELDS)
    for schema in found:
        assert schema["additionalProperties"] is False and set(schema["required"]) == set(schema["properties"])


def test_an_empty_document_lacks_only_version_and_time() -> None:
    errors = jsonschema.Draft202012Validator(memory_schema()).iter_errors(empty_document())
    assert sorted(error.json_path for error in errors) == ["$.timestamp", "$.version"]
    assert empty_document()["experience"]["experiments"] is not empty_document()["experience"]["experiments"]


def test_a_field_is_its_own_nearest() -> None:
    for names, path in FIELDS.items():
        for name in names.split():
            assert nearest_field(".".join([*path, name])) == ".".join([*path, name])
