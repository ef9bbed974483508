"""One question of cost: a model, a batch and a context, with every size as a named term."""

from dataclasses import dataclass
from typing import Literal

from model.config import KimiConfig
from model.cost_modules import require_known_kinds
from model.cost_terms import Term, named, term
from model.dims import size

Phase = Literal["prefill", "decode"]

MIXER_OWNER = {"kda": "KimiDeltaAttention", "mla": "KimiMLAAttention"}

PHRASES = {
    "batch": "batch",
    "pos": "positions",
    "src": "cached positions",
    "d_model": "hidden width",
    "head": "heads",
    "d_key": "key width",
    "d_value": "value width",
    "d_nope": "content width",
    "d_shared": "shared width",
    "d_qk": "key width",
    "d_q_latent": "query latent",
    "d_kv_latent": "latent width",
    "d_kv_joint": "(latent + shared) width",
    "d_kv_up": "(content + value) width",
    "d_inner": "inner width",
    "d_gate_latent": "gate latent",
    "lag": "convolution columns",
    "expert": "experts",
    "choice": "chosen experts",
    "d_expert": "expert width",
    "d_moe_latent": "expert input width",
    "d_dense": "dense width",
    "d_shared_expert": "shared expert width",
    "vocab": "vocabulary",
    "source": "sources",
}
"""What a dims word is called inside a formula."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    config: KimiConfig
    batch: int = 1
    positions: int = 4096
    """Positions in the cache after the call."""
    phase: Phase = "decode"
    layer: int | None = None
    """The 0-based layer that the question is about, where it matters."""

    def __post_init__(self) -> None:
        require_known_kinds(self.config)
        if self.batch < 0 or self.positions < 0:
            raise ValueError(
                f"Got batch {self.batch} and {self.positions} positions; neither can be negative."
            )
        if self.phase not in ("prefill", "decode"):
            raise ValueError(f"Got phase {self.phase!r}; it is 'prefill' or 'decode'.")

    def size(self, word: str, owner: str | None = None) -> Term:
        """The size of one axis, called by its phrase."""
        if word.isdecimal():
            return term(int(word))
        if word == "batch":
            return named("batch", self.batch)
        if word == "pos":
            return self.queries
        if word == "src":
            return self.context
        return named(PHRASES[word], size(word, self.config, owner=owner))

    def axis(self, axis: str, owner: str | None = None) -> Term:
        """`head*d_qk` and the like: sizes multiplied into one axis."""
        first, *rest = (self.size(word, owner) for word in axis.split("*"))
        for factor in rest:
            first = first * factor
        return first

    def mla(self, word: str) -> Term:
        return self.size(word, MIXER_OWNER["mla"])

    def kda(self, word: str) -> Term:
        self.need("kda")
        return self.size(word, MIXER_OWNER["kda"])

    @property
    def queries(self) -> Term:
        """Positions of this call."""
        return named("positions", self.positions) if self.phase == "prefill" else term(1)

    @property
    def context(self) -> Term:
        """Positions in the cache after this call."""
        return named("cached positions", self.positions)

    @property
    def tokens(self) -> Term:
        """Token rows that a projection multiplies in this call."""
        batch = self.size("batch")
        return batch * self.queries if self.phase == "prefill" else batch

    def count(self, mixer: str) -> int:
        return sum(kind == mixer for kind in self.config.mixers)

    def layers(self, mixer: str) -> Term:
        self.need(mixer)
        words = {"kda": "KDA layers", "mla": "MLA layers"}
        return named(words[mixer], self.count(mixer))

    def need(self, mixer: str) -> None:
        """Refuse a question about a part that the model lacks."""
        if not self.count(mixer):
            names = {"kda": "Kimi Delta Attention", "mla": "latent attention"}
            raise LookupError(f"This model has no layer with {names[mixer]}.")

    def residual_block(self) -> Term:
        """Layers of one block of attention residuals."""
        if self.config.attn_res_block_size is None:
            raise LookupError("This model has plain residuals, without blocks or sources.")
        return named("layers of a block", self.config.attn_res_block_size)

    def this_layer(self) -> Term:
        if self.layer is None:
            raise LookupError("This number differs between layers; ask for one with layer=.")
        if not 0 <= self.layer < self.config.num_hidden_layers:
            last = self.config.num_hidden_layers - 1
            raise LookupError(f"There is no layer {self.layer}; layers are 0 to {last}.")
        return named("layer", self.layer)
