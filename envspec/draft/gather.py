"""Gathers what a file of another tool asks for. What a spec can't hold becomes a note."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envspec.base.errors import Place
from envspec.base.reader.nodes import BadValue
from envspec.base.redact import has_credentials, is_secret, redact, without_credentials
from envspec.configuration.settings import host_of
from envspec.draft.lines import at
from envspec.draft.model import Draft, NewTarget, Note, VersionClaim
from envspec.facts.torch_builds import cuda_of_variant
from envspec.lock.formats.foreign.shape import index_name, is_pypi_itself, optional, string, strings
from envspec.packages.conda import admits, version_and_build
from envspec.packages.python_range import specifier_of
from envspec.packages.requirement import (
    canonical_name,
    parse_requirement,
    too_much,
)
from envspec.spec.advice import slug
from envspec.spec.values import bound, override, requirement

_PYTORCH = ("torch", "torchaudio", "torchvision")
"""Packages whose builds envspec chooses by the target's CUDA."""
_LONGEST = 1_000
"""The length of a joined requirement that is joined with no more: honest ones have a dozen bounds."""
_VARIANT = r"cpu|cu(?:[789][0-9]|[1-9][0-9]{2})"
_BUILD = re.compile(rf"\+(?:pt[0-9]+)?({_VARIANT})\b(?:\.[a-z0-9]+)*")
_PAGES = {
    "data.pyg.org": ("pyg-lib", "torch-cluster", "torch-scatter", "torch-sparse", "torch-spline-conv"),
    "data.dgl.ai": ("dgl",),
    "download.openmmlab.com": ("mmcv", "mmcv-full"),
}
"""The packages that pages with links have, by their host, as their projects' instructions say."""
_CUDA = re.compile(r"[0-9]{1,2}(\.[0-9]{1,2})?")


_TOKEN = re.compile(r"/t/[^/?#]+")
"""Where conda looks for a token in an address, wherever in its path."""


def _is_random(segment: str) -> bool:
    """Return whether a part of a path looks like a token: letters and digits by turns, and no digest of a commit or a
    file."""
    is_digest = re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", segment)
    long = re.findall(r"[A-Za-z0-9]{16,}", segment)
    return not is_digest and any(len(re.findall(r"[A-Za-z]+|[0-9]+", run)) > 4 for run in long)


def has_project(folder: Path) -> bool:
    """Return whether a folder that a file names has a pyproject.toml; a path that can't be one has none."""
    try:
        return (folder / "pyproject.toml").is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Return whether a path that a file names is a folder; one that can't be a path is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


