"""Comparing: the page is reached, a pair chosen and a part opened, and Back undoes each step."""

import re

from playwright.sync_api import Page, expect

KV_CACHE = "?node=mla/kv_cache"
FIRST = 30_000
"""Milliseconds until a pair that nobody has compared on this machine must be there."""
OVER_THE_EDGE = """() => [...document.querySelectorAll('.ks-above *')]
  .filter(e => !e.closest('svg, math, .ks-vh') && e.getBoundingClientRect().right > 391)
  .filter(e => !e.parentElement.closest('.ks-tw, .ks-eq'))
  .map(e => `${e.tagName} ${e.className}`)"""
BOTH_TOPS = """() => [...document.querySelectorAll('.ks-both .ks-eq')]
  .map(e => e.getBoundingClientRect()).map(box => [box.top, box.left])"""


def line(page: Page, node: str):
    return page.locator(f'[data-part="{node}"]')


def total(page: Page, label: str) -> list[str]:
    row = page.locator(".ks-totals tr").filter(has_text=label).first
    return row.locator("td.ks-n").all_inner_texts()


def test_from_a_page_to_a_pair_to_a_part_and_back(visitor):
    page = visitor.open(KV_CACHE)
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.locator("h1")).to_have_text("From K2 to K3", timeout=FIRST)
    page.get_by_role("link", name="Kimi-Linear → K3").click()
    expect(page.locator("h1")).to_have_text("From Kimi-Linear to K3", timeout=FIRST)
    assert "from=kimi-linear&to=k3" in page.url
    page.get_by_role("link", name="Bounded log-decay").click()
    expect(line(page, "kda/log_decay").locator(".ks-eq")).to_have_count(2)
    assert "node=kda/log_decay" in page.url
    page.go_back()
    expect(page.locator(".ks-both")).to_have_count(0)
    page.go_back()
    expect(page.locator("h1")).to_have_text("From K2 to K3")
    page.go_back()
    expect(page.locator("h1")).to_have_text("KV cache")
    page.go_forward()
    page.go_forward()
    page.go_forward()
    expect(line(page, "kda/log_decay").locator(".ks-eq")).to_have_count(2)
    assert visitor.errors == []


def test_the_address_opens_a_part_and_equations_stand_beside_each_other(visitor):
    page = visitor.open("?view=compare&from=k2&to=k3&node=mla/gated")
    expect(line(page, "mla/gated").locator(".ks-eq")).to_have_count(2)
    expect(line(page, "mla/gated").locator("h3 a")).to_have_attribute("aria-expanded", "true")
    first, second = page.evaluate(BOTH_TOPS)
    assert abs(first[0] - second[0]) < 12
    assert second[0] < 900, "what the address opens is in view"
    assert second[1] > first[1] + 300
    page.get_by_role("link", name="Open the page of K2").click()
    expect(page.locator("h1")).to_have_text("Latent attention")
    assert "model=k2" in page.url
    page.go_back()
    expect(line(page, "mla/gated").locator(".ks-eq")).to_have_count(2)


def test_a_page_leads_to_its_own_line(visitor):
    page = visitor.open("?node=mlp/situ&at=mlp")
    page.locator(".ks-above").get_by_role("link", name="K2 → K3").click()
    expect(line(page, "mlp/situ").locator(".ks-eq")).to_have_count(2, timeout=FIRST)


def test_totals_follow_the_rule_and_say_where_a_model_ends(visitor):
    page = visitor.open("?view=compare")
    before = total(page, "Kept at this context, latent")
    slide = page.locator("[data-handle=context]")
    slide.focus()
    page.keyboard.press("End")
    expect(page.locator("[data-handle=context-exact]")).to_have_value("1,048,576")
    assert total(page, "Kept at this context, latent") != before
    assert total(page, "Kept at this context, latent")[1].startswith("27.4")
    expect(page.get_by_text("K2 is configured for 131,072 positions")).to_be_visible()
    page.keyboard.press("Home")
    expect(page.get_by_text("K2 is configured for 131,072 positions")).to_be_hidden()


def test_a_pair_may_be_longer_than_the_priced_model(visitor):
    page = visitor.open("?view=compare&model=k2&context=1048576")
    expect(page.locator("[data-handle=context-exact]")).to_have_value("1,048,576")
    expect(page.locator(".ks-notice:visible")).to_have_count(1)


def test_one_kind_of_line_is_shown_alone_and_the_keyboard_walks_the_lines(visitor):
    page = visitor.open("?view=compare")
    page.locator("[data-show=gone]").click()
    assert "show=gone" in page.url
    shown = page.locator(".ks-part:visible")
    expect(shown).to_have_count(7)
    expect(page.locator(".ks-family:visible")).to_have_count(3)
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.get_by_role("link", name="Positions", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(line(page, "embed/positions").locator(".ks-eq")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".ks-both")).to_have_count(0)


def test_an_address_that_compares_nothing_is_answered(visitor):
    page = visitor.open("?view=compare&from=k3&to=k9&node=no/such&show=odd")
    expect(page.locator("h1")).to_have_text("From K2 to K3")
    said = " ".join(page.locator(".ks-notice:visible").all_inner_texts())
    for word in ("k9", "no/such", "odd"):
        assert word in said, said


def test_on_a_phone_everything_stands_below_each_other(app, chromium):
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{app.url}/?view=compare&node=mla/gated")
    expect(line(page, "mla/gated").locator(".ks-eq")).to_have_count(2)
    first, second = page.evaluate(BOTH_TOPS)
    assert second[0] > first[0] + 30
    assert page.evaluate(OVER_THE_EDGE) == []
    context.close()


def test_the_overview_offers_pairs(visitor):
    page = visitor.open("?view=overview")
    page.locator(".ks-ways").get_by_role("link", name=re.compile("K2 → K3")).click()
    expect(page.locator("h1")).to_have_text("From K2 to K3", timeout=FIRST)
