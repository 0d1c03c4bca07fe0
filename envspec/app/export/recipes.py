"""Exported recipes in recipes/<name>: how they differ from the lock, and the command that renews them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import reduce
from operator import or_
from pathlib import Path, PurePosixPath
from posixpath import basename, dirname, normpath

from msgspec import Struct, field

from envspec.app.observer import say, warn
from envspec.app.outputs import location
from envspec.base import atomic
from envspec.base.errors import AnswerNo, InputError, Place
from envspec.base.finding import Finding
from envspec.base.open_folder import Location
from envspec.base.plain_files import read_plain
from envspec.base.storage import storage_error
from envspec.export.dockerfile import IGNORE
from envspec.export.folder import OF_ALL, OWN, RECIPES, SHARED, ExportedRecipes, exported_recipes, place_of
from envspec.export.images import NO_SNAPSHOT, missing_pins
from envspec.export.leftovers import CONTAINERS, leftovers, recipe_reasons, removable, split_shared_path, sums_there
from envspec.export.make import make_spec_plan
from envspec.export.plan import (
    CARRIED_FOLDER,
    SHARED_FOLDER,
    SUMS,
    SpecPlan,
    decode,
    digest,
    encode,
    read_sums,
    sums_text,
)
from envspec.lock.exclusive import exclusive
from envspec.lock.model import SoundLock
from envspec.spec.model import Spec

# Exported files on disk: written and removed together, below one folder.


class Superseded(Struct, frozen=True):
    """The fate of earlier exports' files, by path below a folder.

    gone   the files that no recipe uses any more
    lists  the lists of carried files while files come and go: those of earlier exports too
    after  the lists afterwards, where they have more than this export's files: those that other targets may still use
    """

    gone: tuple[str, ...] = ()
    lists: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)

    def below(self, folder: str) -> Superseded:
        """The same from the folder that holds this one."""
        return Superseded(
            tuple(normpath(f"{folder}/{path}") for path in self.gone),
            {normpath(f"{folder}/{path}"): text for path, text in self.lists.items()},
            {normpath(f"{folder}/{path}"): text for path, text in self.after.items()},
        )

    def __or__(self, other: Superseded) -> Superseded:
        return Superseded((*self.gone, *other.gone), {**self.lists, **other.lists}, {**self.after, **other.after})


def write_files(
    output: Path, texts: Mapping[str, str], superseded: Iterable[Callable[[], Superseded]], specs: Iterable[str]
) -> Collection[str]:
    """Write texts by path, relative to a folder that `-o` named, and remove the files that one of `superseded` says are
    gone. They are asked while no other envspec writes here. Gives the paths of the removed files.

    Stages all new files before the first takes its place. The lists by which a later export knows its files come first,
    with the names of all old and new ones, and once more at the end, after the deletions, as they are to stay. A file
    whose text hasn't changed keeps its modification time.

    Raises InputError where a file without envspec's mark stands in the way, NotPlain, StorageError.
    """
    place = location(output, specs)
    waiting = f"waiting: another envspec is writing into {output}"
    with _storage(output), exclusive(place, lambda: say(waiting)):
        old = reduce(or_, (each() for each in superseded), Superseded())
        texts = {**texts, **old.after}
        base, prefix = _base(place, [*texts, *old.gone])
        with base.open() as folder:
            files = {normpath(prefix + path): encode(text) for path, text in texts.items()}
            first = {normpath(prefix + path): encode(text) for path, text in old.lists.items()}
            existing = {path: folder.read_at(path) for path in files}
            lists = {path: text for path, text in first.items() if existing[path] != text}
            new = {path: text for path, text in files.items() if path not in first and existing[path] != text}
            _refuse_others(output, new, existing, prefix)
            gone = {normpath(prefix + path): None for path in old.gone}
            last = {path: files[path] for path, text in first.items() if files[path] != text}
            atomic.replace_files(folder, lists, new, gone, last)
            ended = [path for path in gone if path.endswith(f"/{SUMS}")]
            for path in {*first, *ended}:
                with folder.descend(dirname(path)) as carried:
                    atomic.remove_empty_folders(carried)
            for path in ended:
                with folder.descend(dirname(dirname(path))) as above, suppress(OSError):
                    above.rmdir(basename(dirname(path)))
    return old.gone


def _refuse_others(output: Path, new: Mapping[str, bytes], existing: Mapping[str, bytes | None], prefix: str) -> None:
    """Raise InputError for files that these texts would replace, and that no export has written."""
    named = ((path, existing[path], text) for path, text in new.items())
    foreign = [path.removeprefix(prefix) for path, old, text in named if old and _is_others(path, old, text, prefix)]
    if foreign:
        message = (
            f"{output} has files that envspec didn't write, and an export would replace them: {', '.join(foreign)}"
        )
        raise InputError(message, hint="export into another folder with -o, or move those files away")


def _is_others(path: str, old: bytes, new: bytes, prefix: str = "") -> bool:
    """Return whether no export wrote a file below a folder of recipes, which `prefix` leads to. `new` is the
    text that belongs there."""
    shared = tuple(f"{normpath(prefix + folder)}/" for folder in SHARED)
    return _mark(old) != _mark(new) and not path.startswith(shared)


def _mark(content: bytes) -> bytes:
    """Give what the texts of one recipe have in common, whatever the lock: the beginning of the first comment. JSON has
    none, and its names are envspec's own."""
    first, _, rest = content.partition(b"\n")
    return (rest if first.startswith(b"#!") else first).partition(b"\n")[0].partition(b":")[0]


