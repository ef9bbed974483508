"""Where an address leads whose node the model does not have: to its new id, or what is nearest."""

from annotations.node import MODELS, for_model
from annotations.outline import OUTLINES, Entry, breadcrumb, flat, moved
from app.models import name_of
from app.reader.context import Reading
from app.reader.words import title

FAMILIES = {
    "attn_res": "block/add_mixer",
    "bank": "block/add_mixer",
    "kda": "mla/gated",
    "mla": "mla/gated",
}
"""What stands where another model has a family that this one lacks."""


def moved_on(reading: Reading) -> dict[str, dict[str, str]]:
    """Old node ids, each with the place that took its place in this model."""
    found = {}
    for old, (node, instance) in moved().items():
        places = [entry for entry in reading.entries if entry.node == node]
        entry = next((e for e in places if e.instance == instance), next(iter(places), None))
        if entry is not None:
            found[old] = _place(reading, entry)
    return found


def elsewhere(reading: Reading) -> dict[str, dict]:
    """Nodes that only other models have: who has them, and the nearest part here."""
    found: dict[str, dict] = {}
    mine = {entry.node for entry in reading.entries}
    for model in MODELS:
        if model == reading.family or not (OUTLINES / f"{model}.md").exists():
            continue
        for entry in flat(model):
            if entry.node not in reading.nodes or entry.node in mine:
                continue
            name = for_model(reading.nodes[entry.node], model).title
            known = found.setdefault(entry.node, {"title": name, "models": []})
            if name_of(model) not in known["models"]:
                known["models"].append(name_of(model))
            known.setdefault("near", _place(reading, nearest_here(reading, model, entry)))
    return found


def nearest_here(reading: Reading, model: str, wanted: Entry) -> Entry:
    """The part that comes nearest to another model's: of its name or kind, or what is around it."""
    node = reading.nodes[wanted.node]
    outer = wanted.instance.partition(".")[0]
    # layers of that kind are here: what stands around the part says more than its namesake
    known = bool(reading.layers_by_place.get(wanted.place)) and wanted.place != "all"
    beside = [e for e in reading.entries if e.instance.partition(".")[0] == outer]
    for entry in [] if known else beside:
        other = reading.node(entry)
        both_kept = other.kind == node.kind and node.kind.startswith("state")
        if other.title == node.title or both_kept:
            return entry
    names = [e.node for e in reversed(breadcrumb(model, wanted.node, wanted.instance)[1:-1])]
    for name in [*names, FAMILIES.get(wanted.node.partition("/")[0], "")]:
        for entry in reading.entries:
            if entry.node == name:
                return entry
    return reading.entries[0]


def _place(reading: Reading, entry: Entry) -> dict[str, str]:
    return {"node": entry.node, "at": entry.instance, "title": title(reading, entry)}
