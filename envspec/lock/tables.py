"""A lock's tables, read from its text: the spec's inputs, its base, images, targets and packages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from envspec.base.documents import Unreadable, read_toml
from envspec.base.errors import LockError, Place
from envspec.base.texts import UNSEEN, is_seen, printable
from envspec.lock import keys
from envspec.lock.keys import FOLDER_NAME
from envspec.lock.listed import KEYS, REQUIREMENTS, TABLES, inputs_of, join, metadata_of
from envspec.lock.model import (
    Artifact,
    BaseInputs,
    BuildPin,
    GitSource,
    Lock,
    LockedBase,
    LockedCorrection,
    LockedImage,
    LockedPython,
    LockedTarget,
    Pin,
    Publisher,
    TargetInputs,
    WheelVariant,
)
from envspec.lock.toml_text import key as toml_key, string, unseen
from envspec.packages.python_range import releases_of
from envspec.packages.requirement import is_requirement

UNKNOWN = "a newer envspec may have written it: update envspec"
RELOCK = "restore it from git, or delete it and run `envspec lock`"

Where = tuple[str, int]
"""A table's header line, and its number among equal headers, from 0."""

_TYPE_NAMES = {str: "a string", int: "an integer", list: "an array", dict: "a table", bool: "true"}
_IMAGE_NAME = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9\[\]._:/-]*")
"""The characters of an image reference without a digest of its own."""
_IMAGE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
Value = TypeVar("Value")


