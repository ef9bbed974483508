"""One answer however a prompt is cut into calls, and whatever stands beside it in a batch."""

from functools import cache
from itertools import pairwise

import pytest
import torch

from model.init import give_storage
from model.kda import delta_rule
from model.kimi import KimiLM
from model.load import build
from model.presets import TINY

BOUNDS = {"float32": 1e-4, "float64": 1e-9}
SHORT = (1, 2, 15, 16, 17)
LONG = (63, 64, 65, 130)


@cache
def tiny(dtype, name="tiny-k3"):
    return build(name, seed=3, dtype=dtype)


@cache
def prompt(length, batch=1):
    return torch.randint(0, 256, (batch, length), generator=torch.Generator().manual_seed(length))


def distance(a, b):
    return float((a - b).abs().max() / b.abs().max())


def in_pieces(lm, ids, borders, mla="expanded"):
    kept = lm.new_cache(batch=len(ids), mla=mla)
    edges = [0, *borders, ids.shape[1]]
    pieces = [lm(ids[:, a:b], kept) for a, b in pairwise(edges) if b > a]
    return torch.cat(pieces, dim=1), kept


every_model = pytest.mark.parametrize("name", TINY)


@every_model
@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("length", SHORT)
def test_a_short_prompt_can_be_cut_anywhere(length, dtype, mla, name):
    lm, ids = tiny(dtype, name), prompt(length)
    whole = lm(ids)
    for split in range(length):
        pieces, _ = in_pieces(lm, ids, [split], mla)
        assert distance(pieces, whole) <= BOUNDS[dtype], split


@every_model
@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("length", [*SHORT, *LONG])
def test_decoding_token_by_token_equals_prefill(length, dtype, mla, name):
    lm, ids = tiny(dtype, name), prompt(length, batch=2)
    pieces, kept = in_pieces(lm, ids, range(1, length), mla)
    assert distance(pieces, lm(ids)) <= BOUNDS[dtype]
    assert kept.positions == length


@every_model
@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("length", LONG)
def test_a_long_prompt_can_be_cut_near_a_chunk_border(length, dtype, mla, name):
    lm, ids = tiny(dtype, name), prompt(length)
    whole = lm(ids)
    for split in (1, 15, 16, 17, 31, 32, 33, 62):
        assert distance(in_pieces(lm, ids, [split], mla)[0], whole) <= BOUNDS[dtype], split


@every_model
@pytest.mark.parametrize("split", [511, 512, 513])
def test_a_prompt_longer_than_a_segment_can_be_cut(split, name):
    lm, ids = tiny("float64", name), prompt(530)
    assert distance(in_pieces(lm, ids, [split])[0], lm(ids)) <= BOUNDS["float64"]


@every_model
def test_more_keys_than_are_scored_explicitly_give_the_same_read(monkeypatch, name):
    lm, ids = tiny("float64", name), prompt(65)
    whole, pieces = lm(ids), in_pieces(lm, ids, [64])[0]
    monkeypatch.setattr("model.mla.EXPLICIT_KEYS", 8)
    assert distance(lm(ids), whole) <= BOUNDS["float64"]
    for mla in ("expanded", "latent"):
        assert distance(in_pieces(lm, ids, [30, 64], mla)[0], pieces) <= BOUNDS["float64"]


@every_model
@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_a_right_padded_batch_equals_each_sequence_alone(dtype, mla, name):
    lm, lengths = tiny(dtype, name), [3, 17, 40, 1]
    ids = prompt(40, batch=4)
    kept = lm.new_cache(batch=4, mla=mla)
    padded = lm(ids, kept, torch.tensor(lengths))
    after = prompt(5, batch=4)
    decoded = [lm(after[:, t : t + 1], kept) for t in range(3)] + [lm(after[:, 3:], kept)]
    for row, length in enumerate(lengths):
        alone = lm.new_cache(mla=mla)
        first = lm(ids[row : row + 1, :length], alone)
        assert distance(padded[row : row + 1, :length], first) <= BOUNDS[dtype]
        rest = lm(after[row : row + 1], alone)
        assert distance(torch.cat(decoded, 1)[row : row + 1], rest) <= BOUNDS[dtype]


