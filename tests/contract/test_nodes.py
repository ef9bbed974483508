"""Every node file loads, and a faulty one says everything that is wrong with it."""

import pytest

from annotations.loader import load_nodes, parse
from annotations.node import NodeError, for_model, for_place, line_ranges, notes
from annotations.prose import fill, links, placeholders
from annotations.tex import occurrences

NODES = load_nodes()

WHOLE = r"""+++
title = "Gate"
kind = "gate"
lede = "It opens."
in = ['x']
symbol = [{tex = 'x', node = "a/b @ self_attn.norm", stream = "residual"}]
[[source]]
id = "s"
pin = "k3"
path = "f.py"
lines = "4-6, 9"
within = "f"
names = ["x"]
claim = "It is so."
grade = "direct"
[k2]
title = "Old gate"
[at.mlp_res]
title = "Other gate"
+++

$$
\hat x = x
$$

Some prose.

# k2

$$
y = x
$$

It differs.

# @ mlp_res

Other prose.
"""


def faults_of(text):
    with pytest.raises(NodeError) as caught:
        parse("a/b", text)
    return caught.value.faults


def test_a_file_becomes_a_node_with_its_models_and_places():
    node = parse("a/b", WHOLE)
    assert node.equation == r"\hat x = x"
    assert node.prose == "Some prose."
    assert node.lines == "4-6, 9"
    assert node.sources[0].ranges == ((4, 6), (9, 9))
    other = for_model(node, "k2")
    assert (other.title, other.equation, other.prose) == (
        "Old gate",
        "y = x",
        "Some prose.\n\nIt differs.",
    )
    assert notes(node, "k3") == {"k2": "It differs."}
    assert for_place(node, "mlp_res").title == "Other gate"
    assert for_place(node, "mlp_res").prose == "Other prose."
    assert for_place(node, "elsewhere") is node


def test_every_fault_of_a_file_is_said_at_once():
    faults = faults_of(
        WHOLE.replace('title = "Gate"', 'title = "Gate"\nodd = 1')
        .replace('stream = "residual"', 'stream = "red"')
        .replace('grade = "direct"', 'grade = "sure"')
        .replace("# k2", "# k4")
    )
    text = "\n".join(faults)
    assert all(fault.startswith("a/b.md: ") for fault in faults)
    for word in ("'odd'", "'red'", "'sure'", "'k4'"):
        assert word in text


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("tex = 'x'", 'tex = "\\beta"', "control character"),
        ('lines = "4-6, 9"', 'lines = "6-4"', "ascend"),
        ('lines = "4-6, 9"', 'lines = "four"', "must read like"),
        ('kind = "gate"', 'kind = "gait"', "'gait'"),
        ("in = ['x']", "in = 'x'", "list of strings"),
        ("[[source]]", 'cite = ["nowhere"]\n[[source]]', "'nowhere'"),
        (', node = "a/b @ self_attn.norm"', "", "must name one of"),
        ("+++\ntitle", "title", "must begin with"),
        ("lede = ", "lede ", "no TOML"),
    ],
)
def test_a_fault_names_what_it_is(old, new, word):
    assert any(word in fault for fault in faults_of(WHOLE.replace(old, new, 1)))


def test_links_to_missing_nodes_are_listed_for_all_files(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.md").write_text(WHOLE.replace("Some prose.", f"See [[no/{name}]]."))
    with pytest.raises(NodeError) as caught:
        load_nodes(tmp_path)
    assert [fault.split()[-6:-3] for fault in caught.value.faults] != []
    assert "no/one" in str(caught.value)
    assert "no/two" in str(caught.value)


def test_placeholders_and_links_are_found_outside_code_and_maths():
    text = "Has {a_fact:,} and `{code}` and $x_{n}$, {k2.b}, [[m/n @ o.p|there]]."
    assert [(p.model, p.name, p.format) for p in placeholders(text)] == [
        ("", "a_fact", ","),
        ("k2", "b", ""),
    ]
    assert [(found.node, found.instance, found.label) for found in links(text)] == [
        ("m/n", "o.p", "there")
    ]
    filled = fill(text, placeholder=lambda p: p.name.upper(), link=lambda found: found.label)
    assert filled == "Has A_FACT and `{code}` and $x_{n}$, B, there."


def test_symbols_are_found_by_tokens_of_latex():
    equation = r"\hat h = W h_{t}"
    assert occurrences(equation, "h") == [(5, 6), (11, 12)]
    assert occurrences(equation, "h_{ t }") == [(11, 16)]
    assert occurrences(equation, "k") == []


def test_line_ranges_are_pairs():
    assert line_ranges("127-135, 150") == ((127, 135), (150, 150))


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
def test_a_node_says_what_it_is(node):
    assert node.title
    assert node.lede.endswith(".")
