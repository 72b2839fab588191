"""What of a program's text is a back-end's own: its loops, its products, and the host code around both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.source.lines import Lines
from kgen.backends.source.statements import Statement
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_attention import AttentionPlan, AttentionVariant
from kgen.planning.plan_gemm import GemmPlan, GemmVariant


@dataclass(frozen=True, slots=True)
class PartVariant:
    """A variant: its launch function, its rules, and the types that it is compiled for, a line each."""

    name: str
    launch: str
    rules: str
    signature: Lines


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel: its statements, the name of its table, its variants, and the arguments of its launch as expressions.

    `shared` are statements that it has in common with other kernels, `imports` what it needs imported.
    """

    kernel: str
    is_product: bool
    imports: Lines
    shared: tuple[Statement, ...]
    statements: tuple[Statement, ...]
    table: str
    variants: tuple[PartVariant, ...]
    arguments: Lines
    tensors: frozenset[str]  # that its launch takes


PlanT = TypeVar("PlanT", bound=Plan)


@dataclass(frozen=True, slots=True)
class ProductSource(Generic[PlanT]):
    """A product or an attention among kernels: the plan of it alone, and for each case the program of it alone.

    `number` is its place in launch order, `shown` are the names of all tensors in the host function, `made` those
    that the host function allocates, `workspace` those that the launch itself fills.
    """

    number: int
    plan: PlanT
    programs: Mapping[str, Program]
    shown: Mapping[str, str]
    made: frozenset[str]
    workspace: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        """The program of the first case."""
        return next(iter(self.programs.values()))


class ProductView(Protocol):
    """What a template prints: a frozen dataclass, of which only the imports are read here."""

    @property
    def imports(self) -> Lines:
        """The import statements that the text needs."""
        ...


@dataclass(frozen=True, slots=True)
class Product:
    """The text of a product, a file of its own without docstring and host code, and what a launch of it takes.

    `template` prints the `view`. `variants` have the names of functions that the file has; `arguments` are
    expressions, `tensors` what they name.
    """

    template: str
    view: ProductView
    variants: tuple[PartVariant, ...]
    arguments: Lines
    tensors: frozenset[str]


@dataclass(frozen=True, slots=True)
class HostSource:
    """What the host code is made of: the kernels in launch order, and the names of all tensors."""

    plan: Plan
    programs: Mapping[str, Program]
    parts: tuple[Part, ...]
    shown: Mapping[str, str]

    @property
    def program(self) -> Program:
        """The program of the first case."""
        return next(iter(self.programs.values()))


@dataclass(frozen=True, slots=True, eq=False)
class ProgramDialect:
    """The words of one back-end for programs."""

    folder: str  # of the templates of a file and of its host code
    loops: LoopDialect
    newer: Mapping[str, str]  # an import of a product -> where loops import that name from
    product: Callable[[ProductSource[GemmPlan]], Product]
    product_words: Callable[[GemmVariant], Lines]
    host: Callable[[HostSource], str]  # the text of the host code
    attention: Callable[[ProductSource[AttentionPlan]], Product] | None = None  # None where no template prints one
    attention_words: Callable[[AttentionVariant], Lines] | None = None
