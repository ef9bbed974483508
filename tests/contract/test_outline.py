"""Outlines: order, breadcrumbs and the module path of every place."""

import pytest

from annotations.loader import load_nodes
from annotations.node import NodeError, for_model, for_place
from annotations.outline import (
    breadcrumb,
    find,
    flat,
    models,
    moved,
    neighbours,
    outline,
    parse,
)
from annotations.prose import plain
from app.place import place_of
from app.state import Selection
from model.presets import preset

NODES = load_nodes()
COMPLETE = [
    *("mla/kv_joint", "mla/kv_latent", "mla/k_shared", "mla/kv_up", "mla/split_kv", "mla/join"),
    *("mla/kv_cache", "attn_res/mix", "attn_res/stack", "attn_res/normalize_keys"),
    *("attn_res/fold_query", "attn_res/score", "attn_res/softmax", "attn_res/weighted_sum"),
    *("attn_res/seal", "block/add_mixer", "attn_res/output_mix", "norm/rms"),
]


def titles(model, node, instance=""):
    def title(entry):
        return for_place(for_model(NODES[entry.node], model), entry.instance).title

    return [title(entry) for entry in breadcrumb(model, node, instance)]


def test_k3_has_an_outline_that_is_walkable_end_to_end():
    assert len(flat("k3")) >= 70
    first, last = flat("k3")[0], flat("k3")[-1]
    seen = [first]
    while following := neighbours("k3", seen[-1].node, seen[-1].instance)[1]:
        seen.append(following)
    assert seen == list(flat("k3"))
    assert neighbours("k3", first.node)[0] is None
    assert neighbours("k3", last.node, last.instance)[1] is None


@pytest.mark.parametrize(("model", "parts"), [("k3", 75), ("k2", 50), ("kimi-linear", 60)])
def test_a_model_is_told_in_so_many_parts_at_least(model, parts):
    assert len({entry.node for entry in flat(model)}) >= parts


def test_breadcrumbs_are_those_of_the_reference_pages():
    assert titles("k3", "mla/kv_cache") == [
        "{num_layers} layers",
        "{num_mla_layers} MLA layers",
        "Gated MLA",
        "KV cache",
    ]
    assert titles("k3", "mla/k_shared")[-2:] == ["Key and value heads", "Take the shared key part"]


def test_an_entry_knows_its_path_in_the_running_model():
    assert find("k3", "mla/k_shared").path(3) == "layers.3.self_attn"
    assert find("k3", "norm/rms", "self_attn.kv_a_layernorm").path(3) == (
        "layers.3.self_attn.kv_a_layernorm"
    )
    assert find("k3", "attn_res/score", "output_attn_res").path(3) == "output_attn_res"
    assert find("k3", "attn_res/seal").path(4) == "layers.4"
    assert find("k3", "head/logits").path(4) == ""


def test_a_node_in_several_places_has_a_breadcrumb_for_each():
    assert titles("k3", "attn_res/score", "mlp_res")[1] == "Mix before the feed-forward"
    assert titles("k3", "attn_res/score")[1] == "Mix before attention"
    assert titles("k3", "attn_res/score", "output_attn_res")[0] == "Output mix over blocks"


def test_what_a_line_leaves_out_is_its_parents():
    tree = parse("- a/one @ x in kda\n  - a/two\n  - a/three @ / in all\n- a/four\n", "t.md")
    two, three = tree[0].children
    assert (two.instance, two.place, two.depth) == ("x", "kda", 1)
    assert (three.instance, three.place) == ("", "all")
    assert (tree[1].instance, tree[1].place) == ("", "")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("* a/one", "line 1"),
        ("- a/one in nowhere", "'nowhere'"),
        ("- a/one\n    - a/two", "more than one level"),
        ("- a/one\n- a/one", "stands twice"),
    ],
)
def test_a_faulty_outline_names_the_line(text, word):
    with pytest.raises(NodeError, match=word):
        parse(text, "t.md")


def test_an_unknown_model_node_or_place_is_answered_in_words():
    with pytest.raises(LookupError, match="outlines are"):
        outline("k9")
    with pytest.raises(LookupError, match="no node 'mla/none'"):
        find("k3", "mla/none")
    with pytest.raises(LookupError, match=r"not at 'self_attn\.none'"):
        find("k3", "norm/rms", "self_attn.none")


def test_moved_nodes_lead_to_places_that_exist():
    for node, instance in moved().values():
        assert find("k3", node, instance)


@pytest.mark.parametrize("node", COMPLETE)
def test_a_complete_page_has_all_its_parts(node):
    page = for_model(NODES[node], "k3")
    assert page.equation
    assert page.inputs
    assert page.outputs
    assert page.remark
    assert page.look
    assert page.ours
    assert any(source.grade == "direct" for source in page.sources)
    for prose in (page.prose, *(place.prose for place in page.places.values() if place.prose)):
        assert 60 <= len(plain(prose).split()) <= 200, node


@pytest.mark.parametrize("model", models())
def test_every_entry_of_an_outline_has_evidence_and_code_to_show(model):
    for entry in flat(model):
        page = for_model(NODES[entry.node], model)
        assert page.sources, entry
        assert page.ours, entry
        assert 60 <= len(plain(page.prose).split()) <= 200, entry


@pytest.mark.parametrize("old", moved())
def test_an_address_with_an_old_id_is_read_at_its_new_place(old):
    node, instance = moved()[old]
    place = place_of(Selection(node=old), NODES, preset("tiny-k3"))
    assert place.entry == find("k3", node, instance)
