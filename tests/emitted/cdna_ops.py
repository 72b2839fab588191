"""Every printed op in one type, on its corner cases, executed in the simulator: the program of a subprocess.

    python tests/emitted/cdna_ops.py mi300x fp32        ops; "casts" for conversions between all types

Prints a line for each op that is wrong, and how many were tried. tests/unit and tests/gpu are on the path.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from map_eval import evaluated
from test_expressions import CONSTANTS, inputs_of, operands_of, values_of

from kgen.backends.flydsl.expressions import flydsl
from kgen.backends.flydsl.forms import FORMS
from kgen.backends.source.dialect import carried_dtype
from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Map
from kgen.target import load_device

KERNEL = """
import flydsl.compiler as flyc
import flydsl.expr as fx


{library}


def get(tensor, i):
    kind = tensor.element_type
    held = fx.make_rmem_tensor(1, kind)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy(kind.width), kind)
    fx.copy(atom, fx.make_view(fx.get_iter(tensor) + i, fx.make_layout(1, 1)), held)
    return held.load()[0]


def put(tensor, i, value):
    kind = tensor.element_type
    held = fx.make_rmem_tensor(1, kind)
    held.store(fx.Vector.from_elements([kind(value)], kind))
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy(kind.width), kind)
    fx.copy(atom, held, fx.make_view(fx.get_iter(tensor) + i, fx.make_layout(1, 1)))


@flyc.kernel
def apply({parameters}):
{bounded}
    i = fx.block_idx.x * 64 + fx.thread_idx.x
{body}


@flyc.jit
def launch({parameters}, stream: fx.Stream, n: fx.Constexpr[int]):
    apply({names}).launch(grid=(n, 1, 1), block=(64, 1, 1), stream=stream)
