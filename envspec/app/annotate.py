"""A review's facts, each at the line that it is about: of the lock, of the spec, or of another tool's file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from msgspec import Struct

from envspec.base.finding import Finding, Severity
from envspec.base.reader.positions import TooDeep, toml_positions
from envspec.review.annotations import Annotation, line_in, lines_of, target_lines
from envspec.review.diff import words
from envspec.review.diff.rows import SHOUTED, Fact, Review, Risk

_SEVERITIES: Mapping[Risk, Severity] = {"high": "error", "medium": "warning"}

_OF_TARGETS = {
    "architectures-changed": "architectures",
    "cpu-": "cpu",
    "cuda-": "cuda",
    "driver-changed": "driver",
    "driver-floor-": "driver-floor",
    "glibc-": "glibc",
    "gpu-": "gpus",
    "platform-": "platform",
    "python-changed": "python",
    "target-": "",
}
"""The key of a lock's target that a fact is about, by how the fact's code begins; "" is the target itself."""


class AnnotatedFiles(Struct, frozen=True):
    """The texts in which facts are looked for: the new lock's (empty where there is none any more), and the spec's with
    its path from the root of the repository."""

    lock: str = ""
    spec: str = ""
    spec_path: PurePosixPath | None = None


def annotate(review: Review, files: AnnotatedFiles) -> Iterator[Annotation]:
    """Yield the facts of high and medium risk, the gravest first. Within a risk, shouted facts lead, and the first of
    each kind comes before the second of any."""
    finder = _Finder(files)
    every = [located for located in dict.fromkeys(_facts(review)) if located[0].risk in _SEVERITIES]
    for risk in _SEVERITIES:
        alike = sorted(
            (located for located in every if located[0].risk == risk),
            key=lambda located: located[0].code not in SHOUTED,
        )
        for fact, kind, name, version, title in words.by_kind(alike, lambda located: located[0].code):
            file, line = finder.place(fact, kind, name, version)
            finding = Finding(_SEVERITIES[fact.risk], fact.code, words.fact(fact))
            yield Annotation(finding, title, line, fact.message, file)


def _facts(review: Review) -> Iterator[tuple[Fact, str, str, str, str]]:
    """Yield each fact, with kind, name and new version of the package that it is about, and what moved from where to
    where."""
    versions = {row.name: (row.kind, move.new.version if move.new else "") for row in review.rows for move in row.moves}
    for fact in (*review.flaws, *review.gpu, *review.settings):
        kind, version = versions.get(fact.package or "", ("", ""))
        yield fact, kind, fact.package or "", version, fact.package or review.name or "lock"
    for row in review.rows:
        for move in row.moves:
            new, title = move.new.version if move.new else "", f"{row.name} {words.versions(move)}"
            yield from ((fact, row.kind, row.name, new, title) for fact in move.facts)


class _Finder:
    def __init__(self, files: AnnotatedFiles) -> None:
        self.files = files
        self.packages = lines_of(files.lock)
        self.names: dict[str, int] = {}
        for (_, name, _), line in self.packages.items():
            self.names.setdefault(name, line)
        self.targets = target_lines(files.lock)
        try:
            self.spec = toml_positions(files.spec)
        except (TooDeep, ValueError):
            self.spec = {}

    def place(self, fact: Fact, kind: str, name: str, version: str) -> tuple[PurePosixPath | None, int]:
        """Return the file (None for the lock) and the line of a fact."""
        if line := self._in_spec(fact):
            return self.files.spec_path, line
        if name and (line := self._of_package(kind, name, version)):
            return None, line
        of_target = max((prefix for prefix in _OF_TARGETS if fact.code.startswith(prefix)), key=len, default=None)
        names = fact.targets or tuple(dict.fromkeys(target for target, _ in self.targets))
        key = "" if of_target is None else _OF_TARGETS[of_target]
        lines = [self.targets.get((target, key)) for target in names]
        lines += [self.targets.get((target, "")) for target in names]
        return None, next((line for line in lines if line), 1)

    def _of_package(self, kind: str, name: str, version: str) -> int | None:
        if self.packages:
            return self.packages.get((kind, name, version)) or self.names.get(name)
        return line_in(self.files.lock, name, version)

    def _in_spec(self, fact: Fact) -> int | None:
        """Find the key of the spec that a fact is about, a target's own before the shared one; of one that went, what
        is left around it."""
        for length in range(len(fact.key), 0, -1):
            path = fact.key[:length]
            for key_path in (*(("targets", target, *path) for target in fact.targets), path):
                if key_path in self.spec:
                    return self.spec[key_path].key.line
        return None
