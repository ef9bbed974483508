"""Which models can run here, and the pages that are made for their own sizes."""

import gc
import gzip
import json
from dataclasses import replace
from weakref import ref

import pytest

from app import models, run_engine, sources
from app.panels.run_choice import choose, request_of
from app.place import place_of, running_config
from app.reader import payload
from app.run_engine import ModelEngine, tokenizer_of
from app.run_request import EXAMPLE_PROMPT, RunRequest
from app.runs import RunStore
from app.state import Selection, selection
from model.load import build, upstream_state
from model.presets import hf, preset

OWN = ("k3-mini", "tiny-k2", "tiny-kimi-linear")


@pytest.fixture
def named(monkeypatch):
    def name(*places):
        monkeypatch.setenv(sources.NAMED, ",".join(map(str, places)))
        return sources.sources()

    return name


@pytest.fixture
def checkpoint(tmp_path):
    """A folder that holds a small K2, under a name that addresses must not show whole."""
    from safetensors.torch import save_file

    folder = tmp_path / "my models" / "small k2"
    folder.mkdir(parents=True)
    lm = build("tiny-k2", seed=3)
    save_file(upstream_state(lm), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(lm.config.to_hf()))
    return folder


def test_what_comes_with_the_program_stands_first_and_can_run(named):
    assert tuple(named()) == OWN
    for key in OWN:
        assert sources.config_of(key) == preset(key)


def test_a_folder_is_asked_for_by_its_name_and_never_by_its_path(named, checkpoint):
    found = named(checkpoint)
    assert "small-k2" in found
    assert found["small-k2"].where == str(checkpoint)
    assert str(checkpoint.parent) not in found["small-k2"].words


def test_two_folders_of_one_name_are_told_apart(named, checkpoint, tmp_path):
    (tmp_path / "small k2").mkdir()
    assert {"small-k2", "small-k2-2"} < set(named(checkpoint, tmp_path / "small k2"))


def test_a_folder_named_like_a_preset_does_not_hide_it(named, tmp_path):
    (tmp_path / "k3-mini").mkdir()
    found = named(tmp_path / "k3-mini")
    assert found["k3-mini"].kind == "built in"
    assert found["k3-mini-2"].kind == "folder"


@pytest.mark.parametrize("place", ["/no/such/place", "../../no such", "a b/c d", "%00"])
def test_what_is_no_folder_and_no_hub_id_says_so_when_it_is_chosen(named, place):
    (key,) = set(named(place)) - set(OWN)
    assert "/" not in key
    with pytest.raises(LookupError, match="no folder and no Hub id"):
        sources.config_of(key)


def test_a_fault_is_told_without_the_path_of_the_server(named, tmp_path):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "config.json").write_text("{")
    named(folder)
    with pytest.raises(LookupError, match="no JSON") as said:
        sources.config_of("broken")
    assert str(tmp_path) not in str(said.value)


def test_the_folders_of_the_server_are_told_to_nobody(monkeypatch):
    monkeypatch.setenv("HF_HOME", "/srv/hub cache")
    said = sources.for_readers("'a/b' is not in the cache '/srv/hub cache/hub'. Name a folder.")
    assert said == "'a/b' is not in the cache 'a folder of the server'. Name a folder."


def test_a_hub_that_does_not_answer_holds_up_only_who_asks_for_its_model(named, monkeypatch):
    """What every page needs is known without the Hub; a fault of it is not tried again by all."""
    named("org/name")
    asked = []

    def read(source):
        asked.append(source.key)
        return "org/name: the Hub sent nothing.", None

    monkeypatch.setattr(sources, "_read", read)
    monkeypatch.setattr(sources, "ASK_AGAIN", -1.0)
    monkeypatch.setattr(sources, "_found", {})
    assert sources.at_hand() == OWN
    assert not asked
    assert sources.fault_of("org/name") == "org/name: the Hub sent nothing."
    assert asked == ["org/name"]
    assert sources.at_hand() == OWN
    payload.packed("k3")
    assert asked == ["org/name"]


