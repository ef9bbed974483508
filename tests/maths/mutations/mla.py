"""Faults in latent attention: its projections, rotation, scores, cache and absorbed form."""

from tests.maths.mutations.fault import DECODE, K2, K3, LINEAR, PREFILL, fault

FORWARD = "mla:KimiMLAAttention.forward"
QUERIES = "mla:KimiMLAAttention.queries"
GROWN = "mla:KimiMLAAttention.keys_and_values"
ATTEND = "mla:KimiMLAAttention.attend"
ABSORBED = "mla:KimiMLAAttention.attend_to_latents"
EXPANDED_CACHE = "cache:ExpandedKV.append"
LATENT_CACHE = "cache:LatentKV.append"
SHORT = {"mla:EXPLICIT_KEYS": 8}
TABLE = {
    "type": "yarn",
    "factor": 64.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 4.0,
    "beta_slow": 1.0,
    "mscale": 0.5,
    "mscale_all_dim": 1.0,
}

PROJECTIONS = (
    fault(
        "content and shared part of the queries change places",
        *(K3, PREFILL, QUERIES),
        "content, shared = q.split([self.d_nope, self.d_shared], dim=-1)",
        "shared, content = q.split([self.d_shared, self.d_nope], dim=-1)",
        red="mla_q_content mla_q_shared",
    ),
    fault(
        "the norm of the query latent is forgotten",
        *(K2, DECODE, QUERIES),
        *("self.q_a_layernorm(self.q_down(q))", "self.q_down(q)"),
        red="every_part_ran",
    ),
    fault(
        "the norm of the query latent runs and is thrown away",
        *(K3, DECODE, QUERIES),
        "self.q_a_layernorm(self.q_down(q))",
        "self.q_down(q) + 0 * self.q_a_layernorm(q)",
        red="mla_q_up",
    ),
    fault(
        "the shared part of the queries stands in front",
        *(LINEAR, DECODE, QUERIES),
        *("torch.cat([content, shared], dim=-1)", "torch.cat([shared, content], dim=-1)"),
        red="mla_q mla_absorbed",
    ),
    fault(
        "the norm of the latent is forgotten",
        *(LINEAR, PREFILL, FORWARD),
        *("self.kv_a_layernorm(self.kv_latent(kv_latent))", "self.kv_latent(kv_latent)"),
        red="every_part_ran",
    ),
    fault(
        "the joint projection is split the other way round",
        *(K2, PREFILL, FORWARD),
        "kv_latent, k_shared = joint.split([self.d_latent, self.d_shared], dim=-1)",
        "k_shared, kv_latent = joint.split([self.d_shared, self.d_latent], dim=-1)",
        red="mla_kv_latent mla_k_shared",
    ),
    fault(
        "values stand before keys",
        *(K3, PREFILL, GROWN),
        "k_content, v = kv.split([self.d_nope, self.d_value], dim=-1)",
        "v, k_content = kv.split([self.d_value, self.d_nope], dim=-1)",
        red="mla_k_content mla_v mla_absorbed",
    ),
    fault(
        "keys and values grow from a latent whose norm lost its weight",
        *(K3, DECODE, GROWN),
        "self.kv_b_proj(latent)",
        "self.kv_b_proj(latent / self.kv_a_layernorm.weight)",
        red="mla_kv_up",
    ),
    fault(
        "the shared key part stands in front",
        *(K2, DECODE, GROWN),
        *("torch.cat([k_content, every_head], dim=-1)", "torch.cat([every_head, k_content], -1)"),
        red="mla_k",
    ),
    fault(
        "heads lie fast and their channels slow",
        *(LINEAR, PREFILL, "mla:KimiMLAAttention.by_head"),
        *("(self.heads, -1))", "(-1, self.heads)).mT"),
        red="mla_q_up mla_kv_up",
    ),
    fault(
        "the output gate has no sigmoid",
        *(K3, PREFILL, FORWARD),
        *("self.by_head(gate[0]).sigmoid()", "self.by_head(gate[0])"),
        red="mla_output_gate",
    ),
    fault(
        "the output gate is added",
        *(K3, DECODE, FORWARD),
        *("self.gated(read * gate)", "self.gated(read + gate)"),
        red="mla_gated",
    ),
    fault(
        "the output projection reads channels slow and heads fast",
        *(K2, PREFILL, FORWARD),
        *("self.o_proj(read.flatten(-2))", "self.o_proj(read.mT.flatten(-2))"),
        red="mla_out",
    ),
    fault(
        "the latent norms take the epsilon of the others",
        *(K3, PREFILL, "mla:KimiMLAAttention.make_parameters"),
        '"d_kv_latent", config, LATENT_NORM_EPS',
        '"d_kv_latent", config, config.rms_norm_eps',
        red="rms_norm",
    ),
    fault(
        "matrices that read one input are doubled in a prompt",
        *(K3, PREFILL, "packed:Packed.__call__"),
        "tuple(F.linear(x, matrix) for matrix in self.matrices())",
        "tuple(F.linear(x, 2 * matrix) for matrix in self.matrices())",
        red="mla_q_down mla_kv_joint kda_projected mlp_gate mlp_up",
    ),
    fault(
        "matrices that lie side by side are cut one row too late",
        *(K2, DECODE, "packed:Packed.through"),
        *("product(whole), self.widths", "product(whole).roll(-1, -1), self.widths"),
        red="mla_q_down mla_kv_joint mlp_gate mlp_up",
    ),
)

