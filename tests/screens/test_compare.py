"""The comparison page: every part once, numbers of the cost functions, links that lead on."""

import gzip
import json
import re
from functools import cache
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from annotations.changes import PAIRS
from annotations.outline import flat
from app.reader.compare import STANDINGS, Comparison
from app.reader.compare_node import SideBySide
from app.reader.compare_page import ComparePage, packed
from app.reader.compare_totals import totals
from app.reader.context import Reading
from app.reader.numbers import show_flops, show_int, show_times
from app.reader.payload import current_nodes, payload
from app.state import selection
from model.cost import fact, flops, kept
from model.presets import preset
from tests.screens.test_reader_pages import Balance

APP = Path(__file__).parents[2] / "streamlit_app.py"
LARGEST_ON_THE_WIRE = 100_000


@cache
def message(pair):
    zipped = packed(*pair)
    return json.loads(gzip.decompress(zipped[zipped.index(b"\n") + 1 :]))


@cache
def compared(pair):
    older, newer = (Reading(model, current_nodes()) for model in pair)
    return Comparison(older, newer)


def cells(pair, label):
    """The older and the newer number of a total, as text."""
    comparison = compared(pair)
    row = next(r for r in totals(comparison.older, comparison.newer) if r.label == label)
    return [re.sub(r"<[^>]+>", "", str(cell)) for cell in (row.older, row.newer)]


@pytest.mark.parametrize("pair", PAIRS)
def test_every_part_of_either_model_has_one_line(pair):
    older, newer = ({entry.node for entry in flat(model)} for model in pair)
    lines = re.findall(r'data-standing="(\w+)" data-part="([^"]+)"', message(pair)["html"])
    assert sorted(node for _, node in lines) == sorted(older | newer)
    stands = {standing: {n for s, n in lines if s == standing} for standing in STANDINGS}
    assert stands["new"] == newer - older
    assert stands["gone"] == older - newer
    assert stands["same"] | stands["changed"] == older & newer


@pytest.mark.parametrize("pair", PAIRS)
def test_counts_on_the_buttons_add_up(pair):
    html = message(pair)["html"]
    shown = {name: int(n) for name, n in re.findall(r">(\w+) (\d+)</button>", html)}
    assert shown["all"] == sum(shown[standing] for standing in STANDINGS)
    assert shown["all"] == html.count("data-part=")
    for standing in STANDINGS:
        assert shown[standing] == html.count(f'data-standing="{standing}"')


def test_what_stands_how_between_k2_and_k3():
    parts = compared(("k2", "k3")).by_node
    assert parts["mla/rotate"].standing == "gone"
    assert parts["kda/state"].standing == "new"
    assert parts["mlp/situ"].standing == "changed"
    assert parts["mla/softmax"].standing == "same"
    assert parts["norm/rms"].standing == "changed", "a setting of the same equation differs"
    with_it = compared(("k2", "k3")).belongs_to(parts["kda/state"])
    assert with_it is not None
    assert with_it.node == "kda/layers"


def test_gone_parts_stand_behind_what_they_followed():
    order = [part.node for part in compared(("k2", "k3")).parts]
    assert order.index("embed/positions") == order.index("embed/tokens") + 1
    assert order.index("mla/rotate") < order.index("mla/join")


@pytest.mark.parametrize("pair", PAIRS)
def test_no_page_holds_an_unresolved_placeholder_link_or_formula(pair):
    for name, html in [("page", message(pair)["html"]), *message(pair)["nodes"].items()]:
        shown = re.sub(r'(alttext|data-symbol|title)="[^"]*"', "", html)
        shown = re.sub(r"<code>.*?</code>", "", shown)
        for mark in ("[[", "]]", "{", "}", "$$", "\\", "\ue000", "Undefined"):
            assert mark not in shown, f"{pair} {name} shows {mark!r}"
        balance = Balance()
        balance.feed(html)
        assert (balance.faults, balance.open) == ([], []), f"{pair} {name}"
    assert message(pair)["html"].count("<h1>") == 1


@pytest.mark.parametrize("pair", PAIRS)
def test_every_link_leads_to_a_page_or_a_line(pair):
    texts = [message(pair)["html"], *message(pair)["nodes"].values()]
    places = {
        model: {(n, at) for n, d in payload(model)["nodes"].items() for at in d["pages"]}
        for model in pair
    }
    for html in texts:
        for model, node, at in re.findall(
            r'data-model="([^"]*)" data-node="([^"]*)" data-at="([^"]*)"', html
        ):
            assert (node, at) in places[model], f"{pair} links to {model} {node} @ {at}"
        for node in re.findall(r'data-view="compare" data-node="([^"]*)"', html):
            assert node in message(pair)["nodes"], f"{pair} opens {node}"


