"""Which released model a running one is built as, and what sets it apart from the others."""

from app.run_kinship import difference, features, released_like
from model.presets import RELEASED, preset


def test_the_small_models_are_built_as_k3():
    assert released_like(preset("k3-mini")) == released_like(preset("tiny-k3")) == "k3"
    assert difference(preset("k3-mini"), preset("k3")) == ()


def test_every_released_model_is_told_apart():
    assert len({features(preset(name)) for name in RELEASED}) == len(RELEASED)


def test_what_k2_has_more_and_less_than_the_running_model_is_said():
    more, less = difference(preset("k3-mini"), preset("k2"))
    assert "residual sums that are mixed over depth" in more
    assert less == "lacks keys turned by their position"