class Gathered:
    """The values read so far. Methods take values as a file has them, with their place."""

    def __init__(self) -> None:
        self.pip: dict[tuple[str, str], str] = {}
        self.own: dict[tuple[str, str], str] = {}
        self.constraints: dict[tuple[str, str], str] = {}
        self.overrides: dict[tuple[str, str], str] = {}
        self.conda: dict[str, None] = {}
        self.channels: dict[str, None] = {}
        self.indexes: dict[str, str] = {}
        self.find_links: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.apt: dict[str, None] = {}
        self.unisolated: dict[str, None] = {}
        self.platforms: dict[str, None] = {}
        self.available: dict[str, tuple[str, ...]] = {}
        self.claims: dict[VersionClaim, None] = {}
        self.lines: dict[str, dict[Note, None]] = {}
        self.notes: dict[Note, None] = {}
        self.hashes = 0
        self.description: str | None = None
        self.name: str | None = None
        self.exclude_newer: str | None = None
        self.project: tuple[str, tuple[str, ...]] | None = None
        self.user: str | None = None
        self.sources_by_marker: dict[tuple[str, str, str], None] = {}
        self.members: Mapping[str, Path] = {}
        self.folders: dict[str, tuple[str, ...]] = {}
        self.targets: tuple[NewTarget, ...] = ()

    def beside(self) -> Gathered:
        """Return an empty one that shares what a spec says once: indexes, channels and notes."""
        other = Gathered()
        other.notes, other.channels = self.notes, self.channels
        other.indexes, other.find_links, other.lines = self.indexes, self.find_links, self.lines
        return other

    def count_line(self, place: Place, text: str = "") -> None:
        """Remember the line that asks for a text of the spec."""
        self.lines.setdefault(text, {})[Note(text, place)] = None

    def line_of(self, text: str) -> Place | None:
        """The first line that asks for a text of the spec."""
        return next((line.place for line in self.lines.get(text, ())), None)

    def extra(self, name: str, requirements: Iterable[str]) -> None:
        """Remember what an extra or a group of the project asks for; a spec takes it where it says so."""
        self.available[name] = tuple(requirements)

    def folder(self, name: str, folder: Path, extras: Iterable[str], place: Place) -> None:
        """Take a local project beside the one that the spec names, with these extras: its requirements are listed."""
        if not has_project(folder):
            self.note(f"{name} is left out: no pyproject.toml is in {folder}", place)
            return
        known = self.folders.get(str(folder), ())
        self.folders[str(folder)] = tuple(dict.fromkeys((*known, *extras)))

    def note(self, text: str, place: Place | None = None) -> None:
        """Remember, in one line and without secrets, what isn't in the spec as it stands in the file."""
        self.notes[Note(redact(" ".join(text.split())), place)] = None

    def variable(self, name: str, value: str, place: Place) -> None:
        """Take a variable of the environment, but for a secret: an image would hold it."""
        place = at(name, place)
        if is_secret(name, value):
            ways = f"`docker run -e {name}`, [slurm] environment or [kubernetes] secret"
            self.note(
                f"the variable {name} is left out, since it may hold a secret: pass it at run time by {ways}", place
            )
        else:
            self.variables[name] = value
            self.count_line(place)

    def channel(self, address: str, place: Place) -> None:
        """Take a channel of conda's packages."""
        place = at(address, place)
        if (bare := self._address(address, "a channel's", place)) is not None:
            self.channels.setdefault(bare)
            self.count_line(place, bare)

    def _address(self, url: str, whose: str, place: Place) -> str | None:
        """Return an address without its credentials; None for one whose path may hold a token that can't be told from
        the rest."""
        if "://" not in url:
            return url
        bare = re.sub(r"\$\{[^}]*\}(?::\$\{[^}]*\})?@", "", without_credentials(url))
        bare = _TOKEN.sub("", bare)
        if bare != url:
            self.note(f"{whose} credentials are left out: give them by netrc, the keyring or your own settings", place)
        if any(map(_is_random, urlsplit(bare).path.split("/"))):
            text = f"{whose} address at {host_of(bare)} is left out, since its path may hold a token"
            self.note(f"{text}: give it in your own configuration of mirrors", place)
            return None
        return bare

    def requirement(self, text: str, place: Place, into: dict[tuple[str, str], str] | None = None) -> None:
        """Take a requirement of pip, joined with one of the same package and marker: a URL counts before bounds."""
        into, place = self.pip if into is None else into, at(text, place)
        cleaned = self._clean_requirement(text, place)
        if cleaned is None:
            return
        parsed = parse_requirement(cleaned)
        if (member := self.members.get(canonical_name(parsed.name))) and not parsed.url:
            self.folder(parsed.name, member, sorted(parsed.extras), place)
            return
        key = (canonical_name(parsed.name), str(parsed.marker or ""))
        self.count_line(place, cleaned)
        if key not in into:
            into[key] = cleaned
            return
        if len(into[key]) > _LONGEST:  # each further one would be joined with all before it
            self.note(f"{cleaned!r} is left out: so many requirements on {key[0]} stand before it", place)
            return
        first = parse_requirement(into[key])
        if parsed.url and first.url and parsed.url != first.url:
            self.note(f"{cleaned!r} is left out: {into[key]!r} already says where {key[0]} comes from", place)
            return
        extras = first.extras | parsed.extras
        bounds = first.specifier & parsed.specifier
        joined = first if first.url else parsed
        joined.extras = extras
        if joined.url is None:
            joined.specifier = bounds
        elif bounds:
            self.note(f"{key[0]}: the bound {bounds} is left out, since it comes from a URL", place)
        before, into[key] = into[key], str(joined)
        lines = self.lines.setdefault(into[key], {})
        if before != into[key]:
            lines.update(self.lines.get(before, {}))
        lines[Note(cleaned, place)] = None

    def constraint(self, text: str, place: Place) -> None:
        """Take a bound that asks for nothing."""
        place = at(text, place)
        cleaned = self._clean_requirement(text, place)
        if cleaned is None:
            return
        try:
            bound(cleaned)
        except BadValue as error:
            self.note(f"the constraint {cleaned!r} is left out: it {error.reason}", place)
        else:
            self.requirement(cleaned, place, self.constraints)

    def override(self, text: str, place: Place) -> None:
        """Take a requirement that replaces all others on its package."""
        place = at(text, place)
        cleaned = self._clean_requirement(text, place)
        if cleaned is None:
            return
        self.count_line(place, cleaned)
        try:
            self.overrides[override(cleaned).identity[0], override(cleaned).identity[1]] = cleaned
        except BadValue as error:
            self.note(f"the override {cleaned!r} is left out: it {error.reason}", place)

    def _clean_requirement(self, text: str, place: Place) -> str | None:
        """Return a requirement that a spec can hold: without credentials, and without the CUDA of PyTorch's builds."""
        text = self.without_credentials(" ".join(text.split()), place)
        url_match = re.search(r"(?<!\S)\S+://\S+", text)
        if url_match and url_match[0].startswith("file:"):
            self.note(f"{text!r} is left out: it's a file of one machine", place)
            return None
        try:
            parsed = requirement(text)
        except BadValue as error:
            self.note(f"{text!r} is left out: it {error.reason}", place)
            return None
        for variant in _BUILD.findall(text):
            self.build_of(variant, place)
        if "@" in text.partition(";")[0]:
            return text
        bare, semicolon, marker = text.partition(";")
        bare = re.sub(r"\s*([<>=!~]=?=?)\s*", r"\1", re.sub(r"\s*,\s*", ",", bare.strip()))
        return (_BUILD.sub("", bare) if parsed.name in _PYTORCH else bare) + (
            f"; {marker.strip()}" if semicolon else ""
        )

    def without_credentials(self, text: str, place: Place) -> str:
        """Return a requirement or a match spec without the credentials of its URL."""
        url_match = re.search(r"(?<![A-Za-z0-9.+-])[A-Za-z0-9.+-]*://\S+", text)
        if url_match is None or not has_credentials(url_match[0]):
            return text
        self.note("a URL's credentials are left out: give them by git, netrc or the keyring", place)
        return text.replace(url_match[0], without_credentials(url_match[0]))

    def claim(self, about: str, text: str, place: Place, written: str = "") -> None:
        """Take what a file says of Python or CUDA."""
        if text.strip():
            self.claims[VersionClaim(about, text.strip(), at(text, place), written)] = None

    def build_of(self, variant: str, place: Place, part: str = "", marker: str = "") -> None:
        """Take a variant of PyTorch's builds (`cu128`, `cpu`) for what it says: the target's CUDA, for an extra or a
        group, or under a marker."""
        self.claims[VersionClaim("cuda", cuda_of_variant(variant) or "cpu", place, "", part, marker)] = None

    def torch_backend(self, text: str, place: Place) -> None:
        """Take uv's `torch-backend`."""
        if re.fullmatch(_VARIANT, text):
            self.build_of(text, place)
        else:
            self.note(f"torch-backend {text} is left out: the target's CUDA says which builds it has", place)

    def cuda_version(self, text: str, place: Place) -> None:
        """Take a CUDA that a label, a tag or a file names (`12.4.1`): its minor version, or the newest of a major."""
        named, place = _CUDA.search(text), at(text, place)
        if named:
            self.claim("cuda" if named[1] else "cuda-version", named[0] if named[1] else f"{named[0]}.*", place)
        else:
            self.note(f"CUDA {text.strip(' =')!r} is no version: choose one with --cuda", place)

    def cuda_of_match_spec(self, bound: str, place: Place) -> None:
        """Take what a match spec says of the version of a package that is there to choose a CUDA."""
        version, _ = version_and_build(f"cuda {bound}")
        self.claim("cuda-version", version or "*", place)

    def index(
        self,
        url: str,
        place: Place,
        name: str | None = None,
        *,
        first: bool = False,
        part: str = "",
        marker: str = "",
    ) -> str | None:
        """Take an index, and give its name in the spec; PyTorch's say the CUDA, and PyPI needs no name.

        The `first` index of a file, in PyPI's place, may be a mirror of PyPI. A further one never is: a package of its
        own must not come from PyPI.
        """
        place = at(url, place)
        bare = self._address(url, "an index's", place)
        if bare is None:
            return None
        self.count_line(place)
        url, known = bare, index_name(bare)
        if known == "pypi" and (first or is_pypi_itself(url)):
            if not is_pypi_itself(url):
                text = f"{url} is taken for a mirror of PyPI: your configuration says where PyPI is"
                self.note(f"{text}; if it has packages of its own, name it in [pip.indexes]", place)
            return "pypi"
        if known.startswith("pytorch/"):
            variant = known.partition("/")[2]
            if re.fullmatch(_VARIANT, variant):
                self.build_of(variant, place, part, marker)
            else:
                self.note(f"the PyTorch index for {variant} is left out: envspec knows CUDA and CPU builds", place)
            if "/nightly/" in url or "/test/" in url:
                self.note("the index of PyTorch's nightly or test builds is left out: envspec takes releases", place)
            return None
        host_and_path = re.sub(r"^https?://", "", url).strip("/") if known == "pypi" else known
        return self._index_name(url, self.indexes, slug(name or host_and_path.replace("/", "-")), place)

    def flat_index(self, url: str, place: Place, name: str | None = None) -> str | None:
        """Take a page with links to files, and give its name in the spec. Which packages it has, its file doesn't
        say."""
        place = at(url, place)
        self.count_line(place)
        for variant in _BUILD.findall(unquote(url)):
            self.build_of(variant, place)
        bare = self._address(url, "a page's", place)
        if bare is None:
            return None
        url = bare
        if re.search(r"/whl/(?:torch(?:_stable)?(?:\.html|/)|(?:cpu|cu[0-9]+)/)", url):
            self.note(f"the page {url} is left out: envspec has PyTorch's builds by the target's CUDA", place)
        elif not url.startswith(("http://", "https://")):
            self.note(f"the folder {url!r} is left out: give files by their URLs", place)
        else:
            preferred_name = slug(name or index_name(url).replace("/", "-").removesuffix(".html"))
            known = self._index_name(url, self.find_links, preferred_name, place)
            if host_of(url) not in _PAGES:
                text = f'packages come from {known} only where sources say so: sources = {{ PKG = "{known}" }}'
                self.note(text, place)
            return known
        return None

    def _sources_of_pages(self) -> dict[str, str]:
        """Say which of the packages that are asked for come from pages that are known to have them."""
        names = {name for name, _ in (*self.pip, *self.own)}
        return {
            package: page
            for page, url in self.find_links.items()
            for package in _PAGES.get(host_of(url), ())
            if package in names
        }

    def _index_name(self, url: str, into: dict[str, str], name: str, place: Place) -> str:
        if name.startswith("pytorch") or name in ("", "pypi", "git", "url"):
            name = f"index-{name}".rstrip("-")
        for known, address in {**self.indexes, **self.find_links}.items():
            if address == url:
                return known
        count = 2
        base = name = name.removesuffix("-simple")
        while name in self.indexes or name in self.find_links:
            name, count = f"{base}-{count}", count + 1
        into[name] = url
        return name

    def python_of_match_spec(self, bound: str, place: Place) -> None:
        """Take what a match spec says of Python's version, as rattler reads it."""
        match_spec = f"python {version_and_build(f'python {bound}')[0]}"
        specifier = specifier_of(lambda version: admits(match_spec, version, ""), bound)
        # a Python without a release says that there is none
        self.claim("python", "<0" if specifier is None else specifier, place, bound)

    def take(self, other: Draft, file: str) -> None:
        """Take what another file asks for, which contradicts nothing here."""
        place = Place(file)
        names = {
            name: self._index_name(url, into, name, place)
            for listed, into in ((other.indexes, self.indexes), (other.find_links, self.find_links))
            for name, url in listed.items()
        }
        is_further = self.project and other.project and self.project[0] != other.project[0]
        # only what the project that the spec names asks for is left to its file
        own = self.own if other.project and not is_further else self.pip
        for into, texts in ((self.pip, other.pip), (own, other.own), (self.constraints, other.constraints)):
            for text in texts:
                self.requirement(text, other.line_of(text) or place, into)
        for text, lines in other.lines.items():
            self.lines.setdefault(text, {}).update(dict.fromkeys(lines))
        for text, _ in other.overrides:
            self.override(text, place)
        for name, index in other.sources.items():
            self.sources.setdefault(name, names.get(index, index))
        for name, index, marker in other.sources_by_marker:
            self.sources_by_marker[name, names.get(index, index), marker] = None
        for key, value in other.variables.items():
            if self.variables.setdefault(key, value) != value:
                self.note(f"{key}={value} is left out: another file has {key}={self.variables[key]}", place)
        for retained, more in (
            *((self.conda, other.conda), (self.channels, other.channels), (self.apt, other.apt)),
            *((self.unisolated, other.unisolated), (self.platforms, other.platforms)),
        ):
            retained.update(dict.fromkeys(more))
        self.claims.update(dict.fromkeys(other.claims))
        self.notes.update(dict.fromkeys(other.notes))
        self.description = self.description or other.description
        self.exclude_newer = self.exclude_newer or other.exclude_newer
        if is_further and other.project:
            text = f"the requirements of the project in {other.project[0]} are listed: a spec names one local project"
            self.note(text, place)
        if other.available and (is_further or (other.own and not other.project)):
            self.note(f"left out of the project that is listed: {', '.join(other.available)}", place)
        elif other.project and not is_further:
            self.available |= other.available
        if other.project and not is_further:
            extras = (*(self.project[1] if self.project else ()), *other.project[1])
            self.project = other.project[0], tuple(dict.fromkeys(extras))
        self.targets = self.targets or other.targets
        self.user = self.user or other.user

    def draft(self) -> Draft:
        """Return what was gathered."""
        if self.hashes:
            count = f"{self.hashes} requirement{'s' if self.hashes > 1 else ''}"
            self.note(f"the hashes of {count} are left out: the lock has its own")
        return Draft(
            self.description,
            self.exclude_newer,
            tuple(self.pip.values()),
            tuple(text for key, text in self.own.items() if " @ " not in self.pip.get(key, "")),
            tuple(self.conda),
            tuple(self.channels),
            tuple(self.constraints.values()),
            tuple((text, "taken over: say why") for text in self.overrides.values()),
            self.indexes,
            self.find_links,
            {**self._sources_of_pages(), **self.sources},
            tuple(self.unisolated),
            tuple(self.platforms),
            self.variables,
            tuple(self.apt),
            self.project,
            self.available,
            tuple(self.notes),
            self.targets,
            self.name,
            tuple(self.claims),
            {text: tuple(lines) for text, lines in self.lines.items()},
            self.user,
            tuple(self.sources_by_marker),
        )


