"""The count beside the prompt: what the browser counts is what the tokenizer would."""

import json
import shutil
import subprocess

import pytest

from app.components.prompt_count.mount import HERE
from app.run_engine import tokenizer_of
from model.tokenizer_json import SPECIALS, JsonTokenizer

TEXTS = [
    "",
    " ",
    "Copy: fox owl hen goat bee. Again:",
    "Copy:  fox\n\nowl \t hen   ",
    "It's 47 mod 4, isn't it? 12345 + 6",
    "<bos> and <|open|> are text",
    "café 東京 🦉 x\u00a0y\u2003z \u0085 \ufeff",
    "a_b-c (d) [e] {f} <g>",
    "foxes Kitchen kitchen. KITCHEN",
]


def counted(text: str, words: tuple[str, ...]) -> int:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not here; the browser tests type a prompt too.")
    script = (
        f"import {{ countTokens }} from {json.dumps(str(HERE / 'prompt_count.js'))};"
        "const { text, words } = JSON.parse(process.argv[1]);"
        "console.log(countTokens(text, new Set(words)));"
    )
    given = json.dumps({"text": text, "words": words})
    called = [node, "--input-type=module", "-e", script, given]
    done = subprocess.run(called, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("source", ["k3-mini", "tiny-k2"])
def test_the_browser_counts_as_the_tokenizer_does(source, text):
    tokenizer = tokenizer_of(source)
    assert tokenizer is not None
    assert tokenizer.whole_words is not None
    assert counted(text, tokenizer.whole_words) == len(tokenizer.encode(text)) + 1


def test_a_tokenizer_that_merges_is_counted_on_the_server():
    tokenizer = tokenizer_of("k3-mini")
    assert isinstance(tokenizer, JsonTokenizer)
    layout = json.loads(tokenizer._core.to_str())
    layout["model"]["merges"] = [["a", "b"]]
    layout["model"]["vocab"]["ab"] = len(layout["model"]["vocab"])
    assert JsonTokenizer(layout, "<bos>", SPECIALS).whole_words is None