ATTENTION = (
    fault(
        "scores are not scaled",
        *(LINEAR, PREFILL, ATTEND),
        *("q @ k.mT * scale", "q @ k.mT"),
        red="mla_scores mla_absorbed",
    ),
    fault(
        "the scale counts the content part alone",
        *(K3, DECODE, "yarn:score_scale"),
        *("config.qk_head_dim**-0.5", "config.qk_nope_head_dim**-0.5"),
        red="mla_scores",
    ),
    fault(
        "there is no mask",
        *(K3, PREFILL, ATTEND),
        *("visible is not None", "False"),
        red="mla_masked",
    ),
    fault(
        "a query does not see its own key",
        *(K2, PREFILL, "rows:visible_keys"),
        *("causal = column <=", "causal = column <"),
        red="mla_masked",
    ),
    fault(
        "a query sees the key after its own",
        *(LINEAR, PREFILL, "rows:visible_keys"),
        *("causal = column <=", "causal = column - 1 <="),
        red="mla_masked mla_absorbed",
    ),
    fault(
        "a further part of a prompt sees as if nothing stood before it",
        *(K3, PREFILL, "rows:visible_keys"),
        *("torch.arange(src - pos, src", "torch.arange(0, pos"),
        red="split_is_whole",
    ),
    fault(
        "the softmax runs over queries",
        *(LINEAR, PREFILL, ATTEND),
        *("torch.softmax(wide(masked), dim=-1)", "torch.softmax(wide(masked), dim=-2)"),
        red="mla_pattern mla_pattern_sum",
    ),
    fault(
        "the softmax has one more, empty place",
        *(K2, DECODE, ATTEND),
        "torch.softmax(wide(masked), dim=-1)",
        "wide(masked).exp() / (1 + wide(masked).exp().sum(-1, keepdim=True))",
        red="mla_pattern mla_pattern_sum",
    ),
    fault(
        "the pattern weighs the values of its neighbours",
        *(K2, PREFILL, ATTEND),
        *("return pattern @ v", "return pattern @ v.roll(1, dims=2)"),
        red="mla_read",
    ),
    fault(
        "the fused attention scales by its own rule",
        *(K2, PREFILL, "mla:KimiMLAAttention.fused"),
        *("is_causal=True, scale=scale", "is_causal=True"),
        red="mla_read mla_absorbed",
        constants=SHORT,
    ),
    fault(
        "the fused attention looks ahead",
        *(K3, PREFILL, "mla:KimiMLAAttention.fused"),
        *("is_causal=True", "is_causal=False"),
        red="mla_read",
        constants=SHORT,
    ),
    fault(
        "the fused attention of a decoded token is not scaled",
        *(LINEAR, DECODE, "mla:KimiMLAAttention.fused"),
        *("visible, scale=scale", "visible, scale=1.0"),
        red="mla_read",
        constants={"mla:EXPLICIT_KEYS": 2},
    ),
)

CACHE = (
    fault(
        "a new key is put in twice and the oldest falls out",
        *(K3, DECODE, EXPANDED_CACHE),
        "torch.cat([self.k, k], dim=2)",
        "torch.cat([self.k, k, k[:, :, -1:]], dim=2)[:, :, 1:]",
        red="mla_k_cached",
    ),
    fault(
        "new keys stand before the old ones",
        *(K2, DECODE, EXPANDED_CACHE),
        *("torch.cat([self.k, k], dim=2)", "torch.cat([k, self.k], dim=2)"),
        red="mla_k_cached",
    ),
    fault(
        "values of decoded tokens are not kept",
        *(LINEAR, DECODE, EXPANDED_CACHE),
        "torch.cat([self.v, v], dim=2)",
        "torch.cat([self.v, v * (self.v.shape[2] == 0)], dim=2)",
        red="mla_v_cached",
    ),
    fault(
        "new latents stand before the old ones",
        *(K3, DECODE, LATENT_CACHE),
        *("torch.cat([self.latent, latent], dim=1)", "torch.cat([latent, self.latent], dim=1)"),
        red="mla_latent_cached",
        mla="latent",
    ),
    fault(
        "latents are kept without their norm",
        *(LINEAR, PREFILL, FORWARD),
        *("kept.append(latent, k_shared)", "kept.append(kv_latent, k_shared)"),
        red="mla_latent_cached",
        mla="latent",
    ),
    fault(
        "shared key parts are kept empty",
        *(K2, DECODE, LATENT_CACHE),
        *("torch.cat([self.shared, shared]", "torch.cat([self.shared, 0 * shared]"),
        red="mla_shared_cached mla_absorbed",
        mla="latent",
    ),
    fault(
        "a cache of latents holds expanded heads",
        *(K2, PREFILL, "kimi:KimiLM.new_cache"),
        *("self.config, batch, mla,", 'self.config, batch, "expanded",'),
        red="cache_counted",
        mla="latent",
    ),
    fault(
        "the absorbed query takes the matrix of another head",
        *(K3, DECODE, ABSORBED),
        *("content, up_key)", "content, up_key.flip(0))"),
        red="mla_absorbed",
        mla="latent",
    ),
    fault(
        "the absorbed score leaves the shared part out",
        *(K2, DECODE, ABSORBED),
        *("torch.cat([absorbed, q_shared.", "torch.cat([absorbed, 0 * q_shared."),
        red="mla_absorbed",
        mla="latent",
    ),
    fault(
        "the absorbed read takes the matrix of another head",
        *(LINEAR, DECODE, ABSORBED),
        *("read, up_value)", "read, up_value.flip(0))"),
        red="mla_absorbed",
        mla="latent",
    ),
)

