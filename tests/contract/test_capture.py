"""Every tap that a class declares fires, with the axes it declares."""

import pytest
import torch

from model.capture import Tap, capture, tap_names
from model.dims import size
from model.kda import KimiDeltaAttention
from model.load import build
from model.mla import KimiMLAAttention
from model.moe import KimiMLP
from model.norm import RMSNorm
from model.presets import TINY

IDS = torch.arange(2 * 37).view(2, 37)

ROTATION, GATE = {"angle", "q_rotated", "k_rotated"}, {"output_gate", "gated"}
PLAIN = {"KimiDecoderLayer": {"bank"}, "KimiSparseMoE": {"latent"}}
LACKING = {
    "tiny-k3": {"KimiMLAAttention": ROTATION},
    "tiny-k2": PLAIN | {"KimiMLAAttention": GATE},
    "tiny-kimi-linear": PLAIN | {"KimiMLAAttention": ROTATION | GATE | {"q_down"}},
}
"""Taps of what a model of the family does not have."""


@pytest.fixture(scope="module", params=TINY)
def lm(request):
    return build(request.param)


def record(lm, phase, mla="expanded"):
    kept = lm.new_cache(2, mla=mla)
    if phase == "decode":
        lm(IDS[:, :-1], kept)
    ids = IDS if phase == "prefill" else IDS[:, -1:]
    with capture() as recording:
        lm(ids, kept)
    return recording.named(tap_names(lm))


def never(lm, phase, mla):
    """Names of taps that stay silent, and why."""
    silent = {n for n in tap_names(lm).values() if n.startswith("layers.0.self_attention_res.")}
    expanded_only = ("kv_up", "k_content", "v", "k", "k_cached", "v_cached")
    lacking = LACKING[lm.source]
    for name, module in lm.named_modules():
        silent |= {f"{name}.{tap}" for tap in lacking.get(type(module).__name__, ())}
        if isinstance(module, KimiDeltaAttention) and phase == "prefill":
            silent |= {f"{name}.{tap}" for tap in module.RECOMPUTED}
        if isinstance(module, KimiMLAAttention) and mla == "expanded":
            silent |= {f"{name}.latent_cached", f"{name}.shared_cached"}
        if isinstance(module, KimiMLAAttention) and (mla, phase) == ("latent", "decode"):
            silent |= {f"{name}.{tap}" for tap in expanded_only}
    return silent


@pytest.mark.parametrize("mla", ["expanded", "latent"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_tap_fires_or_is_known_not_to(lm, phase, mla):
    fired = set(record(lm, phase, mla))
    assert fired == set(tap_names(lm).values()) - never(lm, phase, mla)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_tensor_has_the_axes_that_its_tap_declares(lm, phase):
    pos = 37 if phase == "prefill" else 1
    modules = dict(lm.named_modules())
    for name, tensor in record(lm, phase).items():
        path, _, attribute = name.rpartition(".")
        owner = modules[path]
        dims = getattr(owner, attribute).dims
        width = owner.width if isinstance(owner, RMSNorm | KimiMLP) else None
        # how many sources there are depends on the layer
        source = tensor.shape[dims.index("source")] if "source" in dims else 1
        call = {"batch": 2, "pos": pos, "src": 37, "source": source}
        kind = type(owner).__name__
        expected = [size(d, lm.config, **call, owner=kind, width=width) for d in dims]
        assert list(tensor.shape) == expected, name


def test_recording_changes_no_value(lm):
    with capture():
        recorded = lm(IDS)
    assert torch.equal(recorded, lm(IDS))


def test_only_wanted_names_are_kept(lm):
    wanted = {"layers.3.self_attn.k_shared", "logits"}
    with capture(wanted, model=lm) as recording:
        lm(IDS)
    assert set(recording.named(tap_names(lm))) == wanted


def test_an_unknown_name_is_refused(lm):
    with (
        pytest.raises(LookupError, match=r"layers\.3\.self_attn\.k_rope"),
        capture({"layers.3.self_attn.k_rope"}, model=lm),
    ):
        lm(IDS)


def test_an_edit_changes_what_the_model_goes_on_with(lm):
    tap = lm.layers[2].residual_out
    with capture(model=lm, edit=lambda t, x: torch.zeros_like(x) if t is tap else x) as recording:
        changed = lm(IDS)
    assert recording.tensors[tap].abs().max() == 0
    assert not torch.equal(changed, lm(IDS))


def test_an_edit_is_refused_where_it_is_not_known_that_its_tap_fires(lm):
    with pytest.raises(ValueError, match="needs model="), capture(edit=lambda t, x: x):
        lm(IDS)


def test_a_part_can_be_kept(lm):
    with capture(keep=lambda t, x: x[:, :3] if t is lm.logits else None) as recording:
        lm(IDS)
    assert recording.tensors.keys() == {lm.logits}
    assert recording.tensors[lm.logits].shape == (2, 3, 320)


def test_an_ordinary_hook_on_a_tap_works(lm):
    seen = []
    hook = lm.norm.normed.register_forward_hook(lambda module, given, out: seen.append(out))
    lm(IDS)
    hook.remove()
    assert len(seen) == 1
    assert seen[0].shape == (2, 37, lm.config.hidden_size)


def test_recordings_can_stand_inside_each_other(lm):
    with capture() as outer:
        with capture() as inner:
            lm(IDS)
        assert not outer.tensors
        lm(IDS)
    assert outer.tensors.keys() == inner.tensors.keys()


def test_what_was_recorded_stays_as_it_was(lm):
    kept = lm.new_cache(2)
    with capture() as recording:
        lm(IDS[:, :20], kept)
    before = {tap: tensor.clone() for tap, tensor in recording.tensors.items()}
    for t in range(20, 37):
        lm(IDS[:, t : t + 1], kept)
    assert all(torch.equal(before[tap], tensor) for tap, tensor in recording.tensors.items())


def test_a_tap_refuses_an_axis_that_is_in_no_table():
    with pytest.raises(ValueError, match="unknown dims"):
        Tap("batch pos heads")
