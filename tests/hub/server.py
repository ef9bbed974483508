"""A Hub on loopback that can fail in every way a real one does, and counts what it sends."""

import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SIGNATURE = "X-Amz-Signature=secretsecretsecret"
BLOCK = 64 * 1024


def pause(seconds: float) -> None:
    """Sleep, also where a test has taken the sleep from `time`."""
    threading.Event().wait(seconds)


@dataclass
class Repo:
    """The files of a model; the large ones are sent by another machine."""

    files: dict[str, bytes | Path]
    commit: str = COMMIT
    gated: bool = False

    def size(self, name: str) -> int:
        held = self.files[name]
        return held.stat().st_size if isinstance(held, Path) else len(held)

    def etag(self, name: str) -> str:
        return hashlib.sha256(f"{self.commit}{name}{self.size(name)}".encode()).hexdigest()

    def is_large(self, name: str) -> bool:
        return name.endswith(".safetensors")

    def part(self, name: str, start: int, end: int) -> Iterator[bytes]:
        held = self.files[name]
        if isinstance(held, bytes):
            yield held[start:end]
            return
        with held.open("rb") as file:
            file.seek(start)
            while start < end:
                block = file.read(min(BLOCK, end - start))
                start += len(block)
                yield block


@dataclass
class Faults:
    """What goes wrong, from the next request on."""

    silent: tuple[str, ...] = ()
    """Kinds of request that get no answer: api, tree, resolve, bytes."""
    silence: float = 2.0
    status: dict[str, int] = field(default_factory=dict)
    """Kind of request to the status that it is answered with."""
    cut_at: int | None = None
    """Place in a file beyond which every connection breaks."""
    cut_after: int | None = None
    """Bytes of every answer after which its connection breaks."""
    cut_times: int = 10**9
    """Connections that are broken before one holds."""
    ignore_ranges: bool = False
    wrong_range: bool = False
    longer: int = 0
    """Bytes that follow those asked for."""
    wrong_size: int = 0
    """Bytes by which the announced size of a large file is off."""
    bytes_a_second: int | None = None
    expired: int = 0
    """Signed addresses that have run out by the time they are used."""
    nonsense: str | None = None
    """Body with which the API is answered."""


@dataclass
class Asked:
    method: str
    kind: str
    path: str
    authorized: bool
    range: str | None


