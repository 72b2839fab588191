"""The JSON texts of a package: `plan.json`, read by `kgen check` and by the writer, and `shapes.json`, by the test."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

from kgen.errors.package import ShapesError
from kgen.families.gemm.groups import expected_words
from kgen.ir.problem import ProblemTensor
from kgen.ir.program import Buffer
from kgen.package.constraints import constraints_of
from kgen.package.folder import GENERATOR, text_digest
from kgen.package.incumbent import incumbent_json
from kgen.package.limits import worst_rel_err
from kgen.package.parts import Evidence, PackageParts
from kgen.package.work import work_of
from kgen.planning.dynamic_words import dynamic_json, served
from kgen.planning.plan import Plan, Variant
from kgen.planning.plan_gemm import GemmVariant
from kgen.render.digest import template_digests
from kgen.spec.model import FixedAxis

TEST_TEMPLATE = "package/test_kernel.py.j2"
LINE = 120
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
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
            "variants": [_variant(v) for v in parts.plan.by_case],
            **_dynamic(parts.plan),
        }
    )


def _dynamic(plan: Plan) -> dict[str, object]:
    """Return the table of an extent of run time and its plans, which the variants of the cases are some of."""
    if plan.dynamic is None:
        return {}
    plans = [_variant(v) | {"case": served(plan, v)} for v in plan.variants]
    return {"dynamic": {**dynamic_json(plan), "plans": plans}}


def _evidence(evidence: Evidence) -> dict[str, object]:
    """Return what a variant's machine code must show; what few kernels have only where they have it."""
    stated = asdict(evidence)
    return {name: value for name, value in stated.items() if value or name not in ("cluster_stores", "grid_waits")}


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
        **_groups(variant),
        "choice": variant.choice.to_json(),
        "runners_up": [r.to_json() for r in variant.runners_up],
        "points": candidates.total_points,
        "legal": candidates.legal_count,
        "rejections": [
            {"rule": r.rule, "place": r.place, "removed": r.removed, "because": r.because}
            for r in candidates.rejections
        ],
    }


def _groups(variant: Variant) -> dict[str, object]:
    """Return what is expected of groups of rows, whose ends are known at run time only."""
    if not isinstance(variant, GemmVariant) or variant.form.groups is None:
        return {}
    return {"groups": " ".join(expected_words(variant.facts, variant.choice.candidate.size.m))}


def json_text(value: object) -> str:
    """Return JSON, a value on one line where it fits into one: a diff then shows one line per fact."""
    return f"{_laid_out(_part(value), '', fits=False)}\n"


@dataclass(frozen=True, slots=True)
class _Part:
    """A value as JSON on one line; of a list or an object also its ends, and its items with their names."""

    flat: str
    ends: str = ""
    items: tuple[tuple[str, "_Part"], ...] = ()


def _part(value: object) -> _Part:
    match value:
        case dict():
            named = [(_ENCODER.encode(str(name)), _part(part)) for name, part in value.items()]
            flat = ", ".join([f"{name}: {part.flat}" for name, part in named])
            return _Part(f"{{{flat}}}", "{}", tuple((f"{name}: ", part) for name, part in named))
        case list() | tuple():
            parts = [_part(part) for part in value]
            return _Part(f"[{', '.join([part.flat for part in parts])}]", "[]", tuple(("", part) for part in parts))
        case _:
            return _Part(_ENCODER.encode(value))


def _laid_out(part: _Part, indent: str, *, fits: bool = True) -> str:
    """Return a part on one line where that `fits` into the width, else an item a line."""
    inner = indent + "  "
    if not part.items or (fits and len(inner) + len(part.flat) <= LINE):
        return part.flat
    items = [f"{inner}{name}{_laid_out(item, inner)}" for name, item in part.items]
    return "\n".join((part.ends[0], ",\n".join(items), f"{indent}{part.ends[1]}"))
