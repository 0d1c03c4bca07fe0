"""The proof that a record gives, and a target's standing, as frozen values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from envspec.lock.model import Lock, LockedTarget
from envspec.lock.slice import slice_digest, slice_of
from envspec.prove.rungs import highest_rung, phrase, rungs_of

KIND = "envspec-proof"
SCHEMA = 1


@dataclass(frozen=True)
class Proof:
    """The proof of one target of one lock by one record.

    rungs        what it proves
    lock_digest  of the target's slice of the lock: another lock is another target
    made         when (RFC 3339)
    file         the record's name
    refused      why it proves nothing
    python       the version of Python that it was made with, where it says so: a run's
    """

    spec: str
    target: str
    lock_digest: str
    rungs: frozenset[str]
    made: str
    file: str
    refused: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class Standing:
    """The rungs that a target has reached. `records` are the records' names by rung, `outdated` those of another
    lock or that prove nothing, each with the reason. `pythons` are the versions of Python that rungs were proved
    with alone, where the lock names another build: "3.11.7" by rung; `locked_python` is that build's version.
    """

    target: str
    gpus: bool
    records: dict[str, tuple[str, ...]] = field(default_factory=dict)
    outdated: tuple[tuple[str, str], ...] = ()
    pythons: dict[str, str] = field(default_factory=dict)
    locked_python: str | None = None

    @property
    def reached(self) -> str | None:
        """The highest rung that is proved with all below it."""
        return highest_rung(self.records, gpus=self.gpus)

    @property
    def rungs(self) -> tuple[tuple[str, bool], ...]:
        """The rungs that the target has, and whether each is proved."""
        return tuple((rung, rung in self.records) for rung in rungs_of(gpus=self.gpus))

    @property
    def line(self) -> str:
        """ "locked → compiles (without verified, linked)": the rungs that are proved, and those below that aren't."""
        proved = [rung for rung, is_proved in self.rungs if is_proved]
        if not proved:
            return "not proved"
        names = [rung for rung, _ in self.rungs]
        missing = [rung for rung in names[: names.index(proved[-1])] if rung not in proved]
        told = " → ".join(map(phrase, proved))
        notes = [f"without {', '.join(map(phrase, missing))}"] if missing else []
        notes += [self.other_python] if self.other_python else []
        return f"{told} ({'; '.join(notes)})" if notes else told

    @property
    def other_python(self) -> str:
        """The rungs that were proved with another Python than the lock's; empty without any."""
        rungs = [rung for rung, _ in self.rungs if rung in self.pythons]
        versions = ", ".join(dict.fromkeys(self.pythons[rung] for rung in rungs))
        return f"{', '.join(map(phrase, rungs))} with Python {versions}, not {self.locked_python}" if rungs else ""


def standings(lock: Lock, targets: Iterable[LockedTarget], records: Iterable[Proof]) -> tuple[Standing, ...]:
    """Say how far each of these targets is proved. The lock must have been judged: that is the first rung."""
    known = tuple(record for record in records if record.spec == lock.name)
    return tuple(_standing(lock, target, known) for target in targets)


def _standing(lock: Lock, target: LockedTarget, records: tuple[Proof, ...]) -> Standing:
    digest = slice_digest(slice_of(lock, target))
    build = lock.python(target)
    found: dict[str, tuple[str, ...]] = {"locked": ()}
    pythons: dict[str, set[str | None]] = {}
    outdated = []
    for record in records:
        if record.target != target.name:
            continue
        if record.refused is not None:
            outdated.append((record.file, record.refused))
        elif record.lock_digest != digest:
            outdated.append((record.file, "it is of another lock of this target"))
        else:
            other = record.python if build and record.python != build.version else None
            for rung in record.rungs:
                found[rung] = (*found.get(rung, ()), record.file)
                pythons.setdefault(rung, set()).add(other)
    # a rung that some record proves with the lock's own, or without any, needs no word
    others = {rung: max(filter(None, versions)) for rung, versions in pythons.items() if None not in versions}
    version = build.version if build else None
    return Standing(target.name, target.inputs.cuda is not None, found, tuple(outdated), others, version)