class Reader:
    """One reading of one text, table by table. It holds the text and its path for messages."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path

    def table(self) -> dict[str, Any]:
        """Return the whole text's table. Raises LockError where it isn't TOML, or hides characters."""
        try:
            data = read_toml(self.text)
        except Unreadable as error:
            place = Place(self.path, error.line, error.column)
            raise LockError(f"the lock is not TOML: {error}", place=place, hint=RELOCK) from None
        self.refuse_unseen(data)
        return data

    def refuse_unknown(self, tables: Iterable[str], known: Collection[str]) -> None:
        """Refuse top-level keys that the format doesn't have."""
        for name in tables:
            if name not in known:
                match = re.search(rf"^\[{{0,2}}{re.escape(toml_key(name))}\b", self.text, re.MULTILINE)
                line = self.text.count("\n", 0, match.start()) + 1 if match else 0
                raise LockError(f'unknown table "{name}"', place=Place(self.path, line), hint=UNKNOWN)

    def fail(self, problem: str, where: Where, key: str | None = None, hint: str | None = None) -> NoReturn:
        """Raise a LockError with the line of the key, or else of the table's header."""
        header, nth = where
        line = 0
        starts = [m.start() for m in re.finditer(f"^{re.escape(header)}$", self.text, re.MULTILINE)]
        if len(starts) > nth:
            start = starts[nth]
            end = self.text.find("\n[", start)
            inside = key and re.compile(rf"(?:^|[{{,] ){re.escape(key)} = ", re.MULTILINE).search(
                self.text, start, end if end > 0 else len(self.text)
            )
            line = self.text.count("\n", 0, inside.start() if inside else start) + 1
        raise LockError(f"{header}: {problem}", place=Place(self.path, line), hint=hint or RELOCK)

    def check(self, table: Any, types: Mapping[str, type], required: Sequence[str], where: Where) -> Mapping[str, Any]:
        """Check a table: every key known and of its type, no required key missing, lists (except of tables) of
        strings."""
        if not isinstance(table, dict):
            self.fail("this must be a table", where)
        checked: Mapping[str, Any] = table
        value: Any
        for key, value in checked.items():
            expected = types.get(key)
            if expected is None:
                self.fail(f'unknown key "{key}"', where, key, UNKNOWN)
            actual = type(value)
            if actual is not expected:
                self.fail(f"{key} must be {_TYPE_NAMES[expected]}, not {value!r}", where, key)
            if key in TABLES:
                for row in value:
                    self.check(row, dict.fromkeys(TABLES[key], str), TABLES[key], where)
            elif expected is list and key not in keys.ROWS:
                for element in value:
                    if type(element) is not str:
                        self.fail(f"{key} must hold strings, not {element!r}", where, key)
            if key in REQUIREMENTS:
                for text in REQUIREMENTS[key](value):
                    if not is_requirement(text):
                        self.fail(f"{printable(text)[:80]!r} in {key} isn't a requirement", where, key)
            if key == "url":
                try:
                    urlsplit(value)
                except ValueError:
                    self.fail(f"url isn't an address: {printable(value)[:80]!r}", where, key)
            if key in keys.SHAPES:
                shape, description = keys.SHAPES[key]
                for text in value if expected is list else (value,):
                    if not shape.fullmatch(text):
                        self.fail(
                            f"{key} must {'hold' if expected is list else 'be'} {description}, not {text!r}", where, key
                        )
        for key in required:
            if key not in table:
                self.fail(f"{key} is missing", where)
        return checked

    def refuse_unseen(self, data: Any) -> None:
        """Refuse characters that a reader of the lock wouldn't see, or that a terminal shows otherwise."""
        # most locks have neither such a character nor an escape that could stand for one, so none of their values has
        if "\\" not in self.text and is_seen(self.text.replace("\n", "")):
            return
        for path, value in unseen(data):
            line = self.text.count("\n", 0, max(self.text.find(string(value)), 0)) + 1
            character = next(iter(UNSEEN.findall(value)))
            problem = f"{path} contains the invisible character {character!a}: {printable(value[:80])}"
            raise LockError(problem, place=Place(self.path, line), hint=RELOCK)

    def lock(self) -> Lock:
        """Read the whole lock. Raises LockError."""
        data = self.table()
        self.refuse_unknown(data, keys.TOP)
        env_at = ("[env]", 0)
        env = self.check(data.get("env"), KEYS, ("name",), env_at)
        if not FOLDER_NAME.fullmatch(env["name"]):
            self.fail(f"name can't be {env['name']!r}", env_at, "name")
        sources = env.get("sources", {})
        for name, index in sources.items():
            for value, (shape, description) in ((name, keys.SHAPES["package"]), (index, keys.SHAPES["index"])):
                if type(value) is not str or not shape.fullmatch(value):
                    self.fail(f"{name} must be {description}, not {value!r}", ("[env.sources]", 0), name)
        inputs = replace(inputs_of(env), base=self.base(data))
        tables = data.get("targets")
        if type(tables) is not dict or not tables:
            self.fail("a lock needs targets", env_at)
        for name in tables:
            if not FOLDER_NAME.fullmatch(name):
                self.fail(f'"{name}" can\'t name a target', env_at)
        pins = self.pins(data, tuple(tables))
        lock = Lock(
            name=env["name"],
            inputs=inputs,
            targets=tuple(self.target(name, tables[name], env, tuple(pins[name].values())) for name in sorted(tables)),
            images=self.images(data.get("images", {})),
            corrections=tuple(LockedCorrection(**row) for row in self.rows(data, "corrections", keys.CORRECTION)),
            pythons=tuple(LockedPython(**row) for row in self.rows(data, "python", keys.PYTHON)),
            bases=tuple(LockedBase(**row) for row in self.rows(data, "inventory", keys.INVENTORY)),
        )
        return lock.with_python_versions()

    def base(self, data: Mapping[str, Any]) -> BaseInputs | None:
        if "base" not in data:
            return None
        table = self.check(data["base"], keys.BASE, (), ("[base]", 0))
        kinds = [kind for kind in table if kind != "replace"]
        if len(kinds) != 1 or not all(type(why) is str for why in table.get("replace", {}).values()):
            self.fail("a base is an image, a sif or a prefix, and replaces packages for reasons", ("[base]", 0))
        return BaseInputs(kinds[0], table[kinds[0]], tuple(sorted(table.get("replace", {}).items())))

    def metadata(
        self, table: Any, types: Mapping[str, type], required: Sequence[str], where: Where
    ) -> Mapping[str, Any]:
        checked = self.check(table, types, required, where)
        for text in checked["dependencies"]:
            if type(text) is not str or not is_requirement(text):
                self.fail(f"metadata holds {text!r}, which isn't a requirement", where, "metadata")
        return checked

    def images(self, table: Any) -> tuple[LockedImage, ...]:
        where = ("[images]", 0)
        if type(table) is not dict:
            self.fail("this must be a table", where)
        for name, digest in table.items():
            if not _IMAGE_NAME.fullmatch(name):
                self.fail(f"{name!r} can't name an image", where)
            self.check_digest(digest, where)
        return tuple(LockedImage(name, table[name]) for name in sorted(table))

    def check_digest(self, digest: Any, where: Where) -> None:
        if digest is not None and (type(digest) is not str or not _IMAGE_DIGEST.fullmatch(digest)):
            self.fail(f'a digest must be "sha256:" and 64 hexadecimal digits, not {digest!r}', where)

    def rows(self, data: Mapping[str, Any], name: str, types: Mapping[str, type]) -> list[dict[str, Any]]:
        """Return the tables of an array at the top, checked. Only a size or a digest may be missing."""
        header, tables = f"[[{name}]]", data.get(name, [])
        if type(tables) is not list:
            self.fail("this must be an array of tables", (header, 0))
        for nth, table in enumerate(tables):
            self.check(table, types, [key for key in types if key not in ("size", "digest")], (header, nth))
            self.check_digest(table.get("digest"), (header, nth))
            if not is_requirement(table.get("constraint", "a")):
                self.fail("constraint isn't a requirement", (header, nth), "constraint")
        return list(tables)

    def target(self, name: str, table: Any, env: Mapping[str, Any], pins: tuple[Pin, ...]) -> LockedTarget:
        where = (f"[targets.{toml_key(name)}]", 0)
        self.check(table, keys.TARGET, ("platform", "python"), where)
        python, bound = table["python"], table.get("python-range")
        if bound is not None and not releases_of(python, bound):
            self.fail(f"python-range admits no Python {python}", where, "python-range")
        stated, at = (table["metadata"], where) if "metadata" in table else (env.get("metadata", ()), ("[env]", 0))
        inputs = TargetInputs(
            platform=table["platform"],
            python=python,
            glibc=table.get("glibc"),
            cuda=table.get("cuda"),
            gpus=tuple(table.get("gpus", ())),
            driver=table.get("driver"),
            cpu=table.get("cpu"),
            metadata=metadata_of(stated, lambda row, types, required: self.metadata(row, types, required, at)),
            inspect=table.get("inspect", True),
            python_range=bound,
            python_version=None,
            newest_python=None,
            **join(env, table),
        )
        return LockedTarget(name, inputs, pins, tuple(table.get("architectures", ())), table.get("driver-floor"))

    def pins(self, data: Mapping[str, Any], every: tuple[str, ...]) -> dict[str, dict[tuple[str, str], Pin]]:
        """Return the pins of each target, by kind and name, in the file's order."""
        by_target: dict[str, dict[tuple[str, str], Pin]] = {name: {} for name in every}
        for kind in ("conda", "pip"):
            header = f"[[{kind}]]"
            tables = data.get(kind, [])
            if type(tables) is not list:
                self.fail("this must be an array of tables", (header, 0))
            for nth, table in enumerate(tables):
                for target, pin in self.package(kind, table, every, (header, nth)):
                    if by_target[target].setdefault((kind, pin.name), pin) is not pin:
                        self.fail(f"{target} has {pin.name} twice", (header, nth))
        return by_target

    def package(self, kind: str, table: Any, every: tuple[str, ...], where: Where) -> list[tuple[str, Pin]]:
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
        publisher = table.get("publisher")
        if publisher is not None:
            publisher = Publisher(**self.check(publisher, keys.PUBLISHER, ("kind",), where))
        built_with = self.per_target(table, "built-with", targets, where, self.build_pin)
        is_built = "built-with" in table
        artifacts = self.per_target(table, "artifacts", targets, where, self.artifact)
        dependencies = self.per_target(table, "dependencies", targets, where, self.dependency)
        overwrites = self.per_target(table, "overwrites", targets, where, self.read_word("package"))
        code = self.per_target(table, "code", targets, where, self.read_word("holds"))

        made: dict[tuple[int, ...], Pin] = {}
        out = []
        for target in targets:
            files = artifacts.get(target, ())
            if len(files) > 1:
                self.fail(f"{target} has more than one artifact of {table['name']}", where, "artifacts")
            requires = dependencies.get(target, ())
            wheels = built_with.get(target, ()) if is_built else None
            # what targets share is the same object, and comparing by value takes longer than reading it
            overwritten, compiled = overwrites.get(target, ()), code.get(target, ())
            differing = (id(files), id(requires), id(wheels), id(overwritten), id(compiled), target in directly)
            pin = made.get(differing)
            if pin is None:
                pin = made[differing] = Pin(
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
                    publisher=publisher,
                    built_with=wheels,
                    requires_python=table.get("requires-python"),
                    overwrites=overwritten,
                    code=compiled,
                )
            out.append((target, pin))
        return out

    def per_target(
        self,
        table: Mapping[str, Any],
        key: str,
        targets: tuple[str, ...],
        where: Where,
        read: Callable[[Any, Where], tuple[Value, list[str] | None]],
    ) -> dict[str, tuple[Value, ...]]:
        """Return the items of a list by target, in the file's order; empty where the table has no such list. Targets
        with the same items share them."""
        if key not in table:
            return {}
        items = [read(raw, where) for raw in table.get(key, ())]
        for _, names in items:
            if names is not None:
                self.check_targets(names, targets, where, key)
        if all(names is None for _, names in items):
            return dict.fromkeys(targets, tuple(value for value, _ in items))
        shared: dict[tuple[int, ...], tuple[Value, ...]] = {}
        by_target = {}
        for target in targets:
            held = tuple(nth for nth, (_, names) in enumerate(items) if names is None or target in names)
            by_target[target] = shared.setdefault(held, tuple(items[nth][0] for nth in held))
        return by_target

    def dependency(self, edge: Any, where: Where) -> tuple[str, list[str] | None]:
        if type(edge) is not str:
            self.check(edge, keys.EDGE, ("requires", "targets"), where)
        text, targets = (edge, None) if type(edge) is str else (edge["requires"], edge["targets"])
        if where[0] == "[[pip]]" and not is_requirement(text):
            self.fail(f"{printable(text)[:80]!r} in dependencies isn't a requirement", where, "dependencies")
        return text, targets

    def read_word(self, key: str) -> Callable[[Any, Where], tuple[str, list[str] | None]]:
        """Give the reader of a word, or of a table that has it under a key beside its targets."""

        def read(value: Any, where: Where) -> tuple[str, list[str] | None]:
            row: Any = {key: value} if type(value) is str else value
            self.check(row, {key: str, "targets": list}, (key,), where)
            return row[key], row.get("targets")

        return read

    def build_pin(self, row: Any, where: Where) -> tuple[BuildPin, list[str] | None]:
        self.check(row, keys.BUILT_WITH, ("name", "version", "file", "sha256"), where)
        return BuildPin(row["name"], row["version"], row["file"], row["sha256"], row.get("size")), row.get("targets")

    def artifact(self, row: Any, where: Where) -> tuple[Artifact, list[str] | None]:
        self.check(row, keys.ARTIFACT, ("file", "sha256"), where)
        label, properties = row.get("variant"), tuple(row.get("properties", ()))
        priorities = tuple(row.get("priorities", ()))
        for name, values in (("properties", properties), ("priorities", priorities)):
            if values and label is None:
                self.fail(f"{name} are a variant's", where, name)
        variant = None if label is None else WheelVariant(label, properties, priorities)
        known = (row["file"], row["sha256"], row.get("size"), row.get("md5"))
        return Artifact(*known, variant, row.get("inert", False)), row.get("targets")

    def check_targets(
        self, names: Sequence[str], known: tuple[str, ...], where: Where, key: str = "targets"
    ) -> Sequence[str]:
        for name in names:
            if name not in known:
                self.fail(f'"{name}" is not one of the targets {", ".join(known)}', where, key)
        if not names:
            self.fail("an empty list of targets", where, key)
        return names
