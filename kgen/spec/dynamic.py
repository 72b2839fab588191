"""An extent that is left to run time: which one it is, and the values of it that tests run at.

A spec without cases whose extents have one range leaves that one to run time. Its cases are then values of the range,
a test each.
"""

from collections.abc import Mapping

from kgen.errors.spec import (
    CasesAndTestsError,
    DynamicStrideError,
    FixedByTestCaseError,
    NarrowRangeError,
    RangeTooWideError,
    SeveralRangesError,
    UnusedDynamicExtentError,
    ValueForTestsError,
)
from kgen.ir.tensor import ExtentRange
from kgen.spec.document import RangeBlock, SpecDocument
from kgen.spec.model import Case, DynamicExtent, InputSpec, input_type
from kgen.spec.yaml_text import Document

MOST = 2**31 - 1  # kernels count in 32 bits
DynamicAxes = Mapping[str, Mapping[int, tuple[int, int]]]  # argument -> axis -> lowest and highest extent
Extents = dict[str, int | ExtentRange]


def dynamic_extent(document: Document, checked: SpecDocument, extents: Extents) -> DynamicExtent | None:
    """Return the extent that is left to run time, or None. Raises a `BadInputError` where there could be no kernel."""
    ranges = [extent for extent in extents.values() if isinstance(extent, ExtentRange)]
    if checked.cases:
        for extent in ranges:
            if _block(checked, extent.name).tests is not None:
                where = document.where(("extents", extent.name, "tests"), key=True)
                raise CasesAndTestsError(where=where, name=extent.name)
        return None
    if len(ranges) > 1:
        where = document.where(("extents", ranges[1].name), key=True)
        raise SeveralRangesError(where=where, names=" and ".join(extent.name for extent in ranges))
    if not ranges:
        return None
    (extent,) = ranges
    if extent.hi > MOST:
        where = document.where(("extents", extent.name, "range", 1))
        raise RangeTooWideError(where=where, name=extent.name, hi=extent.hi, limit=MOST)
    if len([value for value in representative(extent) if value]) < 2:
        where = document.where(("extents", extent.name, "range"))
        raise NarrowRangeError(where=where, name=extent.name, allowed=extent, example=representative(extent)[-1])
    if checked.fixed_by_case:
        raise FixedByTestCaseError(where=document.where(("fixed_by_case",), key=True), name=extent.name)
    return DynamicExtent(extent, document.where(("extents", extent.name), key=True))


def tested_cases(
    document: Document, checked: SpecDocument, extents: Extents, dynamic: DynamicExtent
) -> tuple[Case, ...]:
    """Return a case for each value that the tests run at: those that the spec lists, else representative ones.

    The two largest of the latter are always there: what the kernel does at run time follows from two values.
    """
    name, listed = dynamic.name, _block(checked, dynamic.name).tests
    for position, value in enumerate(listed or ()):
        if not holds(dynamic.range, value):
            where = document.where(("extents", name, "tests", position))
            example = representative(dynamic.range)[-1]
            raise ValueForTestsError(where=where, name=name, value=value, allowed=dynamic.range, example=example)
    chosen = representative(dynamic.range)
    values = tuple(sorted({*listed, *chosen[-2:]})) if listed else chosen
    return cases_at(extents, name, values)


def cases_at(extents: Extents, name: str, values: tuple[int, ...]) -> tuple[Case, ...]:
    """Return a case for each value of the extent `name`; the other extents are numbers."""
    fixed = {other: extent for other, extent in extents.items() if isinstance(extent, int)}
    return tuple(
        Case(f"{name}_{value}", tuple((n, value if n == name else fixed[n]) for n in extents)) for value in values
    )


def holds(extent: ExtentRange, value: int) -> bool:
    """Return whether a range holds a value."""
    return extent.lo <= value <= extent.hi and value % extent.multiple_of == 0


def representative(extent: ExtentRange) -> tuple[int, ...]:
    """Return values of a range that stand for all: its ends, powers of four, and ragged ones between them."""
    step = extent.multiple_of
    lowest, highest = -(-extent.lo // step) * step, extent.hi // step * step
    powers = [4**i for i in range(16)]
    wanted = [lowest, *powers, *(3 * power + 1 for power in powers[1:]), highest]
    inside = {-(-value // step) * step for value in wanted if lowest <= value <= highest}
    return tuple(sorted(value for value in inside if value <= highest))


def check_inputs(
    document: Document, inputs: tuple[InputSpec, ...], cases: tuple[Case, ...], dynamic: DynamicExtent
) -> None:
    """Raise where no input has the extent, or where one's strides follow from it: a kernel has them as constants."""
    name = dynamic.name
    if not any(name in spec.shape for spec in inputs):
        raise UnusedDynamicExtentError(where=dynamic.where, name=name)
    for spec in inputs:
        by_name = {stride for stride in (spec.leading, *(spec.strides or ())) if stride == name}
        if by_name or len({input_type(spec, case).strides for case in cases if case.value(name)}) > 1:
            where = document.where(("inputs", spec.name))
            raise DynamicStrideError(where=where, input=spec.name, name=name)


def _block(checked: SpecDocument, name: str) -> RangeBlock:
    block = checked.extents[name]
    assert isinstance(block, RangeBlock)
    return block
