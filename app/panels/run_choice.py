"""Which run the page shows: the one of the address, made again where it is gone, or the example."""

from dataclasses import dataclass
from typing import Any

from app.run_request import EXAMPLE_PROMPT, EXAMPLE_SOURCE, RefusedError, RunRequest
from app.run_ticket import Ticket
from app.runs import RunStore
from app.sources import BUILT_IN, config_of
from app.state import Selection

NEW_TOKENS = 4
"""New tokens where the address does not say."""

MISSING = (
    "There is no stored example here. Type a prompt and press Run, or make the example with "
    "`make example`."
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Exactly one of run, ticket and sentence is there."""

    run: Any = None
    ticket: Ticket[Any] | None = None
    sentence: str = ""
    """Why there is nothing to show, and what to do."""
    notices: tuple[str, ...] = ()


NOTHING_YET = (
    "Nothing has run on {source} yet. Put a prompt in the box and press Run; loading it may take a "
    "while."
)


def request_of(selection: Selection) -> RunRequest | None:
    """The request that the address describes: its prompt, or that of the stored example.

    The stored example is of one model. Another that comes with the program runs its prompt.
    """
    prompt = selection.prompt
    if prompt is None and selection.run is None and runs_the_example(selection.source):
        prompt = EXAMPLE_PROMPT
    if prompt is None:
        return None
    new = NEW_TOKENS if selection.new is None else selection.new
    return RunRequest(
        source=selection.source,
        prompt=prompt,
        new_tokens=new,
        temperature=selection.temperature,
        seed=selection.seed,
    )


def runs_the_example(source: str) -> bool:
    return source in BUILT_IN and source != EXAMPLE_SOURCE


def choose(selection: Selection, store: RunStore, reader: str, stopped: str = "") -> Choice:
    """The run to show. `stopped` is the key of a request that this reader gave up."""
    try:
        config_of(selection.source)
    except LookupError as fault:
        return Choice(sentence=str(fault.args[0]))
    request = request_of(selection)
    if request is not None:
        if request.key == stopped:
            return Choice(sentence="This run was stopped. Press Run to start it again.")
        return _asked(request, selection, store, reader)
    if selection.run is not None:
        run = store.find(selection.run)
        if run is not None and run.source != selection.source:
            return Choice(sentence=_of_another(selection, run.source))
        if run is not None:
            return Choice(run=run)
        return Choice(
            sentence=f"Run {selection.run[:6]} is gone, and its prompt is too long to stand in the "
            "address. Put the prompt in the box and press Run to make it again."
        )
    if selection.source != EXAMPLE_SOURCE:
        return Choice(sentence=NOTHING_YET.format(source=selection.source))
    example = store.example()
    if example is None:
        return Choice(sentence=store.example_fault or MISSING)
    return Choice(run=store.find(example.run_id))


def _of_another(selection: Selection, source: str) -> str:
    assert selection.run is not None
    return (
        f"Run {selection.run[:6]} is of {source}, and {selection.source} was asked for. Choose "
        f"{source} under Running, or put a prompt in the box and press Run."
    )


def _asked(request: RunRequest, selection: Selection, store: RunStore, reader: str) -> Choice:
    if (run := store.known(request)) is not None:
        return Choice(run=run)
    try:
        ticket = store.submit(request, reader)
    except RefusedError as refused:
        return Choice(sentence=str(refused))
    if selection.run is None:
        return Choice(ticket=ticket)
    gone = f"Run {selection.run[:6]} is gone from this server; its prompt is run again."
    return Choice(ticket=ticket, notices=(gone,))
