"""Facts about parameters: of the model, of one module, and what they weigh as released."""

from model.cost_facts import FACTS, Fact, fact_in
from model.cost_modules import layer_kinds
from model.cost_parameters import (
    EXPERTS,
    first_layer,
    layer_total,
    module_term,
    num_tensors,
    parameters,
    storage,
    weight_bytes,
)
from model.cost_sizes import Case
from model.cost_terms import Term, named, total

KIND_WORDS = {"kda": "KDA", "mla": "MLA", "dense": "dense", "moe": "MoE"}


@fact_in("parameters")
def text_parameters(case: Case) -> Term:
    """All parameters of the text model; vision is not counted."""
    layers = [
        named(f"{KIND_WORDS[mixer]} + {KIND_WORDS[ffn]} layers", len(members))
        * named(
            f"parameters of a {KIND_WORDS[mixer]} + {KIND_WORDS[ffn]} layer",
            layer_total(case.config, members[0]),
        )
        for (mixer, ffn), members in layer_kinds(case.config).items()
    ]
    return total([*layers, named("outside the layers", layer_total(case.config, None))])


@fact_in("parameters")
def active_parameters(case: Case) -> Term:
    """What one token multiplies: chosen experts and the rest, without the embedding table."""
    return active_parameters_with_embedding(case) - embedding_parameters(case).named("embedding")


@fact_in("parameters")
def active_parameters_with_embedding(case: Case) -> Term:
    """The same with the embedding table."""
    counted = parameters(case.config)
    idle = counted.total - counted.active_with_embedding
    return named("all parameters", counted.total) - named("experts not chosen", idle)


@fact_in("parameters")
def active_parameters_without_embedding_and_head(case: Case) -> Term:
    """The same with neither the embedding table nor the head."""
    table = embedding_parameters(case).named("embedding")
    return active_parameters_with_embedding(case) - table - table.named("head")


@fact_in("parameters")
def routed_parameters(case: Case) -> Term:
    """Parameters of all routed experts."""
    layers = named("MoE layers", case.config.feed_forwards.count("moe"))
    return layers * experts_parameters(case).named("routed experts of a layer")


@fact_in("parameters")
def embedding_parameters(case: Case) -> Term:
    """The embedding table; the head is as large."""
    return case.size("vocab") * case.size("d_model")


@fact_in("parameters")
def moe_active_parameters(case: Case) -> Term:
    """What one token multiplies in a mixture of experts."""
    experts, chosen = case.size("expert"), case.size("choice")
    whole = named("MoE block", moe_parameters(case).value)
    return whole - (experts - chosen) * expert_parameters(case).named("parameters of an expert")


def _module(path: str, *, mixer: str | None = None, feed_forward: str | None = None):
    def compute(case: Case) -> Term:
        layer = first_layer(case.config, mixer=mixer, feed_forward=feed_forward)
        return module_term(case.config, path, layer)

    return compute


kda_parameters = _module("self_attn", mixer="kda")
mla_parameters = _module("self_attn", mixer="mla")
dense_parameters = _module("mlp", feed_forward="dense")
moe_parameters = _module("block_sparse_moe", feed_forward="moe")
experts_parameters = _module(EXPERTS, feed_forward="moe")
expert_parameters = _module(f"{EXPERTS}.0", feed_forward="moe")
shared_parameters = _module("block_sparse_moe.shared_experts", feed_forward="moe")
router_parameters = _module("block_sparse_moe.gate", feed_forward="moe")

for name, means, compute in (
    ("kda_parameters", "One layer's Kimi Delta Attention.", kda_parameters),
    ("mla_parameters", "One layer's latent attention.", mla_parameters),
    ("dense_parameters", "One dense feed-forward.", dense_parameters),
    ("moe_parameters", "One mixture of experts, everything in it.", moe_parameters),
    ("experts_parameters", "All routed experts of one layer.", experts_parameters),
    ("expert_parameters", "One routed expert.", expert_parameters),
    ("shared_parameters", "The shared experts of one layer, as one MLP.", shared_parameters),
    ("router_parameters", "One router with its balance bias.", router_parameters),
):
    FACTS[name] = Fact(name, "parameters", means, compute)


@fact_in("parameters")
def latent_moe_parameters(case: Case) -> Term:
    """Projections into and out of the experts' latent, and its norm."""
    layer = first_layer(case.config, feed_forward="moe")
    if case.config.routed_expert_hidden_size is None:
        raise LookupError("This model's experts work on the full width, without a latent.")
    names = ["routed_expert_down_proj", "routed_expert_up_proj"]
    names += ["routed_expert_norm"] if case.config.latent_moe_use_norm else []
    return total(module_term(case.config, f"block_sparse_moe.{name}", layer) for name in names)


@fact_in("parameters")
def residual_parameters(case: Case) -> Term:
    """Two vectors for every mix; the first layer's unused one is in the checkpoint too."""
    case.residual_block()
    layers = named("layers", case.config.num_hidden_layers)
    return (4 * layers + 2) * case.size("d_model")


@fact_in("tensors")
def tensors(case: Case) -> Term:
    """Tensors of the text model in the released checkpoint."""
    return named("tensors", num_tensors(case.config))


@fact_in("bytes")
def weight_bytes_released(case: Case) -> Term:
    """Weights of the text model in the format they are released in."""
    formats = {
        "mxfp4": "routed experts in MXFP4, the rest in bfloat16, a few in float32",
        "fp8": "matrices in FP8 with a scale for each block, the rest in bfloat16",
        "bf16": "all in bfloat16, a few in float32",
    }
    return named(formats[storage(case.config)], weight_bytes(case.config))
