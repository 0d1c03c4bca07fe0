"""Text to lock. Strict: what `envspec.lock.write` wouldn't print is refused, never repaired."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from envspec.documents import Unreadable, read_toml
from envspec.errors import LockError, Place, StorageError
from envspec.lock import keys
from envspec.lock.env_table import KEYS, inputs_of, metadata_of
from envspec.lock.listed import TABLES, joined, requirements_in
from envspec.lock.model import (
    LOCK_VERSION,
    Artifact,
    GitSource,
    Lock,
    LockedCorrection,
    LockedImage,
    LockedTarget,
    Pin,
    TargetInputs,
)
from envspec.lock.toml_text import string, unseen
from envspec.lock.write import HEADER, dumps
from envspec.packages.requirement import is_requirement
from envspec.texts import UNSEEN, printable

FOLDER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""What a spec and a target may be called. Both become folders; no such name leads out of the parent folder."""

_DIGEST = re.compile(r'digest = "sha256:([0-9a-f]{64})"\n')
_VERSION = re.compile(r"^lock-version *= *(\d+) *\r?$", re.MULTILINE)
_CONFLICT = re.compile(r"^(?:<{7} |={7}\r?$|>{7} )", re.MULTILINE)
_RELOCK = "restore it from git, or delete it and run `envspec lock`"

_IMAGE_NAME = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9\[\]._:/-]*")
"""The characters of an image reference without a digest of its own."""
_IMAGE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TYPE_NAMES = {str: "a string", int: "an integer", list: "an array", dict: "a table", bool: "true"}

Value = TypeVar("Value")


def load(path: Path) -> Lock:
    """Read a lock.

    Raises LockError when the file doesn't exist or isn't a usable lock, StorageError when the system can't read it.
    """
    return loads(load_text(path), str(path))


def load_text(path: Path) -> str:
    """Read the text of a lock. Raises as `load` does."""
    place = Place(str(path))
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise LockError("there is no lock here", place=place, hint="run `envspec lock`") from None
    except IsADirectoryError:
        raise LockError("this is a folder, not a lock", place=place, hint="name the spec or its envspec.lock") from None
    except OSError as error:
        raise StorageError(f"the lock can't be read: {error.strerror}", place=place) from None
    return text_of(content, path)


