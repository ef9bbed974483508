"""The sidebar's half of a run: source, prompt and Run, layer and step."""

from dataclasses import replace
from typing import Any, NamedTuple

import streamlit as st

from app.components.prompt_count.mount import prompt_count
from app.components.tensor_canvas.mount import canvas_library
from app.panels.follow import follow, note_sent
from app.panels.html import draw, style
from app.panels.reader_id import reader_id
from app.panels.run_choice import NEW_TOKENS, choose, request_of
from app.panels.waiting import STOPPED
from app.place import Place, running_config
from app.run_engine import tokenizer_of
from app.run_reading import short_path
from app.run_request import MOST_NEW_TOKENS
from app.runs import RunStore
from app.sources import sources
from app.state import HOTTEST, LARGEST_SEED, LONGEST_PROMPT_IN_URL, Selection
from model.limits import MAX_PROMPT

Url = dict[str, str | int | None]
LONGEST_TEXT = 20_000
ASKED = "asked"
SAMPLING = "At 0 the likeliest token is taken; above, tokens are drawn by the seed."


class Asked(NamedTuple):
    """What a run is made of, as the form has it."""

    source: str
    prompt: str | None
    new: int | None
    temperature: float
    seed: int


def prompt_form(selection: Selection, store: RunStore) -> tuple[Selection, Url]:
    """Source, prompt and Run. Returns the selection as the reader has it, and what to write."""
    style()
    canvas_library()
    address, selection = selection, _with_asked(selection)
    shown = _shown_run(selection, store)
    follow("source", selection.source)
    follow("prompt", selection.prompt if selection.prompt is not None else _text_of(shown))
    follow("new", selection.new if selection.new is not None else _new_of(shown))
    follow("temperature", selection.temperature)
    follow("seed", selection.seed)
    form, pressed = _form()
    source, prompt = form.source, form.prompt or ""
    tokenizer = tokenizer_of(source)
    if prompt_count(MAX_PROMPT, None if tokenizer is None else tokenizer.whole_words):
        store.warm(source)
    draw(
        "run_words.html",
        count=_count(source, prompt),
        run=shown,
        origin=_origin(shown),
        waiting=pressed,
    )
    if not pressed:
        return selection, _unsaid(address, selection)
    st.session_state.pop(STOPPED, None)
    st.session_state[ASKED] = form
    note_sent(ASKED, form._replace(prompt=_in_address(prompt)))
    for key, value in form._asdict().items():
        note_sent(key, value)
    asked = replace(
        selection,
        **form._asdict(),
        view="node",
        run=None,
        step=None,
        token=None,
    )
    return asked, _written(asked)


def _form() -> tuple[Asked, bool]:
    """What the reader has put in, and whether Run was pressed."""
    with st.form("run-form", border=False):
        source = st.selectbox("Running", tuple(sources()), key="source", format_func=_source_word)
        prompt = st.text_area("Prompt", key="prompt", height=96, max_chars=LONGEST_TEXT)
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        with left:
            new = st.number_input("New tokens", 0, MOST_NEW_TOKENS, key="new")
        with right:
            pressed = st.form_submit_button("Run", key="run", type="primary")
        with st.expander("Sampling", expanded=st.session_state["temperature"] > 0):
            left, right = st.columns(2)
            with left:
                temperature = st.number_input(
                    "Temperature", 0.0, HOTTEST, step=0.1, format="%.2f", key="temperature"
                )
            with right:
                seed = st.number_input("Seed", 0, LARGEST_SEED, key="seed")
            st.caption(SAMPLING)
    return Asked(source, prompt, int(new), round(float(temperature), 4), int(seed)), pressed


def _origin(run: Any | None) -> str:
    """Of what kind the model of a run is, what its weights are, and how it was computed."""
    if run is None:
        return ""
    source = sources().get(run.source)
    how = f"{run.dtype} on {run.device}, {short_path(run.kernel_path)}"
    said = (source.kind_words if source else "", run.weights_note, how)
    return ", ".join(filter(None, said))


def _source_word(source: str) -> str:
    return sources()[source].words


