"""The kernel of attention to grown keys against the model's in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kernels.mla_prefill import Read, Tiles, attend, attend_with_lse
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often
from tests.parity.triton.references import attention, drawn

LENGTHS = [1, 2, 15, 16, 17, 63, 64, 65, 130]
X, V = 48, 20
SCALE = 0.2
SMALL = Tiles(queries=16, keys=16, warps=4, stages=1)


def case(
    T: int, P: int, B: int = 1, H: int = 2, x: int = X, v: int = V, seed: int = 0
) -> list[Tensor]:
    return [
        drawn(B, H, T, x, seed=seed),
        drawn(B, H, P, x, seed=seed + 1),
        drawn(B, H, P, v, seed=seed + 2),
    ]


def compare(
    qkv: list[Tensor],
    guards: Guards,
    real: Tensor | None = None,
    tiles: Tiles | None = None,
    scale: float = SCALE,
) -> Read:
    mask = None if real is None else guards.copy(real)
    ours = attend_with_lse(*(guards.copy(x) for x in qkv), scale, mask, tiles)
    read, lse = attention(*qkv, scale, real)
    assert_near(ours.read, read)
    wanted = 1e-6 if qkv[0].dtype == torch.float32 else 1e-2
    torch.testing.assert_close(ours.lse.cpu().double(), lse, rtol=wanted, atol=wanted)
    return ours


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("T", LENGTHS)
def test_a_prompt_of_every_length_reads_as_in_the_model(T, dtype, guards: Guards):
    compare([x.to(dtype) for x in case(T, T)], guards)


@pytest.mark.parametrize("past", LENGTHS)
def test_queries_see_every_key_of_the_past(past, guards: Guards):
    compare(case(3, past + 3), guards)


@pytest.mark.parametrize("tiles", [SMALL, Tiles(16, 64, 4, 1), Tiles(64, 16, 4, 1)], ids=str)
@pytest.mark.parametrize(("T", "P"), [(33, 33), (20, 65), (16, 48)])
def test_tiles_of_any_shape_meet_the_diagonal_rightly(T, P, tiles, guards: Guards):
    compare(case(T, P, H=1), guards, tiles=tiles)


@pytest.mark.parametrize(
    ("x", "v"), [(192, 128), (22, 8), (1, 1), (96, 64), (64, 100), (130, 17), (16, 60)]
)
def test_heads_of_any_width_are_read_whole(x, v, guards: Guards):
    compare(case(5, 19, x=x, v=v), guards)


def test_the_heads_of_k3_read_in_half_precision(guards: Guards):
    compare([x.bfloat16() for x in case(65, 65, H=1, x=192, v=128)], guards, scale=192**-0.5)


def test_a_prefill_in_pieces_equals_the_whole(guards: Guards):
    q, k, v = (guards.copy(x) for x in case(65, 65))
    whole = attend_with_lse(q, k, v, SCALE)
    for first in (1, 16, 63):
        pieces = [(0, first), (first, 65)]
        parts = [attend_with_lse(q[:, :, a:b], k[:, :, :b], v[:, :, :b], SCALE) for a, b in pieces]
        assert_near(torch.cat([part.read for part in parts], dim=2), whole.read.double(), 1e-6)
        assert_near(torch.cat([part.lse for part in parts], dim=2), whole.lse.double(), 1e-6)


def test_two_reads_join_by_their_log_sum_exp(guards: Guards):
    q, k, v = (guards.copy(x) for x in case(4, 40))
    whole = attend_with_lse(q, k, v, SCALE)
    mask = guards.copy(torch.zeros(1, 40, dtype=torch.bool))
    mask[:, :23] = True
    # in the second, the first tile holds no key at all
    masks = (mask, guards.copy(~mask))
    parts = [attend_with_lse(q, k, v, SCALE, real, SMALL) for real in masks]
    lse = torch.stack([part.lse for part in parts])
    share = torch.softmax(lse, dim=0)
    read = sum(s[..., None] * part.read for s, part in zip(share, parts, strict=True))
    assert_near(read, whole.read.double(), 1e-6)
    assert_near(lse.logsumexp(0), whole.lse.double(), 1e-6)


def padded(lengths: list[int], columns: int) -> Tensor:
    return torch.arange(columns) < torch.tensor(lengths)[:, None]


def test_padded_sequences_read_as_each_alone(guards: Guards):
    lengths = [1, 16, 17, 40]
    qkv = case(40, 40, B=4)
    ours = compare(qkv, guards, padded(lengths, 40), SMALL)
    for b, length in enumerate(lengths):
        alone = attend_with_lse(*(guards.copy(x[b : b + 1, :, :length]) for x in qkv), SCALE)
        assert_near(ours.read[b : b + 1, :, :length], alone.read.double(), 1e-6)
        assert_near(ours.lse[b : b + 1, :, :length], alone.lse.double(), 1e-6)


def test_padding_in_the_past_is_not_seen(guards: Guards):
    real = torch.cat([padded([5, 20], 20), padded([3, 2], 3)], dim=1)
    compare(case(3, 23, B=2), guards, real)


def test_what_lies_in_the_padding_is_not_read(guards: Guards):
    q, k, v = case(17, 17, B=2)
    real = padded([9, 17], 17)
    clean = attend(*(guards.copy(x) for x in (q, k, v)), SCALE, guards.copy(real))
    k[0, :, 9:], v[0, :, 9:] = float("nan"), float("inf")
    spoilt = attend(*(guards.copy(x) for x in (q, k, v)), SCALE, guards.copy(real))
    assert torch.equal(spoilt, clean)


def test_a_sequence_that_is_no_number_spoils_no_other(guards: Guards):
    q, k, v = case(17, 17, B=3)
    k[1, 0, 3, 5] = float("nan")
    read = attend(*(guards.copy(x) for x in (q, k, v)), SCALE)
    assert_near(read[[0, 2]], attention(q[[0, 2]], k[[0, 2]], v[[0, 2]], SCALE)[0])
    # the other head, and queries before that key, are of the same tiles
    assert read[1, 1].isfinite().all()
    assert read[1, 0, 3:].isnan().all()


def test_a_query_without_a_key_reads_zero_with_no_weight(guards: Guards):
    qkv = [guards.copy(x) for x in case(5, 5, B=2)]
    read, lse = attend_with_lse(*qkv, SCALE, guards.copy(padded([0, 5], 5)))
    assert not read[0].any()
    assert lse[0].isneginf().all()
    assert_near(read[1:], attention(*(x[1:].cpu() for x in qkv), SCALE)[0])


def test_identical_keys_share_their_weight(guards: Guards):
    q, k, v = case(70, 70, H=1)
    k[:] = k[:, :, :1]
    read = compare([q, k, v], guards).read
    mean = v.double().cumsum(2) / torch.arange(1, 71)[:, None]
    assert_near(read, mean)


def test_scores_far_apart_do_not_overflow(guards: Guards):
    q, k, v = case(40, 40)
    compare([1e3 * q, k, v], guards)
    compare([1e-6 * q, k, v], guards)


def test_every_head_reads_its_own_keys(guards: Guards):
    q, k, v = case(9, 9, H=4)
    compare([q, k * torch.tensor([0.0, 1.0, 10.0, -10.0])[:, None, None], v], guards)


def test_one_head_of_keys_may_serve_all_queries(guards: Guards):
    q, k, v = case(9, 20, B=2, H=3)
    one = attend(*(guards.copy(x) for x in (q, k[:, :1], v[:, :1])), SCALE)
    assert_near(one, attention(q, k[:, :1], v[:, :1], SCALE)[0])


def test_queries_and_keys_may_lie_in_other_orders(guards: Guards):
    q, k, v = case(9, 20, B=2)
    by_position = guards.copy(q.transpose(1, 2), gap=16).transpose(1, 2)
    # a cache with room for more positions
    room = guards.copy(torch.cat([k, torch.full_like(k, float("nan"))], dim=2))
    both = guards.copy(torch.cat([torch.full_like(v, float("nan")), v], dim=-1))
    read = attend(by_position, room[:, :, :20], both[..., V:], SCALE)
    assert_near(read, attention(q, k, v, SCALE)[0])


def test_no_queries_read_nothing(guards: Guards):
    q, k, v = (guards.copy(x) for x in case(0, 3))
    read, lse = attend_with_lse(q, k, v, SCALE)
    assert read.shape == (1, 2, 0, V)
    assert lse.shape == (1, 2, 0)


def test_what_makes_no_sense_is_refused():
    q, k, v = case(5, 9)
    with pytest.raises(ValueError, match="10 queries end at the last of only 9 keys"):
        attend(drawn(1, 2, 10, X), k, v, SCALE)
    with pytest.raises(ValueError, match="k has 3 heads, q has 2"):
        attend(q, drawn(1, 3, 9, X), v, SCALE)
    with pytest.raises(ValueError, match=r"v is \(1, 2, 8, 20\), not \(1, 2, 9, 20\)"):
        attend(q, k, v[:, :, :8], SCALE)
    with pytest.raises(ValueError, match=r"the last axis of k is not contiguous"):
        attend(q, k.mT.contiguous().mT, v, SCALE)
    with pytest.raises(ValueError, match=r"q is torch\.float64"):
        attend(q.double(), k, v, SCALE)


def test_a_mask_of_another_shape_or_kind_is_refused(guards: Guards):
    qkv = [guards.copy(x) for x in case(5, 9)]
    with pytest.raises(ValueError, match=r"real is \(1, 8\), not \(1, 9\)"):
        attend(*qkv, SCALE, guards.copy(torch.ones(1, 8, dtype=torch.bool)))
    with pytest.raises(ValueError, match=r"real must be bool, not torch\.float32"):
        attend(*qkv, SCALE, guards.copy(torch.ones(1, 9)))


@drawn_often
@given(
    seed=st.integers(0, 10**6),
    T=st.integers(1, 40),
    past=st.integers(0, 40),
    lengths=st.lists(st.integers(0, 80), min_size=2, max_size=2),
)
def test_any_lengths_read_as_in_the_model(seed, T, past, lengths, guards: Guards):
    P = past + T
    real = padded(lengths, P)
    # columns of the call are filled from its start, those of the past from theirs
    compare(case(T, P, B=2, H=1, x=24, v=8, seed=seed), guards, real, SMALL)
