"""Vectors of 16 lanes for Numba, as generic LLVM IR: no C compiler and no particular processor.

Numba widens 32-bit integers and then leaves loops over the columns of a board unvectorised. Here
a function is written with ordinary operators on `Lanes`, and `emitted` makes it an intrinsic that
compiled code calls with the four arrays of `layout`. Nothing is contracted or reordered: results
are the same bits on every machine.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdpnewton.domains.tetris.kernels.layout import LANES

# Numba keeps compiled functions on disk and looks for changes in their own file only. Functions
# that are kept read this, and so are compiled anew when any file that they are made of has changed.
_FILES = sorted(Path(__file__).parent.glob("*.py")) + [
    Path(__file__).parents[1] / f"{name}.py" for name in ("plain", "streams")
]
SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in _FILES)).hexdigest()

I32, I64, F64 = ir.IntType(32), ir.IntType(64), ir.DoubleType()


class Lanes:
    """A vector value while code is emitted: arithmetic, bits and comparisons lane by lane."""

    def __init__(self, builder: Any, value: Any):
        self.builder, self.value = builder, value

    @property
    def real(self) -> bool:
        """Whether the lanes are doubles."""
        return isinstance(self.value.type.element, ir.DoubleType)

    def _with(self, other: Any) -> Any:
        if isinstance(other, Lanes):
            return other.value
        element, count = self.value.type.element, self.value.type.count
        if isinstance(other, int | float):
            return ir.Constant(self.value.type, [element(other)] * count)
        return splat(self.builder, other, count).value

    def _apply(self, whole: str, real: str, other: Any) -> "Lanes":
        name = real if self.real else whole
        return Lanes(self.builder, getattr(self.builder, name)(self.value, self._with(other)))

    def __add__(self, other: Any) -> "Lanes":
        return self._apply("add", "fadd", other)

    def __sub__(self, other: Any) -> "Lanes":
        return self._apply("sub", "fsub", other)

    def __mul__(self, other: Any) -> "Lanes":
        return self._apply("mul", "fmul", other)

    def __and__(self, other: Any) -> "Lanes":
        return self._apply("and_", "", other)

    def __or__(self, other: Any) -> "Lanes":
        return self._apply("or_", "", other)

    def __xor__(self, other: Any) -> "Lanes":
        return self._apply("xor", "", other)

    def __lshift__(self, other: Any) -> "Lanes":
        return self._apply("shl", "", other)

    def __rshift__(self, other: Any) -> "Lanes":
        return self._apply("lshr", "", other)

    def __rsub__(self, other: Any) -> "Lanes":
        return Lanes(self.builder, self.builder.sub(self._with(other), self.value))

    def __invert__(self) -> "Lanes":
        return Lanes(self.builder, self.builder.not_(self.value))

    def compare(self, sign: str, other: Any) -> "Lanes":
        """One bit per lane."""
        if self.real:
            value = self.builder.fcmp_ordered(sign, self.value, self._with(other))
        else:
            value = self.builder.icmp_signed(sign, self.value, self._with(other))
        return Lanes(self.builder, value)

    def where(self, yes: "Lanes", no: Any) -> "Lanes":
        """The lanes of `yes` where this, a comparison, holds, else those of `no`."""
        return Lanes(self.builder, self.builder.select(self.value, yes.value, yes._with(no)))

    def bits(self) -> Any:
        """A comparison as one 64-bit integer, the first lane lowest."""
        packed = self.builder.bitcast(self.value, ir.IntType(self.value.type.count))
        return self.builder.zext(packed, I64)

    def shifted(self, by: int, fill: int = 0) -> "Lanes":
        """Lane c takes the value of lane c + by, and `fill` where there is none."""
        outside = self._with(fill if not self.real else float(fill))
        picks = [c + by if 0 <= c + by < LANES else LANES for c in range(LANES)]
        mask = ir.Constant(ir.VectorType(I32, LANES), picks)
        return Lanes(self.builder, self.builder.shuffle_vector(self.value, outside, mask))

    def doubles(self) -> "Lanes":
        """Signed integers as doubles."""
        kind = ir.VectorType(F64, self.value.type.count)
        return Lanes(self.builder, self.builder.sitofp(self.value, kind))

    def part(self, count: int) -> "Lanes":
        """The first `count` lanes."""
        mask = ir.Constant(ir.VectorType(I32, count), list(range(count)))
        return Lanes(self.builder, self.builder.shuffle_vector(self.value, self.value, mask))

    def largest(self, other: Any) -> "Lanes":
        """The larger of the two in every lane."""
        if self.real:
            return self.compare(">", other).where(self, other)
        return self._call("smax", self._with(other))

    def smallest(self, other: Any) -> "Lanes":
        """The smaller of the two integers in every lane."""
        return self._call("smin", self._with(other))

    def absolute(self) -> "Lanes":
        """The absolute values of integers."""
        return self._call("abs", ir.Constant(ir.IntType(1), 0))

    def ones(self) -> "Lanes":
        """How many bits are set."""
        return self._call("ctpop")

    def leading_zeros(self) -> "Lanes":
        """Zeros above the highest bit."""
        return self._call("ctlz", ir.Constant(ir.IntType(1), 0))

    def _call(self, name: str, *others: Any) -> "Lanes":
        kind = self.value.type
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(kind, [kind, *[other.type for other in others]]),
            f"llvm.{name}.v{kind.count}{kind.element.intrinsic_name}",
        )
        return Lanes(self.builder, self.builder.call(function, [self.value, *others]))

    def folded(self, combine: Callable[["Lanes", "Lanes"], "Lanes"]) -> Any:
        """All lanes combined into a scalar, halves by halves."""
        lanes, count = self, self.value.type.count
        while count > 1:
            count //= 2
            halves = []
            for start in (0, count):
                mask = ir.Constant(ir.VectorType(I32, count), list(range(start, start + count)))
                halves.append(self.builder.shuffle_vector(lanes.value, lanes.value, mask))
            lanes = combine(Lanes(self.builder, halves[0]), Lanes(self.builder, halves[1]))
        return self.builder.extract_element(lanes.value, I32(0))

    def total(self) -> Any:
        """The sum over the lanes."""
        return self.folded(lambda one, other: one + other)

    def greatest(self) -> Any:
        """The largest lane."""
        return self.folded(lambda one, other: one.largest(other))

    def any_bits(self) -> Any:
        """OR over the lanes."""
        return self.folded(lambda one, other: one | other)


def splat(builder: Any, scalar: Any, count: int = LANES) -> Lanes:
    """A scalar in every lane."""
    kind = ir.VectorType(scalar.type, count)
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, scalar, I32(0))
    zeros = ir.Constant(ir.VectorType(I32, count), [0] * count)
    return Lanes(builder, builder.shuffle_vector(first, undefined, zeros))


class Buffer:
    """An array of `layout`, read and written at offsets: Python integers or emitted ones."""

    def __init__(self, builder: Any, pointer: Any, element: Any):
        self.builder, self.pointer, self.element = builder, pointer, element

    def _at(self, offset: Any, kind: Any) -> Any:
        where = I64(offset) if isinstance(offset, int) else offset
        return self.builder.bitcast(self.builder.gep(self.pointer, [where]), kind.as_pointer())

    def lanes(self, offset: Any, count: int = LANES) -> Lanes:
        """The `count` entries from there on."""
        kind = ir.VectorType(self.element, count)
        size = 4 if self.element is I32 else 8
        return Lanes(self.builder, self.builder.load(self._at(offset, kind), align=size))

    def put(self, offset: Any, lanes: Lanes) -> None:
        """Store as many entries as there are lanes."""
        size = 4 if self.element is I32 else 8
        self.builder.store(lanes.value, self._at(offset, lanes.value.type), align=size)

    def scalar(self, offset: Any) -> Any:
        """One entry."""
        return self.builder.load(self._at(offset, self.element))

    def put_scalar(self, offset: Any, value: Any) -> None:
        """Store one entry."""
        self.builder.store(value, self._at(offset, self.element))


def lane_numbers(builder: Any) -> Lanes:
    """0, 1, ..., 15."""
    return Lanes(builder, ir.Constant(ir.VectorType(I32, LANES), list(range(LANES))))


def offset(builder: Any, start: int, index: Any, stride: int) -> Any:
    """start + stride index, as an emitted integer."""
    return builder.add(builder.mul(index, I64(stride)), I64(start))


def emitted(result: Any, extra: Sequence[Any] = (types.int64, types.int64)) -> Any:
    """Make `body(builder, shapes, tables, ints, reals, a, b)` an intrinsic of six arguments.

    Args:
        result: Numba's type of what the function returns; None for nothing.
        extra: Numba's types of a and b, to which the call's arguments are cast.
    """

    def decorate(body: Callable[..., Any]) -> Any:
        def typed(
            context: Any, shapes: Any, tables: Any, ints: Any, reals: Any, a: Any, b: Any
        ) -> Any:
            kind = types.void if result is None else result
            signature = kind(shapes, tables, ints, reals, *extra)

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                buffers = []
                for argument, value in zip(signature.args[:4], arguments[:4], strict=True):
                    data = context.make_array(argument)(context, builder, value).data
                    element = I32 if argument.dtype == types.int32 else F64
                    buffers.append(Buffer(builder, data, element))
                value = body(builder, *buffers, *arguments[4:])
                return context.get_dummy_value() if result is None else value

            return signature, generate

        typed.__name__, typed.__doc__ = body.__name__, body.__doc__
        return intrinsic(typed)

    return decorate


def _lowest(context: Any, word: Any) -> Any:
    """Index of the lowest bit that is set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


lowest: Any = intrinsic(_lowest)
