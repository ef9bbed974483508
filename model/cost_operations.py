"""Arithmetic of every tap, module and model: a multiply–add counts as two operations.

Counted are matrix products, convolutions, the recurrence, scores, reads, mixes, norms, and products
and sums that have a tap of their own. Not counted are exponentials, sigmoids, roots and masks.
"""

from collections.abc import Callable
from dataclasses import dataclass

from model.cost_kept import Kind
from model.cost_modules import Module
from model.cost_parameters import parameter_count
from model.cost_sizes import Case
from model.cost_terms import Term, named, term, total


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One module of one question."""

    case: Case
    path: str
    module: Module
    mla: Kind
    """Which form of the attention cache is read."""

    @property
    def tokens(self) -> Term:
        return self.case.tokens

    def size(self, word: str) -> Term:
        if word == "feature":
            assert self.module.feature is not None
            word = self.module.feature
        return self.case.size(word, self.module.cls)

    def linear(self, *names: str) -> Term:
        """Products of every token with the matrices of these names that the module has."""
        axes = self.module.parameters
        found = [axes[f"{name}.weight"] for name in names if f"{name}.weight" in axes]
        counts = (parameter_count(self.case, one, self.module.cls) for one in found)
        return total(2 * self.tokens * count for count in counts)

    @property
    def sources(self) -> Term:
        """What a residual mix reads; at layer 0 there is nothing to mix before the mixer."""
        config = self.case.config
        if self.path == "output_attn_res":
            return named("sources", config.bank_size(config.num_hidden_layers - 1) + 1)
        layer = int(self.case.this_layer().value)
        if self.path == "mlp_res":
            return named("sources", config.bank_size(layer) + 1)
        return named("sources", config.bank_size(layer - 1) + 1 if layer else 0)


def pairs(place: Place) -> Term:
    """Query–key pairs of a batch and all heads that the causal mask leaves."""
    case = place.case
    groups = case.size("batch") * place.size("head")
    if case.phase == "decode":
        return groups * case.context
    positions = case.queries
    return groups * (positions * (positions + 1) / 2)


def _raw_projection(place: Place) -> Term:
    """q_conv1d reads q_proj, which belongs to the mixer around it."""
    count = place.case.size("d_inner", place.module.cls) * place.case.size("d_model")
    return 2 * place.tokens * count


def _each(factor: int, *words: str) -> Callable[[Place], Term]:
    """So many operations for every token and element of these axes."""

    def compute(place: Place) -> Term:
        result = place.tokens if factor == 1 else factor * place.tokens
        for word in words:
            result = result * place.size(word)
        return result

    return compute


def _linear(*names: str) -> Callable[[Place], Term]:
    return lambda place: place.linear(*names)


def _mix(factor: int) -> Callable[[Place], Term]:
    return lambda place: factor * place.tokens * place.sources * place.size("d_model")


def _scores(place: Place) -> Term:
    if place.case.phase == "decode" and place.mla == "latent":
        width = place.size("d_kv_latent") + place.size("d_shared")
        return 2 * pairs(place) * width
    return 2 * pairs(place) * place.size("d_qk")


def _read(place: Place) -> Term:
    absorbed = place.case.phase == "decode" and place.mla == "latent"
    return 2 * pairs(place) * place.size("d_kv_latent" if absorbed else "d_value")


def _expert_hidden(place: Place) -> Term:
    each = place.tokens * place.size("choice") * place.size("d_expert")
    return 2 * each * 2 * place.size("d_moe_latent") + each


def _gated(place: Place) -> Term:
    each = place.tokens * place.size("head") * place.size("d_value")
    return each if "g_proj.weight" in place.module.parameters else term(0)


def _turned(*words: str) -> Callable[[Place], Term]:
    """Two products and a sum for every feature that is rotated; nothing where none is."""
    each = _each(3, *words)
    return lambda place: term(0) if place.case.config.mla_use_nope else each(place)


OPERATIONS: dict[str, Callable[[Place], Term]] = {
    "KimiLM.logits": _linear("lm_head"),
    "KimiDecoderLayer.residual_mid": _each(1, "d_model"),
    "KimiDecoderLayer.residual_out": _each(1, "d_model"),
    "AttnResidual.keys": _mix(3),
    "AttnResidual.query": lambda place: place.size("d_model"),
    "AttnResidual.scores": _mix(2),
    "AttnResidual.mixed": _mix(2),
    "RMSNorm.normed": _each(4, "feature"),
    "GatedRMSNorm.gated": _each(5, "head", "d_value"),
    "ShortConvolution.raw": _raw_projection,
    "ShortConvolution.convolved": _each(2, "d_inner", "lag"),
    "KimiDeltaAttention.q": _each(4, "head", "d_key"),
    "KimiDeltaAttention.k": _each(3, "head", "d_key"),
    "KimiDeltaAttention.gate_latent": _linear("f_a_proj"),
    "KimiDeltaAttention.gate_logit": _linear("f_b_proj"),
    "KimiDeltaAttention.log_decay": _each(2, "head", "d_key"),
    "KimiDeltaAttention.beta": _linear("b_proj"),
    "KimiDeltaAttention.decayed_state": _each(1, "head", "d_value", "d_key"),
    "KimiDeltaAttention.recalled": _each(2, "head", "d_value", "d_key"),
    "KimiDeltaAttention.written": _each(2, "head", "d_value"),
    "KimiDeltaAttention.state": _each(2, "head", "d_value", "d_key"),
    "KimiDeltaAttention.read": _each(2, "head", "d_value", "d_key"),
    "KimiDeltaAttention.output_gate": _linear("g_proj", "g_a_proj", "g_b_proj"),
    "KimiDeltaAttention.out": _linear("o_proj"),
    "KimiMLAAttention.q_down": _linear("q_a_proj"),
    "KimiMLAAttention.q_up": _linear("q_b_proj", "q_proj"),
    "KimiMLAAttention.q_rotated": _turned("head", "d_shared"),
    "KimiMLAAttention.k_rotated": _turned("d_shared"),
    "KimiMLAAttention.kv_joint": _linear("kv_a_proj_with_mqa"),
    "KimiMLAAttention.kv_up": _linear("kv_b_proj"),
    "KimiMLAAttention.scores": _scores,
    "KimiMLAAttention.read": _read,
    "KimiMLAAttention.output_gate": _linear("g_proj"),
    "KimiMLAAttention.gated": _gated,
    "KimiMLAAttention.out": _linear("o_proj"),
    "KimiMLP.gate": _linear("gate_proj"),
    "KimiMLP.up": _linear("up_proj"),
    "KimiMLP.activated": _each(1, "feature"),
    "KimiMLP.out": _linear("down_proj"),
    "KimiMoEGate.logits": _each(2, "expert", "d_model"),
    "KimiMoEGate.scores_for_choice": _each(1, "expert"),
    "KimiMoEGate.chosen_weight": _each(3, "choice"),
    "KimiSparseMoE.latent": _linear("routed_expert_down_proj"),
    "KimiSparseMoE.expert_hidden": _expert_hidden,
    "KimiSparseMoE.expert_out": _each(2, "choice", "d_expert", "d_moe_latent"),
    "KimiSparseMoE.combined": _each(2, "choice", "d_moe_latent"),
    "KimiSparseMoE.routed": _linear("routed_expert_up_proj"),
    "KimiSparseMoE.out": _each(1, "d_model"),
}
"""Of every tap; a tap that is missing here costs no counted operation."""
