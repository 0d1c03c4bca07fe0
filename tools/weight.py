"""Weight of the repository: `python tools/weight.py FOLDER…`, from its root: lines of code below folders, words of
docs, committed lines of recipes, and lines over 120 characters.

A line counts once if a token of the program stands on it; blank lines, comments and docstrings don't. Modules in a
folder called `carried` aren't counted: they are programs of their own, which are copied into images.
"""

from __future__ import annotations

import ast
import io
import signal
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

LAYOUT = frozenset(
    (
        *(tokenize.ENCODING, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT),
        *(tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT),
    )
)
"""The tokens that are no code."""
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md")
"""What people read, as git's patterns: `*` is of any depth."""
WIDE = 120


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
    """Count the code below a folder."""
    paths = [path for path in folder.rglob("*.py") if "carried" not in path.parts]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    code, lines = sum(map(code_lines, texts)), sum(text.count("\n") for text in texts)
    return f"{folder}: {code} lines of code ({lines} of all kinds) in {len(texts)} modules"


def files_of(root: Path, *patterns: str) -> Iterator[Path]:
    """Yield the text files that git tracks, by its patterns."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=root, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (path := root / name).is_file() and not path.is_symlink() and b"\0" not in path.read_bytes():
            yield path


def words(root: Path) -> dict[str, int]:
    """Count the words of each page: what stands between spaces and has a letter or a digit."""
    texts = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in files_of(root, *PAGES)}
    return {name: sum(any(map(str.isalnum, word)) for word in text.split()) for name, text in texts.items()}


def wide_lines(root: Path, *patterns: str) -> int:
    """Count the lines over 120 characters."""
    texts = (path.read_text("utf-8", errors="replace") for path in files_of(root, *patterns))
    return sum(len(line) > WIDE for text in texts for line in text.splitlines())


def other_weights(root: Path) -> Iterator[str]:
    """Give a line each for the docs, the recipes and the wide lines."""
    pages = words(root)
    yield f"docs: {sum(pages.values())} words in {len(pages)} pages"
    recipes = list(files_of(root, "recipes"))
    lines = sum(path.read_text("utf-8").count("\n") for path in recipes)
    yield f"recipes: {lines} lines in {len(recipes)} files, {wide_lines(root, 'recipes')} over {WIDE} characters"
    yield f"code: {wide_lines(root, '*.py', '*.sh', '*.j2', 'Makefile')} lines over {WIDE} characters"


if __name__ == "__main__":
    # a reader such as `head` may stop early: end in silence, as other programs of a pipe do
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for name in sys.argv[1:]:
        print(weight(Path(name)))
    for text in other_weights(Path()):
        print(text)