@pytest.mark.parametrize("pair", PAIRS)
def test_totals_are_those_of_the_cost_functions(pair):
    configs = [preset(model) for model in pair]
    assert cells(pair, "Parameters") == [
        show_int(fact("text_parameters", config).value) for config in configs
    ]
    assert cells(pair, "FLOPs for one token") == [
        show_flops(flops(config, "lm", positions=4_096).value) for config in configs
    ]
    html = message(pair)["html"]
    for config in configs:
        grows = sum(
            kept(config, kind, positions=p).total_bytes.value * sign
            for p, sign in ((2, 1), (1, -1))
            for kind in ("expanded",)
        )
        assert f" {int(grows)} 0" in html, "bytes that a position adds, as the browser reads them"


@pytest.mark.parametrize("pair", PAIRS)
def test_an_opened_part_shows_both_equations_and_both_costs(pair):
    comparison = compared(pair)
    for part in comparison.parts:
        html = message(pair)["nodes"][part.node]
        sides = [side for side in SideBySide(comparison, part).sides if side]
        equations = sum(bool(side.equation) for side in sides)
        assert html.count('class="ks-eq"') == equations, part.node
        assert html.count("Open the page of") == len(sides), part.node
        assert ("No such part" in html) == (len(sides) == 1), part.node
        assert "Layers that have it" in html, part.node


def test_letters_of_only_one_equation_are_named():
    html = message(("k2", "k3"))["nodes"]["mla/gated"]
    assert "scale of the scores" in html
    assert "gate projection" in html


def test_a_part_of_many_places_is_called_by_what_it_is():
    html = message(("k2", "k3"))["nodes"]["norm/rms"]
    assert re.search(r'data-l="K2">5<small>Input norm, .*Final norm</small>', html)
    assert re.search(r'data-l="K3">6<small>Input norm, .*Latent norm, Final norm</small>', html)
    assert ">RMS norm</a>" in message(("k2", "k3"))["html"]
    assert "Places" not in message(("k2", "k3"))["nodes"]["mla/scores"]


def test_sizes_that_differ_are_said_once():
    comparison = compared(("k2", "k3"))
    both = SideBySide(comparison, comparison.by_node["mla/softmax"])
    assert both.sizes == "heads 64 → 96"


@pytest.mark.parametrize("pair", PAIRS)
def test_a_comparison_stays_small_on_the_wire(pair):
    assert len(packed(*pair)) <= LARGEST_ON_THE_WIRE


def test_the_shorter_context_is_said_where_they_differ():
    assert 'data-beyond="131072"' in message(("k2", "k3"))["html"]
    assert "data-beyond" not in message(("kimi-linear", "k3"))["html"]
    assert message(("k2", "k3"))["max"] == 1_048_576


@pytest.mark.parametrize("model", ["k3", "k2", "kimi-linear"])
def test_every_page_leads_to_its_lines(model):
    for node, data in payload(model)["nodes"].items():
        body = data["pages"][data["first"]]["body"]
        found = re.findall(r'data-from="([^"]*)" data-to="([^"]*)" data-node="([^"]*)"', body)
        assert found, node
        for older, newer, line in found:
            assert model in (older, newer)
            assert line in message((older, newer))["nodes"]


@pytest.mark.parametrize(
    ("address", "pair"),
    [
        ({}, ("k2", "k3")),
        ({"to": "kimi-linear"}, ("k2", "kimi-linear")),
        ({"from": "kimi-linear"}, ("kimi-linear", "k3")),
        ({"from": "k3", "to": "k2"}, ("k2", "k3")),
        ({"from": "k3", "to": "kimi-linear"}, ("kimi-linear", "k3")),
        ({"from": "k3", "to": "k3"}, ("k2", "k3")),
        ({"from": "k9", "to": "<b>"}, ("k2", "k3")),
    ],
)
def test_any_address_compares_two_models(address, pair):
    chosen = selection({"view": "compare", **address})
    assert chosen.view == "compare"
    assert chosen.pair == pair
    assert chosen.notices == ()


def test_ratios_and_operations_are_written_as_the_browser_writes_them():
    assert [show_flops(v) for v in (999, 215_256_776_704, 8.7e14)] == [
        "999\u00a0FLOP",
        "215\u00a0GFLOP",
        "870\u00a0TFLOP",
    ]
    assert [show_times(v) for v in (0.5904, 2.708, 33.53, 1234.5)] == [
        "0.590 times",
        "2.71 times",
        "33.5 times",
        "1,234 times",
    ]


def test_a_ratio_follows_the_rule_where_a_number_does():
    rows = {row.label: row for row in ComparePage(*map(reading, ("k2", "k3"))).totals}
    assert "data-over" in str(rows["Kept at this context, latent"].times)
    assert "data-over" not in str(rows["Parameters"].times)
    assert rows["Kept whatever the context"].older == "none"


def reading(model):
    return Reading(model, current_nodes())


@pytest.mark.parametrize("pair", PAIRS)
def test_the_app_draws_the_page_of_a_pair(pair):
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.query_params.update({"view": "compare", "from": pair[0], "to": pair[1]})
    app.run()
    assert not app.exception
