"""What a visit costs in bytes and time. Bytes are exact and bounded; times are reported."""

import statistics
import time

from playwright.sync_api import Page, expect

LARGEST_VISIT = 7_000_000
LARGEST_INTERACTION = 2_000_000

LIVE_PAINTED = """() => new Promise(done => {
  const text = (root) => {  // shadow roots included
    let all = '';
    for (const child of root.childNodes) {
      if (child.nodeType === 3) all += child.textContent;
      if (child.shadowRoot) all += text(child.shadowRoot);
      if (child.nodeType === 1) all += text(child);
    }
    return all;
  };
  const links = [...document.querySelectorAll('nav[aria-label=Neighbours] a')];
  const start = performance.now();
  links[links.length - 1].click();
  const look = () => {
    const {state, payload} = window.__kimiscope;
    const {pages, first} = payload.nodes[state.node];
    const names = (pages[state.at] ?? pages[first]).taps.map(tap => '.' + tap.split('.')[1]);
    const shown = text(document.querySelector('.st-key-live'));
    // the server's word on this very page, which comes after tensor and proof
    const told = window.__kimiscope.run?.node === state.node;
    const drawn = !names.length || names.some(name => shown.includes(name)) || shown.includes('⊘');
    const ready = told && drawn;
    if (ready) return done([state.node, performance.now() - start]);
    if (performance.now() - start > 4000) return done([state.node, null]);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


def count_bytes(page: Page) -> list[float]:
    """Bytes on the wire from here on: what HTTP took, compressed, without the socket."""
    taken: list[float] = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda e: taken.append(e["encodedDataLength"]))
    session.on(
        "Network.webSocketFrameReceived", lambda e: taken.append(len(e["response"]["payloadData"]))
    )
    return taken


def test_a_new_visitor_is_sent_at_most_seven_megabytes(visitor, report):
    taken = count_bytes(visitor.page)
    page = visitor.open("?node=mla/kv_cache")
    expect(page.locator(".st-key-live canvas").first).to_be_visible(timeout=20_000)
    page.wait_for_timeout(1500)
    report(f"bytes to a new visitor: {sum(taken) / 1e6:.2f} MB (bound 7)")
    assert sum(taken) <= LARGEST_VISIT


def test_the_first_page_comes_soon(fresh_app, chromium_visit, report):
    """The server has started and nobody was there; then a second visitor comes."""
    for name, bound in (("first visitor of a process", 3.5), ("next visitor", 2.0)):
        visitor = chromium_visit(fresh_app)
        started = time.monotonic()
        visitor.open("?node=mla/kv_cache")
        report(f"{name}: first page after {time.monotonic() - started:.2f} s (aim {bound})")


def test_a_change_of_page_sends_little_and_the_live_half_follows(visitor, report):
    page = visitor.open("?node=norm/rms&layer=3")
    # the first page whose values are recomputed loads the model
    expect(page.locator(".st-key-live canvas").first).to_be_visible(timeout=60_000)
    page.wait_for_timeout(1000)
    times, sizes, late = [], [], []
    for _ in range(36):
        visitor.received.clear()
        node, taken = page.evaluate(LIVE_PAINTED)
        page.wait_for_timeout(700)
        sizes.append(sum(visitor.received))
        if taken is None:
            late.append(node)
        else:
            times.append(taken)
    p95 = statistics.quantiles(times, n=20)[-1]
    report(
        f"node to node, live half: median {statistics.median(times):.0f} ms, p95 {p95:.0f} ms "
        f"(aim 300); bytes: median {statistics.median(sizes) / 1e3:.0f} kB, most "
        f"{max(sizes) / 1e3:.0f} kB (bound 2,000)"
    )
    assert late == []
    assert max(sizes) <= LARGEST_INTERACTION


def test_a_run_of_64_tokens_is_painted_soon(visitor, report):
    page = visitor.open("?node=mla/kv_cache&layer=3")
    expect(page.locator(".st-key-live canvas").first).to_be_visible(timeout=20_000)
    taken = []
    for number in range(4):
        page.locator(".st-key-prompt textarea").fill(f"{number} " + "the cat and the dog " * 3)
        page.locator(".st-key-new input").fill("0")
        before = page.url
        started = time.monotonic()
        page.locator(".st-key-run button").click()
        page.wait_for_function(
            "u => location.href !== u && location.search.includes('run=')", arg=before
        )
        expect(page.locator(".st-key-live")).not_to_contain_text("stored run", timeout=20_000)
        taken.append(time.monotonic() - started)
        page.wait_for_timeout(500)
    report(
        f"Run click to painted, 64 tokens: first {taken[0]:.2f} s with loading, then median "
        f"{statistics.median(taken[1:]):.2f} s (aim 1.5)"
    )


def test_a_keystroke_of_the_search_shows_results_at_once(visitor, report):
    page = visitor.open("?node=mla/kv_cache")
    page.wait_for_timeout(1000)
    page.locator("[data-handle=search]").first.focus()
    times = []
    for letter in "shared key latent norm router ":
        taken = page.evaluate(
            """(letter) => new Promise(done => {
              const box = document.querySelector('[data-handle=search]');
              const start = performance.now();
              box.value += letter;
              box.dispatchEvent(new Event('input', {bubbles: true}));
              const painted = () => done(performance.now() - start);
              requestAnimationFrame(() => requestAnimationFrame(painted));
            })""",
            letter,
        )
        times.append(taken)
    p95 = statistics.quantiles(times, n=20)[-1]
    report(
        f"search keystroke to result: median {statistics.median(times):.0f} ms, p95 {p95:.0f} ms"
    )
