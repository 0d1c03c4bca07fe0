"""What a project's own files ask for: requirements.txt, pyproject.toml, lists in a setup.py, a line of a README.

A file is only read: no code of a project runs.
"""

import ast
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

import tomli
from packaging.requirements import Requirement

from envspec.packages.names import normalise_requirement
from envspec.packages.requirement import canonical_name, parse_requirement

Reader = Callable[[str], str]
"""Gives the text of a file by its path in the project."""


def own_requirements(read: Reader, files: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...]:
    """List the requirements of these files, normalised and sorted.

    `parts` names what of a file counts besides its plain requirements: extras of a pyproject.toml, lists and functions
    of a setup.py, or the line of any other file, as it stands there, whose words behind `install` are the requirements.
    """
    found: set[str] = set()
    for path in files:
        name = PurePosixPath(path).name
        if name == "pyproject.toml":
            texts = _project(read(path), parts)
        elif name == "setup.py":
            texts = _setup(read(path), parts)
        elif name.endswith(".txt"):
            texts = _requirements_file(read, path)
        else:
            texts = _lines(read(path), path, parts)
        found.update(texts)
    return joined(found)


def own_bounds(read: Reader, files: tuple[str, ...]) -> tuple[str, ...]:
    """List what uv's table in a pyproject.toml bounds beside the requirements, as `listed_bounds` does."""
    found: list[tuple[str, ...]] = []
    for path in files:
        if PurePosixPath(path).name == "pyproject.toml":
            table = tomli.loads(read(path)).get("tool", {}).get("uv", {})
            found.append(
                listed_bounds(table.get("constraint-dependencies", ()), table.get("override-dependencies", ()))
            )
    return tuple(sorted(line for several in found for line in several))


def listed_bounds(constraints: Iterable[str], overrides: Iterable[str]) -> tuple[str, ...]:
    """Normalise constraints and overrides, and list them with what each is; sorted."""
    return tuple(
        sorted(
            f"{kind} {normalise_requirement(text)}"
            for kind, texts in (("constraint", constraints), ("override", overrides))
            for text in texts
        )
    )


def joined(texts: Iterable[str]) -> tuple[str, ...]:
    """Normalise requirements and join those of the same package and marker, as a spec has them; sorted."""
    together: dict[tuple[str, str, str], Requirement] = {}
    for text in texts:
        one = parse_requirement(text)
        key = (canonical_name(one.name), str(one.marker or ""), one.url or "")
        first = together.setdefault(key, one)
        first.extras |= one.extras
        first.specifier &= one.specifier
    return tuple(sorted(normalise_requirement(str(one)) for one in together.values()))


def _requirements_file(read: Reader, path: str) -> Iterator[str]:
    """Yield the requirements of a requirements.txt and of those that it includes. Options ask for nothing, nor
    does the project itself."""
    for line in read(path).splitlines():
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if included := re.fullmatch(r"(?:-r|--requirement)[\s=]*(\S+)", text):
            yield from _requirements_file(read, str(PurePosixPath(path).parent / included[1]))
        elif text and not text.startswith(("-", ".")):
            yield text


def _project(text: str, extras: tuple[str, ...]) -> Iterator[str]:
    """Yield a pyproject.toml's dependencies and those of its extras, those that name the project itself followed."""
    project = tomli.loads(text)["project"]
    of_extras = {canonical_name(name): texts for name, texts in project.get("optional-dependencies", {}).items()}
    waiting = [*project.get("dependencies", ()), *(f"{project['name']}[{extra}]" for extra in extras)]
    for one in waiting:
        asked = parse_requirement(one)
        if canonical_name(asked.name) == canonical_name(project["name"]):
            waiting += [text for extra in sorted(asked.extras) for text in of_extras[canonical_name(extra)]]
        else:
            yield one


def _setup(text: str, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the strings of lists that a setup.py assigns, gives to a keyword or to a key, or a function returns."""
    values: dict[str, ast.expr] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign):
            values.update({target.id: node.value for target in node.targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.keyword) and node.arg:
            values.setdefault(node.arg, node.value)
        elif isinstance(node, ast.Dict):
            values.update(
                {key.value: one for key, one in zip(node.keys, node.values, strict=True)
                 if isinstance(key, ast.Constant) and isinstance(key.value, str)}
            )  # fmt: skip
        elif isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return) and node.body[-1].value:
            values[node.name] = node.body[-1].value
    for name in names:
        yield from _strings(ast.Name(name), values)


def _strings(node: ast.expr, values: dict[str, ast.expr]) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.Starred):
        yield from _strings(node.value, values)
    elif isinstance(node, ast.Name):
        yield from _strings(values[node.id], values)
    elif isinstance(node, ast.List):
        for one in node.elts:
            yield from _strings(one, values)
    else:
        raise ValueError(f"line {node.lineno} isn't a list of strings")


def _lines(text: str, path: str, lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        if line not in text:
            raise ValueError(f"{path} has no line `{line}`")
        words = shlex.split(line)
        yield from (word for word in words[words.index("install") + 1 :] if not word.startswith("-"))
