"""requirements.txt and .in: pip's lines and options, with the files that they name."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envspec.base.errors import Place
from envspec.base.redact import redact_command, without_credentials
from envspec.draft.gather import Gathered, has_project, is_folder
from envspec.lock.formats.foreign.shape import file_name, index_name
from envspec.packages.other_formats import (
    EDITABLE,
    EGG,
    OTHER_FILE,
    editable_requirement,
    logical_lines,
    without_options,
)

Reader = Callable[[Path], str]
"""Reads a file that another one names. Raises InputError, StorageError."""

_INDEX = re.compile(r"(?:-i|--pypi-url|--(?:extra-)?index-url|--(?:default-)?index)[ =]+(?:[\w.-]+=)?(\S+)")
"""pip's options, and uv's, whose value may begin with a name."""
_LINKS = re.compile(r"(?:-f|--find-links)[ =]+(\S+)")
_FOLDER = re.compile(r"[./~]|file:|[A-Za-z]:[\\/]|(?!.*://).*\.(?:whl|tar\.gz|zip)$")
"""What pip takes for a path."""
_SOURCE = re.compile(r"--no-binary[ =]+(\S+)")
_WITHOUT_EFFECT = {
    "--pre": "say it in the requirement: name>=2.0.dev0",
    "--no-index": "only the user's configuration says where PyPI is",
    "--trusted-host": "it belongs in the user's configuration",
    "--only-binary": "everything that [pip] allow-source doesn't name is a wheel anyway",
    "--prefer-binary": "everything that [pip] allow-source doesn't name is a wheel anyway",
    "--require-hashes": "every lock has hashes",
    "--use-feature": "it's about pip itself",
}


class RequirementsReader:
    """Reads a file and those that it names, each once. `below` is the folder that none of them may lead out of."""

    def __init__(self, gathered: Gathered, read: Reader, below: Path) -> None:
        self.gathered, self.read, self.below = gathered, read, below
        self._seen: set[tuple[str, bool]] = set()

    def file(self, path: Path, *, constraints: bool = False) -> None:
        """Read a file of requirements, or of constraints."""
        key = (os.path.normpath(path), constraints)
        if key in self._seen:
            return
        self._seen.add(key)
        self.lines(self.read(path), path, constraints=constraints)

    def lines(self, text: str, path: Path, *, constraints: bool = False, first: int | None = None) -> None:
        """Read the text of a file. `first` is the line where it stands, if it is part of another file."""
        first = getattr(text, "line", first) if first is not None else None
        for number, line in logical_lines(text):
            place = Place(str(path), number if first is None else first)
            if other_file := OTHER_FILE.match(line):
                kind = other_file["short"] or other_file["long"]
                self._other(other_file["file"].strip().strip("'\""), path, place, kind in ("-c", "constraint"))
            elif editable := EDITABLE.match(line):
                self._editable(editable["what"], path, place)
            elif line.startswith("-"):
                self._options(line, place)
            elif constraints:
                self.gathered.constraint(self._bare(line, place), place)
            else:
                self._requirement(self._bare(line, place), path, place)

    def _other(self, name: str, path: Path, place: Place, constraints: bool) -> None:
        if "://" in name:
            self.gathered.note(f"{without_credentials(name)} isn't read: save it beside this file", place)
            return
        other = path.parent / name
        if other.name == "pyproject.toml":  # as uv has it
            self._folder(str(Path(name).parent), path, place)
            return
        if not Path(os.path.realpath(other)).is_relative_to(os.path.realpath(self.below)):
            self.gathered.note(f"{name} isn't read: it lies outside {self.below.name or self.below}", place)
            return
        self.gathered.count_line(place)
        self.file(other, constraints=constraints)

    def _options(self, text: str, place: Place) -> None:
        for option in re.split(r"\s+(?=--?[a-z])", text.strip()):
            self._option(option, place)

    def _option(self, line: str, place: Place) -> None:
        gathered = self.gathered
        if match := _INDEX.match(line):
            name = gathered.index(match[1], place, first=not re.match(r"--(?:extra-index-url|index)[ =]", line))
            if name not in (None, "pypi"):
                text = f'the file doesn\'t say what comes from {name} alone: [pip] sources = {{ PKG = "{name}" }} does'
                gathered.note(text, place)
        elif match := _LINKS.match(line):
            gathered.flat_index(match[1], place)
        elif match := _SOURCE.match(line):
            text = f"--no-binary {match[1]} is left out: lock takes wheels first; [pip] allow-source allows sources"
            gathered.note(text, place)
        else:
            option = re.split(r"[ =]", line, maxsplit=1)[0]
            why = _WITHOUT_EFFECT.get(option, "a spec has no such option")
            gathered.note(f"{redact_command(line)[:100]} is left out: {why}", place)

    def _bare(self, line: str, place: Place) -> str:
        bare = without_options(line)
        options = line[len(bare) :].strip()
        self.gathered.hashes += "--hash" in options
        if rest := re.sub(r"--hash[= ]\S+", "", options).strip(" \\"):
            self._options(rest, place)
        return bare

    def _editable(self, what: str, path: Path, place: Place) -> None:
        try:
            requirement = editable_requirement(what)
        except ValueError:
            requirement = what
        if requirement:
            self.gathered.note(f"{_excerpt(requirement)} isn't editable in a locked environment", place)
            self._requirement(requirement, path, place)
        else:
            self._folder(_unquote(what), path, place)

    def _requirement(self, text: str, path: Path, place: Place) -> None:
        if "@" not in text and _FOLDER.match(text):
            self._folder(text, path, place)
            return
        if re.match(r"(?:[a-z]+\+)?[a-z]+://", text):
            address, _, marker = map(str.strip, text.partition("; "))
            where = f" ; {marker}" if marker else ""
            name = _name_of(address)
            wheel = re.search(r"/(torch(?:vision|audio)?)-([^-/]+)-[^/]*\.whl$", address)
            if wheel and index_name(address).startswith("pytorch/"):
                self.gathered.requirement(f"{wheel[1]}=={unquote(wheel[2])}{where}", place)
                return
            if name is None:
                self.gathered.note(f"{_excerpt(text)} is left out: write it as NAME @ URL", place)
                return
            if not (EGG.search(address) or address.endswith(".whl")):
                self.gathered.note(f"{_excerpt(text)} has no package's name: {name} is a guess by its URL", place)
            text = f"{name} @ {address}{where}"
        self.gathered.requirement(text, place)

    def _folder(self, what: str, path: Path, place: Place) -> None:
        folder, _, rest = what.removeprefix("file:").partition("[")
        # pip looks from the current folder, people from the file's
        places = (Path(folder.partition(";")[0].strip()), path.parent / folder.partition(";")[0].strip())
        target = next(filter(has_project, places), None)
        known = self.gathered.project
        extras = [extra for extra in map(str.strip, rest.partition("]")[0].split(",")) if extra]
        if target is not None and (known is None or os.path.abspath(known[0]) == os.path.abspath(target)):
            taken = dict.fromkeys([*(known[1] if known else ()), *extras])
            self.gathered.project = (str(target), tuple(taken))
        elif target:
            self.gathered.folder(what, target, extras, place)
        else:
            self.gathered.note(f"{what!r} is left out: {self._why_not(folder, places)}", place)

    def _why_not(self, what: str, places: Sequence[Path]) -> str:
        """Say why a path is no project that the spec could take."""
        if re.search(r"\.(?:whl|tar\.gz|zip)\s*$", what):
            return "it's a file of one machine"
        return "no pyproject.toml is there" if any(map(is_folder, places)) else "there is no such folder"


def _excerpt(text: str) -> str:
    url_match = re.search(r"\S+://\S+", text)
    return text.replace(url_match[0], without_credentials(url_match[0]))[:100] if url_match else text[:100]


def _unquote(text: str) -> str:
    try:
        return "".join(shlex.split(text)[:1])
    except ValueError:
        return text


def _name_of(url: str) -> str | None:
    """Guess a package's name by the URL of its repository or file."""
    if egg := EGG.search(url):
        return egg["name"]
    if archive := re.search(r"/([^/]+)/archive/", url):
        return archive[1]
    last = file_name(unquote(urlsplit(url).path.rstrip("/")))
    stem = last.partition("@")[0].removesuffix(".git")
    if last.endswith(".whl"):
        stem = last.partition("-")[0]
    elif file := re.match(r"(.+?)-[0-9][^-]*(?:\.tar\.gz|\.zip|\.tar\.bz2)$", last):
        stem = file[1]
    return stem if re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", stem) else None