_KNOWN = (
    *(
        "version",
        "extras",
        "markers",
        "marker",
        "env-markers",
        "git",
        "rev",
        "tag",
        "branch",
        "subdirectory",
        "url",
        "index",
        "source",
    ),
    *("optional", "python", "platform", "path"),
)


def pep440(version: str) -> str | None:
    """Write a version of Poetry or pixi as a specifier of PEP 440; None for `||` and numbers without end."""
    if "|" in version or too_much(version):
        return None
    # blanks between two clauses join them, too
    parts = [_clause(part.strip()) for part in re.sub(r"(?<=[\w*])\s+(?=[<>=!~^])", ",", version).split(",")]
    return ",".join(part for part in parts if part)


def _clause(text: str) -> str:
    if text in ("", "*"):
        return ""
    text = re.sub(r"^([^0-9v]*)v?", r"\1", text)
    if not text.startswith(("=", "!", *"0123456789")):
        text = text.partition("+")[0]
    text = re.sub(r"^~=\s*([0-9]+)$", r"^\1", text)  # of one number PEP 440 has no such clause
    numbers = re.match(r"([\^~])\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", text)
    if numbers and not text.startswith("~="):
        return f">={numbers[2]}{numbers[3]},<{_next(numbers[1], [int(number) for number in numbers[2].split('.')])}"
    if re.match(r"[0-9]", text):
        return f"=={text}"
    return re.sub(r"^=(?!=)", "==", text)


