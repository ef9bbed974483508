"""What one call of a kernel computes and moves, as numbers that follow the context rule."""

from collections.abc import Callable
from dataclasses import dataclass

from kernels import work
from kernels.work import Work
from model.config import KimiConfig
from model.cost import Phase, fact
from model.dims import size
from model.presets import preset

ITEM = 2
"""Bytes of an activation and of a dense weight: bfloat16."""
PACKED = 17 / 32
"""Bytes of a weight in MXFP4: half a byte, and a byte of scale for each 32."""
RELEASED_PACKED = "k3"
FAR = 2**20
"""Positions at which counts are evaluated: so far apart that nothing cancels."""
ROUNDING = 1e-12


@dataclass(frozen=True)
class Call:
    """Sizes of one call of one layer."""

    config: KimiConfig
    batch: int
    positions: int
    phase: Phase

    @property
    def pos(self) -> int:
        """New positions of each sequence."""
        return 1 if self.phase == "decode" else self.positions

    @property
    def rows(self) -> int:
        return self.batch * self.pos

    @property
    def kda(self) -> tuple[int, int]:
        """Heads and their width."""
        linear = self.config.linear_attn_config
        if linear is None:
            raise LookupError("This model has no KDA layers.")
        return linear.num_heads, linear.head_dim


@dataclass(frozen=True)
class Growth:
    """`once + batch · (c0 + c1·P + c2·P²) + hit · (1 − miss^rows)`, P being the context."""

    once: float
    parts: tuple[float, float, float]
    hit: float = 0.0
    miss: float = 0.0
    """Share of the experts that one token leaves out; the last term is of experts alone."""

    def at(self, batch: int, positions: int, rows: int) -> float:
        c0, c1, c2 = self.parts
        every = batch * (c0 + positions * (c1 + positions * c2))
        return self.once + every + self.hit * (1 - self.miss**rows)


@dataclass(frozen=True)
class Load:
    """The work of one kernel in one phase."""

    flops: Growth
    bytes: Growth

    def as_json(self) -> dict[str, list[float]]:
        """As the browser reads it: once, three coefficients, hit and miss."""
        return {
            name: [growth.once, *growth.parts, growth.hit, growth.miss]
            for name, growth in (("flops", self.flops), ("bytes", self.bytes))
        }


def load(kernel: str, config: KimiConfig, phase: Phase) -> Load:
    """The work of a kernel as polynomials; LookupError where the model has no such part."""

    def of(what: str, batch: int, positions: int) -> float:
        return getattr(work_of(kernel, Call(config, batch, positions, phase)), what)

    if kernel == "experts":
        return _experts_load(config, phase)
    return Load(*(_growth(lambda b, p, w=what: of(w, b, p)) for what in ("flops", "bytes")))


def work_of(kernel: str, call: Call) -> Work:
    """FLOPs and bytes of one call, by `kernels/work.py`."""
    return _WORK[kernel](call)


def _growth(count: Callable[[int, int], float]) -> Growth:
    """A count that is linear in the batch and at most quadratic in the positions."""
    once = 2 * count(1, 1) - count(2, 1)
    none, far, twice = (count(2, p) - count(1, p) for p in (0, FAR, 2 * FAR))
    square = (twice - 2 * far + none) / (2 * FAR * FAR)
    # what rounding leaves of a square that is none
    square = square if square * FAR * FAR > ROUNDING * far else 0.0
    return Growth(once, (none, (far - none) / FAR - square * FAR, square))


def _experts_load(config: KimiConfig, phase: Phase) -> Load:
    """The bytes of matrices follow the experts that are hit, which is no polynomial."""
    sizes = _expert_sizes(config)

    def rows_alone(what: str) -> Growth:
        def count(batch: int, positions: int) -> float:
            call = Call(config, batch, positions, phase)
            return getattr(work.experts(call.rows, *sizes, ITEM, 0.0), what)

        return _growth(count)

    moved = rows_alone("bytes")
    share = config.num_experts_per_token / config.num_experts
    # one token hits just those that it chose
    chosen = work.experts(1, *sizes, 0, expert_weight_bytes(config)).bytes
    return Load(
        rows_alone("flops"),
        Growth(moved.once, moved.parts, hit=chosen / share, miss=1 - share),
    )


def expert_weight_bytes(config: KimiConfig) -> float:
    """Of one weight as the kernel reads it: packed in the released K3, dense elsewhere."""
    return PACKED if config == preset(RELEASED_PACKED) else ITEM


def _expert_sizes(config: KimiConfig) -> tuple[int, int, int, int]:
    return (
        config.num_experts,
        config.num_experts_per_token,
        size("d_moe_latent", config),
        config.moe_intermediate_size,
    )


def _experts(call: Call) -> Work:
    sizes = _expert_sizes(call.config)
    return work.experts(call.rows, *sizes, ITEM, expert_weight_bytes(call.config))


def _kda_step(call: Call) -> Work:
    heads, width = call.kda
    return work.kda_step(call.batch, heads, width, width, ITEM)


def _kda_prefill(call: Call) -> Work:
    heads, width = call.kda
    return work.kda_prefill(call.batch, call.pos, heads, width, width, ITEM)


def _gated_rms_norm(call: Call) -> Work:
    heads, width = call.kda
    return work.gated_rms_norm(call.rows * heads, width, ITEM)


def _short_convolution(call: Call) -> Work:
    linear = call.config.linear_attn_config
    assert linear is not None
    heads, width = call.kda
    return work.short_convolution(
        call.batch, call.pos, heads * width, linear.short_conv_kernel_size, ITEM
    )


def _source_mix(call: Call) -> Work:
    sources = int(fact("residual_sources_out", call.config).value)
    return work.source_mix(call.rows, sources, call.config.hidden_size, ITEM)


def _mla_prefill(call: Call) -> Work:
    config = call.config
    sizes = (config.num_attention_heads, config.qk_head_dim, config.v_head_dim)
    return work.mla_prefill(call.batch, call.pos, *sizes, ITEM)


def _mla_decode(call: Call) -> Work:
    config = call.config
    sizes = (config.num_attention_heads, config.kv_lora_rank, config.qk_rope_head_dim)
    return work.mla_decode(call.batch, call.positions, *sizes, ITEM)


def _rotation(call: Call) -> Work:
    config = call.config
    return work.rotation(call.rows, config.num_attention_heads, config.qk_rope_head_dim, ITEM)


def _router(call: Call) -> Work:
    return work.router(call.rows, call.config.num_experts, call.config.num_experts_per_token)


def _activation(call: Call) -> Work:
    count = work.swiglu if call.config.hidden_act == "silu" else work.situ
    return count(call.rows, call.config.intermediate_size, ITEM)


_WORK: dict[str, Callable[[Call], Work]] = {
    "rms_norm": lambda call: work.rms_norm(call.rows, call.config.hidden_size, ITEM),
    "gated_rms_norm": _gated_rms_norm,
    "short_conv": _short_convolution,
    "kda_step": _kda_step,
    "kda_chunk": _kda_prefill,
    "attn_res": _source_mix,
    "mla_prefill": _mla_prefill,
    "mla_decode": _mla_decode,
    "rope": _rotation,
    "router": _router,
    "experts": _experts,
    "situ": _activation,
}
