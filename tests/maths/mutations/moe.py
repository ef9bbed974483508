"""Faults in the feed-forwards: the router, routed and shared experts, the dense layer."""

from tests.maths.mutations.fault import DECODE, K2, K3, LINEAR, PREFILL, fault

ROUTER = "moe:KimiMoEGate.forward"
CHOOSE = "moe:KimiMoEGate.choose"
GROUPS = "moe:best_groups_only"
SPARSE = "moe:KimiSparseMoE.forward"
EXPERTS = "moe:Experts.forward"
GROUPED = {"num_expert_group": 3, "topk_group": 2}

ROUTING = (
    fault(
        "router scores are a softmax",
        *(K3, PREFILL, CHOOSE),
        *("logits.sigmoid()", "logits.softmax(-1)"),
        red="moe_scores",
    ),
    fault(
        "the bias enters the mixing weights",
        *(LINEAR, PREFILL, CHOOSE),
        *("scores.gather(-1, chosen)", "for_choice.gather(-1, chosen)"),
        red="moe_chosen_weight",
    ),
    fault(
        "the bias does not decide who is chosen",
        *(K2, PREFILL, CHOOSE),
        *("for_choice.topk(", "scores.topk("),
        red="moe_chosen",
    ),
    fault(
        "the bias is taken off",
        *(K3, DECODE, CHOOSE),
        *("scores + wide(bias)", "scores - wide(bias)"),
        red="moe_scores_for_choice",
    ),
    fault(
        "mixing weights are not renormalized",
        *(K3, PREFILL, CHOOSE),
        *("if renormalize and top > 1:", "if False:"),
        red="moe_chosen_weight moe_weights_sum",
    ),
    fault(
        "mixing weights are not scaled",
        *(K2, DECODE, CHOOSE),
        *("weight * scale", "weight"),
        red="moe_chosen_weight moe_weights_sum",
    ),
    fault(
        "mixing weights are normalized over all experts",
        *(LINEAR, DECODE, CHOOSE),
        *("weight.sum(-1, keepdim=True)", "scores.sum(-1, keepdim=True)"),
        red="moe_chosen_weight",
    ),
    fault(
        "the least fitting experts are chosen",
        *(LINEAR, PREFILL, CHOOSE),
        *("topk(top, dim=-1)", "topk(top, dim=-1, largest=False)"),
        red="moe_chosen",
    ),
    fault(
        "the best expert is chosen twice",
        *(K2, DECODE, CHOOSE),
        *("topk(top, dim=-1).indices", "topk(top, dim=-1).indices[..., :1].expand(-1, -1, top)"),
        red="moe_chosen",
    ),
    fault(
        "weights go to the chosen in reverse",
        *(K3, DECODE, ROUTER),
        *("Chosen(self.chosen(chosen), ", "Chosen(self.chosen(chosen).flip(-1), "),
        red="moe_expert_hidden",
    ),
    fault(
        "the router reads its input at unit length",
        *(K2, PREFILL, SPARSE),
        *("self.gate(x)", "self.gate(x / x.norm(dim=-1, keepdim=True))"),
        red="moe_logits",
    ),
    fault(
        "a group counts by its best expert",
        *(K3, PREFILL, GROUPS),
        *("by_group.topk(2, dim=-1).values.sum(-1)", "by_group.amax(-1)"),
        red="moe_chosen",
        changes=GROUPED,
    ),
    fault(
        "groups are not looked at",
        *(K3, PREFILL, CHOOSE),
        *("if groups > 1:", "if False:"),
        red="moe_chosen",
        changes=GROUPED,
    ),
    fault(
        "the weakest groups are kept",
        *(K3, DECODE, GROUPS),
        *("topk(kept, dim=-1)", "topk(kept, dim=-1, largest=False)"),
        red="moe_chosen",
        changes=GROUPED,
    ),
    fault(
        "experts outside the groups count zero",
        *(K3, PREFILL, GROUPS),
        *('float("-inf")', "0.0"),
        missed="the same experts are chosen while those in the groups have positive scores",
        changes=GROUPED,
    ),
    fault(
        "the renormalization has no epsilon",
        *(LINEAR, PREFILL, CHOOSE),
        *(" + SUM_EPS", ""),
        missed="sigmoids do not sum to zero, and next to their sum the epsilon rounds away",
    ),
)

