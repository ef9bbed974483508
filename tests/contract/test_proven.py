"""Every equation on a page is computed again by an identity, or it is said why not."""

import tomllib
from pathlib import Path

import pytest

from annotations.loader import load_nodes
from annotations.outline import Entry, flat
from app.panels.proof import OF_THE_CACHE
from app.run_checks import taps_of
from model.identities.registry import IDENTITIES

UNPROVEN = tomllib.loads((Path(__file__).with_name("unproven.toml")).read_text(encoding="utf-8"))
NODES = load_nodes()
GIVEN = {tap for identity in IDENTITIES.values() for tap in taps_of(identity)}
OF_A_LAYER = ("layer_kinds", "every_part_ran")
"""What a layer is made of, which no tensor of a page says; they stand on the page of all proofs."""
MODELS = ("k3", "k2", "kimi-linear")


def inside(entry: Entry):
    for child in entry.children:
        yield child.node
        yield from inside(child)


PARTS: dict[str, set[str]] = {}
for model in MODELS:
    for entry in flat(model):
        PARTS.setdefault(entry.node, set()).update(inside(entry))


def is_proven(node_id: str) -> bool:
    node = NODES[node_id]
    if node.kind.startswith("state") and not node.taps:
        return set(OF_THE_CACHE) <= set(IDENTITIES)
    return not GIVEN.isdisjoint((*node.taps, *node.live))


@pytest.mark.parametrize("node_id", [name for name, node in NODES.items() if node.equation])
def test_an_equation_has_an_identity_or_a_listed_reason(node_id):
    # a part that gathers others is proven by what it gathers
    gathered = PARTS[node_id] and not NODES[node_id].taps
    proven = is_proven(node_id) or (gathered and any(map(is_proven, PARTS[node_id])))
    assert proven != (node_id in UNPROVEN)


def test_few_equations_are_without_an_identity_and_each_says_why():
    assert UNPROVEN.keys() <= NODES.keys()
    assert len(UNPROVEN) < 0.05 * len(NODES)
    assert all(len(reason) > 20 for reason in UNPROVEN.values())


@pytest.mark.parametrize("name", IDENTITIES)
def test_every_identity_stands_on_a_page(name):
    shown = {tap for node in NODES.values() for tap in (*node.taps, *node.live)}
    assert name in (*OF_THE_CACHE, *OF_A_LAYER) or not shown.isdisjoint(taps_of(IDENTITIES[name]))
