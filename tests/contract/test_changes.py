"""What is told of a change: every part that changed says so, and no sentence types a number."""

import pytest

from annotations.binding import typed_numbers
from annotations.changes import PAIRS, changes, family_of, parse, texts
from annotations.loader import load_nodes
from annotations.node import MODELS, NodeError
from annotations.outline import flat
from annotations.prose import braces_left, links, placeholders
from app.reader.compare import Comparison
from app.reader.context import Reading
from model.cost import fact
from model.presets import preset

NODES = load_nodes()
TOLD = [
    (pair, node, change)
    for pair, told in changes().between.items()
    for node, change in told.items()
]
ONE = """
[families]
"All" = ["a"]

[[change]]
node = "a/b"
from = ["k2"]
to = ["k3"]
what = "It does."
why = "It must."
cost = "Nothing."
"""


def compared(pair):
    older, newer = pair
    return Comparison(Reading(older, NODES), Reading(newer, NODES))


@pytest.mark.parametrize("pair", PAIRS)
def test_every_change_is_told_and_nothing_else(pair):
    comparison = compared(pair)
    assert comparison.changes.keys() <= comparison.by_node.keys()
    for part in comparison.parts:
        told = comparison.changes.get(part.node)
        if part.standing == "changed":
            assert told, f"{pair}: {part.node} changed, and nobody says how"
            assert told.what, f"{pair}: {part.node} changed, and nobody says how"
        elif part.standing == "same":
            assert told is None, f"{pair}: {part.node} is the same, and a change is told"
        else:
            assert told or comparison.belongs_to(part), f"{pair}: nobody says why of {part.node}"
            assert not (told and told.what), f"{pair}: the page of {part.node} says what it is"


@pytest.mark.parametrize(("pair", "node", "change"), TOLD)
def test_a_change_is_told_in_sentences_whose_numbers_are_facts(pair, node, change):
    newer = {entry.node for entry in flat(pair[1])} | {node}
    for text in texts(change):
        assert text.endswith("."), text
        assert typed_numbers(text) == [], text
        assert braces_left(text) == (), text
        for found in placeholders(text):
            assert fact(found.name, preset(found.model or pair[1])) is not None
        for link in links(text):
            assert link.node in newer, f"{node} links to {link.node}, which {pair[1]} has not"


@pytest.mark.parametrize("model", MODELS)
def test_every_part_has_one_family(model):
    families = changes().families
    assert len(sum(families.values(), ())) == len(set(sum(families.values(), ())))
    for entry in flat(model):
        assert family_of(entry.node, families)


def test_pairs_are_all_and_the_older_model_stands_first():
    assert set(PAIRS) == {("k2", "kimi-linear"), ("k2", "k3"), ("kimi-linear", "k3")}


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('why = "It must."', "", "missing 1 required"),
        ('from = ["k2"]', 'from = ["k3"]', "no pair"),
        ('to = ["k3"]', "", "lists models"),
        ('cost = "Nothing."', 'cost = "Nothing."\nodd = 1', "odd"),
        ("\n[[change]]", ONE[ONE.index("\n[[change]]") :] + "\n[[change]]", "told twice"),
    ],
)
def test_a_faulty_change_is_named(old, new, word):
    with pytest.raises(NodeError, match=word):
        parse(ONE.replace(old, new, 1), "changes.toml")


def test_a_part_without_a_family_is_refused():
    with pytest.raises(LookupError, match="no family for x/y"):
        family_of("x/y", changes().families)
