"""What a run on kernels holds, and what it computes again of that which stays inside them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from model.capture import capture
from model.cost import capture_bytes_by_tap
from model.identities.registry import check
from model.load import build
from model.presets import TINY
from model.trace import Trace, open_trace, run
from tests.kernel_run import is_inside, places_with_a_result_outside_kernels

PROMPT, STEPS = [(7 * i) % 256 for i in range(9)], 1
PLACE = "cuda" if torch.cuda.is_available() else "cpu"
LMS = {name: build(name, device=PLACE, kernels="triton") for name in TINY}


@pytest.fixture(scope="module", params=["expanded", "latent"])
def mla(request):
    return request.param


@pytest.fixture(scope="module", params=TINY)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def trace(name, mla) -> Trace:
    return run(LMS[name], PROMPT, STEPS, mla=mla)


@pytest.fixture(scope="module")
def on_text(name, mla) -> Trace:
    return run(build(name, device=PLACE), PROMPT, STEPS, mla=mla)


def test_the_same_tokens_follow(trace, on_text, device):
    assert trace.token_ids == on_text.token_ids
    assert trace.cache_by_step == on_text.cache_by_step


def test_every_value_of_a_run_on_torch_is_there(trace, on_text, device):
    for step in range(on_text.steps):
        for tap in on_text.names(step):
            ours, theirs = trace.array(tap, step), on_text.array(tap, step)
            if "choice" in trace.taps[tap].dims:
                # experts come in another order
                ours, theirs = np.sort(ours, axis=2), np.sort(theirs, axis=2)
            worst = np.abs(theirs[np.isfinite(theirs)]).max()
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * worst, err_msg=tap)


def test_what_stays_inside_a_kernel_is_recomputed_and_the_rest_is_captured(trace, on_text, device):
    for step in range(on_text.steps):
        for tap in on_text.names(step):
            found = trace.provenance(tap, step)
            assert found.path.startswith("triton: ")
            if on_text.provenance(tap, step).kind == "recomputed" or is_inside(trace, tap, step):
                assert found.kind == "recomputed", tap
                assert found.reason.startswith("re-computed in float64 from")
            else:
                assert found.kind == "captured", tap


def test_what_is_absent_is_absent_for_the_same_reason(trace, on_text, device):
    for step in range(on_text.steps):
        for tap in set(on_text.taps) - set(on_text.names(step)):
            assert trace.provenance(tap, step).kind == "not captured"
            assert trace.provenance(tap, step).reason == on_text.provenance(tap, step).reason


def test_the_equations_of_all_that_leaves_a_kernel_hold(trace, on_text, name, device, measured):
    results = check(trace, LMS[name])
    assert not [(r.name, r.error, r.place) for r in results if not r.passed]
    measured(f"{name} on kernels, {trace.mla}: {len(results)} equations hold")
    assert {r.name: r.places for r in results} == places_with_a_result_outside_kernels(on_text)


def test_the_prediction_is_what_the_taps_then_hold(trace, name, mla, device):
    predicted = capture_bytes_by_tap(
        trace.config, len(PROMPT), STEPS, mla=mla, kernels=LMS[name].kernels
    )
    seen = {tap for step in trace.tensors for tap in step}
    held = {tap: sum(step[tap].nbytes for step in trace.tensors if tap in step) for tap in seen}
    assert predicted == held


@pytest.mark.parametrize(
    ("tap", "step"),
    [
        ("layers.1.mlp_res.scores", 0),
        ("layers.1.block_sparse_moe.gate.scores", 0),
        ("layers.1.self_attn.q", 1),
    ],
)
def test_without_its_inputs_a_value_inside_a_kernel_says_where_it_stayed(tap, step, device):
    kept = replace(run(LMS["tiny-k3"], PROMPT[:5], 1), tensors=({}, {}))
    with pytest.raises(LookupError, match="it stays inside a Triton kernel, and what would re-"):
        kept.array(tap, step)


def test_a_stored_run_on_kernels_answers_what_needs_no_weights(tmp_path, device):
    kept = run(LMS["tiny-k3"], PROMPT[:5], 1)
    kept.save(tmp_path / "run.safetensors")
    opened = open_trace(tmp_path / "run.safetensors")
    assert opened.kernels == "triton"
    tap = "layers.1.self_attn.k"
    np.testing.assert_array_equal(opened.array(tap, 1), kept.array(tap, 1))
    assert opened.provenance(tap, 1).kind == "recomputed"
    with pytest.raises(LookupError, match="inside a Triton kernel"):
        opened.array("layers.1.self_attn.beta", 1)


def test_an_edit_is_refused_since_taps_inside_kernels_would_not_see_it(name, device):
    lm = LMS[name]
    with pytest.raises(ValueError, match="taps inside"), capture(model=lm, edit=lambda t, x: x):
        lm(torch.tensor([PROMPT], device=PLACE))
