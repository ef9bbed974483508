"""All kernel pages of one model as one message; it travels when the first of them is opened."""

import gzip
import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache

from annotations.gpu import gpus
from annotations.kernel import load_kernels
from app.reader.context import Reading
from app.reader.kernel_page import KernelPage
from app.reader.payload import fingerprint, nodes
from app.reader.render import render


@dataclass(frozen=True)
class Index:
    """The page that lists all kernels."""

    model_name: str
    pages: tuple[KernelPage, ...]


@lru_cache(maxsize=8)
def _assembled(model: str, made_from: str) -> dict:
    reading = Reading(model, nodes(made_from))
    pages = tuple(KernelPage(reading, kernel) for kernel in load_kernels().values())
    return {
        "model": model,
        "index": str(render("kernels.html.j2", Index(reading.name, pages))),
        "gpus": [asdict(gpu) for gpu in gpus()],
        "pages": {page.kernel.id: _page(page) for page in pages},
    }


def payload(model: str) -> dict:
    """The kernel pages of a model, as plain JSON types."""
    return _assembled(model, fingerprint())


def _page(page: KernelPage) -> dict:
    made = {"title": page.kernel.title, "html": page.html()}
    return made | {"load": page.load} if page.is_here else made


def packed(model: str) -> bytes:
    """The same as the reader's mount "kernels" takes it: a line with its hash, then gzip."""
    return _packed(model, fingerprint())


@lru_cache(maxsize=8)
def _packed(model: str, made_from: str) -> bytes:
    text = json.dumps(
        _assembled(model, made_from), ensure_ascii=False, separators=(",", ":")
    ).encode()
    digest = hashlib.sha256(text).hexdigest()[:12]
    return f"kernels {digest}\n".encode() + gzip.compress(text, 6, mtime=0)
