"""The weights that training starts from."""

import torch

from model.config import KimiConfig
from model.init import fill, give_storage
from model.kimi import KimiLM
from model.training.paths import take_training_paths
from model.training.recurrence import middle_delta_rule

EMBEDDING = 0.3
"""Spread of the embedding. A norm follows wherever it is read."""
HEAD = 0.3
"""Logit of a token that the stream spells exactly, in roots of the width."""
OUTPUT = 0.1
"""What sub-layers add at first, against matrices that keep the size of their input."""
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
        lm.embed_tokens.weight.mul_(EMBEDDING)
        # what the stream spells is what comes out: a copied token is found at once
        scale = HEAD / EMBEDDING * config.hidden_size**-0.5
        lm.lm_head.weight.copy_(lm.embed_tokens.weight * scale)
    for name, parameter in lm.named_parameters():
        parameter.requires_grad_(not name.endswith("e_score_correction_bias"))
    return lm
