"""The store with an engine that computes nothing: turns, sharing, stopping, bounds, words."""

import threading
import time
from dataclasses import dataclass

import pytest

from app.run_request import RefusedError, RunRequest
from app.run_shelf import Shelf
from app.runs import RunStore
from model.limits import MAX_PROMPT


@dataclass
class MadeRun:
    run_id: str
    bytes: int = 1
    prompt: str = ""
    model: object = None
    is_stored: bool = False


class WaitingEngine:
    """Runs when it is let; remembers in what order."""

    def __init__(self):
        self.go = threading.Event()
        self.order = []

    def count(self, request):
        if request.prompt == "odd":
            raise ValueError("The tokenizer has no token for some bytes of this text.")
        return len(request.prompt.encode()) + 1

    def run(self, request, ticket, budget):
        while not self.go.wait(0.005):
            ticket.report("prefill", 0.5)
        self.order.append(request.prompt)
        if request.prompt == "boom":
            raise ZeroDivisionError("by zero")
        return MadeRun(run_id=request.prompt, prompt=request.prompt)

    def check(self, run, asked):
        return (run.run_id, asked)

    def stored_checks(self, run, asked):
        return ("stored", asked) if run.is_stored else None

    def example(self):
        return None

    def alone(self, run, names, ticket):
        return run

    def warm(self, source, ticket):
        self.order.append(f"load {source}")

    def complete(self, run):
        self.order.append(f"complete {run.run_id}")
        return run


@pytest.fixture
def engine():
    made = WaitingEngine()
    yield made
    made.go.set()


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_readers_take_turns_whatever_one_of_them_asks_for(engine):
    store = RunStore(engine)
    first = store.submit(RunRequest(prompt="a0"), "ann")
    until(lambda: first.state == "working")
    tickets = [store.submit(RunRequest(prompt=f"a{i}"), "ann") for i in range(1, 4)]
    bob = store.submit(RunRequest(prompt="b"), "bob")
    assert bob.place() == 1
    assert [ticket.place() for ticket in tickets] == [0, 2, 3]
    engine.go.set()
    assert all(ticket.wait(5) for ticket in (*tickets, bob))
    assert engine.order == ["a0", "a1", "b", "a2", "a3"]


def test_the_same_request_is_the_same_run(engine):
    store = RunStore(engine)
    one = store.submit(RunRequest(prompt="x"), "ann")
    two = store.submit(RunRequest(prompt="x"), "bob")
    assert one is two
    engine.go.set()
    assert one.wait(5)
    again = store.submit(RunRequest(prompt="x"), "cy")
    assert again.is_over
    assert again.result() is one.result()
    assert engine.order == ["x"]


def test_a_run_stops_only_when_its_last_reader_leaves(engine):
    store = RunStore(engine)
    ticket = store.submit(RunRequest(prompt="x"), "ann")
    store.submit(RunRequest(prompt="x"), "bob")
    until(lambda: ticket.state == "working")
    store.leave(ticket, "ann")
    assert ticket.state == "working"
    store.leave(ticket, "bob")
    assert ticket.wait(5)
    assert ticket.state == "stopped"
    engine.go.set()
    assert store.submit(RunRequest(prompt="x"), "ann").wait(5)
    assert engine.order == ["x"]


def test_a_request_that_waits_can_be_given_up(engine):
    store = RunStore(engine)
    store.submit(RunRequest(prompt="x"), "ann")
    waiting = store.submit(RunRequest(prompt="y"), "bob")
    store.leave(waiting, "bob")
    assert waiting.is_over
    assert store.waiting == 0
    engine.go.set()


def test_a_failed_run_is_a_sentence_and_the_worker_lives_on(engine):
    store = RunStore(engine)
    engine.go.set()
    broken = store.submit(RunRequest(prompt="boom"), "ann")
    assert broken.wait(5)
    assert broken.state == "failed"
    assert "ZeroDivisionError: by zero" in broken.error
    fine = store.submit(RunRequest(prompt="fine"), "ann")
    assert fine.wait(5)
    assert fine.state == "done"


def test_an_empty_prompt_is_answered_in_words(engine):
    with pytest.raises(RefusedError, match="empty"):
        RunStore(engine).submit(RunRequest(prompt=""))


def test_a_prompt_that_is_too_long_is_refused_with_its_count(engine):
    with pytest.raises(RefusedError, match=r"20,001 tokens; a run takes up to 2,048"):
        RunStore(engine).submit(RunRequest(prompt="x" * 20_000))
    assert MAX_PROMPT == 2_048


def test_a_prompt_that_the_tokenizer_cannot_hold_is_refused_in_its_words(engine):
    with pytest.raises(RefusedError, match="no token for some bytes"):
        RunStore(engine).submit(RunRequest(prompt="odd"))


def test_a_stored_proof_waits_for_nobody(engine):
    store = RunStore(engine)
    slow = store.submit(RunRequest(prompt="slow"), "ann")
    until(lambda: slow.state == "working")
    ticket = store.checked(MadeRun("a run", is_stored=True), "page")
    assert ticket.result() == ("stored", "page")


def test_what_jobs_took_of_late_says_how_long_one_takes(engine):
    store = RunStore(engine)
    assert store.seconds_each is None
    engine.go.set()
    for name in ("a", "b", "c"):
        assert store.submit(RunRequest(prompt=name)).wait(5)
    until(lambda: store.waiting == 0 and store.seconds_each is not None)
    assert 0 < store.seconds_each < 5


@pytest.mark.parametrize(("temperature", "same"), [(0.0, True), (0.7, False)])
def test_a_seed_makes_another_run_only_where_something_is_drawn(temperature, same):
    keys = {RunRequest(prompt="a", temperature=temperature, seed=seed).key for seed in (0, 7)}
    assert (len(keys) == 1) == same


def test_a_run_takes_text_or_ids_and_not_both():
    with pytest.raises(ValueError, match="one of the two"):
        RunRequest(prompt="x", ids=(1,))


def test_the_shelf_stays_within_its_bound_and_lets_the_longest_unused_go():
    shelf = Shelf(limit=10)
    for name in "abc":
        shelf.put(MadeRun(run_id=name, bytes=4))
        shelf.get("a")
    assert shelf.bytes == 8
    assert shelf.get("b") is None
    assert shelf.get("a") is not None
    with pytest.raises(ValueError, match="Shorten the prompt"):
        shelf.put(MadeRun(run_id="large", bytes=11))


def test_equations_are_replayed_once_for_a_page_of_a_run(engine):
    store = RunStore(engine)
    engine.go.set()
    run = MadeRun(run_id="r")
    first = store.checked(run, "asked")
    assert first.wait(5)
    assert store.checked(run, "asked").is_over
    assert first.result() == ("r", "asked")


def test_a_model_is_loaded_before_the_run_that_needs_it(engine):
    store = RunStore(engine)
    engine.go.set()
    store.warm("k3-mini")
    ticket = store.submit(RunRequest(prompt="x"), "ann")
    assert ticket.wait(5)
    assert engine.order == ["load k3-mini", "x"]


def test_a_stored_run_is_completed_once_and_a_whole_one_never(engine):
    store, stored = RunStore(engine), MadeRun(run_id="s", is_stored=True)
    for _ in range(3):
        store.complete_soon(stored, seconds=0.01)
    store.complete_soon(MadeRun(run_id="w", model=object(), is_stored=True), seconds=0.01)
    # its model was let go: it comes back when a page needs it
    store.complete_soon(MadeRun(run_id="l"), seconds=0.01)
    until(lambda: "complete s" in engine.order)
    time.sleep(0.05)
    assert engine.order == ["complete s"]
