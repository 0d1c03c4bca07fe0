"""Exported recipes in recipes/<name>: how they differ from the lock, and the command that renews them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Container, Iterator, Mapping
from pathlib import Path, PurePosixPath

from envspec.app.export.files import Superseded
from envspec.app.observer import say, warn
from envspec.base.errors import AnswerNo, InputError, Place
from envspec.base.finding import Finding
from envspec.export.dockerfile import IGNORE
from envspec.export.folder import OF_ALL, OWN, RECIPES, SHARED, ExportedRecipes, exported_recipes, place_of
from envspec.export.images import NO_SNAPSHOT, missing_pins
from envspec.export.leftovers import (
    CONTAINERS,
    leftovers,
    recipe_reasons,
    removable,
    split_shared_path,
    sums_there,
)
from envspec.export.make import make_spec_plan
from envspec.export.plan import CARRIED_FOLDER, SHARED_FOLDER, SpecPlan
from envspec.export.sums import SUMS, digest, read_sums, sums_text
from envspec.lock.judge import SoundLock
from envspec.spec.model import Spec


def recipe_drift(spec: Spec, lock: SoundLock, recipes: Path) -> tuple[tuple[Finding, ...], str]:
    """Compare the folder with what a spec and its lock give; also give the command that writes the recipes again.

    Without differences both are empty. Raises InputError for a spec that admits no recipe.
    """
    plan = make_spec_plan(spec, lock, place_of(spec.name))
    paths = list(_paths(recipes, plan))
    there = exported_recipes(plan, paths)
    found = recipe_reasons(plan, there, paths, lambda path: _text(recipes / path))
    return found, _command(spec.path, there, recipes) if found else ""


def earlier_files(plan: SpecPlan, recipes: Path, targets: Container[str], written: Mapping[str, str]) -> Superseded:
    """Find the files of earlier exports that no recipe uses once these files of these targets are written. Shared files
    stay while other targets there may need them, and so do those of a bundle that was unpacked there.

    Raises InputError where a file of such a bundle would be replaced by another.
    """
    paths = list(_paths(recipes, plan))
    there = exported_recipes(plan, [*paths, *written])

    def read(path: str) -> str | None:
        return _text(recipes / path)

    left = leftovers(plan, there.files, paths, read)
    sums = sums_there(read)
    own = list(removable(left, sums, read))
    bundled = dict(read_sums(read(SUMS) or ""))
    whole = all(target in targets for target, formats in there.targets.items() if formats)
    gone = tuple(path for path in own if path not in bundled and (whole or not split_shared_path(path)))
    folder = f"../{SHARED_FOLDER}" if plan.shares else CARRIED_FOLDER
    listed = f"{folder}/{SUMS}"
    if listed not in written:
        _refuse_another_bundle(recipes, written, bundled)
        return Superseded(gone, {}, {})
    new = read_sums(written[listed])
    stay = (path.removeprefix(f"{folder}/") for path in own if path not in gone and path.startswith(f"{folder}/"))
    kept = new | {(name, digest(read(f"{folder}/{name}") or "")) for name in stay}
    _refuse_another_bundle(recipes, {**written, listed: sums_text(kept)}, bundled)
    return Superseded(gone, {listed: sums_text(new | sums[folder])}, {listed: sums_text(kept)} if kept != new else {})


def _refuse_another_bundle(recipes: Path, written: Mapping[str, str], bundled: Mapping[str, str]) -> None:
    """Raise InputError for texts that would replace other ones of a bundle."""
    others = sorted(path for path, text in written.items() if bundled.get(path, digest(text)) != digest(text))
    if others:
        raise InputError(
            f"{recipes} is an unpacked bundle of another lock, and an export would replace its {', '.join(others)}",
            hint="export into another folder with -o",
        )


def _paths(recipes: Path, plan: SpecPlan) -> Iterator[str]:
    """List the files of a folder that recipes could have, by path below it. A link counts as a file: an export would
    refuse to write through it.
    """
    for place in sorted(recipes.iterdir()) if recipes.is_dir() else []:
        if _is_entry(place):
            yield place.name
        elif place.name not in SHARED and place.is_dir():
            yield from (f"{place.name}/{path.name}" for path in place.iterdir() if path.name in OWN and _is_entry(path))
    for folder in SHARED if plan.shares else SHARED[:-1]:
        place = recipes / folder
        if place.is_dir() and not place.is_symlink():
            yield from (
                f"{folder}/{path.relative_to(place).as_posix()}" for path in place.rglob("*") if _is_entry(path)
            )
    if plan.shares and _is_entry(recipes.parent / IGNORE):
        yield f"../{IGNORE}"
    up = "../" * len(PurePosixPath(plan.targets[0].place).parts)
    containers = recipes / f"{up}{CONTAINERS}"
    for place in sorted(containers.iterdir()) if containers.is_dir() and not containers.is_symlink() else []:
        if place.name.startswith(f"{plan.spec}-") and place.is_dir() and not place.is_symlink():
            yield from (f"{up}{CONTAINERS}/{place.name}/{path.name}" for path in place.iterdir() if _is_entry(path))


def _is_entry(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _text(path: Path) -> str | None:
    if path.is_symlink():
        return None
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return None


def _command(spec: str, there: ExportedRecipes, recipes: Path) -> str:
    """Give the `envspec export` command for the targets and formats that the folder has, and no more."""
    names = {name for formats in there.targets.values() for name in formats} | set(there.spec)
    formats = [name for name in RECIPES if name in names and not (there.whole and name in OF_ALL)]
    formats = ["all", *formats] if there.whole else formats
    targets = [target for target, of_target in there.targets.items() if of_target]
    words = ["envspec", "export", spec]
    if len(targets) < len(there.targets):
        words += [word for target in targets for word in ("--target", target)]
    words += [word for name in formats for word in ("--format", name)]
    return shlex.join([*words, "-o", str(recipes)])


def tell_missing_pins(
    path: str, plan: SpecPlan, targets: Collection[str], formats: Collection[str], *, required: bool
) -> None:
    """Say what the recipes of a spec's targets don't pin, a line each. Raises AnswerNo where they must."""
    found = missing_pins([of for of in plan.targets if of.target in targets], formats)
    if not found:
        return
    hints = [f"run `envspec lock {path} --upgrade-images` for digests"] if any("digest" in one for one in found) else []
    hints += ['add to [image] a day: snapshot = "2026-11-01"'] if NO_SNAPSHOT in found else []
    if required:
        raise AnswerNo(f"not all is pinned: {'; '.join(found)}", hint="; ".join(hints) or None, place=Place(path))
    for line in found:
        warn(f"{path}: not pinned: {line}")
    if hints:
        say(f"hint: {'; '.join(hints)}")
