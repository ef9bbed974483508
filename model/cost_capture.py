"""What taps hold: their shapes, when they fire, and the bytes that recording a run takes."""

import math
from collections.abc import Collection
from dataclasses import dataclass

from model import catalog
from model.config import KimiConfig
from model.cost_kept import BYTES, Kind
from model.cost_modules import LAYER
from model.dims import size
from model.in_kernel import taps_in_kernel

FLOAT32 = {
    "AttnResidual": {"keys", "query", "scores", "weights"},
    "KimiDeltaAttention": {
        *("q", "k", "v", "gate_logit", "log_decay", "retention", "beta"),
        *("decayed_state", "recalled", "written", "state"),
    },
    "KimiMLAAttention": {"angle"},
    "KimiMoEGate": {"logits", "scores", "scores_for_choice", "chosen_weight"},
    "KimiLM": {"logits"},
}
"""Taps of values that are float32, or wider, whatever the dtype of the model."""

INDICES = {"KimiMoEGate": {"chosen"}}

FROM_HEADS = {"kv_up", "k_content", "v", "k", "k_cached", "v_cached"}
"""Taps of latent attention that an absorbed decode step does not compute."""


def tap_shape(
    config: KimiConfig,
    tap: catalog.TapInfo,
    *,
    batch: int = 1,
    pos: int = 1,
    src: int | None = None,
    layer: int | None = None,
    at: str | None = None,
) -> tuple[int, ...]:
    """Sizes of a tap's axes in one call of `pos` rows; `src` positions are cached after it.

    `at` is the place of a class that has several; `layer` decides how many sources a mix reads.
    """
    place = _place(config, tap, layer, at)
    return _shape(config, tap, place, layer, batch, pos, pos if src is None else src)


def _shape(
    config: KimiConfig,
    tap: catalog.TapInfo,
    place: catalog.Instance,
    layer: int | None,
    batch: int,
    pos: int,
    src: int,
) -> tuple[int, ...]:
    borders = math.ceil(pos / catalog.constant("model.kda_chunk:SEGMENT"))
    sources = _sources(config, place.path, layer) if "source" in tap.dims else 1
    call = {"batch": batch, "pos": pos, "src": src, "source": sources, "border": borders}
    return tuple(
        call[word] if word in call else size(word, config, owner=tap.cls, width=place.feature)
        for word in tap.dims
    )


def _place(
    config: KimiConfig, tap: catalog.TapInfo, layer: int | None, at: str | None
) -> catalog.Instance:
    places = [
        place
        for place in catalog.places_of(config, tap.cls)
        if at in (None, place.path) and (place.layers is None or layer in (None, *place.layers))
    ]
    if not places:
        raise LookupError(f"{tap.name} stands nowhere in this model like that.")
    if "feature" in tap.dims and len({place.feature for place in places}) > 1:
        raise LookupError(f"{tap.name} has several widths; say at= one of its places.")
    if "source" in tap.dims and len(places) > 1:
        raise LookupError(f"{tap.name} reads differently many sources; say at= one of its places.")
    return places[0]


def _sources(config: KimiConfig, path: str, layer: int | None) -> int:
    """Sources of a mix, or entries of a layer's bank; 0 where nothing is read."""
    if path == "output_attn_res":
        return config.bank_size(config.num_hidden_layers - 1) + 1
    if layer is None:
        raise LookupError("How many sources there are depends on the layer; say layer=.")
    if path == LAYER:
        return config.bank_size(layer)
    if path == "mlp_res":
        return config.bank_size(layer) + 1
    return config.bank_size(layer - 1) + 1 if layer else 0


def fires(
    config: KimiConfig,
    tap: catalog.TapInfo,
    *,
    pos: int,
    past: int,
    layer: int | None = None,
    at: str | None = None,
    mla: Kind = "expanded",
    kernels: str = "torch",
) -> bool:
    """Whether a call of `pos` rows after `past` cached ones passes a tensor through the tap."""
    attribute = tap.attribute
    if kernels == "triton" and attribute in taps_in_kernel(tap.cls, pos):
        return False
    if tap.cls == "KimiDeltaAttention":
        return pos == 1 or attribute not in catalog.constant(
            "model.kda:KimiDeltaAttention.RECOMPUTED"
        )
    if tap.cls == "AttnResidual":
        return not (at == "self_attention_res" and layer == 0)
    if attribute == "bank":
        return config.attn_res_block_size is not None
    if attribute == "latent" and tap.cls == "KimiSparseMoE":
        return config.routed_expert_hidden_size is not None
    if tap.cls == "KimiMLAAttention":
        return _attention_fires(config, attribute, pos + past, past, mla)
    return True


