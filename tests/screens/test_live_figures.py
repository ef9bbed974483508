"""Plain data of the live figures: what is no number, what is masked, what is constant or empty."""

import base64

import numpy as np
import pytest

from app.figures.depth import Read, depth_figure
from app.figures.encode import spread, statistics
from app.figures.heat import Group, Panel, Rows, heat_figure, reduce_columns, window
from app.figures.live import Shown, Tokens, live_figure
from app.figures.matrix import matrix
from app.figures.numerals import power, share_of_scale
from app.figures.state import Step, decay_terms, state_figure, write_terms
from app.figures.surprise import most_likely, surprises
from app.figures.thumbs import SIDE, thumb

SHARED = {
    "node": "a/b",
    "layer": 0,
    "run": "0" * 12,
    "name": "x",
    "token": None,
    "ask_token": False,
    "tools": {"heads": 0, "head": None, "tokens": None, "token": None},
    "provenance": [],
}


def one_panel(values, **more):
    group = Group(name="feature", word="feature", size=values.shape[1])
    panel = Panel(symbol="x", values=values, groups=(group,), **more)
    rows = Rows(word="position", labels=tuple(map(str, range(values.shape[0]))))
    return heat_figure([panel], rows, **SHARED)["panels"][0]


def decoded(panel):
    return np.frombuffer(base64.b64decode(panel["values"]), dtype="<f4")


@pytest.mark.parametrize("size", [(5, 7), (128, 1024)])
def test_values_reach_the_browser_bit_for_bit(size):
    values = np.random.default_rng(0).normal(size=size).astype(np.float32)
    values.flat[:3] = np.nan, np.inf, -np.inf
    assert np.array_equal(decoded(one_panel(values)), values.ravel(), equal_nan=True)


def test_what_is_no_number_is_counted_and_left_out_of_the_statistics():
    values = np.array([[np.nan, np.inf, -np.inf, 1.0, 3.0]], dtype=np.float32)
    counted = statistics(values)
    assert (counted["nan"], counted["above"], counted["below"], counted["count"]) == (1, 1, 1, 2)
    assert (counted["min"], counted["max"], counted["mean"]) == (1.0, 3.0, 2.0)
    assert spread(values) == pytest.approx(3 * np.sqrt(5.0))


@pytest.mark.parametrize("fill", [np.nan, np.inf, 0.0, 2.5])
def test_a_tensor_of_one_value_everywhere_is_drawn(fill):
    panel = one_panel(np.full((3, 4), fill, dtype=np.float32))
    assert panel["constant"] == (fill if np.isfinite(fill) else None)
    assert np.isfinite(panel["bounds"]["this"])


def test_a_tensor_without_values_is_said_to_be_empty():
    panel = one_panel(np.zeros((0, 4), dtype=np.float32))
    assert panel["statistics"]["count"] == 0
    assert panel["constant"] is None


def test_cells_after_their_own_position_are_masked_and_not_counted():
    panel = one_panel(np.ones((3, 3), dtype=np.float32), causal_from=0)
    assert panel["statistics"]["masked"] == 3
    assert panel["statistics"]["count"] == 6


def test_a_long_run_is_shown_around_the_chosen_token():
    assert window(100, None) == (0, 100)
    assert window(2_000, None) == (1_872, 2_000)
    first, last = window(2_000, 700)
    assert last - first == 128
    assert first <= 700 < last


def test_reduced_columns_keep_the_value_of_largest_magnitude():
    values = np.array([[1.0, -5.0, 2.0, np.nan, 3.0]])
    small, factor = reduce_columns(values, most=3)
    assert factor == 2
    assert small[0, 0] == -5.0
    assert np.isnan(small[0, 1])


def test_the_state_is_shown_for_one_head_at_the_last_border():
    values = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    shown = matrix(values, ("border", "head", "d_value", "d_key"), head=1)
    assert np.array_equal(shown.values, values[1, 1])
    assert shown.held == (("border", 1), ("head", 1))


def test_a_head_that_is_not_there_is_answered_with_the_heads_that_are():
    with pytest.raises(LookupError, match="axis of 3"):
        matrix(np.zeros((2, 3, 4)), ("pos", "head", "d_key"), head=3)


def test_taps_with_equal_rows_share_one_picture():
    tokens = Tokens(labels=("a", "b", "c"), ids=(1, 2, 3), new_from=2)
    shown = [
        Shown(tap="A.k", symbol="k", stream="key", dims=("src", "d_qk"), values=np.ones((3, 6))),
        Shown(
            tap="A.v", symbol="v", stream="value", dims=("src", "d_value"), values=np.ones((3, 4))
        ),
        Shown(tap="A.w", symbol="w", stream="query", dims=("d_model",), values=np.ones(8)),
    ]
    first, second = live_figure(shown, tokens, None, **SHARED)
    assert [panel["symbol"] for panel in first["panels"]] == ["k", "v"]
    assert first["rows"]["labels"] == ["a", "b", "c"]
    assert [panel["symbol"] for panel in second["panels"]] == ["w"]


def test_equal_tokens_keep_a_row_each():
    tokens = Tokens(labels=("the", "cat", "the"), ids=(5, 6, 5), new_from=None)
    shown = [Shown(tap="A.x", symbol="x", stream="", dims=("pos", "d_model"), values=np.eye(3))]
    figure = live_figure(shown, tokens, None, **SHARED)[0]
    assert figure["rows"]["labels"] == ["the", "cat", "the"]


