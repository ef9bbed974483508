"""A run on Triton kernels: what stayed inside them is computed again, and pages say so."""

import base64
from dataclasses import replace

import numpy as np
import pytest

from app.panels.depth_data import depth_of
from app.panels.live_data import tokens_of
from app.run_kernel_inputs import given_to
from app.run_proofs import unanswered
from app.run_stored import open_stored
from model.identities.registry import check
from model.load import build
from model.trace import run
from tests.kernel_run import as_on_kernels

LM = build("tiny-k3")
PROMPT, STEP = "The memory forgets by channel", 2
READ = "layers.2.mlp_res.weights"
ON_TEXT = run(LM, PROMPT, STEP)
ON_KERNELS = as_on_kernels(ON_TEXT)


def depth(trace):
    shared = {"node": "attn_res/weights", "name": "x"}
    return depth_of(trace, READ, STEP, None, tokens_of(trace, STEP), **shared)


def values(encoded):
    return np.frombuffer(base64.b64decode(encoded), dtype="<f4")


def without(trace, *attributes):
    """The run, had its budget not reached these taps."""
    kept = [
        {name: x for name, x in held.items() if not name.endswith(attributes)}
        for held in trace.tensors
    ]
    return replace(trace, tensors=tuple(kept))


def reasons(trace):
    """By equation, of those without a result."""
    answered = {result.name for result in check(trace, LM)}
    return {item.name: item.reason for item in unanswered(trace, answered)}


def test_weights_over_depth_that_stayed_inside_a_kernel_are_shown_and_said_to_be_re_computed():
    shown, captured = depth(ON_KERNELS), depth(ON_TEXT)
    (origin,) = shown["provenance"]
    assert origin["kind"] == "recomputed"
    assert "re-computed in float64 from scores" in origin["facts"]
    assert shown["reads"] == captured["reads"]
    assert shown["read"] == captured["read"]
    for name in ("weights", "scores"):
        np.testing.assert_allclose(values(shown[name]), values(captured[name]), atol=1e-5)


def test_weights_over_depth_that_were_captured_say_so():
    (origin,) = depth(ON_TEXT)["provenance"]
    assert origin["kind"] == "captured"
    assert origin["facts"] == [f"steps 0 … {STEP}", "float32", "cpu, torch"]


def test_one_read_that_was_re_computed_is_enough_not_to_say_captured():
    mixed = replace(without(ON_TEXT, "layers.2.mlp_res.scores"), kernel_path=ON_KERNELS.kernel_path)
    (origin,) = depth(mixed)["provenance"]
    assert origin["kind"] == "recomputed"
    assert "re-computed in float64 from keys" in origin["facts"]


def test_without_any_weights_over_depth_the_reason_is_given():
    empty = replace(ON_KERNELS, tensors=({},) * ON_KERNELS.steps)
    with pytest.raises(LookupError, match="inside a Triton kernel, and what would re-compute it"):
        depth(empty)


def test_a_stored_run_on_kernels_says_that_the_model_can_compute_the_weights(tmp_path):
    ON_KERNELS.save(tmp_path / "run")
    with pytest.raises(LookupError, match=r"output_attn_res\.weights at step 0; the model can"):
        depth(open_stored(tmp_path / "run"))


def test_an_equation_of_what_stayed_inside_a_kernel_says_that_it_is_re_computed():
    answered = {result.name for result in check(ON_TEXT, LM)}
    left = reasons(ON_KERNELS)
    for name in left.keys() & answered:
        assert " It is re-computed in float64 from " in left[name], name
        assert left[name].endswith("so it would be checked against itself."), name
    assert {"res_weights", "moe_scores", "kda_retention", "mla_pattern_sum"} <= left.keys()
    assert left.keys().isdisjoint({"res_mixed", "moe_chosen", "moe_chosen_weight", "kda_read"})


def test_an_equation_that_lacks_what_would_re_compute_its_input_says_so():
    trace = without(ON_KERNELS, "bank")
    said = "inside a Triton kernel, and what would re-compute it was not kept"
    assert said in reasons(trace)["res_mixed"]


def test_asking_for_the_tensor_of_a_re_computed_value_says_how_it_is_had():
    with pytest.raises(LookupError, match="not captured at step 0: it is re-computed in float64"):
        ON_KERNELS.tensor(READ)


def test_the_kernel_of_the_mix_takes_sources_that_stayed_inside_one():
    (ours, theirs) = (
        given_to("attn_res", trace, "layers.2.mlp_res", 1).arrays for trace in (ON_KERNELS, ON_TEXT)
    )
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)


def test_the_kernel_of_the_mix_is_refused_in_words_where_its_sources_cannot_be_had():
    said = "Neither captured in this run nor to be re-computed: layers.2.mlp_res.sources at step 1"
    with pytest.raises(LookupError, match=said):
        given_to("attn_res", without(ON_KERNELS, "bank"), "layers.2.mlp_res", 1)
