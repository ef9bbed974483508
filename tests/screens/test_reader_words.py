"""Pieces of a page: hostile text, formulas, numbers and lines."""

import dataclasses

import pytest

from annotations.node import Node, Source, Symbol
from annotations.outline import Entry
from app.reader.context import Reading
from app.reader.excerpts import Lines, evidence, numbered
from app.reader.mathml import found, mathml, spoken
from app.reader.numbers import formula, show_bytes, show_int, show_short, span
from app.reader.pages import Page
from app.reader.payload import current_nodes

HOSTILE = '<script>alert("x")</script>&<img src=x onerror=alert(1)>'


@pytest.fixture
def hostile_page() -> Page:
    node = Node(
        id="mla/kv_cache",
        title=f"Title {HOSTILE}",
        kind="state · kept between calls",
        lede=f"Lede {HOSTILE} [x](javascript:alert(1)) and `{HOSTILE}`",
        code=HOSTILE,
        prose=f"Prose {HOSTILE}\n\n<b>bold</b>",
        remark=HOSTILE,
        symbols=(Symbol(tex="x", config="hidden_size", means=HOSTILE),),
        equation=r"x = \text{<script>}",
        sources=(
            Source(
                id="s",
                claim=HOSTILE,
                grade="direct",
                pin="k3",
                path="<b>.py",
                lines="1-2",
                within="<i>x</i>",
            ),
        ),
    )
    reading = Reading("k3", {**current_nodes(), node.id: node})
    entry = reading.by_place[node.id, "self_attn"]
    return Page(reading, entry, Lines())


def test_hostile_text_of_a_node_is_text_on_its_page(hostile_page):
    html = hostile_page.head() + hostile_page.body()
    for tag in ("<script", "<img", "<b>bold", "<i>x", 'javascript:alert(1)"', "onerror=alert(1)>"):
        assert tag not in html, tag
    assert "&lt;script&gt;" in html


def test_hostile_lines_are_text_in_an_excerpt():
    html = numbered([(1, ("x = '</span><script>'", "# <b>"))], "f.py", {}, frozenset({2}))
    assert "<script" not in html
    assert "<b>" not in html
    assert 'data-n="2"' in html


def test_what_an_excerpt_leaves_out_is_said():
    html = numbered([(3, ("a",)), (9, ("b",))], "f.py", {}, frozenset())
    assert "lines 4–8" in html


@pytest.mark.parametrize(
    ("tex", "symbol"),
    [
        (r"h = \sum_j a_j v_j", "a_j"),
        (r"\hat v_j \cdot w", r"\hat v_j"),
        (r"e^{A}\,(W_f^{\uparrow} x)", r"W_f^{\uparrow}"),
        (r"[\,K_h \,;\, k_h\,]", "k_h"),
        (r"S' = S", "S'"),
    ],
)
def test_a_symbol_is_found_by_its_tokens(tex, symbol):
    assert found(tex, Symbol(tex=symbol, config="x"))


@pytest.mark.parametrize(
    ("tex", "symbol"),
    [(r"\hat h", "h"), (r"\mathrm{softmax}", "m"), (r"\operatorname{rms}(x)", "s")],
)
def test_a_letter_inside_a_word_or_under_an_accent_is_no_symbol(tex, symbol):
    assert not found(tex, Symbol(tex=symbol, config="x"))


def test_a_marked_symbol_carries_its_stream_and_its_scripts():
    math = mathml("K_h^{(P)}", (Symbol(tex="K_h", config="x", stream="key", means="keys"),))
    assert 'class="ks-sym stream-key" data-symbol="K_h" data-stream="key" title="keys"' in math
    assert "msubsup" in math
    assert spoken(math) == "Kh(P)"


def test_rows_of_an_aligned_equation_become_a_table():
    math = mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}", display=True)
    assert math.count("<mtr>") == 2
    assert math.count('<mtd class="ks-r">') == 2


