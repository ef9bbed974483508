"""Reading on: another model, an old address, the keyboard, a phone, and paper."""

import re
import shutil
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

PLACES = """() => Object.entries(window.__kimiscope.payload.nodes)
  .flatMap(([node, data]) => Object.keys(data.pages).map(at => [node, at]))"""
SHOW = """([node, at]) => {
  history.replaceState({}, '', '?' + new URLSearchParams({node, ...(at ? {at} : {})}));
  window.dispatchEvent(new CustomEvent('kimiscope:address', {detail: {}}));
}"""
CHOSEN = """([model]) => new Promise(done => {
  const start = performance.now();
  document.querySelector(`[data-handle=model] [data-model="${model}"]`).click();
  const look = () => {
    const here = window.__kimiscope.payload.model === model;
    if (here && !document.querySelector('.ks-waiting')) {
      return requestAnimationFrame(() => done(performance.now() - start));
    }
    requestAnimationFrame(look);
  };
  look();
})"""
OVER_THE_EDGE = """() => [...document.querySelectorAll('.ks-above *, .ks-below *, .ks-bar *')]
  .filter(e => !e.closest('svg, math, .ks-vh') && e.getBoundingClientRect().right > 391)
  .filter(e => !e.parentElement.closest('.ks-src, .ks-tw, .ks-eq'))
  .map(e => `${e.tagName} ${e.className}`)"""
RING = """() => {
  const at = document.activeElement;
  const box = at.closest('.ks') ? at : null;
  if (!box) return null;
  const drawn = [at, at.closest('.ks-search, .ks-big, .ks-rule')].filter(Boolean);
  const ring = drawn.some(e => getComputedStyle(e).outlineStyle !== 'none'
    && parseFloat(getComputedStyle(e).outlineWidth) >= 1);
  const name = at.getAttribute('aria-label') || at.innerText || at.textContent || '';
  return {ring, name: name.trim(), html: at.outerHTML.slice(0, 120)};
}"""


def notices(page: Page) -> str:
    return " ".join(page.locator(".ks-notice").all_inner_texts())


def test_another_model_shows_the_same_part_and_soon(visitor, report):
    page = visitor.open("?node=mla/kv_cache")
    page.wait_for_timeout(6000)
    times = [page.evaluate(CHOSEN, [model]) for model in ("k2", "kimi-linear")]
    again = [page.evaluate(CHOSEN, [model]) for model in ("k3", "k2")]
    report(
        f"another model: {', '.join(f'{t:.0f}' for t in times)} ms (aim 500), "
        f"going back {', '.join(f'{t:.0f}' for t in again)} ms"
    )
    expect(page.locator("h1")).to_have_text("KV cache")
    assert "model=k2" in page.url
    assert notices(page) == ""
    assert max(times) < 3_000


def test_a_part_that_the_other_model_lacks_leads_to_the_nearest_and_says_so(visitor):
    page = visitor.open("?node=kda/state")
    page.evaluate(CHOSEN, ["k2"])
    expect(page.locator("h1")).to_have_text("KV cache")
    assert "node=mla/kv_cache" in page.url
    assert "Kimi K2 has no “Recurrent state”" in notices(page)
    page.go_back()
    expect(page.locator("h1")).to_have_text("Recurrent state")


def test_an_old_address_leads_on_and_says_so(visitor):
    page = visitor.open("?node=head/norm")
    expect(page.locator("h1")).to_have_text("Final norm")
    assert "node=norm/rms&at=norm" in page.url
    assert "now stands at norm/rms" in notices(page)
    page.locator("nav[aria-label=Neighbours] a").last.click()
    assert notices(page) == ""


def test_beside_a_part_that_does_not_exist_no_tensor_is_shown(visitor):
    page = visitor.open("?node=no/such")
    expect(page.locator("h1")).to_have_text("No such part")
    page.wait_for_timeout(1500)
    expect(page.locator(".st-key-live")).to_be_hidden()


