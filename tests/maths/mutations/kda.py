"""Faults in Kimi Delta Attention: its gates, the recurrence, the chunks, the short convolutions."""

from tests.maths.mutations.fault import DECODE, K3, LINEAR, PREFILL, fault

FORWARD = "kda:KimiDeltaAttention.forward"
GATE = "kda:KimiDeltaAttention.forget_gate"
STEP = "kda:delta_step"
SEGMENT = "kda_chunk:segment"
PRODUCTS = "kda_chunk:decayed_products"
SHORT = {"kda_chunk:SEGMENT": 16, "trace_data:SEGMENT": 16}

RECURRENCE = (
    fault(
        "the memory is read before it is written",
        *(LINEAR, DECODE, STEP),
        *("read = (state * q", "read = (decayed_state * q"),
        red="kda_read prefill_is_decode",
    ),
    fault(
        "the error is formed before the decay",
        *(K3, DECODE, STEP),
        *("(decayed_state * k_row)", "(state * k_row)"),
        red="kda_recalled kda_written kda_state",
    ),
    fault(
        "what is stored is added to the value instead of taken from it",
        *(K3, DECODE, STEP),
        *("(v - recalled)", "(v + recalled)"),
        red="kda_written",
    ),
    fault(
        "the write strength is left out",
        *(LINEAR, DECODE, STEP),
        *("beta[..., None] * (v - recalled)", "v - recalled"),
        red="kda_written kda_state",
    ),
    fault(
        "the write strength weighs the value and not the error",
        *(K3, DECODE, STEP),
        *("beta[..., None] * (v - recalled)", "beta[..., None] * v - recalled"),
        red="kda_written",
    ),
    fault(
        "the state is written transposed",
        *(K3, DECODE, STEP),
        *("written[..., :, None], k_row", "k[..., :, None], written[..., None, :]"),
        red="kda_state kda_read",
    ),
    fault(
        "values decay instead of key channels",
        *(LINEAR, DECODE, STEP),
        *("retention[..., None, :] * state", "retention[..., :, None] * state"),
        red="kda_decayed_state",
    ),
    fault(
        "the decay is a power of two",
        *(K3, DECODE, STEP),
        *("log_decay.exp()", "log_decay.exp2()"),
        red="kda_retention kda_decayed_state",
    ),
)

MIXER = (
    fault(
        "queries are not scaled",
        *(K3, PREFILL, FORWARD),
        *(" * self.width**-0.5)", ")"),
        red="kda_q",
    ),
    fault(
        "queries are scaled by all heads together",
        *(LINEAR, DECODE, FORWARD),
        *("self.width**-0.5", "(self.heads * self.width) ** -0.5"),
        red="kda_q",
    ),
    fault(
        "keys keep their length",
        *(K3, DECODE, FORWARD),
        *("self.k(unit_length(wide(k)))", "self.k(wide(k))"),
        red="kda_k",
    ),
    fault(
        "values are brought to unit length",
        *(K3, PREFILL, FORWARD),
        *("self.v(wide(v))", "self.v(unit_length(wide(v)))"),
        red="kda_v",
    ),
    fault(
        "the write strength has no sigmoid",
        *(LINEAR, PREFILL, FORWARD),
        *("wide(beta_logit).sigmoid()", "wide(beta_logit)"),
        red="kda_beta",
    ),
    fault(
        "the write strength reaches two",
        *(K3, DECODE, FORWARD),
        *("wide(beta_logit).sigmoid()", "2 * wide(beta_logit).sigmoid()"),
        red="kda_beta",
    ),
    fault(
        "queries and keys change places",
        *(K3, PREFILL, FORWARD),
        *("q, k, v, gate_latent, beta_logit", "k, q, v, gate_latent, beta_logit"),
        red="kda_projected",
    ),
    fault(
        "the memory is not kept",
        *(LINEAR, DECODE, FORWARD),
        *("kept.recurrent = state", "pass"),
        red="kda_state prefill_is_decode",
    ),
    fault(
        "the memory is kept in bfloat16",
        *(K3, DECODE, FORWARD),
        *("kept.recurrent = state", "kept.recurrent = state.bfloat16().to(state.dtype)"),
        red="kda_decayed_state",
    ),
    fault(
        "the memory is kept in twice the bytes",
        *(K3, DECODE, FORWARD),
        *("kept.recurrent = state", "kept.recurrent = state.double()"),
        red="cache_counted",
    ),
    fault(
        "the columns of queries and keys are kept for each other",
        *(K3, DECODE, FORWARD),
        *("conv_q, kept.conv_k, kept.conv_v = ", "conv_k, kept.conv_q, kept.conv_v = "),
        red="kda_convolved",
    ),
    fault(
        "the output gate is turned over",
        *(K3, PREFILL, FORWARD),
        *("self.o_norm(read, gate)", "self.o_norm(read, -gate)"),
        red="kda_gated",
    ),
    fault(
        "the output projection reads the heads in reverse",
        *(LINEAR, PREFILL, FORWARD),
        *(".flatten(-2)", ".flip(-2).flatten(-2)"),
        red="kda_out",
    ),
    fault(
        "heads lie fast and their channels slow",
        *(LINEAR, DECODE, "kda:KimiDeltaAttention.by_head"),
        *("(self.heads, self.width))", "(self.width, self.heads)).mT"),
        red="kda_q kda_k kda_v kda_gate_logit",
    ),
    fault(
        "the state after a prompt is that after its first segment",
        *(LINEAR, PREFILL, "kda:KimiDeltaAttention.sequence"),
        *("self.state(borders)[:, -1]", "self.state(borders)[:, 0]"),
        red="prefill_is_decode",
        constants=SHORT,
    ),
)

