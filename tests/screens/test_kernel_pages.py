"""Every kernel's page for every model: whole, linked both ways, and priced as `kernels/work.py`."""

import html as entities
import json
import re
from functools import cache
from html.parser import HTMLParser

import pytest

from annotations.kernel import load_kernels, serving
from annotations.node import MODELS
from annotations.outline import flat
from app.reader.context import Reading
from app.reader.kernel_page import KernelPage
from app.reader.kernel_payload import packed, payload
from app.reader.kernel_report import compiled, reports
from app.reader.kernel_timed import timed
from app.reader.kernel_work import Call, load, work_of
from app.reader.payload import current_nodes
from app.reader.payload import payload as reader_payload
from app.state import selection
from kernels import work
from model.presets import preset

KERNELS = load_kernels()
LARGEST_ON_THE_WIRE = 130_000
VOID = {"br", "img", "input", "hr", "mspace"}
PAIRS = [(model, kernel) for model in MODELS for kernel in KERNELS]
IDS = [f"{model} {kernel}" for model, kernel in PAIRS]
each_page = pytest.mark.parametrize(("model", "kernel"), PAIRS, ids=IDS)


@cache
def pages(model: str) -> dict:
    return payload(model)


@cache
def node_payload(model: str) -> dict:
    return reader_payload(model)


def shown(model: str, kernel: str) -> str:
    return pages(model)["pages"][kernel]["html"]


def is_here(model: str, kernel: str) -> bool:
    return "load" in pages(model)["pages"][kernel]


class Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.faults.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        pass


@each_page
def test_every_page_is_well_formed_with_one_title_and_nothing_unresolved(model, kernel):
    text = shown(model, kernel)
    balance = Balance()
    balance.feed(text)
    assert (balance.faults, balance.open) == ([], [])
    assert text.count("<h1>") == 1
    plain = re.sub(r'(alttext|data-symbol|title|aria-label)="[^"]*"', "", text)
    plain = re.sub(r"<code>.*?</code>", "", plain)
    plain = re.sub(r'<div class="ks-src".*?</div>', "", plain, flags=re.DOTALL)
    for mark in ("[[", "]]", "{", "}", "$$", "\\", "kssym", "\ue000", "Undefined", "None"):
        assert mark not in plain, mark


@each_page
def test_every_link_leads_to_a_part_of_the_model_and_every_part_leads_back(model, kernel):
    places = {
        (node, at) for node, data in node_payload(model)["nodes"].items() for at in data["pages"]
    }
    linked = set(re.findall(r'data-node="([^"]*)" data-at="([^"]*)"', shown(model, kernel)))
    assert linked <= places
    here = [node for node in KERNELS[kernel].nodes if node in node_payload(model)["nodes"]]
    assert bool(here) == is_here(model, kernel)
    assert {node for node, _ in linked} == set(here)
    for node in here:
        for page in node_payload(model)["nodes"][node]["pages"].values():
            assert f'data-kernel="{kernel}"' in page["head"], node


@pytest.mark.parametrize("model", MODELS)
def test_a_part_without_a_kernel_says_nothing_of_kernels(model):
    for node, data in node_payload(model)["nodes"].items():
        told = any("In Triton" in page["head"] for page in data["pages"].values())
        assert told == bool(serving(node)), node


@pytest.mark.parametrize("model", MODELS)
def test_a_model_without_the_part_names_those_that_have_it(model):
    for name, kernel in KERNELS.items():
        if not is_here(model, name):
            have = re.findall(r'data-switch="([^"]*)"', shown(model, name))
            assert have == [
                m for m in MODELS if any(entry.node in kernel.nodes for entry in flat(m))
            ]
            assert have


@each_page
def test_every_line_that_a_term_names_is_on_the_page_and_holds_its_name(model, kernel):
    if not is_here(model, kernel):
        return
    text = shown(model, kernel)
    lines = {}
    for file, source in re.findall(
        r'<div class="ks-src"[^>]*data-file="([^"]*)">(.*?)</div>', text, re.DOTALL
    ):
        for number, line in re.findall(
            r'<span class="l[^"]*" data-n="(\d+)">(.*?)(?=<span class="l|\Z)', source, re.DOTALL
        ):
            lines[f"{file}:{number}"] = entities.unescape(re.sub("<[^>]+>", "", line))
    rows = re.findall(r"<tr>(?:(?!</tr>).)*data-line(?:(?!</tr>).)*</tr>", text, re.DOTALL)
    assert rows
    for row in rows:
        names = re.findall(r"<code>(\w+)</code>", row)
        for place in re.findall(r'data-line="([^"]*)"', row):
            assert any(re.search(rf"\b{name}\b", lines[place]) for name in names), place


@each_page
def test_terms_are_marked_in_the_source_and_not_in_its_comments(model, kernel):
    if not is_here(model, kernel):
        return
    text = shown(model, kernel)
    source = "".join(re.findall(r'<div class="ks-src".*?</div>', text, re.DOTALL))
    marked = set(re.findall(r'data-symbol="([^"]*)"', source))
    said = [term.tex for term in KERNELS[kernel].terms]
    assert {entities.unescape(tex) for tex in marked} <= set(said)
    assert len(marked) >= 3
    for comment in re.findall(r'<span class="c1">.*?</span>', source):
        assert "data-symbol" not in comment


