"""Multi-head latent attention: keys and values of all heads grow from one small latent."""

import torch
import torch.nn.functional as F
from torch import Tensor

from model.cache import ExpandedKV, LatentKV
from model.capture import Quick, Tap
from model.config import KimiConfig
from model.kernel_choice import TORCH, Kernels
from model.linear import Linear, rounded, wide
from model.norm import LATENT_NORM_EPS, RMSNorm
from model.packed import Packed
from model.rope import rotate, speeds_on
from model.rows import Rows, visible_keys
from model.yarn import frequencies, score_scale, turn_gain

EXPLICIT_KEYS = 1024
"""Up to this many keys the scores are held; beyond, a fused attention never forms them."""


class KimiMLAAttention(Quick):
    FUSED_AWAY = ("scores", "masked", "pattern")
    """Taps that do not fire beyond `EXPLICIT_KEYS` keys, nor where a kernel attends."""

    def __init__(self, config: KimiConfig, kernels: Kernels = TORCH) -> None:
        super().__init__()
        self.kernels = kernels
        self.heads = config.num_attention_heads
        self.d_nope, self.d_shared = config.qk_nope_head_dim, config.qk_rope_head_dim
        self.d_value, self.d_latent = config.v_head_dim, config.kv_lora_rank
        self.scale = score_scale(config)
        self.rotates = not config.mla_use_nope
        if self.rotates:
            self.frequencies, self.gain = frequencies(config), turn_gain(config)
        self.gates_output = config.mla_use_output_gate
        self.has_q_latent = config.q_lora_rank is not None
        self.make_parameters(config)
        self.make_taps()

    def make_parameters(self, config: KimiConfig) -> None:
        d_model = config.hidden_size
        if config.q_lora_rank is None:
            self.q_proj = Linear(d_model, self.heads * config.qk_head_dim)
        else:
            self.q_a_proj = Linear(d_model, config.q_lora_rank)
            self.q_a_layernorm = RMSNorm("d_q_latent", config, LATENT_NORM_EPS, self.kernels)
            self.q_b_proj = Linear(config.q_lora_rank, self.heads * config.qk_head_dim)
        self.kv_a_proj_with_mqa = Linear(d_model, self.d_latent + self.d_shared)
        self.kv_a_layernorm = RMSNorm("d_kv_latent", config, LATENT_NORM_EPS, self.kernels)
        self.kv_b_proj = Linear(self.d_latent, self.heads * (self.d_nope + self.d_value))
        if self.gates_output:
            self.g_proj = Linear(d_model, self.heads * self.d_value)
        self.o_proj = Linear(self.heads * self.d_value, d_model)
        query = self.q_proj if config.q_lora_rank is None else self.q_a_proj
        reading_x = [query, self.kv_a_proj_with_mqa]
        if self.gates_output:
            reading_x.append(self.g_proj)
        self.projections = Packed(*((projection, "weight") for projection in reading_x))

    def make_taps(self) -> None:
        self.q_down = Tap("batch pos d_q_latent")
        self.q_up = Tap("batch pos head d_qk")
        self.q_content = Tap("batch pos head d_nope")
        self.q_shared = Tap("batch pos head d_shared")
        self.kv_joint = Tap("batch pos d_kv_joint")
        self.kv_latent = Tap("batch pos d_kv_latent")
        self.k_shared = Tap("batch pos d_shared")
        self.angle = Tap("batch pos pair")
        self.q_rotated = Tap("batch pos head d_shared")
        self.k_rotated = Tap("batch pos d_shared")
        self.kv_up = Tap("batch pos head d_kv_up")
        self.k_content = Tap("batch pos head d_nope")
        self.v = Tap("batch pos head d_value")
        self.q = Tap("batch pos head d_qk")
        self.k = Tap("batch pos head d_qk")
        self.k_cached = Tap("batch head src d_qk")
        self.v_cached = Tap("batch head src d_value")
        self.latent_cached = Tap("batch src d_kv_latent")
        self.shared_cached = Tap("batch src d_shared")
        self.scores = Tap("batch head pos src")
        self.masked = Tap("batch head pos src")
        self.pattern = Tap("batch head pos src")
        self.read = Tap("batch pos head d_value")
        self.output_gate = Tap("batch pos head d_value")
        self.gated = Tap("batch pos head d_value")
        self.out = Tap("batch pos d_model")

    def forward(self, x: Tensor, kept: ExpandedKV | LatentKV | None, rows: Rows) -> Tensor:
        q, joint, *gate = self.projections(x)
        turn = self.turn(x, rows) if self.rotates else None
        q = self.queries(q, turn)
        joint = self.kv_joint(joint)
        kv_latent, k_shared = joint.split([self.d_latent, self.d_shared], dim=-1)
        k_shared = self.k_shared(k_shared)
        if turn is not None:
            k_shared = self.k_rotated(rounded(self.rotated(k_shared, *turn), x))
        latent = self.kv_a_layernorm(self.kv_latent(kv_latent))

        latents, shared = latent, k_shared
        if isinstance(kept, LatentKV):
            latents, shared = kept.append(latent, k_shared)
            latents, shared = self.latent_cached(latents), self.shared_cached(shared)
        if latents.shape[1] > latent.shape[1]:
            read = self.attend_to_latents(q, latents, shared, rows)
        else:
            k, v = self.keys_and_values(latent, k_shared)
            if isinstance(kept, ExpandedKV):
                k, v = kept.append(k, v)
            attend = self.kernels.attend or self.attend
            given = (q.transpose(1, 2), self.k_cached(k), self.v_cached(v))
            read = attend(*given, self.scale, rows.real_after).transpose(1, 2)

        read = self.read(read)
        if self.gates_output:
            gate = self.output_gate(self.by_head(gate[0]).sigmoid())
            read = self.gated(read * gate)
        return self.out(self.o_proj(read.flatten(-2)))

    def turn(self, x: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each pair's angle, `[batch, pos, pair]`, float32 or wider."""
        speed = speeds_on(tuple(self.frequencies), x.device, wide(x).dtype)
        angle = rows.positions[..., None] * speed
        angle = self.angle(angle.expand(x.shape[0], -1, -1))
        return angle.cos() * self.gain, angle.sin() * self.gain

    def queries(self, q: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        if self.has_q_latent:
            q = self.q_b_proj(self.q_a_layernorm(self.q_down(q)))
        q = self.q_up(self.by_head(q))
        content, shared = q.split([self.d_nope, self.d_shared], dim=-1)
        content, shared = self.q_content(content), self.q_shared(shared)
        if turn is not None:
            cosine, sine = (part[:, :, None] for part in turn)
            shared = self.q_rotated(rounded(self.rotated(shared, cosine, sine), q))
        return self.q(torch.cat([content, shared], dim=-1))

    def keys_and_values(self, latent: Tensor, k_shared: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of every head, `[batch, head, pos, …]`."""
        kv = self.kv_up(self.by_head(self.kv_b_proj(latent)))
        k_content, v = kv.split([self.d_nope, self.d_value], dim=-1)
        k_content, v = self.k_content(k_content), self.v(v)
        every_head = k_shared[..., None, :].expand(*k_content.shape[:-1], self.d_shared)
        k = self.k(torch.cat([k_content, every_head], dim=-1))
        return k.transpose(1, 2), v.transpose(1, 2)

    def attend_to_latents(self, q: Tensor, latents: Tensor, shared: Tensor, rows: Rows) -> Tensor:
        """The same read without growing keys and values: their matrix moves to the query's side."""
        up = self.kv_b_proj.weight.unflatten(0, (self.heads, self.d_nope + self.d_value))
        up_key, up_value = up.split([self.d_nope, self.d_value], dim=1)
        content, q_shared = q.split([self.d_nope, self.d_shared], dim=-1)
        absorbed = torch.einsum("bthn,hnc->bhtc", content, up_key)
        q = torch.cat([absorbed, q_shared.transpose(1, 2)], dim=-1)
        read = self.kernels.read_latents or self.read_latents
        read = read(q, latents, shared, self.scale, rows.real_after)
        return torch.einsum("bhtc,hvc->bthv", read, up_value)

    def read_latents(
        self, q: Tensor, latents: Tensor, shared: Tensor, scale: float, real: Tensor | None = None
    ) -> Tensor:
        """As `attend`, where one latent is the value of every head, and with `shared` its key.

        `q` is `[batch, head, pos, C + R]`, `latents` `[batch, src, C]`, `shared` `[batch, src, R]`.
        """
        k = torch.cat([latents, shared], dim=-1)[:, None]
        return self.attend(q, k, latents[:, None], scale, real)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, real: Tensor | None = None
    ) -> Tensor:
        """`softmax(q kᵀ · scale, over the keys a query may see) v`, all `[batch, head, …]`.

        Keys end where the queries end, so those before the first query are the past. `real`, bool
        `[batch, src]`, tells keys from padding. One head of keys and values may serve all queries.
        """
        if k.shape[2] > EXPLICIT_KEYS:
            return self.fused(q, k, v, scale, real)
        scores = self.scores(q @ k.mT * scale)
        masked = scores
        visible = visible_keys(q.shape[2], k.shape[2], real, q.device)
        if visible is not None:
            masked = scores.masked_fill(~visible, float("-inf"))
        masked = self.masked(masked)
        pattern = self.pattern(rounded(torch.softmax(wide(masked), dim=-1), q))
        return pattern @ v

    def fused(self, q: Tensor, k: Tensor, v: Tensor, scale: float, real: Tensor | None) -> Tensor:
        k, v = k.expand(-1, self.heads, -1, -1), v.expand(-1, self.heads, -1, -1)
        if q.shape[2] == k.shape[2] and real is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        visible = visible_keys(q.shape[2], k.shape[2], real, q.device)
        return F.scaled_dot_product_attention(q, k, v, visible, scale=scale)

    def rotated(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        return (self.kernels.rotate or rotate)(x, cosine, sine)

    def by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))
