"""Part of a checkpoint: its first layers, and no byte of the others; and where a model fits."""

import json

import pytest
import safetensors
import torch

from model import checkpoint, room
from model.identities.registry import check
from model.load import build, load, upstream_state
from model.load_progress import shell_bar
from model.presets import PRESETS, RELEASED, hf, preset
from model.trace import run
from tests.contract.packed_checkpoint import plain_state, write

IDS = torch.arange(1, 18)[None]
RUNNING = [name for name in PRESETS if name not in RELEASED]


@pytest.fixture
def read(monkeypatch):
    """Names of tensors and bytes of headers that were read."""
    seen = {"tensors": [], "headers": 0}
    open_file, read_whole = safetensors.safe_open, checkpoint.read_header

    class Spy:
        def __init__(self, *given, **options):
            self.file = open_file(*given, **options)

        def get_tensor(self, name):
            seen["tensors"].append(name)
            return self.file.get_tensor(name)

    def read_header(read, size, file):
        def count(start, end):
            seen["headers"] += end - start
            return read(start, end)

        return read_whole(count, size, file)

    monkeypatch.setattr(safetensors, "safe_open", Spy)
    monkeypatch.setattr(checkpoint, "read_header", read_header)
    return seen


def by_layer(folder, config, tensors):
    """A shard for each layer, and one for what is around them."""
    layers = range(config.num_hidden_layers)
    shards = {f"layer-{i}": [n for n in tensors if f"layers.{i}." in n] for i in layers}
    shards["around"] = [n for n in tensors if "layers." not in n]
    where = {}
    for file, names in shards.items():
        part = {name: tensors[name] for name in names}
        safetensors.torch.save_file(part, folder / f"{file}.safetensors")
        where |= dict.fromkeys(names, f"{file}.safetensors")
    (folder / "config.json").write_text(json.dumps(config.to_hf()))
    index = {"weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("count", [1, 3])
def test_the_first_layers_compute_what_they_compute_in_the_whole_model(tmp_path, name, count):
    config, state = preset(name), plain_state(preset(name))
    folder = str(write(tmp_path, config, state, shards=3))
    whole = load(folder, device="cpu")
    part = load(folder, device="cpu", layers=range(count))
    last = config.num_hidden_layers - 1
    assert part.weights_note == (
        f"layers 0 to {count - 1} of {last + 1} alone, logits as they read after layer {count - 1}"
    )
    assert whole.weights_note == ""
    ids = IDS[0].tolist()
    traces = run(whole, ids, new_tokens=0), run(part, ids, new_tokens=0)
    for tap in (n for n in traces[1].names() if n.startswith("layers.")):
        assert (traces[0].array(tap) == traces[1].array(tap)).all(), tap
    for layer in part.layers:
        assert (part.config.mixers[layer.layer]) == config.mixers[layer.layer]


def test_logits_of_a_part_are_read_from_its_last_layer(tmp_path):
    config, state = preset("tiny-k2"), plain_state(preset("tiny-k2"))
    folder = str(write(tmp_path, config, state))
    whole, part = load(folder, device="cpu"), load(folder, device="cpu", layers=range(2))
    residual = torch.tensor(run(whole, IDS[0].tolist()).array("layers.1.residual_out"))
    assert torch.equal(part(IDS), whole.lm_head(whole.norm(residual)))


@pytest.mark.parametrize("name", RUNNING)
def test_every_equation_holds_in_a_part(tmp_path, name):
    config, state = preset(name), plain_state(preset(name))
    part = load(str(write(tmp_path, config, state)), device="cpu", layers=range(2))
    results = check(run(part, IDS[0].tolist(), new_tokens=2), part)
    assert results
    assert [result.name for result in results if not result.passed] == []


def test_only_wanted_shards_are_opened_and_only_wanted_tensors_read(tmp_path, read):
    config, state = preset("tiny-k3"), plain_state(preset("tiny-k3"))
    folder = by_layer(tmp_path, config, state)
    for absent in ("layer-2", "layer-3", "layer-4"):
        (folder / f"{absent}.safetensors").unlink()
    load(str(folder), device="cpu", layers=range(2))
    wanted = {n for n in state if "layers." not in n or "layers.0." in n or "layers.1." in n}
    # rates are looked at once more, for what stands behind them
    rates = sum(n.endswith("A_log") for n in wanted)
    assert set(read["tensors"]) == wanted
    assert len(read["tensors"]) == len(wanted) + rates


def test_of_one_large_file_only_the_header_and_wanted_tensors_are_read(tmp_path, read):
    config, state = preset("tiny-k3"), plain_state(preset("tiny-k3"))
    folder = write(tmp_path, config, state)
    steps = []
    load(str(folder), device="cpu", layers=[0], progress=lambda *step: steps.append(step))
    wanted = {n: t for n, t in state.items() if "layers." not in n or "layers.0." in n}
    assert set(read["tensors"]) == set(wanted)
    header = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
    assert header < read["headers"] <= max(header + 8, 64 * 1024)
    total = sum(tensor.nbytes for tensor in wanted.values())
    assert steps[-1] == (total, total)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert {of for _, of in steps} == {total}


def test_a_shard_that_is_wanted_and_absent_is_said(tmp_path):
    config, state = preset("tiny-k3"), plain_state(preset("tiny-k3"))
    (by_layer(tmp_path, config, state) / "layer-1.safetensors").unlink()
    with pytest.raises(ValueError, match=r"lacks 1 of the 3 files .* 'layer-1.safetensors'"):
        load(str(tmp_path), device="cpu", layers=range(2))
    load(str(tmp_path), device="cpu", layers=range(1))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([], r"layers=\[\]: the model has layers 0 to 4"),
        ([5], r"layers=\[5\]: the model has layers 0 to 4"),
        ([-1, 0], r"layers=\[-1, 0\]: the model has layers"),
        ([1], r"begins with layer 0 and leaves none out, as range\(2\)"),
        ([0, 2], r"layers=\[0, 2\]: a layer reads what those before it wrote"),
        (3, r"layers=3: name the layers by number, as range\(4\)"),
        ("12", "layers='12': name the layers by number"),
        ([0.5], r"layers=\[0.5\]: name the layers"),
    ],
)
def test_layers_that_are_no_part_are_refused_in_words(layers, words):
    with pytest.raises(ValueError, match=words):
        load("tiny-k3", layers=layers)


