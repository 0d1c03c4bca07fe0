"""Twenty-five changes from the histories of public repositories: each review begins with what matters, at the risk that
a careful reviewer gives it. The files are made anew from recorded facts: names, versions, edges, files."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli
from review_heads import head, lacking

from envspec.lock.formats.foreign.read import sides
from envspec.review.diff.markdown import markdown
from envspec.review.diff.review import review

pytestmark = pytest.mark.nightly

HERE = Path(__file__).parent / "twenty_five"
FACTS: Mapping[str, Any] = json.loads(gzip.decompress((HERE / "facts.json.gz").read_bytes()))
EXPECTED: Mapping[str, Any] = tomli.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
WRONG = frozenset({"04"})
"""sphinx-autodoc-typehints goes back for every Python, and the file has no reason: high, where medium was expected."""
INDEX = "https://mirror.example.org/pypi/simple"


def edge(name: str, marker: str, extra: Sequence[str], version: str) -> str:
    parts = [f"name = {json.dumps(name)}"]
    parts += [f"version = {json.dumps(version)}", f'source = {{ registry = "{INDEX}" }}'] if version else []
    parts += [f"extra = {json.dumps(extra)}"] if extra else []
    parts += [f"marker = {json.dumps(marker)}"] if marker else []
    return f"{{ {', '.join(parts)} }}"


def edges(rows: Sequence[Any]) -> str:
    return f"[{', '.join(edge(*row) for row in rows)}]"


def package(row: Mapping[str, Any]) -> str:
    kinds = {"index": f'registry = "{INDEX}"', "own": 'virtual = "."'}
    source = kinds.get(row["source"]) or f"git = {json.dumps(row['source'])}"
    lines = ["[[package]]", f'name = "{row["name"]}"', f'version = "{row["version"]}"', f"source = {{ {source} }}"]
    lines += [f"resolution-markers = {json.dumps(row['markers'])}"] if "markers" in row else []
    lines += [f"dependencies = {edges(row['requires'])}"] if "requires" in row else []
    files = [
        (name, f'{{ url = "https://files.example.org/{name}", hash = "{digest}", size = {size} }}')
        for name, digest, size in row["files"]
    ]
    wheels = [text for name, text in files if name.endswith(".whl")]
    lines += [f"wheels = [{', '.join(wheels)}]"] if wheels else []
    lines += [f"sdist = {text}" for name, text in files if not name.endswith(".whl")]
    for key, table in (
        ("extras", "optional-dependencies"),
        ("groups", "dev-dependencies"),
        ("groups-of-old", "dependency-groups"),
    ):
        if key in row:
            lines.append(f"[package.{table}]")
            lines += [f"{json.dumps(name)} = {edges(found)}" for name, found in row[key].items()]
    return "\n".join(lines) + "\n"


def written(change: Mapping[str, Any], side: str) -> str:
    if change["file"] == "requirements.txt":
        return "".join(f"{line}\n" for line in change[side])
    own = change[side]
    head = f'version = 1\nrevision = 3\nrequires-python = "{own["python"]}"\n'
    head += f"resolution-markers = {json.dumps(own['markers'])}\n" if "markers" in own else ""
    if "conflicts" in own:
        conflicts = ", ".join(f"[{', '.join(f'{{ {_inline(one)} }}' for one in group)}]" for group in own["conflicts"])
        head += f"conflicts = [{conflicts}]\n"
    packages = sorted((*change["both"], *own["packages"]), key=lambda row: (row["name"], row["version"]))
    return "\n".join((head, *map(package, packages)))


def _inline(table: Mapping[str, str]) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_change_of_a_public_repository(name: str, tmp_path: Path) -> None:
    change, expected = FACTS[name], EXPECTED[name]
    files = [tmp_path / side / change["file"] for side in ("old", "new")]
    for file in files:
        file.parent.mkdir()
        file.write_text(written(change, file.parent.name), encoding="utf-8")
    found = review(*sides(files[0], files[1]))
    top = head(markdown(found))
    missing = lacking(expected["top"], top)
    right = (found.risk, missing) == (expected["risk"], [])
    assert right is (name not in WRONG), top
