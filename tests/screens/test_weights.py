"""The page of weights: a checkpoint is opened, listed, read within a bound, or refused in words."""

import json
import math
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file
from streamlit.testing.v1 import AppTest

from app import looks, microscope, sources
from app.figures.mosaic import LONGEST_ROW, MOST_COLUMNS, MOST_ROWS, mosaic
from app.figures.weights import falling, heights, map_figure, mosaic_figure, rank_of
from app.looks import Look
from app.microscope import Microscope
from app.panels.html import render
from app.panels.weights_ask import size, so_far, too_late
from app.state import selection
from model.load import build, upstream_state

SCRIPT = Path(__file__).with_name("weights_page.py")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A small K3 of two files, with an index."""
    folder = tmp_path_factory.mktemp("held") / "small-k3"
    folder.mkdir()
    lm = build("tiny-k3", seed=5)
    state = upstream_state(lm)
    names = sorted(state)
    index = {}
    for i, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-0000{i}-of-00002.safetensors"
        save_file({name: state[name] for name in part}, folder / file)
        index |= dict.fromkeys(part, file)
    text = json.dumps({"metadata": {}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text)
    (folder / "config.json").write_text(json.dumps(lm.config.to_hf()))
    return folder, state


@pytest.fixture
def named(checkpoint, monkeypatch):
    monkeypatch.setenv(sources.NAMED, str(checkpoint[0]))
    # one for all pages of a process
    monkeypatch.setattr(microscope, "_shared", Microscope())
    return checkpoint[1]


def seen(look, lens=None):
    return (lens or Microscope()).ask(look).result(30)


def test_a_list_is_of_what_fits_and_says_what_reading_it_would_cost(named):
    found = seen(Look(checkpoint="small-k3", what="tensors", pattern="*.A_log")).value
    wanted = [name for name in named if name.endswith(".A_log")]
    assert [entry.name for entry in found.rows] == sorted(wanted)
    assert found.count == len(wanted)
    assert found.planned == sum(named[name].nbytes for name in wanted)


def test_a_long_list_comes_in_pages_and_is_not_read_at_once(named):
    first = seen(Look(checkpoint="small-k3", what="tensors")).value
    assert first.count == len(named)
    assert len(first.rows) == looks.ROWS
    assert first.planned is None
    last = seen(Look(checkpoint="small-k3", what="tensors", page=10**6)).value
    assert last.first + len(last.rows) == last.count


def test_values_are_those_of_the_file(named):
    (tensor,) = seen(
        Look(checkpoint="small-k3", what="read", pattern="*layers.0.self_attn.A_log")
    ).value
    truth = named[tensor.report.name].double().numpy()
    assert tensor.report.values.count == truth.size
    assert tensor.report.values.mean == pytest.approx(truth.mean())
    assert np.array_equal(tensor.picture.cells[0], truth)


@pytest.mark.parametrize("what", ["decay", "residual", "router"])
def test_every_ready_made_view_is_made(named, what):
    assert seen(Look(checkpoint="small-k3", what=what)).value.planned > 0


@pytest.mark.parametrize(
    "name", ["/etc", "../held", "small k3", "", "a/b/c", "<script>", "x" * 500, "\x00"]
)
def test_a_visitor_opens_no_folder_of_the_server(named, name):
    with pytest.raises(ValueError, match="no Hub id"):
        seen(Look(checkpoint=name, what="tensors"))


@pytest.mark.parametrize("name", ["app/example", "model/weights", "tests/screens"])
def test_a_folder_beside_the_program_is_no_hub_id_for_a_visitor(named, name, monkeypatch):
    asked = []

    def hub(source, *, login):
        asked.append((source, login))
        raise LookupError("the Hub was asked")

    monkeypatch.setattr("model.source.open_hub", hub)
    with pytest.raises(ValueError, match="the Hub was asked"):
        seen(Look(checkpoint=name, what="tensors"))
    assert asked == [(name, False)]


def test_a_look_that_breaks_off_is_a_sentence_too(named, monkeypatch):
    def broken(checkpoint, look):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(looks.LOOKS, "router", broken)
    with pytest.raises(ValueError, match="broke off: ZeroDivisionError"):
        seen(Look(checkpoint="small-k3", what="router"))


def test_too_many_looks_at_once_are_told_to_come_back(named, monkeypatch):
    gate = threading.Event()
    monkeypatch.setitem(looks.LOOKS, "tensors", lambda checkpoint, look: gate.wait(30))
    monkeypatch.setattr(microscope, "MOST_WAITING", 3)
    lens = Microscope()
    asked = [Look(checkpoint="small-k3", what="tensors", page=i) for i in range(20)]
    made = [lens.ask(look) for look in asked]
    told = [future for future in made if future.done()]
    gate.set()
    assert len(told) == 20 - 3 - microscope.READERS
    with pytest.raises(ValueError, match="other looks wait"):
        told[0].result()
    for future in made:
        future.exception(30)
    assert seen(asked[-1], lens).value is True


@pytest.fixture
def slow(named, monkeypatch):
    """More looks into one checkpoint than the pool has threads; none is answered meanwhile."""
    gate, lens = threading.Event(), microscope.shared_microscope()
    monkeypatch.setitem(looks.LOOKS, "decay", lambda checkpoint, look: gate.wait(30))
    pages = range(microscope.READERS + 1)
    made = [lens.ask(Look(checkpoint="small-k3", what="decay", page=page)) for page in pages]
    yield made
    gate.set()
    for future in made:
        future.result(30)


def test_readers_of_a_slow_checkpoint_do_not_hold_up_those_of_another(slow):
    other = Look(checkpoint="k3-mini", what="contents")
    assert microscope.shared_microscope().ask(other).result(10).value.files == 1
    assert not any(future.done() for future in slow)


def test_looks_into_one_checkpoint_are_made_one_at_a_time_in_the_order_asked(named, monkeypatch):
    at_work, seen_together, order = set(), [], []

    def make(checkpoint, look):
        at_work.add(look.page)
        time.sleep(0.01)
        seen_together.append(len(at_work))
        at_work.remove(look.page)
        order.append(look.page)

    monkeypatch.setitem(looks.LOOKS, "decay", make)
    lens = Microscope()
    made = [lens.ask(Look(checkpoint="small-k3", what="decay", page=page)) for page in range(12)]
    for future in made:
        future.result(30)
    assert order == list(range(12))
    assert set(seen_together) == {1}


def test_a_look_that_fails_lets_the_next_of_its_checkpoint_begin(named):
    lens = Microscope()
    faulty = lens.ask(Look(checkpoint="small-k3", what="tensors", pattern="none"))
    assert seen(Look(checkpoint="small-k3", what="contents"), lens).value.files == 2
    assert faulty.exception(30)


def test_a_reader_is_told_whether_bytes_come_or_others_come_first(slow):
    lens = microscope.shared_microscope()
    first, *others = slow
    look = Look(checkpoint="small-k3", what="decay")
    while not first.running():
        time.sleep(0.01)
    assert so_far(look, first, lens) == "Reading small-k3, 0 B came so far."
    assert too_late(look, first) == "small-k3 has not answered for 120 s."
    for waiting in others:
        assert so_far(look, waiting, lens) == "small-k3 waits for its turn behind other looks."
        assert too_late(look, waiting) == "Other looks came before small-k3 for 120 s."


def test_a_fault_is_told_without_the_path_of_the_server(named, checkpoint, tmp_path, monkeypatch):
    (tmp_path / "hollow").mkdir()
    monkeypatch.setenv(sources.NAMED, str(tmp_path / "hollow"))
    with pytest.raises(ValueError, match="hollow") as said:
        seen(Look(checkpoint="hollow", what="tensors"))
    assert str(tmp_path) not in str(said.value)


def test_a_pattern_that_fits_nothing_says_so(named):
    with pytest.raises(ValueError, match="fits 'nothing'"):
        seen(Look(checkpoint="small-k3", what="tensors", pattern="nothing"))


def test_readers_who_ask_the_same_share_one_look(named):
    lens, look = Microscope(), Look(checkpoint="small-k3", what="tensors")
    asked = [threading.Thread(target=lens.ask, args=(look,)) for _ in range(8)]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join()
    assert lens.ask(look) is lens.ask(look)
    assert lens.ask(look).result(30).value.count == len(named)


def test_a_look_that_failed_is_made_again_after_a_while(named, monkeypatch):
    lens, look = Microscope(), Look(checkpoint="small-k3", what="tensors", pattern="none")
    with pytest.raises(ValueError):  # noqa: PT011
        seen(look, lens)
    first = lens.ask(look)
    assert lens.ask(look) is first
    monkeypatch.setattr(lens, "_failed", {look: -1.0})
    assert lens.ask(look) is not first


def written(page):
    return "\n".join(element.proto.body for element in page.get("html"))


def open_weights(**asked):
    page = AppTest.from_file(str(SCRIPT), default_timeout=60)
    page.query_params["view"] = "weights"
    for name, value in asked.items():
        page.query_params[name] = value
    return page.run()


def test_the_page_asks_for_a_checkpoint_first(named):
    page = open_weights()
    assert not page.exception
    assert "No checkpoint is open" in written(page)


def test_the_page_lists_first_and_reads_when_asked(named):
    page = open_weights(checkpoint="small-k3", tensors="*layers.0.self_attn.A_log")
    assert not page.exception
    assert "layers.0.self_attn.A_log" in written(page)
    assert "standard deviation" not in written(page)
    button = page.button(key="weights-read")
    assert button.label == "Read its values, 12 B"
    page = button.click().run()
    assert "standard deviation" in written(page)


def test_a_reader_whose_look_is_refused_reads_why_beside_the_button(named, request, monkeypatch):
    page = open_weights(checkpoint="small-k3", tensors="*layers.0.self_attn.A_log")
    request.getfixturevalue("slow")
    monkeypatch.setattr(microscope, "MOST_WAITING", 1)
    page = page.button(key="weights-read").click().run()
    assert not page.exception
    assert "1 other looks wait already. Try again in a minute." in written(page)
    assert page.button(key="weights-read")


@pytest.mark.parametrize("look", ["decay", "residual", "router"])
def test_the_page_bounds_a_view_before_it_is_read(named, look):
    page = open_weights(checkpoint="small-k3", look=look)
    assert "from this machine" in written(page)
    assert "Half of" not in written(page)
    page = page.button(key="weights-read").click().run()
    assert not page.exception
    assert "small-k3, read from this machine" in written(page)


def test_a_checkpoint_that_is_not_there_is_answered_on_the_page(named):
    page = open_weights(checkpoint="no/such/thing")
    assert not page.exception
    assert "no Hub id" in written(page)


@pytest.mark.parametrize("name", ["checkpoint", "tensors", "look"])
@pytest.mark.parametrize("asked", ["<script>", "\x00", "%00", "a b", "x" * 3000])
def test_an_address_that_cannot_be_a_question_is_answered_in_words(name, asked):
    found = selection({"view": "weights", name: asked})
    assert any(f"asks for {name}" in notice for notice in found.notices)


def test_the_tallest_bar_is_as_high_as_the_chart_and_a_lone_value_is_seen():
    assert heights([0, 1, 10**6]) == [0.0, 1.0, 100.0]
    assert heights([0, 0]) == [0.0, 0.0]
    assert heights([]) == []


def test_singular_values_fall_on_a_logarithmic_axis():
    assert falling([100.0, 10.0, 1.0]) == [100.0, 50.0, 1.0]
    assert falling([]) == []
    assert falling([0.0, 0.0]) == []
    assert len(falling([float(v) for v in range(1000, 0, -1)])) <= 64
    assert falling([1.0, 0.0])[-1] == 1.0


def test_a_numerical_rank_counts_what_is_above_rounding():
    assert rank_of([1.0, 0.5, 1e-9], (3, 3)) == 2
    assert rank_of([], (0, 0)) == 0


@pytest.mark.parametrize("rows", [1, 2, 187, 256, 257, 600])
def test_a_map_of_many_rows_shows_every_second_and_says_so(rows):
    figure = map_figure(
        np.arange(rows * 3.0).reshape(rows, 3),
        name="n",
        symbol="s",
        rows=("layer", [str(i) for i in range(rows)]),
        column="head",
        signed=True,
        taps=["t"],
        facts=["f"],
        stream="decay",
    )
    shown = len(figure["rows"]["labels"])
    assert shown <= 256
    said = any("rows one is shown" in fact for fact in figure["provenance"][0]["facts"])
    assert said == (rows > 256)


def test_the_page_of_a_long_list_stands_in_the_address(named):
    shown = sorted(named)
    page = open_weights(checkpoint="small-k3", page="2")
    assert f"<code>{shown[looks.ROWS]}</code>" in written(page)
    assert f"<code>{shown[0]}</code>" not in written(page)
    assert page.number_input(key="weights-page").value == 2
    last = -(-len(shown) // looks.ROWS)
    beyond = open_weights(checkpoint="small-k3", page="999")
    assert f"<code>{shown[-1]}</code>" in written(beyond)
    assert beyond.number_input(key="weights-page").value == last


@pytest.mark.parametrize(
    "shape", [(), (1,), (130,), (1300,), (3, 5), (48, 96), (49, 97), (200, 3, 4), (1, 1, 7), (0, 4)]
)
@pytest.mark.parametrize("length", [1, 7, 10**6])
def test_a_mosaic_is_the_tensor_or_the_root_mean_squares_of_its_parts(shape, length):
    values = np.random.default_rng(3).normal(size=shape)
    flat = values.ravel()
    blocks = [flat[i : i + length] for i in range(0, flat.size, length)] or [flat]
    made = mosaic(blocks, shape)
    matrix = values.reshape(shape[0] if len(shape) > 1 else 1, math.prod(shape[1:] or shape))
    down, across = made.steps
    assert made.cells.size <= max(MOST_ROWS * MOST_COLUMNS, LONGEST_ROW)
    for (i, j), cell in np.ndenumerate(made.cells):
        behind = matrix[i * down : (i + 1) * down, j * across : (j + 1) * across]
        truth = behind[0, 0] if made.is_exact else np.sqrt(np.square(behind).mean())
        assert cell == pytest.approx(truth)
    assert made.cells.shape == (-(-matrix.shape[0] // down), -(-matrix.shape[1] // across))


def test_what_is_no_number_shows_where_it_is_in_a_mosaic():
    values = np.ones((96, 96), dtype=np.float32)
    values[0, 0], values[95, 95] = np.nan, np.inf
    cells = mosaic([values], values.shape).cells
    assert np.isnan(cells[0, 0])
    assert np.isposinf(cells[-1, -1])
    assert np.isfinite(cells).sum() == cells.size - 2


def test_few_values_are_written_out_and_many_are_a_small_picture():
    few = mosaic_figure(mosaic([np.arange(12.0)], (3, 4)), "a.weight")
    many = mosaic_figure(mosaic([np.arange(4096.0)], (64, 64)), "b.weight")
    assert few["widest"] > many["widest"]
    assert few["panels"][0]["signed"]
    assert "root mean square of 2 × 1 values" in many["panels"][0]["title"]
    assert many["rows"]["labels"][:3] == ["0", "2", "4"]


def test_a_scale_that_nothing_exceeds_does_not_speak_of_deviations():
    shared: dict = {
        "name": "n",
        "symbol": "s",
        "rows": ("read", ["a", "b"]),
        "column": "read",
        "columns": ["a", "b"],
        "signed": True,
        "taps": ["t"],
        "facts": [],
        "stream": "residual",
    }
    cosines = map_figure(np.eye(2), bound=1.0, **shared)["panels"][0]
    assert (cosines["scale_word"], cosines["clips"]) == ("", False)
    assert cosines["column_labels"] == ["a", "b"]
    assert map_figure(np.eye(2), **shared)["panels"][0]["scale_word"] == "±3σ"


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (60_300_000, "60.3 MB"), (10**15, "1,000.0 TB")],
)
def test_bytes_are_told_by_thousands(count, words):
    assert size(count) == words


def test_names_of_a_file_are_escaped():
    row = {"name": "<img onerror=1>", "dtype": "F32", "shape": "1", "bytes": "4", "file": "<b>"}
    html = render("weights_list.html", register="r", lead="l", rows=[row])
    assert "<img" not in html
    assert "<b>" not in html
