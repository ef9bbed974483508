"""A finished run: every tensor that was seen, and for each where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from model.cache import KimiCache, MLACache
from model.capture import Tap
from model.config import KimiConfig
from model.kda_chunk import SEGMENT
from model.kimi import KimiLM
from model.tokenizer import Token
from model.trace_absence import absence, unknown
from model.trace_file import write_trace
from model.trace_provenance import Kind, Provenance
from model.trace_recompute import AT_TOKENS, how_recomputed, is_recomputable, recompute
from model.trace_select import Selection, check_axes, select


@dataclass(frozen=True, slots=True)
class TapFacts:
    """What a tap declares, kept with the run so that a stored one needs no model."""

    dims: tuple[str, ...]
    owner: str
    """Class of the module that holds it."""
    width: str | None = None
    """The word behind `feature`, where the dims say `feature`."""


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """What the cache held after one step, measured from its tensors."""

    positions: int
    values: int
    bytes: int
    by_layer: tuple[tuple[str, int, int], ...]
    """Kind, values and bytes, a row a layer."""


def tap_facts(model: nn.Module) -> dict[str, TapFacts]:
    """Every tap of a model by full name, in the order in which modules hold them."""
    facts = {}
    for path, module in model.named_modules():
        for attribute, child in module.named_children():
            if isinstance(child, Tap):
                name = f"{path}.{attribute}" if path else attribute
                width = getattr(module, "width", None) if "feature" in child.dims else None
                facts[name] = TapFacts(child.dims, type(module).__name__, width)
    return facts


def cache_figures(cache: KimiCache) -> CacheFigures:
    return CacheFigures(
        positions=cache.positions,
        values=cache.values(),
        bytes=cache.bytes(),
        by_layer=tuple((kept.kind, kept.values(), kept.bytes()) for kept in cache.layers),
    )


@dataclass(kw_only=True)
class Trace:
    """One run of one model. Step 0 is the prompt; step s ≥ 1 feeds generated token s."""

    run_id: str
    source: str
    weights_note: str
    """What a reader must know of the weights, as that they are random; empty where nothing."""
    weights_hash: str
    config: KimiConfig
    prompt_length: int
    token_ids: tuple[int, ...]
    """Prompt and generated tokens."""
    tokens: tuple[Token, ...]
    new_tokens: int
    temperature: float
    seed: int
    mla: MLACache
    """What the MLA layers kept between calls."""
    dtype: str
    device: str
    kernel_path: str
    seconds: float
    step_seconds: tuple[float, ...]
    cache_by_step: tuple[CacheFigures, ...]
    taps: Mapping[str, TapFacts]
    left_out: Mapping[str, str]
    """Taps that were not to be recorded, and why."""
    notices: tuple[str, ...]
    tensors: tuple[Mapping[str, Tensor], ...] = field(repr=False)
    """A mapping of captured tensors for each step."""
    model: KimiLM | None = field(default=None, repr=False)
    """Absent from stored runs; needed only to re-compute what reads parameters."""
    is_stored: bool = False
    """Opened from a file, or made anew of such a run to re-compute what the file leaves out."""

    @property
    def steps(self) -> int:
        return self.new_tokens + 1

    @property
    def kernels(self) -> str:
        """`torch` or `triton`: the word with which `kernel_path` begins."""
        return self.kernel_path.partition(":")[0]

    @property
    def bytes(self) -> int:
        """Memory of the captured tensors; shared storage counts once."""
        storages = {
            (store := tensor.untyped_storage()).data_ptr(): store.nbytes()
            for step in self.tensors
            for tensor in step.values()
        }
        return sum(storages.values())

    @property
    def cache_values(self) -> int:
        return self.cache_by_step[-1].values

    @property
    def cache_bytes(self) -> int:
        return self.cache_by_step[-1].bytes

    @property
    def cache_by_layer(self) -> tuple[tuple[str, int, int], ...]:
        return self.cache_by_step[-1].by_layer

    def step_ids(self, step: int) -> list[int]:
        """The tokens that this step fed."""
        if self._checked(step) == 0:
            return list(self.token_ids[: self.prompt_length])
        return [self.token_ids[self.prompt_length + step - 1]]

    def step_length(self, step: int) -> int:
        return len(self.step_ids(step))

    def borders(self, length: int) -> list[int]:
        """Rows of a call after which the KDA state is held: each full segment, and the last."""
        return [*range(SEGMENT - 1, length - 1, SEGMENT), length - 1]

    def is_captured(self, name: str, step: int = 0) -> bool:
        return name in self.tensors[self._checked(step)]

    def names(self, step: int | None = None) -> list[str]:
        """What `array` answers, captured or re-computed: at one step, or at any."""
        steps = range(self.steps) if step is None else [self._checked(step)]
        return [name for name in self.taps if any(self._answers(name, s) for s in steps)]

    def tensor(self, name: str, step: int = 0) -> Tensor:
        """The captured tensor itself, in its own dtype."""
        self._check_name(name)
        if not self.is_captured(name, step):
            raise LookupError(absence(self, name, step))
        return self.tensors[step][name]

    def array(
        self, name: str, step: int = 0, pos: Selection = None, head: Selection = None
    ) -> np.ndarray:
        """The values with their batch axis, read-only; bfloat16 comes as float32.

        `pos` counts from the first token of the step. An index drops its axis, a slice or a list
        keeps it. A KDA `state` with a `pos` is the state after those tokens.
        """
        self._check_name(name)
        captured = self.is_captured(name, step) and not self._is_between_borders(name, pos)
        dims = self.dims(name, pos)
        check_axes(name, dims, pos, head)
        if captured:
            return select(name, as_numpy(self.tensors[step][name]), dims, pos, head)
        if is_recomputable(self, name, step):
            return recompute(self, name, step, pos, head)
        raise LookupError(absence(self, name, step))

    def dims(self, name: str, pos: Selection = None) -> tuple[str, ...]:
        """Axes of `array(name, pos=pos)` before an index drops one."""
        self._check_name(name)
        return AT_TOKENS if self._is_between_borders(name, pos) else self.taps[name].dims

    def provenance(self, name: str, step: int = 0, pos: Selection = None) -> Provenance:
        """How `array` comes by the value, or why it cannot."""
        self._check_name(name)
        kind: Kind = "not captured"
        dtype, reason = "", ""
        if self.is_captured(name, step) and not self._is_between_borders(name, pos):
            kind, dtype = "captured", dtype_word(self.tensors[step][name])
        elif is_recomputable(self, name, step):
            kind, reason = "recomputed", how_recomputed(self, name, step)
            dtype = "float64" if self.dtype == "float64" else "float32"
        else:
            reason = absence(self, name, step)
        return Provenance(
            kind=kind,
            tap=name,
            step=step,
            dims=self.dims(name, pos),
            dtype=dtype,
            device=self.device,
            path=self.kernel_path,
            run_id=self.run_id,
            reason=reason,
        )

    def save(self, path: str | Path) -> None:
        """Write everything but the model: safetensors, with the rest as JSON in its header."""
        write_trace(self, Path(path))

    def _answers(self, name: str, step: int) -> bool:
        return self.is_captured(name, step) or is_recomputable(self, name, step)

    def _is_between_borders(self, name: str, pos: Selection) -> bool:
        """Whether `pos` asks for states of a KDA memory at tokens."""
        return pos is not None and "border" in self.taps[name].dims

    def _checked(self, step: int) -> int:
        if not 0 <= step < self.steps:
            raise LookupError(
                f"Run {self.run_id} has no step {step}; steps are 0 to {self.new_tokens}."
            )
        return step

    def _check_name(self, name: str) -> None:
        if name not in self.taps:
            raise LookupError(unknown(self, name))


def as_numpy(tensor: Tensor) -> np.ndarray:
    """A read-only view where the dtype allows one; narrow floats are widened to float32."""
    tensor = tensor.detach().cpu()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    array = tensor.numpy()
    array.flags.writeable = False
    return array


def dtype_word(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
