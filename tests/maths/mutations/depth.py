"""Faults around the layers: norms, residuals and their mixes, the model's two ends, rows, cache."""

from tests.maths.mutations.fault import DECODE, K2, K3, LINEAR, PREFILL, fault

MIX = "attn_res:AttnResidual.read_sources"
LAYER = "block:KimiDecoderLayer.forward"
PLAIN = "block:KimiDecoderLayer.plain"
MODEL = "kimi:KimiLM.forward"
NORM = "norm:RMSNorm.forward"
GATED = "norm:GatedRMSNorm.forward"
SCALED = "norm:rms_norm"
SCALED_AND_GATED = "norm:gated_rms_norm"

NORMS = (
    fault(
        "a norm takes the epsilon of the latent norms",
        *(K3, PREFILL, NORM),
        *("self.eps", "1e-6"),
        red="rms_norm",
    ),
    fault(
        "a norm takes the mean off",
        *(LINEAR, DECODE, SCALED),
        *("unit_rms(wide(x),", "unit_rms(wide(x) - wide(x).mean(-1, keepdim=True),"),
        red="rms_norm",
    ),
    fault(
        "a norm forgets its weight",
        *(K2, PREFILL, SCALED),
        *("weight * rounded", "rounded"),
        red="rms_norm",
    ),
    fault(
        "a norm counts its weight from one",
        *(K2, DECODE, SCALED),
        *("weight * rounded", "(1 + weight) * rounded"),
        red="rms_norm",
    ),
    fault(
        "the epsilon of a norm stands outside the root",
        *(K3, DECODE, "norm:unit_rms"),
        "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)",
        "x / (x.square().mean(-1, keepdim=True).sqrt() + eps)",
        red="rms_norm res_keys",
    ),
    fault(
        "a norm sums the squares",
        *(LINEAR, PREFILL, "norm:unit_rms"),
        *(".mean(-1", ".sum(-1"),
        red="rms_norm kda_gated",
    ),
    fault(
        "the output gate stands before the norm",
        *(K3, PREFILL, SCALED_AND_GATED),
        *("unit_rms(wide(read), eps)", "unit_rms(wide(read) * gate.sigmoid(), eps)"),
        *("normed * wide(gate).sigmoid()", "normed"),
        red="kda_gated",
    ),
    fault(
        "the output gate is a SiLU",
        *(LINEAR, DECODE, SCALED_AND_GATED),
        *("wide(gate).sigmoid()", "wide(gate) * wide(gate).sigmoid()"),
        red="kda_gated",
    ),
    fault(
        "all heads are normed together",
        *(LINEAR, PREFILL, SCALED_AND_GATED),
        *("unit_rms(wide(read), eps)", "unit_rms(read.flatten(-2), eps).view_as(read)"),
        red="kda_gated",
    ),
    fault(
        "the norm of the heads leaves its epsilon out",
        *(K3, DECODE, GATED),
        *("self.eps", "0.0"),
        red="kda_gated",
    ),
)

MIXES = (
    fault(
        "the running sum stands before the sealed blocks",
        *(K3, PREFILL, MIX),
        *("[bank, residual[..., None, :]]", "[residual[..., None, :], bank]"),
        red="res_sources",
    ),
    fault(
        "the mix adds normalized sources",
        *(K3, DECODE, MIX),
        *("weights[..., None] * wide(sources)", "weights[..., None] * keys"),
        red="res_mixed",
    ),
    fault(
        "sources are scored as they are",
        *(K3, PREFILL, MIX),
        *("unit_rms(wide(sources), eps)", "wide(sources)"),
        red="res_keys",
    ),
    fault(
        "sources are scored with the epsilon of the latent norms",
        *(K3, DECODE, MIX),
        *("wide(sources), eps", "wide(sources), 1e-6"),
        red="res_keys",
    ),
    fault(
        "the norm's weight is left out of the query",
        *(K3, PREFILL, MIX),
        *("wide(norm_weight) * wide(proj_weight)", "wide(proj_weight)"),
        red="res_query",
    ),
    fault(
        "scores over depth are scaled like those over keys",
        *(K3, DECODE, MIX),
        *("keys @ query", "keys @ query * query.numel() ** -0.5"),
        red="res_scores",
    ),
    fault(
        "the softmax over depth runs over positions",
        *(K3, PREFILL, MIX),
        *("torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=1)"),
        red="res_weights res_weights_sum",
    ),
    fault(
        "each source is gated by itself",
        *(K3, DECODE, MIX),
        *("torch.softmax(scores, dim=-1)", "scores.sigmoid()"),
        red="res_weights res_weights_sum",
    ),
)

