"""The tensors an epilogue reads, each under the Python name its strides and elements go by in the kernel."""

from dataclasses import dataclass

from kgen.families.gemm.form import GemmForm, OutputAccess

_MATRICES = ("a", "b", "d")  # whose strides are fields of the row already


@dataclass(frozen=True, slots=True)
class FusedTensor:
    """A distinct way the epilogue reads a tensor: `argument` is the tensor's Python name, `name` this reading's."""

    name: str
    argument: str
    source: OutputAccess


def fused_tensors(form: GemmForm, names: dict[str, str]) -> tuple[FusedTensor, ...]:
    """Return the distinct readings in order; a second reading of one tensor gets a number."""
    found: list[FusedTensor] = []
    for load in form.epilogue_loads:
        if any(f.source == load.source for f in found):
            continue
        argument = names[load.source.tensor]
        count = sum(f.argument == argument for f in found)
        name = f"{argument}_fused" if argument in _MATRICES or count else argument
        found.append(FusedTensor(f"{name}_{count}" if count else name, argument, load.source))
    return tuple(found)


def fused_values(form: GemmForm, fused: tuple[FusedTensor, ...]) -> tuple[tuple[str, FusedTensor], ...]:
    """Return every SSA value that is loaded, with the reading it comes from."""
    return tuple((load.value, next(f for f in fused if f.source == load.source)) for load in form.epilogue_loads)
