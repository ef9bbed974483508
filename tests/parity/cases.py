"""The K3 configurations that are compared with the oracle, as upstream `config.json` text."""

from dataclasses import dataclass, field
from typing import Any

PROMPT_LENGTHS = (1, 2, 17, 65, 130)

DECODED = {1: 4, 2: 3, 17: 5, 65: 3, 130: 2}
"""How many positions follow each prompt one by one, in the same sequence."""

SIZES: dict[str, Any] = {
    "model_type": "kimi_linear",
    "vocab_size": 96,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "mla_use_nope": True,
    "mla_use_output_gate": True,
    "attn_res_block_size": 2,
    "intermediate_size": 48,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "num_experts": 6,
    "num_experts_per_token": 2,
    "num_shared_experts": 2,
    "moe_intermediate_size": 12,
    "routed_expert_hidden_size": 16,
    "latent_moe_use_norm": True,
    "moe_router_activation_func": "sigmoid",
    "topk_method": "noaux_tc",
    "num_expert_group": 1,
    "topk_group": 1,
    "moe_renormalize": True,
    "routed_scaling_factor": 1.0,
    "hidden_act": "situ",
    "activation_situ_beta": 4.0,
    "activation_situ_linear_beta": 25.0,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
    "num_nextn_predict_layers": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One configuration; every case is run with plain and with shrunken projections."""

    name: str
    layers: int
    full_attention: tuple[int, ...]
    """1-based, as upstream writes it."""
    linear: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, Any] = field(default_factory=dict)
    float32_resolves: bool = True
    """Where not, rounding the weights alone moves the exact logits by half the bound or more."""

    def config(self) -> dict[str, Any]:
        every = range(1, self.layers + 1)
        linear = {
            "num_heads": 3,
            "head_dim": 8,
            "short_conv_kernel_size": 4,
            "use_full_rank_gate": True,
            "gate_lower_bound": -5.0,
            "full_attn_layers": list(self.full_attention),
            "kda_layers": [layer for layer in every if layer not in self.full_attention],
        }
        return {
            **SIZES,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.sizes.get("num_attention_heads", 2),
            **self.sizes,
            "linear_attn_config": linear | self.linear,
        }


CASES = (
    Case(name="two MLA layers at the end", layers=5, full_attention=(4, 5)),
    Case(
        name="odd head counts, blocks of 3",
        layers=8,
        full_attention=(4, 7, 8),
        linear={"num_heads": 5, "head_dim": 16},
        sizes={
            "hidden_size": 48,
            "num_attention_heads": 3,
            "attn_res_block_size": 3,
            "num_shared_experts": 1,
            "routed_scaling_factor": 2.446,
            "v_head_dim": 12,
        },
    ),
    Case(
        name="K3's pattern of 13 layers, blocks of 5",
        layers=13,
        full_attention=(4, 8, 12, 13),
        linear={"num_heads": 3, "head_dim": 32},
        sizes={
            "hidden_size": 96,
            "attn_res_block_size": 5,
            "num_experts": 12,
            "num_experts_per_token": 4,
            "moe_intermediate_size": 24,
            "routed_expert_hidden_size": 32,
        },
    ),
    Case(
        # heads of 8 now and then read next to nothing, which their norm then blows up
        name="13 narrow layers, blocks of 5",
        layers=13,
        full_attention=(4, 8, 12, 13),
        sizes={"attn_res_block_size": 5, "num_experts": 12, "num_experts_per_token": 4},
        float32_resolves=False,
    ),
    Case(
        name="experts on the full width, blocks of 1",
        layers=4,
        full_attention=(2, 4),
        sizes={
            "attn_res_block_size": 1,
            "routed_expert_hidden_size": None,
            "latent_moe_use_norm": False,
            "num_shared_experts": 1,
            "routed_scaling_factor": 0.7,
        },
    ),
    Case(
        name="latent without norm, weights not renormalized",
        layers=5,
        full_attention=(3, 5),
        linear={"num_heads": 1, "head_dim": 24},
        sizes={
            "num_attention_heads": 5,
            "latent_moe_use_norm": False,
            "moe_renormalize": False,
            "routed_scaling_factor": 1.7,
            "activation_situ_beta": 1.5,
            "activation_situ_linear_beta": 2.0,
        },
    ),
    Case(
        name="two dense layers, a weaker decay bound, no output gate",
        layers=6,
        full_attention=(1, 5, 6),
        linear={"num_heads": 4, "gate_lower_bound": -1.5},
        sizes={
            "first_k_dense_replace": 2,
            "mla_use_output_gate": False,
            "attn_res_block_size": 5,
            "num_experts_per_token": 3,
            "rms_norm_eps": 1e-4,
        },
    ),
    Case(
        name="heads of 64, wide latents",
        layers=5,
        full_attention=(4, 5),
        linear={"num_heads": 2, "head_dim": 64},
        sizes={
            "hidden_size": 64,
            "num_attention_heads": 4,
            "q_lora_rank": 40,
            "kv_lora_rank": 24,
            "qk_nope_head_dim": 16,
            "qk_rope_head_dim": 8,
            "v_head_dim": 24,
            "attn_res_block_size": 3,
            "routed_expert_hidden_size": 24,
        },
    ),
    Case(
        name="plain residuals, no query latent, low-rank gate, softplus decay",
        layers=5,
        full_attention=(4, 5),
        linear={"use_full_rank_gate": False, "gate_lower_bound": None},
        sizes={"attn_res_block_size": None, "q_lora_rank": None, "num_shared_experts": 1},
    ),
)

VARIANTS = [(case, shrink) for case in CASES for shrink in (False, True)]
"""Projections shrunk fifty-fold bring their norms down to where a wrong eps shows."""


def label(case: Case, shrink: bool) -> str:
    return f"{case.name}{' (shrunken)' if shrink else ''}"
