"""Every printed op compiles for sm_90a in every type: one kernel per type applies them all, each result is stored."""

import json
import os
from pathlib import Path

import pytest
from test_expressions import CARRIED, CONSTANTS, forms, operands_of

from kgen.backends.cutedsl.expressions import library_source, loaded, memory, print_ops, stored
from kgen.check import check_packages
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Map

pytestmark = pytest.mark.emitted

KERNEL = """
from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream


@dataclass(frozen=True)
class Variant:
    name: str


VARIANTS = (Variant("all"),)


{library}


@cute.kernel
def apply(x: cute.Tensor, outs):
    i = cute.arch.thread_idx()[0]
{body}


@cute.jit
def launch(x: cute.Tensor, outs, stream):
    apply(x, outs).launch(grid=(1, 1, 1), block=(128, 1, 1), stream=stream)


def vector(dtype):
    return make_fake_compact_tensor(dtype, (4096 * 128,), stride_order=(0,), assumed_align=16)


def compile_variant(name):
    outs = ({outs},)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(launch, vector({kind}), outs, stream, options="--enable-tvm-ffi")
"""


def maps(dtype: DType, *, approximate: bool) -> list[Map]:
    """Return every op on values, and on constants where a printed number may stand; and casts to every type."""
    found = []
    number = Const(True) if dtype is DType.BOOL else Const(3)
    for _, op in forms(dtype, approximate=approximate):
        operands = operands_of(op)
        if op is Op.WHERE:
            operands = [("p0", "x0", "x1"), ("p0", "x0", number), ("p0", number, "x1")]
        elif op.arity == 2 and op not in CONSTANTS:
            operands = [("x0", "x1"), ("x0", number), (number, "x1")]
        result = DType.BOOL if op.is_predicate else dtype
        found += [Map(f"r{len(found) + k}", op, o, result) for k, o in enumerate(operands)]
    return found + [Map(f"cast_{target}", Op.CAST, ("x0",), target) for target in DType]


def statements(dtype: DType, ops: list[Map], *, approximate: bool) -> tuple[list[str], list[str]]:
    """Return the body of the kernel, and the types of its results."""
    lines = [f"x{k} = {loaded(f'x[i + {128 * k}]', dtype)}" for k in range(2)]
    lines.append("p0 = x[i + 256].to(cutlass.Float32) > 0.5" if dtype.is_float else "p0 = x[i + 256] != 0")
    names = {name: name for name in ("x0", "x1", "p0")}
    types = {"x0": dtype, "x1": dtype, "p0": DType.BOOL}
    outs: list[DType] = []
    for op in ops:
        lines += [f"# {op}", *print_ops((op,), names, types, approximate=approximate)]
        outs += [] if op.dtype in outs else [op.dtype]
        at = f"outs[{outs.index(op.dtype)}][i + {128 * len(lines)}]"
        lines.append(f"{at} = {stored(names[op.result], op.dtype, op.dtype)}")
    return lines, [f"vector({memory(out)})" for out in outs]


def compiled(dtype: DType, ops: list[Map], folder: Path, *, approximate: bool = False) -> str:
    """Return the SASS of the kernel that applies the ops."""
    lines, outs = statements(dtype, ops, approximate=approximate)
    library = "\n\n\n".join(library_source(line for line in lines if not line.startswith("#")))
    body = "\n".join(f"    {line}" for line in lines)
    text = KERNEL.format(kind=memory(dtype), outs=", ".join(outs), library=library, body=body)
    folder.mkdir()
    (folder / "kernel.py").write_text(text, encoding="utf-8")
    # the reduction of large angles in fp64 keeps digits of pi in local memory
    spills = 8 if dtype is DType.FP64 else 0
    evidence = [{"variant": "all", "mma": "none", "threads": 128, "spills": spills}]
    plan = {"name": folder.name, "target": {"device": "h200", "arch": "sm_90a"}, "evidence": evidence}
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    (result,) = check_packages([folder], jobs=1)
    assert result.ok, os.linesep.join(map(str, result.findings))
    return result.variants[0].listing


def drops_nan(sass: str) -> list[str]:
    """Return the plain forms of max and min, which drop a NaN; libdevice's atan2 has them of magnitudes."""
    return [line for line in sass.splitlines() if "FMNMX " in line and "|" not in line]


@pytest.mark.parametrize("dtype", CARRIED)
def test_every_op_compiles(dtype: DType, tmp_path: Path) -> None:
    ops = maps(dtype, approximate=False)
    sass = compiled(dtype, ops, tmp_path / "pointwise")
    if dtype is DType.FP32:
        assert "FMNMX.NAN" in sass
        assert not drops_nan(sass)


def test_every_approximation_compiles(tmp_path: Path) -> None:
    sass = compiled(DType.FP32, maps(DType.FP32, approximate=True), tmp_path / "pointwise", approximate=True)
    assert not drops_nan(sass)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP16, DType.FP8_E4M3, DType.FP8_E5M2])
def test_narrow_elements_compile(dtype: DType, tmp_path: Path) -> None:
    casts = [op for op in maps(DType.FP32, approximate=False) if op.op is Op.CAST]
    compiled(dtype, casts, tmp_path / "pointwise")


def test_approximations_call_no_subroutine(tmp_path: Path) -> None:
    """A division by IEEE's rules is a subroutine; per element that is more than a memory-bound kernel can hide."""
    ops = (Op.EXP, Op.SIGMOID, Op.SILU, Op.GELU_ERF, Op.GELU_TANH, Op.MISH, Op.SOFTPLUS, Op.DIV, Op.SQRT, Op.RECIPROCAL)
    wanted = [op for op in maps(DType.FP32, approximate=True) if op.op in ops]
    sass = compiled(DType.FP32, wanted, tmp_path / "pointwise", approximate=True)
    assert "CALL" not in sass
    assert len([line for line in sass.splitlines() if " /*" in line]) < 60 * len(wanted)
