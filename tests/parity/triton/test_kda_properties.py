"""What holds of the delta rule whatever is drawn: where prompts are cut, and who is beside whom."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.kda_chunk import kda_prefill
from kernels.kda_step import kda_step
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.kda_references import GATES, draw, reference
from tests.parity.triton.properties import drawn_often

WIDTHS = (16, 24)
ROWS = ("q", "k", "v", "gate_logit", "beta_logit")


@drawn_often
@given(
    cuts=st.lists(st.integers(1, 33), min_size=2, max_size=3),
    bound=st.sampled_from(list(GATES.values())),
    seed=st.integers(0, 999),
)
def test_any_cut_of_a_prompt_gives_the_same_reads_and_memory(cuts, bound, seed, guards: Guards):
    whole = draw(sum(cuts), heads=1, widths=WIDTHS, bound=bound, seed=seed).guarded(guards)
    wanted, kept = kda_prefill(**whole)
    reads, state, start = [], whole["state"], 0
    for cut in cuts:
        part = {name: whole[name][:, start : start + cut] for name in ROWS}
        read, state = kda_prefill(**whole | part | {"state": state})
        reads.append(read)
        start += cut
    assert_near(torch.cat(reads, 1), wanted)
    assert_near(state, kept)


@drawn_often
@given(
    lengths=st.lists(st.integers(0, 33), min_size=2, max_size=2),
    bound=st.sampled_from(list(GATES.values())),
    seed=st.integers(0, 999),
)
def test_any_order_of_sequences_gives_each_the_same(lengths, bound, seed, guards: Guards):
    raw = draw(33, batch=len(lengths), heads=1, widths=WIDTHS, bound=bound, seed=seed)
    raw.lengths = torch.tensor(lengths)
    held = raw.guarded(guards)
    read, state = kda_prefill(**held)
    order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed))
    moved = {name: guards.copy(held[name][order]) for name in (*ROWS, "state", "lengths")}
    again, after = kda_prefill(**held | moved)
    assert torch.equal(again, read[order])
    assert torch.equal(after, state[order])


@drawn_often
@given(
    pos=st.integers(1, 50),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
    rate=st.floats(-4.0, 3.0),
    bound=st.sampled_from(list(GATES.values())),
    seed=st.integers(0, 999),
)
def test_any_gate_and_any_scale_equal_the_recurrence(pos, scale, rate, bound, seed, guards: Guards):
    raw = draw(pos, heads=1, widths=WIDTHS, bound=bound, seed=seed)
    raw.gate_logit, raw.beta_logit = raw.gate_logit * scale, raw.beta_logit * scale
    raw.k, raw.A_log = raw.k * scale, torch.tensor([rate])
    held = raw.guarded(guards)
    read, state = kda_prefill(**held)
    wanted, kept = reference(held)
    assert_near(read, wanted)
    assert_near(state, kept)


@drawn_often
@given(
    pos=st.integers(1, 5),
    widths=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    bound=st.sampled_from(list(GATES.values())),
    seed=st.integers(0, 999),
)
def test_any_number_of_steps_is_the_prompt_of_as_many_rows(
    pos, widths, bound, seed, guards: Guards
):
    whole = draw(pos, heads=1, widths=widths, bound=bound, seed=seed).guarded(guards)
    wanted, kept = kda_prefill(**whole)
    state = whole["state"]
    for t in range(pos):
        row = {name: whole[name][:, t : t + 1] for name in ROWS}
        read, state = kda_step(**whole | row | {"state": state})
        assert_near(read, wanted[:, t : t + 1])
    assert_near(state, kept)
