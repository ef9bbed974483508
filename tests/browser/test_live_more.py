"""The live half by hand: heads, tokens, locked cells, exports, odd values, waiting and stopping."""

import csv
import io
import json
import re
import struct

import numpy as np
from playwright.sync_api import Locator, Page, expect

from app.figures.heat import Group, Panel, Rows, heat_figure
from app.run_engine import EXAMPLE, tokenizer_of
from model.trace import open_trace

KV_CACHE = "?node=mla/kv_cache&layer=3"
SHARED_KEY = "?node=mla/k_shared&layer=3"
STATE = "?node=kda/state&layer=0"
EXAMPLE_TOKENS = len(open_trace(EXAMPLE).token_ids)
TOKENIZER = tokenizer_of("k3-mini")


def figure(page: Page) -> Locator:
    drawn = page.locator(".st-key-live-0")
    expect(drawn.locator(".stage canvas").first).to_be_visible(timeout=60_000)
    return drawn


def readout(page: Page) -> Locator:
    return figure(page).locator(".readout")


def test_a_head_is_chosen_and_stands_in_the_address(visitor):
    page = visitor.open(KV_CACHE)
    expect(readout(page)).to_contain_text("head 0")
    before = readout(page).inner_text()
    figure(page).get_by_role("group", name="Head").get_by_role("button", name="2").click()
    expect(readout(page)).to_contain_text("head 2", timeout=15_000)
    assert "head=2" in page.url
    assert readout(page).inner_text().split("]")[1] != before.split("]")[1]


def test_a_token_of_the_strip_is_chosen_and_stands_in_the_address(visitor, another):
    page = visitor.open(STATE)
    figure(page).get_by_role("button", name=re.compile("^position 3,")).click()
    page.wait_for_url(re.compile("token=3"))
    chosen = figure(page).locator('.token[aria-pressed="true"]')
    expect(chosen).to_have_attribute("title", re.compile("^position 3,"), timeout=30_000)
    expect(page.locator(".st-key-live")).to_contain_text("recomputed", timeout=30_000)
    other = another.open(page.url[page.url.index("?") :])
    there = figure(other).locator('.token[aria-pressed="true"]')
    expect(there).to_have_attribute("title", re.compile("^position 3,"))


def test_a_row_is_chosen_without_asking_the_server(visitor):
    page = visitor.open(SHARED_KEY)
    row = figure(page).get_by_role("button", name=re.compile("^position 5,"))
    # the model is loaded behind the first page
    page.wait_for_timeout(500)
    visitor.sent.clear()
    row.click()
    page.wait_for_url(re.compile("token=5"))
    expect(row).to_have_attribute("aria-pressed", "true")
    expect(readout(page)).to_contain_text("position 5 ")
    assert visitor.sent == []


def test_a_cell_is_locked_and_moved_by_keyboard(visitor):
    page = visitor.open(SHARED_KEY)
    figure(page).get_by_role("button", name="PNG").focus()
    page.keyboard.press("Tab")
    canvas = figure(page).locator(".stage canvas").first
    expect(canvas).to_be_focused()
    page.keyboard.press("Enter")
    expect(readout(page)).to_contain_text(re.compile(r"position 0 .*shared 0\].*locked"))
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(readout(page)).to_contain_text(re.compile(r"position 2 .*shared 1\].*locked"))
    page.keyboard.press("Escape")
    expect(readout(page)).not_to_contain_text("locked")


