"""Reading: the tree is walked, pages turn in the browser, and the address is the whole state."""

import re
import statistics
from pathlib import Path

from playwright.sync_api import Page, expect

from annotations.kernel import load_kernels

KV_CACHE = "?node=mla/kv_cache"


def title(page: Page) -> str:
    return page.locator("h1").inner_text()


def unfold(page: Page, name: str) -> None:
    """Open a line of the outline, if it is folded."""
    row = page.locator("[data-handle=outline] li").filter(
        has=page.get_by_role("link", name=re.compile(rf"^{name}\b"))
    )
    button = row.last.locator("button[aria-expanded=false]").first
    if button.count():
        button.click()


def test_the_first_node_is_painted_before_torch_is_loaded(fresh_app, chromium_visit):
    visitor = chromium_visit(fresh_app)
    visitor.open(KV_CACHE)
    maps = Path(f"/proc/{fresh_app.process.pid}/maps").read_text()
    assert title(visitor.page) == "KV cache"
    assert "libtorch" not in maps


def test_a_newcomer_walks_from_the_overview_to_the_shared_key(visitor):
    page = visitor.open()
    for name in ("93 layers", "24 MLA layers", "Gated MLA", "Key and value heads"):
        unfold(page, name)
    page.locator("[data-handle=outline]").get_by_role(
        "link", name=re.compile("^Take the shared key part")
    ).click()
    expect(page.locator("h1")).to_have_text("Take the shared key part")
    assert "node=mla/k_shared" in page.url
    assert visitor.errors == []


def test_who_comes_by_a_link_sees_the_prompt_and_who_goes_on_sees_the_line_in_the_outline(visitor):
    page = visitor.open(KV_CACHE)
    # the first page of a server may leave a mount behind that nobody sees
    here = page.locator("[data-handle=outline] a[aria-current=page]").locator("visible=true")
    expect(here).to_have_count(1)
    expect(page.locator(".st-key-run button")).to_be_in_viewport()
    page.locator("nav[aria-label=Neighbours] a").last.click()
    expect(page.locator("h1")).not_to_have_text("KV cache")
    expect(here).to_be_in_viewport()


def test_back_and_forward_walk_the_nodes(visitor):
    page = visitor.open(KV_CACHE)
    seen = [title(page)]
    for _ in range(2):
        page.locator("nav[aria-label=Neighbours] a").last.click()
        page.wait_for_function("t => document.querySelector('h1').innerText !== t", arg=seen[-1])
        seen.append(title(page))
    for expected in reversed(seen[:-1]):
        page.go_back()
        expect(page.locator("h1")).to_have_text(expected)
    for expected in seen[1:]:
        page.go_forward()
        expect(page.locator("h1")).to_have_text(expected)


def test_the_address_rebuilds_the_page_in_another_browser(visitor, another):
    page = visitor.open("?node=mla/kv_cache&layer=7&phase=prefill&context=131072&batch=2")
    other = another.open(page.url[page.url.index("?") :])
    for each in (page, other):
        each.locator("[data-handle=context]").wait_for(state="attached")
        assert each.locator("[data-handle=context-exact]").input_value() == "131,072"
    above = ".st-key-reader-above"
    assert page.locator(above).inner_text() == other.locator(above).inner_text()


def test_search_finds_a_part_by_its_code_name_and_says_when_nothing_matches(visitor):
    page = visitor.open(KV_CACHE)
    page.keyboard.press("/")
    page.keyboard.type("k_rot")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Take the shared key part")
    page.locator("[data-handle=search]").first.fill("zzzzqqq(((")
    expect(
        page.get_by_text(re.compile("no match|matches nothing|0 match", re.I)).first
    ).to_be_visible()


def test_search_finds_a_kernel_by_its_file(visitor):
    page = visitor.open(KV_CACHE)
    page.locator("[data-handle=search]").first.fill("mla_decode")
    row = page.locator(".ks-hit").first
    expect(row).to_contain_text("kernel")
    row.click()
    expect(page.locator("h1")).to_have_text(load_kernels()["mla_decode"].title)
    assert "kernel=mla_decode" in page.url
    page.go_back()
    expect(page.locator("h1")).to_have_text("KV cache")


def test_equations_are_set_in_the_mathematical_font(visitor):
    page = visitor.open(KV_CACHE)
    page.wait_for_function("() => [...document.fonts].some(f => f.family.includes('Math'))")
    page.wait_for_timeout(300)
    widths = page.evaluate(
        """() => {
          const letter = document.querySelector('math mi');
          const width = () => letter.getBoundingClientRect().width;
          const set = width();
          letter.closest('math').style.fontFamily = 'monospace';
          return [set, width()];
        }"""
    )
    assert widths[0] > 0
    assert abs(widths[0] - widths[1]) > 0.5


PAINTED = """() => new Promise(done => {
  const links = [...document.querySelectorAll('nav[aria-label=Neighbours] a')];
  const link = links[links.length - 1];
  const before = document.querySelector('h1').textContent + location.search;
  const start = performance.now();
  link.click();
  const look = () => {
    const now = document.querySelector('h1').textContent + location.search;
    if (now === before) return requestAnimationFrame(look);
    requestAnimationFrame(() => done(performance.now() - start));
  };
  look();
})"""


def test_a_click_paints_the_next_page_at_once(visitor, report):
    page = visitor.open("?node=embed/tokens")
    page.wait_for_timeout(1500)
    times = [page.evaluate(PAINTED) for _ in range(36)]
    p95 = statistics.quantiles(times, n=20)[-1]
    report(
        f"node to node, reading half: median {statistics.median(times):.0f} ms, p95 {p95:.0f} ms"
    )
    assert len(times) == 36
