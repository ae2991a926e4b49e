"""Compute four numbers at a time: the innermost loops, written in the compiler's own language.

A compiler that vectorises a loop over 30 numbers by itself spends most of the time on the numbers that do not fill a
block. It also cannot keep a tile of a matrix in registers. These functions take addresses of float64 memory.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_D, _I32, _I64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_V = ir.VectorType(_D, 4)
_FUSE = ("contract", "reassoc")


def _int(value: int) -> Any:
    return ir.Constant(_I64, value)


def _splat(build, x):
    """Return x in all four places."""
    first = build.insert_element(ir.Constant(_V, ir.Undefined), x, ir.Constant(_I32, 0))
    return build.shuffle_vector(
        first, ir.Constant(_V, ir.Undefined), ir.Constant(ir.VectorType(_I32, 4), [0] * 4)
    )


def _at(build, base, index, kind):
    return build.inttoptr(build.add(base, build.shl(index, _int(3))), kind.as_pointer())


def _load(build, base, index, kind=_V):
    value = build.load(_at(build, base, index, kind))
    value.align = 8
    return value


def _store(build, value, base, index, kind=_V):
    build.store(value, _at(build, base, index, kind)).align = 8


def _add_product(build, x, y, z):
    """Return x y + z, with one rounding where the processor can."""
    return build.fadd(build.fmul(x, y, flags=_FUSE), z, flags=_FUSE)


def _loop(build, start, end, step, carried, body):
    """Emit for i in range(start, end, step), where body(i, values) gives the new values; return the last i
    and the values."""
    head, inside, done = (build.function.append_basic_block(name) for name in ("head", "inside", "done"))
    entry = build.block
    build.branch(head)
    build.position_at_end(head)
    i = build.phi(_I64)
    i.add_incoming(start, entry)
    values = [build.phi(x.type) for x in carried]
    for value, x in zip(values, carried, strict=True):
        value.add_incoming(x, entry)
    build.cbranch(build.icmp_signed("<", i, end), inside, done)
    build.position_at_end(inside)
    new = body(i, values)
    i.add_incoming(build.add(i, _int(step)), build.block)
    for value, x in zip(values, new, strict=True):
        value.add_incoming(x, build.block)
    build.branch(head)
    build.position_at_end(done)
    return i, values


@intrinsic
def address(typing, array):
    """Return the address of an array's numbers; `array.ctypes.data` gives it too, and counts two references
    on the way."""

    def write(context, build, signature, args):
        return build.ptrtoint(context.make_array(signature.args[0])(context, build, args[0]).data, _I64)

    return types.int64(array), write


def _pointer(kind):
    @intrinsic
    def cast(typing, place):
        def write(context, build, signature, args):
            return build.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), write

    return cast


# Each of these turns an address into a pointer to numbers of one kind, for `numba.carray`.
doubles, floats, longs, ints = (
    _pointer(kind) for kind in (types.float64, types.float32, types.int64, types.int32)
)


@intrinsic
def tile(typing, left, panel, count, coefficients, target):
    """Replace target [4, 8] by C^-1 (target - sum over q < count of left[q, :4]^T panel[q, :8]); rows have 8 numbers.

    C is a lower triangle; its ten coefficients come row by row, the diagonal ones inverted.
    """

    def write(context, build, signature, args):
        left, panel, count, coefficients, target = args

        def body(q, sums):
            row = build.shl(q, _int(3))
            halves = _load(build, panel, row), _load(build, panel, build.add(row, _int(4)))
            new = []
            for r in range(4):
                factor = _splat(build, _load(build, left, build.add(row, _int(r)), _D))
                new += [_add_product(build, factor, half, sums[2 * r + h]) for h, half in enumerate(halves)]
            return new

        zero = ir.Constant(_V, [0.0] * 4)
        _, sums = _loop(build, _int(0), count, 1, [zero] * 8, body)
        rows: list[Any] = []
        at = 0
        for r in range(4):
            both = [build.fsub(_load(build, target, _int(8 * r + 4 * h)), sums[2 * r + h]) for h in range(2)]
            for earlier in rows:
                factor = _splat(build, _load(build, coefficients, _int(at), _D))
                both = [build.fsub(both[h], build.fmul(factor, earlier[h])) for h in range(2)]
                at += 1
            inverse = _splat(build, _load(build, coefficients, _int(at), _D))
            at += 1
            rows.append([build.fmul(half, inverse) for half in both])
            for h in range(2):
                _store(build, rows[r][h], target, _int(8 * r + 4 * h))
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 5), write


@intrinsic
def add_multiple(typing, y, factor, x, count):
    """Compute y[:count] += factor x[:count]."""

    def write(context, build, signature, args):
        y, factor, x, count = args
        four = _splat(build, factor)

        def body(times):
            def some(i, _):
                for h in range(times):
                    at = build.add(i, _int(4 * h))
                    _store(build, _add_product(build, four, _load(build, x, at), _load(build, y, at)), y, at)
                return []

            return some

        def single(i, _):
            new = _add_product(build, factor, _load(build, x, i, _D), _load(build, y, i, _D))
            _store(build, new, y, i, _D)
            return []

        i, _ = _loop(build, _int(0), build.sub(count, _int(15)), 16, [], body(4))
        i, _ = _loop(build, i, build.sub(count, _int(3)), 4, [], body(1))
        _loop(build, i, count, 1, [], single)
        return context.get_dummy_value()

    return types.void(types.int64, types.float64, types.int64, types.int64), write


@intrinsic
def take_products(typing, y, panel, x, count):
    """Compute y[i] -= <panel[i, :8], x[:8]> for i < count, a multiple of 4; rows have 8 numbers."""

    def write(context, build, signature, args):
        y, panel, x, count = args
        low, high = _load(build, x, _int(0)), _load(build, x, _int(4))

        def pairs(a, b):
            """Return the sums of neighbours in a and in b, side by side."""
            pick = [ir.Constant(ir.VectorType(_I32, 4), which) for which in ([0, 4, 2, 6], [1, 5, 3, 7])]
            return build.fadd(*(build.shuffle_vector(a, b, which) for which in pick))

        def body(i, _):
            sums = []
            for r in range(4):
                row = build.shl(build.add(i, _int(r)), _int(3))
                first = build.fmul(_load(build, panel, row), low, flags=_FUSE)
                sums.append(_add_product(build, _load(build, panel, build.add(row, _int(4))), high, first))
            a, b = pairs(sums[0], sums[1]), pairs(sums[2], sums[3])
            halves = [
                build.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, 4), which))
                for which in ([0, 1, 4, 5], [2, 3, 6, 7])
            ]
            _store(build, build.fsub(_load(build, y, i), build.fadd(*halves)), y, i)
            return []

        _loop(build, _int(0), count, 4, [], body)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 4), write


@intrinsic
def unsound(typing, x, count):
    """Return 0 where all of x[:count] are finite, NaN otherwise."""

    def write(context, build, signature, args):
        x, count = args
        zero = ir.Constant(_V, [0.0] * 4)

        def body(i, sums):
            parts = [_load(build, x, build.add(i, _int(4 * h))) for h in range(4)]
            return [build.fadd(s, build.fmul(part, zero)) for s, part in zip(sums, parts, strict=True)]

        def single(i, sums):
            return [build.fadd(sums[0], build.fmul(_load(build, x, i, _D), ir.Constant(_D, 0.0)))]

        i, sums = _loop(build, _int(0), build.sub(count, _int(15)), 16, [zero] * 4, body)
        total = build.fadd(build.fadd(sums[0], sums[1]), build.fadd(sums[2], sums[3]))
        start = ir.Constant(_D, 0.0)
        for place in range(4):
            start = build.fadd(start, build.extract_element(total, ir.Constant(_I32, place)))
        return _loop(build, i, count, 1, [start], single)[1][0]

    return types.float64(types.int64, types.int64), write


@intrinsic
def power_of_two(typing, n):
    """Return 2^n for a whole number n of -1022 to 1023 that is given as a float, written so that it vectorises."""

    def write(context, build, signature, args):
        magic = 1.5 * 2.0**52  # the last bits of n + magic are those of n as an integer
        bits = build.bitcast(build.fadd(args[0], ir.Constant(_D, magic + 1023)), _I64)
        return build.bitcast(build.shl(bits, _int(52)), _D)

    return types.float64(types.float64), write


@intrinsic
def minus(typing, x, y):
    """Return x - y exactly as written. Plain differences may be reordered: x - y - z becomes x - (y + z) if
    either is plain."""

    def write(context, build, signature, args):
        # The compiler adds no other flags to an instruction that has one.
        return build.fsub(*args, flags=("nsz",))

    return types.float64(types.float64, types.float64), write
