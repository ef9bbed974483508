"""Pinned files: fetched on demand only, and shown only where they bear the source out."""

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from annotations import fetch as fetching
from annotations.__main__ import main
from annotations.fetch import check, fetch, unreachable, wanted
from annotations.loader import load_nodes
from annotations.node import Source
from annotations.pins import Excerpt, NotHere, Pin, definitions, excerpt, load_pins, pins

ROOT = Path(__file__).parents[2]
PROBE = "".join(
    f"{line}\n"
    for line in (
        "import other",
        "",
        "class Mixer:",
        "    @decorated",
        "    def forward(self, x):",
        "        latent = self.down(x)",
        "        # a remark",
        "        shared = latent[1:]",
        "        return shared",
        "",
        "def free(y):",
        "    return y",
    )
)


def source(**changes):
    facts = {
        "id": "probe",
        "claim": "It is so.",
        "grade": "direct",
        "pin": "k3",
        "path": "probe.py",
        "lines": "6, 8-9",
        "within": "Mixer.forward",
        "names": ("latent", "shared"),
    }
    return Source(**{**facts, **changes})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "k3").mkdir()
    (tmp_path / "k3" / "probe.py").write_text(PROBE)
    return tmp_path


@pytest.fixture(autouse=True)
def _no_memory_between_tests():
    fetching._unreachable.clear()


def test_an_excerpt_keeps_upstream_numbers_and_says_what_it_leaves_out(folder):
    got = excerpt(source(), folder)
    assert isinstance(got, Excerpt)
    assert [(part.first, part.last) for part in got.parts] == [(6, 6), (8, 9)]
    assert got.parts[0].lines == ("        latent = self.down(x)",)
    assert got.omitted == ((7, 7),)
    assert got.status == "checked on fetch"
    assert got.url == (
        "https://huggingface.co/moonshotai/Kimi-K3/blob/"
        "f831ab66814297da540d832a5235f8e904f29d06/probe.py#L6"
    )


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"lines": "40-41"}, "12 lines"),
        ({"within": "Mixer.backward"}, "no Mixer.backward"),
        ({"within": "free"}, "reach beyond"),
        ({"names": ("late",)}, "do not hold late"),
        ({"path": "absent.py"}, "holds no k3/absent.py"),
    ],
)
def test_lines_that_do_not_agree_are_not_shown(folder, changes, word):
    got = excerpt(source(**changes), folder)
    assert isinstance(got, NotHere)
    assert word in got.reason
    assert got.advice


def test_all_disagreements_are_said_at_once(folder):
    got = excerpt(source(within="free", names=("one", "two")), folder)
    assert isinstance(got, NotHere)
    assert "reach beyond" in got.reason
    assert "one, two" in got.reason


def test_a_file_that_is_no_text_is_said_and_not_shown(folder):
    (folder / "k3" / "probe.py").write_bytes(b"\xff\xfe\x00")
    got = excerpt(source(), folder)
    assert isinstance(got, NotHere)
    assert "cannot be read as text" in got.reason


def test_the_last_parts_of_a_dotted_name_are_enough(folder):
    assert isinstance(excerpt(source(within="forward"), folder), Excerpt)
    assert ("Mixer.forward", (4, 9)) in definitions(PROBE)


def test_an_absent_file_says_what_would_bring_it(monkeypatch, tmp_path):
    monkeypatch.setenv("KIMISCOPE_CACHE", str(tmp_path))
    monkeypatch.delenv("KIMISCOPE_PINNED_DIR", raising=False)
    got = excerpt(source(pin="fla"))
    assert isinstance(got, NotHere)
    assert got.status == "unchecked"
    assert "python -m annotations fetch" in got.advice
    assert got.url.startswith("https://github.com/fla-org/flash-linear-attention/blob/bc3b101d")


