"""A checked document to a `Spec`: what needs more than one key at once, each finding with its place in the text."""

from pathlib import Path

from kgen.errors.spec import (
    EmptyRangeError,
    ExtentOutOfRangeError,
    ReferenceSignatureError,
    StrideError,
    UnboundExtentError,
    UnknownNameError,
    ValuesError,
)
from kgen.ir.dtype import DType
from kgen.ir.problem import Precision
from kgen.ir.tensor import ExtentRange
from kgen.spec.document import InputBlock, RangeBlock, SpecDocument
from kgen.spec.dynamic import check_inputs, dynamic_extent, tested_cases
from kgen.spec.model import (
    Accepts,
    Case,
    Dimension,
    FixedAxis,
    InputSpec,
    Reference,
    Spec,
    Tolerance,
    default_tolerance,
    input_type,
)
from kgen.spec.reference_source import resolve_reference, signature_of
from kgen.spec.validate import place_name, suggest
from kgen.spec.yaml_text import Document
from kgen.spec.yaml_text import Path as KeyPath

DEFAULT_CASE = "default"


def resolve_spec(document: Document, checked: SpecDocument, folder: Path) -> Spec:
    """Return the spec that a document means; `folder` is where its file references are looked up."""
    extents = tuple((name, _extent(document, name, extent)) for name, extent in checked.extents.items())
    inputs = tuple(_input(document, name, block, dict(extents)) for name, block in checked.inputs.items())
    dynamic = dynamic_extent(document, checked, dict(extents))
    cases = (
        tested_cases(document, checked, dict(extents), dynamic) if dynamic else _cases(document, checked, dict(extents))
    )
    for spec in inputs:
        _check_strides(document, spec, cases)
    if dynamic:
        check_inputs(document, inputs, cases, dynamic)
    reference = resolve_reference(document, ("reference",), checked.reference, folder)
    _check_signature(document, reference, inputs)
    incumbent = checked.incumbent
    return Spec(
        checked.name,
        document.file,
        reference,
        inputs,
        extents,
        cases,
        _tolerance(checked, inputs),
        tuple(checked.targets),
        _fixed(document, checked, tuple(case.id for case in cases)),
        Accepts(16 if checked.accepts.base_alignment == 16 else 1),
        resolve_reference(document, ("incumbent",), incumbent, folder) if incumbent else None,
        Precision(checked.precision or Precision.DEFAULT),
        checked.operator,
        tuple(document.where(("targets", position)) for position in range(len(checked.targets))),
        dynamic,
    )


def _fixed(document: Document, checked: SpecDocument, cases: tuple[str, ...]) -> tuple[FixedAxis, ...]:
    found = []
    for axis, block in checked.fixed.items():
        where = document.where(("fixed", axis, "value"))
        found.append(FixedAxis(axis, _fixed_value(block.value), block.because, where))
    for case, axes in checked.fixed_by_case.items():
        key: KeyPath = ("fixed_by_case", case)
        if case not in cases:
            where, advice = document.where(key, key=True), suggest(case, cases, "case")
            raise UnknownNameError(where=where, place=place_name(key), name=case, kind="a case", suggestion=advice)
        for axis, block in axes.items():
            where = document.where((*key, axis, "value"))
            found.append(FixedAxis(axis, _fixed_value(block.value), block.because, where, case))
    return tuple(found)


def _fixed_value(value: object) -> bool | int | str | tuple[int, ...]:
    if isinstance(value, list):
        return tuple(value)
    assert isinstance(value, bool | int | str)
    return value


def _tolerance(checked: SpecDocument, inputs: tuple[InputSpec, ...]) -> Tolerance:
    precision = Precision(checked.precision or Precision.DEFAULT)
    default = default_tolerance(tuple(i.dtype for i in inputs), precision)
    given = checked.tolerance
    return Tolerance(default.rel_err if given.rel_err is None else given.rel_err, given.atol)


def _extent(document: Document, name: str, extent: int | RangeBlock) -> int | ExtentRange:
    if isinstance(extent, int):
        return extent
    lo, hi = extent.range
    resolved = ExtentRange(name, lo, hi, extent.multiple_of)
    if lo > hi or _nearest(resolved, lo) is None:
        where = document.where(("extents", name, "range"))
        raise EmptyRangeError(where=where, name=name, lo=lo, hi=hi, multiple_of=extent.multiple_of)
    return resolved