ENDS = [(1, 1), (1, 4_096), (7, 131_072), (128, 1_048_576)]


@each_page
@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_every_load_is_that_of_the_work_at_every_end_of_the_context(model, kernel, phase):
    if not is_here(model, kernel):
        return
    shown_load = pages(model)["pages"][kernel]["load"][phase]
    real = KERNELS[kernel].phase or phase
    for batch, positions in ENDS:
        call = Call(preset(model), batch, positions, real)
        wanted = work_of(kernel, call)
        for what in ("flops", "bytes"):
            once, c0, c1, c2, hit, miss = shown_load[what]
            rows = batch * (positions if phase == "prefill" else 1)
            got = once + batch * (c0 + positions * (c1 + positions * c2))
            got += hit * (1 - miss**rows)
            assert got == pytest.approx(getattr(wanted, what), rel=1e-9), (what, batch, positions)


def test_loads_are_those_that_are_known():
    k3 = preset("k3")
    prefill = work_of("kda_chunk", Call(k3, 1, 8_192, "prefill"))
    assert prefill == work.kda_prefill(1, 8_192, 96, 128, 128, 2)
    decode = work_of("mla_decode", Call(k3, 1, 131_072, "decode"))
    assert decode.bytes == pytest.approx(151e6, rel=2e-3)
    sources = work_of("attn_res", Call(k3, 1, 8_192, "prefill"))
    assert sources.bytes == pytest.approx(1.17e9, rel=5e-3)
    hit = work_of("experts", Call(k3, 1, 1, "decode"))
    assert hit.bytes == pytest.approx(0.28e9, rel=1e-2)
    with pytest.raises(LookupError, match="no KDA layers"):
        load("kda_step", preset("k2"), "decode")


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_row_of_every_committed_report_is_on_the_page(kernel):
    text = shown("kimi-linear", kernel) if is_here("kimi-linear", kernel) else ""
    text = text or next(shown(m, kernel) for m in MODELS if is_here(m, kernel))
    table = re.findall(r'<table class="ks-stack ks-compiled">.*?</table>', text, re.DOTALL)
    rows = "".join(table).count("<tr><td>")
    wanted = [
        row
        for report in reports().values()
        for row in report["rows"]
        if row["case"].partition(", ")[0] == kernel
    ]
    assert rows == len(wanted) > 0
    registers = re.findall(r'data-l="registers">(\d+)<', "".join(table))
    assert sorted(map(int, registers)) == sorted(row["used"]["registers"] for row in wanted)
    assert [report.triton for report in compiled(kernel)] == list(reports())


def test_no_time_is_shown_where_none_was_measured(tmp_path):
    assert timed("rms_norm", tmp_path) == ()
    row = {
        "case": "rms_norm, 8192 rows of 7168",
        "dtype": "bfloat16",
        "seconds": 5e-5,
        "torch_seconds": None,
        "share_of_copy": 0.9,
    }
    left_out = row | {"case": "router, 1 token", "seconds": None}
    text = json.dumps({"device": "a GPU", "rows": [row, left_out]})
    (tmp_path / "bench-a-gpu.json").write_text(text)
    (found,) = timed("rms_norm", tmp_path)
    assert (found.device, found.sizes, found.seconds) == ("a GPU", "8192 rows of 7168", 5e-5)
    assert timed("router", tmp_path) == ()
    for model, kernel in PAIRS:
        if is_here(model, kernel) and not timed(kernel):
            assert "not measured yet" in shown(model, kernel)
            assert "a bound, not a measurement" in shown(model, kernel)


@pytest.mark.parametrize("model", MODELS)
def test_the_pages_are_one_message_of_bounded_size(model):
    sent = packed(model)
    assert sent.startswith(b"kernels ")
    assert len(sent) <= LARGEST_ON_THE_WIRE
    assert sent == packed(model)


@pytest.mark.parametrize("model", MODELS)
def test_the_list_names_every_kernel(model):
    linked = re.findall(r'data-kernel="(\w+)"', pages(model)["index"])
    assert linked == list(KERNELS)


def test_the_address_knows_the_page():
    read = selection({"view": "kernel", "kernel": "rms_norm", "node": "norm/rms"})
    assert (read.view, read.kernel, read.node) == ("kernel", "rms_norm", "norm/rms")
    assert selection({"view": "kernel", "kernel": "<b>"}).kernel == ""


def test_the_symbols_of_a_page_are_those_of_its_model():
    kernel = KERNELS["experts"]
    wide = KernelPage(Reading("k3", current_nodes()), kernel)
    narrow = KernelPage(Reading("k2", current_nodes()), kernel)
    assert "z" in wide.symbols
    assert "z" not in narrow.symbols
    assert "x" in narrow.symbols
