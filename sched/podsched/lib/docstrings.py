"""Reads the docstrings below the attributes of a class, which Python does not keep at run time."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise


def attribute_docstrings(kind: type) -> dict[str, str]:
    """Return the first paragraph of the docstring below each attribute that has one, by name.

    Attributes of base classes are not included. The class must be defined at the top of its module,
    whose source code is parsed.
    """
    return _texts(kind.__module__).get(kind.__name__, {})


@cache
def _texts(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _texts_in(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _texts_in(kind: ast.ClassDef) -> dict[str, str]:
    texts = {}
    for statement, below in pairwise(kind.body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = inspect.cleandoc(text).partition("\n\n")[0].replace("\n", " ")
    return texts
