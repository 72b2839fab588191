"""fp32 products as three products of fp16 planes on Hopper: the kernels around the product, their text and workspace.

One launch cuts both operands, multiplies the planes, and computes the tiles once more with FMA where the planes cannot
hold what counts; docs/gemm.md has the arithmetic and the error bound.
"""

from dataclasses import replace
from typing import Final

from kgen.backends.cutedsl.gemm_views import DeviceView
from kgen.backends.source.statements import renamed
from kgen.planning.planes import AT_ONCE, PLANE_STEP, THREADS
from kgen.render import render

CONSTANTS: Final = (
    f"CUT_THREADS = {THREADS}  # of a CTA that cuts operands",
    f"CUT_AT_ONCE = {AT_ONCE}  # loads that a thread of it has in flight",
    f"CUT_STEP = {PLANE_STEP}  # k of a plane is a multiple of it",
    "NOT_FINITE = -(2**30) + 1  # state of a row that has an Inf or a NaN: few large values, bits lost",
)
# The sections of the kernel that computes tiles once more.
OF_FMA: Final = ("simt_tiles", "simt_load", "simt_mainloop", "simt_store", "uncertain", "kernel_simt")
# What reads the epilogue's tensors as the spec has them.
_OF_LAUNCHES: Final = ("cut_operand", "launch_planes", "launch_planes_parts")
# What the kernel that multiplies planes and the one that computes tiles once more both define.
_BOTH_DEFINE: Final = ("tile_at", "multiply", "mainloop", "epilogue", "epilogue_ops")


def with_scales(view: DeviceView, count: int) -> DeviceView:
    """Return the view of the product of planes: its epilogue, which reads `count` tensors, first undoes the scaling."""
    scales = (
        f"root = fused[{count}][at] * fused[{count + 1}][at]",
        "x0 = x0 * root * root  # in two steps: the scale of both operands may be beyond fp32",
    )
    return replace(view, planes="2 * ", fused=", fused", has_epilogue=True, epilogue=(*scales, *view.epilogue))


def planes_texts(template: str, view: DeviceView, scaled: DeviceView) -> tuple[str, ...]:
    """Return the texts of one section: of the product, of the FMA kernel under names of its own, of the cut.

    `view` has the epilogue that the spec asks for, `scaled` the one that undoes the scaling first.
    """
    folder, _, name = template.removesuffix(".py.j2").rpartition("/")
    if name in OF_FMA:
        names = {defined: f"{defined}_fma" for defined in _BOTH_DEFINE}
        needed = ("epilogue_ops", name) if name == "simt_store" and view.has_epilogue else (name,)
        again = replace(view, sides=", sides")
        return tuple(renamed(_text(folder, each, again), names) for each in needed)
    return (_text(folder, name, view if name in _OF_LAUNCHES else scaled),)


def _text(folder: str, name: str, view: DeviceView) -> str:
    return render(f"{folder}/{name}.py.j2", view).rstrip("\n")
