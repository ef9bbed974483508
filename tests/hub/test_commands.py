"""`python -m model info` and `peek` on folders and on a Hub, as a table and as JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from model.__main__ import main
from model.command_options import byte_count
from model.cost import parameters
from model.header import FIRST_READ
from model.presets import hf, preset
from tests.hub.checkpoints import INDEX, sharded, single, written
from tests.hub.server import COMMIT, Repo
from tests.hub.test_peek_views import K3

ROOT = Path(__file__).parents[2]
NAME = "org/model"
TEXT = hf("tiny-k3")
BESIDE = {
    "vision_tower.patch_embed.proj.weight": np.zeros((2, 3), dtype="<f2"),
    "mm_projector.proj.0.weight": np.zeros((2, 3), dtype="<f2"),
    "mm_projector.proj.2.weight": np.zeros((2, 3), dtype="<f2"),
}
SHARDS = [*K3, BESIDE]
BYTES = {
    "BF16": sum(a.nbytes for s in K3 for a in s.values() if a.dtype.itemsize == 2),
    "F16": sum(a.nbytes for a in BESIDE.values()),
    "F32": sum(a.nbytes for s in K3 for a in s.values() if a.dtype.itemsize == 4),
}


@pytest.fixture
def repo(hub):
    hub.repos[NAME] = Repo(sharded(SHARDS, {"text_config": TEXT}))
    return hub.repos[NAME]


def said(capsys, *arguments):
    code = main(arguments)
    return code, capsys.readouterr()


def told(capsys, *arguments):
    code, out = said(capsys, *arguments, "--json")
    assert code == 0, out.err
    # JSON as everyone reads it, without NaN
    return json.loads(out.out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_info_of_a_hub_id_transfers_its_configuration_and_headers_alone(hub, repo, capsys):
    about = told(capsys, "info", NAME)
    counted = parameters(preset("tiny-k3"))
    assert about["parameters"] == {"total": counted.total, "active": counted.active}
    assert about["revision"] == COMMIT
    assert about["stored"]["tensors"] == sum(len(shard) for shard in SHARDS)
    assert about["stored"]["tensors_beside_text"] == {"mm_projector": 2, "vision_tower": 1}
    assert about["stored"]["bytes"] == {"total": sum(BYTES.values()), **BYTES}
    parts = [asked for asked in hub.asked if asked.kind == "bytes"]
    assert len(parts) == len(SHARDS)
    assert all(asked.range for asked in parts)
    assert not [asked for asked in hub.asked if INDEX in asked.path]
    shards = [name for name in repo.files if name.endswith(".safetensors")]
    headers = sum(min(repo.size(name), FIRST_READ) for name in shards)
    assert about["transferred"] == headers + repo.size("config.json")


def test_info_of_a_folder_reads_the_same_from_it(capsys, tmp_path):
    folder = written(sharded(SHARDS, {"text_config": TEXT}), tmp_path / "k3")
    about = told(capsys, "info", str(folder))
    assert about["stored"]["bytes"] == {"total": sum(BYTES.values()), **BYTES}
    assert (about["revision"], about["transferred"]) == (None, 0)
    code, out = said(capsys, "info", str(folder))
    assert code == 0
    assert "stored.bytes.total" in out.out


def test_info_keeps_its_bound(hub, repo, capsys):
    code, out = said(capsys, "info", NAME, "--bound", "1kB")
    assert code == 2
    assert "above what is left of the bound, 1,000" in out.err


def test_peek_shows_a_tensor_as_a_table_and_as_json(hub, repo, capsys):
    name = "language_model.model.layers.0.self_attn.A_log"
    about = told(capsys, "peek", NAME, "--tensors", name)
    array = K3[0][name]
    (report,) = about["tensors"]
    assert report["values"]["mean"] == pytest.approx(array.astype(np.float64).mean())
    assert report["few"] == pytest.approx(array.tolist())
    assert about["planned"] == array.nbytes
    assert about["revision"] == COMMIT
    assert about["transferred"] > array.nbytes
    code, out = said(capsys, "peek", NAME, "--tensors", "*.layers.0.self_attn.*")
    assert code == 0
    assert name in out.out
    assert "bytes to read;" in out.out
    assert out.out.rstrip().endswith("were transferred, lists and headers included.")


def test_peek_tells_of_what_is_no_number_in_words(capsys, tmp_path):
    odd = np.array([np.nan, np.inf, -np.inf, 1.5], dtype="<f4")
    folder = written(single({"odd": odd, "none": np.zeros((0, 2), dtype="<f4")}), tmp_path / "odd")
    reports = told(capsys, "peek", str(folder), "--tensors", "*")["tensors"]
    assert reports[1]["few"] == ["NaN", "Infinity", "-Infinity", 1.5]
    assert reports[0]["values"]["mean"] is None
    assert said(capsys, "peek", str(folder), "--tensors", "*")[0] == 0


def test_peek_lists_tensors_without_their_bytes(hub, repo, capsys):
    listed = told(capsys, "peek", NAME, "--list")
    assert {row["name"] for row in listed["tensors"]} == {n for shard in SHARDS for n in shard}
    some = told(capsys, "peek", NAME, "--list", "--tensors", "mm_*")["tensors"]
    assert [(row["dtype"], row["shape"], row["bytes"]) for row in some] == [("F16", [2, 3], 12)] * 2
    code, out = said(capsys, "peek", NAME, "--list", "--tensors", "mm_*")
    assert code == 0
    assert "2 tensors, 24 bytes" in out.out


@pytest.mark.parametrize(
    ("view", "key"), [("decay", "half_life"), ("residual", "cosine"), ("router", "bias")]
)
def test_every_view_has_a_table_and_json(hub, repo, capsys, view, key):
    about = told(capsys, "peek", NAME, "--view", view)
    assert about["view"] == view
    assert about["planned"] < about["transferred"]
    assert about[key]
    code, out = said(capsys, "peek", NAME, "--view", view)
    assert code == 0
    assert len(out.out.splitlines()) >= 5


def test_rows_and_bounds_are_passed_on(capsys, tmp_path):
    folder = str(written(single({"w": np.ones((100, 10), dtype="<f4")}), tmp_path / "w"))
    about = told(capsys, "peek", folder, "--tensors", "w", "--rows", "5:7", "--bound", "80B")
    assert (about["planned"], about["tensors"][0]["rows"]) == (80, [5, 7])
    code, out = said(capsys, "peek", folder, "--tensors", "w", "--bound", "1kB")
    assert code == 2
    assert "25 rows fit, as --rows 0:25" in out.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["peek", "k3", "--list"], "released configuration"),
        (["peek", "tiny-k3", "--list"], "weights are random"),
        (["peek", "k4", "--list"], "no preset (k3, k2"),
        (["peek", "{}"], "peek needs --tensors"),
        (["peek", "{}", "--list", "--rows", "0:5"], "--rows is for --tensors"),
        (["peek", "{}", "--view", "decay", "--rows", "0:5"], "--rows is for --tensors"),
        (["peek", "{}", "--view", "decay", "--list"], "--list is for --tensors"),
        (["peek", "{}", "--tensors", "nothing"], "the name of none fits"),
        (["peek", "{}", "--list", "--revision", "main"], "which has no revision"),
        (["info", "k3", "--revision", "main"], "has no revision"),
        (["info", "{}"], "holds no config.json"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(capsys, tmp_path, arguments, words):
    files = single({"w": np.ones(3, dtype="<f4")})
    del files["config.json"]
    folder = str(written(files, tmp_path / "w"))
    code, out = said(capsys, *(argument.replace("{}", folder) for argument in arguments))
    assert (code, out.out) == (2, "")
    assert words in out.err
    assert out.err.count("\n") == 1


def test_a_gated_model_is_refused_in_one_line_without_its_token(hub, repo, capsys, monkeypatch):
    repo.gated = True
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    for arguments in (["info", NAME], ["peek", NAME, "--view", "decay"], ["run", NAME]):
        code, out = said(capsys, *arguments)
        assert (code, out.out) == (2, "")
        assert "is gated" in out.err
        assert "verysecret" not in out.err


@pytest.mark.parametrize(
    ("text", "count"),
    [("5", 5), ("200kB", 200_000), ("1.5GiB", 3 * 2**29), ("64 MiB", 2**26), ("7B", 7)],
)
def test_bytes_are_counted_with_and_without_units(text, count):
    assert byte_count(text) == count


@pytest.mark.parametrize("option", [["--bound", "5 apples"], ["--bound", "-1"], ["--rows", "7:5"]])
def test_an_option_that_means_nothing_is_refused(capsys, option):
    with pytest.raises(SystemExit):
        main(["peek", "x", "--tensors", "y", *option])
    assert "is no " in capsys.readouterr().err


def test_looks_and_sizes_need_no_torch(hub, repo, tmp_path):
    code = (
        "import sys; from model.__main__ import main; "
        f"codes = [main(['info', {NAME!r}]), main(['peek', {NAME!r}, '--view', 'decay'])]; "
        "sys.exit(any(codes) or 'torch' in sys.modules)"
    )
    env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
