"""Norms, activation, convolution, router, experts and residual mix against their equations."""

import pytest
import torch
import torch.nn.functional as F

from model.attn_res import AttnResidual
from model.capture import Tap, capture, tap_names
from model.conv import ShortConvolution
from model.init import fill, give_storage
from model.linear import Linear
from model.load import build
from model.mla import KimiMLAAttention
from model.moe import KimiMoEGate, KimiSparseMoE
from model.norm import GatedRMSNorm, RMSNorm
from model.presets import tiny_k3
from model.rows import Rows
from model.situ import situ, swiglu

CONFIG = tiny_k3()


def filled(module, dtype=torch.float64, seed=1):
    give_storage(module, "cpu", dtype)
    fill(module, CONFIG, seed)
    return module


def normal(*shape, seed=2):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_norm_rounds_before_it_weighs():
    norm = filled(RMSNorm("d_model", CONFIG, 1e-5), torch.bfloat16)
    norm.weight.data = normal(32).bfloat16()
    x = (normal(2, 3, 32) * 7).bfloat16()
    unit = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5)
    assert torch.equal(norm(x), norm.weight * unit.bfloat16())
    assert not torch.equal(norm(x), (norm.weight.float() * unit).bfloat16())


def test_only_the_latent_norms_have_the_smaller_epsilon():
    lm = build("tiny-k3", device="meta")
    found = {name: m.eps for name, m in lm.named_modules() if isinstance(m, RMSNorm)}
    latent = {name for name, eps in found.items() if eps == 1e-6}
    assert latent == {
        f"layers.{i}.self_attn.{which}_a_layernorm" for i in (3, 4) for which in ("q", "kv")
    }
    assert set(found.values()) == {1e-5, 1e-6}


def test_the_epsilon_stands_inside_the_root_of_the_mean():
    norm = filled(RMSNorm("d_kv_latent", CONFIG, 1e-6))
    x = torch.full((1, 1, 10), 1e-3, dtype=torch.float64)
    torch.testing.assert_close(norm(x), x / (2e-6**0.5))