def text_of(content: bytes, path: Path) -> str:
    """Decode a lock's bytes; `path` is only for messages. Raises LockError."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise LockError("the lock is not UTF-8", place=Place(str(path), line), hint=_RELOCK) from None


def loads(text: str, path: str) -> Lock:
    """Parse a lock's text; `path` is only for messages. For every text that this accepts, `dumps(loads(text)) == text`.

    Raises LockError for a newer schema, a hand edit, a truncated file, a merge conflict, or a value that isn't allowed.
    """
    _check_whole(text, path)
    lock = _Reader(text, path).lock()
    if dumps(lock) != text:
        raise LockError("the lock is not as envspec writes it", place=Place(path), hint=_RELOCK)
    return lock


def _check_whole(text: str, path: str) -> None:
    """Check the header and the digest, before anything behind them is read."""
    place = Place(path)
    if not text.strip():
        raise LockError("the lock is empty", place=place, hint=_RELOCK)
    version = _VERSION.search(text, 0, 1000)
    if version and int(version[1]) > LOCK_VERSION:
        raise LockError(
            f"the lock has schema {version[1]}, and this envspec reads schemas up to {LOCK_VERSION}",
            place=place,
            hint="update envspec",
        )
    digest = _DIGEST.match(text, len(HEADER)) if text.startswith(HEADER) else None
    if digest and hashlib.sha256(text[digest.end() :].encode("utf-8", "surrogatepass")).hexdigest() == digest[1]:
        return
    conflict = _CONFLICT.search(text)
    if conflict:
        line = text.count("\n", 0, conflict.start()) + 1
        raise LockError(
            "the lock holds a merge conflict",
            place=Place(path, line),
            hint="take either side (`git checkout --ours` or `--theirs`), then run `envspec lock`",
        )
    if "\r\n" in text:
        raise LockError(
            "the lock has Windows line ends",
            place=place,
            hint="tell git to keep it as it is: `*.lock text eol=lf` in .gitattributes, then check it out again",
        )
    raise LockError("the lock was edited by hand or cut short", place=place, hint=_RELOCK)


class _Reader:
    """One reading of one text. It holds what messages need, so that the other code doesn't carry it."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path

    def fail(self, problem: str, where: tuple[str, int], key: str | None = None) -> NoReturn:
        """Raise a LockError. `where` is a table's header line, and its number among equal headers, from 0."""
        header, nth = where
        line = 0
        found = [m.start() for m in re.finditer(f"^{re.escape(header)}$", self.text, re.MULTILINE)]
        if len(found) > nth:
            start = found[nth]
            if key and (inside := re.compile(rf"^{re.escape(key)} = ", re.MULTILINE).search(self.text, start)):
                start = inside.start()
            line = self.text.count("\n", 0, start) + 1
        raise LockError(f"{header}: {problem}", place=Place(self.path, line), hint=_RELOCK)

    def check(
        self,
        table: Any,
        types: Mapping[str, type],
        required: Sequence[str],
        where: tuple[str, int],
    ) -> Mapping[str, Any]:
        """Check a table: every key known and of its type, no required key missing, lists (except of tables) of
        strings."""
        if not isinstance(table, dict):
            self.fail("this must be a table", where)
        checked: Mapping[str, Any] = table
        value: Any
        for key, value in checked.items():
            expected = types.get(key)
            if expected is None:
                self.fail(f'unknown key "{key}"', where, key)
            actual = type(value)
            if actual is not expected:
                self.fail(f"{key} must be {_TYPE_NAMES[expected]}, not {value!r}", where, key)
            if key in TABLES:
                for item in value:
                    self.check(item, dict.fromkeys(TABLES[key], str), TABLES[key], where)
            elif expected is list and key not in ("artifacts", "dependencies", "metadata"):
                for item in value:
                    if type(item) is not str:
                        self.fail(f"{key} must hold strings, not {item!r}", where, key)
            for text in requirements_in(key, value):
                if not is_requirement(text):
                    self.fail(f"{printable(text)[:80]!r} in {key} isn't a requirement", where, key)
            shape = keys.SHAPES.get(key)
            for text in (value if expected is list else (value,)) if shape else ():
                if shape and not shape[0].fullmatch(text):
                    self.fail(f"{key} must {'hold' if expected is list else 'be'} {shape[1]}, not {text!r}", where, key)
        for key in required:
            if key not in table:
                self.fail(f"{key} is missing", where)
        return checked

    def lock(self) -> Lock:
        try:
            data = read_toml(self.text)
        except Unreadable as error:
            place = Place(self.path, error.line, error.column)
            raise LockError(f"the lock is not TOML: {error}", place=place, hint=_RELOCK) from None
        self.refuse_unseen(data)
        for key in data:
            if key not in ("lock-version", "digest", "env", "images", "targets", "corrections", "conda", "pip"):
                raise LockError(f'unknown table "{key}"', place=Place(self.path), hint=_RELOCK)
        env_at = ("[env]", 0)
        env = self.check(data.get("env"), KEYS, ("name",), env_at)
        if not FOLDER_NAME.fullmatch(env["name"]):
            self.fail(f"name can't be {env['name']!r}", env_at, "name")
        sources = env.get("sources", {})
        for name, index in sources.items():
            if type(index) is not str:
                self.fail(f"{name} must be a string, not {index!r}", ("[env.sources]", 0), name)
        inputs = inputs_of(env)
        tables = data.get("targets")
        if type(tables) is not dict or not tables:
            self.fail("a lock needs targets", env_at)
        for name in tables:
            if not FOLDER_NAME.fullmatch(name):
                self.fail(f'"{name}" can\'t name a target', env_at)
        pins = self.pins(data, tuple(tables))
        return Lock(
            name=env["name"],
            inputs=inputs,
            targets=tuple(self.target(name, tables[name], env, tuple(pins[name].values())) for name in sorted(tables)),
            images=self.images(data.get("images", {})),
            corrections=self.corrections(data.get("corrections", [])),
        )

    def metadata(
        self, table: Any, types: Mapping[str, type], required: Sequence[str], where: tuple[str, int]
    ) -> Mapping[str, Any]:
        checked = self.check(table, types, required, where)
        for text in checked["dependencies"]:
            if type(text) is not str or not is_requirement(text):
                self.fail(f"metadata holds {text!r}, which isn't a requirement", where, "metadata")
        return checked

    def refuse_unseen(self, data: Any) -> None:
        """Refuse characters that a reader of the lock, or a terminal that shows it, wouldn't see as they are."""
        for path, value in unseen(data):
            line = self.text.count("\n", 0, max(self.text.find(string(value)), 0)) + 1
            character = next(iter(UNSEEN.findall(value)))
            problem = f"{path} contains the invisible character {character!a}: {printable(value[:80])}"
            raise LockError(problem, place=Place(self.path, line), hint=_RELOCK)

    def images(self, table: Any) -> tuple[LockedImage, ...]:
        where = ("[images]", 0)
        if type(table) is not dict:
            self.fail("this must be a table", where)
        for name, digest in table.items():
            if not _IMAGE_NAME.fullmatch(name):
                self.fail(f"{name!r} can't name an image", where)
            if type(digest) is not str or not _IMAGE_DIGEST.fullmatch(digest):
                self.fail(f'an image\'s digest must be "sha256:" and 64 hexadecimal digits, not {digest!r}', where)
        return tuple(LockedImage(name, table[name]) for name in sorted(table))

    def corrections(self, tables: Any) -> tuple[LockedCorrection, ...]:
        header = "[[corrections]]"
        if type(tables) is not list:
            self.fail("this must be an array of tables", (header, 0))
        for nth, table in enumerate(tables):
            self.check(table, keys.CORRECTION, tuple(keys.CORRECTION), (header, nth))
            if not is_requirement(table["constraint"]):
                self.fail("constraint isn't a requirement", (header, nth), "constraint")
        return tuple(LockedCorrection(**table) for table in tables)

    def target(self, name: str, table: Any, env: Mapping[str, Any], pins: tuple[Pin, ...]) -> LockedTarget:
        where = (f"[targets.{name}]", 0)
        self.check(table, keys.TARGET, ("platform", "python", "fingerprint"), where)
        stated, at = (table["metadata"], where) if "metadata" in table else (env.get("metadata", ()), ("[env]", 0))
        inputs = TargetInputs(
            platform=table["platform"],
            python=table["python"],
            glibc=table.get("glibc"),
            cuda=table.get("cuda"),
            gpus=tuple(table.get("gpus", ())),
            driver=table.get("driver"),
            metadata=metadata_of(stated, lambda one, types, required: self.metadata(one, types, required, at)),
            inspect=table.get("inspect", True),
            **joined(env, table),
        )
        return LockedTarget(name, inputs, pins, tuple(table.get("architectures", ())), table.get("driver-floor"))

    def pins(self, data: Mapping[str, Any], every: tuple[str, ...]) -> dict[str, dict[tuple[str, str], Pin]]:
        """Return the pins of each target, by kind and name, in the file's order."""
        found: dict[str, dict[tuple[str, str], Pin]] = {name: {} for name in every}
        for kind in ("conda", "pip"):
            header = f"[[{kind}]]"
            tables = data.get(kind, [])
            if type(tables) is not list:
                self.fail("this must be an array of tables", (header, 0))
            for nth, table in enumerate(tables):
                for target, pin in self.package(kind, table, every, (header, nth)):
                    if found[target].setdefault((kind, pin.name), pin) is not pin:
                        self.fail(f"{target} has {pin.name} twice", (header, nth))
        return found

    def package(self, kind: str, table: Any, every: tuple[str, ...], where: tuple[str, int]) -> list[tuple[str, Pin]]:
        """Return a package's pin for each of its targets. Targets that agree share one value."""
        direct = table.get("direct", False) if type(table) is dict else False
        types = {**keys.PACKAGE, "direct": list if type(direct) is list else bool}
        self.check(table, types, ("name", "version", "index"), where)
        if direct is False and "direct" in table:
            self.fail("direct is true or a list of targets", where, "direct")
        targets = tuple(table["targets"]) if "targets" in table else every
        self.check_targets(targets, every, where)
        directly = self.check_targets(direct, targets, where) if type(direct) is list else targets if direct else ()

        git = table.get("git")
        if git is not None:
            self.check(git, keys.GIT, ("url", "commit"), where)
            git = GitSource(git["url"], git["commit"], git.get("subdirectory"))
        artifacts = self.per_target(table, "artifacts", targets, where, self.artifact)
        dependencies = self.per_target(table, "dependencies", targets, where, self.dependency)

        made: dict[tuple[object, ...], Pin] = {}
        out = []
        for target in targets:
            files = artifacts.get(target, ())
            if len(files) > 1:
                self.fail(f"{target} has more than one artifact of {table['name']}", where, "artifacts")
            requires = dependencies.get(target, ())
            variant = (files, requires, target in directly)
            pin = made.get(variant)
            if pin is None:
                pin = made[variant] = Pin(
                    kind=kind,
                    name=table["name"],
                    version=table["version"],
                    index=table["index"],
                    artifact=files[0] if files else None,
                    dependencies=requires,
                    direct=target in directly,
                    licence=table.get("licence"),
                    build=table.get("build"),
                    git=git,
                    url=table.get("url"),
                    provides=tuple(table.get("provides", ())),
                )
            out.append((target, pin))
        return out

    def per_target(
        self,
        table: Mapping[str, Any],
        key: str,
        targets: tuple[str, ...],
        where: tuple[str, int],
        read: Callable[[Any, tuple[str, int]], tuple[Value, list[str] | None]],
    ) -> dict[str, tuple[Value, ...]]:
        """Return the items of a list by target, in the file's order."""
        items = [read(item, where) for item in table.get(key, ())]
        for _, names in items:
            if names is not None:
                self.check_targets(names, targets, where, key)
        if all(names is None for _, names in items):
            return dict.fromkeys(targets, tuple(value for value, _ in items))
        return {
            target: tuple(value for value, names in items if names is None or target in names) for target in targets
        }

    def dependency(self, item: Any, where: tuple[str, int]) -> tuple[str, list[str] | None]:
        if type(item) is not str:
            self.check(item, keys.EDGE, ("requires", "targets"), where)
        text, targets = (item, None) if type(item) is str else (item["requires"], item["targets"])
        if where[0] == "[[pip]]" and not is_requirement(text):
            self.fail(f"{printable(text)[:80]!r} in dependencies isn't a requirement", where, "dependencies")
        return text, targets

    def artifact(self, item: Any, where: tuple[str, int]) -> tuple[Artifact, list[str] | None]:
        self.check(item, keys.ARTIFACT, ("file", "sha256"), where)
        return Artifact(item["file"], item["sha256"], item.get("size"), item.get("md5")), item.get("targets")

    def check_targets(
        self, names: Sequence[str], known: tuple[str, ...], where: tuple[str, int], key: str = "targets"
    ) -> Sequence[str]:
        for name in names:
            if name not in known:
                self.fail(f'"{name}" is not one of the targets {", ".join(known)}', where, key)
        if not names:
            self.fail("an empty list of targets", where, key)
        return names
