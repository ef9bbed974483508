"""Equations of the feed-forwards: the router, the routed experts, the shared and dense ones."""

import numpy as np

from model.identities.identity import Pair, Place, identity, relation, sigmoid, softmax

_INPUT = "^.post_attention_layernorm.normed"
_ROUTER_INPUT = "^.^.post_attention_layernorm.normed"


def activate(place: Place, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """SiTU where the configuration caps the gate, else SwiGLU."""
    if place.config.hidden_act == "silu":
        return gate * sigmoid(gate) * up
    cap = place.config.activation_situ_beta or 1.0
    gate = cap * np.tanh(gate / cap) * sigmoid(gate)
    if (linear := place.config.activation_situ_linear_beta) is not None:
        up = linear * np.tanh(up / linear)
    return gate * up


def _feed_forward_input(place: Place) -> np.ndarray:
    depth = "^.^." if place.path.endswith("shared_experts") else "^."
    return place(f"{depth}post_attention_layernorm.normed")


@identity("KimiMLP.gate", "Gate", reads=_INPUT)
def mlp_gate(place: Place) -> np.ndarray:
    return place.linear(_feed_forward_input(place), "gate_proj.weight")


@identity("KimiMLP.up", "Up", reads=_INPUT)
def mlp_up(place: Place) -> np.ndarray:
    return place.linear(_feed_forward_input(place), "up_proj.weight")


@identity("KimiMLP.activated", "Activate", reads="gate up")
def mlp_activated(place: Place) -> np.ndarray:
    return activate(place, place("gate"), place("up"))


@identity("KimiMLP.out", "Down", reads="activated")
def mlp_out(place: Place) -> np.ndarray:
    return place.linear(place("activated"), "down_proj.weight")


@identity("KimiMoEGate.logits", "Router logits", reads=_ROUTER_INPUT)
def moe_logits(place: Place) -> np.ndarray:
    return place.linear(place(_ROUTER_INPUT), "weight")


@identity("KimiMoEGate.scores", "Router scores", reads="logits")
def moe_scores(place: Place) -> np.ndarray:
    squash = softmax if place.config.moe_router_activation_func == "softmax" else sigmoid
    return squash(place("logits"))


@identity("KimiMoEGate.scores_for_choice", "Add the balance bias", reads="scores")
def moe_scores_for_choice(place: Place) -> np.ndarray:
    return place("scores") + place.parameter("e_score_correction_bias")


def _open_groups(place: Place) -> np.ndarray:
    """Biased scores, minus infinity outside the groups that may be chosen from."""
    config, scores = place.config, place("scores_for_choice")
    if config.num_expert_group <= 1:
        return scores
    grouped = scores.reshape(*scores.shape[:-1], config.num_expert_group, -1)
    strength = np.sort(grouped, axis=-1)[..., -2:].sum(-1)
    least = np.sort(strength, axis=-1)[..., -config.topk_group, None, None]
    return np.where(strength[..., None] >= least, grouped, -np.inf).reshape(scores.shape)


@relation(
    "KimiMoEGate",
    "The chosen have the highest biased scores",
    reads="scores_for_choice chosen",
    tap="KimiMoEGate.chosen",
)
def moe_chosen(place: Place) -> Pair:
    chosen = place.captured("chosen")
    picked = np.take_along_axis(place("scores_for_choice"), chosen, axis=-1)
    highest = np.sort(_open_groups(place), axis=-1)[..., -chosen.shape[-1] :]
    # one expert twice would leave fewer than it should
    twice = (np.diff(np.sort(chosen, axis=-1), axis=-1) == 0).any(-1, keepdims=True)
    return np.where(twice, np.nan, np.sort(picked, axis=-1)), highest


@identity("KimiMoEGate.chosen_weight", "Mixing weights", reads="scores chosen")
def moe_chosen_weight(place: Place) -> np.ndarray:
    # the unbiased scores: the bias decides who is chosen, never how much
    weights = np.take_along_axis(place("scores"), place("chosen"), axis=-1)
    if place.config.moe_renormalize and place.config.num_experts_per_token > 1:
        weights = weights / (weights.sum(-1, keepdims=True) + 1e-20)
    return weights * place.config.routed_scaling_factor


@relation("KimiMoEGate", "Router weights sum to the scale", reads="chosen_weight")
def moe_weights_sum(place: Place) -> Pair:
    total = place.captured("chosen_weight").sum(-1)
    scale = place.config.routed_scaling_factor
    return total, np.full_like(total, scale) if place.config.moe_renormalize else total


@identity("KimiSparseMoE.latent", "Latent down-projection", reads=_INPUT)
def moe_latent(place: Place) -> np.ndarray:
    return place.linear(place(_INPUT), "routed_expert_down_proj.weight")


def expert_hidden_of(place: Place) -> np.ndarray:
    """Hidden values of each token's chosen experts, an expert at a time."""
    memo = (place.path, place.step, "expert hidden")
    if memo not in place.arrays:
        has_latent = place.config.routed_expert_hidden_size is not None
        latent, chosen = place("latent" if has_latent else _INPUT), place("gate.chosen")
        w1, w3 = place.parameter("experts.w1"), place.parameter("experts.w3")
        hidden = np.empty((*chosen.shape, w1.shape[1]))
        for expert in np.unique(chosen):
            batch, pos, choice = np.nonzero(chosen == expert)
            z = latent[batch, pos]
            hidden[batch, pos, choice] = activate(place, z @ w1[expert].T, z @ w3[expert].T)
        place.arrays[memo] = hidden
    return place.arrays[memo]


@identity("KimiSparseMoE.expert_hidden", "Inside an expert", reads="latent gate.chosen")
def moe_expert_hidden(place: Place) -> np.ndarray:
    return expert_hidden_of(place)


@identity("KimiSparseMoE.expert_out", "Each expert", reads="latent gate.chosen")
def moe_expert_out(place: Place) -> np.ndarray:
    held = place.holds("expert_hidden")
    hidden = place("expert_hidden") if held else expert_hidden_of(place)
    chosen, w2 = place("gate.chosen"), place.parameter("experts.w2")
    out = np.empty((*chosen.shape, w2.shape[1]))
    for expert in np.unique(chosen):
        here = np.nonzero(chosen == expert)
        out[here] = hidden[here] @ w2[expert].T
    return out


@identity(
    "KimiSparseMoE.combined",
    "Weighted sum of the experts",
    reads="gate.chosen_weight expert_out",
)
def moe_combined(place: Place) -> np.ndarray:
    return (place("gate.chosen_weight")[..., None] * place("expert_out")).sum(2)


@identity("KimiSparseMoE.routed", "Latent norm and up-projection", reads="combined")
def moe_routed(place: Place) -> np.ndarray:
    config = place.config
    normed = config.latent_moe_use_norm and config.routed_expert_hidden_size is not None
    x = place("routed_expert_norm.normed") if normed else place("combined")
    if config.routed_expert_hidden_size is None:
        return x
    return place.linear(x, "routed_expert_up_proj.weight")


@identity("KimiSparseMoE.out", "Add the shared experts", reads="routed shared_experts.out")
def moe_out(place: Place) -> np.ndarray:
    if not place.config.num_shared_experts:
        return place("routed")
    return place("routed") + place("shared_experts.out")
