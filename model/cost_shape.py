"""Facts about how a model is put together: counts of layers, widths, residual sources, scales."""

import math
from dataclasses import fields

from model.config import KimiConfig, LinearAttnConfig
from model.cost_facts import FACTS, Fact, fact_in
from model.cost_kept import expanded_per_position, latent_per_position
from model.cost_sizes import MIXER_OWNER, PHRASES, Case
from model.cost_terms import Term, named
from model.yarn import pair_that_turns, scaling_of, score_scale


@fact_in("layers")
def num_layers(case: Case) -> Term:
    """Decoder layers."""
    return named("layers", case.config.num_hidden_layers)


@fact_in("layers")
def num_mla_layers(case: Case) -> Term:
    """Layers with latent attention."""
    return named("MLA layers", case.count("mla"))


@fact_in("layers")
def num_kda_layers(case: Case) -> Term:
    """Layers with Kimi Delta Attention."""
    return named("KDA layers", case.count("kda"))


@fact_in("layers")
def num_moe_layers(case: Case) -> Term:
    """Layers whose feed-forward is a mixture of experts."""
    return named("MoE layers", case.config.feed_forwards.count("moe"))


@fact_in("layers")
def num_dense_layers(case: Case) -> Term:
    """Layers whose feed-forward is dense."""
    return named("dense layers", case.config.feed_forwards.count("dense"))


@fact_in("positions")
def max_positions(case: Case) -> Term:
    """Longest context of the configuration; the code does not enforce it."""
    return named("max_position_embeddings", case.config.max_position_embeddings)


@fact_in("heads")
def num_heads(case: Case) -> Term:
    """Heads of latent attention."""
    return case.mla("head")


@fact_in("heads")
def num_kda_heads(case: Case) -> Term:
    """Heads of Kimi Delta Attention."""
    return case.kda("head")


@fact_in("features")
def d_kda_value(case: Case) -> Term:
    """Value width of a KDA head."""
    return case.kda("d_value")


@fact_in("features")
def d_expanded_query(case: Case) -> Term:
    """Queries of all heads of latent attention side by side."""
    return case.mla("head") * case.mla("d_qk")


@fact_in("features")
def d_joined_heads(case: Case) -> Term:
    """Reads of all heads of latent attention side by side."""
    return case.mla("head") * case.mla("d_value")


@fact_in("features")
def d_kv_up_all_heads(case: Case) -> Term:
    """What the up-projection of keys and values yields for all heads."""
    return case.mla("head") * case.mla("d_kv_up")


@fact_in("feature")
def shared_key_first(case: Case) -> Term:
    """First feature of the shared key part in the joint projection, counted from 1."""
    return case.mla("d_kv_latent") + 1


@fact_in("feature")
def shared_key_last(case: Case) -> Term:
    """Last feature of the shared key part in the joint projection, counted from 1."""
    return latent_per_position(case)


@fact_in("")
def expanded_over_latent(case: Case) -> Term:
    """How many times the latent the expanded cache holds."""
    expanded = expanded_per_position(case).named("expanded values")
    latent = latent_per_position(case).named("latent values")
    return Term(
        expanded.value / latent.value,
        f"{expanded.words} / {latent.words}",
        f"{expanded.numbers} / {latent.numbers}",
    )


@fact_in("")
def expert_sparsity(case: Case) -> Term:
    """Routed experts for each chosen one."""
    return case.size("expert") // case.size("choice")


@fact_in("")
def softmax_scale(case: Case) -> Term:
    """What scores are multiplied by; YaRN's correction included where the model has one."""
    case.need("mla")
    width = case.mla("d_qk")
    words, numbers = f"1 / √({width.words})", f"1 / √{width.numbers}"
    scaling = scaling_of(case.config) or {}
    if scaling.get("mscale_all_dim"):
        factor, mscale = scaling["factor"], scaling["mscale_all_dim"]
        words += " · (0.1 · mscale · ln factor + 1)²"
        numbers += f" · (0.1 · {mscale:g} · ln {factor:g} + 1)²"
    return Term(score_scale(case.config), words, numbers)


@fact_in("pairs")
def rotary_pairs(case: Case) -> Term:
    """Pairs of features that are rotated together."""
    _need_rotation(case)
    return case.mla("d_shared") / 2


