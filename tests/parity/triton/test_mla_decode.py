"""The kernels of attention to latents against the model's in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kernels.mla_decode import LEAST_KEYS, parts_for, read_latents, read_latents_with_lse
from kernels.mla_prefill import Read, Tiles
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often
from tests.parity.triton.references import attention, drawn

LENGTHS = [1, 2, 15, 16, 17, 63, 64, 65, 130]
C, R = 48, 20
SCALE = 0.15
SMALL = Tiles(queries=16, keys=16, warps=4, stages=1)


def case(
    P: int, H: int = 3, T: int = 1, B: int = 1, c: int = C, r: int = R, seed: int = 0
) -> list[Tensor]:
    return [
        drawn(B, H, T, c + r, seed=seed),
        drawn(B, P, c, seed=seed + 1),
        drawn(B, P, r, seed=seed + 2),
    ]


def reference(
    q: Tensor, latents: Tensor, shared: Tensor, scale: float, real: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    k = torch.cat([latents, shared], dim=-1)[:, None]
    return attention(q, k, latents[:, None], scale, real)


def compare(
    tensors: list[Tensor],
    guards: Guards,
    real: Tensor | None = None,
    parts: int | None = None,
    tiles: Tiles | None = None,
    scale: float = SCALE,
) -> Read:
    mask = None if real is None else guards.copy(real)
    ours = read_latents_with_lse(*(guards.copy(x) for x in tensors), scale, mask, parts, tiles)
    read, lse = reference(*tensors, scale, real)
    assert_near(ours.read, read)
    wanted = 1e-6 if tensors[0].dtype == torch.float32 else 1e-2
    torch.testing.assert_close(ours.lse.cpu().double(), lse, rtol=wanted, atol=wanted)
    return ours


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("P", LENGTHS)
def test_one_query_reads_latents_of_every_number(P, dtype, guards: Guards):
    compare([x.to(dtype) for x in case(P)], guards)


@pytest.mark.parametrize("H", [1, 2, 16, 17, 64, 96, 128])
def test_any_number_of_heads_is_served(H, guards: Guards):
    compare(case(20, H=H), guards, parts=1)


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("P", [1, 16, 33, 65])
def test_parts_without_a_position_are_not_looked_at(P, parts, guards: Guards):
    compare(case(P), guards, parts=parts, tiles=SMALL)


def test_the_heads_of_k3_read_latents_in_half_precision(guards: Guards):
    tensors = [x.bfloat16() for x in case(70, H=96, c=512, r=64)]
    compare(tensors, guards, parts=2, scale=192**-0.5)


@pytest.mark.parametrize(("c", "r"), [(14, 12), (1, 2), (100, 32)])
def test_latents_of_any_width_are_read_whole(c, r, guards: Guards):
    compare(case(19, c=c, r=r), guards)


@pytest.mark.parametrize("T", [2, 5, 16])
def test_several_queries_see_only_what_precedes_them(T, guards: Guards):
    compare(case(20, T=T), guards, parts=2, tiles=SMALL)
    compare(case(T, T=T), guards)


def test_absorbed_equals_expanded(guards: Guards):
    H, N, V = 3, 24, 16
    q, latents, shared = drawn(2, H, 1, N + R), drawn(2, 33, C), drawn(2, 33, R)
    up_key, up_value = drawn(H, N, C, seed=7).double(), drawn(H, V, C, seed=8).double()
    content, q_shared = q.double().split([N, R], dim=-1)
    absorbed = torch.einsum("bhtn,hnc->bhtc", content, up_key)
    ours = read_latents(
        guards.copy(torch.cat([absorbed, q_shared], dim=-1).float()),
        guards.copy(latents),
        guards.copy(shared),
        SCALE / 10,
    )
    k = torch.einsum("bpc,hnc->bhpn", latents.double(), up_key)
    k = torch.cat([k, shared[:, None].double().expand(-1, H, -1, -1)], dim=-1)
    v = torch.einsum("bpc,hvc->bhpv", latents.double(), up_value)
    expanded, _ = attention(q, k, v, SCALE / 10)
    assert_near(torch.einsum("bhtc,hvc->bhtv", ours.cpu().double(), up_value), expanded, 1e-5)


def padded(lengths: list[int], columns: int) -> Tensor:
    return torch.arange(columns) < torch.tensor(lengths)[:, None]


def test_keys_may_begin_after_whole_tiles_of_padding(guards: Guards):
    real = torch.arange(50) >= 37
    compare(case(50, T=2), guards, real[None], 1, SMALL)


@pytest.mark.parametrize("parts", [1, 4])
def test_padded_sequences_read_as_each_alone(parts, guards: Guards):
    lengths = [1, 16, 17, 40]
    tensors = case(41, B=4)
    real = torch.cat([padded(lengths, 40), torch.ones(4, 1, dtype=torch.bool)], dim=1)
    ours = compare(tensors, guards, real, parts, SMALL)
    q, latents, shared = tensors
    for b, length in enumerate(lengths):
        own = [*range(length), 40]
        alone = [q[b : b + 1], latents[b : b + 1, own], shared[b : b + 1, own]]
        read = read_latents(*(guards.copy(x) for x in alone), SCALE)
        assert_near(ours.read[b : b + 1], read.double(), 1e-6)


def test_what_lies_in_the_padding_is_not_read(guards: Guards):
    q, latents, shared = case(33, B=2)
    real = torch.cat([padded([9, 32], 32), torch.ones(2, 1, dtype=torch.bool)], dim=1)
    clean = compare([q, latents, shared], guards, real, 3, SMALL)
    latents[0, 9:32], shared[0, 9:32] = float("nan"), float("inf")
    given = [guards.copy(x) for x in (q, latents, shared)]
    spoilt = read_latents_with_lse(*given, SCALE, guards.copy(real), 3, SMALL)
    assert torch.equal(spoilt.read, clean.read)
    assert torch.equal(spoilt.lse, clean.lse)


def test_a_sequence_that_is_no_number_spoils_no_other(guards: Guards):
    q, latents, shared = case(33, B=3)
    latents[1, 4, 7] = float("nan")
    given = [guards.copy(x) for x in (q, latents, shared)]
    read, lse = read_latents_with_lse(*given, SCALE, None, 3, SMALL)
    wanted = reference(q[[0, 2]], latents[[0, 2]], shared[[0, 2]], SCALE)
    assert_near(read[[0, 2]], wanted[0])
    assert read[1].isnan().all()
    assert lse[1].isnan().all()


def test_a_query_without_a_key_reads_zero_with_no_weight(guards: Guards):
    given = [guards.copy(x) for x in case(5, B=2)]
    read, lse = read_latents_with_lse(*given, SCALE, guards.copy(padded([0, 5], 5)), 2, SMALL)
    assert not read[0].any()
    assert lse[0].isneginf().all()
    assert_near(read[1:], reference(*(x[1:].cpu() for x in given), SCALE)[0])


def test_identical_latents_are_read_as_they_are(guards: Guards):
    q, latents, shared = case(65)
    latents[:], shared[:] = latents[:, :1], shared[:, :1]
    read = compare([q, latents, shared], guards, parts=3).read
    assert_near(read, latents[:, :1].expand(3, 1, C)[None].double(), 1e-6)


def test_scores_far_apart_do_not_overflow(guards: Guards):
    q, latents, shared = case(65)
    # all weight falls in one part, and the others weigh nothing
    latents[0, 40] *= 30
    compare([100 * q, latents, shared], guards, parts=4, tiles=SMALL)


def test_latents_may_be_the_filled_part_of_a_cache(guards: Guards):
    q, latents, shared = case(17, B=2)
    room = guards.empty(2, 40, C + R)
    room[:, :17, :C], room[:, :17, C:] = guards.copy(latents), guards.copy(shared)
    ours = read_latents(guards.copy(q), room[:, :17, :C], room[:, :17, C:], SCALE)
    assert_near(ours, reference(q, latents, shared, SCALE)[0])


def test_positions_are_cut_only_where_there_are_many(device):
    assert parts_for(1, LEAST_KEYS - 1, device) == 1
    assert parts_for(1, 4 * LEAST_KEYS, device) == 4
    assert parts_for(10**6, 10**6, device) == 1
    assert parts_for(1, 10**9, device) < 10**4


def test_no_queries_read_nothing(guards: Guards):
    read, lse = read_latents_with_lse(*(guards.copy(x) for x in case(9, T=0)), SCALE)
    assert read.shape == (1, 3, 0, C)
    assert lse.shape == (1, 3, 0)


def test_what_makes_no_sense_is_refused():
    q, latents, shared = case(9)
    with pytest.raises(ValueError, match=r"q is \(1, 3, 1, 67\), not \(1, 3, 1, 68\)"):
        read_latents(q[..., 1:], latents, shared, SCALE)
    with pytest.raises(ValueError, match=r"shared is \(1, 8, 20\), not \(1, 9, 20\)"):
        read_latents(q, latents, shared[:, 1:], SCALE)
    with pytest.raises(ValueError, match="10 queries end at the last of only 9 keys"):
        read_latents(drawn(1, 3, 10, C + R), latents, shared, SCALE)


@drawn_often
@given(
    seed=st.integers(0, 10**6),
    P=st.integers(1, 70),
    parts=st.integers(1, 8),
    lengths=st.lists(st.integers(0, 69), min_size=2, max_size=2),
)
def test_any_parts_and_lengths_read_as_in_the_model(seed, P, parts, lengths, guards: Guards):
    real = padded(lengths, P)
    compare(case(P, B=2, c=24, r=8, seed=seed), guards, real, parts, SMALL)