LAYERS = (
    fault(
        "gate and up of an expert change places in a prompt",
        *(K3, PREFILL, "moe:Experts.on_sorted"),
        *("self.activation(gate, up)", "self.activation(up, gate)"),
        red="moe_expert_hidden",
    ),
    fault(
        "gate and up of an expert change places in decode",
        *(LINEAR, DECODE, "moe:Experts.one_by_one"),
        *("self.activation(gate, up)", "self.activation(up, gate)"),
        red="moe_expert_hidden",
    ),
    fault(
        "a decoded token comes down through the other expert",
        *(K2, DECODE, "moe:Experts.one_by_one"),
        *("self.w2, experts)", "self.w2, experts[::-1])"),
        red="moe_expert_out",
    ),
    fault(
        "sorted choices belong to the wrong tokens",
        *(K2, PREFILL, EXPERTS),
        *("z[order // choices]", "z[order % tokens]"),
        red="moe_expert_hidden",
    ),
    fault(
        "outputs of experts stay sorted",
        *(LINEAR, PREFILL, EXPERTS),
        *("out[back]", "out"),
        red="moe_expert_out",
    ),
    fault(
        "a prompt reads the expert before the chosen one",
        *(K3, PREFILL, "moe:by_expert"),
        *("weights[j].T", "weights[j - 1].T"),
        red="moe_expert_hidden moe_expert_out",
    ),
    fault(
        "a decoded token reads the expert before the chosen one",
        *(K3, DECODE, "moe:each_row"),
        *("weights[j]", "weights[j - 1]"),
        red="moe_expert_hidden moe_expert_out",
    ),
    fault(
        "experts are averaged",
        *(LINEAR, DECODE, SPARSE),
        *("weight[..., None] * wide(out)", "wide(out) / weight.shape[-1]"),
        red="moe_combined",
    ),
    fault(
        "the latent is normed before the sum",
        *(K3, PREFILL, SPARSE),
        *("weight[..., None] * wide(out)", "weight[..., None] * F.rms_norm(out, out.shape[-1:])"),
        *("routed = self.routed_expert_norm(routed)", "self.routed_expert_norm(routed)"),
        red="moe_combined moe_routed",
    ),
    fault(
        "the norm of the routed latent is forgotten",
        *(K3, DECODE, SPARSE),
        *("if self.has_norm:", "if False:"),
        red="every_part_ran",
    ),
    fault(
        "the shared experts are forgotten",
        *(K2, PREFILL, SPARSE),
        *("self.routed(routed) + self.shared_experts(x)", "self.routed(routed)"),
        red="every_part_ran",
    ),
    fault(
        "the shared experts run and are not added",
        *(LINEAR, DECODE, SPARSE),
        *(" + self.shared_experts(x)", " + 0 * self.shared_experts(x)"),
        red="moe_out",
    ),
    fault(
        "the shared experts read what the routed ones put out",
        *(K3, PREFILL, SPARSE),
        *("self.shared_experts(x)", "self.shared_experts(routed)"),
        red="mlp_gate mlp_up",
    ),
    fault(
        "the shared experts are scaled with the routed ones",
        *(LINEAR, PREFILL, SPARSE),
        *("self.shared_experts(x)", "self.gate.scale * self.shared_experts(x)"),
        red="moe_out",
    ),
    fault(
        "the latent passes an activation on the way down",
        *(K3, DECODE, SPARSE),
        *("self.routed_expert_down_proj(x)", "F.silu(self.routed_expert_down_proj(x))"),
        red="moe_latent",
    ),
    fault(
        "gate and up of a layer change places",
        *(K3, DECODE, "moe:KimiMLP.forward"),
        *("self.activation(gate, up)", "self.activation(up, gate)"),
        red="mlp_activated",
    ),
    fault(
        "the feed-forward adds its own input",
        *(K2, PREFILL, "moe:KimiMLP.forward"),
        *("self.activation(gate, up))))", "self.activation(gate, up))) + x)"),
        red="mlp_out",
    ),
    fault(
        "the sigmoid of SiTU reads the capped gate",
        *(K3, PREFILL, "situ:situ"),
        *("torch.sigmoid(g)", "torch.sigmoid(beta * torch.tanh(g / beta))"),
        red="mlp_activated moe_expert_hidden",
    ),
    fault(
        "SiTU does not cap its second factor",
        *(K3, DECODE, "situ:situ"),
        *("u if linear_beta is None else linear_beta * torch.tanh(u / linear_beta)", "u"),
        red="mlp_activated moe_expert_hidden",
    ),
    fault(
        "SiTU caps a gate that it did not divide",
        *(K3, PREFILL, "situ:situ"),
        *("torch.tanh(g / beta)", "torch.tanh(g)"),
        red="mlp_activated moe_expert_hidden",
    ),
    fault(
        "SwiGLU is built on a GELU",
        *(K2, PREFILL, "situ:swiglu"),
        *("F.silu(gate)", "F.gelu(gate)"),
        red="mlp_activated moe_expert_hidden",
    ),
    fault(
        "SwiGLU is gated by a bare sigmoid",
        *(LINEAR, DECODE, "situ:swiglu"),
        *("F.silu(gate)", "gate.sigmoid()"),
        red="mlp_activated moe_expert_hidden",
    ),
    fault(
        "the configured cap of SiTU is not read",
        *(K3, DECODE, "situ:caps"),
        *("beta = 1.0 if config.activation_situ_beta is None else", "beta = 1.0 if True else"),
        red="mlp_activated moe_expert_hidden",
    ),
)

FAULTS = (*ROUTING, *LAYERS)
