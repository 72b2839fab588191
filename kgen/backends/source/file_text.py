"""Text that files of every family have: rules, and in the host code signatures, keys of PLAN, tensors that are made."""

import textwrap
from collections.abc import Callable, Iterable

from kgen.backends.source.file_views import CheckView, RulesView, UnreadView
from kgen.backends.source.lines import LINE, Lines, bracketed, listed, tuple_text
from kgen.ir.dtype import DType
from kgen.ir.problem import TensorRole
from kgen.ir.program import Program
from kgen.ir.tensor import Extent, ExtentRange, TensorType
from kgen.planning.plan import Variant
from kgen.rules.specialise import KernelRules

TypeName = Callable[[DType], str]
_KEY_LINE = 100  # a longer key has a line for each shape


def rules_view(name: str, rules: KernelRules) -> RulesView:
    """Return rules as the kernel carries them, under the name of a variant or of a load path."""
    derived = tuple(f"{let} = {code}" for let, code in rules.derived)
    checks = (CheckView((*string_lines(c.text), f"{c.condition},", *string_lines(c.because))) for c in rules.checks)
    return RulesView(name, derived, tuple(checks))


def signature_entry(name: str, element: str, type_: TensorType, align: int) -> Lines:
    """Return the entry of one tensor. The DSL has no extent of 0; a variant that never runs is compiled for 1.

    An extent of run time is `EXTENT`, one that follows from it in another way any number.
    """
    shape = tuple_text(tuple(_compiled_extent(extent) for extent in type_.shape))
    items = (element, shape, tuple_text(type_.strides), str(align))
    line = f"({', '.join(items)}),  # {name}"
    return (line,) if len(line) <= LINE - 8 else (f"# {name}", *bracketed("(", items, "),", indent=8))


def _compiled_extent(extent: Extent) -> str:
    if isinstance(extent, ExtentRange):
        return "EXTENT" if extent.name.isidentifier() else "cute.sym_int()"
    assert isinstance(extent, int)
    return str(max(extent, 1))


def plan_key(program: Program) -> Lines:
    """Return the lines that open an entry of PLAN: the shapes of the arguments."""
    shapes = [tuple_text(a.type.static_shape) for a in program.arguments]
    key = f"{tuple_text(shapes)}: ("
    return (key,) if len(key) <= _KEY_LINE else listed("(", shapes, "): (")


def allocated_tensors(program: Program) -> dict[str, TensorType]:
    """Return the tensors that the host function allocates: results, then buffers."""
    outputs = {t.name: t.type for p in program.problems for t in p.tensors if t.role is TensorRole.OUTPUT}
    buffers = {b.name: b.type for b in program.buffers}
    return {**{n: t for n, t in outputs.items() if n not in buffers}, **buffers}


def allocation_shapes(program: Program) -> Lines:
    """Return shape and strides of each allocated tensor, as one case has them."""
    types = allocated_tensors(program).values()
    return tuple(f"({tuple_text(t.static_shape)}, {tuple_text(t.strides)})" for t in types)


def torch_type(dtype: DType) -> str:
    """Return torch's name of an element type, of fp8 that of OCP's encoding."""
    return dtype.torch_name


def allocations(program: Program, names: dict[str, str], type_name: TypeName = torch_type) -> Lines:
    """Return the statements that allocate tensors from those shapes; `type_name` is what torch calls their types."""
    return tuple(
        f"{names[tensor]} = torch.empty_strided(*made[{i}], dtype={type_name(type_.dtype)}, device=device)"
        for i, (tensor, type_) in enumerate(allocated_tensors(program).items())
    )


def base_alignment(variant: Variant) -> int:
    """Return what a variant needs of base addresses, in bytes."""
    return max((count for _, count in variant.guard.base_align), default=1)


def choices(variants: Iterable[Variant]) -> str:
    """Return the variants of a kernel with the base alignment they need; none where it writes nothing."""
    entries = [f'"{v.name}": {base_alignment(v)}' for v in variants if not v.form.is_empty]
    return f"{{{', '.join(entries)}}}"


def returned(program: Program, names: dict[str, str]) -> str:
    """Return what the host function returns."""
    results = [names[r] for r in program.results]
    return tuple_text(results) if program.returns_tuple else results[0]


def unread_arguments(
    program: Program, names: dict[str, str], read: frozenset[str], type_name: TypeName = torch_type
) -> tuple[UnreadView, ...]:
    """Return the arguments that no launch takes: the host function checks their types itself."""
    return tuple(UnreadView(names[a.name], type_name(a.type.dtype)) for a in program.arguments if a.name not in read)


def string_lines(text: str, indent: int = 12) -> Lines:
    """Return a string literal as an item of a list, in lines that fit at a column."""
    fits = len(text) <= LINE - indent - len('"",')
    parts = [text] if fits else textwrap.wrap(text, 96, drop_whitespace=False)
    return (*(f'"{part}"' for part in parts[:-1]), f'"{parts[-1]}",')
