"""The corpus: one seed gives one text, answers are right by another reckoning, splits are apart."""

import random
import re
from itertools import pairwise

import pytest
import torch

from model.kda_chunk import CHUNK
from model.training.corpus import TASKS, WEIGHT, Batch, Corpus, counted_as, even_cuts
from model.training.held_out import draw, is_held_out, partner
from model.training.page import Page
from model.training.recipe import K3_MINI
from model.training.vocabulary import word_tokenizer
from model.training.words import DAYS, LETTERS, MONTHS, NAMES, PLACES

SPLITS = ("train", "held-out")
ROOM = 300
PAGES = 60
CHAINS = 12_000
"""Pages that hold each step of a chain that there is."""

TAKEN = re.compile(r"(\d+) - (\d+) = (\d+)")
PAIR = {"(": ")", "[": "]", "{": "}", "<": ">"}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    tokenizer = word_tokenizer()
    return Corpus(tokenizer, tokenizer.bos_id, tokenizer.bos_id + 1)


def pages(task: str, split: str, number: int = PAGES) -> list[Page]:
    return [TASKS[task](random.Random(f"test/{task}/{n}"), split, ROOM) for n in range(number)]


def texts(task: str, split: str, number: int = PAGES) -> list[str]:
    return [page.whole() for page in pages(task, split, number)]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task", TASKS)
def test_a_seed_gives_the_same_page_every_time_and_another_seed_another(task, split):
    assert texts(task, split) == texts(task, split)
    assert len(set(texts(task, split))) > 6


def drawn(corpus: Corpus, seed: str, pos: int, number: int = 2) -> list[Batch]:
    steps = corpus.batches(seed, number, 2000, pos, K3_MINI.stages[-1].pages)
    assert len(steps) == number
    return [batch for parts in steps for batch in parts]


def test_batches_depend_on_their_seed_alone(corpus):
    first, again, other = (drawn(corpus, seed, 200) for seed in ("a/1", "a/1", "a/2"))
    for one, same in zip(first, again, strict=True):
        assert one.tokens.equal(same.tokens)
        assert one.weights.equal(same.weights)
        assert one.answers == same.answers
    assert any(not one.tokens.equal(two.tokens) for one, two in zip(first, other, strict=True))
    weights = {w for batch in first for w in batch.weights.unique().tolist()}
    assert weights == {0.0, *torch.tensor([*WEIGHT.values()]).tolist()}


@pytest.mark.parametrize("pos", [17, 64, 640])
def test_a_row_is_one_page_from_its_start_and_nothing_counts_beyond_its_end(corpus, pos):
    for batch in drawn(corpus, "a/3", pos):
        assert batch.weights.shape[1] == batch.tokens.shape[1] - 1 <= pos
        assert batch.tokens[:, 0].eq(corpus.bos).all()
        assert not batch.tokens[:, 1:].eq(corpus.bos).any()
        for tokens, real in zip(batch.tokens[:, 1:], batch.real, strict=True):
            ends = tokens.eq(corpus.eos).nonzero().flatten().tolist()
            last = ends[0] + 1 if ends else len(tokens)
            assert real.tolist() == [True] * last + [False] * (len(tokens) - last)
        for row, start, stop, _ in batch.answers:
            assert batch.real[row, start - 1 : stop - 1].all()


