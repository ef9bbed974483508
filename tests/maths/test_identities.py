"""Every equation holds on every small model, and a planted fault turns it red."""

import dataclasses
import json
import time
from pathlib import Path

import pytest
import torch

from model import attn_res, block, kda, mla, moe, norm, rope, trace_recompute, yarn
from model.identities.registry import IDENTITIES, check
from model.load import build
from model.trace import open_trace, run
from model.trace_data import tap_facts
from tests.kernel_run import as_on_kernels, places_with_a_result_outside_kernels

LM = build("tiny-k3")
K2 = build("tiny-k2")
LINEAR = build("tiny-kimi-linear")
MINI = build("k3-mini")
FAMILY = {lm.source: lm for lm in (LM, K2, LINEAR)}
PROMPT = "The memory forgets by channel, and then it corrects by its error"

ONLY_LATENT = {"mla_latent_cached", "mla_shared_cached"}
"""Equations of the other cache."""

ROTATION = {"mla_angle", "mla_q_rotated", "mla_k_rotated"}
ONLY_K3 = {
    *(f"res_{name}" for name in ("sources", "keys", "query", "scores", "weights", "weights_sum")),
    *("res_mixed", "bank", "mla_output_gate", "mla_gated", "moe_latent"),
}
KDA = {name for name in IDENTITIES if name.startswith("kda_")}
LACKING = {
    "tiny-k3": ROTATION,
    "k3-mini": ROTATION,
    "tiny-k2": ONLY_K3 | KDA,
    "tiny-kimi-linear": ONLY_K3 | ROTATION | {"mla_q_down"},
}
"""Equations of what a model does not have; every other one is replayed on it."""


def faults(results):
    return [f"{r.name} {r.error:.1e} at {r.place} step {r.step}" for r in results if not r.passed]


def red(lm, new_tokens=2, prompt=PROMPT, **arguments):
    trace = run(lm, prompt, new_tokens=new_tokens, **arguments)
    return {result.name for result in check(trace, lm) if not result.passed}


@pytest.mark.parametrize("lm", [*FAMILY.values(), MINI], ids=[*FAMILY, "k3-mini"])
@pytest.mark.parametrize("prompt", [PROMPT, "a"], ids=["64 tokens", "one character"])
def test_every_equation_holds_in_prefill_and_in_decode(lm, prompt):
    trace = run(lm, prompt, new_tokens=2)
    results = check(trace, lm)
    assert not faults(results)
    assert {result.name for result in results} == IDENTITIES.keys() - ONLY_LATENT - LACKING[
        lm.source
    ]


@pytest.mark.parametrize("lm", FAMILY.values(), ids=FAMILY)
def test_every_equation_holds_over_several_segments(lm):
    trace = run(lm, [(31 * i) % 256 for i in range(1100)], new_tokens=1)
    assert not faults(check(trace, lm))


@pytest.mark.parametrize("lm", FAMILY.values(), ids=FAMILY)
def test_every_equation_of_the_latent_cache_holds(lm):
    results = check(run(lm, PROMPT, new_tokens=3, mla="latent"), lm)
    assert not faults(results)
    assert {result.name for result in results} == IDENTITIES.keys() - LACKING[lm.source]


@pytest.mark.parametrize("name", FAMILY)
def test_a_float64_model_agrees_to_float64(name):
    lm = build(name, dtype="float64")
    errors = {r.name: r.error for r in check(run(lm, PROMPT, new_tokens=2), lm)}
    assert max(errors.values()) < 1e-11, max(errors, key=errors.__getitem__)


@pytest.mark.parametrize("name", FAMILY)
def test_a_bfloat16_model_agrees_to_bfloat16(name):
    lm = build(name, dtype="bfloat16")
    results = check(run(lm, PROMPT, new_tokens=2), lm)
    assert not faults(results)
    chains = {result.name for result in results if result.tolerance > 1e-2}
    whole = {"padded_is_unpadded", "prefill_is_decode", "split_is_whole"}
    assert chains == whole | {"block_sum", "mla_absorbed"}


