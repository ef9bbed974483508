"""A run says what it leaves out to stay within its budget."""

import dataclasses

import numpy as np
import pytest

from model.cost import capture_bytes_by_tap
from model.limits import RUN_BYTES
from model.load import build
from model.presets import TINY
from model.run_budget import EXPERTS, SEEN_FIRST, plan
from model.trace import run
from model.trace_data import tap_facts

FAMILY = {name: build(name) for name in TINY}
LM = FAMILY["tiny-k3"]


def held(trace):
    """Bytes that each tap's own tensors take, over all steps."""
    seen = {name for step in trace.tensors for name in step}
    return {n: sum(step[n].nbytes for step in trace.tensors if n in step) for n in seen}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_prediction_knows_what_stays_wide(dtype):
    trace = run(build("tiny-k3", dtype=dtype), [3] * 9, new_tokens=2)
    assert capture_bytes_by_tap(trace.config, 9, 2, dtype=dtype) == held(trace)


@pytest.mark.parametrize("lm", FAMILY.values(), ids=FAMILY)
@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize(("tokens", "new"), [(1, 0), (1, 2), (40, 2), (600, 1), (1030, 1)])
def test_the_prediction_is_what_the_taps_then_hold(tokens, new, mla, lm):
    trace = run(lm, [3] * tokens, new_tokens=new, mla=mla)
    predicted = capture_bytes_by_tap(trace.config, tokens, new, mla=mla)
    assert predicted == held(trace)
    assert trace.bytes <= sum(predicted.values())


def test_a_plain_prompt_stays_under_the_default():
    lm = build("k3-mini")
    sizes = capture_bytes_by_tap(lm.config, 256, 16)
    assert sum(sizes.values()) < RUN_BYTES


def test_over_the_budget_squares_go_first_and_their_rows_are_re_computed():
    whole = run(LM, "x" * 200)
    name = "layers.3.self_attn.pattern"
    tight = run(LM, "x" * 200, budget=whole.bytes * 9 // 10)
    assert tight.provenance(name).kind == "recomputed"
    np.testing.assert_allclose(
        tight.array(name, pos=[7, 150], head=1),
        whole.array(name)[:, 1, [7, 150]],
        rtol=1e-4,
        atol=1e-6,
    )
    assert "can be asked for alone" in tight.notices[0]


def test_far_over_the_budget_what_is_left_out_says_so_and_can_be_asked_for_alone():
    tight = run(LM, "x" * 200, budget=400_000)
    assert tight.bytes <= 400_000
    left_out = [name for name in tight.taps if name not in tight.names()]
    name = "layers.1.self_attn.q"
    assert name in left_out
    with pytest.raises(LookupError, match="not captured: over the budget"):
        tight.array(name)
    assert tight.provenance(name).kind == "not captured"
    alone = run(LM, "x" * 200, budget=400_000, keep=name)
    assert alone.array(name).shape == (1, 201, 3, 8)
    assert alone.run_id == tight.run_id


@pytest.mark.parametrize(("tokens", "new"), [(2_048, 4), (2_048, 256), (1_024, 256)])
def test_the_longest_runs_still_keep_what_first_pages_show(tokens, new):
    lm = build("k3-mini")
    taps = tap_facts(lm)
    sizes = capture_bytes_by_tap(lm.config, tokens, new)
    made = plan(taps, sizes, list(taps), RUN_BYTES)
    assert made.kept <= RUN_BYTES < made.predicted
    kinds = {f"{taps[name].owner}.{name.rpartition('.')[2]}" for name in made.left_out}
    assert kinds >= EXPERTS
    if new == 4:
        assert not kinds & SEEN_FIRST


def test_names_of_what_first_pages_show_are_names_of_taps():
    kinds = {f"{t.owner}.{name.rpartition('.')[2]}" for name, t in tap_facts(LM).items()}
    assert kinds >= SEEN_FIRST | EXPERTS


def test_under_the_budget_nothing_is_noticed():
    assert run(LM, "abc").notices == ()


def test_every_tap_of_a_plain_residual_model_is_predicted():
    config = dataclasses.replace(LM.config, attn_res_block_size=None, q_lora_rank=None)
    lm = build(config)
    trace = run(lm, "abc", new_tokens=1)
    assert capture_bytes_by_tap(config, 4, 1) == held(trace)
