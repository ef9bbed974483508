"""The stored example: opened without torch, it is what the shipped weights compute today."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.panels.run_choice import choose
from app.run_checks import Asked, open_checks
from app.run_engine import EXAMPLE, ModelEngine
from app.run_stored import open_stored
from app.runs import RunStore
from app.state import Selection
from model.load import load
from model.shipped import weights_note
from model.trace import open_trace, run

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def stored():
    return open_stored(EXAMPLE)


@pytest.fixture(scope="module")
def again(stored):
    lm = load(stored.source)
    return run(lm, list(stored.token_ids[: stored.prompt_length]), stored.new_tokens)


def test_the_example_is_the_run_that_these_weights_make(stored, again):
    remake = "make it anew with `make example`"
    assert stored.weights_hash == again.weights_hash, remake
    assert stored.run_id == again.run_id, remake
    assert stored.token_ids == again.token_ids, remake
    for step in range(stored.steps):
        for name in stored.names(step):
            ours, now = stored.array(name, step), again.array(name, step)
            assert np.array_equal(np.isfinite(ours), np.isfinite(now)), (name, step)
            ours, now = ours[np.isfinite(now)], now[np.isfinite(now)]
            # another processor may add in another order
            scale = np.abs(now).max(initial=0.0) or 1.0
            assert np.abs(ours - now).max(initial=0.0) <= 1e-4 * scale, (name, step)


def test_the_reader_without_torch_gives_what_the_model_gives(stored):
    whole = open_trace(EXAMPLE)
    assert stored.names() == [name for name in whole.names() if name in set(stored.names())]
    assert stored.cache_by_layer == whole.cache_by_layer
    assert [token.display for token in stored.tokens] == [t.display for t in whole.tokens]
    for name in stored.names(1):
        assert np.array_equal(stored.array(name, 1), whole.array(name, 1))
        ours, theirs = stored.provenance(name, 1), whole.provenance(name, 1)
        assert (ours.kind, ours.dims, ours.dtype) == (theirs.kind, theirs.dims, theirs.dtype)


def test_the_stored_proof_belongs_to_the_stored_run_and_holds(stored):
    rows = open_checks(EXAMPLE.with_name("proof.json"), stored.run_id)
    assert rows is not None
    assert all(row.passed for row in rows)


def test_a_proof_of_another_run_is_not_shown():
    assert open_checks(EXAMPLE.with_name("proof.json"), "0" * 12) is None


def test_the_first_page_needs_no_torch():
    script = (
        "import sys\n"
        "from annotations.loader import load_nodes\n"
        "from app.panels.live_data import live_data, spot_of\n"
        "from app.panels.run_news import run_news\n"
        "from app.place import place_of\n"
        "from app.runs import shared_store\n"
        "from app.run_checks import Asked\n"
        "from app.state import Selection\n"
        "store, nodes, selection = shared_store(), load_nodes(), Selection()\n"
        "run = store.example()\n"
        "place = place_of(selection, nodes, run.config)\n"
        "spot = spot_of(place.node, place.entry.instance, place.layer, selection, run)\n"
        "assert live_data(spot, run).figures\n"
        "assert run_news(spot, run, nodes, ())['thumbs']\n"
        "ticket = store.checked(run, Asked(taps=spot.node.taps, layer=spot.layer))\n"
        "assert ticket.wait(30) and ticket.result()\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_the_file_does_not_hold_comes_with_the_model(stored):
    store = RunStore(ModelEngine())
    assert store.find(stored.run_id[:6]).run_id == stored.run_id
    with pytest.raises(LookupError, match="model can compute"):
        stored.array("layers.0.input_layernorm.normed")
    ticket = store.completed(stored, "ann")
    assert ticket.wait(60)
    whole = ticket.result()
    assert whole.array("layers.0.input_layernorm.normed").ndim == 3
    assert store.find(stored.run_id) is whole
    assert whole.is_stored


def test_the_note_on_the_weights_is_the_models_own(stored, again):
    assert stored.weights_note == again.weights_note == again.model.weights_note
    assert weights_note(stored.source) == stored.weights_note


def test_a_damaged_example_is_answered_in_words(tmp_path):
    with pytest.raises(FileNotFoundError, match="make example"):
        open_stored(tmp_path / "none.safetensors")


def test_a_damaged_example_leaves_the_other_pages_alive(tmp_path):
    path = tmp_path / "run.safetensors"
    path.write_bytes(EXAMPLE.read_bytes()[:1_000])
    store = RunStore(ModelEngine(path))
    assert store.example() is None
    assert "make example" in store.example_fault
    assert "make example" in choose(Selection(), store, "ann").sentence


def test_the_equations_of_a_page_come_from_the_stored_proof(stored):
    rows = ModelEngine().check(stored, Asked(taps=("KimiMLAAttention.k_shared",), layer=3))
    assert [row.name for row in rows]
    assert all(row.layer == 3 for row in rows)


def example_page():
    from app.panels.example import example_panel
    from app.runs import shared_store

    example_panel(shared_store())


def test_the_overview_shows_the_example_as_a_whole(stored):
    page = AppTest.from_function(example_page, default_timeout=60).run()
    assert not page.exception
    text = "\n".join(element.proto.body for element in page.get("html"))
    assert "A finished example" in text
    assert stored.run_id[:6] in text
    assert "Gated MLA" in text
    assert stored.weights_note in text
    assert "✓ pass" in text
    assert text.count('title="surprise') == len(stored.tokens) - 1
