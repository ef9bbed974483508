"""Every page of every model in every phase: it is drawn, whole, and soon."""

import statistics

import pytest
from playwright.sync_api import expect

from annotations.loader import load_nodes

LOOK = """async (without) => {
  const frame = () => new Promise(done => requestAnimationFrame(done));
  const nodes = Object.entries(window.__kimiscope.payload.nodes);
  const places = nodes.flatMap(([node, data]) => Object.entries(data.pages)
    .map(([at, page]) => ({node, at, title: page.title})));
  const seen = [];
  for (const {node, at, title} of places) for (const phase of ['prefill', 'decode']) {
    const asked = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries({node, at, phase})) asked.set(name, value);
    const start = performance.now();
    history.replaceState({}, '', '?' + asked);
    window.dispatchEvent(new CustomEvent('kimiscope:address', {detail: {}}));
    await frame();
    await frame();
    const taken = performance.now() - start;
    const page = document.querySelector('.ks-above');
    const below = document.querySelector('.ks-below');
    const text = page.innerText + below.innerText;
    const faults = [];
    if (document.title !== `${title} · Kimiscope`) faults.push(`is called ${document.title}`);
    if (page.querySelectorAll('h1').length !== 1) faults.push('has not one h1');
    if (!page.querySelector('math') && !without.includes(node)) faults.push('has no equation');
    if (/undefined|\\[object|{{|}}/.test(text)) faults.push('shows what should have been a value');
    if (text.length < 600) faults.push(`has ${text.length} characters`);
    seen.push({page: `${node} ${at} ${phase}`, taken, faults});
  }
  return seen;
}"""


@pytest.mark.parametrize(("model", "least"), [("k3", 75), ("k2", 50), ("kimi-linear", 60)])
def test_every_page_of_a_model_is_drawn_whole_in_both_phases(visitor, report, model, least):
    page = visitor.open(f"?model={model}&node=embed/tokens")
    expect(page.locator(".ks-above h1")).to_be_visible(timeout=20_000)
    without = [name for name, node in load_nodes().items() if not node.equation]
    seen = page.evaluate(LOOK, without)
    assert len({one["page"].split()[0] for one in seen}) >= least
    assert {one["page"]: one["faults"] for one in seen if one["faults"]} == {}
    assert not visitor.errors
    times = [one["taken"] for one in seen]
    p95 = statistics.quantiles(times, n=20)[-1]
    report(
        f"every page of {model}, reading half: {len(seen)} pages and phases, median "
        f"{statistics.median(times):.0f} ms, p95 {p95:.0f} ms (aim 50), slowest "
        f"{max(seen, key=lambda one: one['taken'])['page']} {max(times):.0f} ms"
    )
