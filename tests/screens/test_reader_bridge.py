"""The bridge carries little, and says so when it is given much."""

import pytest

from app.components.bridge import LARGEST, bridge


def test_a_message_of_usual_size_passes():
    bridge(run={"run": "7f3a91", "thumbs": {}}, url={"layer": 3, "head": None})


def test_a_message_that_is_too_large_is_refused_with_its_size():
    with pytest.raises(ValueError, match="carries up to 100,000 bytes and was given 100,0"):
        bridge(run={"thumbs": "x" * LARGEST})
