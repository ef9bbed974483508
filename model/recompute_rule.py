"""One value that a fast path does not hold: what it is computed from, and how."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from model.trace_data import Trace

NEVER_MIXES = "layers.0.self_attention_res"
"""Before the first layer no sum is sealed, so its mixer has nothing to choose from."""


@dataclass
class Request:
    """One value at some rows and heads of one step, and access to what it is computed from."""

    trace: "Trace"
    path: str
    attribute: str
    step: int
    rows: list[int]
    heads: list[int]

    def rows_of(self, name: str) -> np.ndarray:
        """The chosen rows of a neighbour `[batch, pos, …]`, or of a whole name, in float64."""
        return self.trace.array(source_name(self.trace, self.path, name), self.step)[
            :, self.rows
        ].astype(np.float64)

    def read(self, name: str, rows: bool = True) -> np.ndarray:
        """A neighbour `[batch, pos, head, …]` in float64, at the chosen heads."""
        values = self.trace.array(f"{self.path}.{name}", self.step)[:, :, self.heads]
        return (values[:, self.rows] if rows else values).astype(np.float64)

    def parameter(self, name: str) -> np.ndarray:
        """Of this module, in float64."""
        assert self.trace.model is not None
        return self.trace.model.get_parameter(f"{self.path}.{name}").double().cpu().numpy()

    def state_before(self, row: int) -> tuple[int, np.ndarray]:
        """The nearest state held before `row`, and the first row that it has not seen."""
        borders = self.trace.borders(self.trace.step_length(self.step))
        passed = [index for index, border in enumerate(borders) if border < row]
        if passed:
            held = self.trace.array(f"{self.path}.state", self.step)[:, passed[-1], self.heads]
            return borders[passed[-1]] + 1, held.astype(np.float64)
        if self.step:
            held = self.trace.array(f"{self.path}.state", self.step - 1)[:, -1, self.heads]
            return 0, held.astype(np.float64)
        k, v = self.read("k"), self.read("v")
        return 0, np.zeros((k.shape[0], len(self.heads), v.shape[-1], k.shape[-1]))


def small(_request: Request) -> int:
    return 0


@dataclass(frozen=True)
class Rule:
    """How one value is computed from what stands beside it."""

    reads: tuple[str, ...]
    compute: Callable[[Request], np.ndarray]
    bytes: Callable[[Request], int] = small
    needs_model: bool = False


def source_name(trace: "Trace", path: str, name: str) -> str:
    """The whole name of what a rule calls `name`; `^.` stands for the layer.

    Without a latent, experts read the normed stream. `bank` and `residual` of a mix are what the
    layer holds at its place.
    """
    layer, _, place = path.rpartition(".")
    if name == "latent" and trace.config.routed_expert_hidden_size is None:
        return f"{layer}.post_attention_layernorm.normed"
    if name.startswith("^."):
        return f"{layer}.{name.removeprefix('^.')}"
    if name not in ("bank", "residual"):
        return f"{path}.{name}"
    if place == "output_attn_res":
        last = f"layers.{trace.config.num_hidden_layers - 1}"
        return f"{last}.bank" if name == "bank" else f"{last}.residual_out"
    if place == "mlp_res":
        return f"{layer}.bank" if name == "bank" else f"{layer}.residual_mid"
    # read before the seal: the bank as the layer below left it
    below = int(layer.rpartition(".")[2]) - 1
    return f"layers.{below}.bank" if name == "bank" else f"{layer}.residual_in"
