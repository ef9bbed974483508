"""The real app on a free port, and a headless Chromium to read it with."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

ROOT = Path(__file__).parents[2]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-quic"]


def _chromium() -> str:
    spec = importlib.util.spec_from_file_location("install", Path(__file__).with_name("install.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = module.find()
    assert path, "No Chromium found: run `make browser`, or name one in KIMISCOPE_BROWSER."
    return path


@dataclass
class Server:
    """A running app."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text(errors="replace")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_server(log: Path, **environment: str) -> Server:
    """Start the app as a visitor's machine would, without a network to models, and wait for it."""
    port = _free_port()
    command = [sys.executable, "-m", "streamlit", "run", "streamlit_app.py"]
    options = [f"--server.port={port}", "--server.address=127.0.0.1", "--server.headless=true"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *options],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        )
    server = Server(f"http://127.0.0.1:{port}", process, log)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=1):
                return server
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            assert process.poll() is None, server.text()
            time.sleep(0.05)
    raise AssertionError(f"the app did not start:\n{server.text()}")


def stop_server(server: Server) -> None:
    server.process.terminate()
    server.process.wait(10)


FIGURES: list[str] = []


@pytest.fixture
def report() -> Callable[[str], None]:
    """Say a measured figure in the summary; no test fails on a single timing."""
    return FIGURES.append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FIGURES:
        terminalreporter.section("measured in the browser")
        for figure in FIGURES:
            terminalreporter.write_line(figure)


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start_server(tmp_path_factory.mktemp("app") / "log.txt")
    yield server
    stop_server(server)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """One visitor: a page, what it sent, and what went wrong in it."""

    page: Page
    base: str
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, query: str = "") -> Page:
        self.page.goto(f"{self.base}/{query}", wait_until="domcontentloaded")
        self.page.locator("h1").first.wait_for(timeout=30_000)
        return self.page


def _size(payload: str | bytes) -> int:
    return len(payload.encode() if isinstance(payload, str) else payload)


def visit(context: BrowserContext, base: str) -> Visit:
    page = context.new_page()
    visitor = Visit(page, base)

    def watch(socket):  # a websocket of the page
        socket.on("framesent", lambda payload: visitor.sent.append(_size(payload)))
        socket.on("framereceived", lambda payload: visitor.received.append(_size(payload)))

    page.on("websocket", watch)
    page.on("pageerror", lambda error: visitor.errors.append(str(error)))
    return visitor


@pytest.fixture
def visitor(app: Server, chromium: Browser) -> Iterator[Visit]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    yield visit(context, app.url)
    context.close()


@pytest.fixture
def fresh_app(tmp_path: Path) -> Iterator[Server]:
    """A server that nobody has visited."""
    server = start_server(tmp_path / "log.txt")
    yield server
    stop_server(server)


@pytest.fixture
def app_with(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Servers with other environment variables, each with a cache of its own."""
    servers: list[Server] = []

    def start(**environment: str) -> Server:
        cache = str(tmp_path / "cache")
        servers.append(start_server(tmp_path / "log.txt", KIMISCOPE_CACHE=cache, **environment))
        return servers[-1]

    yield start
    for server in servers:
        stop_server(server)


@pytest.fixture
def chromium_visit(chromium: Browser) -> Iterator[Callable[[Server], Visit]]:
    """Visits of any server, each with an empty cache."""
    contexts: list[BrowserContext] = []

    def start(server: Server) -> Visit:
        contexts.append(chromium.new_context(viewport={"width": 1440, "height": 900}))
        return visit(contexts[-1], server.url)

    yield start
    for context in contexts:
        context.close()


@pytest.fixture
def another(app: Server, chromium: Browser) -> Iterator[Visit]:
    """A second visitor with an empty cache."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    yield visit(context, app.url)
    context.close()
