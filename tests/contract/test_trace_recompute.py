"""What a fast path does not hold is computed again, and equals the recurrence."""

import numpy as np
import pytest
import torch

from model import mla
from model.capture import capture, tap_names
from model.kda import delta_step
from model.load import build
from model.presets import TINY
from model.trace import run
from model.trace_recompute import LIMIT

FAMILY = {name: build(name) for name in TINY}
LM = FAMILY["tiny-k3"]
KDA = "layers.1.self_attn"
MLA = "layers.3.self_attn"
TERMS = ("decayed_state", "recalled", "written", "state", "read")


@pytest.fixture(scope="module")
def trace():
    return run(LM, "x" * 40, new_tokens=2)


@pytest.fixture(scope="module")
def long_trace():
    """Three borders of the KDA state, and more keys than scores are held for."""
    return run(LM, [(7 * i) % 256 for i in range(1100)], keep="all")


def recurrence(trace, path):
    """Every term at every token, from the layer's own step in float64."""
    names = ("q", "k", "v", "log_decay", "beta")
    q, k, v, log_decay, beta = (trace.tensor(f"{path}.{name}").double() for name in names)
    state = torch.zeros(1, q.shape[2], v.shape[-1], k.shape[-1], dtype=torch.float64)
    steps = []
    for t in range(q.shape[1]):
        steps.append(delta_step(q[:, t], k[:, t], v[:, t], log_decay[:, t], beta[:, t], state))
        state = steps[-1].state
    return {n: torch.stack([getattr(s, n) for s in steps], 1).numpy() for n in TERMS}


@pytest.mark.parametrize("name", ["decayed_state", "recalled", "state"])
def test_what_chunks_do_not_hold_equals_the_recurrence(trace, name):
    expected = recurrence(trace, KDA)[name]
    values = trace.array(f"{KDA}.{name}", pos=slice(None))
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    assert trace.provenance(f"{KDA}.{name}", pos=0).kind == "recomputed"


@pytest.mark.parametrize("pos", [0, 511, 512, 513, 1023, 1030, 1099, [1090, 3, 700]])
def test_states_between_borders_equal_the_recurrence(long_trace, pos):
    expected = recurrence(long_trace, KDA)["state"][:, pos]
    values = long_trace.array(f"{KDA}.state", pos=pos)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


def test_a_state_without_a_token_is_the_captured_borders(long_trace):
    assert long_trace.array(f"{KDA}.state").shape == (1, 3, 3, 8, 8)
    assert long_trace.provenance(f"{KDA}.state").kind == "captured"
    at_borders = long_trace.array(f"{KDA}.state", pos=[511, 1023, 1099])
    np.testing.assert_allclose(long_trace.array(f"{KDA}.state"), at_borders, rtol=1e-4, atol=1e-5)


def test_one_head_and_token_is_that_part_of_the_whole(trace):
    whole = trace.array(f"{KDA}.decayed_state")
    part = trace.array(f"{KDA}.decayed_state", pos=17, head=2)
    np.testing.assert_allclose(part, whole[:, 17, 2], rtol=1e-6)
    assert trace.array(f"{KDA}.recalled", pos=slice(3, 5), head=1).shape == (1, 2, 8)


def test_retention_is_the_exponential_of_the_log_decay(trace):
    expected = np.exp(trace.array(f"{KDA}.log_decay"))
    np.testing.assert_allclose(trace.array(f"{KDA}.retention"), expected, rtol=1e-6)


def test_decode_is_captured_and_continues_what_was_re_computed(trace):
    assert trace.provenance(f"{KDA}.decayed_state", step=1).kind == "captured"
    before = trace.array(f"{KDA}.state", pos=-1)
    expected = trace.array(f"{KDA}.retention", 1)[:, 0, :, None] * before
    np.testing.assert_allclose(
        trace.array(f"{KDA}.decayed_state", 1)[:, 0], expected, rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        trace.array(f"{KDA}.state", 1, pos=0),
        trace.array(f"{KDA}.state", 1)[:, 0],
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize("lm", FAMILY.values(), ids=FAMILY)
@pytest.mark.parametrize("name", ["scores", "masked", "pattern"])
def test_rows_of_a_fused_attention_equal_explicit_ones(name, lm, monkeypatch):
    trace = run(lm, [(7 * i) % 256 for i in range(1100)], keep=[f"{MLA}.q", f"{MLA}.k_cached"])
    assert trace.provenance(f"{MLA}.{name}").kind == "recomputed"
    monkeypatch.setattr(mla, "EXPLICIT_KEYS", 4096)
    names = tap_names(lm)
    with capture([f"{MLA}.{name}"], model=lm) as recording:
        lm(torch.tensor([trace.step_ids(0)]))
    explicit = recording.named(names)[f"{MLA}.{name}"].numpy()
    for pos in (0, 600, [5, 1099]):
        values = trace.array(f"{MLA}.{name}", pos=pos, head=1)
        np.testing.assert_allclose(values, explicit[:, 1, pos], rtol=1e-4, atol=1e-5)


def test_an_answer_that_is_too_large_says_how_to_ask_for_less():
    lm = build("k3-mini")
    trace = run(
        lm,
        "x" * 2040,
        keep=[f"layers.0.self_attn.{n}" for n in ("k", "v", "log_decay", "beta", "state")],
    )
    with pytest.raises(ValueError, match="choose fewer tokens"):
        trace.array("layers.0.self_attn.decayed_state", pos=slice(None))
    one = trace.array("layers.0.self_attn.decayed_state", head=0, pos=slice(0, 100))
    assert one.nbytes < LIMIT


def test_without_its_inputs_nothing_is_re_computed():
    trace = run(LM, "abc", keep=["layers.1.self_attn.k"])
    with pytest.raises(LookupError, match="asked to keep 1 name"):
        trace.array(f"{KDA}.recalled")
    assert trace.names() == ["layers.1.self_attn.k"]


@pytest.mark.parametrize("lm", FAMILY.values(), ids=FAMILY)
def test_a_dropped_expert_hidden_is_re_computed_from_the_weights(lm):
    trace, name = run(lm, "x" * 40), "layers.2.block_sparse_moe.expert_hidden"
    # without a latent the experts read the stream itself
    read = "block_sparse_moe.latent" if lm is LM else "post_attention_layernorm.normed"
    few = run(lm, "x" * 40, keep=[f"layers.2.{read}", "layers.2.block_sparse_moe.gate.chosen"])
    assert few.provenance(name).kind == "recomputed"
    assert read.removeprefix("block_sparse_moe.") in few.provenance(name).reason
    np.testing.assert_allclose(few.array(name), trace.array(name), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        few.array(name, pos=3), trace.array(name)[:, 3], rtol=1e-4, atol=1e-6
    )