def test_a_part_of_random_weights_is_a_part_and_random():
    part = load("tiny-k3", device="cpu", layers=[1, 0])
    assert len(part.layers) == 2
    assert part.weights_note.startswith("layers 0 to 1 of 5 alone")
    assert part.weights_note.endswith("; seeded random weights")
    whole = upstream_state(build("tiny-k3", seed=0))
    for name, tensor in upstream_state(part).items():
        if "layers." in name:
            assert torch.equal(tensor, whole[name]), name


def test_all_layers_named_are_the_whole_model():
    assert load("tiny-k3", device="cpu", layers=range(5)).weights_note == "seeded random weights"


def test_a_model_that_no_machine_holds_is_refused_before_its_weights_are_looked_for(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(hf("k3")))
    with pytest.raises(
        ValueError, match=r"take 5,55\d,.* bytes in bfloat16, and 'cpu' has .* free"
    ):
        load(str(tmp_path), device="cpu")


@pytest.mark.parametrize(
    ("free", "dtype"), [(400_000_000, torch.float32), (200_000_000, torch.bfloat16), (0, None)]
)
def test_auto_takes_the_wider_dtype_that_fits(tmp_path, monkeypatch, free, dtype):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemAvailable: {free // 1024} kB\nSwapFree: 0 kB\n")
    monkeypatch.setattr(room, "_MEMINFO", meminfo)
    table = hf("k3-mini") | {"vocab_size": 100_000, "hidden_size": 384}
    lm = build(table, device="meta")
    assert 200_000_000 < room.bytes_in(lm, torch.float32) < 400_000_000
    if dtype is None:
        with pytest.raises(ValueError, match=r"'cpu' has 0 free. Load the first layers alone"):
            room.dtype_for(lm, "auto", torch.device("cpu"))
    else:
        assert room.dtype_for(lm, "auto", torch.device("cpu")) == dtype


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_the_memory_foretold_is_the_memory_taken(name, dtype):
    foretold = room.bytes_in(build(name, device="meta"), getattr(torch, dtype))
    lm = build(name, dtype=dtype)
    assert foretold == sum(p.numel() * p.itemsize for p in lm.parameters())


def test_there_is_no_bar_where_nobody_sits_before_it(monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert shell_bar() is None


def test_a_bar_follows_the_bytes(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    show = shell_bar()
    for done in (0, 500, 1000):
        show(done, 1000)
    said = capsys.readouterr().err
    assert "weights: 100%" in said
    assert "1.00k/1.00k" in said
