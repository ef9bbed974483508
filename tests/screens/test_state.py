"""The address may hold anything; what is selected is valid, and what was changed is said."""

import pytest

from app.state import EXAMPLE_NODE, selection


def test_an_empty_address_is_the_overview_without_a_word():
    chosen = selection({})
    assert chosen.view == "overview"
    assert chosen.notices == ()


def test_an_address_with_a_node_is_a_node_page():
    chosen = selection({"node": "attn_res/mix", "at": "mlp_res"})
    assert (chosen.view, chosen.node, chosen.at) == ("node", "attn_res/mix", "mlp_res")


@pytest.mark.parametrize(
    ("asked", "shown"), [("1e99", 256), ("-1", 0), ("1e1", 10), ("inf", 256), ("-inf", 0)]
)
def test_a_step_out_of_range_is_clamped_and_said(asked, shown):
    chosen = selection({"step": asked})
    assert chosen.step == shown
    assert bool(chosen.notices) == (asked != "1e1")


@pytest.mark.parametrize("asked", ["nan", "%00", "\x00", "<script>", "", "٣x", "1e", "9" * 5000])
@pytest.mark.parametrize("name", ["step", "token", "head", "seed", "new", "temperature"])
def test_a_number_that_is_none_falls_back_and_is_said(name, asked):
    chosen = selection({name: asked})
    assert len(chosen.notices) == 1
    assert name in chosen.notices[0]
    assert "\x00" not in chosen.notices[0]
    assert len(chosen.notices[0]) < 200


@pytest.mark.parametrize(
    ("asked", "shown"), [("0.7", 0.7), ("-1", 0.0), ("9", 2.0), ("inf", 2.0), ("1e-1", 0.1)]
)
def test_a_temperature_is_a_decimal_and_held_in_its_range(asked, shown):
    chosen = selection({"temperature": asked})
    assert chosen.temperature == shown
    assert bool(chosen.notices) == (float(asked) != shown)


@pytest.mark.parametrize("asked", ["%00", "a b", "<script>alert(1)</script>", "x" * 500, "a\nb"])
def test_a_node_that_cannot_be_one_is_left_out(asked):
    assert selection({"node": asked}).node == EXAMPLE_NODE


@pytest.mark.parametrize(
    "parameters", [{"model": "gpt-2"}, {"phase": "x"}, {"view": "y"}, {"layer": "-1"}]
)
def test_what_the_reader_says_in_the_browser_is_not_said_twice(parameters):
    chosen = selection(parameters)
    assert chosen.notices == ()
    assert (chosen.model, chosen.phase, chosen.layer in (0, None)) == ("k3", "decode", True)


def test_a_run_id_that_cannot_be_one_is_left_out_and_said():
    chosen = selection({"run": "../../etc/passwd"})
    assert chosen.run is None
    assert "run" in chosen.notices[0]


def test_a_hostile_prompt_stays_as_it_is():
    prompt = "<script>alert(1)</script> $x$ :smile: \N{ROCKET}"
    assert selection({"prompt": prompt}).prompt == prompt
