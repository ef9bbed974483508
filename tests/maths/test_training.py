"""Training: its paths compute what the model computes, a state goes on to the bit, losses fall."""

import math
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from model.attn_res import AttnResidual
from model.capture import capture
from model.config import KimiConfig
from model.kda import delta_rule
from model.load import build
from model.presets import hf, preset
from model.training.balance import balance, balanced_bias, gates, real_scores
from model.training.gradient import HALVES, flat, half, spread, trained, weighted_loss
from model.training.helper import Helper
from model.training.loop import STATE, Training
from model.training.paths import take_training_paths
from model.training.recipe import K3_MINI, Recipe, Stage
from model.training.recurrence import middle_delta_rule
from model.training.start import FIRST, PASSING, model_to_train
from model.training.vocabulary import word_tokenizer
from model.training.weights_in_row import Optimizer, Row

SHORT = Recipe(
    stages=(
        Stage(tokens=4800, batch=300, pos=50, pages={"copying": 1, "world": 1}),
        Stage(tokens=2400, batch=300, pos=100, pages={"brackets": 1, "facts": 1}),
    ),
    peak=3.5e-3,
    warm_up=4,
)


@pytest.fixture(scope="module")
def config() -> KimiConfig:
    """Every kind of layer, four layers deep, with the vocabulary of the corpus."""
    text = hf("tiny-k3") | {"vocab_size": len(word_tokenizer())}
    tokens = {"bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258}
    return KimiConfig.from_hf(text | tokens)


# the recurrence


@pytest.mark.parametrize("steepness", [-0.01, -1.0, -5.0])
@pytest.mark.parametrize("pos", [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130])
def test_the_recurrence_of_training_is_the_delta_rule(pos, steepness):
    made = [x.double() for x in terms(pos, steepness)]
    want, got = delta_rule(*made), middle_delta_rule(*made)
    torch.testing.assert_close(got.read, want.read)
    torch.testing.assert_close(got.written, want.written)
    torch.testing.assert_close(got.borders[:, -1], want.borders[:, -1])


@pytest.mark.parametrize("steepness", [-0.01, -1.0, -5.0])
def test_its_gradients_are_those_of_the_delta_rule_however_steep_the_decay(steepness):
    def gradients(rule, dtype):
        given = [x.to(dtype).requires_grad_() for x in terms(70, steepness)]
        result = rule(*given)
        (result.read.cos().sum() + result.borders[:, -1].sin().sum()).backward()
        return [x.grad.double() for x in given]

    exact = gradients(delta_rule, torch.float64)
    for want, got in zip(exact, gradients(middle_delta_rule, torch.float32), strict=True):
        # the gradient of a decay that leaves nothing is a difference of nearly equal sums
        bound = 1e-3 if steepness == -5.0 else 1e-5
        assert rms(got - want) <= bound * rms(want)


def terms(pos: int, steepness: float) -> tuple[torch.Tensor, ...]:
    """Of two sequences and three heads; keys and values of unlike widths."""
    draw = torch.Generator().manual_seed(pos)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(2, *shape, generator=draw)

    q, k = (x / x.norm(dim=-1, keepdim=True) for x in (normal(pos, 3, 12), normal(pos, 3, 12)))
    steep = steepness * torch.ones(2, pos, 3, 12)
    return q, k, normal(pos, 3, 20), steep, normal(pos, 3).sigmoid(), normal(3, 20, 12)


def rms(x: torch.Tensor) -> float:
    return float(x.square().mean().sqrt())


# the paths


@pytest.mark.parametrize("pos", [2, 16, 65])
def test_training_computes_the_logits_of_inference(config, pos):
    reading, training = build(config, seed=1), build(config, seed=1)
    take_training_paths(training)
    for layer in training.layers:
        if hasattr(layer.self_attn, "recurrence"):
            layer.self_attn.recurrence = middle_delta_rule
    ids = torch.randint(len(word_tokenizer()), (2, pos), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        want, got = reading(ids), training(ids)
        assert rms(got - want) <= 1e-5 * rms(want)
        # and decoding, which neither path is made for, agrees with both
        cache = reading.new_cache()
        step = [reading(ids[:1, t : t + 1], cache)[:, 0] for t in range(pos)]
        assert rms(torch.stack(step, 1) - got[:1]) <= 1e-5 * rms(want)


def test_training_paths_refuse_a_cache_and_padding(config):
    lm = model_to_train(config, 0)
    ids = torch.zeros(2, 4, dtype=torch.long)
    with pytest.raises(ValueError, match="whole rows"):
        lm(ids, lengths=torch.tensor([4, 3]))


def test_every_parameter_but_the_routers_biases_gets_a_gradient(config):
    lm = model_to_train(config, 0)
    # residual queries start at zero, where the scale of their keys cannot matter yet
    with torch.no_grad():
        for name, parameter in lm.named_parameters():
            if name.endswith("_res.proj.weight"):
                parameter.normal_(generator=torch.Generator().manual_seed(1))
    ids = torch.randint(len(word_tokenizer()), (4, 64), generator=torch.Generator().manual_seed(0))
    lm(ids).square().mean().backward()
    for name, parameter in lm.named_parameters():
        # nothing stands behind layer 0 that its mixer could read
        if (name.endswith("bias") and "gate" in name) or "layers.0.self_attention_res" in name:
            assert parameter.grad is None
        else:
            assert parameter.grad is not None, name
            assert bool(parameter.grad.any()), name


# the start


def test_residual_queries_start_at_zero_so_that_every_source_counts_alike(config):
    lm = model_to_train(config, 0)
    names = [n for n in dict(lm.named_modules()) if n.endswith(("_res", "output_attn_res"))]
    wanted = [f"{name}.weights" for name in names if name != "layers.0.self_attention_res"]
    for part in lm.modules():
        if isinstance(part, AttnResidual):
            # the path of training never forms weights for a tap
            del vars(part)["read_sources"]
    with torch.no_grad(), capture(wanted, model=lm) as recording:
        lm(torch.zeros(1, 3, dtype=torch.long))
    assert len(recording.tensors) == len(wanted)
    for weights in recording.tensors.values():
        assert weights.unique().tolist() == pytest.approx([1 / weights.shape[-1]])


@pytest.mark.parametrize("head", range(len(PASSING)))
def test_heads_of_the_first_layer_start_by_passing_on_what_came_before(head):
    config = preset("k3-mini")
    lm = model_to_train(config, 0)
    mixer = lm.layers[0].self_attn
    width, back = config.linear_attn_config.head_dim, FIRST[head][1]
    value = mixer.v_proj.weight.unflatten(0, (mixer.heads, width))[head]
    ids = torch.randint(259, config.vocab_size, (8, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), capture(["layers.0.self_attn.read"], model=lm) as recording:
        lm(ids)
        read = recording.tensors[mixer.read][:, :, head]
        x = F.rms_norm(lm.embed_tokens.weight[ids], (config.hidden_size,))
        passed = F.silu(x @ value.T)
    same = [
        F.cosine_similarity(read[:, 3:], passed[:, 3 - lag : 40 - lag], dim=-1).mean()
        for lag in range(4)
    ]
    assert max(range(4), key=same.__getitem__) == back
    assert same[back] > 2 * sorted(same)[-2]


def test_a_seed_starts_the_same_weights(config):
    first, again, other = (model_to_train(config, seed) for seed in (1, 1, 2))
    assert first.weights_hash == again.weights_hash != other.weights_hash


# balancing


def slow_bias(scores: list[list[float]], bias: list[float], chosen: int) -> list[float]:
    """`b_j = −quantile_{1 − k/n}(s_j − α)`, less the mean, with α the best score left out."""
    experts = len(bias)
    cutoffs = [
        sorted((s + b for s, b in zip(row, bias, strict=True)), reverse=True)[chosen]
        for row in scores
    ]
    wanted = []
    for j in range(experts):
        margins = sorted(row[j] - cutoff for row, cutoff in zip(scores, cutoffs, strict=True))
        at = (1 - chosen / experts) * (len(margins) - 1)
        low, part = math.floor(at), at - math.floor(at)
        high = min(low + 1, len(margins) - 1)
        wanted.append(-(margins[low] * (1 - part) + margins[high] * part))
    mean = sum(wanted) / experts
    return [b - mean for b in wanted]


@pytest.mark.parametrize(
    ("tokens", "experts", "chosen"), [(1, 4, 1), (7, 5, 2), (64, 8, 2), (130, 16, 4)]
)
def test_balancing_is_its_formula(tokens, experts, chosen):
    draw = torch.Generator().manual_seed(tokens)
    scores = torch.rand(tokens, experts, generator=draw, dtype=torch.float64)
    bias = torch.randn(experts, generator=draw, dtype=torch.float64) * 0.1
    want = slow_bias(scores.tolist(), bias.tolist(), chosen)
    got = balanced_bias(scores, bias, chosen)
    assert got.tolist() == pytest.approx(want, abs=1e-12)
    assert float(got.mean()) == pytest.approx(0, abs=1e-12)


def test_balancing_loads_experts_evenly_that_were_not():
    draw = torch.Generator().manual_seed(0)
    liked = torch.linspace(-1, 1, 8)
    scores = (torch.randn(4096, 8, generator=draw) + liked).sigmoid()

    def spread(bias: torch.Tensor) -> float:
        chosen = (scores + bias).topk(2, dim=-1).indices
        load = torch.bincount(chosen.flatten(), minlength=8) / (4096 * 2 / 8)
        return float(load.max() - load.min())

    bias = torch.zeros(8)
    before = spread(bias)
    for _ in range(20):
        bias = balanced_bias(scores, bias, 2)
    assert before > 1.5
    assert spread(bias) < 0.1


def test_balancing_moves_a_part_of_the_way_and_only_biases(config):
    lm = model_to_train(config, 0)
    before = {name: p.detach().clone() for name, p in lm.named_parameters()}
    with torch.no_grad(), capture([f"{n}.scores" for n in gates(lm)], model=lm) as recording:
        lm(torch.arange(40)[None])
    # as two calls of one step
    everything = real_scores(lm, recording, torch.ones(1, 40, dtype=torch.bool))
    early, late = (
        {name: scores[:20] if first else scores[20:] for name, scores in everything.items()}
        for first in (True, False)
    )
    balance(lm, [early, late], 0.1)
    moved = {name for name, p in lm.named_parameters() if not p.equal(before[name])}
    assert moved == {f"{name}.e_score_correction_bias" for name in gates(lm)}
    for gate in gates(lm).values():
        scores = recording.tensors[gate.scores].flatten(0, 1)
        wanted = balanced_bias(scores, torch.zeros(scores.shape[-1]), gate.top)
        torch.testing.assert_close(gate.e_score_correction_bias.detach(), 0.1 * wanted)


def test_rows_that_hold_no_token_have_no_say_in_balancing(config):
    lm = model_to_train(config, 0)
    with torch.no_grad(), capture([f"{n}.scores" for n in gates(lm)], model=lm) as recording:
        lm(torch.arange(6)[None])
    real = torch.tensor([[True, False, True, True, False, False]])
    for name, scores in real_scores(lm, recording, real).items():
        assert scores.equal(recording.tensors[gates(lm)[name].scores][0, [0, 2, 3]])


def test_a_choice_of_all_experts_cannot_be_balanced():
    with pytest.raises(ValueError, match="no choice to balance"):
        balanced_bias(torch.rand(4, 3), torch.zeros(3), 3)


# the recipe


def test_the_rate_rises_in_a_line_and_falls_to_nothing():
    rates = [K3_MINI.rate(step) for step in range(K3_MINI.steps)]
    assert rates[0] == pytest.approx(K3_MINI.peak / K3_MINI.warm_up)
    assert max(rates) == pytest.approx(K3_MINI.peak)
    peak = rates.index(max(rates))
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert 0 < rates[-1] < 1e-3 * K3_MINI.peak


def test_a_cosine_alone_falls_to_its_last_share():
    alone = replace(K3_MINI, cosine=None, descent=0)
    assert alone.rate(alone.steps - 1) == pytest.approx(alone.peak * alone.last, rel=0.01)


@pytest.mark.parametrize("descent", [1, 300, 3000])
def test_a_descent_changes_no_rate_before_it(descent):
    alone, cut = SHORT, replace(SHORT, descent=descent)
    for step in range(cut.steps):
        left = cut.tokens - cut.tokens_before(step)
        share = cut.rate(step) / alone.rate(step)
        assert share == pytest.approx(min(1.0, left / descent)), step


def test_stages_follow_each_other_and_end():
    first, second = SHORT.stages
    stages = [SHORT.stage_at(step) for step in range(SHORT.steps)]
    assert stages == [(first, n) for n in range(16)] + [(second, n) for n in range(8)]
    assert SHORT.tokens_before(SHORT.steps) == SHORT.tokens == 7200
    with pytest.raises(ValueError, match="beyond them"):
        SHORT.stage_at(SHORT.steps)


def test_matrices_shrink_and_what_must_keep_its_size_does_not(config):
    lm = model_to_train(config, 0)
    names = {id(p): name for name, p in lm.named_parameters()}
    shrunk, kept = ({names[id(p)] for p in part} for part in trained(lm))
    assert {"embed_tokens.weight", "norm.weight", "output_attn_res.proj.weight"} <= kept
    assert not any(name.endswith(("o_proj.weight", ".w1", "gate_proj.weight")) for name in kept)
    assert len(shrunk) + len(kept) == len(names) - len(gates(lm))
    optimizer = Optimizer(Row(lm), SHORT)
    decays = [group["weight_decay"] for group in optimizer.adam.param_groups]
    assert decays == [SHORT.weight_decay, 0]


def test_a_step_is_that_of_adamw_however_parameters_lie_in_memory(config):
    lm = model_to_train(config, 0)
    draw = torch.Generator().manual_seed(0)
    apart = {}
    for name, parameter in lm.named_parameters():
        own = parameter.detach().clone(memory_format=torch.contiguous_format)
        apart[name] = torch.nn.Parameter(own)
        if parameter.requires_grad:
            apart[name].grad = torch.randn(own.shape, generator=draw) * 1e-3
    # some share a storage with gaps between their elements, which this is about
    assert any(p.stride(0) == 1 and p.stride(1) > len(p) for p in trained(lm)[0] if p.ndim == 2)
    row = Row(lm)
    names = {id(p): name for name, p in lm.named_parameters()}
    gradient = flat(apart[names[id(p)]].grad for part in trained(lm) for p in part)
    assert Optimizer(row, SHORT).step(gradient, 1e-2)
    row.write()

    moving = [p for p in apart.values() if p.grad is not None]
    torch.nn.utils.clip_grad_norm_(moving, SHORT.clip)
    shrunk = {names[id(p)] for p in trained(lm)[0]}
    groups = [
        {"params": [p for name, p in apart.items() if p.grad is not None and name in shrunk]},
        {"params": [p for n, p in apart.items() if p.grad is not None and n not in shrunk]},
    ]
    groups[0]["weight_decay"], groups[1]["weight_decay"] = SHORT.weight_decay, 0.0
    torch.optim.AdamW(groups, lr=1e-2, betas=SHORT.betas, foreach=False).step()
    for name, parameter in lm.named_parameters():
        torch.testing.assert_close(parameter.detach(), apart[name].detach(), msg=name)


def test_a_row_gives_back_what_it_took(config):
    lm, other = model_to_train(config, 0), model_to_train(config, 1)
    row = Row(other)
    row.values.copy_(Row(lm).values)
    assert lm.weights_hash != other.weights_hash
    row.write()
    assert lm.weights_hash == other.weights_hash


# the loop


def test_twenty_steps_lower_the_loss(config, tmp_path: Path):
    training = Training(config, SHORT, 0, tmp_path)
    parts = training.pools.at(0)

    def loss() -> float:
        with torch.no_grad():
            each = [float(weighted_loss(training.lm(b.tokens[:, :-1]), b)) for b in parts]
        return sum(each) / sum(float(batch.weights.sum()) for batch in parts)

    before = loss()
    training.run(20, tell=lambda line: None)
    assert before > 6
    assert loss() < before - 1


def test_a_training_that_stopped_goes_on_to_the_bit(config, tmp_path: Path):
    whole = Training(config, SHORT, 3, tmp_path / "whole")
    whole.run(18, tell=lambda line: None)
    Training(config, SHORT, 3, tmp_path / "parts").run(13, tell=lambda line: None)
    resumed = Training(config, SHORT, 3, tmp_path / "parts")
    resumed.resume()
    assert resumed.step == 13
    resumed.run(5, tell=lambda line: None)
    assert resumed.lm.weights_hash == whole.lm.weights_hash


@pytest.mark.usefixtures("plain_main")
def test_two_processes_make_the_weights_of_one_to_the_bit(config, tmp_path: Path):
    torch.set_num_threads(1)
    alone = Training(config, SHORT, 3, tmp_path / "alone")
    together = Training(config, SHORT, 3, tmp_path / "together", processes=2)
    for training in (alone, together):
        # twice, so that the second process has gone and come again
        training.run(2, tell=lambda line: None)
        training.run(1, tell=lambda line: None)
    assert together.lm.weights_hash == alone.lm.weights_hash
    assert together.tally == alone.tally
    assert together.helper is None


@pytest.mark.usefixtures("plain_main")
def test_what_fails_in_the_second_process_fails_in_the_first(config, tmp_path: Path):
    training = Training(config, SHORT, 3, tmp_path)
    helper = Helper(training.row, config, training.pools)
    helper.begin(SHORT.steps)
    with pytest.raises(ValueError, match="beyond them"):
        helper.finish()
    helper.process.join(timeout=60)
    with pytest.raises(ValueError, match="second process is gone"):
        helper.finish()
    assert helper.process.exitcode == 0


def test_the_halves_of_a_step_are_its_batches_and_sum_to_its_gradient(config, tmp_path: Path):
    training = Training(config, SHORT, 0, tmp_path)
    batches = training.pools.at(0)
    assert sorted(n for part in HALVES for n in part) == list(range(len(batches)))
    first, second = (half(training.lm, batches, which) for which in (0, 1))
    training.lm.zero_grad()
    whole = sum(float(batch.weights.sum()) for batch in batches)
    loss = sum(weighted_loss(training.lm(b.tokens[:, :-1]), b) for b in batches) / whole
    loss.backward()
    parameters = [*chain(*trained(training.lm))]
    want = flat([p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters])
    assert rms(first.gradient + second.gradient - want) <= 1e-6 * rms(want)
    assert first.loss + second.loss == pytest.approx(loss.item())
    for parameter, part in zip(parameters, spread(want, parameters), strict=True):
        assert parameter.grad is None or part.equal(parameter.grad)


def test_a_state_of_another_recipe_or_seed_is_refused(config, tmp_path: Path):
    Training(config, SHORT, 3, tmp_path).run(1, tell=lambda line: None)
    assert (tmp_path / STATE).is_file()
    with pytest.raises(ValueError, match="another recipe or seed"):
        Training(config, SHORT, 4, tmp_path).resume()
    with pytest.raises(ValueError, match="another recipe or seed"):
        Training(config, replace(SHORT, peak=0.1), 3, tmp_path).resume()


def test_a_gradient_that_is_not_finite_stops_and_changes_nothing(config, tmp_path: Path):
    training = Training(config, SHORT, 0, tmp_path)
    with torch.no_grad():
        training.lm.norm.weight[0] = float("nan")
    before = training.lm.lm_head.weight.detach().clone()
    with pytest.raises(ValueError, match="gradient is not finite"):
        training.one_step()
    assert training.lm.lm_head.weight.equal(before)


def test_a_vocabulary_of_another_size_is_refused(config, tmp_path: Path):
    with pytest.raises(ValueError, match="vocab_size is 99"):
        Training(replace(config, vocab_size=99), SHORT, 0, tmp_path)