@pytest.mark.parametrize(
    "changes",
    [
        {"attn_res_block_size": None},
        {"q_lora_rank": None},
        {"mla_use_output_gate": False},
        {"routed_expert_hidden_size": None, "latent_moe_use_norm": False},
        {"hidden_act": "silu", "routed_scaling_factor": 2.446},
        {"num_expert_group": 3, "topk_group": 2},
        {"moe_renormalize": False},
        {
            "linear_attn_config": dataclasses.replace(
                LM.config.linear_attn_config, use_full_rank_gate=False, gate_lower_bound=None
            )
        },
    ],
    ids=lambda changes: " ".join(changes),
)
def test_every_equation_holds_in_the_other_forms_of_a_layer(changes):
    lm = build(dataclasses.replace(LM.config, **changes))
    assert not faults(check(run(lm, PROMPT, new_tokens=2), lm))


@pytest.mark.parametrize("name", ["k3", "kimi_linear"])
def test_every_equation_holds_in_the_bench_configurations(name):
    path = Path(__file__).parents[1] / "bench" / f"{name}.json"
    lm = build(json.loads(path.read_text()))
    assert not faults(check(run(lm, list(range(64)), new_tokens=1), lm))


def test_every_tap_is_the_left_side_of_one_equation():
    taps = {f"{f.owner}.{name.rpartition('.')[2]}" for name, f in tap_facts(LM).items()}
    explained = [identity.tap for identity in IDENTITIES.values() if identity.tap]
    assert sorted(explained) == sorted(taps)


@pytest.mark.parametrize("identity", IDENTITIES.values(), ids=IDENTITIES)
def test_an_identity_reads_taps_that_exist(identity):
    if identity.owner == "KimiLM":
        return
    attributes = {name.rpartition(".")[2] for name in tap_facts(LM)}
    for name in identity.taps:
        assert name.rpartition(".")[2].lstrip("/^.") in attributes, name


def test_one_layer_and_one_place_can_be_asked_for():
    trace = run(LM, PROMPT)
    results = check(trace, LM, layer=3, names={"rms_norm"}, at="self_attn.kv_a_layernorm")
    assert [(r.layer, r.worst_layer, r.places) for r in results] == [(3, 3, 1)]
    assert results[0].place == "layers.3.self_attn.kv_a_layernorm"
    assert not [r for r in check(trace, LM, layer=0) if r.name.startswith("mla")]
    with pytest.raises(LookupError, match="No identity is called 'rms'"):
        check(trace, LM, names={"rms"})


def test_other_weights_are_refused():
    with pytest.raises(ValueError, match="run the prompt again"):
        check(run(LM, "a"), build("tiny-k3", seed=3))


def test_a_stored_run_is_checked_as_well(tmp_path):
    run(LM, PROMPT, new_tokens=1).save(tmp_path / "run")
    assert not faults(check(open_trace(tmp_path / "run"), LM))


