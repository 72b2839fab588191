"""Packages of exactly one candidate: for a product, the candidates to try, and the package that each becomes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F

from kgen.families.gemm.facts import MAX_ALIGN_BYTES, facts_of
from kgen.families.gemm.rules import bind_gemm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.frontend.importers import spec_from_callable
from kgen.package.write import write_package
from kgen.pipeline import STAGES, run
from kgen.planning.candidates import Candidate
from kgen.planning.choice import RankedCandidate
from kgen.planning.plan import Plan
from kgen.rules.model import Value
from kgen.rules.solve import BoundRules
from kgen.spec.model import Accepts, FixedAxis, Spec
from kgen.target import Device, load_device

Ranked = TypeVar("Ranked", bound=RankedCandidate)
PARTS = 20  # every n/20-th legal candidate
Point = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Product:
    """A reference and its operands: (shape, whether its last axes are exchanged in memory); `wide` ones are fp32.

    `dtypes` are the types that it is tried in, by torch's names; tf32 is float32 under torch's flag.
    """

    reference: Callable[..., torch.Tensor]
    operands: tuple[tuple[tuple[int, ...], bool], ...]
    wide: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ("bfloat16", "float16")

    def tensors(self, dtype: str, device: str, seed: int = 0) -> list[torch.Tensor]:
        """Return random operands, scaled so that the product's elements are near 1, and set torch's flag for them."""
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        type_ = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
        made = []
        for place, (shape, exchanged) in enumerate(self.operands):
            generator = torch.Generator(device).manual_seed(1000 * seed + place)
            stored = (*shape[:-2], shape[-1], shape[-2]) if exchanged else shape
            tensor = torch.randn(stored, generator=generator, device=device)
            size = self.operands[0][0][-1] ** -0.25 if type_.is_floating_point else 20.0
            tensor *= size if place < 2 else 1.0
            tensor = tensor.mT if exchanged else tensor
            made.append(tensor if place in self.wide else tensor.to(type_))
        return made


def plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product alone."""
    return a @ b


def fused(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor, residual: torch.Tensor
) -> torch.Tensor:
    """A product with a bias, an activation, a scale per row and a residual: an epilogue that needs many registers."""
    return F.gelu(a @ b + bias) * scale + residual


def fused_wide(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor, residual: torch.Tensor
) -> torch.Tensor:
    """The same with a scale in fp32, and so with a result in fp32."""
    return F.gelu(a @ b + bias) * scale + residual