def _nearest(extent: ExtentRange, value: int) -> int | None:
    """Return the valid value at or above `value` (or the largest one below the top), if there is any."""
    step = extent.multiple_of
    above = -(-max(value, extent.lo) // step) * step
    below = extent.hi // step * step
    candidate = min(above, below)
    return candidate if candidate >= extent.lo else None


def _input(document: Document, name: str, block: InputBlock, extents: dict[str, int | ExtentRange]) -> InputSpec:
    path: KeyPath = ("inputs", name)
    for key, listed in (("shape", block.shape), ("strides", block.strides or [])):
        for position, dimension in enumerate(listed):
            _check_dimension(document, (*path, key, position), dimension, extents)
    if block.leading is not None:
        _check_dimension(document, (*path, "leading"), block.leading, extents)
    return InputSpec(
        name,
        DType(block.dtype),
        tuple(block.shape),
        _order(document, path, name, block),
        block.leading,
        tuple(block.strides) if block.strides is not None else None,
        _values(document, path, name, block),
    )


def _values(document: Document, path: KeyPath, name: str, block: InputBlock) -> tuple[int | float, int | float] | None:
    if block.values is None:
        return None
    lowest, end = block.values
    dtype = DType(block.dtype)
    if lowest < end and (dtype.is_float or (isinstance(lowest, int) and isinstance(end, int) and dtype != DType.BOOL)):
        return lowest, end
    raise ValuesError(where=document.where((*path, "values")), name=name, values=block.values, dtype=dtype)


def _check_dimension(
    document: Document, path: KeyPath, dimension: Dimension, extents: dict[str, int | ExtentRange]
) -> None:
    if isinstance(dimension, str) and dimension not in extents:
        raise UnknownNameError(
            where=document.where(path),
            place=place_name(path),
            name=dimension,
            kind="an extent",
            suggestion=suggest(dimension, tuple(extents), "extent"),
        )


def _order(document: Document, path: KeyPath, name: str, block: InputBlock) -> tuple[int, ...] | None:
    rank = len(block.shape)
    given = [k for k in ("layout", "order", "strides") if getattr(block, k) is not None]
    reason = fix = ""
    if len(given) > 1:
        reason, fix = f"{given[0]} and {given[1]} exclude each other", f"keep one of {' and '.join(given)}"
    elif block.strides is not None and block.leading is not None:
        given, reason, fix = ["leading"], "strides and leading exclude each other", "write the padding into the strides"
    elif block.strides is not None and len(block.strides) != rank:
        reason, fix = f"{len(block.strides)} strides for {rank} axes", "give one stride per axis"
    elif block.order is not None and sorted(block.order) != list(range(rank)):
        reason, fix = f"the order {block.order} is no permutation of the axes", f"permute {list(range(rank))}"
    elif (block.layout == "col" or block.leading is not None) and rank < 2:
        given = ["layout" if block.layout == "col" else "leading"]
        reason, fix = f"{given[0]} needs two axes and the shape has {rank}", f"drop {given[0]}"
    if reason:
        raise StrideError(where=document.where((*path, given[-1])), name=name, reason=reason, fix=fix)
    if block.layout == "col":
        return (*range(rank - 2), rank - 1, rank - 2)
    return tuple(block.order) if block.order is not None else None


def _cases(document: Document, checked: SpecDocument, extents: dict[str, int | ExtentRange]) -> tuple[Case, ...]:
    given = checked.cases or {DEFAULT_CASE: {}}
    return tuple(_case(document, case_id, bound, extents) for case_id, bound in given.items())


def _case(document: Document, case_id: str, bound: dict[str, int], extents: dict[str, int | ExtentRange]) -> Case:
    path: KeyPath = ("cases", case_id)
    for name in bound:
        if name not in extents:
            raise UnknownNameError(
                where=document.where((*path, name), key=True),
                place=place_name(path),
                name=name,
                kind="an extent",
                suggestion=suggest(name, tuple(extents), "extent"),
            )
    return Case(case_id, tuple((n, _bound(document, path, (n, e), bound.get(n))) for n, e in extents.items()))


def _bound(document: Document, path: KeyPath, extent: tuple[str, int | ExtentRange], value: int | None) -> int:
    name, allowed = extent
    if isinstance(allowed, int):
        return allowed if value is None else value
    case_id = path[-1]
    if value is None:
        where = document.where(path if path in document.values else ("extents", name), key=True)
        raise UnboundExtentError(where=where, case=case_id, extent=name, example=_nearest(allowed, allowed.hi))
    if not (allowed.lo <= value <= allowed.hi) or value % allowed.multiple_of:
        raise ExtentOutOfRangeError(
            where=document.where((*path, name)),
            case=case_id,
            extent=name,
            value=value,
            allowed=allowed,
            example=_nearest(allowed, value),
        )
    return value


def _check_strides(document: Document, spec: InputSpec, cases: tuple[Case, ...]) -> None:
    if spec.leading is None:
        return
    fastest = spec.order[-1] if spec.order else len(spec.shape) - 1
    for case in cases:
        extent, leading = input_type(spec, case).static_shape[fastest], case.value(spec.leading)
        if leading < extent:
            where = document.where(("inputs", spec.name, "leading"))
            reason = f"leading {leading} is shorter than a row of {extent} elements in case {case.id!r}"
            raise StrideError(where=where, name=spec.name, reason=reason, fix=f"give at least {extent}")


def _check_signature(document: Document, reference: Reference, inputs: tuple[InputSpec, ...]) -> None:
    signature = signature_of(reference)
    if signature is None:
        return
    names = tuple(i.name for i in inputs)
    taken = signature.names[: len(names)]
    if (
        names[: len(taken)] == taken
        and signature.required <= len(names)
        and (len(names) <= len(signature.names) or signature.rest)
    ):
        return
    missing = [n for n in signature.names[: signature.required] if n not in names]
    unknown = [n for n in names if n not in signature.names]
    hint = f"missing: {', '.join(missing)}" if missing else f"too many: {', '.join(unknown)}"
    if not missing and not unknown:
        hint = "the order differs"
    raise ReferenceSignatureError(
        where=document.where(("inputs",), key=True),
        entry=reference.entry,
        parameters=", ".join(signature.names),
        inputs=", ".join(names),
        suggestion=hint,
    )
