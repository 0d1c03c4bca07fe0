"""The questions about all claims of a lock, side by side: each page once, each file's METADATA once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import OutsideError
from envspec.base.finding import Finding
from envspec.base.redact import redact
from envspec.base.threads import Pool
from envspec.configuration.settings import split_credentials
from envspec.lock.model import Pin, Publisher
from envspec.net.fetch import origin_of
from envspec.resolve.uv.answer import FoundFile
from envspec.review.verify import compare
from envspec.review.verify.indexes import Indexes, Rows, found_file, shipped_file
from envspec.review.verify.model import FACTS, ClaimResult, Claims, IndexedFile, Outcome, PinClaim, difference

_AT_ONCE = 16
_GIVE_UP = 3
"""Failures of an index that never answered, after which this run doesn't ask it again."""
_PROBES = 3

Progress = Callable[[int, int], None]
AskConda = Callable[[Sequence[PinClaim]], Mapping[PinClaim, Outcome]]


def ask_all(
    claims: Claims, lock: Iterable[Pin], indexes: Indexes, ask_conda: AskConda, on_progress: Progress
) -> tuple[ClaimResult, ...]:
    """Ask the publishers about each claim. Return a result for each, in the claims' order.

    `lock` are all pins of the lock: an index without any of the claimed projects is asked for some of these. That tells
    an index that lacks a package from an address without an index. The outcomes name the claims that couldn't be asked
    about.
    """
    asking = _Asking(indexes)
    jobs = _jobs(claims, asking, ask_conda)
    outcomes: dict[PinClaim, Outcome] = {}
    with Pool(_AT_ONCE) as pool:
        running = [pool.submit(job) for job in jobs]
        for done, job in enumerate(as_completed(running), start=1):
            outcomes.update(job.result())
            on_progress(done, len(running))
    nowhere = asking.without_any_page(tuple(lock))
    outcomes = {claim: _skip_unreachable(nowhere, claim, outcome) for claim, outcome in outcomes.items()}
    return tuple(ClaimResult(claim, targets, outcomes[claim]) for claim, targets in claims.items())


class SecondSource(Struct, frozen=True):
    """A second source, for the indexes for which the policy demands one.

    first      the indexes of the first question
    addresses  index name → the address of the second question
    """

    first: Indexes
    addresses: Mapping[str, str]

    def ask(
        self, results: Sequence[ClaimResult], lock: Iterable[Pin], on_progress: Progress
    ) -> tuple[ClaimResult, ...]:
        """Ask the second source about the claims of its indexes. Return all results, in their order."""
        mine = {result.claim: result.targets for result in results if self._name(result.claim.pin) in self.addresses}
        unusable = {name: reason for name in self.addresses if (reason := self._unusable(name)) is not None}
        usable = {claim: targets for claim, targets in mine.items() if self._name(claim.pin) not in unusable}
        again = ask_all(usable, lock, self.first.elsewhere(self.addresses), lambda claims: {}, on_progress)
        outcomes = {result.claim: result.outcome for result in again}
        for claim in mine.keys() - outcomes.keys():
            outcomes[claim] = Outcome(unasked=unusable[self._name(claim.pin)])
        return tuple(replace(result, second=outcomes.get(result.claim)) for result in results)

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
    return [
        *first,
        *jobs,
        *(lambda of_one_page=of_one_page: asking.of_page(of_one_page) for of_one_page in pages.values()),
    ]


