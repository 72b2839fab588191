"""Rows in groups: which group a row is in, counted from where the groups end. `kgen/ir/grouped` reads it again."""

from typing import TYPE_CHECKING

from kgen.frontend.contractions import Product
from kgen.frontend.indices import Indices
from kgen.frontend.lookups import index_by, index_value
from kgen.ir.access import Affine
from kgen.ir.dtype import DType
from kgen.ir.graph import Node
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Combine, Reduce

if TYPE_CHECKING:
    from kgen.frontend.body import Body


def group_index(body: "Body", node: Node, found: Product, indices: Indices) -> Affine:
    """Return the index of the matrix that a row is multiplied by: as many groups end at the row or before it.

    `indices` are those of the result's element, its row first.
    """
    assert found.ends is not None
    (count,) = body.shape(found.ends)
    group = body.axes.index(f"{node.name}:group", count)
    end = body.cast(body.value(found.ends, (group,)), DType.INT64)
    has_ended = body.map(Op.LE, (end, index_value(body, indices[0])), DType.BOOL)
    ended = body.cast(has_ended, DType.INT64)
    value = body.emit(Reduce("", Combine.SUM, ended, group.axes, DType.INT64), "group")
    return index_by(body, node, value, count)
