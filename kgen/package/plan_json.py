"""The JSON texts of a package: `plan.json`, read by `kgen check` and by the writer, and `shapes.json`, by the test."""

import json
from dataclasses import asdict
from hashlib import sha256

from kgen.errors.package import ShapesError
from kgen.ir.problem import ProblemTensor
from kgen.ir.program import Buffer
from kgen.package.constraints import constraints_of
from kgen.package.folder import GENERATOR, text_digest
from kgen.package.incumbent import incumbent_json
from kgen.package.limits import worst_rel_err
from kgen.package.parts import Evidence, PackageParts
from kgen.package.work import work_of
from kgen.planning.plan import Variant
from kgen.render.digest import template_digests
from kgen.spec.model import FixedAxis

TEST_TEMPLATE = "package/test_kernel.py.j2"
LINE = 120
WORK = ("flops", "bytes_read", "bytes_written")


def plan_text(parts: PackageParts, files: tuple[str, ...]) -> str:
    """Return `plan.json`; `files` are the names of all files of the package."""
    spec, device = parts.spec, parts.plan.device
    templates = template_digests(parts.kernel_template, TEST_TEMPLATE)
    return json_text(
        {
            "generator": GENERATOR,
            "name": spec.name,
            "family": parts.plan.family,
            "target": {"device": device.name, "arch": device.arch.isa},
            "computation": [line for problem in parts.problems for line in str(problem).splitlines()],
            "cut": list(parts.plan.cut),
            "buffers": [_buffer(b) for b in parts.program.buffers],
            "input_digest": input_digest(parts),
            "kernel_digest": text_digest(parts.kernel),
            "templates": dict(templates),
            "files": sorted(files),
            "tolerance": {"rel_err": worst_rel_err(parts), "atol": spec.tolerance.atol},
            "product_dtype": parts.product_dtype,
            "outputs": [_output(t) for t in parts.results],
            "work": {w.case: {name: getattr(w, name) for name in WORK} for w in work_of(parts)},
            "incumbent": incumbent_json(spec.incumbent),
            "constraints": [asdict(c) for c in constraints_of(parts)],
            "evidence": [_evidence(e) for e in parts.evidence],
            "fixed": [_fixed(f) for f in spec.fixed],
            "variants": [_variant(v) for v in parts.plan.variants],
        }
    )


def _evidence(evidence: Evidence) -> dict[str, object]:
    """Return what a variant's machine code must show; of stores across a cluster only where there are any."""
    stated = asdict(evidence)
    if not evidence.cluster_stores:
        del stated["cluster_stores"]
    return stated


def _fixed(axis: FixedAxis) -> dict[str, object]:
    only = {} if axis.case is None else {"case": axis.case}
    return {"axis": axis.axis, "value": axis.value, "because": axis.because, **only}


def _output(tensor: ProblemTensor) -> dict[str, object]:
    return {"name": tensor.name, "dtype": str(tensor.type.dtype)}


def _buffer(buffer: Buffer) -> dict[str, object]:
    return {"name": buffer.name, "dtype": str(buffer.type.dtype), "shape": list(buffer.type.static_shape)}


def shapes_text(parts: PackageParts) -> str:
    """Return `shapes.json`: of each case, the constructor's arguments and those of `_make_inputs`."""
    init: dict[str, object] | None = None
    if parts.is_module:
        init = dict(parts.init_kwargs)
        for name, value in init.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ShapesError(name=name, value=value) from error
    return json_text({c.id: {"init_kwargs": init, "input_kwargs": dict(c.extents)} for c in parts.spec.cases})


def input_digest(parts: PackageParts) -> str:
    """Return a digest of everything the user decided: reference, inputs, cases, tolerance, fixed axes."""
    spec = parts.spec
    decided = (parts.reference, spec.inputs, spec.extents, spec.cases, spec.tolerance, spec.accepts, parts.init_kwargs)
    fixed = tuple((f.axis, f.value, f.because, f.case) for f in spec.fixed)
    programs = tuple(str(program) for _, program in parts.programs)
    return sha256(
        repr(
            (spec.name, *decided, fixed, spec.incumbent, programs, *([spec.operator] if spec.operator else []))
        ).encode()
    ).hexdigest()


def _variant(variant: Variant) -> dict[str, object]:
    candidates = variant.candidates
    return {
        "name": variant.name,
        "case": variant.case,
        "kernel": variant.kernel,
        "guard": [{"tensor": tensor, "base_align_bytes": count} for tensor, count in variant.guard.base_align],
        "choice": variant.choice.to_json(),
        "runners_up": [r.to_json() for r in variant.runners_up],
        "points": candidates.total_points,
        "legal": candidates.legal_count,
        "rejections": [
            {"rule": r.rule, "place": r.place, "removed": r.removed, "because": r.because}
            for r in candidates.rejections
        ],
    }


def json_text(value: object) -> str:
    """Return JSON, a value on one line where it fits into one: a diff then shows one line per fact."""
    return f"{_json(value, '')}\n"


def _json(value: object, indent: str) -> str:
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    inner = indent + "  "
    if len(inner) + len(flat) <= LINE and indent:
        return flat
    match value:
        case dict():
            items = [f"{inner}{json.dumps(str(name))}: {_json(part, inner)}" for name, part in value.items()]
            return "\n".join(("{", ",\n".join(items), f"{indent}}}")) if items else flat
        case list() | tuple():
            items = [f"{inner}{_json(part, inner)}" for part in value]
            return "\n".join(("[", ",\n".join(items), f"{indent}]")) if items else flat
        case _:
            return flat
