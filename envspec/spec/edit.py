"""Edits of a spec that keep its comments, its order and its style: a line comes, changes or goes, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from envspec.base.atomic import write_file
from envspec.base.errors import InputError, Place, StorageError
from envspec.base.reader.document import decode
from envspec.base.texts import nearest, printable
from envspec.packages.names import conda_name, normalise_requirement
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.spec.document import read_bytes

if TYPE_CHECKING:
    from tomlkit.items import Array

KINDS = ("pip", "conda")
"""The tables of a spec, and of its targets, that have `dependencies`."""


class Edit(Struct, frozen=True):
    """A dependency that came (`old` is None), changed, or went (`new` is None). `table` is as targets.cpu.pip."""

    table: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        if self.old is None:
            return f"added {self.new} to [{self.table}]"
        if self.new is None:
            return f"removed {self.old} from [{self.table}]"
        return f"changed {self.old} to {self.new} in [{self.table}]"


EditOfText = Callable[[str], tuple[str, list[Edit]]]
"""From a spec's text to the new one, and what changed."""


def read_text(path: str) -> str:
    """Read a spec's text. Raises SpecError where it isn't UTF-8 or can't be found, StorageError."""
    return decode(read_bytes(path), path)


def write_text(path: str, text: str) -> None:
    """Write a spec, whole or not at all. Raises StorageError when it can't be written."""
    try:
        write_file(Path(path), text)
    except OSError as error:
        raise StorageError(
            f"it can't be written: {error.strerror}", hint="edit it yourself, or free the file", place=Place(path)
        ) from None


class NeededByBuild(Struct, frozen=True):
    """All that the build of a package needs (`lines`), in the whole spec, or in `targets` with tables of their own."""

    package: str
    lines: tuple[str, ...]
    targets: tuple[str, ...] = ()


def allow_source(path: str, names: Iterable[str], needs: Iterable[NeededByBuild] = ()) -> None:
    """Add names to `[pip] allow-source` of the spec at `path`, which must be one that parses, and what builds need to
    its `build-dependencies`. Raises StorageError when it can't be written.
    """
    import tomlkit

    document = tomlkit.parse(read_text(path))
    for name in names:
        listed = _array(document, ("pip",), "allow-source")
        if name not in listed:
            listed.append(name)
    for need in needs:
        tables: list[tuple[str, ...]] = [("targets", target, "pip") for target in need.targets]
        for keys in tables or [("pip",)]:
            table = _table(document, keys)
            known = table.get("build-dependencies")
            if known is None:
                table["build-dependencies"] = tomlkit.value(f"{{ {need.package} = {json.dumps(need.lines)} }}")
            else:
                name = next((other for other in known if canonical_name(other) == need.package), need.package)
                known[name] = list(need.lines)
    write_text(path, _dump(document, read_text(path)))


def add(
    text: str, requirements: Sequence[str], *, kind: str = "pip", target: str | None = None
) -> tuple[str, list[Edit]]:
    """Add requirements (pip) or match specs (conda) to a spec's text, for all targets or for one.

    One that names a package which the table has already takes its place. In a sorted list it goes where it belongs,
    else to the end. Gives the new text and what changed; both are as before where all is there already.

    Raises InputError for a target that the text doesn't have, and for a package that the table has several times.
    """
    import tomlkit

    document = tomlkit.parse(text)
    keys = _keys(document, kind, target)
    listed = _array(document, keys, "dependencies")
    edits = []
    for requirement in requirements:
        here = [
            number for number, other in enumerate(listed) if _subject(kind, str(other)) == _subject(kind, requirement)
        ]
        if len(here) > 1:
            raise InputError(
                f"[{'.'.join(keys)}] has {printable(requirement)} {len(here)} times",
                hint="edit the spec yourself: which one?",
            )
        if not here:
            _insert(listed, kind, requirement)
            edits.append(Edit(".".join(keys), None, requirement))
        elif (old := str(listed[here[0]])) != requirement:
            listed[here[0]] = requirement
            edits.append(Edit(".".join(keys), old, requirement))
    return (_dump(document, text) if edits else text), edits


def remove(
    text: str, names: Sequence[str], *, kind: str | None = None, target: str | None = None
) -> tuple[str, list[Edit]]:
    """Remove packages from a spec's text: from each list of dependencies, or from those of one kind or target.

    Raises InputError for a target that the text doesn't have, and for a package that no such list has.
    """
    import tomlkit

    document = tomlkit.parse(text)
    every = [
        _keys(document, own_kind, of)
        for own_kind in ([kind] if kind else KINDS)
        for of in ([target] if target else [None, *document.get("targets", {})])
    ]
    edits, known, removed = [], set(), set()
    for keys in every:
        listed = _subtable(document, keys).get("dependencies", ())
        for line in [str(line) for line in listed]:
            name = _name(keys[-1], line)
            known.add(name)
            if name in map(canonical_name, names):
                removed.add(name)
                edits.append(Edit(".".join(keys), line, None))
                del listed[listed.index(line)]
    for name in names:
        if not any(
            edit.old and _name(edit.table.rpartition(".")[2], edit.old) == canonical_name(name) for edit in edits
        ):
            near = nearest(canonical_name(name), known)
            raise InputError(
                f"no list of dependencies has {printable(name)}",
                hint=f"did you mean {near}?" if near else "`envspec why SPEC PKG` shows what requires a package",
            )
    return _dump(document, text), edits


def _dump(document: Any, before: str) -> str:
    """Return an edited document's text, with the line ends that it had before."""
    import tomlkit

    text = tomlkit.dumps(document)
    crlf = before.count("\r\n")
    return re.sub(r"\r?\n", "\r\n", text) if crlf and crlf == before.count("\n") else text


def _keys(document: Any, kind: str, target: str | None) -> tuple[str, ...]:
    if target is None:
        return (kind,)
    targets = document.get("targets", {})
    if target not in targets:
        near = nearest(target, targets)
        made = "matrix" in document
        hint = (
            f"did you mean {near}?" if near else "[matrix] makes its targets, and adds to none alone" if made else None
        )
        raise InputError(f"[targets] has no {printable(target)}", hint=hint)
    return ("targets", target, kind)


def _subtable(document: Any, keys: tuple[str, ...]) -> Any:
    table = document
    for key in keys:
        table = table.get(key, {})
    return table


def _array(document: Any, keys: tuple[str, ...], key: str) -> Array:
    table = _table(document, keys)
    if key not in table:
        table[key] = []
    listed: Array = table[key]
    return listed


def _table(document: Any, keys: tuple[str, ...]) -> Any:
    import tomlkit
    from tomlkit.items import InlineTable

    table = document
    for key in keys:
        if key not in table:
            table[key] = tomlkit.inline_table() if isinstance(table, InlineTable) else tomlkit.table()
        table = table[key]
    return table


def _insert(listed: Array, kind: str, line: str) -> None:
    names = [_name(kind, str(other)) for other in listed]
    after = (number for number, name in enumerate(names) if name > _name(kind, line))
    if len(names) > 1 and names == sorted(names) and (number := next(after, None)) is not None:
        listed.insert(number, line)
    else:
        listed.append(line)


def _name(kind: str, text: str) -> str:
    return conda_name(text) if kind == "conda" else canonical_name(parse_requirement(text).name)


def _subject(kind: str, text: str) -> tuple[str, str]:
    """The subject of a line: a package, and the marker under which it is asked for."""
    return _name(kind, text), normalise_requirement(text).partition(";")[2].strip() if kind == "pip" else ""
