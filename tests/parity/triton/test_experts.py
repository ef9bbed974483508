"""The kernel of the routed experts against the model's in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kernels.experts import Matrices, Tiles, sort_by_expert, through_experts
from model.quantized import mxfp4
from tests.parity.triton.closeness import assert_near
from tests.parity.triton.guards import Guards
from tests.parity.triton.properties import drawn_often
from tests.parity.triton.references import drawn, of_experts

E, F, Z = 7, 96, 64
ACTIVATIONS = {"situ": (4.0, 25.0), "situ without a cap on up": (4.0, None), "swiglu": (None, None)}
activations = pytest.mark.parametrize(
    ("beta", "linear_beta"), ACTIVATIONS.values(), ids=list(ACTIVATIONS)
)
SMALL = Tiles(rows=16, columns=64, depth=64, warps=4, stages=1)
LARGE = Tiles(rows=64, columns=128, depth=256, warps=4, stages=1)


def routed(tokens: int, choices: int, seed: int = 0, experts: int = E) -> Tensor:
    """Different experts for each token, none of them the fourth."""
    scores = drawn(tokens, experts, seed=seed)
    scores[:, 3] = -torch.inf
    return scores.topk(choices).indices


def dense(seed: int = 0, e: int = E, f: int = F, z: int = Z) -> list[Tensor]:
    """Gate, down and up."""
    shapes = [(e, f, z), (e, z, f), (e, f, z)]
    return [3 * drawn(*s, seed=seed + i) / s[-1] ** 0.5 for i, s in enumerate(shapes)]


def packed(seed: int = 0, e: int = E, f: int = F, z: int = Z) -> list[tuple[Tensor, Tensor]]:
    drawing = torch.Generator().manual_seed(seed)

    def one(out: int, width: int) -> tuple[Tensor, Tensor]:
        codes = torch.randint(0, 256, (e, out, width // 2), dtype=torch.uint8, generator=drawing)
        shape = (e, out, width // 32)
        return codes, torch.randint(120, 125, shape, dtype=torch.uint8, generator=drawing)

    return [one(f, z), one(z, f), one(f, z)]


def guarded(matrices: Matrices, guards: Guards) -> Matrices:
    if isinstance(matrices, tuple):
        return guards.copy(matrices[0]), guards.copy(matrices[1])
    return guards.copy(matrices)


def compare(
    z: Tensor,
    chosen: Tensor,
    matrices: list[Tensor] | list[tuple[Tensor, Tensor]],
    guards: Guards,
    beta: float | None = 4.0,
    linear_beta: float | None = 25.0,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor]:
    w1, w2, w3 = (guarded(m, guards) for m in matrices)
    options = {"beta": beta, "linear_beta": linear_beta, "tiles": tiles}
    hidden, out = through_experts(guards.copy(z), chosen.to(guards.device), w1, w2, w3, **options)
    numbers = [mxfp4(*m) if isinstance(m, tuple) else m for m in matrices]
    wanted = of_experts(z, chosen, *numbers, beta, linear_beta)
    assert_near(hidden, wanted[0])
    assert_near(out, wanted[1])
    return hidden, out


@pytest.mark.parametrize("make", [dense, packed], ids=["dense", "mxfp4"])
@activations
def test_experts_equal_the_model(beta, linear_beta, make, guards: Guards):
    compare(2 * drawn(13, Z), routed(13, 3), make(), guards, beta, linear_beta)


@pytest.mark.parametrize("tokens", [1, 2, 15, 16, 17, 65])
def test_any_number_of_tokens_is_served(tokens, guards: Guards):
    compare(drawn(tokens, Z), routed(tokens, 2), dense(), guards, tiles=SMALL)


@pytest.mark.parametrize("make", [dense, packed], ids=["dense", "mxfp4"])
@pytest.mark.parametrize("tiles", [SMALL, LARGE], ids=["small", "large"])
def test_tiles_of_any_shape_meet_the_ends_rightly(tiles, make, guards: Guards):
    # neither width is a multiple of a tile, and both are multiples of a group
    compare(drawn(9, 160), routed(9, 2), make(f=96, z=160), guards, tiles=tiles)


@pytest.mark.parametrize(("f", "z"), [(1, 1), (60, 100), (17, 33)])
def test_dense_matrices_may_have_any_width(f, z, guards: Guards):
    compare(drawn(5, z), routed(5, 2), dense(f=f, z=z), guards)


@pytest.mark.parametrize("make", [dense, packed], ids=["dense", "mxfp4"])
def test_experts_equal_the_model_in_half_precision(make, guards: Guards):
    matrices = make()
    if make is dense:
        matrices = [m.bfloat16() for m in matrices]
    compare(drawn(40, Z).bfloat16(), routed(40, 2), matrices, guards)


def test_matrices_may_lie_column_by_column_as_the_model_keeps_them(guards: Guards):
    w1, w2, w3 = (guards.copy(m.mT.contiguous()).mT for m in dense())
    assert w1.stride(1) == 1
    z, chosen = drawn(9, Z), routed(9, 2)
    _, out = through_experts(
        guards.copy(z), chosen.to(guards.device), w1, w2, w3, beta=4.0, linear_beta=25.0
    )
    assert_near(out, of_experts(z, chosen, *dense(), 4.0, 25.0)[1])


def test_all_tokens_may_choose_one_expert(guards: Guards):
    compare(drawn(40, Z), torch.full((40, 1), 5), dense(), guards, tiles=SMALL)


def test_one_token_may_choose_every_expert(guards: Guards):
    compare(drawn(1, Z), torch.arange(E).flip(0)[None], packed(), guards)


def test_every_expert_has_its_own_matrices(guards: Guards):
    matrices = dense()
    matrices[1] *= torch.logspace(-3, 3, E)[:, None, None]
    z = drawn(1, Z).expand(E, -1)
    _, out = compare(z, torch.arange(E)[:, None], matrices, guards)
    sizes = out[:, 0].norm(dim=-1).cpu()
    assert (sizes.diff() > 0).all()


def test_a_token_that_is_no_number_spoils_no_other_token(guards: Guards):
    z, chosen = drawn(20, Z), torch.full((20, 1), 2)
    z[6, 11] = float("nan")
    _, out = compare(z, chosen, dense(), guards)
    assert out.isnan().flatten(1).all(-1).nonzero().flatten().tolist() == [6]


def test_an_expert_that_nobody_chose_is_not_read(guards: Guards):
    matrices, z, chosen = dense(), drawn(9, Z), routed(9, 3)
    for m in matrices:
        m[3] = float("nan")
    _, out = compare(z, chosen, matrices, guards)
    assert out.isfinite().all()


def test_a_scale_that_is_no_number_shows_in_its_column_alone(guards: Guards):
    matrices = packed()
    matrices[1][1][:, 11, 2] = 255
    _, out = compare(drawn(9, Z), routed(9, 2), matrices, guards)
    assert out.isnan().flatten(0, 1).all(0).nonzero().flatten().tolist() == [11]


def test_tokens_may_be_rows_of_a_wider_tensor(guards: Guards):
    z, chosen = drawn(9, Z), routed(9, 2)
    w1, w2, w3 = (guards.copy(m) for m in dense())
    _, out = through_experts(
        guards.copy(z, gap=32), chosen.to(guards.device), w1, w2, w3, beta=4.0, linear_beta=25.0
    )
    assert_near(out, of_experts(z, chosen, *dense(), 4.0, 25.0)[1])


def test_no_tokens_come_out_as_none(guards: Guards):
    w1, w2, w3 = (guards.copy(m) for m in dense())
    chosen = torch.empty(0, 2, dtype=torch.int64, device=guards.device)
    hidden, out = through_experts(guards.empty(0, Z), chosen, w1, w2, w3)
    assert hidden.shape == (0, 2, F)
    assert out.shape == (0, 2, Z)


def test_what_makes_no_sense_is_refused():
    z, chosen = drawn(5, Z), routed(5, 2)
    w1, w2, w3 = dense()
    codes, scale = packed()[1]
    with pytest.raises(ValueError, match=r"w2 is \(7, 64, 95\), not \(7, 64, 96\)"):
        through_experts(z, chosen, w1, w2[..., 1:], w3)
    with pytest.raises(ValueError, match="w1 and w2 must both be packed, or neither"):
        through_experts(z, chosen, w1, (codes, scale), w3)
    with pytest.raises(ValueError, match=r"w2 has scales \(7, 64, 2\) for 96 columns"):
        through_experts(z, chosen, packed()[0], (codes, scale[..., 1:]), packed()[2])
    with pytest.raises(ValueError, match=r"must be contiguous uint8, not torch\.int8"):
        through_experts(z, chosen, packed()[0], (codes.view(torch.int8), scale), packed()[2])
    with pytest.raises(ValueError, match=r"chosen must be int64 .* not torch\.int32 2-d"):
        through_experts(z, chosen.int(), w1, w2, w3)
    with pytest.raises(ValueError, match=r"w3 is torch\.float64, not float32"):
        through_experts(z, chosen, w1, w2, w3.double())
    with pytest.raises(ValueError, match=r"z is \(4, 64\), not \(5, 64\)"):
        through_experts(z[1:], chosen, w1, w2, w3)


@drawn_often
@given(
    seed=st.integers(0, 10**6),
    tokens=st.integers(1, 50),
    choices=st.integers(1, 6),
    rows=st.sampled_from([1, 16, 64]),
)
def test_every_pair_is_in_one_tile_of_its_expert(seed, tokens, choices, rows):
    chosen = routed(tokens, choices, seed)
    by_expert = sort_by_expert(chosen, E, rows)
    flat = chosen.flatten()
    seen = []
    for tile, expert in enumerate(by_expert.expert.tolist()):
        if expert == E:
            continue
        first = int(by_expert.first_row[expert])
        first += (tile - int(by_expert.first_tile[expert])) * rows
        last = min(first + rows, int(by_expert.first_row[expert + 1]))
        pairs = by_expert.order[first:last]
        assert len(pairs)
        assert (flat[pairs] == expert).all()
        seen += pairs.tolist()
    assert sorted(seen) == list(range(tokens * choices))


@drawn_often
@given(seed=st.integers(0, 10**6), tokens=st.integers(2, 7))
def test_tokens_in_another_order_come_out_in_that_order(seed, tokens, guards: Guards):
    z, chosen = guards.copy(drawn(tokens, 32, seed=seed)), routed(tokens, 2, seed)
    w1, w2, w3 = (guards.copy(m) for m in dense(f=16, z=32))
    chosen = chosen.to(guards.device)
    order = torch.randperm(tokens, generator=torch.Generator().manual_seed(seed))
    order = order.to(guards.device)
    hidden, out = through_experts(z, chosen, w1, w2, w3, tiles=SMALL)
    again = through_experts(guards.copy(z[order]), chosen[order], w1, w2, w3, tiles=SMALL)
    assert_near(again[0], hidden[order].double(), 1e-6)
    assert_near(again[1], out[order].double(), 1e-6)
