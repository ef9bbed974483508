"""What is read from our source text agrees with the model that the text builds."""

import subprocess
import sys

import pytest

from model import catalog
from model.capture import tap_names
from model.catalog import problems
from model.catalog_source import SourceFile
from model.kimi import KimiLM
from model.presets import PRESETS, preset, tiny_k3


@pytest.mark.parametrize("name", PRESETS)
def test_the_catalog_lists_exactly_the_taps_of_the_built_model(name):
    config = preset(name)
    lm = KimiLM(config)
    built = {tap_name: tap for tap, tap_name in tap_names(lm).items()}
    listed = catalog.tap_paths(config)
    assert listed.keys() == built.keys()
    for tap_name, tap in built.items():
        info = listed[tap_name]
        parent, _, attribute = tap_name.rpartition(".")
        assert type(lm.get_submodule(parent)).__name__ == info.cls
        assert (attribute, tap.dims) == (info.attribute, info.dims)


@pytest.mark.parametrize("name", PRESETS)
def test_every_place_holds_the_class_and_the_width_that_the_catalog_says(name):
    config = preset(name)
    lm = KimiLM(config)
    for place in catalog.instances(config).values():
        for layer in place.layers or (None,):
            module = lm.get_submodule(place.tap_path("", layer).rstrip("."))
            assert type(module).__name__ == place.cls
            assert getattr(module, "width", None) == place.feature or place.feature is None


def test_every_class_that_holds_a_tap_stands_somewhere():
    classes = {place.cls for name in PRESETS for place in catalog.instances(preset(name)).values()}
    assert {tap.cls for tap in catalog.taps().values()} == classes


def test_no_tap_is_left_uncalled():
    assert catalog.problems() == []


def test_the_catalog_needs_no_torch():
    program = (
        "import sys, model.catalog as c, model.cost; c.taps();"
        "assert not {'torch', 'numpy'} & set(sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=catalog.ROOT)


@pytest.mark.parametrize("name", catalog.taps())
def test_the_excerpt_of_a_tap_shows_the_call(name):
    attribute = name.rpartition(".")[2]
    source = catalog.source_of(name)
    shown = dict(enumerate(source.lines, source.first_line))
    assert source.hits
    assert f"self.{attribute}(" in "\n".join(shown[line] for line in source.hits)
    file = (catalog.ROOT / source.path).read_text().splitlines()
    assert list(source.lines) == file[source.first_line - 1 :][: len(source.lines)]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("KimiMLAAttention.forward", "    def forward("),
        ("model.cache:ExpandedKV.append", "    def append("),
        ("model.kda:delta_step", "def delta_step("),
        ("model.cache:ExpandedKV", "@dataclass"),
    ],
)
def test_lines_are_found_by_name(name, first):
    assert catalog.source_of(name).lines[0].startswith(first)


@pytest.mark.parametrize("name", ["KimiMLAAttention.nothing", "Nothing.forward", "model.x:y"])
def test_an_unknown_name_is_refused_in_words(name):
    with pytest.raises(LookupError, match="No class"):
        catalog.source_of(name)


def test_parameters_of_a_class_are_those_of_its_instances():
    kda = catalog.parameters_of("KimiDeltaAttention")
    assert kda["f_b_proj.weight"] == ("d_inner", "d_gate_latent")
    assert kda["q_conv1d.weight"] == ("d_inner", "1", "lag")
    assert {"g_proj.weight", "g_a_proj.weight"} <= kda.keys()
    assert catalog.parameters_of("RMSNorm") == {"weight": ("feature",)}
    assert catalog.parameters_of("KimiMLP")["down_proj.weight"] == ("d_model", "feature")


def test_places_are_told_apart_by_class():
    config = tiny_k3()
    (mla,) = catalog.places_of(config, "KimiMLAAttention")
    assert mla.layers == (3, 4)
    assert mla.tap_path("k_shared", 3) == "layers.3.self_attn.k_shared"
    with pytest.raises(LookupError, match="Layer 0 has no self_attn"):
        mla.tap_path("k_shared", 0)
    norms = {place.path: place.feature for place in catalog.places_of(config, "RMSNorm")}
    assert norms["self_attn.kv_a_layernorm"] == "d_kv_latent"
    assert norms["norm"] == "d_model"
    assert catalog.places_of(preset("k2"), "KimiDeltaAttention") == ()


def test_constants_are_read_from_the_text():
    assert catalog.constant("model.mla:EXPLICIT_KEYS") == 1_024
    assert "recalled" in catalog.constant("model.kda:KimiDeltaAttention.RECOMPUTED")


def test_a_tap_that_no_method_calls_is_found():
    text = "class A:\n    def __init__(self):\n        self.x = Tap('batch heads')\n"
    taps = SourceFile("model/a.py", text).taps
    assert problems(taps) == [
        "A.x is a tap that no method calls.",
        "A.x has unknown dims ['heads']; add them to model/dims.py.",
    ]