def _next(sign: str, parts: list[int]) -> str:
    """Return the first version that `^` or `~` excludes."""
    if sign == "~":
        at = min(1, len(parts) - 1)
    else:
        at = next((number for number, part in enumerate(parts) if part), len(parts) - 1)
    return ".".join(map(str, [*parts[:at], parts[at] + 1]))


def dependency(name: str, value: Any, gathered: Gathered, place: Place) -> str | None:
    """Return a dependency of such a table as a requirement; None for one that no spec can hold, which is noted.

    Raises Malformed.
    """
    place = at(name, place)
    if isinstance(value, list):
        gathered.note(f"{name} has {len(value)} alternatives: the first is taken", place)
        value = value[0] if value else "*"
    if not isinstance(value, dict):
        value = {"version": string(value, name)}
    extras = strings(value.get("extras"), "extras")
    head = f"{name}[{','.join(extras)}]" if extras else name
    marker = all_of(*_markers(value), _python(value, name, gathered, place))
    if "path" in value:
        gathered.folder(name, Path(place.file).parent / string(value["path"], "path"), extras, place)
        return None
    if value.get("workspace"):
        gathered.note(f"{name} is left out: it's a project of this workspace, which `--from` takes too", place)
        return None
    for key in value:
        if key not in _KNOWN:
            gathered.note(f"{name}: {key} is left out", place)
    address = _address(value)
    if address:
        return f"{head} @ {address}" + (f" ; {marker}" if marker else "")
    version = optional(value.get("version"), "version") or "*"
    specifier = pep440(version)
    if specifier is None:
        gathered.note(f"{name} is taken without its version: no requirement says {version!r}", place)
    return f"{head}{specifier or ''}" + (f"; {marker}" if marker else "")