BLOCKS = (
    fault(
        "a layer seals before it reads",
        *(K3, PREFILL, LAYER),
        "self.self_attention_res(residual, bank)",
        "self.self_attention_res(residual, torch.cat([bank, residual[..., None, :]], -2)"
        " if self.seals else bank)",
        red="res_sources",
    ),
    fault(
        "the sum goes on after a seal",
        *(K3, DECODE, LAYER),
        *("a if self.seals else residual + a", "residual + a"),
        red="residual_mid block_sum",
    ),
    fault(
        "the mix is added to the sum it should replace",
        *(K3, PREFILL, LAYER),
        *("else self.self_attention_res(", "else residual + self.self_attention_res("),
        red="norm_input",
    ),
    fault(
        "the second mix reads the sum from before the mixer",
        *(K3, DECODE, LAYER),
        *("self.mlp_res(residual, bank)", "self.mlp_res(residual - a, bank)"),
        red="res_sources",
    ),
    fault(
        "a mix is sealed instead of the sum",
        *(K3, PREFILL, LAYER),
        *("sealed = residual[..., None, :]", "sealed = h[..., None, :]"),
        red="bank",
    ),
    fault(
        "the feed-forward adds to the mix instead of the sum",
        *(K3, DECODE, LAYER),
        *("self.residual_out(residual + m)", "self.residual_out(h + m)"),
        red="residual_out block_sum",
    ),
    fault(
        "blocks are one layer longer",
        *(K3, PREFILL, "config:KimiConfig.seals"),
        *("layer % self.attn_res_block_size", "layer % (self.attn_res_block_size + 1)"),
        red="bank residual_mid",
    ),
    fault(
        "the feed-forward replaces the sum",
        *(K2, PREFILL, PLAIN),
        *("self.residual_out(residual + m)", "self.residual_out(m)"),
        red="residual_out block_sum",
    ),
    fault(
        "the feed-forward does not see what the mixer added",
        *(LINEAR, DECODE, PLAIN),
        "self.post_attention_layernorm(residual)",
        "self.post_attention_layernorm(residual - a)",
        red="norm_input",
    ),
    fault(
        "the mixer reads the sum without its norm",
        *(K2, DECODE, PLAIN),
        "self.self_attn(self.input_layernorm(residual), kept, rows)",
        "self.self_attn(residual + 0 * self.input_layernorm(residual), kept, rows)",
        red="mla_q_down mla_kv_joint",
    ),
    fault(
        "the mixer's norm is forgotten",
        *(LINEAR, PREFILL, PLAIN),
        *("self.self_attn(self.input_layernorm(residual),", "self.self_attn(residual,"),
        red="every_part_ran",
    ),
    fault(
        "the mixer's output is scaled by depth",
        *(LINEAR, PREFILL, PLAIN),
        *("residual + a)", "residual + a / (1 + self.layer))"),
        red="residual_mid block_sum",
    ),
    fault(
        "a sparse layer is built dense",
        *(K2, PREFILL, "block:KimiDecoderLayer.__init__"),
        *('config.feed_forwards[layer] == "moe"', "layer > 1"),
        red="layer_kinds",
    ),
)

