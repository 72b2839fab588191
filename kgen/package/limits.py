"""How far a result may be from the reference's: by element type, and of a single element."""

from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Combine, Const, Definition, Gather, Index, Load, Map, Problem, Reduce, Scan
from kgen.package.parts import PackageParts
from kgen.spec.model import Spec, default_tolerance

ELEMENT_FACTOR = 10  # an element may be off by this many times the limit on the whole
_STEPS = frozenset(
    {
        PointwiseOp.SIGN,
        PointwiseOp.FLOOR,
        PointwiseOp.CEIL,
        PointwiseOp.TRUNC,
        PointwiseOp.ROUND,
        PointwiseOp.FLOOR_DIVIDE,
        PointwiseOp.TRUNC_DIVIDE,
        PointwiseOp.REMAINDER,
        PointwiseOp.FMOD,
    }
)
# Ops that round nothing: of values that are the reference's own, they make values that are.
_EXACT = frozenset(
    {
        PointwiseOp.CAST,
        PointwiseOp.NEG,
        PointwiseOp.ABS,
        PointwiseOp.MAXIMUM,
        PointwiseOp.MINIMUM,
        PointwiseOp.COPYSIGN,
        PointwiseOp.RELU,
        PointwiseOp.WHERE,
    }
)
_SUMS = frozenset({Combine.SUM, Combine.PROD, Combine.M2})


def rel_err_of(spec: Spec, dtype: DType) -> float:
    """Return the limit on ||out - ref|| / ||ref|| of a result.

    Where the spec leaves it at what its inputs' types give, a result of a coarser type has the limit of that.
    """
    stated, usual = (
        spec.tolerance.rel_err,
        default_tolerance(tuple(i.dtype for i in spec.inputs), spec.precision).rel_err,
    )
    return stated if stated != usual else max(stated, default_tolerance((dtype,)).rel_err)


def rel_errs(parts: PackageParts) -> dict[DType, float]:
    """Return the limit of each element type of the results that is a float; other results are equal or wrong."""
    return {t.type.dtype: rel_err_of(parts.spec, t.type.dtype) for t in parts.results if t.type.dtype.is_float}


def worst_rel_err(parts: PackageParts) -> float:
    """Return the largest limit that a result has, the spec's own where no result is a float."""
    return max(rel_errs(parts).values(), default=parts.spec.tolerance.rel_err)


def element_factor(parts: PackageParts) -> tuple[str, str]:
    """Return how many times the limit on the whole an element may be off, as a Python expression, and why so many.

    A limit on the norm alone lets a few wrong elements of a large output pass. Where the body has steps, rounding may
    put an element on the other side of one, so that no such limit holds.
    """
    steps = sorted({step for _, program in parts.programs for p in program.problems for step in _steps(p)})
    if steps:
        return "math.inf", f"none, for {steps[0]} has steps"
    return str(ELEMENT_FACTOR), f"{ELEMENT_FACTOR} x REL_ERR"


def _steps(problem: Problem) -> set[str]:
    """Return the ops with steps on values that rounding may have moved."""
    exact: set[str] = set()
    found: set[str] = set()
    for name, s in problem.definitions().items():
        if _is_exact(s, exact):
            exact.add(name)
        if isinstance(s, Map) and _has_steps(s) and not _of_exact(s, exact):
            found.add(str(s.op))
    return found


def _is_exact(statement: Definition, exact: set[str]) -> bool:
    """Return whether a value is the reference's own, bit for bit."""
    match statement:
        case Load() | Index():
            return True
        case Gather():
            return statement.index in exact
        case Map():
            rounds = statement.dtype.is_float and statement.op not in _EXACT | _STEPS
            return not rounds and _of_exact(statement, exact)
        case Reduce() | Scan():
            rounds = statement.dtype.is_float and statement.combine in _SUMS
            return not rounds and statement.operand in exact
        case _:
            return False


def _of_exact(statement: Map, exact: set[str]) -> bool:
    return all(isinstance(o, Const) or o in exact for o in statement.operands)


def _has_steps(statement: Map) -> bool:
    truncates = statement.op is PointwiseOp.CAST and not statement.dtype.is_float
    return statement.op in _STEPS or statement.op.is_predicate or truncates
