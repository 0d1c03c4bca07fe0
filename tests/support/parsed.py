"""The package's source texts, parsed once for all tests that look through them: these are of one group, `PARSED`."""

import ast
import gc
from functools import cache

import pytest

PARSED = pytest.mark.xdist_group("parsed")
"""For a test that reads every module: one worker parses the package, and once."""


@cache
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """Every node of a source text, the module first. Looking for garbage would take longer, and finds none."""
    gc.disable()
    try:
        return tuple(ast.walk(ast.parse(source)))
    finally:
        gc.enable()