def test_the_mouse_peeks_and_a_click_locks(visitor):
    page = visitor.open(SHARED_KEY)
    canvas = figure(page).locator(".stage canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    canvas.hover(position={"x": 2, "y": 2})
    expect(readout(page)).to_contain_text("shared 0]")
    canvas.hover(position={"x": box["width"] - 2, "y": 2})
    expect(readout(page)).to_contain_text("shared 15]")
    canvas.click(position={"x": box["width"] - 2, "y": 2})
    canvas.hover(position={"x": 2, "y": 2})
    expect(readout(page)).to_contain_text(re.compile(r"shared 15\].*locked"))


def test_a_locked_cell_is_let_go_where_another_step_has_no_such_row(visitor):
    page = visitor.open(SHARED_KEY)
    canvas = figure(page).locator(".stage canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    canvas.click(position={"x": 2, "y": box["height"] - 2})
    expect(readout(page)).to_contain_text("locked")
    page.locator("[data-handle=phase] [data-phase=prefill]").click()
    expect(figure(page).locator(".row.new")).to_have_count(0, timeout=15_000)
    expect(readout(page)).not_to_contain_text("locked")
    expect(readout(page)).to_contain_text("shared 0]")
    assert visitor.errors == []


def test_keys_go_on_from_the_row_that_was_chosen(visitor):
    page = visitor.open(SHARED_KEY)
    row = figure(page).get_by_role("button", name=re.compile("^position 5,"))
    row.focus()
    page.keyboard.press("Enter")
    expect(row).to_have_attribute("aria-pressed", "true")
    expect(row).to_be_focused()
    page.keyboard.press("Enter")
    expect(row).to_have_attribute("aria-pressed", "false")


def test_keys_go_on_from_the_layers_that_were_unfolded(visitor):
    page = visitor.open("")
    cell = page.locator(".ks-cell[data-row]").last
    before = cell.get_attribute("aria-expanded")
    cell.focus()
    page.keyboard.press("Enter")
    expect(cell).not_to_have_attribute("aria-expanded", before or "")
    expect(cell).to_be_focused()
    page.keyboard.press("Enter")
    expect(cell).to_have_attribute("aria-expanded", before or "")


def saved(page: Page, word: str) -> bytes:
    with page.expect_download() as download:
        figure(page).get_by_role("button", name=word, exact=True).click()
    path = download.value.path()
    return path.read_bytes()


def test_what_is_exported_is_what_is_shown(visitor):
    page = visitor.open(SHARED_KEY)
    figure(page)
    array = np.load(io.BytesIO(saved(page, "npy")))
    assert array.dtype == np.float32
    rows = list(csv.reader(io.StringIO(saved(page, "CSV").decode())))
    table = np.array([row[2:] for row in rows[1:]], dtype=np.float64)
    assert table.shape == array.shape == (EXAMPLE_TOKENS, 16)
    assert np.array_equal(table.astype(np.float32), array)
    assert rows[0][:3] == ["position", "label", "k_shared 0"]
    assert rows[1][1] == "<bos>"
    shown = re.search(r"shared 0\]\s+([+−]?[\d.]+)", readout(page).inner_text())
    assert shown
    assert abs(float(shown[1].replace("−", "-")) - array[0, 0]) < 1e-6


def test_the_picture_is_exported_as_large_as_it_is(visitor):
    page = visitor.open(SHARED_KEY)
    picture = saved(page, "PNG")
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    wide, tall = struct.unpack(">II", picture[16:24])
    box = figure(page).locator(".stage").bounding_box()
    assert box
    assert (wide, tall) == (round(box["width"]), round(box["height"]))


def test_the_terms_of_a_state_are_read_at_one_place(visitor):
    page = visitor.open(STATE)
    assert figure(page).locator(".stage > canvas").count() == 5
    figure(page).locator(".stage > canvas").nth(2).hover(position={"x": 9, "y": 9})
    text = readout(page).inner_text().replace("−", "-")
    terms = [float(term) for term in re.findall(r"[+-]?\d+\.\d+", text)]
    assert len(terms) == 5
    assert abs(sum(terms[:4]) - terms[4]) < 5e-6
    assert figure(page).locator(".cell:visible").count() == 5


ODD = """(data) => {
  const host = document.createElement('div');
  host.id = 'odd';
  host.style.cssText = 'position:fixed;inset:0;z-index:1000000;background:var(--paper)';
  document.querySelector('.stApp').append(host);
  const parent = host.attachShadow({mode: 'open'});
  window.__kimiscopeCanvas({data, parentElement: parent});
}"""
INKED = """() => {
  const canvas = document.querySelector('#odd').shadowRoot.querySelector('.stage canvas');
  const brush = canvas.getContext('2d'), wide = canvas.width / 4, tall = canvas.height;
  const dark = [29, 30, 32];
  return [0, 1, 2, 3].map((c) => {
    const pixels = brush.getImageData(c * wide, 0, wide, tall).data;
    let count = 0;
    for (let i = 0; i < pixels.length; i += 4)
      if (dark.every((v, k) => Math.abs(pixels[i + k] - v) < 40)) count++;
    return count;
  });
}"""


def draw_odd(page: Page, values: np.ndarray) -> Locator:
    """A crafted tensor in the canvas of a real page."""
    columns = values.shape[1]
    panel = Panel(
        symbol="x",
        values=values,
        groups=(Group(name="x, feature", word="feature", size=columns),),
    )
    rows = Rows(word="position", labels=tuple("abc"[: values.shape[0]]))
    data = heat_figure(
        [panel],
        rows,
        node="a/b",
        layer=0,
        run="0" * 12,
        name="odd",
        token=None,
        ask_token=False,
        note="",
        tools={"heads": 0, "head": None, "tokens": None, "token": None},
        provenance=[],
    )
    page.evaluate(ODD, json.loads(json.dumps(data)))
    return page.locator("#odd")


def test_what_is_no_number_has_a_mark_and_a_word(visitor):
    page = visitor.open(SHARED_KEY)
    figure(page)
    odd = draw_odd(page, np.array([[np.nan, np.inf, -np.inf, 0.5]], dtype=np.float32))
    expect(odd).to_contain_text("1 × not a number")
    expect(odd).to_contain_text("1 ▲ +∞")
    expect(odd).to_contain_text("1 ▼ −∞")
    inked = page.evaluate(INKED)
    assert min(inked[:3]) > 10
    canvas = odd.locator(".stage canvas").first
    box = canvas.bounding_box()
    assert box
    for column, word in enumerate(("not a number", "+∞", "−∞", "+0.500000")):
        canvas.hover(position={"x": (column + 0.5) * box["width"] / 4, "y": 5})
        expect(odd.locator(".readout")).to_contain_text(word)
    assert visitor.errors == []


def test_a_constant_and_an_empty_tensor_are_said_in_words(visitor):
    page = visitor.open(SHARED_KEY)
    figure(page)
    odd = draw_odd(page, np.full((3, 4), 2.5, dtype=np.float32))
    expect(odd).to_contain_text("every value is +2.500000")
    page.evaluate("document.querySelector('#odd').remove()")
    empty = draw_odd(page, np.zeros((0, 4), dtype=np.float32))
    expect(empty).to_contain_text("no values")
    assert visitor.errors == []


def test_every_value_stands_in_a_table_too(visitor):
    page = visitor.open(SHARED_KEY)
    figure(page).get_by_text("as a table").click()
    cells = figure(page).locator("td")
    expect(cells).to_have_count(EXAMPLE_TOKENS * 16)
    shown = re.search(r"\]\s+([+−][\d.]+)", readout(page).inner_text())
    assert shown
    assert cells.first.inner_text() == shown[1]


def test_the_live_half_greys_at_once_on_the_way_to_another_page(visitor):
    page = visitor.open(KV_CACHE)
    figure(page)
    stale = page.evaluate(
        """() => {
          [...document.querySelectorAll('nav[aria-label=Neighbours] a')].at(-1).click();
          return document.querySelector('.st-key-live').hasAttribute('data-stale');
        }"""
    )
    assert stale
    expect(page.locator(".st-key-live")).not_to_have_attribute("data-stale", "", timeout=15_000)


STOP_WHEN_SEEN = """() => {
  window.__seen = null;
  const look = new MutationObserver(() => {
    const live = document.querySelector('.st-key-live');
    const words = live.innerText.match(/(prefill layer \\d+ of \\d+|loading|decode), [\\d.]+ s/);
    const stop = [...live.querySelectorAll('button')].find(b => b.innerText.trim() === 'Stop');
    if (!words || !stop) return;
    look.disconnect();
    const old = live.querySelector('.stElementContainer:has(.kl-section)');
    setTimeout(() => {
      window.__seen = {words: words[0], opacity: getComputedStyle(old).opacity};
      stop.click();
    }, 120);
  });
  look.observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


def test_a_long_run_tells_of_its_stage_and_is_stopped(visitor):
    page = visitor.open(SHARED_KEY)
    figure(page)
    page.locator(".st-key-prompt textarea").fill("the cat and the dog " * 350)
    page.locator(".st-key-new input").fill("256")
    # in the page itself: the run may be over before a test outside has looked
    page.evaluate(STOP_WHEN_SEEN)
    page.locator(".st-key-run button").click()
    expect(page.locator(".st-key-live")).to_contain_text("This run was stopped", timeout=40_000)
    # what still stood was of the run before, and grey
    assert page.evaluate("window.__seen.opacity") == "0.38"
    assert visitor.errors == []


def test_two_readers_at_once_see_their_own_runs(visitor, another):
    pages = [visitor.open(SHARED_KEY), another.open(SHARED_KEY)]
    prompts = ("a first reader asks", "the second one asks something else")
    for page, prompt in zip(pages, prompts, strict=True):
        figure(page)
        page.locator(".st-key-prompt textarea").fill(prompt)
    for page in pages:
        page.locator(".st-key-run button").click()
    for page, prompt in zip(pages, prompts, strict=True):
        page.wait_for_url(re.compile("run=[0-9a-f]{6}"), timeout=60_000)
        seen = f"{len(TOKENIZER.encode(prompt)) + 1 + 6} positions"
        expect(page.locator(".st-key-live")).to_contain_text(seen, timeout=20_000)
