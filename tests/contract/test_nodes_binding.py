"""Nodes and model agree: every tap has its page, every letter its thing, every number its fact."""

import dataclasses
import tomllib
from functools import cache
from pathlib import Path

import pytest

from annotations.binding import World, problems
from annotations.loader import load_nodes
from annotations.node import Source, Symbol, for_place, tap_of
from annotations.outline import flat, models, nearest
from annotations.pins import pins
from model import catalog
from model.config import KimiConfig
from model.cost import FACTS, fact
from model.presets import preset

HERE = Path(__file__).parent
NODES = load_nodes()


def table(name):
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


def has_value(name, config):
    try:
        fact(name, config)
    except LookupError:
        return False
    return True


def settings():
    config = preset("k3")
    linear = config.linear_attn_config
    inner = {f"linear_attn_config.{f.name}" for f in dataclasses.fields(linear)}
    return inner | {f.name for f in dataclasses.fields(KimiConfig)}


def places_of(config):
    found = {}
    for place in catalog.instances(config).values():
        path = "" if place.path in (catalog.LAYER, catalog.LM) else place.path
        found.setdefault(path, set()).add(place.cls)
    return found


def code():
    files = [catalog.read(path) for path in sorted(catalog.MODEL.glob("*.py"))]
    return {name for file in files for name in file.definitions}


@cache
def world():
    configs = {model: preset(model) for model in models()}
    classes = {tap.cls for tap in catalog.taps().values()}
    return World(
        taps=set(catalog.taps()),
        parameters={f"{c}.{name}" for c in classes for name in parameters(c)},
        settings=settings(),
        facts={m: {n for n in FACTS if has_value(n, c)} for m, c in configs.items()},
        code=code(),
        outlines={model: flat(model) for model in configs},
        places={model: places_of(config) for model, config in configs.items()},
        pins=set(pins()),
        moved=tomllib.loads((HERE.parents[1] / "annotations/moved.toml").read_text()),
        exceptions=table("number_exceptions.toml"),
        unannotated=table("unannotated.toml"),
    )


def parameters(cls):
    try:
        return catalog.parameters_of(cls)
    except LookupError:
        return {}


def with_(node, **changes):
    return {**NODES, node: dataclasses.replace(NODES[node], **changes)}


def test_nodes_and_model_agree():
    assert problems(NODES, world()) == []


def test_every_tap_belongs_to_exactly_one_node():
    owners = {}
    for node in NODES.values():
        for tap in node.taps:
            owners.setdefault(tap, []).append(node.id)
    assert set(owners) == set(catalog.taps()) - set(table("unannotated.toml"))
    assert all(len(on) == 1 for on in owners.values())


SHARED = NODES["mla/k_shared"]
FAULTS = {
    "a symbol that is not in the equation": (
        {"symbols": (*SHARED.symbols, Symbol(tex="z", config="hidden_size"))},
        "symbol 'z' is not in the equation",
    ),
    "a parameter that the model lacks": (
        {"symbols": (*SHARED.symbols, Symbol(tex=":", param="KimiMLAAttention.x.weight"))},
        "no parameter KimiMLAAttention.x.weight",
    ),
    "a setting that the model lacks": (
        {"symbols": (*SHARED.symbols, Symbol(tex=":", config="depth"))},
        "no setting depth",
    ),
    "a place that no outline has": (
        {"symbols": (*SHARED.symbols, Symbol(tex=":", node="norm/rms @ nowhere"))},
        "norm/rms @ nowhere is in no outline",
    ),
    "a tap that is on another node": (
        {"symbols": (*SHARED.symbols, Symbol(tex=":", tap="KimiMLAAttention.kv_up"))},
        "KimiMLAAttention.kv_up is on several nodes",
    ),
    "a tap that the model lacks": (
        {"live": ("KimiMLAAttention.k_rot",)},
        "live: the model has no tap KimiMLAAttention.k_rot",
    ),
    "code that the model lacks": ({"ours": ("Nothing.at_all",)}, "no Nothing.at_all"),
    "an output without a symbol": ({"outputs": ("y",)}, "'y' is an input or output"),
    "a number that is typed": ({"prose": "It has 64 features."}, "the number 64 is typed"),
    "a number inside mathematics": ({"prose": "It is $d = 64$ wide."}, "the number 64 is typed"),
    "a name that is no fact": ({"prose": "It has {feature_count}."}, "{feature_count} is no fact"),
    "braces that mean nothing": ({"prose": "It has {Many Words}."}, "neither a placeholder"),
    "a pin that does not exist": (
        {"sources": (Source(id="s", claim="c", grade="direct", pin="q", path="p", lines="1"),)},
        "no pin 'q'",
    ),
    "an explanation without a source of its model": (
        {"sources": tuple(s for s in SHARED.sources if s.pin != "k3")},
        "no source is about k3",
    ),
    "a tap of a class that does not stand there": (
        {"symbols": (*SHARED.symbols, Symbol(tex=":", tap="KimiDeltaAttention.beta"))},
        "outline k2: mla/k_shared @ self_attn: KimiDeltaAttention is not there",
    ),
}


@pytest.mark.parametrize(("changes", "words"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_named(changes, words):
    found = problems(with_("mla/k_shared", **changes), world())
    assert [fault for fault in found if words in fault], found


def test_a_node_that_disappears_is_missed_everywhere():
    nodes = {name: node for name, node in NODES.items() if name != "mla/k_shared"}
    found = problems(nodes, world())
    assert "tap KimiMLAAttention.k_shared is on no node" in found
    assert "outline k3: there is no node mla/k_shared" in found
    assert any("mla/join.md: symbol 'k^S': there is no node mla/k_shared" in f for f in found)


def test_digits_in_code_names_and_indices_are_no_typed_numbers():
    prose = "K3 keeps `a[3]` in float32 and $x_2$ and $e^{-5}$, as K2 in bfloat16 did."
    assert problems(with_("mla/k_shared", prose=prose), world()) == []


def test_a_symbol_leads_to_the_tap_that_holds_its_values():
    joined = NODES["mla/join"]
    assert tap_of(NODES, joined.symbol("k^C_h")) == ("KimiMLAAttention.k_content", "")
    normed = NODES["mla/kv_up"].symbol("c^{KV}")
    assert tap_of(NODES, normed) == ("RMSNorm.normed", "self_attn.kv_a_layernorm")
    assert tap_of(NODES, NODES["mla/kv_up"].symbol("W^{UKV}_h")) is None


def test_a_step_of_one_mix_leads_to_the_next_step_of_the_same_mix():
    assert nearest("k3", "attn_res/score", "mlp_res").instance == "mlp_res"
    assert nearest("k3", "attn_res/score", "mlp").instance == "self_attention_res"


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
def test_every_place_of_a_node_binds_what_goes_in_and_out(node):
    for place in ("", *node.places):
        form = for_place(node, place)
        assert all(form.symbol(tex) for tex in (*form.inputs, *form.outputs))
