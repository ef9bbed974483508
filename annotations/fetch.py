"""Brings the pinned upstream files to this machine. Runs only when it is asked to."""

import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from annotations.node import Node, Source
from annotations.pins import Pin, cached_path, faults, github_path, local_file, pins, wrong_commit

GITHUB_RAW = "KIMISCOPE_GITHUB_RAW"
"""Environment variable: where raw files of GitHub are served from."""
CONNECT_SECONDS = 1.0
READ_SECONDS = 10.0
REMEMBERED_SECONDS = 30.0
LARGEST = 8 * 2**20
_unreachable: dict[str, tuple[float, str]] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """What became of one file."""

    pin: str
    path: str
    fault: str = ""
    """Empty: the file is here."""


def wanted(nodes: Mapping[str, Node]) -> dict[tuple[str, str], list[Source]]:
    """Every file that some source cites, with the sources that cite it."""
    files: dict[tuple[str, str], list[Source]] = {}
    for source in sources(nodes):
        files.setdefault((source.pin, source.path), []).append(source)
    return files


def sources(nodes: Mapping[str, Node]) -> list[Source]:
    """Every source of every node once, those of its models and places included."""
    found = [
        source
        for node in nodes.values()
        for rows in (node.sources, *(change.sources for change in node.changes))
        for source in rows
    ]
    return list(dict.fromkeys(found))


def fetch(files: Iterable[tuple[str, str]], folder: Path | None = None) -> list[Fetched]:
    """Fetch each (pin, path) to its cache, or to `folder/<pin>/<path>`; a fault stops no other."""
    results = []
    for name, path in files:
        fault = _fetch(pins()[name], path, folder)
        results.append(Fetched(pin=name, path=path, fault=fault))
    return results


def check(nodes: Mapping[str, Node], folder: Path | None = None) -> list[str]:
    """Every way in which the files here do not bear out the nodes, absent files included."""
    found = []
    for (name, path), citing in wanted(nodes).items():
        file = local_file(pins()[name], path, folder)
        if isinstance(file, str):
            found.append(f"{file} {len(citing)} sources stay unchecked.")
            continue
        found += [
            f"{name}/{path}, source {source.id!r}: {fault}"
            for source in citing
            for fault in faults(source, file.text)
        ]
    return found


def _fetch(pin: Pin, path: str, folder: Path | None) -> str:
    try:
        text = _from_hub(pin, path) if pin.host == "hub" else _from_github(pin, path)
        if folder is not None:
            _write(folder / pin.name / path, text)
    except _NoFileError as error:
        return str(error)
    return ""


class _NoFileError(Exception):
    """Says in words why a file did not come."""


def _from_github(pin: Pin, path: str) -> bytes:
    target = github_path(pin, path)
    if target.is_file():
        return target.read_bytes()
    base = os.environ.get(GITHUB_RAW, "https://raw.githubusercontent.com").rstrip("/")
    url = f"{base}/{pin.repo}/{pin.commit}/{path}"
    if fault := unreachable(url):
        raise _NoFileError(fault)
    try:
        with urllib.request.urlopen(url, timeout=READ_SECONDS) as answer:
            text = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as error:
        raise _NoFileError(f"{url} answered {error.code} {error.reason}.") from error
    except OSError as error:
        raise _NoFileError(_remember(url, f"{url} did not come: {error}.")) from error
    if len(text) > LARGEST:
        raise _NoFileError(f"{url} is larger than {LARGEST} bytes, which no pinned file is.")
    _write(target, text)
    return text


def _from_hub(pin: Pin, path: str) -> bytes:
    # the client takes long to import, and reads its settings from the environment when it is
    from huggingface_hub import constants, hf_hub_download

    # the base of its HTTP library's errors, whichever library this version uses
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]

    here = cached_path(pin, path)
    if here is None:
        endpoint = os.environ.get("HF_ENDPOINT", constants.ENDPOINT)
        if constants.HF_HUB_OFFLINE:
            raise _NoFileError("HF_HUB_OFFLINE is set, so the Hub is not asked.")
        if fault := unreachable(endpoint):
            raise _NoFileError(fault)
        try:
            got = hf_hub_download(
                pin.repo,
                path,
                revision=pin.commit,
                endpoint=endpoint,
                etag_timeout=READ_SECONDS,
                token=False,
            )
        except (HTTPError, OSError) as error:
            words = str(error).strip().splitlines()
            reason = words[0] if words else type(error).__name__
            raise _NoFileError(f"{pin.repo} {path}: {reason}") from error
        here = Path(got)
    if fault := wrong_commit(pin, path, here):
        raise _NoFileError(fault)
    return here.read_bytes()


def unreachable(url: str) -> str:
    """A sentence where no connection opens within a second; empty where one does.

    A refusal is remembered for half a minute, so that many files make one attempt.
    """
    host, port = _peer(url)
    until, words = _unreachable.get(host, (0.0, ""))
    if time.monotonic() < until:
        return words
    outcome: list[str] = []

    def attempt() -> None:
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
            outcome.append("")
        except OSError as error:
            outcome.append(f"{host} cannot be reached: {error}.")

    # name resolution knows no timeout, so the attempt is left behind in its thread
    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    fault = outcome[0] if outcome else f"{host} did not answer within {CONNECT_SECONDS:g} s."
    return _remember(url, fault) if fault else ""


def _remember(url: str, words: str) -> str:
    _unreachable[_peer(url)[0]] = (time.monotonic() + REMEMBERED_SECONDS, words)
    return words


def _peer(url: str) -> tuple[str, int]:
    """Whom a request for this address is sent to: a proxy, where one is set."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.netloc):
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _write(target: Path, text: bytes) -> None:
    """Whole or not at all, also when two processes fetch at once."""
    part = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(text)
        part.replace(target)
    except OSError as error:
        raise _NoFileError(f"{target} cannot be written: {error.strerror}.") from error
