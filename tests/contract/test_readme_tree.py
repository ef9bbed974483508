"""The README's file tree names every folder and module, and nothing that is not there."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("app", "model", "annotations", "kernels", "tests", "docs")


def _tree() -> set[str]:
    """Paths in the README's tree; indentation is nesting, braces list siblings."""
    block = re.search(r"```tree\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block, "README.md has no ```tree block"
    paths: set[str] = set()
    parents: list[str] = []
    for line in block[1].splitlines():
        indent = (len(line) - len(line.lstrip())) // 2
        for name in re.split(r"\s{2,}", line.strip())[0].split():
            path = "/".join([*parents[:indent], name.rstrip("/")])
            paths.add(path)
            if name.endswith("/"):
                parents[indent:] = [name.rstrip("/")]
    return paths


def _tracked() -> set[str]:
    """Python modules, templates' folders and documents under version control."""
    listed = subprocess.run(
        ["git", "ls-files", *FOLDERS, "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    modules = {path for path in listed if path.endswith(".py") and not path.endswith("__init__.py")}
    folders = {str(Path(path).parent) for path in listed if path}
    return modules | folders - {"."}


def test_every_module_and_folder_is_in_the_tree():
    covered = _tree()
    wholes = {
        path
        for path in covered
        if (ROOT / path).is_dir() and not any(other.startswith(path + "/") for other in covered)
    }
    missing = sorted(
        path
        for path in _tracked()
        if path not in covered and not any(path.startswith(whole + "/") for whole in wholes)
    )
    assert not missing, f"README.md's tree lacks {missing}"


def test_everything_in_the_tree_exists():
    gone = sorted(path for path in _tree() if not (ROOT / path).exists())
    assert not gone, f"README.md's tree names {gone}, which do not exist"
