"""The README's file tree is what the files say of themselves."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREE = runpy.run_path(str(ROOT / "docs" / "tree.py"))


def test_the_tree_of_the_readme_is_up_to_date():
    assert TREE["tree"]() in TREE["README"].read_text(), "run `python docs/tree.py`"


def test_every_folder_that_has_a_phrase_exists():
    assert [name for name in TREE["FOLDERS"] if not (ROOT / name).is_dir()] == []


def test_every_module_says_what_it_is():
    assert [name for _, name, said in TREE["rows"]() if not said] == []
