"""The scripts of our live components: every part is joined, and what is joined is a module."""

import shutil
import subprocess

import pytest

from app.components.prompt_count import mount as prompt_count
from app.components.tensor_canvas import mount as tensor_canvas


def test_every_part_of_the_canvas_is_joined_once():
    files = {path.name for path in tensor_canvas.HERE.glob("*.js")}
    # a figure's own mount has a script by itself
    assert sorted(tensor_canvas.PARTS) == sorted(files - {"frame.js"})
    assert tensor_canvas.script().count("export default") == 1


def test_the_joined_script_is_a_module(tmp_path):
    node = shutil.which("node")
    path = tmp_path / "joined.mjs"
    path.write_text(tensor_canvas.script(), encoding="utf-8")
    # without Node the browser tests are the first to read it
    if node is not None:
        done = subprocess.run([node, "--check", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_no_script_or_style_is_one_line_that_streamlit_takes_for_a_path():
    for folder in (tensor_canvas.HERE, prompt_count.HERE):
        for path in (*folder.glob("*.js"), *folder.glob("*.css")):
            assert path.read_text(encoding="utf-8").strip().count("\n") > 1, path.name


def test_a_figure_of_an_unknown_kind_is_refused_in_words():
    with pytest.raises(ValueError, match="not 'pie'"):
        tensor_canvas.tensor_canvas({"kind": "pie"}, key="x")
