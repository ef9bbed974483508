"""The address may hold anything; what is selected is valid, and what was changed is said."""

import pytest

from app.state import EXAMPLE_NODE, selection

LONGEST = 1_048_576


def test_an_empty_address_is_the_overview_without_a_word():
    chosen = selection({}, longest_context=LONGEST)
    assert chosen.view == "overview"
    assert chosen.notices == ()


def test_an_address_with_a_node_is_a_node_page():
    chosen = selection({"node": "attn_res/mix", "at": "mlp_res"}, longest_context=LONGEST)
    assert (chosen.view, chosen.node, chosen.at) == ("node", "attn_res/mix", "mlp_res")


@pytest.mark.parametrize(
    ("asked", "shown"),
    [("1e99", LONGEST), ("-1", 1), ("0", 1), ("4,096", 4096), ("inf", LONGEST), ("-inf", 1)],
)
def test_a_context_out_of_range_is_clamped_and_said(asked, shown):
    chosen = selection({"context": asked}, longest_context=LONGEST)
    assert chosen.context == shown
    assert bool(chosen.notices) == (asked != "4,096")


@pytest.mark.parametrize("asked", ["nan", "%00", "\x00", "<script>", "", "٣x", "1e", "9" * 5000])
@pytest.mark.parametrize("name", ["layer", "context", "batch", "step", "token", "head", "seed"])
def test_a_number_that_is_none_falls_back_and_is_said(name, asked):
    chosen = selection({name: asked}, longest_context=LONGEST)
    assert len(chosen.notices) == 1
    assert name in chosen.notices[0]
    assert "\x00" not in chosen.notices[0]
    assert len(chosen.notices[0]) < 200


@pytest.mark.parametrize("asked", ["%00", "a b", "<script>alert(1)</script>", "x" * 500, "a\nb"])
def test_a_node_that_cannot_be_one_is_left_out_and_said(asked):
    chosen = selection({"node": asked}, longest_context=LONGEST)
    assert chosen.node == EXAMPLE_NODE
    assert len(chosen.notices) == 1


def test_a_model_that_is_not_priced_falls_back_and_names_those_that_are():
    chosen = selection({"model": "gpt-2"}, longest_context=LONGEST)
    assert chosen.model == "k3"
    assert "k3" in chosen.notices[0]


def test_a_hostile_prompt_stays_as_it_is():
    prompt = "<script>alert(1)</script> $x$ :smile: \N{ROCKET}"
    assert selection({"prompt": prompt}, longest_context=LONGEST).prompt == prompt
