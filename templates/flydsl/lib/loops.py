"""Parts of the loop kernels in FlyDSL; a kernel.py takes over those that it uses, as they stand here.

A kernel sees rows (kept axes) and columns (reduced axes); coordinates, extents and strides are tuples, innermost axis
first. `v` is a row of VARIANTS. Registers are a dict: element `e` of vector `s` is [e, s]. What several threads hold of
one row is a state: a tuple of values.
"""

from math import prod

import flydsl.compiler as flyc
import flydsl.expr as fx
import shared
from hardware import exp_approximate

INDEX = fx.Int32
WARP = 64


def digits(index, extents):
    """Coordinates of a linear index that is not negative."""
    found, rest = [], fx.Uint64(index) if INDEX is fx.Int64 else fx.Uint32(index)
    for extent in extents[:-1]:
        found.append(INDEX(rest % extent))
        rest = rest // extent
    return (*found, INDEX(rest))


offset = shared.offset
shifted = shared.shifted


def bounded(tensor):
    """The tensor behind a descriptor of its bytes: a load past its end gives 0, a store past it is dropped."""
    return fx.rocdl.make_buffer_tensor(tensor, max_size=False)


def atom(tensor, count):
    """The copy of `count` elements at once."""
    kind = tensor.element_type
    return fx.make_copy_atom(fx.rocdl.BufferCopy(count * kind.width), kind)


def spot(tensor, start, inside, count):
    """The `count` elements from `start` on where that is inside, else some past the end of every tensor."""
    at = fx.Int32(fx.Boolean(inside).select(INDEX(start), INDEX(-16)))
    return fx.make_view(fx.get_iter(tensor) + at, fx.make_layout(count, 1))


