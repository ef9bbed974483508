"""The page of all proofs: each equation of a run once, red ones first, the rest with reasons."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from annotations.loader import load_nodes
from app.panels import all_proofs
from app.run_checks import Asked, CheckRow, pick
from app.runs import shared_store
from app.state import selection
from model.identities.registry import IDENTITIES

SCRIPT = Path(__file__).with_name("proofs_page.py")
ROW = CheckRow("q", "Queries", "KimiMLAAttention", ("KimiMLAAttention.q",), 3, "", 1, 1e-7, 1e-5,
               True, "", 4)  # fmt: skip


def opened(**parameters):
    page = AppTest.from_file(str(SCRIPT), default_timeout=180)
    for name, value in parameters.items():
        page.query_params[name] = str(value)
    page.run()
    assert not page.exception, page.exception
    return "\n".join(element.proto.body for element in page.get("html"))


@pytest.fixture(scope="module")
def example():
    return opened(view="proofs")


@pytest.fixture(scope="module")
def fresh():
    return opened(view="proofs", source="tiny-k2", prompt="a b c", new=2)


def test_the_address_knows_the_page():
    assert selection({"view": "proofs"}).view == "proofs"


def test_the_stored_example_shows_each_of_its_equations_once(example):
    rows = shared_store().checked(shared_store().example(), Asked(taps=())).result()
    assert example.count('aria-label="error') == len(rows)
    assert f"{len(rows)} equations, all hold" in example
    assert "✗" not in example
    assert "stored run" in example


@pytest.mark.parametrize("page", ["example", "fresh"])
def test_every_equation_is_answered_or_has_a_reason(page, request):
    html = request.getfixturevalue(page)
    unanswered = html.partition("kl-unanswered")[2].count("<tr>") - 1
    assert html.count('aria-label="error') + unanswered == len(IDENTITIES)


def test_a_fresh_run_says_what_its_model_lacks_and_how_long_each_took(fresh):
    assert "tiny-k2 has no Kimi Delta Attention." in fresh
    assert re.search(r"\d ms</td>", fresh)
    assert "Replaying them took" in fresh


def test_equations_have_room_for_their_letters_and_lead_to_their_pages(example):
    assert 'data-equation="mla/kv_cache"' in example
    assert 'data-node="mla/kv_cache"' in example


def test_equations_of_another_family_are_not_drawn_and_the_way_to_them_is_offered(fresh):
    assert "data-equation" not in fresh
    assert 'data-switch="tiny-k2"' in fresh


def test_red_ones_come_first_then_what_is_nearest_to_its_tolerance():
    near = replace(ROW, name="near", error=9e-6)
    wide = replace(ROW, name="wide", error=2e-5, tolerance=1e-2)
    red = replace(ROW, name="red", error=1e-4, passed=False)
    nan = replace(ROW, name="nan", error=float("nan"), passed=False)
    names = [row.name for row in all_proofs.order([wide, ROW, near, red, nan])]
    assert names == ["nan", "red", "near", "q", "wide"]


def test_stored_rows_of_one_equation_come_together_at_their_worst():
    rows = [replace(ROW, seconds=0.1), replace(ROW, layer=7, error=3e-7, seconds=0.2)]
    (row,) = pick(rows, Asked(taps=()))
    assert (row.layer, row.error, row.places) == (7, 3e-7, 8)
    assert row.seconds == pytest.approx(0.3)
    (untimed,) = pick([ROW, rows[1]], Asked(taps=()))
    assert untimed.seconds is None


def test_a_row_that_is_no_number_is_the_worst_wherever_it_stands():
    nan = replace(ROW, layer=5, error=float("nan"), passed=False)
    for rows in ([ROW, nan, ROW], [nan, ROW]):
        assert pick(rows, Asked(taps=()))[0].layer == 5


def test_a_failing_equation_is_counted_and_shown_reversed():
    from app.panels.html import render

    bad = replace(ROW, error=1.0, passed=False, detail="3 of 9 values of the tensor are NaN")
    html = render(
        "all_proofs.html",
        rows=[{"row": bad, "home": None, "where": all_proofs.where(bad)}],
        timed=False,
        drawn=True,
    )
    assert "✗ fails" in html
    assert "layer 3, step 1, worst of 4: 3 of 9 values of the tensor are NaN" in html


def test_one_page_shows_its_equation_once():
    nodes = load_nodes()
    tap = next(tap for node in nodes.values() if node.equation for tap in node.taps)
    first, second = all_proofs.homes_of([((tap,), ""), ((tap,), "")], nodes, "k3")
    assert first
    assert second
    assert first.is_first
    assert not second.is_first