def test_what_was_not_captured_gives_no_result():
    trace = run(LM, PROMPT, keep=["layers.1.self_attn.log_decay"])
    names = {result.name for result in check(trace, LM)}
    counted = {"cache_counted", "cache_positions", "every_part_ran", "layer_kinds"}
    assert names == counted | {"kda_decay_bounds"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", FAMILY)
def test_what_leaves_a_kernel_is_checked_and_what_stays_inside_is_not(name, dtype):
    lm = build(name, dtype=dtype)
    on_text = run(lm, PROMPT, new_tokens=2)
    results = check(as_on_kernels(on_text), lm)
    assert not faults(results)
    assert {r.name: r.places for r in results} == places_with_a_result_outside_kernels(on_text)


OF_KERNELS = {
    "res_mixed": "layers.2.mlp_res.mixed",
    "moe_chosen": "layers.2.block_sparse_moe.gate.chosen",
    "moe_chosen_weight": "layers.2.block_sparse_moe.gate.chosen_weight",
    "kda_read": "layers.2.self_attn.read",
    "kda_state": "layers.2.self_attn.state",
}
"""What comes out of a kernel, by the equation that gives it."""


@pytest.mark.parametrize("name", OF_KERNELS)
def test_a_fault_of_a_kernel_turns_red_although_what_it_read_is_re_computed(name):
    trace = as_on_kernels(run(LM, PROMPT, new_tokens=2))
    tap = OF_KERNELS[name]
    right = trace.tensors[2][tap]
    # the experts beside those chosen, or values a thousandth too large
    wrong = (right + 1) % LM.config.num_experts if name == "moe_chosen" else right * 1.001
    kept = (*trace.tensors[:2], {**trace.tensors[2], tap: wrong})
    results = check(dataclasses.replace(trace, tensors=kept), LM, names={name})
    found = [(r.step, r.place) for r in results if not r.passed]
    assert found == [(2, tap.rpartition(".")[0])]


def test_a_value_that_was_re_computed_is_not_checked_even_if_its_inputs_are_wrong():
    trace = as_on_kernels(run(LM, PROMPT, new_tokens=1))
    tap = "layers.2.block_sparse_moe.gate.logits"
    kept = tuple({**held, tap: held[tap] + 1} for held in trace.tensors)
    wrong = dataclasses.replace(trace, tensors=kept)
    results = check(wrong, LM, layer=2, names={"moe_logits", "moe_scores", "moe_chosen_weight"})
    assert {r.name: r.passed for r in results} == {"moe_logits": False, "moe_chosen_weight": False}


def test_a_stored_run_on_kernels_is_checked_with_the_weights_of_the_model(tmp_path):
    trace = as_on_kernels(run(LM, PROMPT, new_tokens=1))
    trace.save(tmp_path / "run")
    results = check(open_trace(tmp_path / "run"), LM)
    of_a_run = {result.name for result in check(trace, LM)} - {"every_part_ran"}
    assert {result.name for result in results} == of_a_run
    assert not faults(results)


def test_an_input_that_is_too_large_to_re_compute_gives_no_result(monkeypatch):
    trace = run(LM, PROMPT, new_tokens=1)
    first = {name: x for name, x in trace.tensors[0].items() if not name.endswith("attn.state")}
    kept = dataclasses.replace(trace, tensors=(first, *trace.tensors[1:]))
    monkeypatch.setattr(trace_recompute, "LIMIT", 0)
    assert [r.places for r in check(kept, LM, layer=1, names={"kda_read"})] == [1]


def test_nan_weights_turn_red_and_do_not_crash():
    lm = build("tiny-k3")
    with torch.no_grad():
        lm.layers[3].self_attn.kv_a_proj_with_mqa.weight[0, 0] = float("nan")
    results = check(run(lm, "abc"), lm)
    broken = next(r for r in results if r.name == "mla_kv_joint")
    assert not broken.passed
    assert "values of the tensor are NaN" in broken.detail


def test_a_check_of_64_tokens_is_quick(record_property):
    trace = run(MINI, PROMPT[:63])
    started = time.perf_counter()
    check(trace, MINI)
    record_property("seconds", time.perf_counter() - started)


# planted faults: each changes one line of a layer and must turn an equation red


def plant(monkeypatch, owner, name, changed):
    monkeypatch.setattr(owner, name, changed)
    return build("tiny-k3")


def test_a_wrong_sign_in_the_delta_rule_turns_red(monkeypatch):
    def forward(q, k, v, log_decay, beta, state):
        return kda_rule(q, k, -v, log_decay, beta, state)

    kda_rule = kda.delta_rule
    lm = build("tiny-k3")
    for layer in lm.layers[:3]:
        monkeypatch.setattr(layer.self_attn, "recurrence", forward)
    assert {"kda_written", "kda_state", "kda_read"} <= red(lm, new_tokens=0)


def test_a_wrong_epsilon_in_a_latent_norm_turns_red(monkeypatch):
    lm = plant(monkeypatch, mla, "LATENT_NORM_EPS", 1e-5)
    with torch.no_grad():
        for layer in lm.layers[3:]:
            layer.self_attn.q_a_proj.weight.mul_(0.02)
    assert "rms_norm" in red(lm)


def test_a_gate_before_the_norm_turns_red(monkeypatch):
    def forward(self, read, gate):
        return self.gated(self.weight * norm.unit_rms(read * gate.sigmoid(), self.eps))

    assert "kda_gated" in red(plant(monkeypatch, norm.GatedRMSNorm, "forward", forward))


def test_a_seal_before_the_read_turns_red(monkeypatch):
    def forward(self, residual, bank):
        if self.sealed_too_early:
            bank = torch.cat([bank, residual[..., None, :]], dim=-2)
        return original(self, residual, bank)

    original = attn_res.AttnResidual.forward
    lm = plant(monkeypatch, attn_res.AttnResidual, "forward", forward)
    for path, module in lm.named_modules():
        if isinstance(module, attn_res.AttnResidual):
            module.sealed_too_early = path in (
                "layers.2.self_attention_res",
                "layers.4.self_attention_res",
            )
    assert "res_sources" in red(lm)


def test_a_seal_at_the_wrong_layer_turns_red(monkeypatch):
    lm = build("tiny-k3")
    lm.layers[1].seals = True
    assert {"bank", "residual_mid"} <= red(lm)


def test_mixing_normalized_sources_turns_red(monkeypatch):
    def forward(self, residual, bank):
        sources = self.sources(torch.cat([bank, residual[..., None, :]], dim=-2))
        keys = self.keys(norm.unit_rms(sources, self.eps))
        scores = self.scores(keys @ self.query(self.norm.weight * self.proj.weight[0]))
        weights = self.weights(torch.softmax(scores, dim=-1))
        return self.mixed((weights[..., None, :] @ keys)[..., 0, :])

    assert red(plant(monkeypatch, attn_res.AttnResidual, "forward", forward)) == {"res_mixed"}


def test_router_weights_with_the_bias_turn_red(monkeypatch):
    def forward(self, x):
        scores = self.scores(self.logits(x @ self.weight.T).sigmoid())
        for_choice = self.scores_for_choice(scores + self.e_score_correction_bias)
        weight, chosen = for_choice.topk(self.top, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        return moe.Chosen(self.chosen(chosen), self.chosen_weight(weight * self.scale))

    assert "moe_chosen_weight" in red(plant(monkeypatch, moe.KimiMoEGate, "forward", forward))


def test_a_choice_without_the_bias_turns_red(monkeypatch):
    def forward(self, x):
        scores = self.scores(self.logits(x @ self.weight.T).sigmoid())
        self.scores_for_choice(scores + self.e_score_correction_bias)
        weight, chosen = scores.topk(self.top, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        return moe.Chosen(self.chosen(chosen), self.chosen_weight(weight * self.scale))

    assert "moe_chosen" in red(plant(monkeypatch, moe.KimiMoEGate, "forward", forward))


def test_a_transposed_state_turns_red(monkeypatch):
    def step(q, k, v, log_decay, beta, state):
        terms = original(q, k, v, log_decay, beta, state)
        return terms._replace(state=terms.state.mT)

    original = kda.delta_step
    monkeypatch.setattr(kda, "delta_step", step)
    assert "kda_state" in red(build("tiny-k3"))


def test_an_error_formed_before_the_decay_turns_red(monkeypatch):
    def step(q, k, v, log_decay, beta, state):
        recalled = torch.einsum("...vk,...k->...v", state, k)
        retention = log_decay.exp()
        decayed = retention[..., None, :] * state
        written = beta[..., None] * (v - recalled)
        state = decayed + written[..., :, None] * k[..., None, :]
        read = torch.einsum("...vk,...k->...v", state, q)
        return kda.Step(retention, decayed, recalled, written, state, read)

    monkeypatch.setattr(kda, "delta_step", step)
    assert {"kda_recalled", "kda_written", "prefill_is_decode"} <= red(build("tiny-k3"))


def test_a_wrong_split_of_the_joint_projection_turns_red(monkeypatch):
    def wide_first(self, latent, k_shared):
        kv = self.kv_up(self.by_head(self.kv_b_proj(latent)))
        v, k_content = kv.split([self.d_value, self.d_nope], dim=-1)
        k_content, v = self.k_content(k_content), self.v(v)
        every_head = k_shared[..., None, :].expand(*k_content.shape[:-1], self.d_shared)
        return self.k(torch.cat([k_content, every_head], -1)).transpose(1, 2), v.transpose(1, 2)

    lm = plant(monkeypatch, mla.KimiMLAAttention, "keys_and_values", wide_first)
    assert {"mla_k_content", "mla_v", "mla_absorbed"} <= red(lm)


def test_an_unscaled_query_turns_red():
    lm = build("tiny-k3")
    for layer in lm.layers[3:]:
        layer.self_attn.scale = 1.0
    assert {"mla_scores", "mla_absorbed"} <= red(lm)


def test_a_missing_mask_turns_red(monkeypatch):
    def attend(self, q, k, v, scale, real):
        scores = self.scores(q @ k.mT * scale)
        return self.pattern(torch.softmax(self.masked(scores), dim=-1)) @ v

    assert "mla_masked" in red(plant(monkeypatch, mla.KimiMLAAttention, "attend", attend))


def test_padding_that_enters_the_state_turns_red(monkeypatch):
    monkeypatch.setattr("model.rows.Rows.only_real", lambda self, x: x)
    assert red(build("tiny-k3")) == {"padded_is_unpadded"}


def test_a_clamped_gate_turns_red(monkeypatch):
    def forget_gate(self, latent):
        z = self.f_b_proj(self.gate_latent(latent)) + self.dt_bias
        z = self.gate_logit(self.by_head(z))
        old = -self.A_log.exp()[:, None] * torch.nn.functional.softplus(z)
        return self.log_decay(old.clamp(min=self.gate_lower_bound))

    lm = plant(monkeypatch, kda.KimiDeltaAttention, "forget_gate", forget_gate)
    assert "kda_log_decay" in red(lm)


def test_a_mix_that_is_added_turns_red(monkeypatch):
    def forward(self, residual, bank, kept, rows):
        out, bank = original(self, residual, bank, kept, rows)
        return out + residual, bank

    original = block.KimiDecoderLayer.forward
    lm = plant(monkeypatch, block.KimiDecoderLayer, "forward", forward)
    assert "residual_in" in red(lm)


def test_shared_experts_on_another_input_turn_red(monkeypatch):
    def forward(self, x):
        return original(self, 2 * x)

    original = moe.KimiMLP.forward
    assert {"mlp_gate", "mlp_up"} <= red(plant(monkeypatch, moe.KimiMLP, "forward", forward))


def test_turning_halves_instead_of_neighbours_turns_red(monkeypatch):
    def rotate(x, cosine, sine):
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)

    monkeypatch.setattr(mla, "rotate", rotate)
    assert red(build("tiny-k2")) == {"mla_q_rotated", "mla_k_rotated"}


def test_turning_backwards_turns_red(monkeypatch):
    monkeypatch.setattr(mla, "rotate", lambda x, cosine, sine: rope.rotate(x, cosine, -sine))
    assert red(build("tiny-k2")) == {"mla_q_rotated", "mla_k_rotated"}


def test_turned_features_left_in_pairs_turn_red(monkeypatch):
    def rotate(x, cosine, sine):
        return rope.rotate(x, cosine, sine).unflatten(-1, (2, -1)).mT.flatten(-2)

    monkeypatch.setattr(mla, "rotate", rotate)
    assert red(build("tiny-k2")) == {"mla_q_rotated", "mla_k_rotated"}


def test_frequencies_that_nobody_stretched_turn_red():
    lm = build("tiny-k2")
    plain = yarn.frequencies(dataclasses.replace(lm.config, rope_scaling=None))
    for layer in lm.layers:
        layer.self_attn.frequencies = plain
    assert red(lm) == {"mla_angle"}


def test_sines_without_the_magnitude_turn_red():
    table = dict(K2.config.rope_scaling) | {"mscale": 0.5}
    lm = build(dataclasses.replace(K2.config, rope_scaling=table))
    assert not red(lm)
    for layer in lm.layers:
        layer.self_attn.gain = 1.0
    assert red(lm) == {"mla_q_rotated", "mla_k_rotated"}


def test_scores_without_the_magnitude_turn_red():
    lm = build("tiny-k2")
    for layer in lm.layers:
        layer.self_attn.scale = lm.config.qk_head_dim**-0.5
    assert {"mla_scores", "mla_absorbed"} <= red(lm)


def test_positions_that_start_anew_in_each_call_turn_red(monkeypatch):
    anew = property(lambda rows: torch.arange(rows.pos)[None])
    monkeypatch.setattr("model.rows.Rows.positions", anew)
    assert {"mla_angle", "prefill_is_decode"} <= red(build("tiny-k2"))


def test_padding_that_takes_a_position_turns_red(monkeypatch):
    def positions(self):
        return torch.arange(self.past, self.past + self.pos)[None]

    monkeypatch.setattr("model.rows.Rows.positions", property(positions))
    assert red(build("tiny-k2")) == {"padded_is_unpadded"}


def test_a_key_that_is_joined_unturned_turns_red(monkeypatch):
    def unturned(self, latent, k_shared):
        return original(self, latent, self.unturned)

    original = mla.KimiMLAAttention.keys_and_values
    monkeypatch.setattr(mla.KimiMLAAttention, "keys_and_values", unturned)
    lm = build("tiny-k2")
    for layer in lm.layers:
        attention = layer.self_attn
        attention.k_shared.register_forward_hook(
            lambda tap, given, out, attention=attention: vars(attention).update(unturned=out)
        )
    assert {"mla_k", "mla_absorbed"} <= red(lm)
