"""A checkpoint that cannot be loaded is refused in one sentence, and the model stays as it was."""

import json

import pytest
import torch
from safetensors.torch import save_file

from model.load import build, load, load_weights, upstream_state

CONFIG = build("tiny-k3", device="meta").config.to_hf()
WEIGHTS = {n: t.clone() for n, t in upstream_state(build("tiny-k3", seed=9)).items()}
HEAD = "lm_head.weight"
INDEX = "model.safetensors.index.json"


def without(*path):
    """The configuration without one key."""
    config = json.loads(json.dumps(CONFIG))
    table = config
    for key in path[:-1]:
        table = table[key]
    del table[path[-1]]
    return config


def with_layers(full):
    table = CONFIG["linear_attn_config"]
    kda = [i for i in range(1, 6) if i not in full]
    return CONFIG | {"linear_attn_config": table | {"full_attn_layers": full, "kda_layers": kda}}


def checkpoint(folder, config=CONFIG, weights=WEIGHTS):
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (folder / "config.json").write_text(text)
    if weights is not None:
        save_file(weights, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "holds no config.json"),
        ("{", "is no JSON"),
        ("[1]", "holds a list, and not a JSON object"),
        ({}, "lacks .*vocab_size"),
        (CONFIG | {"hidden_size": "32"}, "hidden_size is '32', and must be a whole number"),
        (CONFIG | {"hidden_size": -32}, "hidden_size is -32"),
        (CONFIG | {"attn_res_block_size": 0}, "attn_res_block_size is 0"),
        (CONFIG | {"num_experts_per_token": 99}, "num_experts_per_token is 99, and num_experts 6"),
        (CONFIG | {"num_attention_heads": float("nan")}, "num_attention_heads is nan"),
        ({"text_config": 5}, "text_config is 5, and must be a table"),
        (without("hidden_size"), "lacks .*hidden_size"),
        (without("linear_attn_config", "num_heads"), "num_heads"),
        (with_layers([4, 6]), "full_attn_layers"),
        (with_layers([0, 5]), "full_attn_layers"),
        (CONFIG | {"layer_types": ["mamba"] * 5, "linear_attn_config": None}, "layer_types|mamba"),
    ],
    ids=[
        *("absent", "cut", "list", "empty", "text", "negative", "zero", "choices", "nan"),
        *("number for the text", "missing key", "missing head count", "beyond", "0-based", "kind"),
    ],
)
def test_a_folder_whose_config_says_no_model_is_refused_in_words(tmp_path, config, words):
    with pytest.raises(ValueError, match=words):
        load(str(checkpoint(tmp_path, config)), device="cpu")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file.unlink(), r"holds no \.safetensors file\.$"),
        (lambda file: file.rename(file.with_name("pytorch_model.bin")), "is a pickle"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "'model.safetensors' is cut off"),
        (lambda file: file.write_bytes(file.read_bytes()[:9_999]), "claims a header of"),
        (lambda file: file.write_bytes(b""), "has 0 bytes, too few"),
        (lambda file: file.write_text("version https://git-lfs"), "is no safetensors file"),
        (lambda file: file.write_bytes(file.read_bytes() + b"0"), "goes on for 1 bytes"),
        (lambda file: save_file(WEIGHTS, file.with_name("more.safetensors")), "200 given twice"),
        (
            lambda file: file.with_name(INDEX).write_text(
                json.dumps({"weight_map": {"a": file.name, "b": "b.safetensors"}})
            ),
            "lacks 1 of the 2 files that .* lists, as 'b.safetensors'",
        ),
        (lambda file: file.with_name("tokenizer.json").write_text("{}"), "no tokenizer that can"),
    ],
    ids=[
        *("absent", "pickle", "cut", "cut header", "empty", "pointer", "longer", "twice"),
        *("shard", "tokenizer"),
    ],
)
def test_a_folder_with_damaged_files_is_refused_in_words(tmp_path, damage, words):
    damage(checkpoint(tmp_path) / "model.safetensors")
    with pytest.raises(ValueError, match=words):
        load(str(tmp_path), device="cpu")


