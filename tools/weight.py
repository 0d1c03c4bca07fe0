"""Lines of code below folders: `python tools/weight.py FOLDER…`, from the repository's root.

A line counts once if a token of the program stands on it; blank lines, comments and docstrings don't. Modules in a
folder called `carried` aren't counted: they are programs of their own, which are copied into images.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

LAYOUT = frozenset(
    (
        *(tokenize.ENCODING, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT),
        *(tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT),
    )
)
"""The tokens that are no code."""


def code_lines(source: str) -> int:
    """Count the lines of code of a module's text."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {line for token in tokens if token.type not in LAYOUT for line in range(token.start[0], token.end[0] + 1)}
    return len(code.difference(*map(_docstring, ast.walk(ast.parse(source)))))


def _docstring(node: ast.AST) -> range:
    """Give the lines of a node's docstring; none if it has no docstring."""
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return range(0)
    if ast.get_docstring(node, clean=False) is None:
        return range(0)
    return range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


def weight(folder: Path) -> str:
    """Say how much code lies below a folder."""
    paths = [path for path in folder.rglob("*.py") if "carried" not in path.parts]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    code, lines = sum(map(code_lines, texts)), sum(text.count("\n") for text in texts)
    return f"{folder}: {code} lines of code ({lines} of all kinds) in {len(texts)} modules"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(weight(Path(name)))
