"""The page of weights over a Hub of our own: what is told before bytes come, and what came."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import constants
from streamlit.testing.v1 import AppTest

from app import microscope, sources
from app.microscope import Microscope
from app.panels import weights_list
from model.load import build, upstream_state
from tests.hub.checkpoints import sharded
from tests.hub.conftest import hub  # noqa: F401
from tests.hub.server import Repo

SCRIPT = Path(__file__).with_name("weights_page.py")
NAME = "org/small-k3"


@pytest.fixture
def remote(hub, monkeypatch):  # noqa: F811
    """A small K3 in two shards with an index; nobody else's checkpoint is named."""
    lm = build("tiny-k3", seed=5)
    state = {name: tensor.numpy() for name, tensor in upstream_state(lm).items()}
    names = sorted(state)
    parts: list[Mapping[str, np.ndarray]] = [
        {name: state[name] for name in names[i::2]} for i in range(2)
    ]
    hub.repos[NAME] = Repo({**sharded(parts)})
    monkeypatch.setenv(sources.NAMED, "")
    monkeypatch.setattr(microscope, "_shared", Microscope())
    return hub


def open_weights(**asked):
    page = AppTest.from_file(str(SCRIPT), default_timeout=60)
    page.query_params["view"] = "weights"
    for name, value in asked.items():
        page.query_params[name] = value
    return page.run()


def written(page):
    return "\n".join(element.proto.body for element in page.get("html"))


def test_a_remote_list_comes_without_its_values_and_says_what_came(remote):
    page = open_weights(checkpoint=NAME, tensors="*layers.0.self_attn.A_log")
    assert not page.exception
    assert "layers.0.self_attn.A_log" in written(page)
    assert f"{NAME} at {remote.repos[NAME].commit[:12]}" in written(page)
    assert "over the network" in written(page)
    assert page.button(key="weights-read").label == "Read its values, 12 B"
    before = remote.sent
    page = page.button(key="weights-read").click().run()
    assert "standard deviation" in written(page)
    assert remote.sent - before == 12


def test_a_long_list_is_asked_for_before_it_comes(remote, monkeypatch):
    monkeypatch.setattr(weights_list, "SMALL_LIST", 100)
    page = open_weights(checkpoint=NAME)
    assert "The list of its tensors is a file of" in written(page)
    assert all("index" not in asked.path for asked in remote.asked)
    button = page.button(key="weights-read")
    assert button.label.startswith("Read the list, ")
    page = button.click().run()
    assert "lm_head.weight" in written(page)


def test_a_view_says_what_may_come_at_most(remote):
    page = open_weights(checkpoint=NAME, look="decay")
    assert "At most 100.7 MB come over the network" in written(page)
    assert all(asked.kind == "api" for asked in remote.asked)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda server: setattr(server.repos[NAME], "gated", True), "is gated"),
        (lambda server: server.repos.clear(), "knows no such model"),
        (lambda server: server.faults.status.update(api=503), "503"),
        (lambda server: setattr(server.faults, "silent", ("api",)), "sent nothing for"),
        (
            lambda server: setattr(server.faults, "nonsense", "<html>"),
            "does not answer as a Hub does",
        ),
    ],
    ids=["gated", "missing", "failing", "silent", "nonsense"],
)
def test_what_the_hub_refuses_is_told_in_its_place(remote, monkeypatch, change, words):
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.2)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    change(remote)
    page = open_weights(checkpoint=NAME)
    assert not page.exception
    assert words in written(page)
    assert page.selectbox(key="weights-checkpoint").value == NAME


def test_a_login_of_the_server_is_not_a_visitors(remote, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    page = open_weights(checkpoint=NAME)
    assert "lm_head.weight" in written(page)
    assert not any(asked.authorized for asked in remote.asked)
    assert "verysecret" not in written(page)
