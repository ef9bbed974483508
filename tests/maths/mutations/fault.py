"""A planted fault: one edit of the source of one function of the model, and what must turn red."""

import inspect
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, reduce
from importlib import import_module
from textwrap import indent
from types import CodeType, FunctionType
from typing import Any

import pytest

K3, K2, LINEAR = "tiny-k3", "tiny-k2", "tiny-kimi-linear"
PREFILL, DECODE = "prefill", "decode"

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Fault:
    says: str
    """What the model does instead."""
    model: str
    phase: str
    where: str
    """`module:function` or `module:Class.method` under `model`."""
    edits: Edits
    """Pieces of the source, each of which stands in it once, and what replaces them."""
    red: frozenset[str]
    """Identities that must notice; others may, too."""
    missed: str = ""
    """Why nothing turns red; empty where something must."""
    mla: str = "expanded"
    changes: Mapping[str, Any] = field(default_factory=dict)
    """To the configuration, where the small one does not use the function."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """`module:NAME`, so that a short prompt takes the path of a long one."""

    @property
    def owner(self) -> str:
        """Class of the method, or the function itself."""
        return self.where.rpartition(":")[2].split(".")[0]


def fault(
    says: str, model: str, phase: str, where: str, *edits: str, red: str = "", **more: Any
) -> Fault:
    """`edits` alternate between what stands in the source and what replaces it."""
    pairs = tuple(zip(edits[::2], edits[1::2], strict=True))
    names = frozenset(red.split())
    return Fault(says=says, model=model, phase=phase, where=where, edits=pairs, red=names, **more)


def function_at(where: str) -> FunctionType:
    module, _, name = where.partition(":")
    *owners, attribute = name.split(".")
    owner = reduce(getattr, owners, import_module(f"model.{module}"))
    found = vars(owner)[attribute]
    if isinstance(found, cached_property):
        return found.func  # pyright: ignore[reportReturnType]
    return found


def edited(function: FunctionType, edits: Edits) -> CodeType:
    """The code of a function whose source was edited.

    Raises LookupError where a piece does not stand in it exactly once.
    """
    source = inspect.getsource(function)
    for old, new in edits:
        if source.count(old) != 1:
            raise LookupError(
                f"{function.__qualname__} has {old!r} {source.count(old)} times; a fault needs a "
                "piece of it that stands there once."
            )
        source = source.replace(old, new)
    # inside a class, so that a method's super() finds its cell
    first = len(source) - len(source.lstrip())
    whole = compile("class Owner:\n" + indent(source, " " * (0 if first else 4)), "<fault>", "exec")
    body = next(part for part in whole.co_consts if isinstance(part, CodeType))
    codes = [part for part in body.co_consts if isinstance(part, CodeType)]
    return next(code for code in codes if code.co_name == function.__name__)


@contextmanager
def planted(item: Fault):
    """The whole process runs the faulty function, whoever imported it, until this ends."""
    function = function_at(item.where)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in item.constants.items():
            module, _, constant = name.partition(":")
            patch.setattr(f"model.{module}.{constant}", value)
        patch.setattr(function, "__code__", edited(function, item.edits))
        yield
