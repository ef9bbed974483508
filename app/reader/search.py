"""What the search looks through: every part of a model, and the kernels that it runs on."""

from collections.abc import Mapping

from annotations.kernel import Kernel, load_kernels
from app.reader.context import PlaceKey, Reading
from app.reader.cost_view import parameter_paths
from app.reader.mathml import mathml, spoken
from app.reader.pages import Page


def searchable(reading: Reading, pages: Mapping[PlaceKey, Page]) -> list[dict]:
    """Each with what it is found by, as pairs of a kind and a text."""
    nodes = {node for node, _ in pages}
    here = [kernel for kernel in load_kernels().values() if nodes & set(kernel.nodes)]
    return [_part(reading, key, page) for key, page in pages.items()] + [_kernel(k) for k in here]


def _kernel(kernel: Kernel) -> dict:
    return {
        "kernel": kernel.id,
        "title": kernel.title,
        "fields": [["kernel", f"kernels/{name}.py"] for name in kernel.files],
    }


def _part(reading: Reading, key: PlaceKey, page: Page) -> dict:
    node = page.node
    fields: list[tuple[str, str]] = []
    for symbol in node.symbols:
        said = dict.fromkeys((spoken(mathml(symbol.tex)), symbol.tex, symbol.means))
        fields.append(("symbol", " ".join(said)))
        if symbol.tap:
            place = f"{page.entry.instance}." if page.entry.instance else ""
            fields.append(("tap", f"{place}{symbol.tap.partition('.')[2]} {symbol.tap}"))
        if symbol.config:
            fields.append(("setting", symbol.config))
    fields += [("parameter", path) for path in parameter_paths(reading, page.entry, node)]
    if node.code:
        fields.append(("code", node.code))
    for source in node.sources:
        within = f"{source.within} " if source.within else ""
        fields.append(("code", f"{within}{' '.join(source.names)}"))
        fields.append(
            ("lines", f"lines {source.lines} {source.lines.replace('-', '–')} {source.path}")
        )
    words = {axis.word for row in page.rows for axis in row.axes.values()}
    fields += [("dimension", word) for word in sorted(words)]
    return {
        "node": key[0],
        "at": key[1],
        "title": page.title,
        "fields": [list(field) for field in dict.fromkeys(fields)],
    }
