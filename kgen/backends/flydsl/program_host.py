"""The host code of a program on CDNA: what each variant is compiled for, the tensors it makes, the launches."""

from collections.abc import Iterable, Mapping
from math import prod
from typing import Final

from kgen.backends.flydsl.elements import sum_dtype
from kgen.backends.flydsl.gemm_host import accepted_types
from kgen.backends.flydsl.program_views import CdnaCaseView, CdnaProgramHostView, LoopsView, ProductsView
from kgen.backends.program.dialect import HostSource
from kgen.backends.program.host import (
    allocation_entry,
    copied_tensors,
    launch_entries,
    launch_of,
    launches_of,
    rules_entries,
    tables,
)
from kgen.backends.program.views import EntryView
from kgen.backends.source.file_text import allocated_tensors, allocation_shapes, allocations, plan_key, returned
from kgen.backends.source.lines import Lines, bracketed
from kgen.ir.program import Program
from kgen.planning.plan_gemm import GemmVariant, gemm_plan
from kgen.render import render

FOLDER: Final = "flydsl/program"
_OF_PRODUCTS: Final = (
    "Element types of what the launch of each variant of a product takes: operands, D, sums over parts of k where a "
    "variant",
    "has those, what the epilogue reads.",
)
_OF_ATTENTIONS: Final = ("Element types of what the launch of each variant takes: Q, K, V and O.",)


def splits_k(variants: Iterable[GemmVariant]) -> bool:
    """Return whether a variant sums parts of k apart, in memory that the host function makes."""
    return any(v.choice.candidate.number("split_k") > 1 for v in variants)


def sums_name(number: int, shown: Mapping[str, str]) -> str:
    """Return the name of the memory for sums of kernel `number` beside those of all tensors."""
    name = f"sums_{number}"
    while name in shown.values():
        name += "_"
    return name


def host_text(source: HostSource) -> str:
    """Return the text of the host code."""
    return render(f"{FOLDER}/host.py.j2", _host_view(source))


def _host_view(source: HostSource) -> CdnaProgramHostView:
    plan, program, shown, arch = source.plan, source.program, dict(source.shown), source.plan.device.arch
    arguments = tuple(shown[a.name] for a in program.arguments)
    products = [part for part in source.parts if part.is_product]
    compiled = {"products": "compile_product(v)"} if products else {}
    compiled |= {"loops": "compile_loop(v)"} if len(products) < len(source.parts) else {}
    both = f"{compiled.get('products')} if name in POINTERS else {compiled.get('loops')}"
    return CdnaProgramHostView(
        name=plan.name,
        isa=arch.isa,
        tables=tables(source),
        launches=launch_entries(source),
        rules=rules_entries(source),
        cases=tuple(_case(source, case, found) for case, found in source.programs.items()),
        sections=tuple(_section(source, name) for name in compiled),
        compile=both if len(compiled) > 1 else next(iter(compiled.values())),
        head=bracketed("def kernel(", arguments, "):"),
        tensors=bracketed("tensors = [", arguments, "]", indent=4),
        first=arguments[0],
        copied=tuple(shown[t] for t in copied_tensors(source)),
        allocations=(*allocations(program, shown, arch.torch_name), *_sums_allocations(source)),
        calls=tuple(
            launch_of(source, index, "run_product" if part.is_product else "run_loop")
            for index, part in enumerate(source.parts)
        ),
        result=returned(program, shown),
    )


def _section(source: HostSource, name: str) -> str:
    """Return the part of the host code that compiles and launches products, or loops."""
    variants = [v for part in source.parts if part.is_product == (name == "products") for v in part.variants]
    view: ProductsView | LoopsView
    if name == "products":
        entries = (bracketed(f'"{v.name}": (', v.signature, _closed(v.signature), indent=4) for v in variants)
        comment = _OF_PRODUCTS if gemm_plan(source.plan).variants else _OF_ATTENTIONS
        view = ProductsView(comment, tuple(line for entry in entries for line in entry))
    else:
        view = LoopsView(tuple(EntryView(v.name, v.signature) for v in variants))
    return render(f"{FOLDER}/{name}.py.j2", view).rstrip("\n")


def _closed(items: Lines) -> str:
    """Return what closes a tuple that is an entry of a dict."""
    return ",)," if len(items) == 1 else "),"


def _case(source: HostSource, case: str, program: Program) -> CdnaCaseView:
    return CdnaCaseView(
        key=plan_key(program),
        accepted=accepted_types(program, source.plan.device.arch),
        allocations=allocation_entry((*allocation_shapes(program), *_sums_shapes(source, case))),
        launches=launches_of(source, case, program),
    )


def _split_products(source: HostSource) -> dict[int, tuple[GemmVariant, ...]]:
    """Return the variants of the products, by place in launch order, of which one splits k."""
    products = gemm_plan(source.plan).variants
    found = {n: tuple(v for v in products if v.kernel == part.kernel) for n, part in enumerate(source.parts)}
    return {number: variants for number, variants in found.items() if splits_k(variants)}


def _sums_shapes(source: HostSource, case: str) -> Lines:
    """Return shape and strides of the memory for sums that a case needs: enough for each of its variants."""
    shapes = []
    for variants in _split_products(source).values():
        of_case = [v for v in variants if v.case == case]
        parts = max(v.choice.candidate.number("split_k") for v in of_case)
        form = of_case[0].form
        shapes.append(f"(({parts * prod((form.m, form.n, *form.batch))},), (1,))")
    return tuple(shapes)


def _sums_allocations(source: HostSource) -> Lines:
    """Return the statements that allocate that memory."""
    first = len(allocated_tensors(source.program))
    lines = []
    for place, (number, variants) in enumerate(_split_products(source).items(), first):
        dtype = sum_dtype(variants[0].form.mma_dtype).torch_name
        name = sums_name(number, source.shown)
        lines.append(f"{name} = torch.empty_strided(*made[{place}], dtype={dtype}, device=device)  # over parts of k")
    return tuple(lines)
