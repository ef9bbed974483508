"""Every node of every model as HTML: nothing unresolved, nothing unescaped, nothing too large."""

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from huggingface_hub import constants

from annotations.kernel import load_kernels
from annotations.node import MODELS
from annotations.outline import flat
from annotations.pins import FOLDER, pins
from app.reader import payload as content
from app.reader.context import Reading
from app.reader.cost_view import all_parameters, parameter_count
from app.reader.mathml import found
from app.reader.payload import current_nodes, packed, payload

LARGEST_RAW = 2_000_000
LARGEST_ON_THE_WIRE = 400_000
VOID = {"br", "img", "input", "hr", "mspace"}


@cache
def read(model: str) -> dict:
    return payload(model)


def pages(model: str) -> list[tuple[str, str, str]]:
    """Node, place and the whole HTML of each page of a model."""
    return [
        (node, at, page["head"] + page.get("body", data["pages"][data["first"]]["body"]))
        for node, data in read(model)["nodes"].items()
        for at, page in data["pages"].items()
    ]


class Balance(HTMLParser):
    """Counts open tags, so that a page cut short or mis-nested is seen."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        pass


@pytest.mark.parametrize("model", MODELS)
def test_every_entry_of_the_outline_has_a_page(model):
    wanted = {(entry.node, entry.instance) for entry in flat(model)}
    assert {(node, at) for node, at, _ in pages(model)} == wanted


@pytest.mark.parametrize("model", MODELS)
def test_no_page_holds_an_unresolved_placeholder_link_or_formula(model):
    for node, at, html in pages(model):
        # TeX stays in alternative texts and names of symbols, on purpose
        shown = re.sub(r'(alttext|data-symbol|title)="[^"]*"', "", html)
        shown = re.sub(r"<code>.*?</code>", "", shown)
        for mark in ("[[", "]]", "{", "}", "$$", "\\", "kssym", "\ue000", "Undefined"):
            assert mark not in shown, f"{model} {node} @ {at} shows {mark!r}"


@pytest.mark.parametrize("model", MODELS)
def test_every_page_is_well_formed_and_has_one_title(model):
    for node, at, html in pages(model):
        balance = Balance()
        balance.feed(html)
        assert (balance.faults, balance.open) == ([], []), f"{model} {node} @ {at}"
        assert html.count("<h1>") == 1, f"{model} {node} @ {at}"


@pytest.mark.parametrize("model", MODELS)
def test_every_link_leads_to_a_page_of_the_model(model):
    places = {(node, at) for node, at, _ in pages(model)}
    texts = [(f"{node} @ {at}", html) for node, at, html in pages(model)]
    for name, html in [*texts, ("overview", read(model)["overview"])]:
        for node, at in re.findall(r'data-node="([^"]*)" data-at="([^"]*)"', html):
            assert (node, at) in places, f"{model} {name} links to {node} @ {at}"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_every_number_that_follows_the_rule_is_a_polynomial_with_a_value(model, phase):
    for node, at, html in pages(model):
        for text, degree in re.findall(r'data-f="([^"]*)" data-b="([^"]*)"', html):
            part = text.split("|")[-1 if phase == "prefill" else 0]
            c0, c1, c2 = (float(c) for c in part.split())
            value = (c0 + 4_096 * c1 + 4_096**2 * c2) * 2 ** int(degree)
            assert value >= 0, f"{model} {node} @ {at}: {text}"


@pytest.mark.parametrize("model", MODELS)
def test_a_shape_is_known_for_every_tensor_that_a_tap_holds(model):
    for node, at, html in pages(model):
        assert "is not declared" not in html, f"{model} {node} @ {at}"
        assert "No axis is called" not in html, f"{model} {node} @ {at}"


def test_every_symbol_of_every_node_is_marked_in_its_equation():
    for node in current_nodes().values():
        # a model that changes the equation may leave a symbol of the node without a place
        for name, change in [("", node), *node.places.items()]:
            for symbol in change.symbols if change.equation else ():
                where = f"{node.id} {name}: {symbol.tex} in {change.equation}"
                assert found(change.equation, symbol), where


@pytest.mark.parametrize("model", MODELS)
def test_a_payload_stays_within_its_bounds(model):
    raw = len(json.dumps(read(model), ensure_ascii=False).encode())
    assert raw <= LARGEST_RAW
    assert len(packed(model)) <= LARGEST_ON_THE_WIRE


@pytest.mark.parametrize("model", MODELS)
def test_every_excerpt_that_a_page_names_is_in_the_payload(model):
    for node, at, html in pages(model):
        for key in re.findall(r'data-lines="([^"]*)"', html):
            assert key in read(model)["lines"], f"{model} {node} @ {at}: {key}"


@pytest.mark.parametrize("model", MODELS)
def test_search_knows_titles_ids_symbols_parameters_and_lines(model):
    fields = {field for entry in read(model)["search"] for field, _ in entry["fields"]}
    assert {"symbol", "tap", "parameter", "code", "lines", "dimension"} <= fields
    assert {e["node"] for e in read(model)["search"] if "node" in e} == set(read(model)["nodes"])


@pytest.mark.parametrize("model", MODELS)
def test_search_knows_the_kernels_that_a_model_runs_on_and_no_others(model):
    found = {entry["kernel"]: entry for entry in read(model)["search"] if "kernel" in entry}
    nodes = set(read(model)["nodes"])
    assert set(found) == {k.id for k in load_kernels().values() if nodes & set(k.nodes)}
    assert ("kda_step" in found) == (model != "k2")
    for kernel in found.values():
        assert ["kernel", f"kernels/{kernel['kernel']}.py"] in kernel["fields"]


def test_the_marks_of_k3_are_those_of_the_cost_functions():
    assert [mark["at"] for mark in read("k3")["marks"]] == [57, 2_987]
    assert read("k2")["marks"] == []


def test_the_cache_of_k3_is_priced_in_full():
    html = {(n, a): h for n, a, h in pages("k3")}["mla/kv_cache", "self_attn"]
    for number in ("30,720", "61,440 B", "1,720,320", "125,829,120", "5.63", "1,048,576"):
        assert number in html, number


def test_an_unknown_model_is_refused_in_words():
    with pytest.raises(LookupError, match="No model 'k9' can be read; there are k3"):
        packed("k9")


@pytest.mark.parametrize("model", MODELS)
def test_parameters_of_the_parts_sum_to_those_of_the_module(model):
    reading = Reading(model, current_nodes())
    assert reading.whole_modules
    for node, at in sorted(reading.whole_modules):
        entry = reading.by_place[node, at]
        parts = sum(all_parameters(reading, entry).values())
        assert parts == parameter_count(reading, entry), f"{model} {node} @ {at}"


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """A cache of the Hub that holds one pinned file of K3 and nothing else."""
    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    k3 = tmp_path / "models--moonshotai--Kimi-K3"
    snapshot = k3 / "snapshots" / pins()["k3"].commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (k3 / "blobs").mkdir()
    yield k3
    # the next test looks at its own files
    content._fingerprint_at.cache_clear()


def fingerprint_now() -> str:
    content._fingerprint_at.cache_clear()
    return content.fingerprint()


def test_a_download_of_the_released_weights_makes_no_page_anew(hub_cache):
    before = fingerprint_now()
    (hub_cache / "blobs" / "ab12.incomplete").write_bytes(b"half")
    (hub_cache / "snapshots" / pins()["k3"].commit / "model.safetensors").write_bytes(b"whole")
    assert fingerprint_now() == before


def test_a_pinned_file_that_comes_makes_pages_anew_and_reads_no_node_again(hub_cache):
    before, nodes = fingerprint_now(), current_nodes()
    (hub_cache / "snapshots" / pins()["k3"].commit / "modeling_kimi_linear.py").write_text("")
    assert fingerprint_now() != before
    assert current_nodes() is nodes


def test_a_file_that_goes_while_files_are_looked_at_is_left_out(hub_cache, monkeypatch):
    folder = hub_cache / "named"
    (folder / "k3").mkdir(parents=True)
    (folder / "k3" / "config.json").symlink_to("gone")
    monkeypatch.setenv(FOLDER, str(folder))
    # it goes between the question and the look
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    assert fingerprint_now()
