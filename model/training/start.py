"""The weights that training starts from."""

from collections.abc import Sequence

import torch

from model.config import KimiConfig
from model.init import fill, give_storage
from model.kda import KimiDeltaAttention
from model.kimi import KimiLM
from model.mla import KimiMLAAttention
from model.training.paths import take_training_paths
from model.training.recurrence import middle_delta_rule

EMBEDDING = 0.3
"""Spread of the embedding. A norm follows wherever it is read."""
HEAD = 0.3
"""Logit of a token that the stream spells exactly, in roots of the width."""
OUTPUT = 0.1
"""What sub-layers add at first, against matrices that keep the size of their input."""
BLUR = 0.3
"""Share of its random draw that a short convolution keeps beside the one lag it begins with."""
PASSING = ((0, 1), (0, 2), (0, 3), (0, 3))
FIRST = (*PASSING, (1, 0), (1, 2), (2, 0), (0, 1))
LATER = ((1, 0), (1, 2), (2, 0), (0, 1), (1, 0), (2, 0), (0, 3), (0, 2))
"""Lags of keys and values of the heads, in the first layer and in those after it."""
PASSED_ON = 1.0
"""As `OUTPUT`, of the first layer's `PASSING` heads: what came before is as loud as the token."""
OUTPUTS = ("o_proj.weight", "down_proj.weight", "w2", "routed_expert_up_proj.weight")


def model_to_train(config: KimiConfig, seed: int) -> KimiLM:
    """A model in float32 whose parameters, but for the routers' biases, want gradients."""
    lm = KimiLM(config, recurrence=middle_delta_rule)
    give_storage(lm, "cpu", torch.float32)
    fill(lm, config, seed)
    take_training_paths(lm)
    with torch.no_grad():
        for name, parameter in lm.named_parameters():
            if name.endswith(("_res.proj.weight", "e_score_correction_bias")):
                # every source counts alike, and every expert is chosen for its score
                parameter.zero_()
            elif name.endswith(OUTPUTS):
                parameter.mul_(OUTPUT)
        for part in lm.modules():
            if isinstance(part, KimiDeltaAttention | KimiMLAAttention):
                looks_back(part, part is lm.layers[0].self_attn)
        lm.embed_tokens.weight.mul_(EMBEDDING)
        # what the stream spells is what comes out: a copied token is found at once
        scale = HEAD / EMBEDDING * config.hidden_size**-0.5
        lm.lm_head.weight.copy_(lm.embed_tokens.weight * scale)
    for name, parameter in lm.named_parameters():
        parameter.requires_grad_(not name.endswith("e_score_correction_bias"))
    return lm


def looks_back(mixer: KimiDeltaAttention | KimiMLAAttention, first: bool) -> None:
    """Let queries and keys of the same token agree from the start; what to look for is learned."""
    if isinstance(mixer, KimiDeltaAttention):
        looks_back_by_lags(mixer, FIRST if first else LATER)
    elif mixer.has_q_latent:
        q_down, kv_down = mixer.q_a_proj.weight, mixer.kv_a_proj_with_mqa.weight
        rank = min(q_down.shape[0], mixer.d_latent)
        kv_down[:rank] = q_down[:rank]
        q_up, kv_up = (
            part.weight.unflatten(0, (mixer.heads, -1))[:, : mixer.d_nope, :rank]
            for part in (mixer.q_b_proj, mixer.kv_b_proj)
        )
        kv_up.copy_(q_up)


def looks_back_by_lags(kda: KimiDeltaAttention, lags: Sequence[tuple[int, int]]) -> None:
    """Queries of this token, keys and values of some tokens before it; what is read is passed on.

    A query that finds the key of an earlier place thus reads what came some tokens after or before
    it there, and one that finds its own reads what came before this token.
    """
    kda.k_proj.weight.copy_(kda.q_proj.weight)
    kda.o_proj.weight.copy_(OUTPUT * kda.v_proj.weight.T)
    if lags is FIRST:
        passing = kda.o_proj.weight.unflatten(1, (kda.heads, -1))[:, : len(PASSING)]
        passing.mul_(PASSED_ON / OUTPUT)
    for conv in (kda.q_conv1d, kda.k_conv1d, kda.v_conv1d):
        for head, weight in enumerate(conv.weight.mul_(BLUR).unflatten(0, (kda.heads, -1))):
            of_key, of_value = lags[head % len(lags)]
            back = {kda.q_conv1d: 0, kda.k_conv1d: of_key, kda.v_conv1d: of_value}[conv]
            weight[..., conv.lag - 1 - back % conv.lag] += 1