def _of_git(claim: PinClaim) -> Outcome:
    git = claim.pin.git
    assert git is not None
    open_point = f"{git.address}: only git has the commit, and only building tells its requirements"
    return Outcome(git.url, unproved=(open_point,))


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
        outcomes = {
            claim: Outcome(
                FACTS,
                (*_file_differences(claim, facts[0]), *compare.of_metadata(claim, facts[1])),
                (*_open_points(claim, facts[0]), *compare.missing_corrections(claim, facts[1].requires_dist)),
            )
            for claim, facts in known.items()
            if facts is not None
        }
        rest = [claim for claim in claims if claim not in outcomes]
        if not rest:
            return outcomes
        pin = rest[0].pin
        try:
            self._refuse_again(pin.index)
            source, rows = self.indexes.source(pin.index), self.indexes.rows(pin.index, pin.name)
        except OutsideError as error:
            with self._lock:
                self._failed.setdefault(pin.index, []).append(error.message)
            return {**outcomes, **{claim: Outcome(unasked=error.message) for claim in rest}}
        with self._lock:
            if rows is None:
                self._empty.setdefault(pin.index, set()).add(pin.name)
            else:
                self._answered.add(pin.index)
        for claim in rest:
            artifact = claim.pin.artifact
            row = (rows or {}).get(artifact.file) if artifact else None
            outcomes[claim] = self._of_row(claim, source, row, rows or {})
            if row is not None and claim.builds is None:
                on_page = compare.page_refusals(claim, map(dict, (rows or {}).values()))
                outcomes[claim] = replace(outcomes[claim], unexpected=(*outcomes[claim].unexpected, *on_page))
        return outcomes

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
        outcome = Outcome(source, differences, _open_points(claim, listed), listed.yanked)
        if claim.builds is not None or any(finding.code == "other-hash" for finding in differences):
            # a file that isn't the lock's says nothing of what the lock pins
            return outcome
        try:
            described = self.indexes.describe(claim, file)
            differences += tuple(compare.of_builds(claim, described.builds))
            if claim.pin.is_inert and not described.inert:
                differences += (compare.of_code(listed.file),)
            if described.metadata is not None:
                differences += tuple(compare.of_metadata(claim, described.metadata))
                differences += tuple(compare.of_beside(described.metadata, described.beside))
                uncorrected = compare.missing_corrections(claim, described.metadata.requires_dist)
                outcome = replace(outcome, unproved=(*outcome.unproved, *uncorrected))
                if listed.size is None:
                    # pages without sizes: what the file's own server said
                    differences += tuple(
                        _file_differences(claim, replace(listed, size=described.metadata.size, uploaded=None))
                    )
            published = self._check_publisher(claim, listed)
        except OutsideError as error:
            return replace(outcome, unasked=error.message)
        return replace(
            outcome,
            differences=(*differences, *published.differences),
            unproved=(*outcome.unproved, *described.unproved, *published.unproved),
            attested=published.attested,
        )

    def _check_publisher(self, claim: PinClaim, listed: IndexedFile) -> Outcome:
        """Compare the publisher that a lock names with the file's attestations. Raises OutsideError."""
        pin, locked = claim.pin, claim.pin.publisher
        if locked is None:
            return Outcome()
        provenance = self.indexes.provenance(pin.index, listed)
        if provenance is None:
            return Outcome(unproved=(f"the publisher: {self.indexes.source(pin.index)} has no attestations",))
        differences = tuple(compare.of_publisher(locked, [Publisher(**publisher) for publisher in provenance.claimed]))
        if differences:
            return Outcome(differences=differences)
        if self.indexes.refused is None:
            return Outcome(unproved=("the publisher: claimed by the index; the extra `attest` has it proved",))
        reason = self.indexes.refused(provenance.body, listed.file, listed.sha256)
        if reason is None:
            return Outcome(attested=True)
        message = f"its attestation doesn't prove that {locked} published it: {reason}"
        return Outcome(differences=(difference("wrong-attestation", message, str(locked), None),))

    def _refuse_again(self, index: str) -> None:
        """Raise OutsideError for an index that failed several times and never answered."""
        with self._lock:
            failed = self._failed.get(index, [])
            if len(failed) >= _GIVE_UP and index not in self._answered and index not in self._empty:
                raise OutsideError(failed[0])

    def without_any_page(self, lock: Sequence[Pin]) -> Mapping[str, str]:
        """Find the addresses that perhaps have no index: no page of a claimed project, nor of others of the lock.
        Return the reason by the index's name."""
        reasons: dict[str, str] = {}
        for index in sorted(self._empty.keys() - self._answered):
            rest = sorted({pin.name for pin in lock if pin.kind == "pip" and pin.index == index} - self._empty[index])
            try:
                if not any(self.indexes.rows(index, name) is not None for name in rest[:_PROBES]):
                    source = self.indexes.source(index)
                    reasons[index] = (
                        f"{source} has none of the projects that the lock takes from {index}: no index is there"
                    )
            except OutsideError as error:
                reasons[index] = error.message
        return reasons


def _file_differences(claim: PinClaim, listed: IndexedFile | None) -> Iterator[Finding]:
    artifact = claim.pin.artifact
    if artifact is None:
        return
    yield from compare.of_file(artifact, listed)
    if listed is not None and claim.pin.url is None:
        yield from compare.of_time(claim, listed.uploaded)


def _open_points(claim: PinClaim, listed: IndexedFile) -> tuple[str, ...]:
    """Yield the points that an index's page leaves open, or claims without proof."""
    pin, points = claim.pin, []
    if claim.exclude_newer is not None and listed.uploaded is None and pin.url is None:
        points.append(f"the upload before {claim.exclude_newer}: {pin.index} has no upload times")
    return tuple(points)


def _skip_unreachable(nowhere: Mapping[str, str], claim: PinClaim, outcome: Outcome) -> Outcome:
    reason = nowhere.get(claim.pin.index) if claim.pin.kind == "pip" else None
    return outcome if reason is None or outcome.source == FACTS else Outcome(unasked=reason)