def gated(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Two parts of a product with a bias, one of them the gate of the other one, and a residual."""
    gate, up = (a @ b + bias).chunk(2, -1)
    return F.gelu(gate) * up + residual


def gated_plain(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Two parts of a product, one of them the gate of the other one."""
    gate, up = (a @ b).chunk(2, -1)
    return F.silu(gate) * up


def gated_integers(a: torch.Tensor, b: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """The same of int8 operands, with a scale per column and a bf16 result."""
    gate, up = ((a.to(torch.int32) @ b.to(torch.int32)).to(torch.float32) * columns).chunk(2, -1)
    return (F.silu(gate) * up).to(torch.bfloat16)


def of_bytes(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of fp8 operands in fp32."""
    return a.to(torch.float32) @ b.to(torch.float32)


def of_integers(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of int8 operands in int32."""
    return a.to(torch.int32) @ b.to(torch.int32)


def scaled(product: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Scales for rows and columns, a residual, a bf16 result."""
    return (product.to(torch.float32) * rows * columns + residual).to(torch.bfloat16)


def scaled_bytes(
    a: torch.Tensor, b: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, residual: torch.Tensor
) -> torch.Tensor:
    """A product of fp8 operands with scales and a residual."""
    return scaled(of_bytes(a, b), rows, columns, residual)


def of_blocks(a: torch.Tensor, b: torch.Tensor, rows: torch.Tensor, blocks: torch.Tensor) -> torch.Tensor:
    """A product of fp8 operands with a scale for each 1 x 128 of A and each 128 x 128 of B."""
    columns = blocks.repeat_interleave(128, 0)[: b.shape[1]].repeat_interleave(128, 1)
    return (a.to(torch.float32) * rows.repeat_interleave(128, 1)) @ (b.to(torch.float32) * columns.T)


def of_runs(a: torch.Tensor, b: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """A product of fp8 operands with a scale for each 128 of k of a row of A and of a column of B, a bf16 result."""
    scales = rows.repeat_interleave(128, 1), columns.repeat_interleave(128, 0)
    return ((a.to(torch.float32) * scales[0]) @ (b.to(torch.float32) * scales[1])).to(torch.bfloat16)


def scaled_integers(
    a: torch.Tensor, b: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, residual: torch.Tensor
) -> torch.Tensor:
    """A product of int8 operands with scales and a residual."""
    return scaled(of_integers(a, b), rows, columns, residual)


ALIGNED = (((512, 1024), False), ((1024, 768), True))
SCALED = (((640, 512), False), ((512, 1024), True), ((640, 1), False), ((1024,), False), ((640, 1024), False))
FEW_ROWS = (((13, 2080), False), ((2080, 1544), True))
DEEP = (((136, 8208), False), ((8208, 264), True))
GATED = (((640, 512), False), ((512, 1040), True), ((1040,), False), ((640, 520), False))
FUSED = (((640, 512), False), ((512, 1024), True), ((1024,), False), ((640, 1), False), ((640, 1024), False))
BLOCKS = (((333, 1024), False), ((1024, 720), True))
FEW_BLOCKS = (((13, 2048), False), ((2048, 1544), True))
FP8, WORDS = ("float8_e4m3fn",), ("float32", "tf32")
PRODUCTS = {
    "aligned": Product(plain, (((512, 1024), False), ((1024, 768), True))),
    "fused": Product(
        fused, (((640, 512), False), ((512, 1024), True), ((1024,), False), ((640, 1), False), ((640, 1024), False))
    ),
    "ragged": Product(plain, (((333, 1000), False), ((1000, 1003), True))),
    "mn-major": Product(plain, (((328, 333), True), ((333, 520), False))),
    "unaligned": Product(plain, (((333, 203), False), ((203, 264), True))),
    "few-rows": Product(plain, FEW_ROWS),
    "few-rows-fused": Product(
        fused, (((24, 2048), False), ((2048, 1032), True), ((1032,), False), ((24, 1), False), ((24, 1032), False))
    ),
    "deep": Product(plain, (((136, 8200), False), ((8200, 264), True))),
    "gated": Product(gated, GATED),
    "gated-mn-major": Product(gated_plain, (((328, 333), True), ((333, 528), False))),
    "gated-unaligned": Product(gated_plain, (((333, 203), False), ((203, 522), True))),
    "gated-integers": Product(gated_integers, GATED[:3], (2,), ("int8",)),
    "bytes": Product(of_bytes, ALIGNED, dtypes=FP8),
    "bytes-scaled": Product(scaled_bytes, SCALED, (2, 3, 4), FP8),
    "bytes-blocks": Product(of_blocks, (*BLOCKS, ((333, 8), False), ((6, 8), False)), (2, 3), FP8),
    "bytes-runs": Product(of_runs, (*BLOCKS, ((333, 8), False), ((8, 720), False)), (2, 3), FP8),
    "bytes-blocks-few-rows": Product(of_blocks, (*FEW_BLOCKS, ((13, 16), False), ((13, 16), False)), (2, 3), FP8),
    "bytes-mn-major": Product(of_bytes, (((333, 512), False), ((512, 336), False)), dtypes=FP8),
    "integers": Product(of_integers, ALIGNED, dtypes=("int8",)),
    "integers-scaled": Product(scaled_integers, SCALED, (2, 3, 4), ("int8",)),
    "bytes-few-rows": Product(of_bytes, FEW_ROWS, dtypes=FP8),
    "bytes-deep": Product(of_bytes, DEEP, dtypes=FP8),
    "integers-few-rows": Product(of_integers, FEW_ROWS, dtypes=("int8",)),
    "integers-deep": Product(of_integers, DEEP, dtypes=("int8",)),
    "words": Product(plain, ALIGNED, dtypes=WORDS),
    "words-fused": Product(fused, FUSED, dtypes=WORDS),
    "words-mn-major": Product(plain, (((328, 333), True), ((333, 520), False)), dtypes=("float32",)),
    "words-unaligned": Product(plain, (((333, 203), False), ((203, 265), False)), dtypes=("float32",)),
}
# What needs the most registers: products whose points outside of the rules are tried, besides those above.
HEAVY = {
    "fused-wide": Product(
        fused_wide,
        (((3000, 520), False), ((520, 3304), True), ((3304,), False), ((3000, 1), False), ((3000, 3304), False)),
        wide=(3,),
    ),
}


@dataclass(frozen=True, slots=True)
class Base:
    """A product as far as its candidates have it in common."""

    spec: Spec
    device: Device
    made: Mapping[str, Any]

    @property
    def facts(self) -> GemmFacts:
        """The product as the rules see it."""
        ((form,),) = self.made["classify"].values()
        return facts_of(form, MAX_ALIGN_BYTES)

    @property
    def bound(self) -> BoundRules:
        """The rules with the facts of this product."""
        return bind_gemm(self.facts, self.device)

    @property
    def hardware(self) -> BoundRules:
        """The rules of the hardware alone."""
        return bind_gemm(self.facts, self.device, lowered=False)


def base_of(fn: Callable[..., Any], tensors: list[torch.Tensor], target: str, name: str) -> Base:
    """Run the stages before the plan; the operands promise aligned bases, so that there is one variant."""
    spec = spec_from_callable(fn, tensors, name)
    spec = replace(spec, accepts=Accepts(MAX_ALIGN_BYTES))
    done = run(spec, load_device(target), stop_after="classify")
    return Base(spec, done.device, done.made)


# A schedule: how k is split, how many CTAs an SM runs, whether operands are exchanged.
_SCHEDULE = ("cluster_k", "resident", "swap")


def best_of(ranked: Iterable[Ranked], count: int, one_of_each: bool) -> tuple[Ranked, ...]:
    """Return the first `count` candidates that differ in more than the number of stages; or one of each schedule."""
    chosen: dict[tuple[Value, ...], Ranked] = {}
    for one in ranked:
        points = one.candidate.choices
        key = tuple(v for axis, v in points if (axis in _SCHEDULE if one_of_each else axis != "stages"))
        chosen.setdefault(key, one)
        if len(chosen) == count:
            break
    return tuple(chosen.values())


def sampled_rows(count: int, parts: int = PARTS) -> tuple[int, ...]:
    """Return every count/parts-th row."""
    return tuple(sorted({part * count // parts for part in range(parts)})) if count else ()


def files_of(base: Base, point: Point, outside: Candidate | None = None) -> Mapping[str, str]:
    """Return the package of the candidate with these axes; `outside` stands in for it, where no rule allows it."""
    fixed = tuple(FixedAxis(axis, value, "the candidate under test") for axis, value in point.items())
    spec, made = replace(base.spec, fixed=fixed), dict(base.made)
    for stage in STAGES[len(made) :]:
        made[stage.name] = stage.run(spec, base.device, made)
        if stage.name == "plan" and outside is not None:
            made["plan"] = _standing_in(made["plan"], outside)
    files: Mapping[str, str] = made["render"]
    if outside is None:
        return files
    lifted = "\n# under test: a candidate that breaks a rule\nRULES = dict.fromkeys(RULES, lambda v: ())\n"
    return {**files, "kernel.py": files["kernel.py"] + lifted}


def _standing_in(plan: Plan, outside: Candidate) -> Plan:
    variants = (replace(v, choice=replace(v.choice, candidate=outside)) for v in plan.variants)
    return replace(plan, variants=tuple(variants))


def write_choice(base: Base, point: Point, folder: Path, outside: Candidate | None = None) -> Path:
    """Write the package of a candidate and return its folder."""
    return write_package(files_of(base, point, outside), folder).folder


def shown(point: Point | Iterable[tuple[str, Value]]) -> str:
    """Return a candidate in a few words."""
    p = dict(point)
    return (
        f"{p['tile_m']}x{p['tile_n']}x{p['tile_k']} stages {p['stages']} wg {p['wg_m']}x{p['wg_n']} "
        f"cluster {p['cluster_m']}x{p['cluster_n']}x{p['cluster_k']} parts {p['split_k']} {p['resident']} a SM "
        f"{p['load_path']}/{p['store_path']}{' exchanged' if p['swap'] else ''}"
    )
