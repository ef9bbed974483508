"""A model is loaded from the Hub: whole, in part, pinned, offline, or refused in words."""

import json

import numpy as np
import pytest
import torch
from huggingface_hub import constants

from model.load import build, load, upstream_state
from model.presets import hf
from model.trace import run
from tests.hub.checkpoints import sharded
from tests.hub.server import Repo

NAME = "org/tiny"
TINY = build("tiny-k3")
STATE = {name: tensor.clone().numpy() for name, tensor in upstream_state(TINY).items()}
LAYERS = TINY.config.num_hidden_layers


def layer_of(name: str) -> int:
    """Tensors around the layers stand with the last."""
    parts = name.split(".")
    return int(parts[parts.index("layers") + 1]) if "layers" in parts else LAYERS - 1


SHARDS = [{n: a for n, a in STATE.items() if layer_of(n) == layer} for layer in range(LAYERS)]
FILES = sharded(SHARDS, {"text_config": hf("tiny-k3")})
NAMES = [name for name in FILES if name.endswith(".safetensors")]


@pytest.fixture
def repo(hub):
    hub.repos[NAME] = Repo(dict(FILES))
    return hub.repos[NAME]


def shards_asked(hub) -> set[str]:
    return {asked.path.rsplit("/", 1)[-1].partition("?")[0] for asked in hub.asked} & {*NAMES}


def test_a_model_from_the_hub_is_the_model_that_was_put_there(hub, repo):
    lm = load(NAME, device="cpu", dtype="float32")
    ours = upstream_state(lm)
    assert ours.keys() == STATE.keys()
    assert all(np.array_equal(ours[name].numpy(), STATE[name]) for name in STATE)
    tokens = list(range(1, 20))
    wanted = run(TINY, tokens).array("logits")
    np.testing.assert_array_equal(run(lm, tokens).array("logits"), wanted)


def test_a_part_fetches_just_the_shards_that_hold_it(hub, repo):
    lm = load(NAME, layers=range(2), device="cpu", dtype="float32")
    assert len(lm.layers) == 2
    assert shards_asked(hub) == {NAMES[0], NAMES[1], NAMES[-1]}


def test_a_pinned_revision_is_loaded_while_the_newest_moves(hub, repo):
    other = [{name: array + 1 for name, array in shard.items()} for shard in SHARDS]
    newest = Repo(sharded(other, {"text_config": hf("tiny-k3")}), commit="f" * 40)
    load(NAME, revision=repo.commit, device="cpu", dtype="float32")
    hub.repos[NAME] = newest
    pinned = load(NAME, revision=repo.commit, device="cpu", dtype="float32")
    moved = load(NAME, device="cpu", dtype="float32")
    name = "model.norm.weight"
    assert np.array_equal(upstream_state(pinned)[name].numpy(), STATE[name])
    assert np.array_equal(upstream_state(moved)[name].numpy(), STATE[name] + 1)


def test_what_was_fetched_once_loads_offline(hub, repo, monkeypatch):
    load(NAME, device="cpu", dtype="float32")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.asked.clear()
    assert torch.equal(load(NAME, device="cpu", dtype="float32").norm.weight, TINY.norm.weight)
    with pytest.raises(LookupError, match="HF_HUB_OFFLINE"):
        load("org/other", device="cpu", dtype="float32")
    assert hub.asked == []


def break_shard(repo):
    repo.files[NAMES[1]] = repo.files[NAMES[1]][:-7]


def lead_astray(repo):
    index = json.loads(repo.files["model.safetensors.index.json"])
    index["weight_map"]["model.norm.weight"] = "../../outside.safetensors"
    repo.files["model.safetensors.index.json"] = json.dumps(index).encode()


def leave_out_shard(repo):
    del repo.files[NAMES[2]]


def pickle_it(repo):
    for name in [*NAMES, "model.safetensors.index.json"]:
        del repo.files[name]
    repo.files["pytorch_model.bin"] = b"\x80\x02."


def gate(repo):
    repo.gated = True


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (break_shard, "is cut off"),
        (lead_astray, "outside.safetensors"),
        (leave_out_shard, NAMES[2]),
        (pickle_it, "safetensors"),
        (gate, "is gated"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_sentence(hub, repo, fault, words):
    fault(repo)
    with pytest.raises((ValueError, LookupError)) as caught:
        load(NAME, device="cpu", dtype="float32")
    said = str(caught.value.args[0])
    assert words in said
    assert "\n" not in said
    assert not [asked for asked in hub.asked if asked.path.endswith(".bin")]
