"""The guided tour: from the first page through every stop, and out of it again."""

import re

from playwright.sync_api import expect

from annotations.tour import stops


def test_the_tour_leads_from_stop_to_stop_and_ends(visitor):
    page = visitor.open()
    expect(page.locator(".ks-stops li")).to_have_count(len(stops()), timeout=20_000)
    page.locator(".ks-stops a").first.click()
    strip = page.locator(".ks-tour")
    for number, stop in enumerate(stops(), start=1):
        expect(strip).to_contain_text(f"Tour {number} of {len(stops())}", timeout=20_000)
        expect(strip).to_contain_text(stop.look)
        expect(page.locator(".st-key-prompt textarea")).to_have_value(stop.prompt, timeout=20_000)
        live = page.locator(".st-key-live")
        expect(live.get_by_text(re.compile("^(captured|derived)")).first).to_be_visible(
            timeout=30_000
        )
        if stop.layer is not None:
            expect(live).to_contain_text(f"k3-mini, layer {stop.layer},")
        if number < len(stops()):
            strip.get_by_text("Next: ").click()
    strip.get_by_text("End the tour").click()
    expect(page.locator("h1")).to_contain_text("part by part", timeout=10_000)
    page.go_back()
    expect(strip).to_contain_text(f"Tour {len(stops())} of", timeout=10_000)
    # another page is no part of it
    page.locator("nav[aria-label=Neighbours] a").last.click()
    expect(strip).to_have_count(0)
    assert not visitor.errors
