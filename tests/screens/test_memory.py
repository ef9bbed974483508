"""The page of memory: counted as predicted, and the totals that others got wrong come out right."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.fit import GIB, fit
from app.reader.numbers import show_bytes
from app.run_memory import measure
from app.run_ticket import Ticket
from app.runs import shared_store
from app.state import selection
from model.cost import kept, weight_bytes, weight_bytes_by_dtype
from model.load import load
from model.presets import preset
from model.trace import run

SCRIPT = Path(__file__).with_name("memory_page.py")


def opened(**parameters):
    page = AppTest.from_file(str(SCRIPT), default_timeout=180)
    for name, value in parameters.items():
        page.query_params[name] = str(value)
    page.run()
    assert not page.exception, page.exception
    return page


def written(page):
    return "\n".join(element.proto.body for element in page.get("html"))


def test_the_address_knows_the_page():
    assert selection({"view": "memory"}).view == "memory"


@pytest.mark.parametrize("prompt", ["a", "a prompt of several tokens"])
@pytest.mark.parametrize("source", ["k3-mini", "tiny-k2", "tiny-kimi-linear"])
def test_every_count_is_the_predicted_one(source, prompt):
    made = run(load(source), prompt, 1)
    found = measure(made, Ticket(lambda _: None, ""))
    kinds = {"expanded", "latent"} | ({"kda"} if "kda" in made.config.mixers else set())
    assert {(row.kind, row.dtype) for row in found.rows} == {
        (kind, dtype) for kind in kinds for dtype in ("float32", "bfloat16")
    }
    assert found.positions == len(made.token_ids)
    assert not found.left_out
    for row in found.rows:
        assert row.difference == 0, row
        assert row.values > 0


def test_a_count_that_differs_is_shown_as_such():
    from dataclasses import replace

    found = measure(run(load("tiny-k2"), "a", 1), Ticket(lambda _: None, ""))
    wrong = replace(found.rows[0], bytes=found.rows[0].bytes + 3)
    assert wrong.difference == 3
    from app.panels.html import render

    html = render("memory_counted.html", rows=[{"row": wrong, "title": "kept"}])
    assert 'kl-fails">3<' in html


def test_the_page_counts_the_stored_example_and_shows_released_totals():
    page = opened(view="memory")
    text = written(page)
    assert "Every count is the predicted one." in text
    assert "27\u00a0GiB" in text
    assert "beyond its limit" in text
    assert "MXFP4, with its scales" in text


def test_another_gpu_changes_what_fits_and_a_typed_size_wins():
    page = opened(view="memory")
    assert "GPUs of 141 GiB" in written(page)
    page.number_input(key="memory-typed").set_value(1_600.0).run()
    assert not page.exception
    text = written(page)
    assert "GPUs of 1600 GiB" in text
    found = fit(preset("k3"), 1_600, "latent")
    assert f"/ 27,648⌋ = {found.room // found.per_position:,}" in text
    assert shared_store().example() is not None


TOTALS = [
    # model, kind, dtype, positions, bytes of all layers
    ("k3", "latent", "bfloat16", 1, 27_648),
    ("k3", "latent", "bfloat16", 4_096, 108 * 2**20),
    ("k3", "latent", "bfloat16", 131_072, int(3.375 * GIB)),
    ("k3", "latent", "bfloat16", 1_048_576, 27 * GIB),
    ("k3", "expanded", "float32", 1, 2_949_120),
    ("k3", "expanded", "float32", 4_096, int(11.25 * GIB)),
    ("k3", "expanded", "float32", 131_072, 360 * GIB),
    ("kimi-linear", "latent", "bfloat16", 1, 8_064),
    ("kimi-linear", "latent", "bfloat16", 4_096, int(31.5 * 2**20)),
    ("kimi-linear", "latent", "bfloat16", 1_048_576, int(7.875 * GIB)),
    ("k2", "latent", "bfloat16", 1, 70_272),
    ("k2", "latent", "bfloat16", 4_096, int(274.5 * 2**20)),
    ("k2", "latent", "bfloat16", 131_072, 70_272 * 131_072),
]


@pytest.mark.parametrize(("model", "kind", "dtype", "positions", "wanted"), TOTALS)
def test_contexts_of_released_models_take_what_is_known(model, kind, dtype, positions, wanted):
    got = kept(preset(model), kind, positions=positions, dtype=dtype)
    assert got.total_bytes.value == wanted


def test_a_context_of_k2_is_counted_on_its_latents():
    got = kept(preset("k2"), "latent", positions=262_144).total_bytes.value
    assert round(got / GIB, 2) == 17.16


def test_attention_of_one_layer_in_float32_is_fifty_times_smaller_as_a_latent():
    config = preset("k3")
    expanded = kept(config, "expanded", positions=1, dtype="float32").bytes.value
    latent = kept(config, "latent", positions=1, dtype="float32").bytes.value
    assert (expanded, latent) == (120 * 1024, 2.25 * 1024)


@pytest.mark.parametrize(("model", "mebibytes"), [("k3", 414), ("kimi-linear", 40)])
def test_recurrent_states_are_flat(model, mebibytes):
    config = preset(model)
    sizes = {kept(config, "kda", positions=n).total_bytes.value for n in (1_000, 1_048_576)}
    assert len(sizes) == 1
    layers = config.mixers.count("kda")
    linear = config.linear_attn_config
    assert linear is not None
    columns = 3 * linear.num_heads * linear.head_dim * linear.short_conv_kernel_size * 2
    assert sizes.pop() - layers * columns == mebibytes * 2**20


def test_weights_are_summed_as_they_are_stored():
    sizes = weight_bytes_by_dtype(preset("k3"))
    assert sum(sizes.values()) == weight_bytes(preset("k3"))
    assert round(weight_bytes(preset("k3")) / 1e12, 2) == 1.56
    assert show_bytes(weight_bytes(preset("k3"))) == "1.42\u00a0TiB"
    # packed experts: 4 bits a weight and a byte of scale for 32
    experts = 92 * 896 * 3 * 3584 * 3072
    assert sizes["U8"] == experts // 2 + experts // 32


@pytest.mark.parametrize("memory", [24, 48, 80, 141, 192, 0.5, 2_000])
@pytest.mark.parametrize("form", ["latent", "expanded"])
@pytest.mark.parametrize("model", ["k3", "k2", "kimi-linear"])
def test_the_longest_context_fits_and_one_more_position_does_not(model, form, memory):
    found = fit(preset(model), memory, form)
    used = found.weights + found.state + found.longest * found.per_position
    assert used <= found.memory
    assert found.longest >= 1
    assert found.is_whole or used + found.per_position > found.memory
    # one GPU fewer holds no context at all
    fewer = found.memory // found.gpus * (found.gpus - 1)
    assert found.weights + found.state + found.per_position > fewer


@pytest.mark.parametrize("memory", [0, -1, float("nan")])
def test_no_memory_is_refused_in_words(memory):
    with pytest.raises(ValueError, match="must be more than 0"):
        fit(preset("k3"), memory, "latent")
