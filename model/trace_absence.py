"""Why a value is not there, in words that say what to do."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from model.in_kernel import taps_in_kernel
from model.recompute_rule import NEVER_MIXES
from model.trace_recompute import how_recomputed, is_recomputable

if TYPE_CHECKING:
    from model.trace_data import Trace

_GROWN = ("kv_up", "k_content", "v", "k", "k_cached", "v_cached")
_LATENTS = ("latent_cached", "shared_cached")
_ROTATED = ("angle", "q_rotated", "k_rotated")
_CHUNKED = ("retention", "decayed_state", "recalled")
_FUSED = ("scores", "masked", "pattern")
_SKIPPED = "the layer did not compute it"


def unknown(trace: "Trace", name: str) -> str:
    """A sentence about a name that no tap of the model has."""
    layer_and_rest = name.split(".", 2)
    said = f"{trace.source} has no tap {name!r}."
    if layer_and_rest[0] == "layers" and len(layer_and_rest) == 3:
        _, layer, rest = layer_and_rest
        if not layer.isdecimal() or int(layer) >= trace.config.num_hidden_layers:
            return f"{said} Layers are 0 to {trace.config.num_hidden_layers - 1}."
        holders = [tap.split(".")[1] for tap in trace.taps if tap.split(".", 2)[-1] == rest]
        if holders and rest != name:
            kind = trace.config.mixers[int(layer)]
            return f"{said} Layer {layer} is {kind}; layers {', '.join(holders)} have it."
    near = get_close_matches(name, trace.taps, n=1)
    return f"{said} The nearest is {near[0]!r}." if near else f"{said} names() lists what there is."


def absence(trace: "Trace", name: str, step: int) -> str:
    """The reason that a tap of the model gave nothing at this step."""
    if name in trace.left_out:
        return f"{name} is not captured: {trace.left_out[name]}."
    if is_recomputable(trace, name, step):
        how = how_recomputed(trace, name, step)
        return f"{name} is not captured at step {step}: it is {how}."
    return f"{name} is not captured at step {step}: {_why_it_did_not_fire(trace, name, step)}."


def is_unexplained(trace: "Trace", name: str, step: int) -> bool:
    """Whether a tap was to be captured, and nothing in this model's form says why it was not."""
    return name not in trace.left_out and _why_it_did_not_fire(trace, name, step) == _SKIPPED


def _why_it_did_not_fire(trace: "Trace", name: str, step: int) -> str:
    path, _, attribute = name.rpartition(".")
    owner, config = trace.taps[name].owner, trace.config
    if path == NEVER_MIXES:
        return "layer 0 has no sealed sum to read, so this mix does not run"
    if owner == "KimiMLAAttention":
        if attribute in _LATENTS and trace.mla == "expanded":
            return "this run kept expanded keys and values, not latents"
        if attribute in _GROWN and trace.mla == "latent" and step:
            return "absorbed decode reads the latents and never grows keys and values"
        if attribute in ("output_gate", "gated") and not config.mla_use_output_gate:
            return "this model has no output gate here"
        if attribute in _ROTATED and config.mla_use_nope:
            return "this model gives attention no positions, so nothing is rotated"
        if attribute == "q_down" and config.q_lora_rank is None:
            return "this model projects its queries directly, without a latent"
        if attribute in _FUSED:
            return "the attention was fused, and q or k_cached was not kept to re-compute it"
    if trace.kernels == "triton" and attribute in taps_in_kernel(owner, trace.step_length(step)):
        return "it stays inside a Triton kernel, and what would re-compute it was not kept"
    if attribute == "bank" and config.attn_res_block_size is None:
        return "the residuals of this model are plain, so no sum is sealed"
    if owner == "KimiDeltaAttention" and attribute in _CHUNKED:
        return "prefill works in chunks, and what would re-compute it was not kept"
    if owner == "KimiSparseMoE" and attribute == "latent":
        return "the routed experts of this model read the full width, without a latent"
    return _SKIPPED