def read(v, access, tensor, start, step, inside, into, s):
    """Load vector `s`, whose elements lie `step` apart, where it is inside; zeros elsewhere."""
    kind = tensor.element_type
    count = min(access.width, 128 // kind.width)
    for first in range(0, v.vec, count):
        held = fx.make_rmem_tensor(count, kind)
        fx.copy(atom(tensor, count), spot(tensor, start + first * step, inside, count), held)
        values = held.load()
        for e in range(count):
            into[first + e, s] = values[e]


def write(v, access, tensor, start, step, inside, values):
    """Store one vector, whose elements lie `step` apart, where it is inside."""
    kind = tensor.element_type
    count = min(access.width, 128 // kind.width)
    for first in range(0, v.vec, count):
        held = fx.make_rmem_tensor(count, kind)
        held.store(fx.Vector.from_elements([kind(values[first + e, 0]) for e in range(count)], kind))
        fx.copy(atom(tensor, count), held, spot(tensor, start + first * step, inside, count))


def read_row(v, access, tensor, at_row, into):
    """Load the values of a vector of rows."""
    read(v, access, tensor, offset(access, at_row), access.rows[0], True, into, 0)


write_row = shared.write_row


def element_where(tensor, start, inside, fill):
    """One element where it is inside, the fill value elsewhere."""
    kind = tensor.element_type
    held = fx.make_rmem_tensor(1, kind)
    fx.copy(atom(tensor, 1), spot(tensor, start, inside, 1), held)
    return fx.Boolean(inside).select(held.load()[0], kind(fill)) if fill else held.load()[0]


def element(tensor, start):
    """One element, as a vector."""
    held = fx.make_rmem_tensor(1, tensor.element_type)
    fx.copy(atom(tensor, 1), spot(tensor, start, True, 1), held)
    return held.load()


def put(tensor, start, inside, value):
    """Store one element where it is inside."""
    kind = tensor.element_type
    held = fx.make_rmem_tensor(1, kind)
    held.store(fx.Vector.from_elements([kind(value)], kind))
    fx.copy(atom(tensor, 1), held, spot(tensor, start, inside, 1))


def spot_far(tensor, start, inside, count):
    """The `count` elements from `start` on where that is inside, else the first ones."""
    at = fx.Boolean(inside).select(INDEX(start), INDEX(0))
    return fx.make_view(fx.get_iter(tensor) + at, fx.make_layout(count, 1))


def atom_far(tensor, count):
    """The copy of `count` elements at once, by their address."""
    kind = tensor.element_type
    return fx.make_copy_atom(fx.UniversalCopy(count * kind.width), kind)


def read_far(v, access, tensor, start, step, inside, into, s):
    """As `read`, of a tensor that no descriptor spans: where it is not inside, the first elements are read."""
    kind = tensor.element_type
    count = min(access.width, 128 // kind.width)
    for first in range(0, v.vec, count):
        held = fx.make_rmem_tensor(count, kind)
        fx.copy(atom_far(tensor, count), spot_far(tensor, start + first * step, inside, count), held)
        values = held.load()
        for e in range(count):
            into[first + e, s] = values[e]


@flyc.jit
def store_far(tensor, start, inside, values):
    """Store neighbouring elements by their address where that is inside."""
    held = fx.make_rmem_tensor(len(values), tensor.element_type)
    held.store(fx.Vector.from_elements(values, tensor.element_type))
    if fx.Boolean(inside):
        fx.copy(atom_far(tensor, len(values)), held, spot_far(tensor, start, True, len(values)))


def write_far(v, access, tensor, start, step, inside, values):
    """As `write`, of a tensor that no descriptor spans."""
    kind = tensor.element_type
    count = min(access.width, 128 // kind.width)
    for first in range(0, v.vec, count):
        store_far(tensor, start + first * step, inside, [kind(values[first + e, 0]) for e in range(count)])


def read_row_far(v, access, tensor, at_row, into):
    """As `read_row`, of a tensor that no descriptor spans."""
    read_far(v, access, tensor, offset(access, at_row), access.rows[0], True, into, 0)


def write_row_far(v, access, tensor, at_row, inside, values):
    """As `write_row`, of a tensor that no descriptor spans."""
    write_far(v, access, tensor, offset(access, at_row), access.rows[0], inside, values)


def element_where_far(tensor, start, inside, fill):
    """As `element_where`, of a tensor that no descriptor spans."""
    kind = tensor.element_type
    held = fx.make_rmem_tensor(1, kind)
    fx.copy(atom_far(tensor, 1), spot_far(tensor, start, inside, 1), held)
    return fx.Boolean(inside).select(held.load()[0], kind(fill))


def element_far(tensor, start):
    """As `element`, of a tensor that no descriptor spans."""
    held = fx.make_rmem_tensor(1, tensor.element_type)
    fx.copy(atom_far(tensor, 1), spot_far(tensor, start, True, 1), held)
    return held.load()


def put_far(tensor, start, inside, value):
    """As `put`, of a tensor that no descriptor spans."""
    store_far(tensor, start, inside, [tensor.element_type(value)])


def within(v, inside, value, identity):
    """The value, or beyond the end of a row what changes no result."""
    return value if v.exact else fx.Boolean(inside).select(value, type(value)(identity))


def row_of(v, row, width):
    """Whether a row, or a vector of `width` rows, exists; and the coordinates of it, or else of the last that does."""
    return row < prod(v.rows), digits(fx.min(row, prod(v.rows) - width), v.rows)


def place_in_row(v):
    """The row of this thread, its first vector in the row, and how many threads share the row."""
    thread, block = fx.thread_idx.x, INDEX(fx.block_idx.x)
    row = block * (v.threads // v.row_threads) + thread // v.row_threads
    return row, thread % v.row_threads, v.row_threads


def place_in_column(v):
    """The vector of kept elements of this thread, its first column, and how many threads share the vector."""
    thread, block = fx.thread_idx.x, INDEX(fx.block_idx.x)
    across = v.threads // v.row_threads
    return block * across + thread % across, thread // across, v.row_threads


def exchange(v, smem, *dtypes):
    """LDS through which the threads of a row pass on their states; a kernel uses each of its parts once."""
    return tuple(smem.allocate(fx.Array[dtype, v.exchanged, 16]).peek() for dtype in dtypes)


def butterfly(join, state, width):
    """The states of `width` neighbouring lanes, joined pair by pair; every lane gets the result."""
    for i in range(width.bit_length() - 1):
        state = join(state, tuple(fx.shuffle_xor(part, 1 << i, WARP) for part in state))
    return state


def sum_across(state, width):
    """The sum over `width` neighbouring lanes."""
    return (fx.coop.warp_reduce(state[0], fx.ReductionOp.ADD, width=width),)


def product_across(state, width):
    """The product over `width` neighbouring lanes."""
    return (fx.coop.warp_reduce(state[0], fx.ReductionOp.MUL, width=width),)


def largest_across(state, width):
    """The largest value of `width` neighbouring lanes; NaN where one is NaN."""
    return (fx.coop.warp_reduce(state[0], fx.ReductionOp.MAX, width=width),)


def smallest_across(state, width):
    """The smallest value of `width` neighbouring lanes; NaN where one is NaN."""
    return (fx.coop.warp_reduce(state[0], fx.ReductionOp.MIN, width=width),)


@flyc.jit
def leave_state(slots, state, warp):
    """Leave the state of a warp, which all its lanes hold, in LDS: the first lane writes."""
    if fx.thread_idx.x % WARP == 0:
        for part, slot in zip(state, slots, strict=True):
            slot[warp] = part


def combine_row(v, state, across, slots):
    """Combine the states of a row's threads, first those of each warp; every thread gets the result."""
    state = across(state, min(v.row_threads, WARP))
    warps = v.row_threads // WARP
    if warps <= 1:
        return state
    thread = fx.thread_idx.x
    leave_state(slots, state, thread // WARP)
    fx.barrier()
    first = thread // v.row_threads * warps if v.row_threads < v.threads else 0
    return across(tuple(slot[first + thread % warps] for slot in slots), warps)


def combine_columns(v, states, join, slots):
    """Combine the states, registers each, of the threads that share a vector; every thread gets the result."""
    if v.row_threads == 1:
        return
    across = v.threads // v.row_threads
    thread = fx.thread_idx.x
    for e in range(v.vec):
        for held, slot in zip(states, slots, strict=True):
            slot[(thread // across * v.vec + e) * across + thread % across] = held[e]
    fx.barrier()
    for e in range(v.vec):
        state = tuple(slot[e * across + thread % across] for slot in slots)
        for y in range(1, v.row_threads):
            state = join(state, tuple(slot[(y * v.vec + e) * across + thread % across] for slot in slots))
        for held, part in zip(states, state, strict=True):
            held[e] = part


def filled(v, dtype, value):
    """Registers with one value for each element of a vector."""
    return [dtype(value)] * v.vec


def first_of_largest(a, b):
    """Of two (value, index) the larger; the first one among equals, and NaN before everything."""
    a_is_nan, b_is_nan = a[0] != a[0], b[0] != b[0]
    same = (a[0] == b[0]) | (a_is_nan & b_is_nan)
    better = (b[0] > a[0]) & ~a_is_nan | b_is_nan & ~a_is_nan | same & (b[1] < a[1])
    return tuple(better.select(y, x) for x, y in zip(a, b, strict=True))


def first_of_largest_across(state, width):
    """The first of the largest of `width` neighbouring lanes."""
    return butterfly(first_of_largest, state, width)


def first_of_smallest(a, b):
    """Of two (value, index) the smaller; the first one among equals, and NaN before everything."""
    a_is_nan, b_is_nan = a[0] != a[0], b[0] != b[0]
    same = (a[0] == b[0]) | (a_is_nan & b_is_nan)
    better = (b[0] < a[0]) & ~a_is_nan | b_is_nan & ~a_is_nan | same & (b[1] < a[1])
    return tuple(better.select(y, x) for x, y in zip(a, b, strict=True))


def first_of_smallest_across(state, width):
    """The first of the smallest of `width` neighbouring lanes."""
    return butterfly(first_of_smallest, state, width)


def at_least_one(count):
    """A number of values to divide by."""
    return (count > 1.0).select(count, type(count)(1.0))


def share_of(part, count):
    """part / count."""
    return part / at_least_one(count)


def start_of(v, place, inside, value, start):
    """What a thread takes distances from: its first element, where it has one that is finite."""
    if place > 0:
        return start
    kind = type(start)
    return (value - value == 0.0).select(within(v, inside, value, 0.0), kind(0.0))


def moments_about(start, count, total, square):
    """(count, mean, sum of squared deviations) of values whose distances from `start` are summed, and their squares."""
    mean = total / at_least_one(count)
    about_mean = square - total * mean  # rounding may take it below 0
    return count, start + mean, (about_mean < 0.0).select(type(square)(0.0), about_mean)


join_moments = shared.join_moments


def moments_across(state, width):
    """(count, mean, sum of squared deviations) of `width` neighbouring lanes together: the mean of all comes first."""
    count, mean, square = state
    (whole,) = sum_across((count,), width)
    (total,) = sum_across((count * mean,), width)
    center = total / at_least_one(whole)
    distance = mean - center
    return whole, center, *sum_across((square + count * distance * distance,), width)


def center_of(largest):
    """What to take off exponents: the largest of them, or 0 where that is minus infinity, whose exp is 0 anyway."""
    return (largest == float("-inf")).select(fx.Float32(0.0), largest)


def join_exponents(a, b):
    """(largest, sum of exp(x - largest)) of two sets of values together."""
    largest = fx.max(a[0], b[0])
    center = center_of(largest)
    return largest, a[1] * exp_approximate(a[0] - center) + b[1] * exp_approximate(b[0] - center)


def exponents_across(state, width):
    """(largest, sum of exp(x - largest)) of `width` neighbouring lanes together: the largest of all comes first."""
    (largest,) = largest_across((state[0],), width)
    return largest, *sum_across((state[1] * exp_approximate(state[0] - center_of(largest)),), width)


def scan_row(v, totals, carry, join, op, slots):
    """Replace the totals of this thread's vectors by all that stands before each; return what the row holds by now."""
    width, warps = min(v.row_threads, WARP), max(v.row_threads // WARP, 1)
    warp = fx.thread_idx.x // WARP
    first, whole = warp // warps * warps, []
    for s in range(v.steps):
        _, before, total = fx.coop.warp_scan_with_aggregate(totals[s], op, width=width)
        totals[s] = before
        whole.append(total)
        if warps > 1:
            slots[s * (v.threads // WARP) + warp] = total
    if warps > 1:
        fx.barrier()
    for s in range(v.steps):
        start = carry
        for w in range(warps):
            part = whole[s] if warps == 1 else slots[s * (v.threads // WARP) + first + w]
            start = (w < warp - first).select(join((carry,), (part,))[0], start) if warps > 1 else start
            carry = join((carry,), (part,))[0]
        is_first = fx.lane_id() % width == 0
        totals[s] = is_first.select(start, join((start,), (totals[s],))[0])
    if warps > 1:
        fx.barrier()
    return carry
