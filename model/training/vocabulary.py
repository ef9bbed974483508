"""The tokenizer of the small world: whole words, and bytes for all else that is typed."""

import json
import random
from collections import Counter
from functools import cache

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from model.tokenizer_json import SPECIALS, JsonTokenizer
from model.training.corpus import TASKS
from model.training.words import ANY, LETTERS, MONTHS, NUMBERS

PAGES = 400
"""Pages of each task that are read for their words."""
SEED = 4


@cache
def words() -> tuple[str, ...]:
    """Every word, number and mark of the corpus, with its blank before it, in a fixed order."""
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    seen: Counter[str] = Counter()
    listed = " ".join(("", *ANY, *MONTHS, *NUMBERS, *LETTERS))
    texts = [listed, *NUMBERS, *LETTERS]
    for name, task in TASKS.items():
        if name != "spelling":
            rng = random.Random(f"{SEED}/{name}")
            texts += [task(rng, "train", 400).whole() for _ in range(PAGES)]
    for text in texts:
        seen.update(piece for piece, _ in splitter.pre_tokenize_str(text))
    return tuple(sorted(piece for piece in seen if len(piece) > 1))


def word_tokenizer() -> JsonTokenizer:
    """A word is one token where it is known, and is spelled byte by byte where it is not."""
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *SPECIALS, *words()]
    vocabulary = {name: index for index, name in enumerate(names)}
    # a whole word is looked up before any merge is tried, and there are none
    core = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return JsonTokenizer(json.loads(core.to_str()), bos="<bos>", also=SPECIALS)