def test_the_index_decides_which_files_are_read(tmp_path):
    checkpoint(tmp_path).joinpath(INDEX).write_text(
        json.dumps({"weight_map": dict.fromkeys(WEIGHTS, "model.safetensors")})
    )
    save_file({HEAD: torch.zeros(1)}, tmp_path / "consolidated.safetensors")
    assert torch.equal(load(str(tmp_path), device="cpu").lm_head.weight, WEIGHTS[HEAD])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({HEAD: WEIGHTS[HEAD].to(torch.int8)}, "1 of a dtype that is not read: .* as int8"),
        ({HEAD: WEIGHTS[HEAD].to(torch.float8_e4m3fn)}, "1 packed without its scale: lm_head"),
        ({f"language_model.{HEAD}": WEIGHTS[HEAD]}, "1 given twice: language_model.lm_head"),
        ({"model.odd": torch.zeros(1)}, "1 unexpected: model.odd"),
        ({HEAD: WEIGHTS[HEAD][:2]}, r"1 misshapen: lm_head.weight \[2, 32\] for \[320, 32\]"),
    ],
    ids=["integers", "float8", "twice", "unexpected", "misshapen"],
)
def test_tensors_that_do_not_fit_leave_the_model_as_it_was(change, words):
    lm = build("tiny-k3")
    before = lm.weights_hash
    with pytest.raises(ValueError, match=words):
        load_weights(lm, WEIGHTS | change)
    assert lm.weights_hash == before
    assert lm.weights_note == "seeded random weights"


def test_weights_that_are_no_numbers_come_in_and_are_noted():
    lm = build("tiny-k3")
    load_weights(lm, WEIGHTS | {HEAD: torch.full_like(WEIGHTS[HEAD], torch.nan)})
    assert lm.weights_note == "1 of 200 tensors hold NaN or infinity, as lm_head.weight"


@pytest.mark.parametrize("source", ["/no/such/folder", "./nothing", "", "k3-min"])
def test_a_source_that_is_nothing_is_refused_without_asking_the_hub(monkeypatch, source):
    monkeypatch.setattr("model.hub.snapshot_download", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(LookupError, match=r"no preset .* no folder and no Hub id"):
        load(source)


def test_a_misspelt_preset_is_answered_with_the_nearest():
    with pytest.raises(LookupError, match="Did you mean 'k3-mini'"):
        load("k3-min")


@pytest.mark.parametrize(("device", "words"), [("cuda:99", "CUDA devices here"), ("gpu", "choose")])
def test_a_device_that_is_not_here_is_refused_in_words(device, words):
    with pytest.raises(ValueError, match=words):
        build("tiny-k3", device=device)


def test_a_folder_has_no_revision(tmp_path):
    with pytest.raises(ValueError, match="revision='main' is for models of the Hub"):
        load(str(checkpoint(tmp_path)), revision="main")


@pytest.mark.parametrize(
    "name",
    ["../x.safetensors", "/x.safetensors", "C:\\x.safetensors", "a/../../x.safetensors", "x.bin"],
)
def test_an_index_that_names_a_file_outside_is_refused_and_nothing_opened(tmp_path, name):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    save_file(WEIGHTS, tmp_path / "x.safetensors")
    (tmp_path / "x.safetensors").rename(tmp_path / "x.bin") if name == "x.bin" else None
    checkpoint(folder, weights=None).joinpath(INDEX).write_text(
        json.dumps({"weight_map": dict.fromkeys(WEIGHTS, name)})
    )
    with pytest.raises(ValueError, match="beside their index, and nothing else is opened") as error:
        load(str(folder), device="cpu")
    assert repr(name) in str(error.value)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("[", "is no JSON"),
        ("{}", "has no weight_map"),
        ('{"weight_map": ["a"]}', "has no weight_map"),
        ('{"weight_map": {"a": 1}}', "has no weight_map"),
        ('{"weight_map": {}}', "lists nothing of this model"),
        ('{"weight_map": {"vision_tower.a": "model.safetensors"}}', "lists nothing of this model"),
    ],
)
def test_an_index_that_is_none_is_refused_in_words(tmp_path, index, words):
    checkpoint(tmp_path).joinpath(INDEX).write_text(index)
    with pytest.raises(ValueError, match=words):
        load(str(tmp_path), device="cpu")