ENDS = (
    fault(
        "the mix before the head is left out",
        *(K3, PREFILL, MODEL),
        *("h = residual if bank is None else self.output_attn_res(residual, bank)", "h = residual"),
        red="every_part_ran",
    ),
    fault(
        "the head reads the sum without the last norm",
        *(K2, DECODE, MODEL),
        *("self.lm_head(self.norm(h))", "self.lm_head(h + 0 * self.norm(h))"),
        red="logits",
    ),
    fault(
        "logits are capped",
        *(LINEAR, PREFILL, MODEL),
        "self.logits(wide(self.lm_head(self.norm(h))))",
        "self.logits(30 * torch.tanh(wide(self.lm_head(self.norm(h))) / 30))",
        red="logits",
    ),
    fault(
        "a token takes the row before its own",
        *(K3, PREFILL, "kimi:Embedding.forward"),
        *("self.weight[token_ids]", "self.weight[token_ids - 1]"),
        red="embedding",
    ),
    fault(
        "embeddings are scaled by the root of the width",
        *(K2, DECODE, "kimi:Embedding.forward"),
        *("self.weight[token_ids]", "self.weight[token_ids] * self.weight.shape[1] ** 0.5"),
        red="embedding",
    ),
    fault(
        "the running sum is rescaled between layers",
        *(LINEAR, DECODE, MODEL),
        *("layer(residual, bank, kept, rows)", "layer(residual / (1 + i), bank, kept, rows)"),
        red="residual_in",
    ),
    fault(
        "a projection adds a bias",
        *(K3, DECODE, "linear:Linear.forward"),
        *("F.linear(x, self.weight)", "F.linear(x, self.weight) + 1e-3"),
        red="logits mla_out kda_out mlp_out moe_latent",
    ),
    fault(
        "the cache counts a decoded token twice",
        *(K2, DECODE, MODEL),
        *("cache.positions += rows.pos", "cache.positions += rows.pos + (rows.pos == 1)"),
        red="cache_positions mla_angle",
    ),
    fault(
        "the last logits are those of the first position",
        *(K3, DECODE, "kimi:last_real"),
        *("x[:, -1:]", "x[:, :1]"),
        red="prefill_is_decode",
    ),
    fault(
        "the last logits of a padded row are one too early",
        *(LINEAR, PREFILL, "kimi:last_real"),
        *("rows.lengths - 1]", "rows.lengths - 2]"),
        red="padded_is_unpadded",
    ),
    fault(
        "a memory begins full",
        *(LINEAR, PREFILL, "cache:_kda_state"),
        *("torch.zeros(batch, heads", "torch.ones(batch, heads"),
        red="kda_state",
    ),
)

ROWS = (
    fault(
        "padding enters the memory",
        *(K3, PREFILL, "rows:Rows.only_real"),
        *("if self.real is None:", "if True:"),
        red="padded_is_unpadded",
    ),
    fault(
        "the first column of padding counts as a token",
        *(LINEAR, PREFILL, "rows:Rows.real"),
        *(") < self.lengths", ") <= self.lengths"),
        red="padded_is_unpadded",
    ),
    fault(
        "padding is forgotten after the call",
        *(K2, DECODE, MODEL),
        *("cache.real = rows.real_after", "cache.real = None"),
        red="padded_is_unpadded",
    ),
    fault(
        "every sequence of a batch goes on from the first one's memory",
        *(K3, DECODE, "kda:KimiDeltaAttention.forward"),
        *("else kept.recurrent", "else kept.recurrent[:1].expand_as(kept.recurrent)"),
        red="padded_is_unpadded",
    ),
    fault(
        "every sequence of a batch goes on from the last one's memory",
        *(LINEAR, DECODE, "kda:KimiDeltaAttention.forward"),
        *("else kept.recurrent", "else kept.recurrent[-1:].expand_as(kept.recurrent)"),
        red="padded_is_unpadded",
    ),
    fault(
        "every sequence of a batch reads the first one's keys",
        *(K2, DECODE, "cache:ExpandedKV.append"),
        *("torch.cat([self.k, k], dim=2)", "torch.cat([self.k[:1].expand_as(self.k), k], dim=2)"),
        red="padded_is_unpadded",
    ),
)

FAULTS = (*NORMS, *MIXES, *BLOCKS, *ENDS, *ROWS)