def test_a_step_has_short_and_long_pages_and_about_the_tokens_asked_for(corpus):
    steps = corpus.batches("a/4", 16, 2000, 640, K3_MINI.stages[-1].pages)
    for parts in steps:
        widths = [batch.weights.shape[1] for batch in parts]
        # as long as the chunks that they fill
        chunks = [-(-width // CHUNK) for width in widths]
        assert chunks == sorted(chunks)
        assert widths[-1] > 3 * widths[0]
    tokens = sum(int(batch.real.sum()) for parts in steps for batch in parts)
    assert tokens == pytest.approx(16 * 2000, rel=0.1)


@pytest.mark.parametrize(
    ("sizes", "parts", "cuts"),
    [
        ([1] * 6, 3, [0, 1, 3, 6]),
        ([9, 1, 1], 3, [0, 1, 2, 3]),
        ([1, 1, 9], 3, [0, 1, 2, 3]),
        ([1, 2, 3, 6], 2, [0, 2, 4]),
        ([5], 1, [0, 1]),
    ],
)
def test_cuts_are_even_and_leave_no_part_empty(sizes, parts, cuts):
    assert even_cuts(sizes, parts) == cuts


def test_too_few_pages_for_so_many_batches_are_said():
    with pytest.raises(ValueError, match="2 pages cannot fill 3 batches"):
        even_cuts([1, 1], 3)


def test_a_task_gets_its_share_of_the_tokens(corpus):
    shares = {"copying": 3.0, "world": 1.0}
    of = {"copy": 0, "world": 0}
    for page in corpus.pages("a/5", 20_000, 200, shares, "train"):
        of["copy" if page.answers[0][2] == "copy" else "world"] += min(len(page.ids) - 1, 200)
    assert of["copy"] / of["world"] == pytest.approx(3, rel=0.05)


def test_an_answer_of_a_row_spells_what_its_page_answers(corpus):
    ((*parts,),) = corpus.batches("a/6", 1, 30_000, 640, dict.fromkeys(TASKS, 1.0))
    spelled = {
        task: corpus.tokenizer.decode(batch.tokens[row, start:stop].tolist())
        for batch in parts
        for row, start, stop, task in batch.answers
    }
    assert re.fullmatch(r" \d+ \+ \d+ = .* so (\d+ \+ \d+ = \d+)\.", spelled["sum"])
    assert re.fullmatch(r" \w+ is in the \w+\.", spelled["where-is"])
    assert re.fullmatch(r" The \w+ is with \w+\.", spelled["who-has"])


@pytest.mark.parametrize("task", TASKS)
def test_every_word_of_a_page_is_one_token(corpus, task):
    for page in pages(task, "train", 20):
        ids = corpus.tokenizer.encode(page.whole())
        single = [i for i in ids if len(corpus.tokenizer.describe(i).text) == 1]
        letters = [i for i in single if corpus.tokenizer.describe(i).text.isalpha()]
        # made-up words are spelled in letters, and `a` and the like are words
        assert task in ("spelling", "repeating", "copying", "reversing") or len(letters) < 2, (
            page.whole()
        )


def test_a_piece_that_ends_within_a_token_is_refused(corpus):
    page = Page()
    page.text("The kit")
    page.answer("chen.")
    with pytest.raises(ValueError, match="does not end where a token ends"):
        corpus.encode(page)


@pytest.mark.parametrize(
    ("distance", "said"),
    [
        (1, "1-64"),
        (64, "1-64"),
        (65, "65-256"),
        (256, "65-256"),
        (257, "257-512"),
        (512, "257-512"),
        (513, "513-"),
    ],
)
def test_distances_are_counted_up_to_and_with_their_bound(distance, said):
    assert counted_as("look-up", distance) == f"look-up {said}"


def test_the_distance_is_counted_from_the_value_to_the_end_of_its_answer(corpus):
    page = Page()
    page.text("Rosa's code is")
    at = page.noise(" 49")
    page.text(". What is Rosa's code?")
    page.answer(" Rosa's code is 49.", "look-up", at)
    ids, shares, found = corpus.encode(page)
    assert len(ids) == len(shares)
    ((start, stop, task),) = found
    values = [n for n, i in enumerate(ids) if corpus.tokenizer.describe(i).text == " 49"]
    assert values[0] < start <= values[1] < stop
    assert stop - 1 - values[0] == 13
    assert task == "look-up 1-64"


# answers by another reckoning


@pytest.mark.parametrize("split", SPLITS)
def test_sums_are_right_digit_by_digit_and_in_all(split):
    for text in texts("adding", split):
        for left, right in re.findall(r"([\d +]+) = (\d+)", text):
            assert sum(map(int, left.split("+"))) == int(right), text


@pytest.mark.parametrize("split", SPLITS)
def test_remainders_are_right(split):
    for text in texts("remainder", split):
        steps, s, m, r = re.search(r"\? (.*)so (\d+) mod (\d+) = (\d+)", text).groups()
        taken = [tuple(map(int, step)) for step in TAKEN.findall(steps)]
        left = [int(s)]
        for before, number, after in taken:
            assert (before, number, after) == (left[-1], int(m), left[-1] - int(m)), text
            left.append(after)
        assert steps.count("=") == len(taken)
        assert left[-1] == int(r) == int(s) % int(m), text


@pytest.mark.parametrize("split", SPLITS)
def test_what_is_taken_once_is_taken_where_it_can_be(split):
    for text in texts("taking", split):
        for s, m, told in re.findall(r"is (\d+) - (\d+)\? ([^.]*)\.", text):
            left = int(s) - int(m)
            assert told == (f"so {s} is under {m}" if left < 0 else f"{s} - {m} = {left}"), text


@pytest.mark.parametrize("split", SPLITS)
def test_counts_are_right(split):
    for text in texts("counting", split):
        shown, asked, said, number = re.search(
            r"shelf: ([a-z ,]+)\. How many are (\w+)\? (.*), so the number is (\d+)\.", text
        ).groups()
        things = [thing.split() for thing in shown.split(", ")]
        count, want = 0, []
        for colour, thing in things:
            count += colour == asked
            want.append(f"{colour} {thing} {count}")
        assert said == ", ".join(want)
        assert int(number) == count


@pytest.mark.parametrize("split", SPLITS)
def test_days_are_right(split):
    for text in texts("days", split):
        start, number, end = re.search(
            r"is (\w+)\. What day is it in (\d+) days\?.* it is (\w+)\.", text
        ).groups()
        assert DAYS[(DAYS.index(start) + int(number)) % 7] == end


@pytest.mark.parametrize("split", SPLITS)
def test_sequences_go_by_equal_steps_between_the_ends_that_are_named(split):
    for text in texts("sequences", split):
        asked, shown = (words.split() for words in text.rstrip(".").split(": "))
        assert [asked[2], asked[4]] == [shown[0], shown[-1]], text
        table = next(t for t in (MONTHS, LETTERS, [str(n) for n in range(100)]) if shown[0] in t)
        at = [table.index(word) for word in shown]
        steps = {(b - a) % len(table) for a, b in pairwise(at)}
        assert steps == {int(asked[-1]) if "steps" in asked else 1}, text


@pytest.mark.parametrize("split", SPLITS)
def test_programs_print_what_python_prints(split):
    for text in texts("programs", split):
        lines, printed = re.fullmatch(r"Run: (.*); print (\w: \d+)\.", text).groups()
        known: dict[str, int] = {}
        for line in lines.split("; "):
            name, told = line.split(" = ")[0], line.split(" = ")[-1]
            exec(line.split(" = ")[0] + " = " + line.split(" = ")[1], {}, known)
            assert known[name] == int(told), text
        variable, value = printed.split(": ")
        assert known[variable] == int(value)


@pytest.mark.parametrize("split", SPLITS)
def test_brackets_are_closed_by_what_makes_them_balanced(split):
    depths = set()
    for text in texts("brackets", split):
        marks = text.removeprefix("Brackets: ").removesuffix(".").replace(" close:", "")
        rest = marks.replace(" ", "")
        while (shorter := re.sub(r"\(\)|\[\]|\{\}|<>", "", rest)) != rest:
            rest = shorter
        assert not rest, text
        depths.add(len(text.split("close:")[1].split()))
    assert depths == set(range(1, 9))


@pytest.mark.parametrize("split", SPLITS)
def test_lists_are_copied_and_turned_around(split):
    for text in texts("copying", split):
        given, again = re.fullmatch(r"Copy: (.*)\. Again: (.*)\.", text).groups()
        assert given == again
    for text in texts("reversing", split):
        given, back = re.fullmatch(r"Turn: (.*)\. Back: (.*)\.", text).groups()
        assert given.split() == back.split()[::-1]


@pytest.mark.parametrize("task", ["world", "handing"])
@pytest.mark.parametrize("split", SPLITS)
def test_people_and_things_are_where_the_last_sentence_left_them(split, task):
    for text in texts(task, split):
        place: dict[str, str] = {}
        holder: dict[str, str] = {}
        lies: dict[str, str] = {}
        sentences = re.findall(r"[^.?]+[.?]", text)
        for sentence in (s.strip() for s in sentences):
            if m := re.fullmatch(r"(\w+) (?:goes|walks|runs|returns) to the (\w+)\.", sentence):
                place[m[1]] = m[2]
            elif m := re.fullmatch(r"(\w+) (?:takes|grabs|finds) the (\w+)\.", sentence):
                holder[m[2]] = m[1]
                lies.pop(m[2], None)
            elif m := re.fullmatch(r"(\w+) gives the (\w+) to (\w+)\.", sentence):
                assert holder[m[2]] == m[1]
                holder[m[2]] = m[3]
            elif m := re.fullmatch(r"(\w+) leaves the (\w+) in the (\w+)\.", sentence):
                assert holder.pop(m[2]) == m[1]
                assert place[m[1]] == m[3]
                lies[m[2]] = m[3]
            elif m := re.fullmatch(r"(\w+) is in the (\w+)\.", sentence):
                assert place[m[1]] == m[2], text
            elif m := re.fullmatch(r"The (\w+) is with (\w+)\.", sentence):
                assert holder[m[1]] == m[2], text
            elif m := re.fullmatch(r"The (\w+) is with (\w+), and \2 is in the (\w+)\.", sentence):
                assert (holder[m[1]], place[m[2]]) == (m[2], m[3]), text
            elif m := re.fullmatch(r"The (\w+) is in the (\w+)\.", sentence):
                assert lies[m[1]] == m[2], text
            else:
                assert sentence.startswith(("Where is", "Who has")), sentence


FACT = re.compile(
    r"(?:(?P<a>\w+)'s (?P<ra>\w+) is|The (?P<rb>\w+) of (?P<b>\w+) is"
    r"|(?P<c>\w+) says that the (?P<rc>\w+) is) (?P<v>\w+)\."
)


def told(text: str) -> list[tuple[str, str, str]]:
    return [
        (m["a"] or m["b"] or m["c"], m["ra"] or m["rb"] or m["rc"], m["v"])
        for m in FACT.finditer(text)
    ]


@pytest.mark.parametrize("task", ["facts", "between"])
@pytest.mark.parametrize("split", SPLITS)
def test_a_fact_is_answered_as_it_was_told_and_asked_once(task, split):
    for text in texts(task, split):
        found = told(text)
        assert {(key, relation) for key, relation, _ in found}
        for key, relation, value in found:
            assert found.count((key, relation, value)) == 2, text
            assert {v for k, r, v in found if (k, r) == (key, relation)} == {value}


@pytest.mark.parametrize("split", SPLITS)
def test_a_listed_key_is_found_with_its_value(split):
    for text in texts("listed", split):
        listed, found = re.fullmatch(r"List:(.*), Find:(.*),", text).groups()
        assert sorted(listed.split(",")) == sorted(found.split(",")), text


# the split


def test_no_held_out_pair_is_told_in_training():
    for task in ("facts", "between"):
        for text in texts(task, "train"):
            assert not any(is_held_out(relation, key, v) for key, relation, v in told(text))
    for text in texts("listed", "train"):
        for pair in re.fullmatch(r"List: (.*), Find:.*", text)[1].split(", "):
            assert not is_held_out("listed", *pair.split())
    for text in (*texts("world", "train"), *texts("handing", "train")):
        for person, place in re.findall(r"(\w+) is in the (\w+)", text):
            assert person not in NAMES or not is_held_out("where", person, place)
        for thing, person in re.findall(r"The (\w+) is with (\w+)", text):
            assert not is_held_out("has", thing, person)


def test_each_step_of_a_held_out_chain_is_told_in_training():
    """Else an answer could not be right but by chance: a step of a table is learned by heart."""
    assert chain_steps("held-out") <= chain_steps("train")


def chain_steps(split: str) -> set[tuple[str, str, str]]:
    """What is done at a step, from what to what, in remainders and sequences."""
    found = set()
    for text in texts("remainder", split, CHAINS):
        found |= {(f"take {m}", a, b) for a, m, b in TAKEN.findall(text)}
    for text in texts("sequences", split, CHAINS):
        asked, shown = text.rstrip(".").split(": ")
        step = asked.rpartition(" of ")[2] if " of " in asked else "1"
        found |= {(f"add {step}", a, b) for a, b in pairwise(shown.split())}
    return found


def test_no_held_out_sum_is_told_in_training_by_any_task():
    for task in TASKS:
        for text in texts(task, "train"):
            for a, b in re.findall(r"(?<!\+ )\b(\d+) \+ (\d+)\b(?! \+)", text):
                pair = sorted((int(a), int(b)))
                assert pair[0] < 10 or not is_held_out("sum", *pair), text


SEQUENCES = (
    "copying",
    "reversing",
    "spelling",
    "adding",
    "remainder",
    "counting",
    "days",
    "programs",
)


@pytest.mark.parametrize("task", [*SEQUENCES, "sequences", "brackets"])
def test_what_is_asked_in_one_split_is_never_asked_in_the_other(task):
    def asked(split: str) -> set[str]:
        return {
            "".join(piece.text for piece in page.pieces if piece.role != "answer")
            for page in pages(task, split, 300)
        }

    assert not asked("train") & asked("held-out")


def test_held_out_pages_count_what_is_held_out_and_nothing_else():
    counted = 0
    for page in pages("facts", "held-out"):
        for piece in page.pieces:
            for key, relation, value in told(piece.text.strip()) if piece.role == "answer" else ():
                assert bool(piece.task) == is_held_out(relation, key, value)
                counted += bool(piece.task)
    assert counted > PAGES


def test_about_a_tenth_is_held_out_and_everybody_has_a_place_to_be_seen_in():
    pairs = [(name, place) for name in NAMES for place in PLACES]
    share = sum(is_held_out("where", *pair) for pair in pairs) / len(pairs)
    assert 0.07 < share < 0.13
    for name in NAMES:
        value, held = partner(random.Random(0), "train", "where", name, PLACES)
        assert value in PLACES
        assert not held


def test_a_split_that_cannot_be_drawn_is_said():
    with pytest.raises(ValueError, match="none was for the split 'held-out'"):
        draw(random.Random(0), "held-out", lambda: 1, lambda made: False)


# text that was never in the corpus


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Zorin and Mira",
        "\n\n  two  blanks\t",
        "é 漢字 🙂🏽",
        "<bos> <pad>",
        "1234",
        "\x00\x7f",
        "A" * 300,
    ],
)
def test_any_text_can_be_typed_and_comes_back(corpus, text):
    assert corpus.tokenizer.decode(corpus.tokenizer.encode(text)) == text


def test_a_known_word_is_one_token_and_an_unknown_one_is_spelled(corpus):
    assert len(corpus.tokenizer.encode(" kitchen")) == 1
    assert len(corpus.tokenizer.encode(" 42")) == 1
    assert len(corpus.tokenizer.encode(" zorin")) == 6