def test_weights_over_depth_put_the_running_sum_last_and_leave_absent_sources_empty():
    reads = [
        Read(layer=0, place="feed-forward", scores=np.zeros((2, 2)), weights=np.full((2, 2), 0.5)),
        Read(layer=1, place="attention", scores=np.zeros((2, 2)), weights=np.full((2, 2), 0.5)),
        Read(layer=None, place="output", scores=np.zeros((2, 3)), weights=np.full((2, 3), 1 / 3)),
    ]
    figure = depth_figure(reads, block=2, layers=2, chosen=2, tokens={}, **SHARED)
    assert [source["title"] for source in figure["sources"]] == [
        "embedding",
        "layers 0–1",
        "running sum",
    ]
    assert [read["has"] for read in figure["reads"]] == [
        [True, False, True],
        [True, False, True],
        [True, True, True],
    ]
    assert [read["seals"] for read in figure["reads"]] == [True, False, False]


def test_errors_stand_on_a_logarithmic_gauge():
    assert share_of_scale(1e-9) == 0
    assert share_of_scale(1e-6) == pytest.approx(0.5)
    assert share_of_scale(1.0) == share_of_scale(float("nan")) == 1
    assert power(3.1e-7) == "3.1\u2009·\u200910<sup>−7</sup>"
    assert power(0) == "0"


def test_surprise_is_the_negative_log_chance_of_the_token_that_came():
    logits = np.log(np.array([[0.5, 0.5], [0.25, 0.75], [0.1, 0.9]]))
    assert surprises(logits, np.array([0, 1, 0])) == pytest.approx(-np.log([0.5, 0.25]))
    assert most_likely(logits[1], 1) == [(1, pytest.approx(0.75))]


@pytest.mark.parametrize("shape", [(1, 1), (3, 500), (200, 7), (64, 64)])
def test_small_pictures_stay_small_and_keep_the_extremes(shape):
    values = np.zeros(shape)
    values[-1, -1] = -4.0
    made = thumb(values)
    codes = np.frombuffer(base64.b64decode(made["b64"]), dtype=np.uint8)
    assert made["w"] <= SIDE
    assert made["h"] <= SIDE
    assert codes.size == made["w"] * made["h"]
    assert codes.min() < 127


def test_a_reduced_picture_counts_its_columns_as_the_tensor_does():
    tokens = Tokens(labels=("a",), ids=(1,), new_from=None)
    shown = [Shown(tap="A.x", symbol="x", stream="", dims=("d_model",), values=np.ones(3_000))]
    figure = live_figure(shown, tokens, None, **SHARED)[0]
    panel = figure["panels"][0]
    assert panel["column_step"] == 3
    assert panel["columns"] * panel["column_step"] == 3_000
    assert "of every 3 columns" in figure["note"]


def test_the_terms_of_a_step_add_up_to_the_memory_after_it():
    draw = np.random.default_rng(3)
    before, log_decay, k, v = (draw.normal(size=shape) for shape in ((4, 3), 3, 3, 4))
    inputs = Step(before=before, log_decay=-np.abs(log_decay), k=k, v=v, beta=0.3)
    decayed = before * np.exp(inputs.log_decay)
    after = decayed + 0.3 * np.outer(v - decayed @ k, k)
    terms = write_terms(inputs, after)
    signs = {"": 1, "−": -1, "+": 1}
    assert sum(signs[t.sign] * t.values for t in terms[:-1]) == pytest.approx(after)
    kept = decay_terms(inputs, decayed)
    assert kept[0].values - kept[1].values == pytest.approx(kept[2].values)


def test_the_terms_of_a_step_share_one_scale_and_keep_their_signs():
    inputs = Step(before=np.eye(3), log_decay=np.zeros(3), k=np.ones(3), v=np.ones(3), beta=0.5)
    figure = state_figure(write_terms(inputs, np.eye(3)), **SHARED)
    assert figure["signs"] == ["", "−", "−", "+", "="]
    assert len({panel["bounds"]["this"] for panel in figure["panels"]}) == 1
    assert [panel["groups"][0]["title"] for panel in figure["panels"]][-1] == "S, after"


def cut_figure(values, tap="A.x", dims=("pos", "d_model")):
    names = tuple(map(str, range(len(values))))
    tokens = Tokens(labels=names, ids=tuple(range(len(values))), new_from=None)
    shown = [Shown(tap=tap, symbol="x", stream="", dims=dims, values=values)]
    return live_figure(shown, tokens, 0, **SHARED)[0]


def test_scale_and_statistics_are_of_the_whole_tensor_when_rows_and_columns_are_left_out():
    values = np.random.default_rng(1).normal(size=(300, 3_000)).astype(np.float32)
    values[299, 2_999] = 40.0
    figure = cut_figure(values)
    (panel,) = figure["panels"]
    assert decoded(panel).size == 128 * 1_000
    assert panel["statistics"] == statistics(values)
    assert panel["bounds"]["this"] == pytest.approx(3 * np.sqrt(np.square(values).mean()), rel=1e-6)
    assert "scale and statistics of the whole" in figure["note"]


def test_statistics_of_a_pattern_leave_out_what_is_masked_when_it_is_cut():
    pattern = np.tril(np.ones((200, 200), dtype=np.float32))
    pattern /= pattern.sum(1, keepdims=True)
    (panel,) = cut_figure(pattern, "KimiMLAAttention.pattern", ("pos", "src"))["panels"]
    assert panel["statistics"]["count"] == 200 * 201 // 2
    assert panel["statistics"]["masked"] == 200 * 199 // 2
    assert panel["statistics"]["min"] == pytest.approx(1 / 200)