def _address(value: Mapping[str, Any]) -> str | None:
    if "url" in value:
        return string(value["url"], "url")
    if "git" not in value:
        return None
    url = string(value["git"], "git")
    scp_address = re.fullmatch(r"([\w.-]+@[\w.-]+):(.+)", url)  # as scp has it
    url = f"ssh://{scp_address[1]}/{scp_address[2]}" if scp_address else url
    ref = next((string(value[key], key) for key in ("rev", "tag", "branch") if key in value), None)
    folder = optional(value.get("subdirectory"), "subdirectory")
    text = f"{'' if url.startswith('git+') else 'git+'}{url}{f'@{ref}' if ref else ''}"
    return f"{text}#subdirectory={folder}" if folder else text


def all_of(*markers: str | None) -> str:
    """Join markers of which all must hold."""
    present = [marker for marker in markers if marker]
    return " and ".join(
        f"({marker})" if len(present) > 1 and re.search(r"\bor\b", marker) else marker for marker in present
    )


def _markers(value: Mapping[str, Any]) -> tuple[str | None, ...]:
    platform = optional(value.get("platform"), "platform")
    keys = ("markers", "marker", "env-markers")
    return *(optional(value.get(key), key) for key in keys), platform and f'sys_platform == "{platform}"'


def _python(value: Mapping[str, Any], name: str, gathered: Gathered, place: Place) -> str:
    python = optional(value.get("python"), "python")
    specifier = pep440(python) if python else ""
    if specifier is None:
        gathered.note(f"{name}: its python = {python!r} is left out", place)
        return ""
    return " and ".join(
        f'{"python_full_version" if clause[2].count(".") > 1 else "python_version"} {clause[1]} "{clause[2]}"'
        for text in specifier.split(",")
        if (clause := re.fullmatch(r"([<>=!~]+)\s*(.+?)(?:\.\*)?", text))
    )
