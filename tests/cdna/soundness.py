"""Soundness of the rules for CDNA, with no GPU: legal candidates compile within the machine; what is outside does not.

    python tests/cdna/soundness.py --target mi300x             compiles the samples of every product and type
    python tests/cdna/soundness.py --target mi300x --converse  compiles the nearest points outside of the resource rules

The samples are every n/20-th legal candidate in solver order and two on the edge of each rule. One that spills, or
whose machine code has other LDS or threads than the plan, fails. A point outside of a resource rule must exceed the
machine: it spills, does not compile, or asks for more LDS than there is.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
from choices import PRODUCTS, Base, Point, Product, base_of, sampled_rows, write_choice

from kgen.check import CheckResult, check_packages
from kgen.planning.candidates import candidate_at
from kgen.rules.edges import edge_points
from kgen.rules.solve import BoundRules, solve

Judge = Callable[["Sample", CheckResult], str]
RESOURCE_RULES = ("smem", "accumulators", "registers")
PARTS = 20
FLOATS = ("bfloat16", "float16")  # products of these are sampled in fp32 as well; those of bytes are below
TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def int8_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of bytes, summed in 32 bits."""
    return a.to(torch.int32) @ b.to(torch.int32)


def fp8_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of fp8, rounded to bf16."""
    return (a.to(torch.float32) @ b.to(torch.float32)).to(torch.bfloat16)


# Products of bytes: name, reference, element type. gfx942 multiplies e5m2 in fp32.
NARROW = (
    ("int8", int8_product, torch.int8),
    ("fp8", fp8_product, torch.float8_e4m3fn),
    ("e5m2", fp8_product, torch.float8_e5m2),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A package of one candidate, why it was taken, and the registers that the rules give a lane."""

    folder: Path
    why: str
    point: Point
    registers: int
    smem_bytes: int


def product_of_ops(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of operands that are computed on their way."""
    return F.gelu(a) @ (b * 0.5)


def bases(target: str) -> Iterator[tuple[str, Base]]:
    """Yield every product with every type, as the pipeline has it before the plan."""
    products = {
        **PRODUCTS,
        "ops": Product(product_of_ops, PRODUCTS["aligned"].operands),
        "ops-ragged": Product(product_of_ops, PRODUCTS["ragged"].operands),
        "ops-unaligned": Product(product_of_ops, PRODUCTS["unaligned"].operands),
    }
    for name, product in products.items():
        if product.dtypes != FLOATS:
            continue
        for dtype, torch_name in TYPES.items():
            yield f"{name}_{dtype}", base_of(product.reference, product.tensors(torch_name, "cpu"), target, "sample")
    for name, reference, dtype in NARROW:
        for layout, exchanged in (("nt", True), ("nn", False)):
            yield f"{name}_{layout}", base_of(reference, narrow_tensors(exchanged, dtype), target, "sample")


def narrow_tensors(exchanged: bool, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return operands of a product whose B is stored by columns (`exchanged`) or by rows."""
    product = Product(int8_product, (((512, 1024), False), ((1024, 768), exchanged)))
    return [tensor.to(dtype) for tensor in product.tensors("float32", "cpu")]


def sampled_points(bound: BoundRules, parts: int) -> dict[Point, str]:
    """Return the sampled points with why each was taken."""
    legal = solve(bound)
    points = {legal.point(row): f"row {row} of {legal.count}" for row in sampled_rows(legal.count, parts)}
    for rule in bound.rules.rules:
        for point in edge_points(bound, rule.name).inside:
            points.setdefault(point, f"edge of {rule.name}")
    return points


def inside(name: str, base: Base, folder: Path, parts: int) -> Iterator[Sample]:
    """Yield the packages of the samples of one product."""
    for number, (point, why) in enumerate(sampled_points(base.bound, parts).items()):
        candidate = candidate_at(solve(base.bound, dict(point)), 0)
        package = write_choice(base, dict(point), folder / f"{name}_{number:03}")
        yield Sample(package, why, point, candidate.number("thread_regs"), candidate.number("smem_bytes"))


def outside(name: str, base: Base, folder: Path, parts: int) -> Iterator[Sample]:
    """Yield the packages of the nearest points outside of the resource rules of one product."""
    legal = solve(base.bound)
    for rule in RESOURCE_RULES:
        for point in edge_points(base.bound, rule, 1).outside:
            candidate = candidate_at(solve(base.bound, dict(point), without=rule), 0)
            package = write_choice(base, dict(legal.point(0)), folder / f"{name}_{rule}", candidate)
            yield Sample(package, rule, point, candidate.number("thread_regs"), candidate.number("smem_bytes"))


def problems_inside(sample: Sample, result: CheckResult) -> str:
    """Return what is not as the rules say, or nothing."""
    failures = [v.failure for v in result.variants if v.failure]
    findings = [str(f) for f in result.findings]
    return "; ".join([*failures, *findings])


def problems_outside(sample: Sample, result: CheckResult) -> str:
    """Return why a point that breaks a rule is no proof of it: it fits the machine after all."""
    for variant in result.variants:
        if variant.failure:
            return ""
        for kernel in variant.kernels:
            if kernel.wave and (kernel.wave.vgpr_spills or kernel.registers > sample.registers):
                return ""
    return f"{sample.smem_bytes} bytes of LDS and {sample.registers} registers are enough"


def judged(samples: list[Sample], judge: Judge) -> Iterator[str]:
    """Compile packages and yield a line for each; those that are not as the rules say start with FAIL."""
    results = check_packages([sample.folder for sample in samples])
    for sample, result in zip(samples, results, strict=True):
        problem = judge(sample, result)
        used = ", ".join(f"{k.registers} registers" for v in result.variants for k in v.kernels[:1])
        verdict = "FAIL" if problem else "ok"
        yield f"{verdict} {sample.folder.name} ({sample.why}): {shown(sample.point)}: {problem or used}"


def shown(point: Point) -> str:
    """Return a candidate in a few words."""
    p = dict(point)
    return (
        f"{p['tile_m']}x{p['tile_n']}x{p['tile_k']} stages {p['stages']} warps {p['warps_m']}x{p['warps_n']} "
        f"mma {p['mma']} parts {p['split_k']} {p['load_path']}/{p['store_path']}"
    )


def main() -> int:
    """Compile the samples of a target and print what is wrong with them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--converse", action="store_true")
    parser.add_argument("--parts", type=int, default=PARTS, help="samples of each legal set")
    parser.add_argument("--only", default="", help="products whose name starts so")
    options = parser.parse_args()
    make, judge = (outside, problems_outside) if options.converse else (inside, problems_inside)
    bad = total = 0
    for name, base in bases(options.target):
        if not name.startswith(options.only):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            for line in judged(list(make(name, base, Path(scratch), options.parts)), judge):
                print(line, flush=True)
                bad, total = bad + line.startswith("FAIL"), total + 1
    print(f"{total} packages, {bad} not as the rules say")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