def test_a_tensor_that_its_shard_lacks_is_missing(tmp_path):
    index = {"weight_map": dict.fromkeys([*WEIGHTS], "model.safetensors")}
    kept = {name: tensor for name, tensor in WEIGHTS.items() if name != HEAD}
    checkpoint(tmp_path, weights=kept).joinpath(INDEX).write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"1 missing: lm_head.weight\.$"):
        load(str(tmp_path), device="cpu")


def test_a_snapshot_of_the_hubs_cache_is_read_through_its_links(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / ("0" * 40)
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(checkpoint(blobs).iterdir())):
        blob = path.rename(blobs / f"{number:064x}")
        (snapshot / path.name).symlink_to(f"../../blobs/{blob.name}")
    assert torch.equal(load(str(snapshot), device="cpu").lm_head.weight, WEIGHTS[HEAD])


def test_nothing_of_a_checkpoint_is_executed(tmp_path):
    config = CONFIG | {"auto_map": {"AutoModelForCausalLM": "modeling_evil.Model"}}
    folder = checkpoint(tmp_path, config)
    for name in ("modeling_evil.py", "tokenization_kimi.py", "configuration_evil.py"):
        (folder / name).write_text("raise SystemExit('executed')")
    # a pickle beside good weights is left where it is
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'exit'\ntR.")
    assert torch.equal(load(str(folder), device="cpu").lm_head.weight, WEIGHTS[HEAD])


def test_no_weight_is_read_before_all_faults_are_known(tmp_path, monkeypatch):
    kept = {name: tensor for name, tensor in WEIGHTS.items() if name != HEAD}
    checkpoint(tmp_path, weights=kept | {"model.odd": torch.zeros(1)})
    monkeypatch.setattr("safetensors.safe_open", lambda *_, **__: pytest.fail("opened"))
    with pytest.raises(ValueError, match=r"1 missing: lm_head.weight; 1 unexpected: model.odd"):
        load(str(tmp_path), device="cpu")


def test_weights_that_are_no_numbers_are_said_of_a_file_as_well(tmp_path):
    odd = WEIGHTS | {HEAD: torch.full_like(WEIGHTS[HEAD], -torch.inf)}
    lm = load(str(checkpoint(tmp_path, weights=odd)), device="cpu")
    assert lm.weights_note == "1 of 200 tensors hold NaN or infinity, as lm_head.weight"


def test_rates_beyond_the_heads_are_refused_before_anything_is_copied(tmp_path):
    name = "model.layers.0.self_attn.A_log"
    odd = WEIGHTS | {name: torch.tensor([1.0, 2, 3, 4])}
    with pytest.raises(ValueError, match="A_log holds 4 values for 3 heads, and those beyond are"):
        load(str(checkpoint(tmp_path, weights=odd)), device="cpu")
    short = WEIGHTS | {name: torch.ones(2)}
    with pytest.raises(ValueError, match=r"1 misshapen: .*A_log \[2\] for \[3\]"):
        load(str(checkpoint(tmp_path, weights=short)), device="cpu")


def test_on_the_meta_device_a_checkpoint_is_compared_and_not_read(tmp_path, monkeypatch):
    checkpoint(tmp_path)
    monkeypatch.setattr("safetensors.safe_open", lambda *_, **__: pytest.fail("opened"))
    assert load(str(tmp_path), device="meta").weights_note == "no weights"