def test_a_link_to_a_model_on_the_hub_finds_out_what_it_is(named, monkeypatch):
    named("org/name")
    monkeypatch.setattr(sources, "_found", {})
    monkeypatch.setattr(sources, "_read", lambda source: ("", preset("tiny-k2")))
    assert "org/name" not in models.readable()
    assert selection({"model": "org/name"}).model == "org/name"
    assert "org/name" in models.readable()
    made = payload.payload("org/name")
    assert len(made["layers"]["mixers"]) == preset("tiny-k2").num_hidden_layers


def test_a_model_that_is_found_later_is_offered_without_rendering_pages_again(named, monkeypatch):
    named("org/name")
    monkeypatch.setattr(sources, "_found", {})
    monkeypatch.setattr(sources, "_read", lambda source: ("", preset("tiny-k2")))
    before = payload.packed("k3")

    def rendered(reading):
        raise LookupError(f"{reading.model} is rendered again")

    monkeypatch.setattr(payload, "_assembled", rendered)
    sources.config_of("org/name")
    after = payload.packed("k3")
    assert before != after
    offered = json.loads(gzip.decompress(after.partition(b"\n")[2]))
    assert {"id": "org/name", "name": "org/name", "loaded": True} in offered["models"]
    assert "org/name" in offered["sources"]


@pytest.mark.parametrize("asked", ["../../etc", "\x00", "%00", "k" * 5000, "<script>", ""])
def test_an_address_with_an_unknown_source_is_answered_in_words(asked):
    found = selection({"source": asked})
    assert found.source == "k3-mini"
    assert any("asks for source" in notice for notice in found.notices)


def test_the_pages_of_a_loaded_model_follow_its_configuration(named, checkpoint):
    named(checkpoint)
    made = payload.payload("small-k2")
    small = preset("tiny-k2")
    assert made["max"] == small.max_position_embeddings
    assert len(made["layers"]["mixers"]) == small.num_hidden_layers
    assert "mla/rotate" in made["nodes"]
    assert "kda/state" not in made["nodes"]
    assert {"id": "small-k2", "name": "small-k2", "loaded": True} in made["models"]
    assert made["sources"]["small-k2"]["mixers"] == made["layers"]["mixers"]
    assert "as it runs here" in made["nodes"]["mla/kv_cache"]["pages"]["self_attn"]["body"]


@pytest.mark.parametrize("model", OWN)
def test_every_page_of_a_model_that_runs_here_is_made(model):
    made = payload.payload(model)
    assert made["model"] == model
    assert made["nodes"].keys() == payload.payload(models.family_of(model))["nodes"].keys()


def test_a_model_of_no_known_build_runs_and_has_no_pages_of_its_own(named, checkpoint):
    config = hf("tiny-k2") | {"mla_use_output_gate": True}
    (checkpoint / "config.json").write_text(json.dumps(config))
    assert "small-k2" in named(checkpoint)
    assert "small-k2" not in models.readable()
    assert "small-k2" in payload.payload("k2")["sources"]
    with pytest.raises(LookupError, match="built as none of K3, K2, Kimi-Linear"):
        models.family_of("small-k2")


def test_a_model_without_a_run_feeds_the_prompt_of_the_example():
    asked = request_of(Selection(source="tiny-k2"))
    assert asked is not None
    assert (asked.source, asked.prompt) == ("tiny-k2", EXAMPLE_PROMPT)
    assert request_of(Selection(source="k3-mini")) is None


def test_an_operators_model_is_not_loaded_before_it_is_asked_for(named, checkpoint):
    named(checkpoint)
    found = choose(Selection(source="small-k2"), RunStore(ModelEngine()), "reader")
    assert found.ticket is None
    assert "Nothing has run on small-k2 yet" in found.sentence


