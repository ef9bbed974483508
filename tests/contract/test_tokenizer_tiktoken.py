"""The tokenizer of a released checkpoint: ranks, control tokens, and text of any kind."""

import base64
import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.presets import tiny_k3
from model.tokenizer import tokenizer_for
from model.tokenizer_tiktoken import pieces

PAIRS = (b"th", b"the", b" the", b"he", b"  ", b"\n\n", "中".encode()[:2], "中".encode())
FIRST = 256 + len(PAIRS)
NAMES = {FIRST: "[BOS]", FIRST + 1: "[EOS]", FIRST + 2: "<think>", FIRST + 5: "<|open|>"}
CONFIG = dataclasses.replace(tiny_k3(), bos_token_id=FIRST, eos_token_id=FIRST + 1)


def rank_lines(tokens):
    return b"".join(base64.b64encode(token) + b" %d\n" % i for i, token in enumerate(tokens))


RANKS = rank_lines([*(bytes([byte]) for byte in range(256)), *PAIRS])


def folder_with(path, ranks=RANKS, names=NAMES):
    (path / "tiktoken.model").write_bytes(ranks)
    # as upstream writes it: one name is flagged, another not, and both are control tokens
    table = {str(i): {"content": name, "special": name != "<think>"} for i, name in names.items()}
    config = {"added_tokens_decoder": table, "auto_map": {"AutoTokenizer": ["evil.py", None]}}
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    (path / "evil.py").write_text("raise SystemExit('executed')")
    return path


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return tokenizer_for(CONFIG, folder_with(tmp_path_factory.mktemp("released")))


def test_bytes_are_joined_by_rank(tokenizer):
    ids = tokenizer.encode("the 中 the")
    assert [tokenizer.describe(i).text for i in ids] == ["the", " ", "中", " the"]
    assert tokenizer.encode("é") == [0xC3, 0xA9]


def test_nothing_of_the_checkpoint_is_executed(tokenizer):
    assert tokenizer.bos_id == FIRST


