"""Weights under the microscope: single tensors of a checkpoint, read where they stand."""

from app.components.bridge import bridge
from app.looks import Contents, Look
from app.microscope import Microscope, shared_microscope
from app.panels.weights_ask import ask, ask_if_wanted, register, say, size
from app.panels.weights_form import WORDS, weights_form
from app.panels.weights_list import weights_list
from app.panels.weights_views import weights_view
from app.state import Selection


def weights_live(selection: Selection) -> None:
    """Draw the page: the question, what would be read, and what was found."""
    bridge(run=None, key="bridge-run")
    selection, url = weights_form(selection)
    bridge(url=url, key="bridge-weights")
    _found(selection, shared_microscope())


def _found(selection: Selection, microscope: Microscope) -> None:
    name = selection.checkpoint
    if not name:
        say(
            "No checkpoint is open. Name one on the Hub or choose one: the names of its tensors "
            "come first, and how many bytes more are read is said before they are."
        )
        return
    seen = ask(Look(checkpoint=name, what="contents"), microscope)
    if seen is None:
        return
    contents: Contents = seen.value
    if selection.look == "tensors":
        weights_list(selection, contents, microscope)
        return
    look = Look(checkpoint=name, what=selection.look)
    found = ask_if_wanted(look, microscope, _cost(contents, selection), "Read them")
    if found is not None:
        weights_view(selection.look, found.value, register(look, found))


def _cost(contents: Contents, selection: Selection) -> str:
    from model.peek_plan import BOUND

    said = f"{WORDS[selection.look]}: the few tensors that tell it"
    if not contents.remote:
        return f"{said}, from this machine."
    names = f", after the list of all tensors ({size(contents.index)})" if contents.index else ""
    return f"{said}{names}. At most {size(BOUND)} come over the network."
