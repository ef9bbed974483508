"""The bridge carries little, and says so when it is given much."""

import numpy as np
import pytest

from annotations.loader import load_nodes
from annotations.outline import flat
from app.components.bridge import LARGEST, bridge
from app.figures.thumbs import SIDE
from app.panels.live_data import spot_of
from app.panels.run_news import LARGEST_LABEL, MOST_TOKENS, run_news, short
from app.place import place_of
from app.state import Selection
from model.presets import preset
from model.tokenizer import Token
from model.trace_provenance import Provenance

KEY = "\U0001f511"


class LargestRun:
    """A run in which everything that is told of it is as large as it may be."""

    run_id = "f" * 64
    source = weights_note = dtype = device = "n" * 256
    config = preset("k3")
    prompt_length = 2 * MOST_TOKENS
    steps = 1
    tokens = (Token(163_839, KEY * 64, KEY * 64, special=False),) * prompt_length

    def is_captured(self, name, step=0):
        return True

    def dims(self, name):
        return ("batch", "pos", "d_model")

    def array(self, name, step=0, pos=None, head=None):
        return np.full((1, SIDE, SIDE), -1.2345678e15)

    def provenance(self, name, step=0, pos=None):
        return Provenance(
            kind="captured",
            tap=name,
            step=step,
            dims=self.dims(name),
            dtype="float32",
            device="cpu",
            path="",
            run_id=self.run_id,
        )


def test_a_message_of_usual_size_passes():
    bridge(run={"run": "7f3a91", "thumbs": {}}, url={"layer": 3, "head": None})


def test_a_message_that_is_too_large_is_refused_with_its_size():
    with pytest.raises(ValueError, match="carries up to 100,000 bytes and was given 100,0"):
        bridge(run={"thumbs": "x" * LARGEST})


def test_the_largest_news_of_a_run_passes():
    nodes, run = load_nodes(), LargestRun()
    for entry in flat("k3"):
        selection = Selection(node=entry.node, at=entry.instance or None)
        place = place_of(selection, nodes, run.config)
        spot = spot_of(place.node, place.entry.instance or None, place.layer, selection, run)
        news = run_news(spot, run, nodes, ())
        bridge(run=news, url={"run": run.run_id})
        assert len(news["tokens"]) == MOST_TOKENS
        assert len(news["overlays"]["norm"]["values"]) == run.config.num_hidden_layers


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("attention", "attention"),
        ("␣" * 15, "␣" * 15),
        ("␣" * 40, "␣" * 14 + "…"),
        ("a" * 25, "a" * 23 + "…"),
        (KEY * 40, KEY * 7 + "…"),
        ("…" * 40, "…" * 15),
    ],
)
def test_the_label_of_a_token_is_cut_where_it_is_long_or_large(label, shown):
    assert short(label) == shown


@pytest.mark.parametrize("character", ["a", '"', "␣", KEY, "\x7f"])
def test_no_label_is_larger_than_the_bridge_has_room_for(character):
    assert all(len(ascii(short(character * n))) <= LARGEST_LABEL for n in range(1, 200))
