"""What a record proves, and how far a target is proved, as frozen values."""

from __future__ import annotations

from dataclasses import field

from envspec.record import dataclass
from envspec.rungs import reached, rungs_of, said

KIND = "envspec-proof"
SCHEMA = 1


@dataclass(frozen=True)
class Proof:
    """What one record proves of one target of one lock.

    rungs        what it proves
    lock_digest  of the target's slice of the lock: another lock is another target
    made         when (RFC 3339)
    file         the record's name
    refused      why it proves nothing
    """

    spec: str
    target: str
    lock_digest: str
    rungs: frozenset[str]
    made: str
    file: str
    refused: str | None = None


@dataclass(frozen=True)
class Standing:
    """How far a target is proved. `records` are the records' names by rung, `outdated` those of another lock or that
    prove nothing, each with the reason.
    """

    target: str
    gpus: bool
    records: dict[str, tuple[str, ...]] = field(default_factory=dict)
    outdated: tuple[tuple[str, str], ...] = ()

    @property
    def reached(self) -> str | None:
        """The highest rung that is proved with all below it."""
        return reached(self.records, gpus=self.gpus)

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
        told = " → ".join(map(said, proved))
        return f"{told} (without {', '.join(map(said, missing))})" if missing else told
