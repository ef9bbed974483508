"""The context rule moves every size while it is dragged, and the server hears nothing."""

import re

import pytest
from playwright.sync_api import Page, expect

WATCH = """() => {
  const shown = () => document.querySelector('.st-key-reader-above').innerText;
  window.__drag = { updates: 0, painted: new Set(), started: performance.now() };
  window.addEventListener('kimiscope:context', () => { window.__drag.updates += 1; });
  const look = () => {
    window.__drag.painted.add(shown().length + shown().match(/[\\d,]{7,}/g)?.join());
    if (!window.__drag.over) requestAnimationFrame(look);
  };
  look();
}"""


def drag(page: Page, seconds: float) -> dict[str, float]:
    """Drag the hand of the rule to and fro with the mouse down; figures of that time."""
    box = page.locator("[data-handle=context]").bounding_box()
    assert box
    y = box["y"] + box["height"] / 2
    left, right = box["x"] + 0.15 * box["width"], box["x"] + 0.9 * box["width"]
    page.mouse.move(left, y)
    page.mouse.down()
    page.evaluate(WATCH)
    start = page.evaluate("performance.now()")
    x, way = left, 1
    while page.evaluate("performance.now()") - start < seconds * 1000:
        for _ in range(8):
            x += way * 5
            way = -1 if x > right else 1 if x < left else way
            page.mouse.move(x, y)
    figures = page.evaluate(
        """() => { const d = window.__drag; d.over = true; return {
            updates: d.updates, painted: d.painted.size,
            seconds: (performance.now() - d.started) / 1000 } }"""
    )
    return figures


def test_numbers_change_while_the_mouse_is_down_and_no_message_is_sent(visitor, report):
    page = visitor.open("?node=mla/kv_cache")
    page.wait_for_timeout(2500)
    best = 0.0
    for _ in range(3):
        visitor.sent.clear()
        visitor.received.clear()
        figures = drag(page, 1.5)
        assert len(visitor.sent) == 0
        assert len(visitor.received) == 0
        assert figures["painted"] > 10
        best = max(best, figures["updates"] / figures["seconds"])
        page.mouse.up()
        page.wait_for_timeout(500)
        if best >= 50:
            break
    report(f"drag of the context rule: {best:.0f} updates a second (aim 50), 0 messages")
    assert best >= 25


def test_what_the_rule_says_is_what_the_formulas_say(visitor):
    page = visitor.open("?node=mla/kv_cache&context=1")
    exact = page.locator("[data-handle=context-exact]")
    for asked, values in ((57, 57 * 30_720), (4_096, 125_829_120), (1_048_576, 32_212_254_720)):
        exact.fill(str(asked))
        exact.press("Enter")
        expect(page.locator(".st-key-reader-above")).to_contain_text(f"{values:,}")
    assert "context=1048576" in page.url


@pytest.mark.parametrize(
    ("key", "shown"),
    [("Home", "1"), ("End", "1,048,576"), ("PageUp", "8,192"), ("PageDown", "2,048")],
)
def test_the_rule_is_moved_by_keyboard(visitor, key, shown):
    page = visitor.open("?node=mla/kv_cache&context=4096")
    page.locator("[data-handle=context]").focus()
    page.keyboard.press(key)
    expect(page.locator("[data-handle=context-exact]")).to_have_value(shown)


def test_prefill_writes_every_position_and_decode_one(visitor):
    page = visitor.open("?node=mla/k_shared&context=4096&phase=decode")
    shapes = page.locator(".st-key-reader-above table").first
    expect(shapes).not_to_contain_text("4,096")
    page.locator("[data-handle=phase] button").filter(has_text=re.compile("Prefill")).click()
    expect(shapes).to_contain_text("4,096")
