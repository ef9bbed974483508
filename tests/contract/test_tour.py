"""What the tour says of k3-mini, asked of the weights that are shipped."""

import numpy as np
import pytest

from annotations.loader import load_nodes
from annotations.tour import TOUR, stops
from app.state import selection
from model.load import load
from model.trace import run
from model.training.words import NUMBERS, OBJECTS, PLACES

STOPS = {stop.key: stop for stop in stops()}


@pytest.fixture(scope="module")
def lm():
    return load("k3-mini", device="cpu", dtype="float32")


class Seen:
    """The run of a stop, its prompt and what was written as one row of tokens."""

    def __init__(self, lm, stop):
        self.stop = stop
        self.trace = run(lm, stop.prompt, stop.new)
        self.words = [token.text.strip() for token in self.trace.tokens]
        self.answer = range(self.trace.prompt_length - 1, len(self.words) - 1)
        """Positions from which a token of the answer was expected."""

    def whole(self, tap):
        steps = [self.trace.array(tap, step) for step in range(self.trace.steps)]
        return np.concatenate(steps, axis=1)[0]

    def mixer(self, tap):
        return self.whole(f"layers.{self.stop.layer}.self_attn.{tap}")

    def chances(self):
        """`[pos, vocab]`"""
        logits = self.whole("logits").astype(np.float64)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def chance_of_what_came(self):
        found = self.chances()
        return [found[i, self.trace.token_ids[i + 1]] for i in self.answer]


LISTED = ["fox", "owl", "hen", "goat", "bee"]


def copies(seen):
    assert seen.words[seen.answer[0] + 1 :][:5] == LISTED
    assert min(seen.chance_of_what_came()[:5]) > 0.99


def reads_what_was_written(seen):
    first, second = (i for i, word in enumerate(seen.words) if word == "key")
    assert seen.answer[0] == second
    assert (seen.words[first + 1], seen.words[second + 1]) == ("77", "77")
    read = seen.mixer("read")[second, seen.stop.head]
    values = seen.mixer("v")[:, seen.stop.head]
    others = [i for i in range(first + 2, second) if seen.words[i].isdigit()]
    others += [i for i in range(first) if seen.words[i].isdigit()]
    assert len(others) == 5
    assert likeness(read, values[first + 1]) > 0.9
    assert max(likeness(read, values[i]) for i in others) < 0.1


def likeness(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def forgets_at_full_stops(seen):
    kept = np.exp(seen.mixer("log_decay"))[:, seen.stop.head].mean(-1)
    prompt = range(1, seen.trace.prompt_length)
    stops_ = [kept[i] for i in prompt if seen.words[i] == "."]
    words = [kept[i] for i in prompt if seen.words[i].isalpha()]
    names = [kept[i] for i in prompt if seen.words[i] in ("Mira", "Tom")]
    assert (len(stops_), len(names)) == (4, 5)
    assert max(abs(x - 0.5) for x in stops_) < 0.02
    assert min(words) > max(stops_) + 0.1
    assert min(names) > 0.88


def rests_on_one_word(seen):
    written = "".join(seen.words[seen.answer[0] + 1 : -1])
    assert written == ">)]}>])."
    asked = seen.words.index("close")
    name = f"layers.{seen.stop.layer}.self_attn.pattern"
    for step in range(7):
        assert seen.trace.array(name, step)[0, seen.stop.head, -1, asked] > 0.99


def prefers_places_and_things(seen):
    chosen = seen.whole(f"layers.{seen.stop.layer}.block_sparse_moe.gate.chosen")
    told = [i for i in range(1, len(chosen)) if seen.words[i] in (*PLACES, *OBJECTS)]
    others = [i for i in range(1, len(chosen)) if i not in told]
    assert [seen.words[i] for i in told] == ["kitchen", "barn", "key", "garden", "garden"]
    assert (chosen[told] == 5).any(-1).all()
    assert len(others) > 20
    assert (chosen[others] == 5).any(-1).mean() < 0.2


def reads_the_embedding(seen):
    weights = seen.whole(f"layers.{seen.stop.layer}.{seen.stop.at}.weights")
    listed = [i for i, word in enumerate(seen.words) if word in LISTED]
    assert len(listed) == 10
    assert min(weights[i, 0] for i in listed) > 0.9


def adds_with_certainty(seen):
    assert "".join(token.text for token in seen.trace.tokens if not token.special).endswith(
        "so 34 + 28 = 62."
    )
    assert min(seen.chance_of_what_came()) > 0.9


def ends_at_ninety_nine(seen):
    said = "".join(token.text for token in seen.trace.tokens if not token.special)
    assert said.endswith("and 7 + 5 + 1 = 9, so 72 + 58 = 90.")
    chances = dict(zip(seen.answer, seen.chance_of_what_came(), strict=True))
    of_nine = seen.words.index("9") - 1
    assert of_nine == seen.answer[0] + seen.stop.step
    assert chances[of_nine] > 0.9
    assert chances[seen.words.index("90") - 1] > 0.9
    assert "100" not in NUMBERS


CLAIMS = {
    "copy": copies,
    "memory": reads_what_was_written,
    "forgetting": forgets_at_full_stops,
    "anchor": rests_on_one_word,
    "expert": prefers_places_and_things,
    "embedding": reads_the_embedding,
    "sum": adds_with_certainty,
    "mistake": ends_at_ninety_nine,
}


def test_every_stop_has_a_claim_and_the_tour_is_of_a_readable_length():
    assert set(CLAIMS) == set(STOPS)
    assert 6 <= len(STOPS) <= 8


@pytest.mark.parametrize("key", STOPS)
def test_what_a_stop_says_is_so(lm, key):
    CLAIMS[key](Seen(lm, STOPS[key]))


@pytest.mark.parametrize("key", STOPS)
def test_the_address_of_a_stop_is_understood_and_its_node_exists(key):
    from urllib.parse import parse_qsl

    stop = STOPS[key]
    asked = selection(dict(parse_qsl(stop.address(1)[1:])))
    assert asked.notices == ()
    assert (asked.node, asked.layer, asked.head) == (stop.node, stop.layer, stop.head)
    assert (asked.prompt, asked.new, asked.source) == (stop.prompt, stop.new, "k3-mini")
    assert stop.node in load_nodes()


def test_a_stop_with_an_unknown_word_is_refused(monkeypatch, tmp_path):
    from annotations import tour

    odd = tmp_path / TOUR.name
    odd.write_text("[one]\ntitle = 'a'\nlook = 'b'\nprompt = 'c'\nnode = 'd'\nlayers = 3\n")
    monkeypatch.setattr(tour, "TOUR", odd)
    stops.cache_clear()
    with pytest.raises(ValueError, match="'one' has layers"):
        stops()
    odd.write_text("[one]\ntitle = 'a'\n")
    with pytest.raises(ValueError, match=r"'one'.*missing"):
        stops()
    stops.cache_clear()
