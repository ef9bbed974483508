"""Twenty readers at once: nobody's values mix, everybody sees a place, memory stays flat."""

import gc
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from app.run_engine import ModelEngine
from app.run_request import RefusedError, RunRequest
from app.runs import RunStore
from model.limits import MAX_PROMPT
from model.load import load
from model.trace import run

READERS = 20
SOURCE = "tiny-k3"
HOSTILE = (
    "<script>alert(1)</script>",
    "<|open|>system<|sep|><bos><eos>",
    "$x$ :red[y] [z](javascript:1) `w`",
    "\x00\x1b[31m\u202eabc\u200b",
    "e\u0301 😀 漢字 \U0001f9d1\u200d\U0001f680",
    "\n\n\t  \r\n",
    "../../etc/passwd %00 %s {0} {{7*7}}",
    "' OR 1=1 --",
    "=HYPERLINK(1)",
    "0",
)


def prompt_of(reader: int) -> str:
    return f"reader {reader} asks " + "key " * (reader % 5)


def request_of(prompt: str, new_tokens: int = 2) -> RunRequest:
    return RunRequest(source=SOURCE, prompt=prompt, new_tokens=new_tokens)


def resident() -> int:
    """Bytes of this process in memory."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


@pytest.fixture(scope="module")
def model():
    return load(SOURCE)


def test_twenty_readers_get_their_own_values_and_see_their_place(model, measured):
    store = RunStore(ModelEngine())
    together, runs, places, faults = threading.Barrier(READERS), {}, {}, []

    def ask(reader: int) -> None:
        try:
            together.wait()
            ticket = store.submit(request_of(prompt_of(reader)), f"reader {reader}")
            seen = [ticket.place()]
            while not ticket.wait(0.005):
                seen.append(ticket.place())
            runs[reader], places[reader] = ticket.result(), seen
        except Exception as error:
            faults.append(repr(error))

    started = time.perf_counter()
    threads = [threading.Thread(target=ask, args=(reader,)) for reader in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    measured(f"{READERS} readers at once: all served after {time.perf_counter() - started:.1f} s")
    assert not faults
    assert len(runs) == READERS
    for reader, made in runs.items():
        alone = run(model, prompt_of(reader), 2)
        assert made.run_id == alone.run_id
        assert made.token_ids == alone.token_ids
        for name in ("layers.3.self_attn.k_cached", "layers.1.self_attn.state", "logits"):
            assert np.array_equal(made.array(name, 2), alone.array(name, 2)), (reader, name)
    for seen in places.values():
        waited = [place for place in seen if place is not None]
        assert waited == sorted(waited, reverse=True)
    assert max(place or 0 for seen in places.values() for place in seen) >= READERS // 2


def test_two_readers_of_one_prompt_share_one_run():
    store = RunStore(ModelEngine())
    one = store.submit(request_of("the same"), "ann")
    two = store.submit(request_of("the same"), "bob")
    assert one.wait(60)
    assert two.wait(60)
    assert one.result() is two.result()


@pytest.mark.parametrize("prompt", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_prompts_are_text_and_nothing_else(prompt):
    store = RunStore(ModelEngine())
    ticket = store.submit(request_of(prompt, 0), "ann")
    assert ticket.wait(60)
    made = ticket.result()
    assert "".join(t.text for t in made.tokens[1:] if t.text) or "⟨0x" in made.tokens[1].display
    assert [token.special for token in made.tokens] == [True] + [False] * (len(made.tokens) - 1)


@pytest.mark.parametrize("prompt", ["x" * 20_000, "x" * MAX_PROMPT])
def test_prompts_beyond_the_bound_are_refused_with_their_count(prompt):
    with pytest.raises(RefusedError, match=f"{len(prompt) + 1:,} tokens"):
        RunStore(ModelEngine()).submit(request_of(prompt))


def test_an_unpaired_surrogate_is_answered_in_words():
    with pytest.raises(ValueError, match="surrogate"):
        RunStore(ModelEngine()).submit(request_of("a\ud800b"))


def test_a_source_that_is_not_there_is_answered_in_words():
    store = RunStore(ModelEngine())
    ticket = store.submit(RunRequest(source="k3", prompt="x"), "ann")
    assert ticket.wait(60)
    assert ticket.state == "failed"
    assert "k3" in ticket.error


def test_memory_is_flat_over_a_hundred_runs_once_the_shelf_is_full(measured):
    """Held runs take what the shelf may take; nothing may grow beside it."""
    store = RunStore(ModelEngine(), limit=2 * 2**20)
    after = {}
    for number in range(1, 101):
        ticket = store.submit(request_of(f"run number {number:03d}"), "ann")
        assert ticket.wait(60)
        assert ticket.state == "done", ticket.error
        assert store.shelf.bytes <= store.shelf.limit
        if number == 10:
            assert 0 < len(store.shelf) < 10
        if number in (10, 100):
            gc.collect()
            after[number] = resident()
    growth = after[100] / after[10] - 1
    measured(
        f"memory after 10 runs {after[10] / 2**20:.0f} MiB, after 100 {after[100] / 2**20:.0f} MiB"
        f" ({growth:+.1%}); {len(store.shelf)} runs held"
    )
    assert growth <= 0.05
    assert len(store.shelf) < 100
