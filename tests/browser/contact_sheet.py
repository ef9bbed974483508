"""Pictures of every node page, a sheet for looking at them together, and what does not fit.

`python tests/browser/contact_sheet.py OUT [--models k3,k2] [--wide 390] [--dark] [--every 3]`
"""

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
MODELS = ("k3", "k2", "kimi-linear")
COLUMNS, CELL, HIGHEST = 3, 508, 1_560
"""Pictures beside each other on a sheet, the width of one, and the height of a sheet."""
HIGHEST_PAGE = 9_000

ONLY_READING = """
.st-key-live, .st-key-notices { display: none !important; }
.st-key-bar, .stSidebar { display: none !important; }
"""
PLACES = """() => Object.entries(window.__kimiscope.payload.nodes)
  .flatMap(([node, data]) => Object.keys(data.pages).map(at => [node, at]))"""
SHOW = """([model, node, at]) => {
  const asked = new URLSearchParams({model, node, ...(at ? {at} : {})});
  history.replaceState({}, '', '?' + asked);
  window.dispatchEvent(new CustomEvent('kimiscope:address', {detail: {}}));
}"""
FOOT = """() => Math.ceil(document.querySelector('.ks-foot').getBoundingClientRect().bottom
  + document.querySelector('.stMain').scrollTop + 24)"""
FAULTS = """() => {
  const faults = [];
  const page = document.querySelector('.stMain');
  const wide = document.documentElement.clientWidth;
  if (page.scrollWidth > wide + 1) faults.push(`the page is ${page.scrollWidth} wide`);
  for (const element of document.querySelectorAll('.ks-above *, .ks-below *')) {
    if (element.closest('.ks-vh, svg, math')) continue;
    const box = element.getBoundingClientRect();
    const inside = element.parentElement.closest('.ks-src, .ks-tw, .ks-eq, .ks-how');
    const name = `${element.tagName.toLowerCase()}.${element.className}`;
    if (box.width && box.right > wide + 1 && !inside) faults.push(`${name} ends at ${box.right}`);
    if (element.matches('.ks-tw, .ks-eq') && element.scrollWidth > element.clientWidth + 1)
      faults.push(`${name} scrolls: ${element.scrollWidth} in ${element.clientWidth}`);
    if (element.matches('section') && element.innerText.trim().split('\\n').length < 2)
      faults.push(`${element.dataset.section} is empty`);
  }
  return [...new Set(faults)];
}"""


def neighbour(name: str) -> ModuleType:
    """A file of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def pictures(page: Page, base: str, model: str, out: Path, every: int) -> list[Path]:
    """One picture a place of `model`; faults are said as they are seen."""
    page.goto(f"{base}/?model={model}&node=mla/kv_cache")
    page.wait_for_function("m => window.__kimiscope?.payload?.model === m", arg=model)
    page.locator(".ks-below .ks-foot").wait_for()
    page.wait_for_function("() => [...document.fonts].some(f => f.family.includes('Math'))")
    page.add_style_tag(content=ONLY_READING)
    made: list[Path] = []
    wide = page.evaluate("() => innerWidth")
    for number, (node, at) in enumerate(page.evaluate(PLACES)[::every]):
        page.evaluate(SHOW, [model, node, at])
        page.wait_for_timeout(120)
        for fault in page.evaluate(FAULTS):
            sys.stdout.write(f"{model} {node} @ {at}: {fault}\n")
        high = page.evaluate(FOOT)
        page.set_viewport_size({"width": wide, "height": min(high, HIGHEST_PAGE)})
        page.wait_for_timeout(60)
        name = f"{model}-{number:03}-{node}{'@' if at else ''}{at}".replace("/", "_")
        made.append(out / f"{name}.png")
        page.screenshot(path=made[-1])
        page.set_viewport_size({"width": wide, "height": 900})
    return made


def sheets(paths: list[Path], out: Path, name: str) -> None:
    """Pictures in columns, each put where the sheet is still shortest."""
    columns: list[list[Image.Image]] = [[] for _ in range(COLUMNS)]
    number = 0

    def height(column: list[Image.Image]) -> int:
        return sum(image.height + 8 for image in column)

    def paste() -> None:
        sheet = Image.new("RGB", (COLUMNS * (CELL + 8), max(map(height, columns))), "#888")
        for place, column in enumerate(columns):
            top = 0
            for image in column:
                sheet.paste(image, (place * (CELL + 8), top))
                top += image.height + 8
        sheet.save(out / f"sheet-{name}-{number:02}.png")

    for path in paths:
        image = Image.open(path).convert("RGB")
        image = image.resize((CELL, round(image.height * CELL / image.width)))
        shortest = min(columns, key=height)
        if shortest and height(shortest) + image.height > HIGHEST:
            paste()
            number += 1
            columns = [[] for _ in range(COLUMNS)]
            shortest = columns[0]
        shortest.append(image)
    paste()


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--wide", type=int, default=1064)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="take one page of so many")
    parser.add_argument("--url", help="of a server that runs; else one is started")
    return parser.parse_args()


def main() -> None:
    wanted, harness = asked(), neighbour("conftest")
    wanted.out.mkdir(parents=True, exist_ok=True)
    server = None if wanted.url else harness.start_server(Path(tempfile.mkdtemp()) / "log.txt")
    base = server.url if server else wanted.url
    theme = "dark" if wanted.dark else "light"
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=harness._chromium(), args=harness.ARGUMENTS
            )
            for model in wanted.models.split(","):
                page = browser.new_page(
                    viewport={"width": wanted.wide, "height": 900}, color_scheme=theme
                )
                made = pictures(page, base, model, wanted.out, wanted.every)
                sheets(made, wanted.out, f"{model}-{wanted.wide}-{theme}")
                page.close()
            browser.close()
    finally:
        if server:
            harness.stop_server(server)


if __name__ == "__main__":
    main()
