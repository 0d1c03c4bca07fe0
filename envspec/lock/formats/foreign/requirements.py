"""requirements.txt, as pip, pip-tools and uv read it: pins with hashes, or plain requirements."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement

from envspec.base.redact import without_credentials
from envspec.lock.formats.foreign.shape import Malformed
from envspec.lock.formats.foreign.side import HashedPin, LoosePin
from envspec.lock.formats.foreign.universal import Environment, holds
from envspec.lock.model import GitSource, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.packages.other_formats import EDITABLE, OTHER_FILE, editable_requirement, logical_lines, without_options
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.packages.tags import marker_environment

_HASH = re.compile(r"\s--hash[= ]sha256:([0-9a-f]{64})\b")


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the logical lines with their numbers: continued lines joined, comments and pip's options left out.

    Editable requirements count, local folders don't. Raises Malformed for a file that includes others, because their
    requirements belong to it.
    """
    for at, whole in logical_lines(text):
        if OTHER_FILE.match(whole):
            option = without_credentials(whole)[:80]
            raise Malformed(f"line {at}: {option!r} names another file; compile them into one first")
        if editable := EDITABLE.match(whole):
            try:
                whole = editable_requirement(editable["what"])
            except ValueError as error:
                raise Malformed(f"line {at}: {without_credentials(editable['what'])[:80]!r} {error}") from None
        if whole and not whole.startswith("-"):
            yield at, whole


def read(text: str, environments: tuple[Environment, ...]) -> tuple[Lock, bool]:
    """Return the packages of each environment, and whether the file pins everything. Raises Malformed."""
    pins_and_markers = [_pin(at, line) for at, line in lines(text)]
    targets = []
    for environment in sorted(environments, key=lambda environment: environment.name):
        variables = marker_environment(environment.platform, environment.python)
        pins = {pin.name: pin for pin, marker in pins_and_markers if not marker or holds(marker, variables)}
        inputs = TargetInputs(environment.platform, environment.python, environment.glibc)
        targets.append(LockedTarget(environment.name, inputs, tuple(pins[name] for name in sorted(pins))))
    return Lock("", SpecInputs(), tuple(targets)), not any(isinstance(pin, LoosePin) for pin, _ in pins_and_markers)


def _pin(at: int, line: str) -> tuple[Pin, str | None]:
    hashes = tuple(_HASH.findall(line))
    bare = without_options(line)
    try:
        parsed = parse_requirement(bare)
    except InvalidRequirement:
        raise Malformed(f"line {at}: {without_credentials(bare)[:80]!r} isn't a requirement") from None
    name = canonical_name(parsed.name)
    marker = str(parsed.marker) if parsed.marker else None
    if parsed.url:
        return _from_url(name, without_credentials(parsed.url), hashes), marker
    clauses = list(parsed.specifier)
    if len(clauses) == 1 and clauses[0].operator in ("==", "===") and not clauses[0].version.endswith(".*"):
        return HashedPin("pip", name, clauses[0].version, "", None, hashes=hashes), marker
    specifier = ",".join(sorted(map(str, clauses), reverse=True))
    return LoosePin("pip", name, "", "", None, direct=True, specifier=specifier or "*"), marker


def _from_url(name: str, url: str, hashes: tuple[str, ...]) -> Pin:
    if url.startswith("git+"):
        base, _, fragment = url.removeprefix("git+").partition("#")
        repository, at, commit = base.rpartition("@")
        # an @ before the path belongs to the address
        if not at or "/" in commit:
            repository, commit = base, ""
        folder = re.search(r"(?:^|&)subdirectory=([^&]+)", fragment)
        return Pin("pip", name, "0", "git", None, git=GitSource(repository, commit, folder[1] if folder else None))
    bare, _, fragment = url.partition("#")
    hash_match = re.search(r"sha256=([0-9a-f]{64})", fragment)
    return HashedPin("pip", name, "0", "url", None, url=bare, hashes=(hash_match[1],) if hash_match else hashes)
