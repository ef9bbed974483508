"""Write the README's file tree from what the files say of themselves.

`python docs/tree.py` rewrites the block; a contract test compares.
"""

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"```tree\n.*?```", re.DOTALL)
FOLDERS = {
    "app": "the Streamlit app, and the only place that imports it",
    "app/components": "custom components: Python wrappers with their scripts and styles",
    "app/components/bridge": "what the server wants the page to know; writes the address",
    "app/components/prompt_count": "counts tokens while one types",
    "app/components/reader": "the reading half: outline, context rule, pages, graph, search",
    "app/components/tensor_canvas": "heatmaps with exact values",
    "app/example": "the stored run that greets a first visitor, and the command that makes it",
    "app/figures": "plain data to figure; no Streamlit",
    "app/panels": "parts of the live half, each a function; their templates",
    "app/panels/templates": "their HTML",
    "app/reader": "nodes rendered once to HTML, MathML and polynomial coefficients",
    "app/templates": "Jinja templates of pages, and the frame's style sheet",
    "app/views": "one function a view; wiring only",
    "model": "the running model, its sizes and its equations",
    "model/identities": "each equation computed again in float64, not by calling the layer",
    "model/presets": "configurations: the released ones with their pins, and small ones",
    "model/training": "k3-mini's world of words, its training and its evaluation",
    "model/training/tasks": "what it is trained on, a file a kind of task",
    "model/weights": "what the shipped model is loaded from",
    "model/weights/k3-mini": "k3-mini as it was trained: weights, tokenizer, figures, card",
    "annotations": "what we say about the model: data, no torch",
    "annotations/nodes": "a Markdown file a node, by family; the path is its id",
    "annotations/kernels": "a page a kernel: what it computes, names and tiles; and GPUs",
    "annotations/outline": "which nodes a model has, in what order",
    "kernels": "Triton kernels, each with a launcher like the function of the model it replaces",
    "kernels/cases": "each kernel at the sizes of a released model",
    "kernels/results": "what compiling and timing the kernels gave",
    "tests": "named for what they prove",
    "tests/bench": "ratios against other implementations, reported",
    "tests/browser": "the real app in headless Chromium",
    "tests/contract": "facts, nodes, taps, imports and documents agree",
    "tests/hub": "checkpoints on a Hub of our own on loopback, which can fail in every way",
    "tests/load": "many readers at once",
    "tests/maths": "the model against its equations",
    "tests/maths/mutations": "faults to plant in the model, each of which an equation must notice",
    "tests/parity": "the model against an independent implementation",
    "tests/parity/triton": "kernels against the model, in the interpreter or on a GPU",
    "tests/screens": "every page renders; every bad address is answered",
    "docs": "pictures, and decisions that were weighed",
    "docs/decisions": "ten lines each",
}
WHOLE = ("annotations/nodes",)
"""Folders whose own folders are not listed."""
ASSETS = ("css", "js", "shots")
"""Folders that the phrase of the folder above covers."""
TOP = ("streamlit_app.py",)


def tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in listed.splitlines() if (ROOT / name).is_file())


def phrase(module: str) -> str:
    """First sentence of a module's docstring."""
    said = ast.get_docstring(ast.parse((ROOT / module).read_text(encoding="utf-8"))) or ""
    first = re.split(r"(?<=[.])\s", said.replace("\n", " "), maxsplit=1)[0]
    return first.rstrip(".")


def rows() -> list[tuple[int, str, str]]:
    """Depth, name and phrase of every folder and module, in reading order."""
    files = tracked()
    found = [(0, name, phrase(name)) for name in TOP]
    for top in ("app", "model", "annotations", "kernels", "tests", "docs"):
        found += _folder(top, files, 0)
    return found


def _folder(folder: str, files: list[str], depth: int) -> list[tuple[int, str, str]]:
    if folder not in FOLDERS:
        raise LookupError(f"docs/tree.py has no phrase for the folder {folder}")
    found = [(depth, Path(folder).name + "/", FOLDERS[folder])]
    if folder in WHOLE:
        return found
    inside = [name for name in files if name.startswith(folder + "/")]
    modules = [n for n in inside if str(Path(n).parent) == folder and n.endswith(".py")]
    for module in modules:
        if not module.endswith("__init__.py"):
            found.append((depth + 1, Path(module).name, phrase(module)))
    below = {
        n.split("/")[folder.count("/") + 1] for n in inside if n.count("/") > folder.count("/") + 1
    }
    for name in sorted(below):
        if name not in ASSETS:
            found += _folder(f"{folder}/{name}", files, depth + 1)
    return found


def tree() -> str:
    listed = rows()
    width = max(2 * depth + len(name) for depth, name, _ in listed) + 2
    lines = [f"{'  ' * depth}{name}".ljust(width) + said for depth, name, said in listed]
    return "```tree\n" + "\n".join(line.rstrip() for line in lines) + "\n```"


def main() -> None:
    text = README.read_text(encoding="utf-8")
    README.write_text(BLOCK.sub(lambda _: tree(), text), encoding="utf-8")


if __name__ == "__main__":
    main()
