"""The Kimi-Linear and K2 configurations that are compared, as upstream `config.json` text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.parity.cases import Case

SHARED_SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "q_lora_rank": None,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "intermediate_size": 48,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "num_experts": 6,
    "num_experts_per_token": 2,
    "num_shared_experts": 1,
    "moe_intermediate_size": 12,
    "moe_router_activation_func": "sigmoid",
    "num_expert_group": 1,
    "topk_group": 1,
    "moe_renormalize": True,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}

KIMI_LINEAR_SIZES: dict[str, Any] = SHARED_SIZES | {
    "model_type": "kimi_linear",
    "mla_use_nope": True,
    "routed_scaling_factor": 2.446,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "head_dim": 16,
    "model_max_length": 1024,
}

K2_SIZES: dict[str, Any] = SHARED_SIZES | {
    "model_type": "kimi_k2",
    "q_lora_rank": 12,
    "qk_rope_head_dim": 16,
    "routed_scaling_factor": 2.827,
    "rms_norm_eps": 1e-6,
    "rope_theta": 50000.0,
    "max_position_embeddings": 8192,
    "num_nextn_predict_layers": 0,
}

K2_WORDS = {
    "num_experts": "n_routed_experts",
    "num_experts_per_token": "num_experts_per_tok",
    "num_shared_experts": "n_shared_experts",
    "moe_router_activation_func": "scoring_func",
    "num_expert_group": "n_group",
    "moe_renormalize": "norm_topk_prob",
}


@dataclass(frozen=True, kw_only=True)
class KimiLinearCase(Case):
    oracles: tuple[str, ...] = ("transformers", "mlx")
    """Who can run it; what the other cannot stands beside the case."""

    def in_house_words(self) -> dict[str, Any]:
        every = range(1, self.layers + 1)
        linear = {
            "num_heads": 3,
            "head_dim": 16,
            "short_conv_kernel_size": 4,
            "full_attn_layers": list(self.full_attention),
            "kda_layers": [layer for layer in every if layer not in self.full_attention],
        }
        sizes = KIMI_LINEAR_SIZES | {"num_hidden_layers": self.layers} | self.sizes
        return sizes | {
            "num_key_value_heads": sizes["num_attention_heads"],
            "linear_attn_config": linear | self.linear,
        }

    def config(self) -> dict[str, Any]:
        return self.in_house_words()


@dataclass(frozen=True, kw_only=True)
class K2Case(Case):
    full_attention: tuple[int, ...] = ()
    oracles: tuple[str, ...] = ("transformers",)

    def in_house_words(self) -> dict[str, Any]:
        sizes = K2_SIZES | {"num_hidden_layers": self.layers} | self.sizes
        return sizes | {
            "num_key_value_heads": sizes["num_attention_heads"],
            "linear_attn_config": {"kda_layers": []},
        }

    def config(self) -> dict[str, Any]:
        words = self.in_house_words()
        del words["linear_attn_config"]
        return {K2_WORDS.get(key, key): value for key, value in words.items()}


FamilyCase = KimiLinearCase | K2Case

KIMI_LINEAR_CASES = (
    KimiLinearCase(name="three KDA layers and a full one", layers=4, full_attention=(4,)),
    KimiLinearCase(
        name="odd head counts, weights not renormalized, two shared experts",
        layers=5,
        full_attention=(2, 5),
        linear={"num_heads": 5, "head_dim": 24},
        sizes={
            "hidden_size": 48,
            "num_attention_heads": 3,
            "v_head_dim": 12,
            "num_shared_experts": 2,
            "moe_renormalize": False,
            "routed_scaling_factor": 1.7,
        },
    ),
    KimiLinearCase(
        name="groups of experts, two dense layers, a full layer first",
        layers=4,
        full_attention=(1, 4),
        linear={"num_heads": 1, "head_dim": 32},
        sizes={
            "first_k_dense_replace": 2,
            "num_experts": 12,
            "num_experts_per_token": 3,
            "num_expert_group": 4,
            "topk_group": 2,
            "rms_norm_eps": 1e-4,
        },
    ),
    KimiLinearCase(
        name="a convolution over two positions, wide heads",
        layers=3,
        full_attention=(3,),
        linear={"num_heads": 2, "head_dim": 64, "short_conv_kernel_size": 2},
        sizes={
            "hidden_size": 64,
            "num_attention_heads": 4,
            "kv_lora_rank": 24,
            "qk_nope_head_dim": 16,
            "qk_rope_head_dim": 8,
            "v_head_dim": 24,
            "rms_norm_eps": 1e-6,
        },
    ),
    KimiLinearCase(
        name="the released pattern with its full layer at the end",
        layers=9,
        full_attention=(4, 8, 9),
        linear={"head_dim": 32},
    ),
    KimiLinearCase(
        # mlx needs a layer of each kind; without a full layer transformers cannot decode
        name="full layers only",
        layers=2,
        full_attention=(1, 2),
        oracles=("transformers",),
    ),
    KimiLinearCase(
        # mlx has no query latent
        name="a query latent",
        layers=3,
        full_attention=(2,),
        sizes={"q_lora_rank": 12, "num_shared_experts": 3, "routed_scaling_factor": 0.7},
        oracles=("transformers",),
    ),
    KimiLinearCase(
        # transformers puts experts into every layer after the dense ones, and makes the weight
        # of a single chosen expert 1; upstream leaves that one as it is
        name="experts in every second layer, one of them chosen",
        layers=5,
        full_attention=(3, 5),
        sizes={"moe_layer_freq": 2, "num_experts_per_token": 1},
        oracles=("mlx",),
    ),
)

YARN: dict[str, Any] = {
    "type": "yarn",
    "factor": 32.0,
    "original_max_position_embeddings": 256,
    "beta_fast": 1.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
"""K2's own but for the length, which puts the cut where these few pairs and positions show it."""

K2_CASES = (
    K2Case(name="YaRN as in K2", layers=3, sizes={"rope_scaling": YARN}),
    K2Case(
        name="YaRN with a ramp, groups of experts",
        layers=3,
        sizes={
            "rope_scaling": YARN | {"beta_fast": 32.0, "factor": 8.0},
            "num_experts": 12,
            "num_experts_per_token": 3,
            "num_expert_group": 4,
            "topk_group": 2,
            "first_k_dense_replace": 2,
        },
    ),
    K2Case(
        name="YaRN that lengthens cosine and sine",
        layers=2,
        sizes={
            "rope_scaling": YARN | {"beta_fast": 8.0, "mscale_all_dim": 0.5},
            "hidden_size": 48,
            "num_attention_heads": 4,
            "qk_rope_head_dim": 24,
            "moe_renormalize": False,
        },
    ),
    K2Case(
        name="YaRN that leaves the scale of the scores alone",
        layers=2,
        sizes={"rope_scaling": YARN | {"mscale_all_dim": 0.0}, "num_shared_experts": 2},
    ),
    K2Case(
        name="YaRN over so short a context that its range runs backwards",
        layers=2,
        sizes={
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 1,
            }
        },
    ),
    K2Case(
        name="a plain rotation, another base, odd head counts, no query latent",
        layers=3,
        sizes={
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "num_attention_heads": 3,
            "q_lora_rank": None,
            "qk_rope_head_dim": 6,
            "v_head_dim": 10,
            "num_experts_per_token": 6,
            "rms_norm_eps": 1e-4,
        },
    ),
)


def variants(cases: Sequence[FamilyCase]) -> list[tuple[FamilyCase, bool]]:
    return [(case, shrink) for case in cases for shrink in (False, True)]