def _base(place: Location, paths: Iterable[str]) -> tuple[Location, str]:
    """Give the folder that holds all paths, and the prefix of each path in it: a path may lead out of the named folder,
    but never out of its project.
    """
    if all(normpath(path).split("/")[0] != ".." for path in paths):
        return place, ""
    return Location(place.root), f"{place.below}/"


@contextmanager
def _storage(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        some = isinstance(error, atomic.Unfinished)
        again = "run again: some files are written, others aren't yet" if some else "run again"
        raise storage_error(error, output, option="-o", again=again) from None


def recipe_drift(spec: Spec, lock: SoundLock, recipes: Path) -> tuple[tuple[Finding, ...], str]:
    """Compare the folder with what a spec and its lock give; also give the command that writes the recipes again.

    Without differences both are empty. Raises InputError for a spec that admits no recipe.
    """
    plan = make_spec_plan(spec, lock, place_of(spec.name))
    paths = list(_paths(recipes, plan))
    exported = exported_recipes(plan, paths)
    findings = recipe_reasons(plan, exported, paths, lambda path: _text(recipes / path))
    if not findings:
        return (), ""
    texts = ((path, _text(recipes / path), text) for path, text in exported.files.items())
    foreign = [recipes / path for path, old, text in texts if old and _is_others(path, encode(old), encode(text))]
    moves = [shlex.join(["mv", str(path), f"{path}.own"]) for path in foreign]
    return findings, " && ".join([*moves, _command(spec.path, exported, recipes)])


def earlier_files(plan: SpecPlan, recipes: Path, targets: Container[str], written: Mapping[str, str]) -> Superseded:
    """Find the files of earlier exports that no recipe uses once these files of these targets are written. Shared files
    stay while other targets there may need them, and so do those of a bundle that was unpacked there.

    Raises InputError where a file of such a bundle would be replaced by another.
    """
    paths = list(_paths(recipes, plan))
    exported = exported_recipes(plan, [*paths, *written])

    def read(path: str) -> str | None:
        return _text(recipes / path)

    left = leftovers(plan, exported.files, paths, read)
    sums = sums_there(read)
    own = list(removable(left, sums, read))
    bundled = dict(read_sums(read(SUMS) or ""))
    whole = all(target in targets for target, formats in exported.targets.items() if formats)
    gone = tuple(path for path in own if path not in bundled and (whole or not split_shared_path(path)))
    folder = f"../{SHARED_FOLDER}" if plan.shares else CARRIED_FOLDER
    listed = f"{folder}/{SUMS}"
    if listed not in written:
        _refuse_another_bundle(recipes, written, bundled)
        return Superseded(gone, {}, {})
    new = read_sums(written[listed])
    stay = (path.removeprefix(f"{folder}/") for path in own if path not in gone and path.startswith(f"{folder}/"))
    listed_sums = new | {(name, digest(read(f"{folder}/{name}") or "")) for name in stay}
    _refuse_another_bundle(recipes, {**written, listed: sums_text(listed_sums)}, bundled)
    return Superseded(
        gone, {listed: sums_text(new | sums[folder])}, {listed: sums_text(listed_sums)} if listed_sums != new else {}
    )


def _refuse_another_bundle(recipes: Path, written: Mapping[str, str], bundled: Mapping[str, str]) -> None:
    """Raise InputError for texts that would replace other ones of a bundle."""
    differing = sorted(path for path, text in written.items() if bundled.get(path, digest(text)) != digest(text))
    if differing:
        raise InputError(
            f"{recipes} is an unpacked bundle of another lock, and an export would replace its {', '.join(differing)}",
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
    # a pipe or a device is refused where it's read
    return path.is_symlink() or not path.is_dir()


def _text(path: Path) -> str | None:
    if path.is_symlink():
        return None
    try:
        return decode(read_plain(normpath(path)))
    except OSError:
        return None


def _command(spec: str, exported: ExportedRecipes, recipes: Path) -> str:
    """Give the `envspec export` command for the targets and formats that the folder has, and no more."""
    names = {name for formats in exported.targets.values() for name in formats} | set(exported.spec)
    formats = [name for name in RECIPES if name in names and not (exported.whole and name in OF_ALL)]
    formats = ["all", *formats] if exported.whole else formats
    targets = [target for target, of_target in exported.targets.items() if of_target]
    words = ["envspec", "export", spec]
    if len(targets) < len(exported.targets):
        words += [word for target in targets for word in ("--target", target)]
    words += [word for name in formats for word in ("--format", name)]
    return shlex.join([*words, "-o", str(recipes)])


def tell_missing_pins(
    path: str, plan: SpecPlan, targets: Collection[str], formats: Collection[str], *, required: bool
) -> None:
    """List the parts of a spec's recipes that nothing pins, a line each. Raises AnswerNo where they must."""
    missing = missing_pins([of for of in plan.targets if of.target in targets], formats)
    if not missing:
        return
    hints = (
        [f"run `envspec lock {path} --upgrade-images` for digests"]
        if any("digest" in entry for entry in missing)
        else []
    )
    hints += ['add to [image] a day: snapshot = "2026-11-01"'] if NO_SNAPSHOT in missing else []
    if required:
        raise AnswerNo(f"not all is pinned: {'; '.join(missing)}", hint="; ".join(hints) or None, place=Place(path))
    for line in missing:
        warn(f"{path}: not pinned: {line}")
    if hints:
        say(f"hint: {'; '.join(hints)}")