def test_a_count_that_is_no_polynomial_is_refused():
    with pytest.raises(ValueError, match="no polynomial"):
        formula(lambda batch, positions, phase: batch * positions // 3)


def test_a_polynomial_comes_back_as_it_was():
    made = formula(lambda b, p, ph: b * (7 + 3 * p + 2 * p * p) if ph == "prefill" else b * (5 + p))
    assert made.text() == "5 1 0|7 3 2"
    assert made.degree == 1
    assert 'data-f="5 1 0|7 3 2" data-b="1"' in span(made)


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (show_int, 1_720_320, "1,720,320"),
        (show_bytes, 61_440, "60\u00a0KiB"),
        (show_bytes, 251_658_240, "240\u00a0MiB"),
        (show_bytes, 6_586_368, "6.28\u00a0MiB"),
        (show_bytes, 512, "512\u00a0B"),
        (show_short, 1_174_405_120, "1.17 G"),
        (show_short, 14_336, "14,336"),
    ],
)
def test_numbers_are_shown_as_the_page_shows_them(show, value, text):
    assert show(value) == text


def test_an_entry_below_a_place_is_found_nearest_to_where_it_is_named():
    reading = Reading("k3", current_nodes())
    near = Entry(node="mla/kv_up", instance="self_attn", place="mla", depth=3)
    found_entry = reading.entry_for("norm/rms @ self_attn.kv_a_layernorm", near)
    assert found_entry is not None
    assert found_entry.instance == "self_attn.kv_a_layernorm"


def test_a_prime_stands_beside_its_letter():
    math = mathml("S_t'")
    assert "msubsup" not in math
    assert "</msub><mo" in math


def test_texts_inside_a_formula_are_escaped():
    math = mathml(r"a < b \text{<script>&}")
    assert "&lt;script&gt;&amp;" in math
    assert "<script" not in math


def test_an_excerpt_is_shown_with_its_own_line_numbers_and_place_in_the_file(tmp_path, monkeypatch):
    text = "import os\n\n\ndef f(x):\n    y = x < 1\n    return y\n\n\nz = 1\n"
    (tmp_path / "k3").mkdir()
    (tmp_path / "k3" / "a.py").write_text(text)
    monkeypatch.setenv("KIMISCOPE_PINNED_DIR", str(tmp_path))
    source = Source(
        id="s",
        claim="c",
        grade="direct",
        pin="k3",
        path="a.py",
        lines="5-6",
        within="f",
        names=("y",),
    )
    lines = Lines()
    card = evidence(source, lines)
    assert card.missing == ""
    assert card.file_lines == 9
    assert card.marks == ((4 / 9, 2 / 9),)
    assert 'data-n="5"' in lines.kept[card.key]
    assert "x &lt; " in lines.kept[card.key]


def test_an_excerpt_that_does_not_agree_is_not_shown(tmp_path, monkeypatch):
    (tmp_path / "k3").mkdir()
    (tmp_path / "k3" / "a.py").write_text("def f(x):\n    return x\n")
    monkeypatch.setenv("KIMISCOPE_PINNED_DIR", str(tmp_path))
    source = Source(
        id="s", claim="c", grade="direct", pin="k3", path="a.py", lines="2", names=("missing",)
    )
    card = evidence(source, Lines())
    assert card.key == ""
    assert "do not hold missing" in card.missing


def test_an_excerpt_that_was_not_fetched_says_how_to_fetch_it(tmp_path, monkeypatch):
    monkeypatch.setenv("KIMISCOPE_PINNED_DIR", str(tmp_path))
    source = Source(id="s", claim="c", grade="direct", pin="k3", path="a.py", lines="2")
    card = evidence(source, Lines())
    assert card.url.startswith("https://huggingface.co/moonshotai/Kimi-K3/blob/f831ab66")
    assert "holds no k3/a.py" in card.missing
    assert "python -m annotations fetch" in card.advice


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (None, "unchecked"),
        ("y = 2\n", "checked, and does not agree"),
        ("x = 1\n", "checked on fetch"),
    ],
    ids=["not fetched", "other text", "the cited text"],
)
def test_a_page_says_whether_its_lines_were_checked(tmp_path, monkeypatch, text, status):
    monkeypatch.setenv("KIMISCOPE_PINNED_DIR", str(tmp_path))
    if text is not None:
        (tmp_path / "k3").mkdir()
        (tmp_path / "k3" / "a.py").write_text(text)
    source = Source(
        id="s", claim="c", grade="direct", pin="k3", path="a.py", lines="1", names=("x",)
    )
    nodes = current_nodes()
    node = dataclasses.replace(nodes["kda/state"], sources=(source,))
    reading = Reading("k3", {**nodes, node.id: node})
    html = Page(reading, reading.by_place[node.id, "self_attn"], Lines()).body()
    assert html.count('class="ks-status"') == 1
    assert f'<span class="ks-status">{status}</span>' in html
