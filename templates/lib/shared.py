"""Functions of the library that every DSL prints alike: their text names what each DSL's own library defines.

A library of a DSL takes one over by its name, `relu = shared.relu`, at the place that it has in emitted files.
"""

from own import choose, elu, maximum, minimum, select, select_f64, share_of, sigmoid_approximate, write

INDEX = int


def relu(x):
    """max(x, 0); NaN stays NaN."""
    return maximum(x, 0.0)


def sign(x):
    """-1, 0 or 1; 0 for NaN, as torch has it."""
    return select(x > 0.0, 1.0, select(x < 0.0, -1.0, 0.0))


def reciprocal(x):
    """1 / x, correctly rounded."""
    return 1.0 / x


def leaky_relu(x, slope):
    """x where positive, slope * x elsewhere."""
    return select(x > 0.0, x, x * slope)


def selu(x):
    """elu with the self-normalising constants."""
    return elu(x, 1.6732632423543772, 1.0507009873554805, 1.0)


def hardsigmoid(x):
    """clamp(x + 3, 0, 6) / 6."""
    return minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0


def hardswish(x):
    """x * clamp(x + 3, 0, 6) / 6."""
    return x * minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0


def sign_int(kind, x):
    """-1, 0 or 1."""
    return choose(kind, x > kind(0), kind(1), choose(kind, x < kind(0), kind(-1), kind(0)))


def trunc_divide_int(x, y):
    """x / y, rounded towards zero."""
    return (x - x % y) // y


def remainder_int(kind, x, y):
    """What floor division leaves; it has the sign of y."""
    rest = x % y
    return choose(kind, (rest != kind(0)) & ((rest ^ y) < kind(0)), rest + y, rest)


def shift_left(kind, x, bits):
    """x << bits, and 0 where the type has no such bit."""
    inside = (bits >= kind(0)) & (bits < kind(kind.width))
    return choose(kind, inside, x << choose(kind, inside, bits, kind(0)), kind(0))


def shift_right(kind, x, bits):
    """x >> bits, filled with the sign; a shift that is negative or too wide leaves nothing else."""
    most = kind(kind.width - 1)
    inside = (bits >= kind(0)) & (bits < most)
    return x >> choose(kind, inside, bits, most)


def shift_right_unsigned(kind, x, bits):
    """x >> bits, and 0 where the type has no such bit."""
    inside = bits < kind(kind.width)
    return choose(kind, inside, x >> choose(kind, inside, bits, kind(0)), kind(0))


def sign_f64(x):
    """-1, 0 or 1; 0 for NaN, as torch has it."""
    return select_f64(x > 0.0, 1.0, select_f64(x < 0.0, -1.0, 0.0))


def leaky_relu_f64(x, slope):
    """x where positive, slope * x elsewhere."""
    return select_f64(x > 0.0, x, x * slope)


def silu_approximate(x):
    """x * sigmoid(x)."""
    return x * sigmoid_approximate(x)


def gelu_tanh_approximate(x):
    """The tanh form of gelu, as x * sigmoid(2 * inner)."""
    return x * sigmoid_approximate(x * (1.5957691216057308 + 0.07135481282552437 * (x * x)))


def offset(access, at_row, at_col=()):
    """Element of a tensor at given coordinates."""
    steps = (*zip(at_row, access.rows, strict=True), *zip(at_col, access.cols if at_col else (), strict=True))
    return sum((INDEX(at) * stride for at, stride in steps if stride), INDEX(access.base))


def write_row(v, access, tensor, at_row, inside, values):
    """Store the values of a vector of rows where it is inside."""
    write(v, access, tensor, offset(access, at_row), access.rows[0], inside, values)


def shifted(at, by):
    """Coordinates `by` elements further along the innermost axis."""
    return (at[0] + by, *at[1:])


def join_moments(a, b):
    """(count, mean, sum of squared deviations) of two sets of values together."""
    count = a[0] + b[0]
    share = share_of(b[0], count)
    distance = b[1] - a[1]
    return count, a[1] + distance * share, a[2] + b[2] + distance * distance * a[0] * share
