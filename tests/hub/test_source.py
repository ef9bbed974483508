"""A checkpoint is opened the same wherever it is, and what it cannot mean is refused."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import constants

from model.header import FIRST_READ, CheckpointError
from model.hub import HubError, HubUnreachableError, fetch
from model.presets import PRESETS, RELEASED
from model.shards import complete_series
from model.shipped import has_weights
from model.source import Part, open_hub, open_source
from model.source_files import OverBoundError
from tests.hub.checkpoints import INDEX, indexed, sharded, single, written
from tests.hub.server import COMMIT, Repo

NAME = "org/model"
rng = np.random.default_rng(1)
FIRST = {f"model.layers.0.{part}": rng.normal(size=(3, 5)).astype("<f4") for part in "abc"}
SECOND = {f"model.layers.1.{part}": rng.normal(size=(3, 5)).astype("<f4") for part in "abc"}
ARRAYS = {**FIRST, **SECOND}
LAYOUTS = {"single": single(ARRAYS), "sharded": sharded([FIRST, SECOND])}


@pytest.fixture(params=LAYOUTS)
def files(request):
    return LAYOUTS[request.param]


@pytest.fixture(params=["folder", "hub", "snapshot"])
def source(request, files, hub, tmp_path):
    """The same checkpoint as a folder, on the Hub, and as the folder of links in its cache."""
    hub.repos[NAME] = Repo(files)
    if request.param == "hub":
        return open_source(NAME)
    if request.param == "snapshot":
        folder = fetch(NAME, ["*.json", "*.safetensors"])
        assert (folder / "config.json").is_symlink()
        return open_source(str(folder))
    return open_source(str(written(files, tmp_path / "folder")))


def test_every_tensor_is_found_and_read_wherever_it_is(source):
    assert source.entries.keys() == ARRAYS.keys()
    assert set(source.names) == ARRAYS.keys()
    for name, array in ARRAYS.items():
        entry = source.entries[name]
        assert (entry.dtype, entry.shape) == ("F32", (3, 5))
        assert source.read(entry) == array.tobytes()
        assert source.read(entry, 4, 12) == array.tobytes()[4:12]
    assert source.config == {}


def test_a_hub_id_is_no_folder_and_strangers_use_nobodys_login(files, hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    written(files, tmp_path / NAME)
    monkeypatch.chdir(tmp_path)
    assert open_source(NAME).revision is None
    hub.repos[NAME] = Repo(files)
    for login in (False, True):
        before = len(hub.asked)
        opened = open_hub(NAME, login=login)
        assert opened.revision == COMMIT
        assert opened.read(next(iter(opened.entries.values())))
        asked = [one for one in hub.asked[before:] if one.kind != "bytes"]
        assert asked
        assert all(one.authorized == login for one in asked)


def test_names_fit_a_pattern_as_a_whole(source):
    assert source.fitting("*.1.*") == sorted(SECOND)
    assert [entry.name for entry in source.called(source.fitting("*.[ab]"))] == [
        name for name in sorted(ARRAYS) if not name.endswith("c")
    ]
    for pattern in ("a", "model.layers", "*.A"):
        with pytest.raises(LookupError, match="6 tensors, and the name of none fits"):
            source.fitting(pattern)
    with pytest.raises(CheckpointError, match="no tensor"):
        source.called(["nothing"])


def test_parts_come_in_the_asked_order_and_neighbours_together(source, hub):
    entries = [source.entries[name] for name in ARRAYS]
    parts = [Part(entries[4], 0, 60), Part(entries[0], 8, 60), Part(entries[1], 0, 20)]
    parts += [Part(entries[0], 8, 60), Part(entries[2], 5, 5)]
    before = hub.kinds().count("bytes")
    got = source.read_parts(parts)
    assert got == [ARRAYS[part.entry.name].tobytes()[part.start : part.end] for part in parts]
    if source.revision:
        # the first two tensors are neighbours
        assert hub.kinds().count("bytes") - before == 2
    with pytest.raises(ValueError, match="has no bytes"):
        source.read(entries[0], 0, 61)


def test_the_hub_sends_headers_and_just_the_asked_bytes(hub):
    hub.repos[NAME] = Repo(LAYOUTS["sharded"])
    source = open_source(NAME)
    assert source.revision == COMMIT
    assert source.transferred == 0
    entry = source.called(["model.layers.1.b"])[0]
    index, shard = (len(LAYOUTS["sharded"][name]) for name in (INDEX, entry.file))
    assert source.transferred == index + shard  # the header's first read is the whole small shard
    source.read(entry)
    assert source.transferred == index + shard + entry.nbytes
    assert not [asked for asked in hub.asked if "00001-of" in asked.path]


def test_all_entries_of_a_numbered_series_need_no_index(hub):
    hub.repos[NAME] = Repo(LAYOUTS["sharded"])
    assert open_source(NAME).entries.keys() == ARRAYS.keys()
    assert not [asked for asked in hub.asked if INDEX in asked.path]


def test_what_the_cache_holds_is_read_from_it(hub):
    hub.repos[NAME] = Repo(LAYOUTS["sharded"])
    fetch(NAME, ["*"])
    source = open_source(NAME)
    hub.asked.clear()
    for entry in source.entries.values():
        source.read(entry)
    assert source.config == {}
    assert source.transferred == 0
    assert hub.asked == []


@pytest.mark.parametrize("away", ["offline", "gone"])
def test_where_the_hub_does_not_answer_the_cache_is_opened_and_it_is_said(hub, monkeypatch, away):
    hub.repos[NAME] = Repo(LAYOUTS["sharded"])
    fetch(NAME, ["*"])
    if away == "offline":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    else:
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    source = open_source(NAME)
    assert source.revision == COMMIT
    assert source.entries.keys() == ARRAYS.keys()
    assert "Read from the cache" in source.notices[0]
    with pytest.raises(HubUnreachableError):
        open_source("org/other")


def test_a_pinned_revision_is_read_to_the_end(hub):
    hub.repos[NAME] = Repo(LAYOUTS["single"])
    source = open_source(NAME, revision="main")
    hub.repos[NAME] = Repo(single({"new": np.zeros(3)}), commit="f" * 40)
    with pytest.raises(HubError, match="no such revision"):
        _ = source.entries
    assert open_source(NAME).names == {"new"}


def test_bytes_beyond_what_was_allowed_are_not_asked_for(hub):
    hub.repos[NAME] = Repo(LAYOUTS["single"])
    source = open_source(NAME)
    source.files.allow(10)
    with pytest.raises(OverBoundError, match="above what is left of the bound, 10"):
        _ = source.entries
    assert hub.sent < 1000
    assert source.transferred == 0
    source.files.allow(10_000)
    assert len(source.entries) == 6
    spent = source.transferred
    source.files.allow(60)
    source.read(source.entries["model.layers.0.a"])
    with pytest.raises(OverBoundError, match=f"{spent + 120:,} bytes"):
        source.read(source.entries["model.layers.0.b"])


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_opened_where_its_weights_are_shipped(name):
    if has_weights(name):
        assert open_source(name).entries
        return
    words = "released configuration" if name in RELEASED else "weights are random"
    with pytest.raises(LookupError, match=words):
        open_source(name)


def test_a_folder_has_no_revision(tmp_path):
    with pytest.raises(ValueError, match="has no revision 'main'"):
        open_source(str(tmp_path), revision="main")


def refused(files, tmp_path, ask=lambda source: source.entries) -> str:
    folder = written(files, tmp_path / "odd")
    with pytest.raises(CheckpointError) as caught:
        ask(open_source(str(folder)))
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    "file",
    [
        "../x.safetensors",
        "/etc/x.safetensors",
        "sub/x.safetensors",
        "C:x.safetensors",
        "C:\\x.safetensors",
        "..\\x.safetensors",
        "\\\\host\\x.safetensors",
        "http://host/x.safetensors",
        "x.bin",
        "..",
        ".",
        "",
        "a\n.safetensors",
    ],
)
def test_an_index_that_leads_out_of_its_folder_is_refused(tmp_path, file):
    outside = written({"x.safetensors": LAYOUTS["single"]["model.safetensors"]}, tmp_path)
    (outside / "x.bin").write_bytes(b"")
    index = indexed({"model.layers.0.a": file})
    said = refused({"config.json": b"{}", INDEX: index}, tmp_path)
    assert "files beside their index" in said
    assert repr(file) in said


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (b"{", "is no JSON"),
        (b"\xff", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "has no weight_map"),
        (b"{}", "has no weight_map"),
        (b'{"weight_map": {"a": 5}}', "has no weight_map"),
        (indexed({"a": "nothing.safetensors"}), "lacks 1 of the 1 files that its index lists"),
    ],
    ids=str,
)
def test_an_index_that_is_none_is_refused(tmp_path, index, words):
    assert words in refused({**LAYOUTS["single"], INDEX: index}, tmp_path)


def test_an_index_that_promises_too_much_is_refused(tmp_path, hub):
    files = {**LAYOUTS["sharded"]}
    name = "model-00001-of-00002.safetensors"
    files[INDEX] = indexed({"model.layers.0.a": name, "model.layers.9.a": name})
    said = refused(files, tmp_path, lambda source: source.called(["model.layers.9.a"]))
    assert "lacks 'model.layers.9.a', which its index promises" in said
    del files[name]
    hub.repos[NAME] = Repo(files)
    with pytest.raises(CheckpointError, match="lacks the file"):
        open_source(NAME).called(["model.layers.0.a"])


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds no .safetensors file."),
        ({"pytorch_model.bin": b"\x80"}, "'pytorch_model.bin' is a pickle, which may run code"),
        ({"model.safetensors": b"\x80\x02}q\x00" + bytes(9)}, "is no safetensors file"),
        ({"model.safetensors": LAYOUTS["single"]["model.safetensors"][:-5]}, "is cut off"),
        ({"model.safetensors": struct.pack("<Q", 10**6) + b"{}"}, "claims a header of"),
        ({f"{c}.safetensors": LAYOUTS["single"]["model.safetensors"] for c in "ab"}, "twice, in"),
    ],
)
def test_files_that_hold_no_weights_are_refused(tmp_path, files, words):
    assert words in refused({"config.json": b"{}", **files}, tmp_path)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds no config.json"),
        ({"config.json": b"{"}, "is no JSON"),
        ({"config.json": b"[]"}, "holds a list"),
    ],
)
def test_a_configuration_that_is_none_is_refused(tmp_path, files, words):
    assert words in refused(files, tmp_path, lambda source: source.config)


def test_a_file_that_shrinks_while_it_is_open_is_said_to_be_cut(tmp_path):
    folder = written(LAYOUTS["single"], tmp_path / "folder")
    source = open_source(str(folder))
    entry = source.entries["model.layers.1.c"]
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="is cut off"):
        source.read(entry)


def test_a_truncated_shard_on_the_hub_is_refused_from_its_header(hub):
    files = LAYOUTS["single"]
    hub.repos[NAME] = Repo({**files, "model.safetensors": files["model.safetensors"][:-9]})
    with pytest.raises(CheckpointError, match="is cut off"):
        _ = open_source(NAME).entries


def test_a_long_header_is_read_only_as_far_as_needed(hub):
    many = {f"model.layers.0.many.{i}.weight": np.zeros(1, dtype="<f2") for i in range(3000)}
    hub.repos[NAME] = Repo(sharded([{"model.layers.0.A_log": np.zeros(9, dtype="<f4"), **many}]))
    source = open_source(NAME)
    names = source.fitting("*.A_log")
    before = source.transferred
    entry = source.called(names)[0]
    assert source.transferred - before == FIRST_READ
    assert source.read(entry) == bytes(36)
    source.called([max(many)])
    assert source.transferred - before > 3 * FIRST_READ


def test_what_is_copied_from_a_cache_opens_as_the_links_do(hub, tmp_path):
    hub.repos[NAME] = Repo(LAYOUTS["sharded"])
    snapshot = fetch(NAME, ["*"])
    copied = Path(shutil.copytree(snapshot, tmp_path / "copied"))
    assert open_source(str(copied)).entries == open_source(str(snapshot)).entries


@pytest.mark.parametrize(
    ("names", "series"),
    [
        (["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], True),
        (["model-00001-of-000001.safetensors", "config.json"], True),
        (["model-00001-of-00002.safetensors"], False),
        (["model-00001-of-00002.safetensors", "model-00003-of-00002.safetensors"], False),
        (["model-00001-of-00001.safetensors", "extra.safetensors"], False),
        (["a-00001-of-00002.safetensors", "b-00002-of-00002.safetensors"], False),
        (["model.safetensors"], False),
        ([], False),
    ],
)
def test_a_series_is_complete_or_none(names, series):
    assert (complete_series(names) is not None) == series