def test_a_named_folder_is_read_from_the_environment(monkeypatch, folder):
    monkeypatch.setenv("KIMISCOPE_PINNED_DIR", str(folder))
    assert isinstance(excerpt(source()), Excerpt)


def test_pins_are_the_repositories_of_the_design():
    assert {(p.host, p.repo) for p in pins().values()} == {
        ("hub", "moonshotai/Kimi-K3"),
        ("hub", "moonshotai/Kimi-K2-Instruct"),
        ("github", "huggingface/transformers"),
        ("github", "fla-org/flash-linear-attention"),
        ("github", "ml-explore/mlx-lm"),
    }
    with pytest.raises(ValueError, match="host 'disk'"):
        load_pins('[a]\nhost = "disk"\nrepo = "b/c"\ncommit = "v1"')


def test_every_source_of_every_node_has_a_pin():
    nodes = load_nodes()
    assert {name for name, _ in wanted(nodes)} <= set(pins())


def test_line_links_name_the_range():
    pin = Pin(name="p", host="github", repo="a/b", commit="v1")
    assert pin.url("c.py", "3-5, 9") == "https://github.com/a/b/blob/v1/c.py#L3-L5"
    assert pin.url("c.py") == "https://github.com/a/b/blob/v1/c.py"


class Upstream(BaseHTTPRequestHandler):
    """Answers as the Hub's `resolve` and as GitHub's raw host do, with the probe as every file."""

    commit = ""
    asked: ClassVar[list[str]] = []

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, *, body):
        self.asked.append(f"{self.command} {self.path}")
        found = self.path.endswith("/probe.py")
        text = PROBE.encode() if found else b"none"
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("ETag", '"0123456789012345678901234567890123456789"')
        self.send_header("X-Repo-Commit", self.commit)
        self.end_headers()
        if body:
            self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def upstream():
    handler = type("Handler", (Upstream,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    handler.url = f"http://127.0.0.1:{server.server_port}"
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_github_files_are_fetched_once(monkeypatch, tmp_path, upstream):
    monkeypatch.setenv("KIMISCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KIMISCOPE_GITHUB_RAW", upstream.url)
    monkeypatch.setenv("no_proxy", "*")
    files = [("fla", "ops/probe.py"), ("fla", "ops/absent.py")]
    first, second = fetch(files), fetch(files[:1], tmp_path / "copy")
    assert [bool(result.fault) for result in first + second] == [False, True, False]
    assert "404" in first[1].fault
    commit = pins()["fla"].commit
    assert upstream.asked.count(
        f"GET /fla-org/flash-linear-attention/{commit}/ops/probe.py"
    ) == 1  # fmt: skip
    assert isinstance(excerpt(source(pin="fla", path="ops/probe.py")), Excerpt)
    assert (tmp_path / "copy" / "fla" / "ops" / "probe.py").read_text() == PROBE


def test_a_file_that_is_larger_than_any_pinned_one_is_not_kept(monkeypatch, tmp_path, upstream):
    monkeypatch.setenv("KIMISCOPE_CACHE", str(tmp_path))
    monkeypatch.setenv("KIMISCOPE_GITHUB_RAW", upstream.url)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(fetching, "LARGEST", len(PROBE) - 1)
    (result,) = fetch([("fla", "ops/probe.py")])
    assert "is larger than" in result.fault
    assert not list(tmp_path.rglob("*probe.py*"))


def test_a_cache_that_cannot_be_written_is_said_for_each_file(monkeypatch, tmp_path, upstream):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KIMISCOPE_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("KIMISCOPE_GITHUB_RAW", upstream.url)
    monkeypatch.setenv("no_proxy", "*")
    results = fetch([("fla", "ops/probe.py"), ("fla", "probe.py")])
    assert all("cannot be written: Not a directory" in result.fault for result in results)


HUB = """
import json
from annotations.fetch import fetch
from annotations.node import Source
from annotations.pins import excerpt
source = Source(id="p", claim="c", grade="direct", pin="k2", path="probe.py", lines="6",
                within="forward", names=("latent",))
before = excerpt(source)
results = fetch([("k2", "probe.py"), ("k2", "absent.py")])
after = excerpt(source)
print(json.dumps([before.status, [r.fault for r in results], after.status,
                  getattr(after, "commit", after)], default=str))
"""


def run_hub(upstream, tmp_path, **environment):
    settings = {
        "HF_ENDPOINT": upstream.url,
        "HF_HOME": str(tmp_path),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "no_proxy": "*",
        **environment,
    }
    kept = {
        k: v for k, v in os.environ.items() if k not in {"HF_HUB_CACHE", "KIMISCOPE_PINNED_DIR"}
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HUB)],
        cwd=ROOT,
        env={**kept, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_hub_files_come_through_its_cache_and_the_commit_must_begin_as_pinned(upstream, tmp_path):
    upstream.commit = "fd1984e2b7a3" + "0" * 28
    before, faults, after, commit = run_hub(upstream, tmp_path)
    assert (before, after) == ("unchecked", "checked on fetch")
    assert faults[0] == ""
    assert "absent.py" in faults[1]
    assert commit == upstream.commit


def test_a_hub_file_of_another_commit_is_refused(upstream, tmp_path):
    upstream.commit = "ab" * 20
    _, faults, after, _ = run_hub(upstream, tmp_path)
    assert "is here at abababababab, and fd1984e2b7a3 is pinned" in faults[0]
    assert after == "unchecked"


def test_offline_mode_asks_nobody(upstream, tmp_path):
    _, faults, after, _ = run_hub(upstream, tmp_path, HF_HUB_OFFLINE="1")
    assert all("HF_HUB_OFFLINE" in fault for fault in faults)
    assert upstream.asked == []
    assert after == "unchecked"


def test_no_network_is_said_within_a_second_and_remembered(monkeypatch, tmp_path):
    monkeypatch.setenv("KIMISCOPE_CACHE", str(tmp_path))
    monkeypatch.setenv("KIMISCOPE_GITHUB_RAW", "http://host.invalid")
    monkeypatch.setenv("no_proxy", "*")
    start = time.monotonic()
    results = fetch([("fla", f"{n}.py") for n in range(50)])
    assert time.monotonic() - start < 3
    assert all("host.invalid" in result.fault for result in results)


def test_a_name_that_never_resolves_does_not_hold_the_caller(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    calls = []

    def endless(address, timeout):
        calls.append(address)
        time.sleep(1.5)
        raise TimeoutError

    monkeypatch.setattr(fetching.socket, "create_connection", endless)
    start = time.monotonic()
    assert "did not answer" in unreachable("https://slow.invalid/a")
    assert "did not answer" in unreachable("https://slow.invalid/b")
    assert time.monotonic() - start < 1.4
    assert len(calls) == 1


def test_check_reports_every_file_that_is_not_here(tmp_path):
    nodes = load_nodes()
    faults = check(nodes, tmp_path)
    assert len(faults) == len(wanted(nodes))
    assert all("unchecked" in fault for fault in faults)


def test_the_command_says_each_fault_once_and_fails(tmp_path, capsys):
    assert main(["check", "--folder", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "holds no k3/config.json" in said.err
    assert len(set(said.err.splitlines())) == len(said.err.splitlines())
    assert said.out == ""


def test_the_command_lists_what_it_could_not_fetch(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(fetching, "unreachable", lambda url: f"{url} cannot be reached.")
    monkeypatch.setenv("KIMISCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr("annotations.fetch.cached_path", lambda pin, path: None)
    assert main(["fetch", "--folder", str(tmp_path / "copy")]) == 1
    said = capsys.readouterr()
    assert all(line.startswith("failed") for line in said.out.splitlines())
    assert "moonshotai/Kimi-K3@f831ab668142" in said.out
    assert "cannot be reached" in said.err
