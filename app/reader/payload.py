"""Everything that the reader of one model is sent, as one message."""

import gzip
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from markupsafe import escape

from annotations.fetch import wanted
from annotations.loader import load_nodes
from annotations.node import MODELS, Node
from annotations.outline import Entry
from annotations.pins import local_path, pins
from app import sources
from app.models import config_of, long_name_of, name_of, readable
from app.reader.context import PlaceKey, Reading
from app.reader.cost_view import KeptView, kept_view, parameter_count
from app.reader.edges import edges
from app.reader.excerpts import Lines
from app.reader.kept import made_once
from app.reader.lead_on import elsewhere, moved_on
from app.reader.numbers import show_short
from app.reader.overview import Overview, graph_sizes, letter
from app.reader.pages import Page
from app.reader.search import searchable
from app.reader.tour import stations
from app.reader.words import title
from model.config import KimiConfig
from model.presets import pin

ROOT = Path(__file__).resolve().parents[2]
OTHERS_AFTER = 4.0
"""Seconds from a first page until the pages of the other models are made."""
_UNSAFE = re.compile(r"[^\w.-]+")
CURRENT = (
    ("annotations", "*.md"),
    ("annotations", "*.toml"),
    ("annotations", "*.py"),
    ("model", "*.py"),
    ("model/presets", "*.toml"),
    ("kernels", "*.py"),
    ("kernels/results", "*.json"),
    ("app/reader", "*.py"),
    ("app/templates", "*.j2"),
)


def payload(model: str) -> dict:
    """The reader's data for one model, as plain JSON types."""
    return json.loads(_whole(_body(_known(model), fingerprint()), _offer()))


def packed(model: str) -> bytes:
    """The same as the reader's mount "outline" takes it: a line with its hash, then gzip."""
    made_from = fingerprint()
    made = _packed(_known(model), made_from, _offer())
    _make_the_others_soon(made_from)
    return made


def _known(model: str) -> str:
    if model not in readable():
        raise LookupError(f"No model {model!r} can be read; there are {', '.join(readable())}.")
    return model


@lru_cache(maxsize=1)
def _make_the_others_soon(made_from: str) -> None:
    """A reader who changes the model should not wait while its pages are rendered."""

    def make() -> None:
        # a machine without a cache from `python -m app.reader` pays for it here
        for model in readable():
            # a source may have gone meanwhile
            with suppress(LookupError):
                _kept_body(model, made_from)

    later = threading.Timer(OTHERS_AFTER, make)
    later.daemon = True
    later.start()


@lru_cache(maxsize=16)
def _packed(model: str, made_from: str, offer: str) -> bytes:
    text = _whole(gzip.decompress(_kept_body(model, made_from)).decode(), offer).encode()
    digest = hashlib.sha256(text).hexdigest()[:12]
    # mtime=0, so that equal payloads are equal bytes
    return f"outline {digest}\n".encode() + gzip.compress(text, 6, mtime=0)


def _kept_body(model: str, made_from: str) -> bytes:
    """Everything of a model but what else there is, which changes more often."""
    told = f"{made_from} {config_of(model)!r}"
    name = f"{hashlib.sha256(told.encode()).hexdigest()[:24]}.gz"
    place = f"reader-{_UNSAFE.sub('-', model)}"
    return made_once(place, name, lambda: gzip.compress(_body(model, made_from).encode(), 6))


def _whole(body: str, offer: str) -> str:
    """Two objects of JSON as one."""
    return f"{offer[:-1]},{body[1:]}"


def _offer() -> str:
    """The models that can be read, and the layers of those that can run."""
    layers = {key: _layers(key, config_of(key)) for key in sources.at_hand()}
    offered = {"models": [_choice(model) for model in readable()], "sources": layers}
    return json.dumps(offered, ensure_ascii=False, separators=(",", ":"))


def _body(model: str, made_from: str) -> str:
    reading = Reading(model, nodes(made_from))
    return json.dumps(_assembled(reading), ensure_ascii=False, separators=(",", ":"))


def nodes(made_from: str) -> Mapping[str, Node]:
    """Every node as our files of this fingerprint state it; no node is made from upstream's."""
    return _stated(made_from.partition("-")[0])


@lru_cache(maxsize=2)
def _stated(ours: str) -> Mapping[str, Node]:
    return load_nodes()


def current_nodes() -> Mapping[str, Node]:
    """Every node as its file stands now, read once."""
    return nodes(fingerprint())


def fingerprint() -> str:
    """Changes when any file changes that a page is made from: `ours-upstream`.

    Files are looked at once a second at most: a rerun asks several times.
    """
    return _fingerprint_at(int(time.monotonic()))


@lru_cache(maxsize=1)
def _fingerprint_at(second: int) -> str:
    ours = _stamp(path for part, glob in CURRENT for path in (ROOT / part).rglob(glob))
    return f"{ours}-{_stamp(_upstream(_stated(ours)))}"


def _upstream(stated: Mapping[str, Node]) -> Iterator[Path]:
    """The pinned files that nodes cite and that are here; caches hold much besides."""
    for name, path in wanted(stated):
        if (file := local_path(pins()[name], path)) is not None:
            yield file


