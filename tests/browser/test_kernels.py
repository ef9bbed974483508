"""Pages of kernels: from a part and back, terms in both directions, the roof under a drag."""

import re

from playwright.sync_api import Page, expect

OVER_THE_EDGE = """() => [...document.querySelectorAll('.ks-above *')]
  .filter(e => !e.closest('svg, math, .ks-vh') && e.getBoundingClientRect().right > 391)
  .filter(e => !e.parentElement.closest('.ks-src, .ks-tw, .ks-eq'))
  .map(e => `${e.tagName} ${e.className}`)"""
LIT = """() => [...document.querySelectorAll('.ks-lit')]
  .map(e => [e.dataset.symbol, !!e.closest('math')])"""
LONG_WAIT = 30_000


def at_kernel(visitor, query: str) -> Page:
    page = visitor.open(query)
    page.locator("[data-part=roofline] circle").wait_for(timeout=LONG_WAIT)
    return page


def time_at_best(page: Page) -> str:
    return page.locator("[data-load=time]").inner_text()


def test_a_part_leads_to_its_kernel_and_the_kernel_back(visitor):
    page = visitor.open("?node=norm/rms&at=input_layernorm")
    page.locator(".ks-facts a[data-kernel=rms_norm]").click()
    expect(page.locator("h1")).to_have_text("RMS norm", timeout=LONG_WAIT)
    assert "view=kernel" in page.url
    assert "kernel=rms_norm" in page.url
    assert "node=norm/rms&at=input_layernorm" in page.url
    page.locator(".ks-facts a[data-node='norm/rms']").click()
    expect(page.locator("h1")).to_have_text("Input norm")
    page.go_back()
    expect(page.locator("h1")).to_have_text("RMS norm")
    expect(page.locator("[data-part=roofline] circle")).to_be_visible()
    assert visitor.errors == []


def test_a_kernel_opens_by_its_address_and_an_unknown_one_is_said(visitor):
    page = at_kernel(visitor, "?view=kernel&kernel=mla_decode&gpu=a100")
    assert "on A100" in time_at_best(page)
    page = visitor.open("?view=kernel&kernel=nothing")
    expect(page.locator(".ks-kernel-list")).to_be_visible(timeout=LONG_WAIT)
    said = " ".join(page.locator(".ks-notice").all_inner_texts())
    assert "there is none of that name" in said
    page.locator("a[data-kernel=router]").click()
    expect(page.locator("h1")).to_have_text("Router's choice")


def test_a_symbol_of_the_equation_lights_its_names_and_a_name_its_symbol(visitor):
    page = at_kernel(visitor, "?view=kernel&kernel=kda_step")
    page.locator(".ks-eq [data-symbol='u']").first.hover()
    lit = page.evaluate(LIT)
    assert {symbol for symbol, _ in lit} == {"u"}
    assert {in_math for _, in_math in lit} == {True, False}
    page.mouse.move(0, 0)
    name = page.locator(".ks-src [data-symbol='\\\\bar S']").first
    assert name.inner_text() == "decayed"
    name.hover()
    assert [True for symbol, in_math in page.evaluate(LIT) if in_math and symbol == r"\bar S"]


def test_a_line_of_a_term_is_found_even_in_a_closed_fold(visitor):
    page = at_kernel(visitor, "?view=kernel&kernel=kda_chunk")
    links = page.locator("a[data-line]")
    before = page.url
    closed = page.locator("a[data-line^='kernels/kda_prepare.py']").last
    for link in (links.first, closed):
        place = link.get_attribute("data-line") or ""
        link.click()
        hit = page.locator(".ks-src .hit")
        expect(hit).to_have_count(1)
        expect(hit).to_be_in_viewport()
        assert hit.get_attribute("data-n") == place.partition(":")[2]
    assert page.url == before


def test_the_bound_follows_the_rule_and_the_gpu_without_a_message(visitor):
    page = at_kernel(visitor, "?view=kernel&kernel=mla_prefill")
    page.wait_for_timeout(3000)
    sent = len(visitor.sent)
    at_first = time_at_best(page)
    rule = page.locator("[data-handle=context]")
    rule.focus()
    page.keyboard.press("PageUp")
    assert time_at_best(page) != at_first
    expect(page.locator("[data-section=roofline] [data-word=context]")).to_have_text("8,192")
    page.locator("[data-gpu=b200]").click()
    assert "on B200" in time_at_best(page)
    expect(page.locator("[data-part=gpu-rows] td:first-child b")).to_have_text("NVIDIA B200")
    assert "gpu=b200" in page.url
    page.wait_for_url("**context=8192**")
    assert len(visitor.sent) == sent


def test_the_kernel_runs_on_the_example_when_it_is_asked(visitor):
    page = at_kernel(visitor, "?view=kernel&kernel=situ&node=mlp/situ")
    page.locator(".st-key-kernel-run button").click(timeout=LONG_WAIT)
    expect(page.locator(".st-key-live .verdict").last).to_have_text("✓ pass", timeout=90_000)
    assert re.search(r"took \d+\.\d+ s", page.locator(".st-key-live").inner_text())
    assert visitor.errors == []


def test_a_kernel_that_is_stopped_stays_stopped_and_can_be_asked_again(visitor):
    page = at_kernel(visitor, "?view=kernel&kernel=kda_chunk&node=kda/delta_rule")
    ask = page.locator(".st-key-kernel-run button")
    ask.click(timeout=LONG_WAIT)
    page.locator(".st-key-stop-kernel button").click(timeout=LONG_WAIT)
    again = page.locator(".st-key-again-kernel button")
    expect(again).to_be_visible(timeout=LONG_WAIT)
    expect(page.locator(".st-key-live")).to_contain_text("It was stopped.")
    page.wait_for_timeout(6000)
    expect(again).to_be_visible()
    expect(page.locator(".st-key-live .verdict")).to_have_count(0)
    again.click()
    expect(page.locator(".st-key-live .verdict").last).to_have_text("✓ pass", timeout=90_000)


def test_another_model_shows_its_own_page_of_the_kernel(visitor):
    page = at_kernel(visitor, "?view=kernel&kernel=situ")
    page.locator("[data-handle=model] [data-model=k2]").click()
    expect(page.locator(".ks-head, .ks-row").first).to_contain_text("Kimi K2", timeout=LONG_WAIT)
    expect(page.locator("h1")).to_have_text("Gated activation")
    page.goto(f"{visitor.base}/?view=kernel&kernel=rope&model=k3")
    expect(page.locator(".ks-lede")).to_contain_text("K3 has nothing", timeout=LONG_WAIT)
    page.locator(".ks-lede a[data-switch=k2]").click()
    expect(page.locator("[data-part=roofline] circle")).to_be_visible(timeout=LONG_WAIT)


def test_a_kernel_page_never_scrolls_sideways_on_a_phone(app, chromium):
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    for kernel in ("kda_chunk", "experts", ""):
        page.goto(f"{app.url}/?view=kernel&kernel={kernel}")
        page.locator(".ks-above section").first.wait_for(timeout=LONG_WAIT)
        page.wait_for_timeout(800)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        assert page.evaluate(OVER_THE_EDGE) == [], kernel
    context.close()