def test_the_gated_norm_serves_every_head_with_one_weight():
    norm = filled(GatedRMSNorm(8, 1e-5))
    norm.weight.data = normal(8)
    read, gate = normal(1, 2, 3, 8), normal(1, 2, 3, 8, seed=5)
    unit = read / (read.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(norm(read, gate), norm.weight * unit * gate.sigmoid())


def test_situ_caps_both_factors_and_not_the_sigmoids_gate():
    g, u = torch.tensor([3.0, 60.0, -2.0]).double(), torch.tensor([1.0, 400.0, -90.0]).double()
    expected = [
        4 * torch.tanh(x / 4) / (1 + torch.exp(-x)) * 25 * torch.tanh(y / 25)
        for x, y in zip(g, u, strict=True)
    ]
    torch.testing.assert_close(situ(g, u, 4.0, 25.0), torch.stack(expected))
    assert situ(g, u, 4.0, 25.0).abs().max() <= 100
    small = g * 1e-4
    torch.testing.assert_close(
        situ(small, small, 4.0, 25.0), swiglu(small, small), rtol=1e-6, atol=0
    )
    torch.testing.assert_close(situ(g, u, 4.0, None), 4 * torch.tanh(g / 4) * g.sigmoid() * u)


def test_the_convolution_sees_four_columns_and_then_gates():
    conv = filled(ShortConvolution(6, 4))
    x = normal(2, 9, 6)
    rows = Rows(2, 9, 0, x.device, None, None)
    out, state = conv(x, None, rows)
    direct = torch.zeros_like(x)
    for t in range(9):
        for w in range(4):
            if t - 3 + w >= 0:
                direct[:, t] += conv.weight[:, 0, w] * x[:, t - 3 + w]
    torch.testing.assert_close(out, F.silu(direct))
    torch.testing.assert_close(state, x[:, -4:].transpose(1, 2))


def test_the_state_of_a_short_prompt_begins_with_zeros():
    conv = filled(ShortConvolution(6, 4))
    x = normal(1, 2, 6)
    _, state = conv(x, None, Rows(1, 2, 0, x.device, None, None))
    assert torch.equal(state[..., :2], torch.zeros(1, 6, 2, dtype=x.dtype))
    torch.testing.assert_close(state[..., 2:], x.transpose(1, 2))


def test_the_router_bias_chooses_and_never_weighs():
    gate = filled(KimiMoEGate(CONFIG))
    x = normal(1, 7, 32)
    gate.e_score_correction_bias.data = torch.tensor([9.0, 0, 0, 0, 0, 5.0]).double()
    chosen, weight = gate(x)
    assert all(set(row.tolist()) == {0, 5} for row in chosen[0])
    scores = (x @ gate.weight.T).sigmoid().gather(-1, chosen)
    torch.testing.assert_close(weight, scores / scores.sum(-1, keepdim=True))


def test_router_weights_sum_to_the_scale():
    gate = filled(KimiMoEGate(CONFIG))
    gate.scale = 2.827
    _, weight = gate(normal(2, 5, 32))
    torch.testing.assert_close(weight.sum(-1), torch.full((2, 5), 2.827, dtype=torch.float64))


def test_only_experts_of_the_best_groups_are_chosen():
    gate = filled(KimiMoEGate(CONFIG))
    gate.groups, gate.top_groups = 2, 1
    x = normal(1, 9, 32)
    for_choice = (x @ gate.weight.T).sigmoid() + gate.e_score_correction_bias
    best = for_choice.view(1, 9, 2, 3).topk(2, dim=-1).values.sum(-1).argmax(-1)
    chosen, _ = gate(x)
    assert torch.equal(chosen // 3, best[..., None].expand(-1, -1, 2))


def test_the_sparse_layer_is_its_equation_token_by_token():
    moe = filled(KimiSparseMoE(CONFIG))
    x = normal(2, 5, 32)
    chosen, weight = moe.gate(x)
    z = moe.routed_expert_down_proj(x)
    expected = torch.zeros_like(z)
    for b in range(2):
        for t in range(5):
            for j, p in zip(chosen[b, t], weight[b, t], strict=True):
                w1, w2, w3 = (getattr(moe.experts, name)[j] for name in ("w1", "w2", "w3"))
                expected[b, t] += p * (w2 @ situ(w1 @ z[b, t], w3 @ z[b, t], 4.0, 25.0))
    unit = expected / (expected.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    routed = moe.routed_expert_up_proj(moe.routed_expert_norm.weight * unit)
    torch.testing.assert_close(moe(x), routed + moe.shared_experts(x))


def test_the_mix_weighs_raw_sources_by_normalized_scores():
    res = filled(AttnResidual(CONFIG))
    res.norm.weight.data = normal(32, seed=8)
    residual, bank = normal(1, 4, 32) * 3, normal(1, 4, 2, 32, seed=9)
    sources = [bank[:, :, 0], bank[:, :, 1], residual]
    scores = []
    for source in sources:
        unit = source / (source.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        scores.append((unit * res.norm.weight * res.proj.weight[0]).sum(-1))
    weights = torch.stack(scores, -1).softmax(-1)
    expected = sum(weights[..., j, None] * source for j, source in enumerate(sources))
    torch.testing.assert_close(res(residual, bank), expected)


@pytest.fixture(scope="module")
def recorded():
    lm = build("tiny-k3", seed=4)
    with capture() as recording:
        lm(torch.arange(40)[None])
    return recording.named(tap_names(lm))


def test_the_mix_is_read_before_the_seal(recorded):
    # blocks of 2: layers 0, 2 and 4 seal
    sources = {i: recorded[f"layers.{i}.self_attention_res.sources"].shape[2] for i in range(1, 5)}
    assert sources == {1: 2, 2: 2, 3: 3, 4: 3}
    after = {i: recorded[f"layers.{i}.mlp_res.sources"].shape[2] for i in range(5)}
    assert after == {0: 2, 1: 2, 2: 3, 3: 3, 4: 4}
    banks = {i: recorded[f"layers.{i}.bank"].shape[2] for i in range(5)}
    assert banks == {i: CONFIG.bank_size(i) for i in range(5)} == {0: 1, 1: 1, 2: 2, 3: 2, 4: 3}
    assert recorded["output_attn_res.sources"].shape[2] == 4


def test_each_sub_layer_but_the_first_reads_over_depth_and_so_does_the_head(recorded):
    reads = [name for name in recorded if name.endswith("_res.mixed")]
    assert len(reads) == 2 * CONFIG.num_hidden_layers - 1 + 1
    assert "layers.0.self_attention_res.mixed" not in recorded


def test_the_first_sealed_block_is_the_embedding_and_a_seal_empties_the_sum(recorded):
    for layer in range(5):
        torch.testing.assert_close(recorded[f"layers.{layer}.bank"][:, :, 0], recorded["embedding"])
    torch.testing.assert_close(
        recorded["layers.2.bank"][:, :, 1], recorded["layers.1.residual_out"]
    )
    torch.testing.assert_close(
        recorded["layers.2.residual_mid"], recorded["layers.2.self_attn.out"]
    )
    torch.testing.assert_close(
        recorded["layers.1.residual_mid"],
        recorded["layers.1.residual_in"] + recorded["layers.1.self_attn.out"],
    )


def test_the_shared_key_part_is_the_tail_of_the_joint_projection(recorded):
    joint = recorded["layers.3.self_attn.kv_joint"]
    assert torch.equal(joint[..., 10:], recorded["layers.3.self_attn.k_shared"])
    keys = recorded["layers.3.self_attn.k"]
    for head in range(2):
        assert torch.equal(keys[:, :, head, 8:], joint[..., 10:])


def test_the_pattern_is_causal_and_sums_to_one(recorded):
    pattern = recorded["layers.4.self_attn.pattern"]
    torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]))
    assert pattern.triu(1).abs().max() == 0
    scores = recorded["layers.4.self_attn.scores"]
    q, k = recorded["layers.4.self_attn.q"], recorded["layers.4.self_attn.k"]
    expected = torch.einsum("bthx,bshx->bhts", q, k) / 12**0.5
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)


def test_an_absorbed_read_equals_the_expanded_one_at_the_layer():
    layer = filled(KimiMLAAttention(CONFIG))
    lm = build("tiny-k3", dtype="float64")
    x = normal(2, 6, 32)
    read = {}
    for mla in ("expanded", "latent"):
        kept = lm.new_cache(2, mla=mla).layers[3]
        layer(x[:, :5], kept, Rows(2, 5, 0, x.device, None, None))
        read[mla] = layer(x[:, 5:], kept, Rows(2, 1, 5, x.device, None, None))
    torch.testing.assert_close(read["latent"], read["expanded"], rtol=1e-12, atol=1e-12)


def test_no_projection_has_a_bias():
    lm = build("tiny-k3", device="meta")
    for name, module in lm.named_modules():
        if isinstance(module, Linear):
            assert [n for n, _ in module.named_parameters()] == ["weight"], name
        assert not isinstance(module, Tap) or not list(module.parameters())