GATES = (
    fault(
        "the bounded gate is the old one, clamped",
        *(K3, PREFILL, GATE),
        "self.gate_lower_bound * torch.sigmoid(rate * z)",
        "(-rate * F.softplus(z)).clamp(min=self.gate_lower_bound)",
        red="kda_log_decay",
    ),
    fault(
        "the unbounded gate is a bounded one",
        *(LINEAR, DECODE, GATE),
        *("-rate * F.softplus(z)", "-5.0 * torch.sigmoid(rate * z)"),
        red="kda_log_decay",
    ),
    fault(
        "A_log is not exponentiated",
        *(LINEAR, PREFILL, GATE),
        *("wide(self.A_log).exp()", "wide(self.A_log)"),
        red="kda_log_decay",
    ),
    fault(
        "the rate stands outside the sigmoid",
        *(K3, DECODE, GATE),
        *("torch.sigmoid(rate * z)", "rate * torch.sigmoid(z)"),
        red="kda_log_decay",
    ),
    fault(
        "dt_bias is left out",
        *(K3, PREFILL, GATE),
        *(" + wide(self.dt_bias)", ""),
        red="kda_gate_logit",
    ),
    fault(
        "the latent of the gate passes a SiLU",
        *(LINEAR, DECODE, GATE),
        *("self.f_b_proj(latent)", "self.f_b_proj(F.silu(latent))"),
        red="kda_gate_logit",
    ),
    fault(
        "the gate's latent is squashed before it is read",
        *(K3, PREFILL, FORWARD),
        *("self.forget_gate(gate_latent)", "self.forget_gate(gate_latent.tanh())"),
        red="kda_gate_latent",
    ),
    fault(
        "the memory grows: the decay has the wrong sign",
        *(LINEAR, PREFILL, GATE),
        *("-rate * F.softplus(z)", "rate * F.softplus(z)"),
        red="kda_log_decay kda_decay_bounds",
    ),
    fault(
        "the output gate is squashed twice",
        *(K3, DECODE, FORWARD),
        "self.by_head(self.gate_of_output(gate))",
        "self.by_head(self.gate_of_output(gate)).sigmoid()",
        red="kda_output_gate",
    ),
    fault(
        "the low-rank output gate has a SiLU inside",
        *(LINEAR, PREFILL, "kda:KimiDeltaAttention.gate_of_output"),
        *("self.g_b_proj(gate)", "self.g_b_proj(F.silu(gate))"),
        red="kda_output_gate",
    ),
    fault(
        "the epsilon of unit length stands on the mean",
        *(LINEAR, PREFILL, "kda:unit_length"),
        *("x.square().sum(-1, keepdim=True) + L2_EPS", "x.square().sum(-1, keepdim=True) + 8e-6"),
        red="kda_q kda_k",
    ),
    fault(
        "unit length has no epsilon",
        *(K3, DECODE, "kda:unit_length"),
        *(" + L2_EPS", ""),
        red="kda_q kda_k",
    ),
    fault(
        "the epsilon of unit length stands outside the root",
        *(K3, PREFILL, "kda:unit_length"),
        "x * torch.rsqrt(x.square().sum(-1, keepdim=True) + L2_EPS)",
        "x / (x.norm(dim=-1, keepdim=True) + L2_EPS)",
        red="kda_q kda_k",
    ),
)