@given(st.text())
def test_any_text_comes_back_whole_and_without_control_tokens(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not tokenizer.special_ids.intersection(ids)


@pytest.mark.parametrize("name", [*NAMES.values(), "<|reserved_token_300|>"])
def test_a_typed_control_token_is_text_unless_it_is_asked_for(tokenizer, name):
    text = f"the{name}the"
    assert not tokenizer.special_ids.intersection(tokenizer.encode(text))
    asked = tokenizer.encode(text, control=True)
    assert len(asked) == 3
    assert tokenizer.describe(asked[1]).text == name
    assert tokenizer.describe(asked[1]).special
    assert tokenizer.decode(asked) == text


def test_ids_of_the_model_that_no_file_names_are_reserved(tokenizer):
    assert len(tokenizer) == CONFIG.vocab_size
    assert tokenizer.describe(FIRST + 4).text == f"<|reserved_token_{FIRST + 4}|>"
    assert tokenizer.describe(CONFIG.vocab_size).display == f"⟨#{CONFIG.vocab_size}⟩"


@pytest.mark.parametrize("half", [0xD800, 0xDFFF])
def test_half_of_a_surrogate_pair_is_answered_in_words(tokenizer, half):
    with pytest.raises(ValueError, match=rf"Character 1 is U\+{half:04X}"):
        tokenizer.encode(f"a{chr(half)}b")


@pytest.mark.parametrize(
    "text",
    [
        " " * 1_000_000 + "x",
        "the" * 300_000,
        " \n" * 100_000,
        (" " * 25_000 + "x") * 8,
        "中" * 100_000,
        "\x00" * 60_000,
        "👩‍👩‍👧‍👦" * 20_000,
    ],
    ids=["blanks", "letters", "lines", "runs", "Chinese", "NUL", "emoji"],
)
def test_a_huge_text_comes_back_whole(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("length", [0, 1, 24_999, 25_000, 25_001, 50_000, 50_001, 400_001])
@pytest.mark.parametrize("letter", ["x", " "])
def test_a_text_is_cut_only_inside_runs_longer_than_upstreams_limit(length, letter):
    parts = list(pieces("ab " + letter * length + "\tz"))
    assert "".join(parts) == "ab " + letter * length + "\tz"
    runs = length + (2 if letter == " " else 0)
    if runs <= 25_000:
        assert len(parts) == 1
    assert all(len(part) <= 25_000 + 5 for part in parts)


def test_a_vocabulary_larger_than_the_models_is_said_and_refused_where_it_matters(tmp_path):
    config = dataclasses.replace(CONFIG, vocab_size=200, bos_token_id=1)
    tokenizer = tokenizer_for(config, folder_with(tmp_path))
    assert tokenizer.vocabulary_note == "64 tokens of its tokenizer are beyond the model's 200"
    assert tokenizer.encode("abc") == [0x61, 0x62, 0x63]
    with pytest.raises(
        ValueError, match=r"'the' is token 257, and the model's tokens are 0 to 199"
    ):
        tokenizer.encode("the")


def test_a_control_token_beyond_the_models_vocabulary_stays_readable(tmp_path):
    folder = folder_with(tmp_path, names=NAMES | {CONFIG.vocab_size: "<|late|>"})
    tokenizer = tokenizer_for(CONFIG, folder)
    assert tokenizer.vocabulary_note == ""
    assert tokenizer.describe(CONFIG.vocab_size).display == "<|late|>"
    with pytest.raises(ValueError, match=r"'<\|late\|>' is token 320"):
        tokenizer.encode("<|late|>", control=True)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        (RANKS[:2_000], "Line 2.. of .* is b.*, and not bytes in base64"),
        (rank_lines([bytes([byte]) for byte in range(255)]), "no token for 1 of the 256 bytes"),
        (RANKS + RANKS[:7], "gives a rank or its bytes twice"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Line 1 of"),
        (b"", "no token for 256 of the 256 bytes"),
    ],
    ids=["cut", "byte", "twice", "pointer", "empty"],
)
def test_damaged_ranks_are_answered_in_words(tmp_path, ranks, words):
    with pytest.raises(ValueError, match=words):
        tokenizer_for(CONFIG, folder_with(tmp_path, ranks=ranks))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (NAMES | {9: "<|odd|>"}, r"calls 9 the control token '<\|odd\|>', and tiktoken.model has"),
        (NAMES | {FIRST + 3: "[BOS]"}, "gives two control tokens one name"),
    ],
    ids=["among", "twice"],
)
def test_control_tokens_that_contradict_the_ranks_are_answered_in_words(tmp_path, names, words):
    with pytest.raises(ValueError, match=words):
        tokenizer_for(CONFIG, folder_with(tmp_path, names=names))


@pytest.mark.parametrize("text", ["[", "[1]", '{"added_tokens_decoder": [1]}'])
def test_names_in_another_form_are_answered_in_words(tmp_path, text):
    folder_with(tmp_path).joinpath("tokenizer_config.json").write_text(text)
    with pytest.raises(ValueError, match="in no form that can be read"):
        tokenizer_for(CONFIG, tmp_path)


def test_a_start_token_that_the_files_lack_is_answered_in_words(tmp_path):
    config = dataclasses.replace(CONFIG, bos_token_id=5_000)
    with pytest.raises(ValueError, match="no token with the bos_token_id 5000"):
        tokenizer_for(config, folder_with(tmp_path))


def test_without_names_every_token_behind_the_ranks_is_reserved(tmp_path):
    folder_with(tmp_path).joinpath("tokenizer_config.json").unlink()
    tokenizer = tokenizer_for(CONFIG, tmp_path)
    assert tokenizer.describe(tokenizer.bos_id).text == f"<|reserved_token_{FIRST}|>"
