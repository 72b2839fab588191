"""The shape of a spec file, as pydantic sees it: the only place where pydantic is used.

The descriptions are the words of the JSON Schema. Values are checked strictly; what needs more than one key at once
(names, strides, cases against ranges) is checked by `kgen.spec.resolve`.
"""

import re
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from kgen.ir.dtype import DType

NAME = re.compile(r"[a-z][a-z0-9_]{0,79}\Z")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
OPERATOR = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}::[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
CASE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")


def _matching(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.match(value):
            raise PydanticCustomError("kgen_value", "{expected}", {"expected": expected})
        return value

    return AfterValidator(check)


def _dtype(value: str) -> str:
    if value not in list(DType):
        names = ", ".join(DType)
        near = get_close_matches(value.rsplit(".", 1)[-1], [*DType, *_TORCH_NAMES], 1, 0.6)
        hint = f" (did you mean {_TORCH_NAMES.get(near[0], near[0])}?)" if near else ""
        expected = f"a dtype{hint}: one of {names}"
        raise PydanticCustomError("kgen_value", "{expected}", {"expected": expected})
    return value


_TORCH_NAMES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float64": "fp64",
    "double": "fp64",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "long": "int64",
    "int": "int32",
}

_Name = Annotated[
    str,
    _matching(
        NAME, "a name of lower-case letters, digits and underscores, starting with a letter, of at most 80 characters"
    ),
]
_Identifier = Annotated[str, _matching(IDENTIFIER, "a Python identifier")]
_OperatorName = Annotated[str, _matching(OPERATOR, "an operator, namespace::name, both Python identifiers")]
_CaseId = Annotated[str, _matching(CASE_ID, "a case id of letters, digits, underscores and hyphens")]
_Natural = Annotated[int, Field(ge=0, le=2**63 - 1)]
_Dimension = Annotated[
    Annotated[_Natural, Tag("<int>")] | Annotated[_Identifier, Tag("<name>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<int>"),
]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ReferenceBlock(_Block):
    """The reference in its long form."""

    source: str = Field(description="Python as a literal block, file.py::name, or package.module:name")
    entry: _Identifier | None = Field(
        default=None, description="name of the function or class; needed if the block has several"
    )
    init_args: list[object] = Field(default=[], description="positional arguments of the nn.Module's constructor")
    init_kwargs: dict[_Identifier, object] = Field(
        default={}, description="keyword arguments of the nn.Module's constructor"
    )
    dtype: Literal["fp16", "bf16", "fp32", "fp64"] | None = Field(
        default=None, description="type that the nn.Module's floating-point parameters and buffers are cast to"
    )


class InputBlock(_Block):
    """One input tensor."""

    shape: list[_Dimension] = Field(description="extents: numbers or names, e.g. [M, K]")
    dtype: Annotated[str, AfterValidator(_dtype)] = Field(
        description="element type", json_schema_extra={"enum": [*DType]}
    )
    layout: Literal["row", "col"] | None = Field(
        default=None, description="row: last axis contiguous; col: last two axes swapped"
    )
    order: list[_Natural] | None = Field(default=None, description="axes from the slowest to the fastest varying one")
    leading: _Dimension | None = Field(
        default=None, description="padded stride of the second-fastest axis, in elements"
    )
    strides: list[_Dimension] | None = Field(
        default=None, description="strides in elements, in place of the three others"
    )
    values: Annotated[list[int | float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="[lowest, end] of what the tests draw, the end excluded; default: any sign, around 0"
    )


class RangeBlock(_Block):
    """An extent known only to lie in a range; of a spec without cases, the kernel takes it at run time."""

    range: Annotated[list[_Natural], Field(min_length=2, max_length=2)] = Field(description="[lowest, highest]")
    multiple_of: Annotated[int, Field(ge=1)] = Field(default=1, description="every value is a multiple of it")
    tests: Annotated[list[_Natural], Field(min_length=1)] | None = Field(
        default=None,
        description="values that the tests run at, in a spec without cases; default: chosen from the range",
    )


_Extent = Annotated[
    Annotated[_Natural, Tag("<int>")] | Annotated[RangeBlock, Tag("<range>")],
    Discriminator(lambda value: "<range>" if isinstance(value, dict | RangeBlock) else "<int>"),
]


class ToleranceBlock(_Block):
    """How far the kernel's result may be from the reference's."""

    rel_err: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, description="limit on ||out - reference|| / ||reference||"
    )
    atol: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, description="limit on the absolute error of one element"
    )


def _fixed(value: object) -> object:
    plain = isinstance(value, bool | int | str)
    if not plain and not (isinstance(value, list) and value and all(type(v) is int for v in value)):
        expected = "a number, a name, true or false, or a list of numbers"
        raise PydanticCustomError("kgen_value", "{expected}", {"expected": expected})
    return value


_FixedValue = Annotated[object, AfterValidator(_fixed)]


class FixedBlock(_Block):
    """A decision taken out of kgen's hands."""

    value: _FixedValue = Field(description="value of the axis: a number, a name, true or false, or a list of numbers")
    because: Annotated[str, Field(min_length=1)] = Field(description="the reason, which is printed into the plan")


class AcceptsBlock(_Block):
    """What the kernel accepts."""

    base_alignment: Literal["any", 16] = Field(
        default="any", description="bytes every base address is a multiple of, or any"
    )


_Reference = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[ReferenceBlock, Tag("<block>")],
    Discriminator(lambda value: "<block>" if isinstance(value, dict | ReferenceBlock) else "<text>"),
]


class SpecDocument(_Block):
    """A kgen spec: what to compute, on which inputs, and for which devices."""

    name: _Name = Field(description="name of the package: <op>_<dtypes>_<fused>")
    reference: _Reference = Field(description="the PyTorch meaning")
    inputs: Annotated[dict[_Identifier, InputBlock], Field(min_length=1)] = Field(
        description="arguments of the reference, in order"
    )
    extents: dict[_Identifier, _Extent] = Field(default={}, description="named extents: a number, or a range")
    cases: dict[_CaseId, dict[_Identifier, _Natural]] = Field(
        default={}, description="case id: extents bound in that case"
    )
    tolerance: ToleranceBlock = Field(default=ToleranceBlock(), description="default: by the coarsest input dtype")
    targets: list[_Name] = Field(default=[], description="devices to generate for")
    fixed: dict[_Identifier, FixedBlock] = Field(default={}, description="axes of the candidate that are decided here")
    fixed_by_case: dict[_CaseId, dict[_Identifier, FixedBlock]] = Field(
        default={}, description="case id: axes that are decided here for that case alone"
    )
    accepts: AcceptsBlock = Field(
        default=AcceptsBlock(), description="what the kernel accepts beyond its inputs' types"
    )
    incumbent: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="an existing kernel to compare with: file.py::name or module:name"
    )
    precision: Literal["tf32", "ieee"] | None = Field(
        default=None,
        description="products of fp32 operands: tf32, as torch.backends.cuda.matmul.fp32_precision, or by FMA alone",
    )
    operator: _OperatorName | None = Field(
        default=None, description="namespace::name: kernel.py registers itself with torch.library under it"
    )
