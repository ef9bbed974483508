"""Widgets follow the address, and keep what the reader has chosen."""

from types import SimpleNamespace

import pytest

from app.panels import follow as module
from app.panels.follow import SENT_AFTER, follow, note_sent


class Session(dict):
    """Session state that notes which keys were written."""

    def __init__(self):
        super().__init__()
        self.written = []

    def __setitem__(self, key, value):
        self.written.append(key)
        super().__setitem__(key, value)


@pytest.fixture
def session(monkeypatch):
    state, clock = Session(), SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "st", SimpleNamespace(session_state=state))
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)

    def rerun(address, seconds):
        """Whether the widget was given a value in a rerun so many seconds after the last."""
        clock.now += seconds
        state.written.clear()
        follow("source", address)
        return "source" in state.written

    return SimpleNamespace(state=state, rerun=rerun)


def test_a_value_is_given_again_while_reruns_follow_too_soon_for_it_to_be_sent(session):
    assert session.rerun("k2", 0)
    for _ in range(4):
        assert session.rerun("k2", SENT_AFTER * 0.9)
    assert not session.rerun("k2", SENT_AFTER * 1.1)


def test_what_a_reader_chose_after_the_value_was_sent_is_not_taken_back(session):
    session.rerun("k3", 0)
    dict.__setitem__(session.state, "source", "chosen")
    assert not session.rerun("k3", SENT_AFTER * 1.1)
    assert not session.rerun("k3", 0.01)
    assert session.state["source"] == "chosen"


def test_the_echo_of_what_a_widget_wrote_is_no_news_and_the_next_address_is(session):
    session.rerun("k3", 0)
    dict.__setitem__(session.state, "source", "k2")
    note_sent("source", "k2")
    dict.__setitem__(session.state, "source", "later choice")
    assert not session.rerun("k2", 5)
    assert session.state["source"] == "later choice"
    assert session.rerun("k3", 5)
    assert session.state["source"] == "k3"
