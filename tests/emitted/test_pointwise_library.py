"""Every printed op compiles for sm_90a: one kernel applies them all, each result is stored."""

import json
import os
from pathlib import Path

import pytest
from test_expressions import ONE_VALUE, PREDICATES, TWO_VALUES, operands_of

from kgen.backends.cutedsl.expressions import library_source, print_ops
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

COUNT = {count}


@dataclass(frozen=True)
class Variant:
    name: str


VARIANTS = (Variant("all"),)


{library}


@cute.kernel
def apply(x: cute.Tensor, out: cute.Tensor):
    i = cute.arch.thread_idx()[0]
    x0, x1, x2 = x[i], x[i + 128], x[i + 256]
    p0, p1 = x0 > 0.5, x1 > 0.5
{body}


@cute.jit
def launch(x: cute.Tensor, out: cute.Tensor, stream):
    apply(x, out).launch(grid=(1, 1, 1), block=(128, 1, 1), stream=stream)


def compile_variant(name):
    x = make_fake_compact_tensor(cutlass.Float32, (384,), stride_order=(0,), assumed_align=16)
    out = make_fake_compact_tensor(cutlass.Float32, (128 * COUNT,), stride_order=(0,), assumed_align=16)
    return cute.compile(launch, x, out, make_fake_stream(use_tvm_ffi_env_stream=True), options="--enable-tvm-ffi")
"""


def maps() -> list[Map]:
    """Return every op on values, and on constants where a printed number may stand."""
    found = [Map("out", op, operands, DType.FP32) for op in ONE_VALUE for operands in operands_of(op)]
    for op in TWO_VALUES:
        dtype = DType.BOOL if op.is_predicate else DType.FP32
        for operands in (("x0", "x1"), ("x0", Const(0.3)), (Const(-2.0), "x1")):
            found.append(Map("out", op, operands, dtype))
    for op in PREDICATES:
        found.append(Map("out", op, ("p0", "p1")[: op.arity], DType.BOOL))
    for values in (("x0", "x1"), ("x0", Const(float("-inf"))), (Const(0), "x1")):
        found.append(Map("out", Op.WHERE, ("p0", *values), DType.FP32))
    found.append(Map("out", Op.MUL, ("x0", "p1"), DType.FP32))
    return found + [Map("out", Op.CAST, ("x0",), dtype) for dtype in (DType.BF16, DType.FP16, DType.FP32)]


def lines_of(index: int, op: Map) -> list[str]:
    names = {name: name for name in ("x0", "x1", "x2", "p0", "p1")}
    printed = print_ops((op,), names)
    value = names["out"]
    stored = f"select({value}, 1.0, 0.0)" if op.dtype is DType.BOOL else value
    return [f"# {op}", *printed, f"out[i + {128 * index}] = {stored}"]


def test_every_op_compiles(tmp_path: Path) -> None:
    lines = [line for index, op in enumerate(maps()) for line in lines_of(index, op)]
    library = library_source(line for line in lines if not line.startswith("#"))
    body = "\n".join(f"    {line}" for line in lines)
    folder = tmp_path / "pointwise"
    folder.mkdir()
    text = KERNEL.format(count=len(maps()), library="\n\n\n".join(library), body=body)
    (folder / "kernel.py").write_text(text, encoding="utf-8")
    evidence = [{"variant": "all", "mma": "none", "threads": 128, "spills": 0}]
    plan = {"name": "pointwise", "target": {"device": "h200", "arch": "sm_90a"}, "evidence": evidence}
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    (result,) = check_packages([folder], jobs=1)
    assert result.ok, os.linesep.join(map(str, result.findings))
    sass = result.variants[0].sass
    # max, min and what is made of them keep a NaN: the plain forms of these instructions drop it
    assert "FMNMX.NAN" in sass
    assert not [line for line in sass.splitlines() if "FMNMX " in line]
