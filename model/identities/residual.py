"""Equations of the residual stream: embedding, norms, mixes over depth, the sealed bank."""

import numpy as np

from model.identities.identity import NotHeldError, Pair, Place, identity, relation, softmax

_LATENT_NORMS = ("q_a_layernorm", "kv_a_layernorm")
_LATENT_EPS = 1e-6


def unit_rms(x: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


def _attribute(place: Place) -> str:
    return place.path.rpartition(".")[2]


def _layer(place: Place) -> int:
    if place.layer is None:
        raise NotHeldError(f"{place.path} is in no layer")
    return place.layer


def _last(place: Place, name: str) -> np.ndarray:
    return place(f"/layers.{place.config.num_hidden_layers - 1}.{name}")


def _outputs(place: Place, layer: int) -> tuple[np.ndarray, np.ndarray]:
    """What the mixer and the feed-forward of a layer add."""
    dense = place.config.feed_forwards[layer] == "dense"
    feed_forward = "mlp" if dense else "block_sparse_moe"
    return place(f"/layers.{layer}.self_attn.out"), place(f"/layers.{layer}.{feed_forward}.out")


@identity("KimiLM.embedding", "Each token takes its row of the table", reads="")
def embedding(place: Place) -> np.ndarray:
    return place.parameter("embed_tokens.weight")[place.trace.step_ids(place.step)][None]


@identity("KimiLM.logits", "The head scores every word", reads="norm.normed")
def logits(place: Place) -> np.ndarray:
    head = "embed_tokens.weight" if place.config.tie_word_embeddings else "lm_head.weight"
    return place.linear(place("norm.normed"), head)


@identity("RMSNorm.normed", "RMS norm", reads="raw")
def rms_norm(place: Place) -> np.ndarray:
    eps = _LATENT_EPS if _attribute(place) in _LATENT_NORMS else place.config.rms_norm_eps
    return place.parameter("weight") * unit_rms(place("raw"), eps)


@identity(
    "RMSNorm.raw",
    "A norm reads what stands before it",
    reads="^.self_attention_res.mixed ^.residual_in ^.mlp_res.mixed ^.residual_mid",
)
def norm_input(place: Place) -> np.ndarray:
    mixes = place.config.attn_res_block_size is not None
    match _attribute(place):
        case "input_layernorm":
            # layer 0 has no bank to read, so its first mix does not run
            read = mixes and place.layer != 0
            return place("^.self_attention_res.mixed" if read else "^.residual_in")
        case "post_attention_layernorm":
            return place("^.mlp_res.mixed" if mixes else "^.residual_mid")
        case "norm":
            return place("/output_attn_res.mixed") if mixes else _last(place, "residual_out")
        case "q_a_layernorm":
            return place("^.q_down")
        case "kv_a_layernorm":
            return place("^.kv_latent")
        case _:
            return place("^.combined")


@identity(
    "AttnResidual.sources",
    "Sources are the sealed blocks, then the running sum",
    reads="^.bank ^.residual_in ^.residual_mid",
)
def res_sources(place: Place) -> np.ndarray:
    if place.layer is None:
        bank, prefix = _last(place, "bank"), _last(place, "residual_out")
    elif _attribute(place) == "mlp_res":
        bank, prefix = place("^.bank"), place("^.residual_mid")
    else:
        # read before seal: the bank as the layer below left it
        bank, prefix = place(f"/layers.{place.layer - 1}.bank"), place("^.residual_in")
    return np.concatenate([bank, prefix[:, :, None]], axis=2)


@identity("AttnResidual.keys", "Keys have unit RMS", reads="sources")
def res_keys(place: Place) -> np.ndarray:
    return unit_rms(place("sources"), place.config.rms_norm_eps)


@identity("AttnResidual.query", "Two weights fold into one query", reads="")
def res_query(place: Place) -> np.ndarray:
    return place.parameter("norm.weight") * place.parameter("proj.weight")[0]


@identity("AttnResidual.scores", "A score a source", reads="keys query")
def res_scores(place: Place) -> np.ndarray:
    return place("keys") @ place("query")


@identity("AttnResidual.weights", "Softmax over depth", reads="scores")
def res_weights(place: Place) -> np.ndarray:
    return softmax(place("scores"))


@relation("AttnResidual", "Mixing weights sum to one", reads="weights")
def res_weights_sum(place: Place) -> Pair:
    total = place.captured("weights").sum(-1)
    return total, np.ones_like(total)


@identity(
    "AttnResidual.mixed",
    "The mix is a weighted sum of the raw sources",
    reads="weights sources",
)
def res_mixed(place: Place) -> np.ndarray:
    return (place("weights")[..., None] * place("sources")).sum(2)


@identity("KimiDecoderLayer.residual_in", "A layer receives the running sum", reads="/embedding")
def residual_in(place: Place) -> np.ndarray:
    below = _layer(place) - 1
    return place("/embedding") if below < 0 else place(f"/layers.{below}.residual_out")


@identity(
    "KimiDecoderLayer.bank",
    "The bank holds each sealed sum, one every block",
    reads="residual_in",
)
def bank(place: Place) -> np.ndarray:
    sealing = range(0, _layer(place) + 1, place.config.attn_res_block_size or 1)
    return np.stack([place(f"/layers.{i}.residual_in") for i in sealing], axis=2)


@identity(
    "KimiDecoderLayer.residual_mid",
    "The mixer adds to the sum, or starts it after a seal",
    reads="residual_in self_attn.out",
)
def residual_mid(place: Place) -> np.ndarray:
    layer, block = _layer(place), place.config.attn_res_block_size
    out, _ = _outputs(place, layer)
    return out if block and layer % block == 0 else place("residual_in") + out


@identity(
    "KimiDecoderLayer.residual_out",
    "The feed-forward adds to the sum",
    reads="residual_mid mlp.out block_sparse_moe.out",
)
def residual_out(place: Place) -> np.ndarray:
    _, out = _outputs(place, _layer(place))
    return place("residual_mid") + out


@relation(
    "KimiDecoderLayer",
    "The running sum is what this block's sub-layers put out",
    reads="residual_out self_attn.out mlp.out block_sparse_moe.out",
    wide=3e-2,
)
def block_sum(place: Place) -> Pair:
    layer, block = _layer(place), place.config.attn_res_block_size
    first = layer - layer % block if block else 0
    outputs = [part for i in range(first, layer + 1) for part in _outputs(place, i)]
    start = [] if block else [place("/embedding")]
    return place.captured("residual_out"), np.sum([*start, *outputs], axis=0)


@relation("KimiDecoderLayer", "A layer has the parts of its place in the pattern", reads="")
def layer_kinds(place: Place) -> Pair:
    """One for delta attention, one for experts; the first layers are dense."""
    layer, config = _layer(place), place.config
    parts = [f"layers.{layer}.self_attn.state", f"layers.{layer}.block_sparse_moe.out"]
    built = [float(part in place.trace.taps) for part in parts]
    sparse = layer >= config.first_k_dense_replace and layer % config.moe_layer_freq == 0
    return np.array(built), np.array([float(config.is_kda(layer)), float(sparse)])
