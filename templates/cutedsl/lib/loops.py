"""Parts of the loop kernels in CuTe DSL; a kernel.py takes over those that it uses, as they stand here.

A kernel sees rows (kept axes) and columns (reduced axes); coordinates, extents and strides are tuples, innermost axis
first. `v` is a row of VARIANTS. What several threads hold of one row is a state: a tuple of values.
"""

from math import prod

import cutlass
import cutlass.cute as cute
import shared

INDEX = cutlass.Int32
WARP = 32


def digits(index, extents):
    """Coordinates of a linear index."""
    found = []
    for extent in extents[:-1]:
        found.append(index % extent)
        index = index // extent
    return (*found, index)


offset = shared.offset
shifted = shared.shifted


def fragment(v, access, dtype, count):
    """Registers for `count` vectors of a tensor: an element is [e, s], what one access moves [(None, i), s]."""
    return cute.make_rmem_tensor(((access.width, v.vec // access.width), count), dtype)


def from_bf16(raw, e, s):
    """Element [e, s] of a bf16 fragment in fp32: half a word in one instruction, where a 16-bit register takes two."""
    if cute.size(raw, mode=[0, 0]) % 2 != 0:
        return raw[e, s].to(cutlass.Float32)
    word = cute.recast_tensor(raw, cutlass.Uint32)[e // 2, s]
    return cutlass.Uint32(word & 0xFFFF0000 if e % 2 else word << 16).bitcast(cutlass.Float32)


def piece(access, tensor, start):
    """The elements that one access moves, `access.width` of them."""
    return cute.make_tensor(tensor.iterator + cute.assume(start, divby=access.width), cute.make_layout(access.width))


def load(access, tensor, start, into):
    """Load what one access moves; where the L2 is told when it leaves, past L1, for nothing reads it again there."""
    source = piece(access, tensor, start)
    if access.l2:
        past = cute.nvgpu.CacheEvictionPriority.NO_ALLOCATE
        bits = tensor.element_type.width * access.width
        atom = cute.make_copy_atom(
            cute.nvgpu.CopyG2ROp(), tensor.element_type, num_bits_per_copy=bits, l1c_evict_priority=past
        )
        cute.copy(atom, source, into, cache_policy=cutlass.Int64(access.l2))
    else:
        into.store(source.load())


@cute.jit
def read(
    v: cutlass.Constexpr,
    access: cutlass.Constexpr,
    tensor,
    start,
    step: cutlass.Constexpr,
    inside,
    into,
    s: cutlass.Constexpr,
):
    """Load vector `s`, whose elements lie `step` apart, where it is inside."""
    if inside:
        for i in cutlass.range_constexpr(v.vec // access.width):
            load(access, tensor, start + i * access.width * step, into[(None, i), s])


def read_row(v, access, tensor, at_row, into):
    """Load the values of a vector of rows."""
    read(v, access, tensor, offset(access, at_row), access.rows[0], cutlass.Boolean(True), into, 0)


def staging(v, smem, access, dtype):
    """Smem for the vectors of a thread, which no other thread touches: an element is [e, s], as in registers."""
    of_cta = smem.allocate_tensor(dtype, cute.make_layout(v.threads * v.vec * v.steps), 16)
    shape = ((access.width, v.vec // access.width), v.steps)
    strides = ((1, v.threads * access.width), v.threads * v.vec)
    first = cute.assume(cute.arch.thread_idx()[0] * access.width, divby=access.width)
    return cute.make_tensor(of_cta.iterator + first, cute.make_layout(shape, stride=strides))


@cute.jit
def stage(
    v: cutlass.Constexpr,
    access: cutlass.Constexpr,
    tensor,
    start,
    step: cutlass.Constexpr,
    inside,
    into,
    s: cutlass.Constexpr,
):
    """Begin to copy vector `s` into smem, 16 bytes at once, where it is inside."""
    if inside:
        for i in cutlass.range_constexpr(v.vec // access.width):
            source = piece(access, tensor, start + i * access.width * step).iterator.toint()
            target = into[(None, i), s].iterator.toint()
            if cutlass.const_expr(access.l2):
                code = "cp.async.cg.shared.global.L2::cache_hint [{$r0}], [{$r1}], 16, {$r2};"
                cute.arch.inline_ptx(code, read_only_args=[target, source, cutlass.Int64(access.l2)])
            else:
                code = "cp.async.cg.shared.global [{$r0}], [{$r1}], 16;"
                cute.arch.inline_ptx(code, read_only_args=[target, source])


def await_staged():
    """Wait until what this thread copies into smem is there."""
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)


def leave_in_smem():
    """Forget what was taken from smem: else the compiler keeps a row in registers, and fewer CTAs fit on an SM."""
    cute.arch.sync_warp()


def vector_of(v, access, staged, s):
    """Registers with vector `s` of what is staged in smem: an element is [e, 0]."""
    found = fragment(v, access, staged.element_type, 1)
    for i in range(v.vec // access.width):
        found[(None, i), 0].store(staged[(None, i), s].load())
    return found


@cute.jit
def write(v: cutlass.Constexpr, access: cutlass.Constexpr, tensor, start, step: cutlass.Constexpr, inside, values):
    """Store one vector, whose elements lie `step` apart, where it is inside."""
    if inside:
        for i in cutlass.range_constexpr(v.vec // access.width):
            piece(access, tensor, start + i * access.width * step).store(values[(None, i), 0].load())


write_row = shared.write_row


def element(tensor, start):
    """One element."""
    return cute.make_tensor(tensor.iterator + start, cute.make_layout(1))


@cute.jit
def put(tensor, start, inside, value):
    """Store one element where it is inside."""
    if inside:
        element(tensor, start)[0] = value


@cute.jit
def element_where(tensor, start, inside, fill: cutlass.Constexpr):
    """One element where it is inside, the fill value elsewhere."""
    found = tensor.element_type(fill)
    if inside:
        found = element(tensor, start)[0]
    return found


def within(v, inside, value, identity):
    """The value, or beyond the end of a row what changes no result."""
    if v.exact:
        return value
    return type(value)(cutlass.select_(inside, value, type(value)(identity)))


def inside_of(extents, first, share):
    """Whether a vector lies inside, where a CTA takes `share` elements: known beforehand if they divide the extents."""
    return cutlass.Boolean(True) if prod(extents) % share == 0 else first < prod(extents)


def row_of(v, row, width):
    """Whether a row, or a vector of `width` rows, exists; and the coordinates of it, or else of the last that does."""
    total = prod(v.rows)
    if total % (v.threads // v.row_threads * width) == 0:
        return cutlass.Boolean(True), digits(row, v.rows)
    return row < total, digits(cutlass.min(row, total - width), v.rows)


def place_in_row(v):
    """The row of this thread, its first vector in the row, and how many threads share the row."""
    thread, block = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    row = block // v.cluster * (v.threads // v.row_threads) + thread // v.row_threads
    return row, block % v.cluster * v.row_threads + thread % v.row_threads, v.cluster * v.row_threads


def place_in_column(v):
    """The vector of kept elements of this thread, its first column, and how many threads share the vector."""
    thread, block = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    across = v.threads // v.row_threads
    return block * across + thread % across, thread // across, v.row_threads


def exchange(v, smem, *dtypes):
    """Smem through which the threads of a row pass on their states; over a cluster, with the barrier of its arrival."""
    slots = tuple(smem.allocate_tensor(dtype, cute.make_layout(v.exchanged), 16) for dtype in dtypes)
    return slots, smem.allocate_array(cutlass.Int64, 1) if v.cluster > 1 else None


@cute.jit
def enter_cluster(v: cutlass.Constexpr, parts):
    """Make the barriers ready for what the CTAs of the cluster will send, and tell them so."""
    if cutlass.const_expr(v.cluster > 1):
        if cute.arch.thread_idx()[0] == 0:
            for slots, barrier in parts:
                cute.arch.mbarrier_init(barrier, 1)
                bytes_ = sum(v.exchanged * slot.element_type.width // 8 for slot in slots)
                cute.arch.mbarrier_arrive_and_expect_tx(barrier, bytes_)
        cute.arch.mbarrier_init_fence()
        cute.arch.cluster_arrive_relaxed()


@cute.jit
def meet_cluster(v: cutlass.Constexpr):
    """Wait until the barriers of all CTAs are ready."""
    if cutlass.const_expr(v.cluster > 1):
        cute.arch.cluster_wait()


@cute.jit
def send_state(v: cutlass.Constexpr, state, slots, barrier, at):
    """Write the state of a warp into the smem of every CTA of the cluster, a lane for each."""
    rank = cute.arch.lane_idx()
    if rank < v.cluster:
        for part, slot in zip(state, slots, strict=True):
            target = cute.arch.map_dsmem_ptr(slot.iterator + at, rank).toint()
            arrival = cute.arch.map_dsmem_ptr(barrier, rank).toint()
            kind = slot.element_type.width
            code = f"st.async.shared::cluster.mbarrier::complete_tx::bytes.b{kind} [{{$r0}}], {{$r1}}, [{{$r2}}];"
            cute.arch.inline_ptx(code, read_only_args=[target, part, arrival])


def combine_row(v, state, join, parts):
    """Combine the states of a row's threads; every thread gets the result."""
    for i in range(min(v.row_threads, WARP).bit_length() - 1):
        state = join(state, tuple(cute.arch.shuffle_sync_bfly(part, offset=1 << i) for part in state))
    warps = max(v.row_threads // WARP, 1)
    count = warps * v.cluster
    if count == 1:
        return state
    slots, barrier = parts
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    first = warp // warps * warps if v.cluster == 1 else 0
    if v.cluster == 1:
        for part, slot in zip(state, slots, strict=True):
            slot[warp] = part
        cute.arch.sync_threads()
    else:
        send_state(v, state, slots, barrier, cute.arch.block_idx_in_cluster() * warps + warp)
        cute.arch.mbarrier_wait(barrier, 0)
    state = tuple(slot[first + lane % min(count, WARP)] for slot in slots)
    for i in range(1, count // WARP):
        state = join(state, tuple(slot[i * WARP + lane] for slot in slots))
    for i in range(min(count, WARP).bit_length() - 1):
        state = join(state, tuple(cute.arch.shuffle_sync_bfly(part, offset=1 << i) for part in state))
    return state


def combine_columns(v, states, join, parts):
    """Combine the states, a fragment each, of the threads that share a vector; every thread gets the result."""
    if v.row_threads == 1:
        return
    slots, _ = parts
    across = v.threads // v.row_threads
    y, x = cute.arch.thread_idx()[0] // across, cute.arch.thread_idx()[0] % across
    held = [(f, slot, e) for f, slot in zip(states, slots, strict=True) for e in range(v.vec)]
    for f, slot, e in held:
        slot[(y * v.vec + e) * across + x] = f[e]
    cute.arch.sync_threads()
    for first in range(0, v.vec, v.row_threads):
        combine_element(v, join, slots, y + first, x)
    cute.arch.sync_threads()
    for f, slot, e in held:
        f[e] = slot[e * across + x]


@cute.jit
def combine_element(v: cutlass.Constexpr, join: cutlass.Constexpr, slots, e, x):
    """Combine one element of a vector's states, which lie in smem, in the place of the first one."""
    across = v.threads // v.row_threads
    if e < v.vec:
        state = tuple(slot[e * across + x] for slot in slots)
        for y in cutlass.range_constexpr(1, v.row_threads):
            state = join(state, tuple(slot[(y * v.vec + e) * across + x] for slot in slots))
        for part, slot in zip(state, slots, strict=True):
            slot[e * across + x] = part


def filled(v, dtype, value):
    """A fragment with one value for each element of a vector."""
    found = cute.make_rmem_tensor(v.vec, dtype)
    found.fill(dtype(value))
    return found


def first_of_largest(a, b):
    """Of two (value, index) the larger; the first one among equals, and NaN before everything."""
    a_is_nan, b_is_nan = a[0] != a[0], b[0] != b[0]
    same = (a[0] == b[0]) | (a_is_nan & b_is_nan)
    better = (b[0] > a[0]) & ~a_is_nan | b_is_nan & ~a_is_nan | same & (b[1] < a[1])
    return tuple(type(x)(cutlass.select_(better, y, x)) for x, y in zip(a, b, strict=True))


def first_of_smallest(a, b):
    """Of two (value, index) the smaller; the first one among equals, and NaN before everything."""
    a_is_nan, b_is_nan = a[0] != a[0], b[0] != b[0]
    same = (a[0] == b[0]) | (a_is_nan & b_is_nan)
    better = (b[0] < a[0]) & ~a_is_nan | b_is_nan & ~a_is_nan | same & (b[1] < a[1])
    return tuple(type(x)(cutlass.select_(better, y, x)) for x, y in zip(a, b, strict=True))


def earlier_place(value, best, place, found):
    """The place of an element that is the best one, or NaN if that is, unless an earlier place is found."""
    is_best = (value == best) | (value != value)
    return type(found)(cutlass.min(cutlass.select_(is_best, type(found)(place), found), found))


def place_along(v, place, first, lane, lanes):
    """The column of a thread's element, where threads lie along the columns; `first` is its first vector."""
    return INDEX(((first + place // v.vec) * lanes + lane) * v.vec + place % v.vec)


def place_down(v, place, first, lane, lanes):
    """The column of a thread's element, where threads walk down side by side; `first` is its first vector."""
    return INDEX((first + place) * lanes + lane)


def at_least_one(count):
    """A number of values to divide by."""
    return type(count)(cutlass.select_(count > 1.0, count, type(count)(1.0)))


def share_of(part, count):
    """part / count, of fp32 within two units in the last place."""
    whole = at_least_one(count)
    return part / whole if type(whole) is cutlass.Float64 else part * cute.arch.rcp_approx(whole)


def start_of(v, place, inside, value, start):
    """What a thread takes distances from: its first element, where it has one that is finite."""
    if place > 0:
        return start
    kind = type(start)
    return kind(cutlass.select_(value - value == 0.0, within(v, inside, value, 0.0), kind(0.0)))


def moments_about(start, count, total, square):
    """(count, mean, sum of squared deviations) of values whose distances from `start` are summed, and their squares."""
    mean, kind = total / at_least_one(count), type(square)
    about_mean = square - total * mean  # rounding may take it below 0
    return count, start + mean, kind(cutlass.select_(about_mean < 0.0, kind(0.0), about_mean))


join_moments = shared.join_moments


def scan_row(v, totals, carry, join, identity, slots):
    """Replace the totals of this thread's vectors by all that stands before each; return what the row holds by now."""
    lane, width, warps = cute.arch.lane_idx(), min(v.row_threads, WARP), max(v.row_threads // WARP, 1)
    warp, whole = cute.arch.warp_idx(), []
    first = warp // warps * warps
    kind = totals.element_type
    for s in range(v.steps):
        upto = kind(totals[s])
        for i in range(width.bit_length() - 1):
            joined = join((cute.arch.shuffle_sync_up(upto, offset=1 << i),), (upto,))[0]
            upto = kind(cutlass.select_(lane % width >= 1 << i, joined, upto))
        before = cute.arch.shuffle_sync_up(upto, offset=1)
        totals[s] = kind(cutlass.select_(lane % width > 0, before, identity))
        whole.append(cute.arch.shuffle_sync(upto, offset=lane // width * width + width - 1))
        if warps > 1:
            slots[s * (v.threads // WARP) + warp] = whole[s]
    if warps > 1:
        cute.arch.sync_threads()
    for s in range(v.steps):
        start = carry
        for w in range(warps):
            part = whole[s] if warps == 1 else slots[s * (v.threads // WARP) + first + w]
            start = kind(cutlass.select_(w < warp - first, join((carry,), (part,))[0], start)) if warps > 1 else start
            carry = join((carry,), (part,))[0]
        totals[s] = join((start,), (totals[s],))[0]
    if warps > 1:
        cute.arch.sync_threads()
    return carry


def center_of(largest):
    """What to take off exponents: the largest of them, or 0 where that is minus infinity, whose exp is 0 anyway."""
    return cutlass.Float32(cutlass.select_(largest == float("-inf"), cutlass.Float32(0.0), largest))


def join_exponents(a, b):
    """(largest, sum of exp(x - largest)) of two sets of values together."""
    largest = cute.arch.fmax(a[0], b[0], nan=True)
    center = center_of(largest)
    scale_a, scale_b = (cute.math.exp(part[0] - center, fastmath=True) for part in (a, b))
    return largest, a[1] * scale_a + b[1] * scale_b