ROTATION = (
    fault(
        "halves turn together instead of neighbours",
        *(K2, PREFILL, "rope:rotate"),
        *("x[..., 0::2], x[..., 1::2]", "x.chunk(2, dim=-1)"),
        red="mla_q_rotated mla_k_rotated",
    ),
    fault(
        "pairs turn backwards",
        *(K2, DECODE, "rope:rotate"),
        "even * cosine - odd * sine, odd * cosine + even * sine",
        "even * cosine + odd * sine, odd * cosine - even * sine",
        red="mla_q_rotated mla_k_rotated",
    ),
    fault(
        "turned features are left in pairs",
        *(K2, DECODE, "rope:rotate"),
        *("torch.cat([", "torch.stack(["),
        *("dim=-1)", "dim=-1).flatten(-2)"),
        red="mla_q_rotated mla_k_rotated",
    ),
    fault(
        "positions count from one",
        *(K2, PREFILL, "mla:KimiMLAAttention.turn"),
        *("rows.positions[..., None]", "(1 + rows.positions[..., None])"),
        red="mla_angle",
    ),
    fault(
        "positions begin anew in each call",
        *(K2, DECODE, "rows:Rows.positions"),
        *("new[None] + self.past", "new[None]"),
        red="mla_angle",
    ),
    fault(
        "padding takes a position",
        *(K2, PREFILL, "rows:Rows.positions"),
        *("self.past_real.sum(1, keepdim=True)", "self.past"),
        red="padded_is_unpadded",
    ),
    fault(
        "the key is joined as it was before it turned",
        *(K2, PREFILL, FORWARD),
        *("k_shared = self.k_rotated(", "self.k_rotated("),
        red="mla_k mla_absorbed",
    ),
    fault(
        "the query is joined as it was before it turned",
        *(K2, DECODE, QUERIES),
        *("shared = self.q_rotated(", "self.q_rotated("),
        red="mla_q",
    ),
    fault(
        "a model without positions turns its keys",
        *(LINEAR, PREFILL, "mla:KimiMLAAttention.__init__"),
        *("self.rotates = not config.mla_use_nope", "self.rotates = True"),
        red="mla_q mla_k",
    ),
    fault(
        "cosines leave the magnitude out",
        *(K2, PREFILL, "mla:KimiMLAAttention.turn"),
        *("angle.cos() * self.gain", "angle.cos()"),
        red="mla_q_rotated mla_k_rotated",
        changes={"rope_scaling": TABLE},
    ),
    fault(
        "the magnitude enters the scores once",
        *(K2, PREFILL, "yarn:score_scale"),
        *(" ** 2", ""),
        red="mla_scores",
    ),
    fault(
        "the magnitude lacks its one",
        *(K2, DECODE, "yarn:magnitude"),
        *("math.log(factor) + 1 if", "math.log(factor) if"),
        red="mla_scores",
    ),
    fault(
        "slow pairs are sped up by the factor",
        *(K2, PREFILL, "yarn:frequencies"),
        *('w / scaling["factor"] * r', 'w * scaling["factor"] * r'),
        red="mla_angle",
    ),
    fault(
        "fast pairs are slowed and slow ones are not",
        *(K2, DECODE, "yarn:frequencies"),
        *("w * (1 - r) + w", "w * r + w"),
        *('["factor"] * r for', '["factor"] * (1 - r) for'),
        red="mla_angle",
    ),
    fault(
        "pairs turn at half the exponent",
        *(K2, PREFILL, "yarn:frequencies"),
        *("(-2 * pair / width)", "(-pair / width)"),
        red="mla_angle",
    ),
    fault(
        "the ramp begins one pair late",
        *(K2, PREFILL, "yarn:ramp"),
        *("math.floor(", "math.ceil("),
        red="mla_angle",
    ),
    fault(
        "turns are counted in half circles",
        *(K2, DECODE, "yarn:pair_that_turns"),
        *("(2 * math.pi * turns)", "(math.pi * turns)"),
        red="mla_angle",
    ),
)

FAULTS = (*PROJECTIONS, *ATTENTION, *CACHE, *ROTATION)
