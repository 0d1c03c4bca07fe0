"""All claims of a lock asked, side by side: each page once, each file's METADATA once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import OutsideError
from envspec.base.finding import Finding
from envspec.base.redact import redact
from envspec.base.settings import split_credentials
from envspec.lock.model import Pin, Publisher
from envspec.net.fetch import origin_of
from envspec.resolve.uv.answer import FoundFile
from envspec.review.verify import compare
from envspec.review.verify.indexes import Indexes, Rows, found_file, shipped_file
from envspec.review.verify.model import FACTS, Claims, IndexedFile, Outcome, PinClaim, Told, difference

_AT_ONCE = 16
_GIVE_UP = 3
"""Failures of an index that never answered, after which this run doesn't ask it again."""
_PROBES = 3

Progress = Callable[[int, int], None]
AskConda = Callable[[Sequence[PinClaim]], Mapping[PinClaim, Outcome]]


def ask_all(
    claims: Claims, lock: Iterable[Pin], indexes: Indexes, ask_conda: AskConda, on_progress: Progress
) -> tuple[Told, ...]:
    """Ask whoever publishes what is claimed; gives an outcome for each claim, in their order.

    `lock` are all pins of the lock: an index that has none of what is asked is asked for some of these, to tell one
    that lacks a package from an address where no index is. What can't be asked is in the outcomes.
    """
    asking = _Asking(indexes)
    jobs = _jobs(claims, asking, ask_conda)
    found: dict[PinClaim, Outcome] = {}
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        running = [pool.submit(job) for job in jobs]
        for done, job in enumerate(as_completed(running), start=1):
            found.update(job.result())
            on_progress(done, len(running))
    finally:
        # whoever interrupts doesn't wait for what hasn't begun
        pool.shutdown(wait=False, cancel_futures=True)
    nowhere = asking.without_any_page(tuple(lock))
    found = {claim: _skip_unreachable(nowhere, claim, outcome) for claim, outcome in found.items()}
    return tuple(Told(claim, targets, found[claim]) for claim, targets in claims.items())


class SecondSource(Struct, frozen=True):
    """A second source, for the indexes that it is demanded of.

    first      the indexes as they are asked first
    addresses  index name → where it is asked again
    """

    first: Indexes
    addresses: Mapping[str, str]

    def ask(self, told: Sequence[Told], lock: Iterable[Pin], on_progress: Progress) -> tuple[Told, ...]:
        """Ask again what is of these indexes; gives all claims, in their order."""
        mine = {one.claim: one.targets for one in told if self._name(one.claim.pin) in self.addresses}
        unusable = {name: reason for name in self.addresses if (reason := self._unusable(name)) is not None}
        usable = {claim: targets for claim, targets in mine.items() if self._name(claim.pin) not in unusable}
        again = ask_all(usable, lock, self.first.elsewhere(self.addresses), lambda claims: {}, on_progress)
        found = {one.claim: one.outcome for one in again}
        for claim in mine.keys() - found.keys():
            found[claim] = Outcome(unasked=unusable[self._name(claim.pin)])
        return tuple(replace(one, second=found.get(one.claim)) for one in told)

    def _unusable(self, name: str) -> str | None:
        address = redact(split_credentials(self.addresses[name])[0])
        if name not in ("pypi", *self.first.named, *self.first.flat) and not name.startswith("pytorch/"):
            return f"a second source of {name} is demanded, and envspec can't ask a second channel"
        try:
            first = split_credentials(self.first.address(name))[0]
        except OutsideError:
            return None
        if origin_of(first) == origin_of(address):
            return f"{address} is no second source: {name} is asked there first"
        return None

    @staticmethod
    def _name(pin: Pin) -> str:
        return pin.index.rpartition("/")[0] if pin.kind == "conda" else pin.index


Job = Callable[[], Mapping[PinClaim, Outcome]]