@fact_in("pairs")
def yarn_cut(case: Case) -> Term:
    """The first rotary pair whose frequency YaRN divides by its whole factor."""
    scaling = _need_rotation(case)
    if scaling is None:
        return rotary_pairs(case)
    width, base = case.mla("d_shared").value, case.config.rope_theta
    original, slow = scaling["original_max_position_embeddings"], scaling["beta_slow"]
    assert base is not None
    pair = pair_that_turns(slow, width, base, scaling)
    return Term(
        math.ceil(pair),
        "⌈shared width · ln(original context / 2π·beta_slow) / (2 · ln theta)⌉",
        f"⌈{width} · ln({original:,} / 2π·{slow:g}) / (2 · ln {base:,.0f})⌉",
    )


@fact_in("")
def yarn_factor(case: Case) -> Term:
    """By how much YaRN stretches the context; one where it does not."""
    scaling = _need_rotation(case)
    return named("factor", 1.0 if scaling is None else scaling["factor"])


@fact_in("positions")
def yarn_original_positions(case: Case) -> Term:
    """The context that YaRN starts from; all of it where nothing is stretched."""
    if (scaling := _need_rotation(case)) is None:
        return named("context", case.config.max_position_embeddings)
    return named("original context", scaling["original_max_position_embeddings"])


def _need_rotation(case: Case) -> dict[str, float] | None:
    if case.config.mla_use_nope:
        raise LookupError("This model rotates nothing; its attention has no positional encoding.")
    return scaling_of(case.config)


@fact_in("")
def least_retention(case: Case) -> Term:
    """What one step keeps of a key channel at least, with the bounded gate."""
    bound = _gate_bound(case)
    return Term(math.exp(bound), "exp(gate_lower_bound)", f"exp({bound:g})".replace("-", "−"))


def _gate_bound(case: Case) -> float:
    linear = case.config.linear_attn_config
    if linear is None or linear.gate_lower_bound is None:
        raise LookupError("This model's forget gate has no lower bound.")
    return linear.gate_lower_bound


@fact_in("")
def situ_bound(case: Case) -> Term:
    """SiTU stays below this in size."""
    gate, up = case.config.activation_situ_beta, case.config.activation_situ_linear_beta
    if gate is None or up is None:
        raise LookupError("This model's activation has no bound.")
    return Term(gate * up, "gate beta · up beta", f"{gate:g} · {up:g}")


def _register_widths() -> None:
    """A fact for every dims word that the model alone decides, under the word itself."""
    latent_attention = ("d_qk", "d_value", "d_nope", "d_shared", "d_q_latent", "d_kv_latent")
    owners: dict[str, str] = dict.fromkeys((*latent_attention, "d_kv_joint", "d_kv_up"), "mla")
    owners |= dict.fromkeys(("d_key", "d_inner", "d_gate_latent", "lag"), "kda")
    experts = ("expert", "choice", "d_expert", "d_shared_expert", "d_moe_latent")
    for word in (*owners, "d_model", "d_dense", "vocab", *experts):
        unit = {"expert": "experts", "choice": "experts", "vocab": "tokens", "lag": "columns"}
        FACTS[word] = Fact(
            word, unit.get(word, "features"), PHRASES[word], _width(word, owners.get(word))
        )


def _width(word: str, mixer: str | None):
    def compute(case: Case) -> Term:
        if mixer is not None:
            case.need(mixer)
        try:
            return case.size(word, MIXER_OWNER.get(mixer or ""))
        except ValueError as error:
            raise LookupError(str(error)) from error

    return compute


def _register_config_fields() -> None:
    """A fact for every number of the configuration, under the field's own name."""
    for table, cls in ((None, KimiConfig), ("linear_attn_config", LinearAttnConfig)):
        for field in fields(cls):
            if field.type in (int, float, int | None, float | None):
                name = f"kda_{field.name}" if table else field.name
                FACTS[name] = Fact(name, "", f"`{field.name}`", _field(table, field.name))


def _field(table: str | None, name: str):
    def compute(case: Case) -> Term:
        owner = case.config if table is None else getattr(case.config, table)
        if (value := getattr(owner, name, None)) is None:
            raise LookupError(f"This model's configuration has no {name}.")
        return named(name, value)

    return compute


_register_widths()
_register_config_fields()