def _stamp(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        # an editor or a download may have moved it meanwhile
        with suppress(FileNotFoundError):
            seen = path.stat()
            digest.update(f"{path}:{seen.st_mtime_ns}:{seen.st_size}\n".encode())
    return digest.hexdigest()


def _assembled(reading: Reading) -> dict:
    lines = Lines()
    into, out = edges(reading)
    pages = {key: Page(reading, entry, lines) for key, entry in reading.by_place.items()}
    view = kept_view(reading)
    return {
        "model": reading.model,
        "name": long_name_of(reading.model),
        "max": reading.config.max_position_embeddings,
        "layers": _layers(reading.model, reading.config),
        "marks": [{"at": c.at, "stream": c.stream, "means": c.means} for c in view.crossings],
        "chart": _chart(view),
        "sizes": graph_sizes(reading),
        "outline": [_line(reading, pages, e) for e in reading.tree if e.node in reading.nodes],
        "nodes": _nodes(reading, pages, into, out),
        "lines": lines.kept,
        "search": searchable(reading, pages),
        "moved": moved_on(reading),
        "elsewhere": elsewhere(reading),
        "overview": Overview(reading).html(),
        "tour": [asdict(station) for station in stations(reading)],
        "foot": _foot(reading),
    }


def _choice(model: str) -> dict:
    """A line of the model picker; `loaded` are sizes of what runs here."""
    return {"id": model, "name": name_of(model), "loaded": model not in MODELS}


def _layers(name: str, config: KimiConfig) -> dict:
    return {
        "name": name_of(name),
        "mixers": "".join(letter(mixer) for mixer in config.mixers),
        "feeds": "".join(letter(feed) for feed in config.feed_forwards),
        "block": config.attn_res_block_size,
    }


def _chart(view: KeptView) -> dict:
    rows = [
        {"name": r.short, "stream": r.stream, "dash": r.dash, "f": r.values.decode}
        for r in view.rows
    ]
    crossings = [{"at": c.at, "stream": c.stream, "value": c.value} for c in view.crossings]
    return {"lines": rows, "crossings": crossings}


def _line(reading: Reading, pages: Mapping[PlaceKey, Page], entry: Entry) -> dict:
    node = reading.node(entry)
    # all layers together are a number of the model, not of a part
    count = 0 if _holds_layers(entry) else parameter_count(reading, entry)
    state = node.kind.startswith("state")
    page = pages.get((entry.node, entry.instance))
    return {
        "node": entry.node,
        "at": entry.instance,
        "title": title(reading, entry),
        "right": "state" if state else show_short(count) if count else "",
        "stream": page.stream if page and node.kind != "norm" else "",
        "kind": node.kind,
        "place": entry.place,
        "children": [_line(reading, pages, e) for e in entry.children if e.node in reading.nodes],
    }


def _holds_layers(entry: Entry) -> bool:
    return entry.place == "all" and bool(entry.children) and not entry.instance


def _nodes(
    reading: Reading,
    pages: Mapping[PlaceKey, Page],
    into: Mapping[PlaceKey, list[dict]],
    out: Mapping[PlaceKey, list[dict]],
) -> dict:
    order = list(reading.by_place.values())
    found: dict[str, dict] = {}
    for at, entry in enumerate(order):
        key = (entry.node, entry.instance)
        page = pages[key]
        body = page.body()
        node = found.setdefault(
            entry.node, {"title": page.title, "first": entry.instance, "pages": {}}
        )
        first = node["pages"].get(node["first"])
        made = {
            "title": page.title,
            "where": page.where,
            "occurs": page.occurs,
            "stream": page.stream,
            "seals": entry.node.startswith("attn_res/"),
            "head": page.head(),
            "from": into.get(key, []),
            "to": out.get(key, []),
            "taps": list(page.node.live or page.node.taps),
            "around": [_beside(reading, order, at - 1), _beside(reading, order, at + 1)],
        }
        # a body that repeats the first place's is not sent twice
        if first is None or body != first["body"]:
            made["body"] = body
        node["pages"][entry.instance] = made
    return found


def _beside(reading: Reading, order: list[Entry], at: int) -> dict | None:
    if not 0 <= at < len(order):
        return None
    entry = order[at]
    return {"node": entry.node, "at": entry.instance, "title": title(reading, entry)}


def _foot(reading: Reading) -> str:
    if not reading.is_released:
        return (
            f"Sizes are those of {escape(reading.name)}, as it runs here, from its own "
            "<code>config.json</code>. Words and upstream lines are "
            f"{escape(name_of(reading.family))}’s."
        )
    stated = pin(reading.model)
    repo, _, revision = stated.rpartition("@") if stated else ("", "", pins()[reading.model].commit)
    where = "<code>config.json</code>"
    if repo.startswith("huggingface/transformers"):
        where = f"the configuration class in {escape(repo)}"
    return (
        f"Sizes are {escape(reading.name)}’s, from {where} at "
        f"<code>{escape(revision[:12])}</code>. Weights of released models are not loaded here."
    )
