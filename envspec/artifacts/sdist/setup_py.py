"""The literals of a setup.py, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

FINDERS = ("find_packages", "find_namespace_packages")


def literals_of(tree: ast.Module) -> dict[str, object]:
    """Read the names to which a setup.py assigns literals."""
    known: dict[str, object] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name), *_], value):
                try:
                    known[name] = literal(value, known)
                except ValueError:
                    known.pop(name, None)
    return known


def is_call(called: ast.expr, names: Sequence[str]) -> bool:
    """Return whether a call is of one of these functions of setuptools."""
    match called:
        case ast.Name(name) | ast.Attribute(ast.Name("setuptools"), name):
            return name in names
    return False


def literal(value: ast.expr, known: Mapping[str, object]) -> object:
    """Evaluate a literal, a name of one, or a search for packages, which gives none here. Raises ValueError."""
    try:
        match value:
            case ast.Name(name) if name in known:
                return known[name]
            case ast.Call(called, arguments, keywords) if is_call(called, FINDERS):
                for argument in (*arguments, *(keyword.value for keyword in keywords)):
                    if any(map(leads_out, texts_in(ast.literal_eval(argument)))):
                        raise ValueError("a search outside of the source")
                return []
        return ast.literal_eval(value)
    except (TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("no literal") from error


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts of a value of literals."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from texts_in(tuple(value.items()))
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from texts_in(part)


def leads_out(text: str) -> bool:
    """Return whether a path leaves the folder that a build unpacks or writes to: such a build could write code that
    runs later."""
    return ".." in text.replace("\\", "/").split("/") or text.startswith(("/", "\\", "~")) or text[1:2] == ":"


def requirement_lines(value: object) -> list[str] | None:
    """Read requirements as setuptools takes them: a list, or a text of lines."""
    texts = value.splitlines() if isinstance(value, str) else () if value is None else value
    if not isinstance(texts, list | tuple) or not all(isinstance(line, str) for line in texts):
        return None
    lines = [line.strip() for line in texts if line.strip() and not line.strip().startswith("#")]
    return None if any("\n" in line or line.startswith("[") for line in lines) else lines
