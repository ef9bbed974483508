"""What is said of kernels and the kernels agree: files, nodes, terms, tiles, launches, GPUs."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from annotations.gpu import gpus
from annotations.kernel import Kernel, load_kernels, parse, serving
from annotations.loader import load_nodes
from annotations.node import MODELS, NodeError, for_model
from annotations.outline import flat
from app.reader.kernel_source import functions, places, unknown_names
from app.reader.kernel_tiles import LAUNCHES, axes_of, drawn, launch_of, launches

ROOT = Path(__file__).parents[2]
KERNELS = load_kernels()
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def triton_functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name.endswith("_kernel")
        and any(ast.unparse(decorator) == "triton.jit" for decorator in node.decorator_list)
    }


def compiling(program: str) -> str:
    """What a program prints where Triton compiles rather than interprets."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def symbols_of(node: str) -> set[str]:
    whole = load_nodes()[node]
    return {symbol.tex for model in MODELS for symbol in for_model(whole, model).symbols}


def test_every_triton_kernel_stands_in_exactly_one_entry():
    here = {name for path in (ROOT / "kernels").glob("*.py") for name in triton_functions(path)}
    told = [f.name for k in KERNELS.values() for f in functions(k) if f.kind == "kernel"]
    assert sorted(told) == sorted(here)


def test_every_kernel_that_has_cases_has_an_entry_of_its_name():
    assert {case.partition(", ")[0] for case in launches()} == set(KERNELS)


@each_kernel
def test_every_node_that_a_kernel_computes_exists_in_a_model(kernel: Kernel):
    known = {entry.node for model in MODELS for entry in flat(model)}
    assert set(kernel.nodes) <= known
    assert all(kernel in serving(node) for node in kernel.nodes)


@each_kernel
def test_every_term_is_a_symbol_of_a_node_and_a_name_of_the_source(kernel: Kernel):
    letters = set().union(*(symbols_of(node) for node in kernel.nodes))
    assert [term.tex for term in kernel.terms if term.tex not in letters] == []
    assert unknown_names(kernel) == []
    assert all(places(kernel, term) for term in kernel.terms)


@each_kernel
def test_every_triton_function_has_a_tile_whose_axes_are_those_of_its_launch(kernel: Kernel):
    told = {tile.function for tile in kernel.tiles}
    assert told == {f.name for f in functions(kernel) if f.kind == "kernel"}
    letters = set().union(*(symbols_of(node) for node in kernel.nodes))
    for tile in kernel.tiles:
        arguments = launch_of(kernel, tile)["arguments"]
        walked = set()
        for operand in tile.operands:
            axes = axes_of(operand, tile, arguments)
            walked |= {axis.word for axis in axes if axis.is_walked}
            assert not operand.tex or operand.tex in letters, operand
        assert walked == set(tile.loops), tile.function


@each_kernel
def test_every_picture_holds_one_block_and_no_program_is_lost(kernel: Kernel):
    for tile in kernel.tiles:
        made = drawn(kernel, tile)
        assert made.programs > 0
        for picture in made.pictures:
            assert [cell.kind for cell in picture.cells].count("held") == 1
            assert picture.cells[-1].kind == "held"
            inside = [c.x + c.width <= picture.width + 0.1 for c in picture.cells]
            assert all(inside), picture.operand.of


def test_a_kernel_with_a_wrong_axis_is_told_apart():
    kernel = KERNELS["rms_norm"]
    tile = kernel.tiles[0]
    arguments = launch_of(kernel, tile)["arguments"] | {"x_ptr": [1, 2, 3]}
    with pytest.raises(LookupError, match="x_ptr is"):
        axes_of(tile.operands[0], tile, arguments)
    with pytest.raises(LookupError, match="no number 'ROWS'"):
        axes_of(tile.operands[0], tile, {"x_ptr": [4, 8]})


def test_the_committed_launches_are_what_the_launchers_give():
    made = compiling("from kernels.launches import text; print(text(), end='')")
    assert json.loads(LAUNCHES.read_text(encoding="utf-8")) == json.loads(made), (
        "run `python -m kernels.launches`"
    )


def test_every_gpu_is_a_compile_target_with_its_shared_memory():
    made = compiling(
        "import json; from kernels.targets import TARGETS; "
        "print(json.dumps({t.name: t.shared_limit for t in TARGETS.values()}))"
    )
    limits = json.loads(made)
    assert {gpu.target for gpu in gpus()} == set(limits)
    assert [gpu.id for gpu in gpus() if gpu.shared != limits[gpu.target]] == []
    assert all(gpu.ridge > 1 for gpu in gpus())


FAULTS = {
    "no facts": ("title = 'x'", "must begin with facts"),
    "an unknown key": ("+++\ncolour = 'red'\n+++\n", "colour"),
    "a missing title": ("+++\nfiles = []\n+++\n", "title"),
    "no such phase": (
        "+++\ntitle = ''\nlede = ''\nfiles = []\nnodes = []\ncall = ''\nphase = 'noon'\n+++\n",
        "phase 'noon'",
    ),
    "an axis without its block": (
        "+++\n[[tile]]\nfunction = ''\ncase = ''\nsays = ''\n"
        "operand = [{of = 'x_ptr', role = 'in', axes = ['row']}]\n+++\n",
        "axis 'row'",
    ),
    "no such role": (
        "+++\n[[tile]]\nfunction = ''\ncase = ''\nsays = ''\n"
        "operand = [{of = 'x_ptr', role = 'aside', axes = []}]\n+++\n",
        "role 'aside'",
    ),
}


@pytest.mark.parametrize(("text", "said"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_file_is_named_with_its_fault(tmp_path: Path, text: str, said: str):
    with pytest.raises(ValueError, match=said):
        parse("broken", text)
    (tmp_path / "broken.md").write_text(text)
    with pytest.raises(NodeError, match=r"kernels/broken\.md: "):
        load_kernels(tmp_path)
