"""What a page says beside its text: what feeds it, what it keeps, and where it moved."""

import re
from functools import cache

import pytest

from annotations.node import MODELS
from annotations.outline import find, moved
from app.reader.context import Reading
from app.reader.lead_on import nearest_here
from app.reader.payload import current_nodes, payload

FIRST = {"embed/tokens", "bank/empty", "attn_res/fold_query", "mla/pairs", "mla/score_scale"}
"""Parts that no other part feeds: they read the prompt, parameters or settings."""
LAST = {"head/logits"}


@cache
def read(model: str) -> dict:
    return payload(model)


def page(model: str, node: str, at: str | None = None) -> dict:
    data = read(model)["nodes"][node]
    return data["pages"][data["first"] if at is None else at]


def facts(model: str, node: str) -> dict[str, str]:
    """Labels and values at the side of a page, as text."""
    rows = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page(model, node)["head"], re.DOTALL)
    return {label: re.sub(r"<[^>]+>", "", value) for label, value in rows}


@pytest.mark.parametrize("model", MODELS)
def test_every_part_comes_from_somewhere_and_goes_somewhere(model):
    for node, data in read(model)["nodes"].items():
        for at, shown in data["pages"].items():
            assert shown["from"] or node in FIRST, f"{model} {node} @ {at} comes from nowhere"
            assert shown["to"] or node in LAST, f"{model} {node} @ {at} goes nowhere"


@pytest.mark.parametrize("model", MODELS)
def test_no_list_of_neighbours_names_two_parts_alike(model):
    for node, data in read(model)["nodes"].items():
        for at, shown in data["pages"].items():
            for side in ("from", "to"):
                titles = [edge["title"] for edge in shown[side]]
                assert len(titles) == len(set(titles)), f"{model} {node} @ {at}: {titles}"


def test_a_mix_feeds_the_norm_behind_it():
    for at, norm in (("self_attention_res", "input_layernorm"), ("mlp_res", "post_attention")):
        (edge,) = page("k3", "attn_res/mix", at)["to"]
        assert edge["node"] == "norm/rms"
        assert edge["at"].startswith(norm)


def test_a_whole_layer_that_keeps_something_says_so():
    for node in ("mla/gated", "kda/delta_attention"):
        said = facts("k3", node)
        assert "Kept between calls" not in said
        assert "Added by this call" in said


def test_one_state_of_a_layer_is_not_priced_as_all_of_them():
    conv, recurrent = facts("k3", "kda/conv_state"), facts("k3", "kda/state")
    assert conv["This state"] == "49,152 values"
    assert recurrent["This state"] == "1,572,864 values"
    assert conv["All that a layer keeps"] == recurrent["All that a layer keeps"]


def test_the_empty_bank_holds_and_costs_nothing():
    shown = page("k3", "bank/empty")
    assert 'data-section="cost"' not in shown["body"]
    assert "Written" not in " ".join(facts("k3", "bank/empty"))


def test_reads_over_depth_are_counted_at_one_layer():
    body = page("k3", "attn_res/normalize_keys", "mlp_res")["body"]
    assert "64,512" in body
    assert "layer 92, where sources are most" in body


def test_what_is_written_into_the_memory_is_counted_where_it_is_written():
    assert "3,145,728" in page("k3", "kda/write")["body"]


@pytest.mark.parametrize("model", MODELS)
def test_no_part_with_parameters_is_said_to_have_none(model):
    for node, data in read(model)["nodes"].items():
        for at, shown in data["pages"].items():
            kinds = re.findall(r'class="ks-kind[^"]*">([^<]+)<', shown["head"])
            counted = any(re.match(r"[\d,]+ parameters", kind) for kind in kinds)
            assert not (counted and "no parameters" in kinds), f"{model} {node} @ {at}: {kinds}"


def test_the_rotated_piece_is_called_so_where_it_is_rotated():
    assert "64 rotary" in page("k2", "mla/kv_cache")["head"]
    assert "64 shared" in page("k3", "mla/kv_cache")["head"]


@pytest.mark.parametrize("model", MODELS)
def test_an_old_id_leads_to_a_page(model):
    known = read(model)["moved"]
    assert set(known) == set(moved())
    for old, place in known.items():
        assert place["at"] in read(model)["nodes"][place["node"]]["pages"], old


@pytest.mark.parametrize("model", MODELS)
def test_a_part_of_another_model_leads_to_the_nearest_page(model):
    for node, other in read(model)["elsewhere"].items():
        near = other["near"]
        assert near["at"] in read(model)["nodes"][near["node"]]["pages"], node


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("kda/state", "mla/kv_cache"),
        ("kda/output", "mla/output"),
        ("attn_res/mix", "block/add_mixer"),
        ("moe/latent_up", "moe/latent_moe"),
    ],
)
def test_what_comes_nearest_in_k2(wanted, near):
    reading = Reading("k2", current_nodes())
    assert nearest_here(reading, "k3", find("k3", wanted)).node == near
