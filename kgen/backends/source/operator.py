"""The operator of a kernel.py whose spec names one: torch.compile and torch.export keep the kernel whole.

What they need to know of it without running it, the types of its results, stands in a table beside it.
"""

from collections.abc import Mapping

from kgen.backends.source.file_text import allocated_tensors, plan_key
from kgen.backends.source.lines import Lines, bracketed, tuple_text
from kgen.ir.problem import TensorRole
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.target import Arch


def with_operator(
    host: str,
    name: str | None,
    programs: Mapping[str, Program],
    names: Mapping[str, str],
    arch: Arch,
    described: Lines = (),
) -> str:
    """Return the host code with the operator `name` ("namespace::name") behind it, if there is to be one.

    `described` is the body that makes the results as types alone, where no table of shapes has them all.
    """
    if name is None:
        return host
    return "\n".join((host.rstrip("\n"), *_lines(name, programs, names, arch, described), ""))


def _lines(name: str, programs: Mapping[str, Program], names: Mapping[str, str], arch: Arch, described: Lines) -> Lines:
    program = next(iter(programs.values()))
    arguments = tuple(names[a.name] for a in program.arguments)
    options = (
        f'"{name}"',
        f"mutates_args={tuple_text(_quoted(_updated(program, names)))}",
        f"schema={_schema(program, names)}",
    )
    before, after = ("", "") if not program.results else ("return ", "[0]" if _is_one_in_a_tuple(program) else "")
    return (
        "",
        "",
        *(() if described else _table(programs, arch)),
        *bracketed("@torch.library.custom_op(", options, ")"),
        *bracketed("def operator(", arguments, "):"),
        '    """`kernel` as an operator that torch.compile and torch.export keep whole."""',
        *(f"    {line}" for line in bracketed(f"{before}kernel(", arguments, f"){after}", indent=4)),
        "",
        "",
        "@operator.register_fake",
        *bracketed("def described(", arguments, "):"),
        '    """The results of `operator` as types alone."""',
        *(f"    {line}" for line in bracketed("tensors = [", arguments, "]", indent=4)),
        *(f"    {line}" for line in described or _found(program, arguments[0])),
    )


def _table(programs: Mapping[str, Program], arch: Arch) -> Lines:
    return (
        "# Shapes of the arguments -> shape, strides and element type of each result.",
        "RESULTS = {",
        *(f"    {line}" for case in programs.values() for line in _entry(case, arch)),
        "}",
        "",
        "",
    )


def _found(program: Program, first: str) -> Lines:
    """Return the statements that make the results as types alone from the table."""
    made = {0: "None", 1: "made[0]"}.get(len(program.results), "tuple(made)")
    return (
        "found = RESULTS.get(tuple(tuple(t.shape) for t in tensors))",
        "if found is None:",
        "    raise ValueError(refusal(*tensors))",
        f"device = {first}.device",
        "made = [torch.empty_strided(shape, stride, dtype=dtype, device=device) for shape, stride, dtype in found]",
        f"return {made}",
    )


def _schema(program: Program, names: Mapping[str, str]) -> str:
    """Return the operator's schema; an argument that is written carries an alias mark."""
    updated = _updated(program, names)
    marks = {name: f"(a{number}!)" for number, name in enumerate(updated)}
    arguments = [names[a.name] for a in program.arguments]
    taken = ", ".join(f"Tensor{marks.get(argument, '')} {argument}" for argument in arguments)
    made = ", ".join("Tensor" for _ in program.results)
    return f'"({taken}) -> {made}"' if len(program.results) == 1 else f'"({taken}) -> ({made})"'


def _updated(program: Program, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments that are written in place."""
    written = {t.name for p in program.problems for t in p.tensors if t.role is TensorRole.UPDATED}
    return tuple(names[a.name] for a in program.arguments if a.name in written)


def _quoted(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f'"{word}"' for word in words)


def _is_one_in_a_tuple(program: Program) -> bool:
    """Return whether the reference returns a tuple of one tensor, which a schema cannot say."""
    return program.returns_tuple and len(program.results) == 1


def called(name: str | None, program: Program) -> tuple[str, str]:
    """Return what stands before and after the arguments where a module calls its kernel."""
    if name is None:
        return "kernel(", ")"
    return ("(operator(", "),)") if _is_one_in_a_tuple(program) else ("operator(", ")")


def _entry(program: Program, arch: Arch) -> Lines:
    made = allocated_tensors(program)
    return (*plan_key(program), *(f"    {_result(made[result], arch)}," for result in program.results), "),")


def _result(type_: TensorType, arch: Arch) -> str:
    return f"({tuple_text(type_.static_shape)}, {tuple_text(type_.strides)}, {arch.torch_name(type_.dtype)})"
