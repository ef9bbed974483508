"""Mends Triton's interpreter: it takes bits of bfloat16 for integers, and repeats its set-up."""

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, TensorHandle

Array = np.ndarray[Any, Any]


def widened(bits: Array) -> Array:
    """The float32 that a bfloat16 is the upper half of."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrowed(x: Array) -> Array:
    """Bits of the nearest bfloat16, the even one of two; NaN stays NaN."""
    x = np.ascontiguousarray(x, dtype=np.float32)
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    quiet = ((bits >> 16) | 0x40).astype(np.uint16)
    return np.where(np.isnan(x), quiet, rounded)


def is_bfloat16(handle: TensorHandle) -> bool:
    return handle.dtype.scalar == tl.bfloat16


def as_float(handle: TensorHandle) -> TensorHandle:
    if not is_bfloat16(handle):
        return handle
    return TensorHandle(widened(handle.data), tl.float32)


def in_ten_bits(handle: TensorHandle) -> TensorHandle:
    """A factor of a product in TF32, the rest of its bits cut off: the worst that a GPU may do."""
    if handle.data.dtype != np.float32:
        return handle
    bits = np.ascontiguousarray(handle.data).view(np.uint32) & np.uint32(0xFFFFE000)
    return TensorHandle(bits.view(np.float32), tl.float32)


def computed(method: Callable[..., TensorHandle], operands: int) -> Callable[..., TensorHandle]:
    """An elementwise method of the builder: in float32, and rounded once."""

    def widely(self: InterpreterBuilder, *args: Any) -> TensorHandle:
        given, rest = args[:operands], args[operands:]
        if not any(is_bfloat16(x) for x in given):
            return method(self, *args)
        result = method(self, *(as_float(x) for x in given), *rest)
        if result.data.dtype == bool:
            # a comparison, whose handle carries the type of what it compared
            return TensorHandle(result.data, tl.bfloat16)
        return TensorHandle(narrowed(result.data), tl.bfloat16)

    return widely


def teach_bfloat16() -> None:
    builder = InterpreterBuilder
    binary, ternary, unary = builder.binary_op, builder.ternary_op, builder.unary_op
    dot, cast, convert = builder.create_dot, builder.cast_impl, builder.create_fp_to_fp

    def ternary_op(self: InterpreterBuilder, a: Any, b: Any, c: Any, op: Any) -> TensorHandle:
        chosen = op is np.where
        return ternary(self, a, b, c, op) if chosen else computed(ternary, 3)(self, a, b, c, op)

    def create_dot(
        self: InterpreterBuilder, a: Any, b: Any, d: Any, precision: Any, imprecise: Any
    ) -> TensorHandle:
        a, b = as_float(a), as_float(b)
        if precision == ir.INPUT_PRECISION.TF32:
            a, b = in_ten_bits(a), in_ten_bits(b)
        product = dot(self, a, b, as_float(d), precision, imprecise)
        return TensorHandle(narrowed(product.data), tl.bfloat16) if is_bfloat16(d) else product

    def cast_impl(self: InterpreterBuilder, src: Any, dst_type: Any) -> TensorHandle:
        if is_bfloat16(src) and dst_type.scalar != tl.bfloat16:
            return cast(self, as_float(src), dst_type)
        if dst_type.scalar == tl.bfloat16 and not is_bfloat16(src):
            return TensorHandle(narrowed(src.data), tl.bfloat16)
        return cast(self, src, dst_type)

    def create_fp_to_fp(
        self: InterpreterBuilder, src: Any, dst_type: Any, rounding: Any
    ) -> TensorHandle:
        if tl.bfloat16 in (src.dtype.scalar, dst_type.scalar):
            return cast_impl(self, src, dst_type)
        return convert(self, src, dst_type, rounding)

    def apply(self: ReduceOps, operands: Any) -> Any:
        for x in operands if isinstance(operands, tuple) else (operands,):
            if x.dtype.scalar == tl.bfloat16:
                raise TypeError("a reduction of bfloat16: widen the tile to float32 first")
        return reduce(self, operands)

    def get_bf16(self: InterpreterBuilder, value: float) -> TensorHandle:
        return TensorHandle(narrowed(np.array([value])), tl.bfloat16)

    reduce = ReduceOps.apply_impl
    builder.binary_op = computed(binary, 2)
    builder.unary_op = computed(unary, 1)
    builder.ternary_op = ternary_op
    builder.get_bf16 = get_bf16
    builder.create_fma = computed(builder.create_fma, 3)
    builder.create_rsqrt = computed(builder.create_rsqrt, 1)
    builder.create_dot = create_dot
    builder.cast_impl = cast_impl
    builder.create_fp_to_fp = create_fp_to_fp
    ReduceOps.apply_impl = apply


def prepare_language_once() -> None:
    """Each call of a Triton function rewrites Triton's language, which within a kernel it is.

    That takes half of the time of a kernel that calls many.
    """
    rewrite = interpreter._patch_lang

    def rewrite_where_needed(fn: Callable[..., Any]) -> Any:
        seen = [x for x in fn.__globals__.values() if x is tl or x is tl.core]
        if all(not tl.core.is_builtin(language.load) for language in seen):
            return interpreter._LangPatchScope()
        return rewrite(fn)

    interpreter._patch_lang = rewrite_where_needed
