"""The live half in Streamlit: the example at once, prompts that run, pickers, words for faults."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.panels.tensor import TITLES
from app.panels.waiting import queue_sentence
from app.run_engine import tokenizer_of
from app.run_request import RunRequest
from app.runs import shared_store

SCRIPT = Path(__file__).with_name("live_page.py")


def open_page(**parameters):
    page = AppTest.from_file(str(SCRIPT), default_timeout=120)
    for name, value in parameters.items():
        page.query_params[name] = str(value)
    page.run()
    assert not page.exception, page.exception
    return page


def written(page) -> str:
    """All HTML of the page."""
    return "\n".join(element.proto.body for element in page.get("html"))


def press_run(page, prompt, new=1, **drawn):
    page.sidebar.text_area(key="prompt").set_value(prompt)
    for key, value in drawn.items():
        page.sidebar.number_input(key=key).set_value(value)
    page.sidebar.number_input(key="new").set_value(new)
    page.sidebar.button[0].set_value(True).run()
    assert not page.exception, page.exception
    return written(page)


def positions(prompt, new=0):
    """How the page counts: tokens of the prompt, the one that starts every text, and new ones."""
    return f"{len(tokenizer_of('k3-mini').encode(prompt)) + 1 + new} positions"


def test_a_first_visitor_sees_the_stored_example_with_its_proof():
    page = open_page(node="mla/kv_cache")
    text = written(page)
    assert "stored run" in text
    assert "k3-mini, layer" in text
    assert shared_store().example().run_id[:6] in text
    assert "values counted in the cache = values predicted" in text
    assert "✓ pass" in text
    assert "✗" not in text
    assert page.sidebar.text_area(key="prompt").value


def test_a_typed_prompt_runs_on_the_first_click_and_takes_the_place_of_the_example():
    page = open_page(node="mla/k_shared")
    text = press_run(page, "first click")
    assert "stored run" not in text
    assert positions("first click", new=1) in text
    longer = press_run(page, "the second click")
    assert positions("the second click", new=1) in longer
    assert positions("the second click", new=1) not in text


def test_a_run_of_another_model_than_the_one_asked_for_is_not_shown():
    made = open_page(source="tiny-k2", prompt="of tiny-k2", node="mla/k_shared")
    run = shared_store().known(RunRequest(source="tiny-k2", prompt="of tiny-k2", new_tokens=4))
    assert run is not None
    assert not made.exception
    text = written(open_page(run=run.run_id, node="kda/state", layer=6))
    assert f"Run {run.run_id[:6]} is of tiny-k2, and k3-mini was asked for" in text


def test_tokens_are_drawn_at_a_temperature_by_a_seed_and_the_address_says_both():
    page = open_page(node="mla/k_shared")
    text = press_run(page, "drawn", new=3, temperature=0.7, seed=5)
    assert "3 tokens, drawn at 0.7 by seed 5" in text
    written_to = page.session_state["test-url"]
    assert (written_to["temperature"], written_to["seed"]) == ("0.7", 5)
    asked = RunRequest(prompt="drawn", new_tokens=3, temperature=0.7, seed=5)
    assert shared_store().known(asked) is not None


def test_a_greedy_run_leaves_temperature_and_seed_out_of_the_address():
    page = open_page(node="mla/k_shared")
    assert "drawn at" not in press_run(page, "greedy", new=2)
    assert page.session_state["test-url"]["temperature"] is None
    assert page.session_state["test-url"]["seed"] is None


def test_an_address_with_a_temperature_draws():
    page = open_page(node="mla/k_shared", prompt="drawn again", new=2, temperature=0.9, seed=3)
    assert "drawn at 0.9 by seed 3" in written(open_page(**dict(page.query_params.items())))


def test_an_empty_prompt_runs_nothing_and_shows_nothing_old():
    text = press_run(open_page(node="mla/k_shared"), "")
    assert "The prompt is empty" in text
    assert "Live tensor" not in text


def test_a_prompt_beyond_the_bound_is_refused_with_its_count():
    page = open_page(node="mla/k_shared")
    text = press_run(page, "x" * 2_500)
    assert "The prompt has 2,501 tokens; a run takes up to 2,048." in text
    assert "2,501 of 2,048 tokens, 453 too many" in text


def test_markup_in_a_prompt_is_shown_and_never_becomes_markup():
    prompt = "<img src=x onerror=alert(1)> <bos> $x$"
    text = press_run(open_page(node="mla/k_shared"), prompt)
    assert "<img" not in text
    assert "Live tensor" in text


def test_an_address_with_a_prompt_runs_it():
    text = written(open_page(node="mla/k_shared", prompt="from a link", new=0))
    assert positions("from a link") in text


def test_a_run_that_is_gone_is_made_again_from_its_prompt_and_that_is_said():
    text = written(open_page(node="mla/k_shared", prompt="gone with it", new=0, run="abcdef123456"))
    assert "Run abcdef is gone from this server; its prompt is run again." in text
    assert positions("gone with it") in text


def test_a_run_that_is_gone_without_its_prompt_says_what_to_do():
    text = written(open_page(node="mla/k_shared", run="abcdef123456"))
    assert "Run abcdef is gone" in text
    assert "Put the prompt in the box" in text


def test_the_step_of_prefill_shows_the_prompt_alone():
    example = shared_store().example()
    text = written(open_page(node="mla/k_shared", phase="prefill"))
    assert f"{example.prompt_length} positions" in text


def test_the_layer_picker_offers_the_layers_that_have_the_node():
    page = open_page(node="mla/k_shared", layer=7)
    slider = page.sidebar.select_slider(key="layer")
    assert slider.value == 7
    slider.set_value(8).run()
    assert not page.exception
    assert "layer 8" in written(page)


@pytest.mark.parametrize(
    "node", ["kda/state", "attn_res/mix", "moe/pick", "head/logits", "kda/layers"]
)
def test_every_kind_of_figure_opens(node):
    text = written(open_page(node=node))
    assert any(title in text for title in ("Live tensor", *TITLES.values()))


@pytest.mark.parametrize("step", [-1, 999])
def test_a_step_that_is_not_there_is_held_within_the_run(step):
    assert "Live tensor" in written(open_page(node="mla/k_shared", step=step))


def test_a_head_that_is_not_there_is_answered_in_words():
    text = written(open_page(node="mla/kv_cache", head=99))
    assert "heads 0 to 3" in text


def test_a_picker_follows_the_address_and_keeps_what_its_own_echo_says():
    page = open_page(node="mla/k_shared", layer=7)
    page.sidebar.select_slider(key="layer").set_value(8).run()
    # the bridge wrote it, and the reader went on before the address came back
    page.sidebar.select_slider(key="layer").set_value(3).run()
    page.query_params["layer"] = "8"
    page.run()
    assert page.sidebar.select_slider(key="layer").value == 3
    # a step back is news
    page.query_params["layer"] = "7"
    page.run()
    assert page.sidebar.select_slider(key="layer").value == 7
    assert "layer 7" in written(page)


def test_another_node_brings_its_own_layers():
    page = open_page(node="mla/k_shared", layer=7)
    page.query_params["node"] = "kda/read"
    page.run()
    assert not page.exception
    assert page.sidebar.select_slider(key="layer").value == 6


def test_the_place_in_the_queue_is_said_in_words():
    assert queue_sentence(0, None).startswith("One job is before you. ")
    assert queue_sentence(0, 0.1).startswith("One job is before you, about 1 s. ")
    assert queue_sentence(2, 4.0).startswith("3 jobs are before you, about 12 s. ")


def test_a_stored_run_whose_values_were_computed_anew_still_reads_stored():
    page = open_page(node="norm/rms", layer=3)
    assert "stored run" in written(page)
    assert "✓ pass" in written(page)
    page.query_params["node"] = "mla/kv_cache"
    page.run()
    assert "stored run" in written(page)
    assert "stored run" not in press_run(page, "another prompt")


def test_sizes_of_another_model_are_told_from_the_numbers_of_the_run():
    text = written(open_page(node="mla/kv_cache", model="k2"))
    assert "The sizes on this page are K2&#39;s; the numbers below are of k3-mini" in text
    assert "built as K3" in text
    assert "lacks keys turned by their position" in text
    # every layer of K2 keeps keys, of k3-mini the fourth is the first
    assert "k3-mini, layer 3" in text
    assert "not captured" not in text
    assert "The sizes on this page" not in written(open_page(node="mla/kv_cache"))


def test_a_page_that_the_running_model_has_no_tensor_for_says_so():
    text = written(open_page(node="mla/rotate", model="k2"))
    assert "this model gives attention no positions, so nothing is rotated" in text


def test_a_long_proof_opens_with_what_is_nearest_to_its_tolerance():
    text = written(open_page(node="mla/layers"))
    assert "more, all pass</summary>" in text


def test_sizes_that_fit_the_run_are_one_click_away():
    text = written(open_page(node="mla/kv_cache", model="k3", source="tiny-k2"))
    assert 'data-switch="tiny-k2"' in text
    assert 'data-switch="k2"' in text
    fitting = written(open_page(node="mla/kv_cache", model="k2", source="tiny-k2"))
    assert "data-switch" not in fitting


def test_what_was_asked_is_written_until_the_address_says_it():
    page = open_page(node="mla/k_shared")
    press_run(page, "asked once")
    drawn = {"temperature": None, "seed": None}
    wanted = {"source": "k3-mini", "prompt": "asked once", "new": 1, **drawn}
    assert wanted.items() <= page.session_state["test-url"].items()
    # a rerun before the browser had it: the page still shows that run, and writes it again
    page.run()
    assert positions("asked once", new=1) in written(page)
    assert page.session_state["test-url"] == wanted
    for name, value in wanted.items():
        page.query_params[name] = str(value)
    page.run()
    assert page.session_state["test-url"] == {}
    assert positions("asked once", new=1) in written(page)


def test_another_model_asked_with_the_same_prompt_is_not_lost():
    page = open_page(node="mla/k_shared", prompt="the same", new=1)
    page.sidebar.selectbox(key="source").set_value("tiny-k2")
    press_run(page, "the same")
    page.run()
    assert page.session_state["test-url"]["source"] == "tiny-k2"
    assert "tiny-k2" in written(page)
