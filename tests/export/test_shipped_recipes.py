"""The committed recipes: every shipped spec's and target's, as `envspec export` writes them now, each text once."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from envspec_check.lock import read_target

from envspec.export.carried import check_files
from envspec.export.folder import OF_A_SPEC, OF_A_TARGET, OF_ALL, OWN, RECIPES, render_all, render_all_of_spec
from envspec.export.leftovers import CONTAINERS, removable
from envspec.export.make import make_spec_plan
from envspec.export.plan import SHARED_FOLDER, SUMS
from envspec.lock.judge import SoundLock
from envspec.lock.read import load
from envspec.spec.parse import load_spec

ROOT = Path(__file__).resolve().parents[2]
SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.toml") if path.stem != "dev")
"""`dev` is what envspec is developed with, on the developer's own machine: no image is made of it."""
LINES = 27_000
"""Of all recipes: a reviewer and a checkout have to bear them."""


def committed(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text("utf-8") for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", SPECS)
def test_they_are_what_export_writes(name: str) -> None:
    spec, lock = load_spec(ROOT / "specs" / f"{name}.toml"), load(ROOT / "locks" / name / "envspec.lock")
    plan = make_spec_plan(spec, SoundLock(lock), f"recipes/{name}")
    of_targets = [name for name in OF_A_TARGET if name in OF_ALL]
    rendered = [*(files for of in plan.targets for files in render_all(of, of_targets).values())]
    rendered += render_all_of_spec(plan).values()
    expected = {path: text for files in rendered for path, text in files.items()}
    found = committed(ROOT / "recipes" / name)
    found |= {f"../{SHARED_FOLDER}/{path}": text for path, text in committed(ROOT / "recipes" / SHARED_FOLDER).items()}
    found["../.dockerignore"] = (ROOT / "recipes" / ".dockerignore").read_text("utf-8")
    for of in plan.targets:
        folder = ROOT / CONTAINERS / of.title
        found |= {f"../../{CONTAINERS}/{of.title}/{path}": text for path, text in committed(folder).items()}
    assert [*found] != [] and sorted(found) == sorted(expected)
    for of in plan.targets:
        target = ROOT / "recipes" / name / of.target / "target.json"
        assert read_target(str(target))["lock_digest"] == of.lock_digest
    differing = [path for path, text in expected.items() if found[path] != text]
    assert differing == [], f"envspec export specs/{name}.toml --format all -o recipes/{name}"


@pytest.mark.parametrize("name", SPECS)
def test_a_formats_row_names_its_files(name: str) -> None:
    assert sorted((*OF_A_SPEC, *OF_A_TARGET)) == sorted(RECIPES), "a format is a target's or a spec's"
    spec, lock = load_spec(ROOT / "specs" / f"{name}.toml"), load(ROOT / "locks" / name / "envspec.lock")
    for of in make_spec_plan(spec, SoundLock(lock), f"recipes/{name}").targets:
        own = {path for files in render_all(of).values() for path in files if path.startswith(f"{of.target}/")}
        assert {path.rpartition("/")[2] for path in own} <= OWN, "export wouldn't know them as its own"


def test_no_file_is_stored_twice() -> None:
    seen: dict[str, str] = {}
    for path, text in sorted(committed(ROOT / "recipes").items()):
        if path.endswith("/__init__.py") or "/requirements/" in path:
            continue
        digest = hashlib.sha256(text.encode()).hexdigest()
        assert seen.setdefault(digest, path) == path, f"{path} is the same file as {seen[digest]}"


def test_they_are_not_too_many_lines() -> None:
    assert sum(text.count("\n") for text in committed(ROOT / "recipes").values()) <= LINES


def test_a_line_of_the_check_is_in_one_file_and_a_line_of_the_sums() -> None:
    """Nothing but the sums names a file of it, and nothing names the sums."""
    written = committed(ROOT / "recipes")
    sums = f"{SHARED_FOLDER}/{SUMS}"
    naming: dict[str, list[str]] = {}
    for path, text in written.items():
        for digest in set(re.findall(r"\b[0-9a-f]{64}\b", text)):
            naming.setdefault(digest, []).append(path)
    for text in check_files().values():
        assert set(naming[hashlib.sha256(text.encode()).hexdigest()]) == {sums}
    assert hashlib.sha256(written[sums].encode()).hexdigest() not in naming


def test_every_development_container_is_of_a_spec() -> None:
    titles = {f"{path.parent.parent.name}-{path.parent.name}" for path in (ROOT / "recipes").glob("*/*/Dockerfile")}
    assert {path.name for path in (ROOT / CONTAINERS).iterdir()} == titles


def test_what_exports_wrote_can_be_removed() -> None:
    """A build of Python and of a source's environment too, and what earlier ones named by its content; whatever else
    lies there is the user's own."""
    folder = ROOT / "recipes" / "mm-v2.9"
    paths = sorted(f"requirements/{path.name}" for path in (folder / "requirements").iterdir())
    assert {"rest.txt", "built-with=deepspeed.txt", "python.json"} <= {path.split("/")[1] for path in paths}
    earlier, own = f"requirements/rest-{hashlib.sha256(b'a==1').hexdigest()[:8]}.txt", "requirements/own-00000000.txt"
    texts = {path: (folder / path).read_text() for path in paths} | {earlier: "a==1", own: "mine\n"}
    assert list(removable([*paths, earlier, own], {}, texts.get)) == [*paths, earlier]
