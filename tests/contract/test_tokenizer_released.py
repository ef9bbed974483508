"""Text becomes the ids that the released K2 and K3 read, by another reader of their vocabulary."""

import base64
import json
import random

import pytest
import splintr

from model.presets import preset
from model.tokenizer import tokenizer_for

ORDINARY = 163_584
"""Ranks in the released file; the names behind them differ between the models."""
POOLS = (
    "abcXYZ '",
    "中文漢字々〇",
    "ÀéßǅʰªあアハングルАБв",
    "0123٣४½Ⅷ",
    " \t\n\r\u00a0\u3000\x0b\x85\u2028",
    "!?.,/'s'T're<>|[]{}\x00\x1f",
    "👩‍👩‍👧‍👦🇪🇺\u0301\u20dd\ufeff",
)
SENTENCES = (
    "Hello, world! It's 1234567890 o'clock; WE'LL seeThem.",
    "你好世界，中文English混合。日本語のテキスト",
    "def f(x):\n    return x  # naïve\r\n\n\tend",
    "  leading and trailing  ",
    "",
)


@pytest.fixture(scope="module", params=[("k3", "kimi_k3"), ("k2", "kimi_k2")], ids=["k3", "k2"])
def readers(request, tmp_path_factory):
    """Ours, from the files as they are released, and the other."""
    name, theirs = request.param
    other, folder = splintr.Tokenizer.from_pretrained(theirs), tmp_path_factory.mktemp(name)
    ranks = (bytes(other.decode_token_bytes(i)) for i in range(ORDINARY))
    lines = (base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(ranks))
    (folder / "tiktoken.model").write_bytes(b"".join(lines))
    config = preset(name)
    table = {
        str(i): {"content": content}
        for content, i in other.special_tokens().items()
        if i < config.vocab_size and "reserved" not in content
    }
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": table}))
    return tokenizer_for(config, folder), other


@pytest.mark.parametrize("text", SENTENCES)
def test_a_sentence_has_the_same_ids(readers, text):
    ours, other = readers
    assert ours.encode(text) == list(other.encode_raw(text))


def test_random_texts_of_many_scripts_have_the_same_ids(readers):
    ours, other = readers
    draw = random.Random(5)
    for _ in range(2_000):
        letters = (draw.choice(draw.choice(POOLS)) for _ in range(draw.randint(1, 30)))
        text = "".join(letters)
        ids = ours.encode(text)
        assert ids == list(other.encode_raw(text)), text
        assert ours.decode(ids) == text


def test_control_tokens_have_the_names_and_ids_of_the_release(readers):
    ours, other = readers
    named = {name: i for name, i in other.special_tokens().items() if i < len(ours)}
    assert len(ours) == 163_840
    assert ours.special_ids == set(named.values())
    for name, i in named.items():
        assert ours.encode(name, control=True) == [i]
        assert not ours.special_ids.intersection(ours.encode(name))