"""


@dataclass(frozen=True)
class Trial:
    """An op on inputs, and how near the result has to be."""

    op: Map
    inputs: dict[str, tuple[torch.Tensor, DType]]
    rtol: float
    approximate: bool = False


class Bench:
    """Executes trials for one device."""

    def __init__(self, name: str) -> None:
        from cdna_simulation import Simulation

        self.device = load_device(name)
        self.words, self.simulation = flydsl(self.device.arch.fp8), Simulation(self.device)
        names = {d: self.device.arch.torch_name(d).removeprefix("torch.") for d in DType}
        self.types = {d: getattr(torch, n) for d, n in names.items()}

    def run(self, trial: Trial) -> torch.Tensor:
        """Return the results of a trial."""
        import flydsl.compiler as flyc
        import flydsl.expr as fx

        from kgen.check.flydsl.executor import CHOICES

        given = {f"{name}_in": as_bytes(padded(t)) for name, (t, _) in trial.inputs.items()}
        count = max(len(t) for t in given.values())
        out = torch.zeros(count, dtype=self.types[trial.op.dtype])
        tensors = {**given, "out": as_bytes(out)}
        module = loaded(self.text(trial, list(tensors)))
        placeholders = [flyc.from_torch_tensor(t.to("meta"), assumed_align=16) for t in tensors.values()]
        function = flyc.compile(module.launch, *placeholders, fx.Stream(None), count // 64)
        self.simulation.memory.clear()
        self.simulation.memory.put(*tensors.values())
        with self.simulation.executor.on(self.simulation.memory, CHOICES[0]):
            function(*tensors.values(), fx.Stream(0))
        (execution,) = self.simulation.executor.take_executions()
        assert execution.report is not None and not execution.report.findings, execution.report
        return out[: max(len(t) for t, _ in trial.inputs.values())]

    def text(self, trial: Trial, names: list[str]) -> str:
        """Return the kernel of a trial."""
        types = {name: dtype for name, (_, dtype) in trial.inputs.items()}
        lines = [f"{name} = {self.words.loaded(f'get({name}_in, i)', dtype)}" for name, dtype in types.items()]
        known = {name: name for name in types}
        lines += self.words.print_ops((trial.op,), known, types, approximate=trial.approximate)
        lines.append(f"put(out, i, {self.words.stored(known[trial.op.result], trial.op.dtype, trial.op.dtype)})")
        return KERNEL.format(
            library="\n\n\n".join(self.words.library_source(lines)),
            parameters=", ".join(f"{name}: fx.Tensor" for name in names),
            bounded="\n".join(f"    {n} = fx.rocdl.make_buffer_tensor({n}, max_size=False)" for n in names),
            names=", ".join(names),
            body="\n".join(f"    {line}" for line in lines),
        )

    def fault(self, trial: Trial) -> str | None:
        """Return what is wrong with a trial."""
        found, op = self.run(trial), trial.op
        inputs = trial.inputs
        if op.op is Op.CAST:
            expected = inputs["x0"][0].to(self.types[op.dtype])
        else:
            dtype = carried_dtype(op.dtype) if not op.op.is_predicate else next(iter(inputs.values()))[1]
            numbers = [
                torch.tensor(o.value, dtype=TORCH_DTYPES[dtype]) if isinstance(o, Const) else inputs[o][0]
                for o in op.operands
            ]
            rows = zip(*torch.broadcast_tensors(*numbers), strict=True)
            expected = torch.stack([evaluated(op, list(row)) for row in rows])
        one, other = (x.double() if op.dtype.is_float else x for x in (found, expected))
        if op.dtype.is_float:
            right = torch.isclose(one, other, rtol=trial.rtol, atol=trial.rtol / 20, equal_nan=True)
        else:
            right = one == other
        wrong = (~right).nonzero().flatten()[:3].tolist()
        return f"{[(found[i].item(), expected[i].item()) for i in wrong]}" if wrong else None


def padded(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose length is a multiple of 64."""
    missing = -len(tensor) % 64
    return torch.cat([tensor, tensor[:1].repeat(missing)]) if missing else tensor.contiguous()


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return bools and fp8 as the bytes that kernels see."""
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool or "float8" in str(tensor.dtype) else tensor


def loaded(text: str) -> Any:
    """Return the module of a text: the DSL reads a kernel's source from its file."""
    file = Path(tempfile.mkdtemp()) / "apply_op.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("apply_op", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trials_of(dtype: DType) -> Iterator[Trial]:
    """Yield every op in a type, exact and approximate."""
    for approximate in (False, True) if dtype is DType.FP32 else (False,):
        for op in Op:
            form = FORMS.of(op, dtype, approximate=approximate)
            if form is None or (approximate and form == FORMS.of(op, dtype)):
                continue
            rtol = 1e-12 if dtype is DType.FP64 else 1e-5 if approximate else 4e-6
            for operands in operands_of(op):
                result = DType.BOOL if op.is_predicate else dtype
                yield Trial(Map("out", op, operands, result), inputs_of(op, dtype), rtol, approximate)


def casts(bench: Bench) -> Iterator[Trial]:
    """Yield the conversions between all types, exact; of fp8 all bytes, to fp8 the ties of its binades."""
    ties = torch.cat([torch.arange(-1100, 1100) * s for s in (2.0**-13, 2.0**-6, 2.0**-1, 2.0**7)])
    for source in DType:
        is_fp8 = source.is_float and source.bits == 8
        x = torch.arange(256, dtype=torch.uint8).view(bench.types[source]) if is_fp8 else values_of(source)
        if source.is_float and not is_fp8:
            x = torch.cat([x, ties.to(x.dtype)])
        for target in DType:
            kept = x
            if source.is_float and not target.is_float and target is not DType.BOOL:
                wide = x.double()  # beyond the type's range torch promises nothing
                kept = x[(wide.abs() < 2.0 ** (min(target.bits, 32) - 1)) & (wide >= 0)]
            yield Trial(Map("out", Op.CAST, ("x0",), target), {"x0": (kept, source)}, 0.0)


def main() -> None:
    """Run the trials of a type."""
    torch.set_grad_enabled(False)
    bench, which = Bench(sys.argv[1]), sys.argv[2]
    tried = 0
    for trial in casts(bench) if which == "casts" else trials_of(DType(which)):
        tried += 1
        try:
            fault = bench.fault(trial)
        except Exception as error:
            fault = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if fault:
            source = next(iter(trial.inputs.values()))[1]
            print(f"WRONG {trial.op.op} of {source} to {trial.op.dtype}: {fault}", flush=True)
    print(f"{tried} tried; constants of {len(CONSTANTS)} ops among them")


if __name__ == "__main__":
    main()