CHUNKS = (
    fault(
        "a segment starts with an empty memory",
        *(LINEAR, PREFILL, "kda_chunk:chunked_delta_rule"),
        *("segment(*parts, state)", "segment(*parts, torch.zeros_like(state))"),
        red="kda_state kda_read split_is_whole",
        constants=SHORT,
    ),
    fault(
        "a row's own decay is not summed",
        *(K3, PREFILL, SEGMENT),
        "log_decay.double().cumsum(dim=-2)",
        "log_decay.double().cumsum(dim=-2) - log_decay.double()",
        red="kda_state kda_read",
    ),
    fault(
        "the triangular system leaves the write strength out",
        *(K3, PREFILL, SEGMENT),
        *("beta * keys_on_keys, right", "keys_on_keys, right"),
        red="kda_written",
    ),
    fault(
        "the system is taken for an upper triangle",
        *(LINEAR, PREFILL, SEGMENT),
        *("upper=False", "upper=True"),
        red="kda_written",
    ),
    fault(
        "a chunk adds what the chunks before it stored",
        *(K3, PREFILL, SEGMENT),
        *("alpha=-1", "alpha=1"),
        red="kda_written",
    ),
    fault(
        "keys of a chunk fade from its start, not to its end",
        *(LINEAR, PREFILL, SEGMENT),
        *("total[..., -1:, :] - total", "total"),
        red="kda_state",
    ),
    fault(
        "the memory does not fade from chunk to chunk",
        *(K3, PREFILL, SEGMENT),
        *("kept_to_end[n] * state", "state"),
        red="kda_state",
    ),
    fault(
        "queries read the memory before the chunk as if it had not faded",
        *(LINEAR, PREFILL, SEGMENT),
        *("(q * kept) @", "q @"),
        red="kda_read",
    ),
    fault(
        "a row of a chunk does not read its own write",
        *(K3, PREFILL, SEGMENT),
        *("keys_on_queries @ u", "keys_on_queries.tril(-1) @ u"),
        red="kda_read",
    ),
    fault(
        "a chunk writes its state transposed",
        *(LINEAR, PREFILL, SEGMENT),
        *("written[n].mT, k_to_end[n])", "k_to_end[n].mT, written[n])"),
        red="kda_state",
    ),
    fault(
        "earlier rows of a chunk grow instead of fading",
        *(K3, PREFILL, PRODUCTS),
        *("fade(first - sums[..., :half, :], k)", "fade(sums[..., :half, :] - first, k)"),
        red="kda_written kda_read",
    ),
    fault(
        "padding of the last chunk stands in front",
        *(LINEAR, PREFILL, "kda_chunk:into_chunks"),
        *("(0, 0, 0, 0, 0, short)", "(0, 0, 0, 0, short, 0)"),
        red="kda_written kda_read",
    ),
    fault(
        "the rows of a prompt are taken from the end of its chunks",
        *(K3, PREFILL, "kda_chunk:out_of_chunks"),
        *("[:, :pos]", "[:, -pos:]"),
        red="kda_written kda_read",
    ),
    fault(
        "decays of a chunk are summed in float32",
        *(K3, PREFILL, SEGMENT),
        *("log_decay.double().cumsum", "log_decay.cumsum"),
        missed="the sum of a few rows rounds in its last digits, far below the bound of float32",
    ),
    fault(
        "the exponent of a block is split one row earlier",
        *(LINEAR, PREFILL, PRODUCTS),
        *("half : half + 1", "half - 1 : half"),
        missed="both factors stay at most one and their product is the same, up to rounding",
    ),
)

CONVOLUTIONS = (
    fault(
        "all but the oldest column are read one position too early",
        *(K3, PREFILL, "conv:over_all_rows"),
        *("columns[:, 1 + w : 1 + w + pos]", "columns[:, w : w + pos]"),
        red="kda_convolved",
    ),
    fault(
        "the convolution has no SiLU",
        *(LINEAR, PREFILL, "conv:short_convolution"),
        *("F.silu(total)", "total"),
        red="kda_convolved",
    ),
    fault(
        "a further part of a prompt forgets the columns before it",
        *(K3, PREFILL, "conv:ShortConvolution.forward"),
        *("weight, state, rows.lengths", "weight, 0 * state, rows.lengths"),
        red="split_is_whole",
    ),
    fault(
        "the columns kept are one too early",
        *(LINEAR, PREFILL, "conv:last_columns"),
        *("columns[:, -lag:]", "columns[:, -lag - 1 : -1]"),
        red="kda_conv_state",
    ),
    fault(
        "the columns kept of a padded row are one too early",
        *(K3, PREFILL, "conv:last_columns"),
        *("lengths[:, None] +", "lengths[:, None] - 1 +"),
        red="padded_is_unpadded",
    ),
    fault(
        "a decoded token pushes out the newest column",
        *(K3, DECODE, "conv:ShortConvolutions.one_position"),
        *("before[:, 1:]", "before[:, :-1]"),
        red="kda_convolved kda_conv_state",
    ),
    fault(
        "a decoded token reads the kernel backwards",
        *(LINEAR, DECODE, "conv:ShortConvolutions.one_position"),
        *("wide(weight.mT)", "wide(weight.mT.flip(0))"),
        red="kda_convolved",
    ),
    fault(
        "decoded columns of queries are kept as those of values",
        *(K3, DECODE, "conv:ShortConvolutions.one_position"),
        *("columns.mT.chunk(len(raw), dim=1)", "columns.mT.chunk(len(raw), dim=1)[::-1]"),
        red="kda_conv_state",
    ),
    fault(
        "queries pass the convolution of values",
        *(LINEAR, PREFILL, "conv:ShortConvolutions.convolve"),
        *("zip(self.each, raw", "zip(self.each[::-1], raw"),
        red="kda_projected",
    ),
)

FAULTS = (*RECURRENCE, *MIXER, *GATES, *CHUNKS, *CONVOLUTIONS)