def test_everything_of_ours_is_reached_by_keyboard_with_a_name_and_a_ring(visitor):
    page = visitor.open("?node=attn_res/mix")
    page.wait_for_timeout(2000)
    seen = []
    for _ in range(90):
        page.keyboard.press("Tab")
        if stop := page.evaluate(RING):
            seen.append(stop)
    assert len(seen) > 40
    assert [stop["html"] for stop in seen if not stop["ring"] or not stop["name"]] == []


def test_the_page_never_scrolls_sideways_on_a_phone(app, chromium):
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{app.url}/?node=mla/kv_cache")
    page.wait_for_function("() => window.__kimiscope?.payload")
    wide = []
    for place in page.evaluate(PLACES):
        page.evaluate(SHOW, place)
        wide += [[*place, what] for what in page.evaluate(OVER_THE_EDGE)]
    for view in ("overview", "compare", "kernel", "weights", "proofs", "memory"):
        page.goto(f"{app.url}/?view={view}")
        expect(page.locator(".ks-above h1")).to_be_visible(timeout=20_000)
        page.wait_for_timeout(1500)
        wide += [[view, what] for what in page.evaluate(OVER_THE_EDGE)]
    context.close()
    assert wide == []


def test_the_menu_of_a_phone_opens_outline_and_prompt(app, chromium):
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{app.url}/?node=mla/kv_cache")
    run = page.locator(".st-key-run button")
    expect(page.locator("[data-part=menu]")).to_be_visible(timeout=20_000)
    expect(run).not_to_be_in_viewport()
    page.locator("[data-part=menu]").click()
    expect(run).to_be_in_viewport(timeout=10_000)
    page.get_by_role("link", name=re.compile("^Scores")).first.click()
    expect(page.locator("h1")).to_have_text("Scores", timeout=10_000)
    context.close()


def test_links_are_copied_and_nothing_moves_for_those_who_ask_for_it(chromium, app):
    context = chromium.new_context(reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{app.url}/?node=mla/kv_cache")
    page.locator("[data-part=copy]").click()
    expect(page.locator("[data-part=copy]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    moving = "() => getComputedStyle(document.querySelector('.ks .ks-sym')).transitionDuration"
    assert page.evaluate(moving) in ("0s", "")
    context.close()


@pytest.fixture
def pinned_app(tmp_path: Path, app_with):
    """An app that finds Kimi-Linear's file in a folder, as the installed library has it."""
    inside = "models/kimi_linear/modeling_kimi_linear.py"
    spec = find_spec("transformers")
    assert spec, "transformers, whose file is cited, is a development requirement"
    assert spec.origin
    file = tmp_path / "pins/kimi-linear/src/transformers" / inside
    file.parent.mkdir(parents=True)
    shutil.copy(Path(spec.origin).parent / inside, file)
    return app_with(KIMISCOPE_PINNED_DIR=str(tmp_path / "pins"))


def test_excerpts_have_upstreams_numbers_and_stand_open_on_paper(pinned_app, chromium_visit):
    page = chromium_visit(pinned_app).open("?model=kimi-linear&node=mla/kv_joint")
    cards = page.locator("[data-section=evidence] .ks-ev")
    expect(cards.first.locator(".ks-filemap")).to_be_visible()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    for card in cards.all():
        lines = card.locator(".ks-src .l").all()
        stated = card.locator(".ks-cite a").inner_text()
        assert lines
        assert lines[0].get_attribute("data-n") in stated
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")


def test_paper_is_white_in_either_theme(chromium, app):
    context = chromium.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(f"{app.url}/?node=mla/kv_cache")
    page.locator("h1").first.wait_for()
    page.emulate_media(media="print", color_scheme="dark")
    time.sleep(0.2)
    ground = "() => getComputedStyle(document.querySelector('.stApp')).backgroundColor"
    ink = "() => getComputedStyle(document.querySelector('h1')).color"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert page.evaluate(ink) == "rgb(29, 30, 32)"
    expect(page.locator(".stSidebar")).to_be_hidden()
    context.close()