def _with_asked(selection: Selection) -> Selection:
    """The request of this page: the address's, or a newer one that it does not say yet.

    A prompt too long for the address lives here alone.
    """
    said = _asked_by(selection)
    follow(ASKED, said)
    asked: Asked = st.session_state[ASKED]
    return selection if asked == said else replace(selection, **asked._asdict(), run=None)


def _asked_by(selection: Selection) -> Asked:
    return Asked(*(getattr(selection, name) for name in Asked._fields))


def place_pickers(selection: Selection, place: Place, store: RunStore) -> tuple[Selection, Url]:
    """Layer and step. Returns the selection as the reader has it, and what to write."""
    url: Url = {}
    if place.layers:
        follow("layer", place.layer)
        if st.session_state["layer"] not in place.layers:
            st.session_state["layer"] = place.layer
        layer = place.layer
        if len(place.layers) > 1:
            mixers = running_config(selection.source).mixers
            layer = st.select_slider(
                "Layer",
                place.layers,
                key="layer",
                format_func=lambda i: f"{i}, {mixers[i].upper()}",
            )
        if layer != place.layer:
            selection, url = replace(selection, layer=layer), url | {"layer": layer}
            note_sent("layer", layer)
    run = _shown_run(selection, store)
    steps = run.steps if run is not None else 1
    current = _step(selection, steps)
    if steps > 1:
        follow("step", current)
        if st.session_state["step"] not in range(steps):
            st.session_state["step"] = current
        step = st.select_slider("Step", range(steps), key="step", format_func=_step_word)
        if step != current:
            selection = replace(selection, step=step, phase="decode" if step else "prefill")
            url = url | {"step": step, "phase": None if step else "prefill"}
            note_sent("step", step)
    return selection, url


def _step(selection: Selection, steps: int) -> int:
    if selection.step is not None:
        return min(selection.step, steps - 1)
    return 0 if selection.phase == "prefill" else steps - 1


def _step_word(step: int) -> str:
    return f"decode {step}" if step else "prefill"


def _shown_run(selection: Selection, store: RunStore) -> Any | None:
    """The run on screen, if it is finished; nothing is started here."""
    request = request_of(selection)
    if request is not None:
        return store.known(request)
    return choose(selection, store, reader_id()).run


def _text_of(run: Any | None) -> str:
    if run is None:
        return ""
    return "".join(t.text for t in run.tokens[: run.prompt_length] if not t.special)


def _new_of(run: Any | None) -> int:
    return NEW_TOKENS if run is None else run.steps - 1


def _count(source: str, prompt: str) -> str:
    tokenizer = tokenizer_of(source)
    if tokenizer is None or not prompt:
        return f"up to {MAX_PROMPT:,} tokens"
    try:
        count = len(tokenizer.encode(prompt)) + 1
    except ValueError:
        # said where the run would stand
        return f"up to {MAX_PROMPT:,} tokens"
    over = f", {count - MAX_PROMPT:,} too many" if count > MAX_PROMPT else ""
    return f"{count:,} of {MAX_PROMPT:,} tokens{over}"


def _in_address(prompt: str) -> str | None:
    return prompt if 0 < len(prompt) <= LONGEST_PROMPT_IN_URL else None


def _unsaid(address: Selection, asked: Selection) -> Url:
    """What the address still lacks of a request: a rerun that came soon dropped its writing."""
    if asked is address:
        return {}
    said = _asked_by(asked)._replace(prompt=_in_address(asked.prompt or ""))
    return {} if _asked_by(address) == said else _request(said)


def _request(said: Asked) -> Url:
    """As an address has it, where temperature 0 and seed 0 are left out."""
    return {
        "source": said.source,
        "prompt": said.prompt,
        "new": said.new,
        "temperature": f"{said.temperature:g}" if said.temperature else None,
        "seed": said.seed or None,
    }


def _written(asked: Selection) -> Url:
    """The address of a new run; where its prompt is too long, only its id will stand there."""
    return {
        # the overview has no live tensor: a run leads to the page that the address means
        "view": None,
        "node": asked.node,
        **_request(_asked_by(asked)._replace(prompt=_in_address(asked.prompt or ""))),
        "run": None,
        "step": None,
        "token": None,
    }
