"""Parts of a remote file: just the asked bytes come, or words come."""

import threading
import time
import tracemalloc

import pytest
from huggingface_hub import constants

from model.hub import HubError, HubUnreachableError
from model.hub_range import TRIES, RemoteFile
from tests.hub.server import COMMIT, Repo

NAME = "org/model"
FILE = "model.safetensors"
HELD = bytes(i * i % 251 for i in range(200_000))


class Counted(RemoteFile):
    """A remote file that adds up what it hears of what comes."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments, came=self.add)
        self.transferred = 0
        self.lock = threading.Lock()

    def add(self, count: int) -> None:
        with self.lock:
            self.transferred += count


@pytest.fixture
def remote(hub):
    hub.repos[NAME] = Repo({FILE: HELD, "config.json": HELD[:5000]})
    return Counted(NAME, FILE, COMMIT, len(HELD))


def refused(remote, start=0, end=1000, kind: type[HubError] = HubError) -> str:
    with pytest.raises(kind) as caught:
        remote.read(start, end)
    said = caught.value.args[0]
    assert said.startswith(f"{FILE!r} of {NAME!r}")
    assert "\n" not in said
    assert "Signature" not in said
    return said


@pytest.mark.parametrize(
    ("start", "end"), [(0, 1), (0, 8), (1, 65), (199_999, 200_000), (500, 150_000), (0, 200_000)]
)
def test_just_the_asked_bytes_come(hub, remote, start, end):
    assert remote.read(start, end) == HELD[start:end]
    assert hub.sent == remote.transferred == end - start


def test_no_bytes_need_no_request(hub, remote):
    assert remote.read(7, 7) == b""
    assert hub.asked == []


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4), (0, 200_001)])
def test_bytes_outside_the_file_are_not_asked_for(hub, remote, start, end):
    with pytest.raises(ValueError, match="has no bytes"):
        remote.read(start, end)
    assert hub.asked == []


def test_a_small_file_comes_from_the_hub_itself(hub, remote):
    small = RemoteFile(NAME, "config.json", COMMIT, 5000)
    assert small.read(10, 20) == HELD[10:20]
    assert hub.kinds() == ["resolve", "resolve"]


def test_a_place_is_looked_up_once_and_again_when_its_signature_runs_out(hub, remote, impatient):
    for at in range(0, 5000, 1000):
        remote.read(at, at + 1000)
    assert hub.kinds() == ["resolve", *["bytes"] * 5]
    hub.faults.expired = 1
    assert remote.read(0, 10) == HELD[:10]
    assert hub.kinds()[6:] == ["bytes", "resolve", "bytes"]
    hub.faults.expired = 100
    assert "signed address was refused" in refused(remote, kind=HubUnreachableError)


@pytest.mark.parametrize("times", [1, 2])
def test_a_part_that_breaks_off_is_taken_up_where_it_broke(hub, remote, impatient, times):
    hub.faults.cut_after, hub.faults.cut_times = 70_000, times
    assert remote.read(100, 199_000) == HELD[100:199_000]
    parts = [asked.range for asked in hub.asked if asked.kind == "bytes"]
    assert parts == [f"bytes={100 + 70_000 * i}-198999" for i in range(times + 1)]
    assert remote.transferred == hub.sent == 198_900


def test_a_part_that_always_breaks_off_is_given_up(hub, remote, impatient):
    hub.faults.cut_at = 100
    said = refused(remote, 0, 1000, kind=HubUnreachableError)
    assert "broke off" in said
    assert "100 of 1,000 bytes came" in said
    assert hub.kinds().count("bytes") == TRIES


def test_a_server_that_drips_breaks_after_breaks_is_given_up(hub, remote, impatient):
    hub.faults.cut_after = 1
    assert "3 of 1,000 bytes came" in refused(remote, 0, 1000, kind=HubUnreachableError)


def test_a_server_that_ignores_ranges_is_refused_before_it_sends_the_file(hub, remote, tmp_path):
    shard = tmp_path / "shard"
    with shard.open("wb") as file:
        file.truncate(1 << 30)
    hub.repos[NAME].files[FILE] = shard
    hub.faults.ignore_ranges = True
    large = Counted(NAME, FILE, COMMIT, 1 << 30)
    tracemalloc.start()
    assert "ignores ranges and would send all 1,073,741,824 bytes for 1,000" in refused(large)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    time.sleep(0.2)
    # what the kernel had taken before the connection was closed
    assert hub.sent < 32e6
    assert large.transferred == 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"wrong_range": True}, "asked for 'bytes 0-999/200000', the server gives 'bytes 1-999"),
        ({"wrong_size": 3}, "lists it with 200,000 bytes and gives 200,003"),
        ({"longer": 70_000}, "sends more than was asked for"),
        ({"status": {"bytes": 416}}, "answered 416"),
        ({"status": {"bytes": 404}}, "answered 404"),
        ({"status": {"resolve": 404}}, "answered 404"),
        ({"status": {"resolve": 401}}, "refused it with 401"),
    ],
    ids=str,
)
def test_an_answer_to_another_question_is_refused(hub, remote, fault, words):
    for name, value in fault.items():
        setattr(hub.faults, name, value)
    assert words in refused(remote)


def test_a_failing_server_is_tried_again_and_then_said(hub, remote, impatient):
    hub.faults.status["bytes"] = 503
    assert "failed with 503" in refused(remote, kind=HubUnreachableError)
    assert hub.kinds().count("bytes") == TRIES


def test_another_commit_than_the_pinned_is_refused(hub, remote):
    hub.repos[NAME].commit = "f" * 40
    other = RemoteFile(NAME, FILE, "main", len(HELD))
    with pytest.raises(HubError, match="the Hub gives it at 'ffff"):
        other.read(0, 10)


@pytest.mark.parametrize("kind", ["resolve", "bytes"])
def test_silence_is_given_up(hub, remote, impatient, monkeypatch, kind):
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.2)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    hub.faults.silent, hub.faults.silence = (kind,), 0.6
    assert "sent nothing for" in refused(remote, kind=HubUnreachableError)


def test_a_trickle_is_given_up(hub, remote, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.4)
    hub.faults.bytes_a_second = 8_000
    began = time.monotonic()
    said = refused(remote, 0, 100_000)
    assert "of 100,000 bytes came in" in said
    assert time.monotonic() - began < 5


def test_a_login_is_shown_to_the_hub_and_not_to_the_store(hub, remote, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    remote.read(0, 10)
    RemoteFile(NAME, "config.json", COMMIT, 5000).read(0, 10)
    assert [(asked.kind, asked.authorized) for asked in hub.asked] == [
        *[("resolve", True), ("bytes", False)],
        *[("resolve", True), ("resolve", True)],
    ]


def test_a_gated_file_says_how_to_get_in(hub, remote):
    hub.repos[NAME].gated = True
    assert "is gated" in refused(remote)


def test_readers_side_by_side_get_their_own_bytes(hub, remote):
    got = {}

    def read(at):
        got[at] = remote.read(at, at + 3000)

    threads = [threading.Thread(target=read, args=(at,)) for at in range(0, 90_000, 3000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {at: HELD[at : at + 3000] for at in range(0, 90_000, 3000)}
    assert remote.transferred == 90_000
