"""A stored run, read without torch: what `Trace.save` wrote, as NumPy arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from model.config import KimiConfig
from model.tokenizer import Token
from model.trace_format import about_run, keys_of
from model.trace_provenance import Provenance
from model.trace_select import Selection, select


@dataclass(kw_only=True)
class StoredRun:
    """Answers as a `Trace` does; what the file does not hold needs the model and is said so."""

    about: Mapping[str, Any]
    path: Path
    config: KimiConfig
    tokens: tuple[Token, ...]
    is_stored: bool = True
    model: None = None
    _arrays: Mapping[str, np.ndarray] = field(repr=False)

    def __getattr__(self, name: str) -> Any:
        about = self.__dict__.get("about", {})
        if name in about:
            return about[name]
        raise AttributeError(f"A stored run has no {name!r}.")

    @property
    def run_id(self) -> str:
        return self.about["run_id"]

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(self.about["token_ids"])

    @property
    def steps(self) -> int:
        return self.about["new_tokens"] + 1

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size

    @property
    def cache_by_step(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(**figures) for figures in self.about["cache_by_step"]]

    @property
    def cache_values(self) -> int:
        return self.cache_by_step[-1].values

    @property
    def cache_bytes(self) -> int:
        return self.cache_by_step[-1].bytes

    @property
    def cache_by_layer(self) -> tuple[tuple[str, int, int], ...]:
        return tuple(map(tuple, self.cache_by_step[-1].by_layer))

    def is_captured(self, name: str, step: int = 0) -> bool:
        return name in self.about["order"][step]

    def names(self, step: int | None = None) -> list[str]:
        steps = range(self.steps) if step is None else [step]
        held = {name for s in steps for name in self.about["order"][s]}
        return [name for name in self.about["taps"] if name in held]

    def dims(self, name: str, pos: Selection = None) -> tuple[str, ...]:
        if name not in self.about["taps"]:
            raise LookupError(f"Run {self.run_id} has no tap {name!r}.")
        return tuple(self.about["taps"][name]["dims"])

    def array(
        self, name: str, step: int = 0, pos: Selection = None, head: Selection = None
    ) -> np.ndarray:
        dims = self.dims(name)
        if not self.is_captured(name, step) or (pos is not None and "border" in dims):
            raise LookupError(self._absence(name, step))
        return select(name, self._arrays[f"{step}/{name}"], dims, pos, head)

    def provenance(self, name: str, step: int = 0, pos: Selection = None) -> Provenance:
        dims = self.dims(name)
        is_held = self.is_captured(name, step) and not (pos is not None and "border" in dims)
        return Provenance(
            kind="captured" if is_held else "not captured",
            tap=name,
            step=step,
            dims=dims,
            dtype=str(self._arrays[f"{step}/{name}"].dtype) if is_held else "",
            device=self.about["device"],
            path=self.about["kernel_path"],
            run_id=self.run_id,
            reason="" if is_held else self._absence(name, step),
        )

    def _absence(self, name: str, step: int) -> str:
        return f"The stored run does not hold {name} at step {step}; the model can compute it."


def open_stored(path: Path) -> StoredRun:
    """The run in a file of `Trace.save`; damage is answered in words."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no stored run {str(path)!r}; `make example` makes it.")
    try:
        with safe_open(path, framework="numpy") as file:
            about = about_run(path, file.metadata())
            keys_of(about, set(file.keys()), path)
        return StoredRun(
            about=about,
            path=path,
            config=KimiConfig.from_hf(about["config"]),
            tokens=tuple(Token(**token) for token in about["tokens"]),
            _arrays=load_file(path),
        )
    except (SafetensorError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is damaged ({error}). `make example` makes it.") from error