class Hub:
    """Two servers, as the Hub is: one that knows the models, one that sends large files."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.faults = Faults()
        self.asked: list[Asked] = []
        self.sent = 0
        """Bytes of all bodies."""
        self.lock = threading.Lock()
        self._front = _Server(self, _Front)
        self._store = _Server(self, _Store)

    @property
    def url(self) -> str:
        return self._front.url

    @property
    def store_url(self) -> str:
        return self._store.url

    @contextmanager
    def running(self) -> Iterator["Hub"]:
        servers = (self._front, self._store)
        threads = [threading.Thread(target=s.serve_forever, args=(0.02,)) for s in servers]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            for server in servers:
                server.shutdown()
                server.server_close()
            for thread in threads:
                thread.join()

    def kinds(self) -> list[str]:
        return [asked.kind for asked in self.asked]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, hub: Hub, handler: type["_Handler"]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.hub = hub
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients of these tests hang up; that is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    @property
    def hub(self) -> Hub:
        return self.server.hub

    def begin(self, kind: str) -> bool:
        """Note the request and apply what is wrong with its kind; False where that answered it."""
        hub = self.hub
        authorized = "authorization" in self.headers
        with hub.lock:
            hub.asked.append(
                Asked(self.command, kind, self.path, authorized, self.headers.get("Range"))
            )
        if kind in hub.faults.silent:
            pause(hub.faults.silence)
            self.break_off()
            return False
        if (status := hub.faults.status.get(kind)) is not None:
            self.answer(status, {"X-Error-Message": f"status {status} it is"})
            return False
        return True

    def answer(self, status: int, headers: dict[str, Any], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.write(body)

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, {"X-Error-Code": code, "X-Error-Message": f"no: {code}"})

    def write(self, body: bytes) -> None:
        with self.hub.lock:
            self.hub.sent += len(body)
        self.wfile.write(body)

    def break_off(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def send_file(self, repo: Repo, name: str, headers: dict[str, Any]) -> None:
        """The whole file or the asked part of it, as far as the faults let it through."""
        faults, size = self.hub.faults, repo.size(name)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        start, end, status = 0, size, 200
        if asked and not faults.ignore_ranges:
            start, end, status = int(asked[1]), int(asked[2] or size - 1) + 1, 206
            shift = 1 if faults.wrong_range else 0
            headers["Content-Range"] = f"bytes {start + shift}-{end - 1}/{size}"
        self.send_response(status)
        headers["Content-Length"] = end - start + faults.longer
        for key, value in headers.items():
            self.send_header(key, str(value))
        self.end_headers()
        if self.command == "HEAD":
            return
        self._send_part(repo, name, start, end)
        if faults.longer:
            self.write(bytes(faults.longer))

    def _send_part(self, repo: Repo, name: str, start: int, end: int) -> None:
        faults, stop = self.hub.faults, self._stop(start)
        at = start
        for block in repo.part(name, start, min(end, stop)):
            step = len(block) if faults.bytes_a_second is None else 1024
            for i in range(0, len(block), step):
                piece = block[i : i + step]
                self.write(piece)
                at += len(piece)
                if faults.bytes_a_second:
                    self.wfile.flush()
                    pause(len(piece) / faults.bytes_a_second)
        if at < end:
            faults.cut_times -= 1
            self.wfile.flush()
            self.break_off()

    def _stop(self, start: int) -> int:
        faults = self.hub.faults
        stops = [] if faults.cut_at is None else [max(faults.cut_at, start)]
        stops += [] if faults.cut_after is None else [start + faults.cut_after]
        return min(stops) if stops and faults.cut_times > 0 else 1 << 62


class _Front(_Handler):
    """What huggingface_hub asks: the API, and files by name and revision."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        for pattern, kind, reply in self._routes():
            if found := re.fullmatch(pattern, path):
                if self.begin(kind):
                    reply(found)
                return
        if self.begin("other"):
            self.answer(404, {})

    do_HEAD = do_GET  # noqa: N815

    def _routes(self) -> tuple[tuple[str, str, Callable[[re.Match[str]], None]], ...]:
        return (
            (r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", "api", self._model),
            (r"/api/models/([^/]+/[^/]+)/tree/([^/]+)/?", "tree", self._tree),
            (r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", "resolve", self._resolve),
        )

    def _repo(self, name: str, revision: str | None) -> Repo | None:
        repo = self.hub.repos.get(name)
        if repo is None:
            self.refuse(404, "RepoNotFound")
        elif revision not in (None, "main", repo.commit, repo.commit[:12]):
            self.refuse(404, "RevisionNotFound")
        else:
            return repo
        return None

    def _json(self, table: Any) -> None:
        body = json.dumps(table).encode()
        if self.hub.faults.nonsense is not None:
            body = self.hub.faults.nonsense.encode()
        self.answer(200, {"Content-Type": "application/json"}, body)

    def _model(self, found: re.Match[str]) -> None:
        if (repo := self._repo(found[1], found[2])) is None:
            return
        sized = "blobs" in parse_qs(urlsplit(self.path).query)
        files = [
            {"rfilename": name, **({"size": repo.size(name), "blobId": "b"} if sized else {})}
            for name in repo.files
        ]
        self._json({"id": found[1], "sha": repo.commit, "siblings": files})

    def _tree(self, found: re.Match[str]) -> None:
        if (repo := self._repo(found[1], found[2])) is None:
            return
        self._json(
            [
                {"type": "file", "path": name, "size": repo.size(name), "oid": repo.etag(name)}
                for name in repo.files
            ]
        )

    def _resolve(self, found: re.Match[str]) -> None:
        if (repo := self._repo(found[1], found[2])) is None:
            return
        name = found[3]
        if repo.gated:
            self.refuse(403 if "authorization" in self.headers else 401, "GatedRepo")
            return
        if name not in repo.files:
            self.answer(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": repo.commit})
            return
        about = {"X-Repo-Commit": repo.commit, "ETag": f'"{repo.etag(name)}"'}
        if not repo.is_large(name):
            self.send_file(repo, name, about)
            return
        place = f"{self.hub.store_url}/{found[1]}/{name}?{SIGNATURE}"
        size = repo.size(name) + self.hub.faults.wrong_size
        linked = {"X-Linked-Size": size, "X-Linked-ETag": about["ETag"], "Location": place}
        self.answer(302, {**about, **linked})


class _Store(_Handler):
    """What large files are sent from, by signed address and to nobody who shows a login."""

    def do_GET(self) -> None:
        if not self.begin("bytes"):
            return
        parts = urlsplit(self.path)
        org, name, file = unquote(parts.path).strip("/").split("/", 2)
        faults = self.hub.faults
        with self.hub.lock:
            faults.expired -= 1
            expired = faults.expired >= 0
        if parts.query != SIGNATURE or expired:
            self.answer(403, {})
            return
        self.send_file(self.hub.repos[f"{org}/{name}"], file, {"ETag": '"store"'})

    do_HEAD = do_GET  # noqa: N815
