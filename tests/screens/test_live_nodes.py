"""Every node on a run of the tiny model: a figure for each of its taps, or a sentence."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from annotations.loader import load_nodes
from annotations.outline import flat
from app.panels.live_data import live_data, spot_of
from app.panels.look import look_text
from app.panels.proof import OF_THE_CACHE, asked_of
from app.panels.run_news import run_news
from app.place import place_of
from app.run_checks import Asked, check_row
from app.run_engine import ModelEngine
from app.run_taps import find_taps, live_taps
from app.runs import RunStore
from app.state import Selection
from model.identities.registry import IDENTITIES, check
from model.load import build
from model.trace import run

NODES = load_nodes()
PLACES = [entry for entry in flat("k3") if entry.node in NODES]
NAMES = [f"{entry.node} @ {entry.instance}" for entry in PLACES]


@pytest.fixture(scope="module")
def model():
    return build("tiny-k3")


@pytest.fixture(scope="module")
def made(model):
    return run(model, "key under stone", new_tokens=2)


def spot_at(entry, made, **more):
    selection = Selection(node=entry.node, at=entry.instance or None, **more)
    place = place_of(selection, NODES, made.config)
    return spot_of(place.node, place.entry.instance or None, place.layer, selection, made)


@pytest.mark.parametrize("entry", PLACES, ids=NAMES)
@pytest.mark.parametrize("step", [0, 2])
def test_every_node_shows_its_tensor_or_says_why_not(entry, step, made):
    live = live_data(spot_at(entry, made, step=step, head=1), made)
    assert live.figures or live.reasons or live.notice
    sent = json.dumps(live.figures, allow_nan=False)
    assert len(sent) < 400_000
    for figure in live.figures:
        assert figure["run"] == made.run_id
        assert all(row["kind"] != "not captured" for row in figure["provenance"])


@pytest.mark.parametrize("entry", PLACES, ids=NAMES)
def test_what_to_look_for_has_no_placeholder_left(entry, made):
    node = spot_at(entry, made).node
    assert "{" not in look_text(node.look, made.config)


def test_the_cache_shows_keys_beside_values_with_the_shared_part_apart(made):
    entry = next(entry for entry in PLACES if entry.node == "mla/kv_cache")
    figure = live_data(spot_at(entry, made), made).figures[0]
    keys, values = figure["panels"]
    assert [group["word"] for group in keys["groups"]] == ["content", "shared"]
    assert keys["columns"] == made.config.qk_head_dim
    assert values["columns"] == made.config.v_head_dim
    assert len(figure["rows"]["labels"]) == made.prompt_length + 2
    assert figure["rows"]["new_from"] == made.prompt_length


def test_rows_join_prefill_and_decode_in_the_order_of_positions(made):
    entry = next(entry for entry in PLACES if entry.node == "mla/k_shared")
    rows = live_data(spot_at(entry, made), made).figures[0]["rows"]
    assert rows["ids"] == list(made.token_ids)
    assert rows["labels"] == [token.display for token in made.tokens]


def test_the_state_at_a_token_is_the_state_after_it(made):
    entry = next(entry for entry in PLACES if entry.node == "kda/state")
    last = live_data(spot_at(entry, made), made).figures[0]
    early = live_data(spot_at(entry, made, token=3), made).figures[0]
    assert last["provenance"][0]["kind"] == "captured"
    assert early["provenance"][0]["kind"] == "recomputed"
    assert last["panels"][-1]["values"] != early["panels"][-1]["values"]
    assert early["tools"]["token"] == 3


@pytest.mark.parametrize("token", [0, 3, 16, 17])
def test_what_a_token_did_to_the_memory_adds_up(token, made):
    for name in ("kda/state", "kda/decay"):
        entry = next(entry for entry in PLACES if entry.node == name)
        figure = live_data(spot_at(entry, made, token=token, head=2), made).figures[0]
        terms = [
            np.frombuffer(base64.b64decode(panel["values"]), dtype="<f4")
            for panel in figure["panels"]
        ]
        signs = [{"": 1, "−": -1, "+": 1, "=": -1}[sign] for sign in figure["signs"]]
        total = sum(sign * term for sign, term in zip(signs, terms, strict=True))
        assert np.abs(total).max() <= 1e-5 * np.abs(terms[-1]).max()
        kinds = [row["kind"] for row in figure["provenance"]]
        assert kinds[-1] == "derived"


def test_a_number_a_head_is_shown_for_all_heads(made):
    entry = next(entry for entry in PLACES if entry.node == "kda/write_strength")
    figure = live_data(spot_at(entry, made), made).figures[0]
    assert figure["panels"][0]["columns"] == made.config.linear_attn_config.num_heads
    assert figure["tools"]["heads"] == 0


def test_a_tap_without_a_batch_is_read_whole(made):
    entry = next(entry for entry in PLACES if entry.node == "attn_res/fold_query")
    figure = live_data(spot_at(entry, made), made).figures[0]
    assert figure["panels"][0]["columns"] == made.config.hidden_size


@pytest.mark.parametrize(("name", "last"), [("mla/softmax", 1), ("kda/state", 2), ("kda/read", 2)])
def test_a_head_that_is_not_there_gives_the_last_one_and_says_so(name, last, made):
    """Layers of one model have different numbers of heads, and readers walk between them."""
    entry = next(entry for entry in PLACES if entry.node == name)
    nearest = live_data(spot_at(entry, made, head=7), made)
    asked = live_data(spot_at(entry, made, head=last), made)
    assert nearest.figures[0]["tools"]["head"] == last
    assert nearest.figures[0]["panels"] == asked.figures[0]["panels"]
    assert f"of {made.source} has heads 0 to {last}; head {last} is shown" in nearest.notice
    assert not asked.notice


def test_a_head_is_no_matter_where_no_tensor_has_heads(made):
    entry = next(entry for entry in PLACES if entry.node == "attn_res/fold_query")
    assert not live_data(spot_at(entry, made, head=7), made).notice


def test_what_was_left_out_is_absent_with_its_reason(model):
    lean = run(model, "key", keep=["logits"])
    entry = next(entry for entry in PLACES if entry.node == "mla/k_shared")
    live = live_data(spot_at(entry, lean), lean)
    assert not live.figures
    assert "not captured" in live.reasons[0]


@pytest.mark.parametrize("entry", PLACES, ids=NAMES)
def test_small_pictures_and_overlays_fit_the_bridge(entry, made):
    news = run_news(spot_at(entry, made), made, NODES, ())
    assert len(news["thumbs"]) <= 12
    assert len(json.dumps(news, allow_nan=False)) < 100_000
    assert len(news["overlays"]["norm"]["values"]) == made.config.num_hidden_layers


@pytest.mark.parametrize("entry", PLACES, ids=NAMES)
def test_every_tap_on_a_page_that_an_equation_gives_is_proved_there(entry, model, made):
    spot = spot_at(entry, made)
    is_layered = entry.place != ""
    try:
        taps = find_taps(spot.node, live_taps(spot.node), made.config, spot.layer, spot.at)
    except LookupError:
        return
    asked = asked_of(spot, taps, is_layered=is_layered)
    if asked is None:
        assert not taps
        return
    names = [name for name, item in IDENTITIES.items() if asked.concerns(item)]
    given = {item.tap for item in IDENTITIES.values() if item.tap} & {tap.tap for tap in taps}
    results = check(made, model, layer=asked.layer, names=names, at=asked.at)
    rows = [check_row(result, IDENTITIES[result.name]) for result in results]
    assert all(row.passed for row in rows)
    assert given <= {tap for row in rows for tap in row.taps}


def test_asking_for_no_taps_means_every_equation():
    assert all(Asked(taps=()).concerns(item) for item in IDENTITIES.values())
    assert not replace(Asked(taps=("No.tap",))).concerns(IDENTITIES["embedding"])


def test_pages_of_what_is_kept_also_say_that_keeping_it_changes_nothing(made):
    entry = next(entry for entry in PLACES if entry.node == "mla/kv_cache")
    spot = spot_at(entry, made)
    taps = find_taps(spot.node, live_taps(spot.node), made.config, spot.layer, spot.at)
    asked = asked_of(spot, taps, is_layered=True)
    assert asked is not None
    rows = ModelEngine().check(made, asked)
    assert {"mla_absorbed", "prefill_is_decode"} <= {row.name for row in rows}
    assert all(row.passed for row in rows)
    assert {row.layer for row in rows} <= {spot.layer, None}


def test_what_the_budget_left_out_can_be_kept_alone(model):
    lean = run(model, "key under stone", budget=60_000)
    entry = next(entry for entry in PLACES if entry.node == "attn_res/stack")
    spot = spot_at(entry, lean)
    live = live_data(spot, lean)
    assert live.left_out
    store = RunStore(ModelEngine())
    alone = store.alone(replace(lean, source="tiny-k3"), live.left_out)
    assert alone.wait(60)
    made = alone.result()
    assert made.run_id == lean.run_id
    assert live_data(spot, made).figures
    assert store.alone(lean, live.left_out).is_over


def test_pages_without_a_tensor_prove_only_what_concerns_them(made):
    proofs = {}
    for name in ("bank/empty", "cache/object", "mla/layers"):
        spot = spot_at(next(entry for entry in PLACES if entry.node == name), made)
        proofs[name] = asked_of(spot, (), is_layered=name == "mla/layers")
    assert proofs["bank/empty"] is None
    rows = ModelEngine().check(made, proofs["cache/object"])
    assert {row.name for row in rows} == {*OF_THE_CACHE}
    assert proofs["mla/layers"].taps == ()