def test_a_checkpoint_of_the_operators_runs(named, checkpoint):
    named(checkpoint)
    store = RunStore(ModelEngine())
    ids = tuple(range(1, 18))
    ticket = store.submit(RunRequest(source="small-k2", ids=ids, new_tokens=2), "reader")
    assert ticket.wait(60)
    run = ticket.result()
    assert run.source == "small-k2"
    assert run.weights_note == ""
    assert run.array("layers.1.self_attn.k_rotated", 1).shape == (1, 1, 12)


def test_a_model_that_was_let_go_is_not_held_by_its_runs(monkeypatch):
    monkeypatch.setattr(run_engine, "MOST_BYTES", 1)
    engine = ModelEngine()
    store = RunStore(engine)

    def made(source):
        ticket = store.submit(RunRequest(source=source, prompt="abc", new_tokens=1), "reader")
        assert ticket.wait(60)
        return ticket.result()

    first = made("tiny-k2")
    assert first.model is not None
    model, held = ref(first.model), first.array("logits", 1)
    made("tiny-kimi-linear")
    gc.collect()
    assert first.model is None
    assert model() is None
    assert (first.array("logits", 1) == held).all()
    ticket = store.completed(first, "reader")
    assert ticket.wait(60)
    whole = ticket.result()
    assert whole.run_id == first.run_id
    assert whole.model is not None
    assert not whole.is_stored
    assert store.find(first.run_id) is whole


def test_models_that_fit_together_stay(monkeypatch):
    engine = ModelEngine()
    first = engine.model("tiny-k2", None)
    engine.model("tiny-kimi-linear", None)
    assert engine.model("tiny-k2", None) is first
    monkeypatch.setattr(run_engine, "MOST_MODELS", 2)
    engine.model("k3-mini", None)
    assert engine.model("tiny-k2", None) is first
    assert engine.model("k3-mini", None) is engine.model("k3-mini", None)


def test_a_checkpoint_that_cannot_be_loaded_says_why_in_its_own_panel(named, checkpoint):
    (checkpoint / "model.safetensors").write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{}")
    named(checkpoint)
    store = RunStore(ModelEngine())
    ticket = store.submit(RunRequest(source="small-k2", ids=(1, 2), new_tokens=0), "reader")
    ticket.wait(60)
    assert ticket.state == "failed"
    assert ticket.error
    assert str(checkpoint.parent) not in ticket.error
    assert "model.safetensors" in ticket.error


def test_a_broken_source_keeps_the_rest_of_the_page(named, tmp_path):
    (tmp_path / "empty").mkdir()
    named(tmp_path / "empty")
    assert running_config("empty") == preset("k3-mini")
    chosen = choose(Selection(source="empty"), RunStore(ModelEngine()), "reader")
    assert "config.json" in chosen.sentence


@pytest.mark.parametrize("model", OWN)
@pytest.mark.parametrize("source", OWN)
def test_every_model_can_stand_beside_every_source(model, source):
    nodes = payload.current_nodes()
    for node in payload.payload(model)["nodes"]:
        asked = replace(Selection(model=model, source=source), node=node)
        assert place_of(asked, nodes, running_config(source)).entry.node == node


def test_the_tokenizer_of_a_source_is_known_without_loading_it(named, checkpoint):
    named(checkpoint)
    assert tokenizer_of("tiny-k2") is not None
    assert tokenizer_of("small-k2") is not None


def test_a_checkpoint_can_be_offered_in_part(named, checkpoint):
    named(f"{checkpoint}#2")
    assert sources.config_of("small-k2-first-2").num_hidden_layers == 2
    assert models.family_of("small-k2-first-2") == "k2"
    store = RunStore(ModelEngine())
    request = RunRequest(source="small-k2-first-2", ids=(1, 2, 3), new_tokens=1)
    ticket = store.submit(request, "reader")
    ticket.wait(60)
    assert ticket.result().config.num_hidden_layers == 2
    assert "layers 0 to 1 of 4" in ticket.result().weights_note


def test_more_layers_than_a_checkpoint_has_are_refused_in_words(named, checkpoint):
    named(f"{checkpoint}#9")
    with pytest.raises(LookupError, match="layers 0 to 3"):
        sources.config_of("small-k2-first-9")
