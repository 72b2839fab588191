"""Small hand-written FlyDSL packages: their kernels and references are in cdna_packages/, the rest is rendered here."""

import hashlib
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kgen.package.views import InputTensorView, InputView, KernelTestView, WorkView
from kgen.render import render
from kgen.target import load_device

SOURCES = Path(__file__).with_name("cdna_packages")


@dataclass(frozen=True)
class Fixture:
    """What the rendered parts of a package need: cases by name with extents, flops and bytes read and written."""

    parameters: str
    tensors: tuple[InputTensorView, ...]
    cases: dict[str, tuple[dict[str, int], tuple[int, int, int]]]
    rel_err: float
    offsets: str
    refused_offsets: str
    evidence: tuple[dict[str, Any], ...]


def bf16(name: str, shape: str, strides: str) -> InputTensorView:
    return InputTensorView(name, "torch.bfloat16", shape, strides)


SCALED_ADD = Fixture(
    parameters="N",
    tensors=(bf16("x", "(N,)", "(1,)"), bf16("y", "(N,)", "(1,)")),
    cases={
        "ragged": ({"N": 10007}, (20014, 40028, 20014)),
        "whole": ({"N": 4096}, (8192, 16384, 8192)),
    },
    rel_err=0.01,
    offsets="0, 1",
    refused_offsets="",
    evidence=(
        {"variant": "vec8", "mma": "none", "threads": 256, "smem_bytes": 0, "spills": 0, "access_bytes": 16},
        {"variant": "vec1", "mma": "none", "threads": 256, "smem_bytes": 0, "spills": 0, "access_bytes": 2},
    ),
)
_GEMM_EVIDENCE = {"mma": "v_mfma", "threads": 256, "smem_bytes": 16384, "spills": 0, "access_bytes": 16}
SMALL_GEMM = Fixture(
    parameters="M, N, K",
    tensors=(bf16("a", "(M, K)", "(K, 1)"), bf16("b", "(N, K)", "(K, 1)")),
    cases={
        "ragged": ({"M": 100, "N": 128, "K": 192}, (2 * 100 * 128 * 192, 2 * 228 * 192, 2 * 100 * 128)),
        "one_tile": ({"M": 64, "N": 64, "K": 64}, (2 * 64**3, 2 * 128 * 64, 2 * 64 * 64)),
    },
    rel_err=0.01,
    offsets="0,",
    refused_offsets="1,",
    evidence=(
        {"variant": "m100n128k192", "mma_shape": "f32_16x16x16_bf16", **_GEMM_EVIDENCE},
        {"variant": "m64n64k64", "mma_shape": "f32_16x16x16_bf16", **_GEMM_EVIDENCE},
    ),
)
FIXTURES = {"scaled_add": SCALED_ADD, "small_gemm": SMALL_GEMM}
# ISA -> what the text of a kernel.py and its plan have there in place of the one for gfx942
PLACES = {
    "gfx942": (),
    "gfx950": (
        ("MMA_K = 16", "MMA_K = 32"),
        ("K_ORDER = 32, ((4, 4, 2), (1, 8, 4))", "K_ORDER = 32, ((8, 4), (1, 8))"),
        ("f32_16x16x16_bf16", "f32_16x16x32_bf16"),
    ),
}


def resized(name: str, cases: dict[str, tuple[dict[str, int], tuple[int, int, int]]]) -> Fixture:
    """Return a fixture with other cases."""
    return replace(FIXTURES[name], cases=cases)


def write(name: str, device: str, folder: Path, kernel: str | None = None) -> Path:
    """Write a package for a device and return its folder; `kernel` replaces the text of its kernel.py."""
    fixture, source = FIXTURES[name], SOURCES / name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "reference.py", folder)
    text = kernel if kernel is not None else (source / "kernel.py").read_text()
    (folder / "kernel.py").write_text(for_device(text, device))
    view = InputView(name, fixture.parameters, fixture.tensors)
    (folder / "input.py").write_text(render("package/input.py.j2", view))
    (folder / "test_kernel.py").write_text(render("package/test_kernel.py.j2", _test_view(name, fixture, device)))
    shapes = {case: {"init_kwargs": None, "input_kwargs": extents} for case, (extents, _) in fixture.cases.items()}
    (folder / "shapes.json").write_text(json.dumps(shapes))
    (folder / "plan.json").write_text(for_device(json.dumps(_plan(name, fixture, device, folder)), device))
    return folder


def for_device(text: str, device: str) -> str:
    """Return a text as it is for the device's instruction set."""
    for place, other in PLACES[load_device(device).arch.isa]:
        text = text.replace(place, other)
    return text


def _plan(name: str, fixture: Fixture, device: str, folder: Path) -> dict[str, Any]:
    return {
        "name": name,
        "target": {"device": device, "arch": load_device(device).arch.isa},
        "kernel_digest": hashlib.sha256((folder / "kernel.py").read_bytes()).hexdigest(),
        "evidence": fixture.evidence,
        "variants": [{"name": row["variant"], "choice": {"time_us": 2.5}} for row in fixture.evidence],
    }


def _test_view(name: str, fixture: Fixture, device: str) -> KernelTestView:
    return KernelTestView(
        title=name,
        is_module=False,
        rel_errs=(("torch.bfloat16", repr(fixture.rel_err)),),
        element_factor="10",
        element_reason="ten times REL_ERR",
        atol="None",
        offsets=fixture.offsets,
        offsets_reason="of the fixture",
        refused_offsets=fixture.refused_offsets,
        device=device,
        sm_count=load_device(device).compute_units,
        peak_flops="math.inf",
        peak_flops_source="not measured",
        peak_bytes="math.inf",
        peak_bytes_source="not measured",
        work=tuple(WorkView(case, *work) for case, (_, work) in fixture.cases.items()),
        multiplies_integers=False,
        allow_tf32="False",
        tf32_reason="TF32 would make the reference less exact than the kernel",
        expected="reference.reference",
        updated="",
        hidden=(),
        planted=("for x in inputs.values():", "    if x.is_floating_point() and x.numel() > 1:"),
    )
