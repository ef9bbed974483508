"""Rules of the house that no linter knows."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_python_file_is_longer_than_500_lines():
    long = {
        str(p.relative_to(ROOT)): n
        for p in _tracked("*.py")
        if (n := len(p.read_text().splitlines())) > 500
    }
    assert not long


def test_no_file_is_called_utils_or_helpers():
    assert not [p for p in _tracked("*.py") if p.stem in {"utils", "helpers", "common", "misc"}]


def test_package_markers_are_empty_and_tests_have_none():
    for path in _tracked("*__init__.py"):
        assert "tests" not in path.relative_to(ROOT).parts
        if "components" not in path.parts:
            assert not path.read_text().strip(), path


def test_nothing_names_a_path_of_one_machine():
    pattern = re.compile(r"(^|[^A-Za-z0-9_.-])/(work|home|root|Users)/")
    for path in _tracked("*.py", "*.md", "*.toml", "*.js", "*.css", "*.html", "*.j2", "Makefile"):
        if path.name != Path(__file__).name:
            assert not pattern.search(path.read_text()), path


def test_the_display_path_draws_no_random_numbers():
    for path in _tracked("app/*.py", "app/*.js"):
        text = path.read_text()
        assert "Math.random" not in text, path
        assert not re.search(r"\b(np\.random|import random|torch\.rand)", text), path


def test_every_link_of_the_documents_leads_to_a_file():
    for page in _tracked("*.md"):
        if "annotations" in page.parts:
            continue
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), (page.name, target)
