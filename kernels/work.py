"""What each kernel must compute and move, whoever writes it: FLOPs, and bytes of memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """A multiplication and an addition are two FLOPs. Each byte counts once, read or written."""

    flops: float
    bytes: float


def rms_norm(rows: int, D: int, item: int) -> Work:
    """Rows of `D` values of `item` bytes each: in, and out again."""
    return Work(4 * rows * D, 2 * item * rows * D)


def gated_rms_norm(rows: int, V: int, item: int) -> Work:
    """Reads and gates in, gated reads out."""
    return Work(6 * rows * V, 3 * item * rows * V)


def short_convolution(B: int, T: int, D: int, W: int, item: int) -> Work:
    """Rows in and out, and the state of each sequence."""
    return Work(2 * W * B * T * D, item * D * (2 * B * T + 2 * W * B + W))


def kda_step(B: int, H: int, K: int, V: int, item: int) -> Work:
    """The memory in and out, in float32; each value is decayed, recalled, written and read."""
    vectors = item * (3 * K + 2 * V + 1)
    return Work(7 * B * H * K * V, B * H * (2 * 4 * K * V + vectors))


def kda_prefill(B: int, T: int, H: int, K: int, V: int, item: int, C: int = 32) -> Work:
    """Three products with the memory a row, and the rows of a chunk of `C` with each other."""
    pairs = 2 * C * (2 * K + 2 * V) + 2 * C * C / 3
    memory = 2 * 4 * K * V * B * H
    return Work(B * T * H * (6 * K * V + pairs), B * T * H * item * (3 * K + 2 * V + 1) + memory)


def source_mix(rows: int, S: int, D: int, item: int) -> Work:
    """Each source is squared, scored and mixed; read once, and one row written."""
    return Work(6 * rows * S * D, item * rows * D * (S + 1))


def mla_prefill(B: int, T: int, H: int, X: int, V: int, item: int) -> Work:
    """Half of the pairs of a query and a key; queries, keys and values in, reads out."""
    return Work(B * H * T * T * (X + V), item * B * T * H * (2 * X + 2 * V))


def mla_decode(B: int, P: int, H: int, C: int, R: int, item: int) -> Work:
    """Every head scores latents and shared keys and mixes latents, which are read once for all."""
    heads = item * B * H * (2 * C + R)
    return Work(2 * B * H * P * (2 * C + R), item * B * P * (C + R) + heads)


def rotation(T: int, H: int, R: int, item: int) -> Work:
    """Values in, float32 out, and a cosine and a sine of every pair and position."""
    return Work(3 * T * H * R, T * H * R * (item + 4) + 4 * T * R)


def router(rows: int, E: int, A: int) -> Work:
    """The choice alone: float32 logits in; an index and a weight a choice out."""
    return Work(5 * rows * E, rows * (4 * E + 12 * A))


def experts(tokens: int, E: int, A: int, Z: int, F: int, item: int, weight: float) -> Work:
    """Three matrices of `weight` bytes a value, of each expert that chance hits, read once."""
    hit = E * (1 - (1 - A / E) ** tokens)
    rows = item * tokens * A * (2 * Z + 2 * F)
    return Work(6 * tokens * A * Z * F, 3 * Z * F * weight * hit + rows)


def situ(rows: int, F: int, item: int) -> Work:
    """Two exponentials and a sigmoid, of about twenty operations."""
    return Work(20 * rows * F, 3 * item * rows * F)


def swiglu(rows: int, F: int, item: int) -> Work:
    return Work(5 * rows * F, 3 * item * rows * F)
