"""Take the pictures in this folder from a running app: `python docs/shots.py http://localhost:8501`."""

import re
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
COLOURS = 200
PAGES = {
    "overview": "",
    "kv-cache": "?node=mla/kv_cache&layer=3",
    "shared-key": "?node=mla/k_shared&layer=3",
    "attn-res": "?node=attn_res/mix&layer=6",
    "kv-cache-k2": "?model=k2&node=mla/kv_cache&layer=3",
    "compare": "?view=compare&from=k2&to=k3",
    "kernel": "?view=kernel&kernel=kda_step",
}
LONG = ("compare", "kernel")
"""Pages of many screens, of which the first is taken."""
SIZES = {1440: 900, 390: 844}
HEIGHT = """() => document.querySelector('[data-testid=stMain]').scrollHeight"""


def shoot(browser: Browser, base: str, name: str, theme: str, width: int) -> None:
    size = {"width": width, "height": SIZES[width]}
    context = browser.new_context(viewport=size, color_scheme=theme)
    page = context.new_page()
    page.goto(f"{base}/{PAGES[name]}")
    page.locator("h1").first.wait_for()
    if name not in LONG:
        live = page.locator(".st-key-live").get_by_text(re.compile("^(captured|derived)"))
        live.first.wait_for(timeout=60_000)
    page.wait_for_timeout(1500)
    if name not in LONG:
        page.set_viewport_size({"width": width, "height": page.evaluate(HEIGHT)})
        page.wait_for_timeout(1000)
    taken = Image.open(BytesIO(page.screenshot())).convert("RGB")
    # a page has few colours; so many suffice for the eye, and the file is a third
    few = taken.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(HERE / f"{name}-{theme}-{width}.png", optimize=True)
    context.close()


def main(base: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        for name in PAGES:
            for theme in ("light", "dark"):
                shoot(browser, base, name, theme, 1440)
            shoot(browser, base, name, "light", 390)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