def _attention_fires(config: KimiConfig, attribute: str, src: int, past: int, mla: Kind) -> bool:
    if attribute == "q_down":
        return config.q_lora_rank is not None
    if attribute in ("angle", "q_rotated", "k_rotated"):
        return not config.mla_use_nope
    if attribute in ("output_gate", "gated"):
        return config.mla_use_output_gate
    if attribute in ("latent_cached", "shared_cached"):
        return mla == "latent"
    if attribute in FROM_HEADS:
        return mla != "latent" or past == 0
    fused = catalog.constant("model.mla:KimiMLAAttention.FUSED_AWAY")
    return attribute not in fused or src <= catalog.constant("model.mla:EXPLICIT_KEYS")


def element_bytes(tap: catalog.TapInfo, dtype: str) -> int:
    if dtype not in BYTES:
        raise ValueError(f"Got the dtype {dtype!r}; sizes are known for {', '.join(BYTES)}.")
    if tap.attribute in INDICES.get(tap.cls, ()):
        return BYTES["int64"]
    wide = tap.attribute in FLOAT32.get(tap.cls, ())
    return max(BYTES[dtype], BYTES["float32"]) if wide else BYTES[dtype]


def capture_bytes_by_tap(
    config: KimiConfig,
    tokens: int,
    new_tokens: int = 0,
    *,
    dtype: str = "float32",
    names: Collection[str] | None = None,
    mla: Kind = "expanded",
    batch: int = 1,
    kernels: str = "torch",
) -> dict[str, int]:
    """Bytes of every tap's own tensors over all steps of a run, by full name.

    A tensor that two taps see is counted for each, as a saved run would hold it. What `kernels`
    are is said as in `lm.kernels`.
    """
    if tokens < 1 or new_tokens < 0:
        raise ValueError(
            f"Got {tokens} tokens and {new_tokens} new ones; a run has 1 and 0 or more."
        )
    found: dict[str, int] = {}
    for place in catalog.instances(config).values():
        for tap in catalog.taps_of(place.cls):
            known: dict[int | None, int] = {}
            for layer in place.layers if place.layers is not None else (None,):
                name = place.tap_path(tap.attribute, layer)
                if names is not None and name not in names:
                    continue
                # only what reads residual sources differs between layers of one place
                alike = layer if "source" in tap.dims or tap.cls == "AttnResidual" else -1
                if alike not in known:
                    run = _Run(config, tap, place, layer, tokens, new_tokens, batch, mla, kernels)
                    known[alike] = run.elements() * element_bytes(tap, dtype)
                if known[alike]:
                    found[name] = known[alike]
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    """One tap during a run: a prefill of `tokens`, then `new_tokens` single rows."""

    config: KimiConfig
    tap: catalog.TapInfo
    place: catalog.Instance
    layer: int | None
    tokens: int
    new_tokens: int
    batch: int
    mla: Kind
    kernels: str

    def elements(self) -> int:
        decode = range(self.tokens, self.tokens + self.new_tokens)
        if "src" not in self.tap.dims and self.new_tokens:
            # every step but the first holds equally much
            return self._step(self.tokens, 0) + self.new_tokens * self._step(1, self.tokens)
        return self._step(self.tokens, 0) + sum(self._step(1, past) for past in decode)

    def _step(self, pos: int, past: int) -> int:
        call = {"pos": pos, "past": past, "layer": self.layer, "at": self.place.path}
        if not fires(self.config, self.tap, mla=self.mla, kernels=self.kernels, **call):
            return 0
        shape = _shape(self.config, self.tap, self.place, self.layer, self.batch, pos, pos + past)
        return math.prod(shape)


def capture_bytes(
    config: KimiConfig,
    tokens: int,
    new_tokens: int = 0,
    dtype: str = "float32",
    names: Collection[str] | None = None,
    *,
    mla: Kind = "expanded",
    batch: int = 1,
) -> int:
    """Bytes of everything that a run records."""
    return sum(
        capture_bytes_by_tap(
            config, tokens, new_tokens, dtype=dtype, names=names, mla=mla, batch=batch
        ).values()
    )
