"""Files of a model come from the Hub or its cache, and what does not come is answered in words."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from model.hub import HubError, HubUnreachableError, cached, download, fetch, listing, repo_of
from tests.hub.server import COMMIT, SIGNATURE, Repo

ROOT = Path(__file__).parents[2]
NAME = "org/model"
FILES = {
    "config.json": json.dumps({"vocab_size": 7}).encode(),
    "model.safetensors": bytes(range(256)) * 400,
    "README.md": b"# a model",
    "pytorch_model.bin": b"\x80\x02never fetched",
}
WEIGHTS = ["*.json", "*.safetensors"]


@pytest.fixture
def repo(hub):
    hub.repos[NAME] = Repo(dict(FILES))
    return hub.repos[NAME]


def refused(*arguments, kind: type[HubError] = HubError) -> str:
    with pytest.raises(kind) as caught:
        fetch(*arguments)
    return sentence(caught.value)


def sentence(error: BaseException) -> str:
    said = error.args[0]
    assert said.startswith("'")
    assert "\n" not in said
    assert len(said) < 500
    assert "Signature" not in said
    assert error.__cause__ is None
    return said


def held(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_only_the_asked_files_come_and_the_folder_is_the_commit(hub, repo):
    folder = fetch(NAME, WEIGHTS)
    assert folder.name == COMMIT
    assert held(folder) == ["config.json", "model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert "config.json" in {asked.path.rsplit("/", 1)[-1] for asked in hub.asked}
    assert not [asked for asked in hub.asked if asked.path.endswith((".bin", ".md"))]


def test_what_the_cache_holds_is_not_sent_again(hub, repo):
    fetch(NAME, WEIGHTS)
    sent = hub.sent
    assert fetch(NAME, WEIGHTS, COMMIT).name == COMMIT
    assert fetch(NAME, WEIGHTS).name == COMMIT
    # the commit of `main` is asked for, and no file
    assert hub.sent - sent < 1000
    assert cached(NAME, "config.json", COMMIT) is not None
    assert cached(NAME, "README.md", COMMIT) is None


def test_a_pinned_revision_stays_while_the_newest_moves(hub, repo):
    hub.repos[NAME] = Repo({**FILES, "config.json": b"{}"}, commit="f" * 40)
    assert fetch(NAME, ["config.json"]).name == "f" * 40
    hub.repos[NAME] = repo
    assert fetch(NAME, ["config.json"], COMMIT[:12]).name == COMMIT
    assert (fetch(NAME, ["config.json"]) / "config.json").read_bytes() == FILES["config.json"]
    assert "no such revision" in refused(NAME, ["config.json"], "v9")


def test_offline_gives_what_is_cached_and_names_what_is_not(hub, repo, monkeypatch):
    folder = fetch(NAME, ["config.json"])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    asked = len(hub.asked)
    assert fetch(NAME, ["config.json"]) == folder
    assert fetch(NAME, ["config.json"], "main") == folder
    said = refused(NAME, WEIGHTS, kind=HubUnreachableError)
    assert "HF_HUB_OFFLINE" in said
    assert constants.HF_HUB_CACHE in said
    assert "HF_HUB_OFFLINE" in refused("org/other", WEIGHTS, kind=HubUnreachableError)
    assert len(hub.asked) == asked


def test_a_hub_that_is_away_gives_what_is_cached(hub, repo, monkeypatch):
    folder = fetch(NAME, ["config.json"])
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setattr(constants, "ENDPOINT", nowhere)
    assert fetch(NAME, ["config.json"]) == folder
    said = refused(NAME, WEIGHTS, kind=HubUnreachableError)
    assert "127.0.0.1:9 was not reached, no connection could be made" in said


def test_a_name_that_no_machine_has_is_said(hub, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://user:secret@no-such-machine.invalid")
    said = refused(NAME, WEIGHTS, kind=HubUnreachableError)
    assert "no-such-machine.invalid was not reached, no machine of that name" in said
    assert "secret" not in said


def test_an_address_that_is_none_is_said(hub, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "ftp://hub")
    assert "HF_ENDPOINT is no address" in refused(NAME, WEIGHTS)


@pytest.mark.parametrize("nonsense", ["<html>", "[]", "{}", '{"sha": null, "id": "x"}', "5"])
def test_another_web_server_is_no_hub(hub, repo, nonsense):
    hub.faults.nonsense = nonsense
    assert "does not answer as a Hub does" in refused(NAME, WEIGHTS)


@pytest.mark.parametrize("signed_in", [False, True])
def test_a_gated_model_says_how_to_get_in(hub, repo, monkeypatch, signed_in):
    repo.gated = True
    if signed_in:
        monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    said = refused(NAME, WEIGHTS)
    assert "is gated" in said
    assert "HF_TOKEN" in said
    assert "verysecret" not in said
    assert any(asked.authorized for asked in hub.asked) == signed_in


def test_what_is_missing_is_named(hub, repo):
    assert "knows no such model" in refused("org/nothing", WEIGHTS)
    assert "no such file" in refused(NAME, ["tokenizer.model"])
    with pytest.raises(HubError, match="no such file"):
        download(NAME, "nothing.json", COMMIT)


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("api", 401, "refused it with 401"),
        ("api", 403, "refused it with 403"),
        ("api", 429, "asks for a pause"),
        ("api", 503, "failed with 503"),
        ("api", 418, "answered 418"),
        ("tree", 500, "failed with 500"),
        ("bytes", 403, "refused it with 403"),
        ("bytes", 404, "answered 404"),
    ],
)
def test_a_status_that_means_no_is_put_into_words(hub, repo, impatient, kind, status, words):
    hub.faults.status[kind] = status
    said = refused(NAME, WEIGHTS)
    assert words in said
    assert "127.0.0.1" in said


def test_a_download_that_breaks_off_is_tried_again_without_a_word_of_its_signature(
    hub, repo, impatient, caplog, capfd
):
    hub.faults.cut_at, hub.faults.cut_times = 60_000, 1
    folder = fetch(NAME, WEIGHTS)
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert hub.kinds().count("bytes") == 2
    shown = caplog.text + "".join(capfd.readouterr())
    assert "resume" in shown
    assert SIGNATURE not in shown


def test_a_download_that_breaks_off_for_good_leaves_nothing_half_done(hub, repo, impatient):
    hub.faults.cut_at = 60_000
    said = refused(NAME, WEIGHTS, kind=HubUnreachableError)
    assert "broke off" in said
    assert cached(NAME, "model.safetensors", COMMIT) is None
    assert not list(Path(constants.HF_HUB_CACHE).rglob("*.incomplete"))


def test_a_file_of_another_length_than_announced_is_not_kept(hub, repo):
    hub.faults.wrong_size = 5
    assert "another length than announced" in refused(NAME, WEIGHTS)
    assert cached(NAME, "model.safetensors", COMMIT) is None


@pytest.mark.parametrize("kind", ["api", "tree", "resolve", "bytes"])
def test_no_silence_lasts_for_ever(hub, repo, impatient, monkeypatch, kind):
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.2)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    monkeypatch.setattr("huggingface_hub.file_download._ETAG_RETRY_TIMEOUT", 0.2)
    hub.faults.silent, hub.faults.silence = (kind,), 1.0
    said = refused(NAME, WEIGHTS, kind=HubUnreachableError)
    assert "sent nothing for" in said
    assert "HF_HUB_DOWNLOAD_TIMEOUT" in said


def test_a_login_is_shown_to_the_hub_and_not_to_the_store(hub, repo, monkeypatch, capfd, caplog):
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    caplog.set_level(logging.DEBUG)
    fetch(NAME, WEIGHTS)
    for asked in hub.asked:
        assert asked.authorized == (asked.kind != "bytes")
    assert "verysecret" not in caplog.text + "".join(capfd.readouterr())


def test_a_listing_gives_the_full_commit_and_every_size(hub, repo):
    found = listing(NAME, COMMIT[:12])
    assert found.commit == COMMIT
    assert found.sizes == {name: len(held) for name, held in FILES.items()}
    assert len(hub.asked) == 1


@pytest.mark.parametrize("revision", ["../../x", "a b", "", "-x", "a..b"])
def test_a_revision_that_is_none_is_refused(hub, revision):
    for ask in (lambda: fetch(NAME, WEIGHTS, revision), lambda: listing(NAME, revision)):
        with pytest.raises(ValueError, match="is no revision"):
            ask()
    assert hub.asked == []


@pytest.mark.parametrize("source", ["", "k4", "a/b/c", "../x", "org/", "/x", "org/na me"])
def test_a_source_that_is_no_hub_id_is_refused(source):
    with pytest.raises(LookupError, match="no preset"):
        repo_of(source)


def test_the_environment_says_where_the_hub_is_and_where_its_cache(hub, repo, tmp_path):
    code = f"from model.hub import fetch; print(fetch({NAME!r}, ['config.json']))"
    place = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}

    def child(**more: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **place, **more}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)

    first = child()
    assert first.stdout.strip().startswith(str(tmp_path / "home" / "hub")), first.stderr
    asked = len(hub.asked)
    assert child(HF_HUB_OFFLINE="1").stdout == first.stdout
    assert len(hub.asked) == asked
