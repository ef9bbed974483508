"""The models that can run here: what comes with the program, and what the operator names."""

import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from model.checkpoint import checkpoint_folder, read_config
from model.config import KimiConfig
from model.config_part import first_layers
from model.presets import PRESETS, RELEASED, preset
from model.shipped import folder_of, weights_note

BUILT_IN = ("k3-mini", "tiny-k2", "tiny-kimi-linear")
NAMED = "KIMISCOPE_SOURCES"
"""Environment variable: folders, Hub ids and small presets, separated by commas.

With `#4` behind it, a checkpoint is loaded as far as its fourth layer.
"""
ASK_AGAIN = 60.0
"""Seconds after which a configuration that could not be read is asked for again."""
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_PART = re.compile(r"(.+)#(\d+)")
"""`folder#4`: its first four layers."""
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A model that may be asked for by its key."""

    key: str
    """What stands in addresses and on the page; never a path of the server."""
    where: str
    """What `model.load.load` is given: a preset's name, a folder or a Hub id."""
    kind: Literal["built in", "folder", "Hub", "unknown"]
    layers: int | None = None
    """How many of the first layers are loaded; None for all."""

    @property
    def words(self) -> str:
        """How a list calls it."""
        if self.kind == "built in":
            return ", ".join(filter(None, (self.key, weights_note(self.key))))
        return f"{self.key}, {self.kind_words}"

    @property
    def kind_words(self) -> str:
        """Where it comes from, and how much of it is loaded."""
        kinds = {"built in": "built in", "folder": "a folder", "Hub": "from the Hub"}
        part = "" if self.layers is None else f", first {self.layers} layers"
        return f"{kinds.get(self.kind, 'not found')}{part}"


def sources() -> Mapping[str, Source]:
    """By key, those that come with the program first."""
    return _sources(os.environ.get(NAMED, ""))


@lru_cache(maxsize=4)
def _sources(named: str) -> Mapping[str, Source]:
    found = {name: Source(key=name, where=name, kind="built in") for name in BUILT_IN}
    for asked in filter(None, (part.strip() for part in named.split(","))):
        source = _named(asked, found)
        if all((s.where, s.layers) != (source.where, source.layers) for s in found.values()):
            found[source.key] = source
    return found


def _named(asked: str, taken: Mapping[str, Source]) -> Source:
    """A source of the operator's; a folder whose name is taken gets a number behind it."""
    part = _PART.fullmatch(asked)
    where, layers = (part[1], int(part[2])) if part else (asked, None)
    if where in PRESETS and where not in RELEASED:
        return Source(key=where, where=where, kind="built in")
    if Path(where).is_dir():
        kind, stem = "folder", _UNSAFE.sub("-", Path(where).resolve().name) or "folder"
    elif _HUB_ID.fullmatch(where):
        kind, stem = "Hub", where
    else:
        kind, stem = "unknown", _UNSAFE.sub("-", Path(where).name) or "unknown"
    if layers is not None:
        stem = f"{stem}-first-{layers}"
    key, number = stem, 2
    while key in taken or key in PRESETS:
        key, number = f"{stem}-{number}", number + 1
    return Source(key=key, where=where, kind=kind, layers=layers)


def source_of(key: str) -> Source:
    """The source of a key; LookupError where none has it."""
    if (source := sources().get(key)) is None:
        raise LookupError(f"No model {key!r} runs here; there are {', '.join(sources())}.")
    return source


def config_of(key: str) -> KimiConfig:
    """The configuration of a source, read without its weights and without torch.

    Raises LookupError with a sentence where there is none, or it cannot be built.
    """
    source = source_of(key)
    if source.kind == "built in":
        return preset(source.where)
    # one reader at a time asks the Hub for it; the others who want this one find the answer
    with _reading.setdefault(source, threading.Lock()):
        found = _found.get(source)
        if found is None or (found.fault and time.monotonic() > found.until):
            fault, config = _read(source)
            found = _found[source] = _Found(fault, config, time.monotonic() + ASK_AGAIN)
    if found.config is None:
        raise LookupError(found.fault)
    return found.config


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of reading a configuration."""

    fault: str
    config: KimiConfig | None
    until: float
    """How long a fault is believed."""


_reading: dict[Source, threading.Lock] = {}
_found: dict[Source, _Found] = {}


def _read(source: Source) -> tuple[str, KimiConfig | None]:
    try:
        whole = KimiConfig.from_hf(read_config(checkpoint_folder(source.where, ["config.json"])))
        return "", first_layers(whole, None if source.layers is None else range(source.layers))
    except (LookupError, ValueError, OSError) as error:
        return for_readers(str(error.args[0] if error.args else error), source), None


def fault_of(key: str) -> str:
    """Why a source has no configuration; empty where it has one."""
    try:
        config_of(key)
    except LookupError as fault:
        return str(fault.args[0])
    return ""


def for_readers(sentence: str, source: Source | None = None) -> str:
    """A sentence of an error, without the places where the server keeps its files."""
    if source is not None and source.kind in ("folder", "unknown"):
        for path in (source.where, str(Path(source.where).resolve())):
            sentence = sentence.replace(path, source.key)
    for place in (os.environ.get("HF_HUB_CACHE"), os.environ.get("HF_HOME"), str(Path.home())):
        if place and place != "/":
            hidden = rf"{re.escape(place)}(/[\w.-]+)*"
            sentence = re.sub(hidden, "a folder of the server", sentence)
    return sentence


def checkpoint_of(key: str) -> Path | None:
    """The folder on this machine that holds a source's files; None where there is none yet."""
    source = source_of(key)
    if source.kind == "built in":
        return folder_of(source.where)
    return Path(source.where) if source.kind == "folder" else None


def at_hand() -> tuple[str, ...]:
    """Sources whose configuration is known or can be read at once, without asking the Hub."""
    found = []
    for key, source in sources().items():
        if source.kind == "Hub":
            known = _found.get(source)
            is_known = known is not None and known.config is not None
        else:
            is_known = not fault_of(key)
        if is_known:
            found.append(key)
    return tuple(found)