def _jobs(claims: Iterable[PinClaim], asking: _Asking, ask_conda: AskConda) -> list[Job]:
    conda: list[PinClaim] = []
    pages: dict[tuple[str, str], list[PinClaim]] = {}
    jobs: list[Job] = []
    for claim in claims:
        pin = claim.pin
        if pin.kind == "conda":
            conda.append(claim)
        elif pin.git is not None:
            jobs.append(lambda claim=claim: {claim: _of_git(claim)})  # type: ignore[misc]
        elif pin.url is not None:
            jobs.append(lambda claim=claim: {claim: asking.of_url(claim)})  # type: ignore[misc]
        else:
            pages.setdefault((pin.index, pin.name), []).append(claim)
    # rattler's query is one, and takes longest
    first: list[Job] = [lambda: ask_conda(conda)] if conda else []
    return [*first, *jobs, *(lambda found=found: asking.of_page(found) for found in pages.values())]


def _of_git(claim: PinClaim) -> Outcome:
    git = claim.pin.git
    assert git is not None
    told = f"{git.address}: only git has the commit, and only building tells its requirements"
    return Outcome(git.url, unproved=(told,))


class _Asking(Struct):
    """The questions to indexes, and how each index fared."""

    indexes: Indexes
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failed: dict[str, list[str]] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)
    _empty: dict[str, set[str]] = field(default_factory=dict)

    def of_url(self, claim: PinClaim) -> Outcome:
        try:
            listed, file = self.indexes.at_url(claim.pin)
        except OutsideError as error:
            return Outcome(unasked=error.message)
        return self._compare(claim, claim.pin.url or "", listed, file)

    def of_page(self, claims: Sequence[PinClaim]) -> Mapping[PinClaim, Outcome]:
        """Ask for a project of an index; `claims` are about it alone."""
        known = {claim: shipped_file(claim.pin) if self.indexes.facts else None for claim in claims}
        found = {
            claim: Outcome(
                FACTS,
                (*_file_differences(claim, facts[0]), *compare.of_metadata(claim, facts[1])),
                (*_open_points(claim, facts[0]), *compare.missing_corrections(claim, facts[1].requires_dist)),
            )
            for claim, facts in known.items()
            if facts is not None
        }
        rest = [claim for claim in claims if claim not in found]
        if not rest:
            return found
        pin = rest[0].pin
        try:
            self._refuse_again(pin.index)
            source, rows = self.indexes.source(pin.index), self.indexes.rows(pin.index, pin.name)
        except OutsideError as error:
            with self._lock:
                self._failed.setdefault(pin.index, []).append(error.message)
            return {**found, **{claim: Outcome(unasked=error.message) for claim in rest}}
        with self._lock:
            if rows is None:
                self._empty.setdefault(pin.index, set()).add(pin.name)
            else:
                self._answered.add(pin.index)
        for claim in rest:
            artifact = claim.pin.artifact
            row = (rows or {}).get(artifact.file) if artifact else None
            found[claim] = self._of_row(claim, source, row, rows or {})
            if row is not None and claim.builds is None:
                on_page = compare.page_refusals(claim, map(dict, (rows or {}).values()))
                found[claim] = replace(found[claim], unexpected=(*found[claim].unexpected, *on_page))
        return found

    def _of_row(self, claim: PinClaim, source: str, row: Mapping[str, object] | None, rows: Rows) -> Outcome:
        if row is None:
            return Outcome(source, tuple(_file_differences(claim, None)))
        try:
            listed = self.indexes.read_row(row)
        except OutsideError as error:
            return Outcome(source, unasked=error.message)
        file, variant = found_file(row, listed), claim.pin.artifact.variant if claim.pin.artifact else None
        if variant is None:
            return self._compare(claim, source, listed, file)
        try:
            published = self.indexes.variants(listed.file, rows)
        except OutsideError as error:
            return Outcome(source, tuple(_file_differences(claim, listed)), unasked=error.message)
        differences = tuple(compare.of_variant(listed.file, variant, published))
        file = replace(file, variant=compare.wheel_of(claim, variant, published))
        return self._compare(claim, source, listed, file, differences)

    def _compare(
        self, claim: PinClaim, source: str, listed: IndexedFile, file: FoundFile, more: Sequence[Finding] = ()
    ) -> Outcome:
        differences = (*_file_differences(claim, listed), *more)
        told = Outcome(source, differences, _open_points(claim, listed), listed.yanked)
        if claim.builds is not None or any(one.code == "other-hash" for one in differences):
            # a file that isn't the lock's says nothing of what the lock pins
            return told
        try:
            described = self.indexes.describe(claim, file)
            differences += tuple(compare.of_builds(claim, described.builds))
            if claim.pin.is_inert and not described.inert:
                differences += (compare.of_code(listed.file),)
            if described.metadata is not None:
                differences += tuple(compare.of_metadata(claim, described.metadata))
                differences += tuple(compare.of_beside(described.metadata, described.beside))
                uncorrected = compare.missing_corrections(claim, described.metadata.requires_dist)
                told = replace(told, unproved=(*told.unproved, *uncorrected))
                if listed.size is None:
                    # pages without sizes: what the file's own server said
                    differences += tuple(
                        _file_differences(claim, replace(listed, size=described.metadata.size, uploaded=None))
                    )
            published = self._check_publisher(claim, listed)
        except OutsideError as error:
            return replace(told, unasked=error.message)
        return replace(
            told,
            differences=(*differences, *published.differences),
            unproved=(*told.unproved, *described.unproved, *published.unproved),
            attested=published.attested,
        )

    def _check_publisher(self, claim: PinClaim, listed: IndexedFile) -> Outcome:
        """Compare the publisher that a lock names with the file's attestations. Raises OutsideError."""
        pin, locked = claim.pin, claim.pin.publisher
        if locked is None:
            return Outcome()
        found = self.indexes.provenance(pin.index, listed)
        if found is None:
            return Outcome(unproved=(f"the publisher: {self.indexes.source(pin.index)} has no attestations",))
        differences = tuple(compare.of_publisher(locked, [Publisher(**one) for one in found.claimed]))
        if differences:
            return Outcome(differences=differences)
        if self.indexes.refused is None:
            return Outcome(unproved=("the publisher: claimed by the index; the extra `attest` has it proved",))
        reason = self.indexes.refused(found.body, listed.file, listed.sha256)
        if reason is None:
            return Outcome(attested=True)
        said = f"its attestation doesn't prove that {locked} published it: {reason}"
        return Outcome(differences=(difference("wrong-attestation", said, str(locked), None),))

    def _refuse_again(self, index: str) -> None:
        """Raise OutsideError for an index that failed several times and never answered."""
        with self._lock:
            failed = self._failed.get(index, [])
            if len(failed) >= _GIVE_UP and index not in self._answered and index not in self._empty:
                raise OutsideError(failed[0])

    def without_any_page(self, lock: Sequence[Pin]) -> Mapping[str, str]:
        """Say of which indexes it isn't known that they are any: they have no page of what was asked, nor of others of
        the lock. Gives the reason by name."""
        found: dict[str, str] = {}
        for index in sorted(self._empty.keys() - self._answered):
            others = sorted({pin.name for pin in lock if pin.kind == "pip" and pin.index == index} - self._empty[index])
            try:
                if not any(self.indexes.rows(index, name) is not None for name in others[:_PROBES]):
                    source = self.indexes.source(index)
                    found[index] = (
                        f"{source} has none of the projects that the lock takes from {index}: no index is there"
                    )
            except OutsideError as error:
                found[index] = error.message
        return found


def _file_differences(claim: PinClaim, listed: IndexedFile | None) -> Iterator[Finding]:
    artifact = claim.pin.artifact
    if artifact is None:
        return
    yield from compare.of_file(artifact, listed)
    if listed is not None and claim.pin.url is None:
        yield from compare.of_time(claim, listed.uploaded)


def _open_points(claim: PinClaim, listed: IndexedFile) -> tuple[str, ...]:
    """The points that an index's page leaves open, or claims without proof."""
    pin, told = claim.pin, []
    if claim.exclude_newer is not None and listed.uploaded is None and pin.url is None:
        told.append(f"the upload before {claim.exclude_newer}: {pin.index} has no upload times")
    return tuple(told)


def _skip_unreachable(nowhere: Mapping[str, str], claim: PinClaim, outcome: Outcome) -> Outcome:
    reason = nowhere.get(claim.pin.index) if claim.pin.kind == "pip" else None
    return outcome if reason is None or outcome.source == FACTS else Outcome(unasked=reason)