@pytest.mark.parametrize("name", ["tiny-k3", "tiny-kimi-linear"])
def test_padding_never_touches_the_memory(name):
    lm, lengths = tiny("float64", name), torch.tensor([5, 9])
    kept, other = lm.new_cache(2), lm.new_cache(2)
    ids = prompt(9, batch=2)
    lm(ids, kept, lengths)
    ids = ids.clone()
    ids[0, 5:] = 7
    lm(ids, other, lengths)
    for mine, theirs in zip(kept.layers, other.layers, strict=True):
        if mine.kind == "kda":
            for part, tensor in mine.tensors().items():
                # padding may share a matrix product with tokens, which rounds differently then
                assert distance(tensor, theirs.tensors()[part]) <= 1e-12, part


def test_the_last_logits_alone_are_those_of_the_last_token_of_each_sequence():
    lm, ids = tiny("float32"), prompt(16, batch=2)
    every = lm(ids, lengths=torch.tensor([4, 16]))
    last = lm(ids, lengths=torch.tensor([4, 16]), logits="last")
    torch.testing.assert_close(last, torch.stack([every[0, 3:4], every[1, 15:16]]))


def test_logits_are_float32_or_wider():
    assert build("tiny-k3", dtype="bfloat16")(prompt(5)).dtype == torch.float32
    assert tiny("float64")(prompt(5)).dtype == torch.float64


def test_a_bfloat16_model_follows_the_float32_one():
    rough = build("tiny-k3", seed=3, dtype="bfloat16")
    a, b = rough(prompt(17)), tiny("float32")(prompt(17))
    assert float((a - b).norm() / b.norm()) < 0.2


@pytest.mark.parametrize(
    ("lengths", "words"),
    [([0, 3], "from 1 to 4"), ([5, 3], "from 1 to 4"), ([3], "2 values")],
)
def test_impossible_lengths_are_refused_in_words(lengths, words):
    with pytest.raises(ValueError, match=words):
        tiny("float32")(prompt(4, batch=2), lengths=torch.tensor(lengths))


def test_a_cache_of_another_batch_is_refused():
    lm = tiny("float32")
    with pytest.raises(ValueError, match="batch of 3, not of 2"):
        lm(prompt(4, batch=2), lm.new_cache(3))


@every_model
def test_every_parameter_but_those_that_never_run_learns(name):
    lm = build(name, dtype="float64").requires_grad_(True)
    ids = prompt(70, batch=2)
    lm(ids).log_softmax(-1)[..., 7].sum().backward()
    idle = {name for name, p in lm.named_parameters() if p.grad is None or not p.grad.any()}
    biases = {n for n, _ in lm.named_parameters() if n.endswith("e_score_correction_bias")}
    unread = {n for n, _ in lm.named_parameters() if n.startswith("layers.0.self_attention_res.")}
    assert idle == biases | unread


def test_gradients_of_chunks_are_those_of_the_recurrence():
    chunked = build("tiny-k3", dtype="float64").requires_grad_(True)
    row_by_row = KimiLM(chunked.config, recurrence=delta_rule)
    give_storage(row_by_row, "cpu", torch.float64)
    row_by_row.load_state_dict(chunked.state_dict())
    row_by_row.requires_grad_(True)
    for lm in (chunked, row_by_row):
        lm(prompt(40)).square().mean().backward()
    theirs = dict(row_by_row.named_parameters())
    for name, parameter in chunked.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, theirs[name].grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("ids", "logits", "said"),
    [
        ([[1, -1]], "all", "run from -1 to 1"),
        ([[1, 320]], "all", "0 to 319"),
        ([[]], "all", "each >= 1"),
        ([1, 2], "all", "each >= 1"),
        ([[1, 2]], "x", "'all' positions or the 'last'"),
    ],
    ids=["negative", "beyond the vocabulary", "no token", "no batch", "unknown choice"],
)
def test_a_call_that_means_nothing_is_refused_in_words(ids, logits, said):
    with pytest.raises(ValueError, match=said):
        tiny("float32")(torch.tensor(ids, dtype=torch.int64), logits=logits)
