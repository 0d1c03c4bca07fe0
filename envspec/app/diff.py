"""A review of what changed between two locks, with what indexes and databases say of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from envspec.app import inputs
from envspec.app.annotate import AnnotatedFiles, annotate
from envspec.app.audit import tell_unread
from envspec.app.observer import observer, warn
from envspec.app.outputs import within_repository
from envspec.app.policy import permit_addresses
from envspec.app.sign import ALLOWED_SIGNERS, signers_text
from envspec.app.verify import ask_indexes, claims_in
from envspec.base.errors import EnvspecError, InputError, LockError, OutsideError, SpecError
from envspec.base.finding import Finding
from envspec.base.texts import few, printable
from envspec.configuration.settings import host_of
from envspec.lock.formats.foreign.read import sides
from envspec.lock.formats.foreign.selection import Wish
from envspec.lock.formats.foreign.side import LoosePin, Side
from envspec.lock.model import Lock
from envspec.lock.read import load_text
from envspec.lock.store import SIGNATURE_NAME
from envspec.review.annotations import code_quality, workflow_commands
from envspec.review.audit.learn import How, look_up_facts
from envspec.review.audit.model import AuditedPackage, Facts, packages
from envspec.review.audit.rules import findings, newest_upload_day, oldest, unchecked_packages
from envspec.review.diff.advisories import Key, Known, Vulnerability, versions, with_advisories
from envspec.review.diff.documents import as_json, html
from envspec.review.diff.judged import Answers, packages_in_doubt, with_answers, with_flaws, with_spec_changes
from envspec.review.diff.markdown import LIMIT, markdown
from envspec.review.diff.model import nothing
from envspec.review.diff.of_specs import brought_addresses, of_specs
from envspec.review.diff.review import review
from envspec.review.diff.revision import merged_revisions, text_at
from envspec.review.diff.rows import Asked, Fact, LookedUp, Review, merge_facts
from envspec.review.diff.settings import of_allowed_signers, of_exceptions, of_merge, of_signatures
from envspec.review.diff.text import text
from envspec.review.git.program import work_tree
from envspec.review.verify.claims import new_claims
from envspec.review.verify.model import ClaimResult, Outcome, Verification
from envspec.spec.document import read_bytes
from envspec.spec.model import Audit, Spec
from envspec.spec.newer import lock_day

_CODES = ("vulnerability", "yanked")
"""The findings that a change of version brings or resolves: an audit's other findings concern the lock as it is."""

_OFFLINE = "--offline forbids asking"
_OF_FILES = frozenset({"not-published", "other-hash", "other-size"})


class DiffRequest(Struct, frozen=True):
    """A comparison: a spec's lock (`path`) with a git revision (HEAD), or two files (`path` and `other`).

    `wish` chooses extras, groups and platforms of universal files. `verify` asks the indexes for the changed pins;
    `audit` looks up the changed versions; `how` says from where.
    """

    path: str
    other: str | None
    revision: str | None
    wish: Wish
    locks_dir: Path | None
    verify: bool
    audit: bool
    how: How


class Compared(Struct, frozen=True):
    """A review, the new lock's path, whether all that was to be asked could be, and the path of the spec, if any."""

    review: Review
    lock: Path
    complete: bool
    spec: str | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The review for JSON, uncut."""
        return as_json(self.review)

    def render(self, form: str, style: Callable[[str, str], str] = lambda line, _: line, limit: int = LIMIT) -> str:
        """Render the review as text, Markdown of at most `limit` characters, HTML, or for GitHub or GitLab."""
        if form in ("github", "gitlab"):
            annotations = annotate(self.review, self._files())
            place = within_repository(self.lock)
            return workflow_commands(annotations, place) if form == "github" else code_quality(annotations, place)
        if form == "markdown":
            return markdown(self.review, limit)
        return text(self.review, style) if form == "text" else html(self.review)

    def _files(self) -> AnnotatedFiles:
        lock = load_text(self.lock) if self.lock.is_file() else ""
        if self.spec is None:
            return AnnotatedFiles(lock)
        return AnnotatedFiles(
            lock, read_bytes(self.spec).decode("utf-8", "replace"), within_repository(Path(self.spec))
        )

    def warn_of_gaps(self) -> None:
        """Warn of what couldn't be asked."""
        for reason, names in self.review.verified.unasked if self.review.verified else ():
            warn(f"couldn't be asked: {printable(few(names))}: {printable(reason)}")


def compare(request: DiffRequest) -> Compared:
    """Compare two locks. Raises SpecError, LockError, InputError for the files, the revision or the database,
    ToolError for git."""
    spec, revision = None, request.revision
    if request.other is None:
        _refuse_for_spec(request.wish)
        spec = inputs.read_spec(request.path)
        old, new = _against_git(spec, revision or "HEAD", request.locks_dir)
    elif revision is not None:
        raise InputError(
            "--from compares a spec's lock with a git revision, not two files", hint="leave out --from, or NEW"
        )
    else:
        old, new = sides(Path(request.path), Path(request.other), request.wish)
    reviewed, complete = with_flaws(review(old, new), new, spec), True
    brought: Mapping[str, str] = {}
    if spec is not None and old.lock.targets:
        changes, brought = _spec_changes(spec, revision or "HEAD", old.lock, new.lock)
        signers = _signers(spec, revision or "HEAD", request.locks_dir)
        reviewed = with_spec_changes(
            reviewed, (*changes, *signers, *_merge_losses(spec, request.locks_dir, old.lock, new.lock))
        )
    if spec is not None and new.lock.targets:
        reviewed = with_spec_changes(reviewed, _edited_files(spec, request.locks_dir, new.lock))
    if request.verify:
        if spec is None:
            hint = "compare a spec with a revision: envspec diff SPEC --from REV --verify"
            raise InputError("--verify asks the indexes that a spec has, and two files have none", hint=hint)
        reviewed, complete = _add_verification(reviewed, old.lock, new.lock, spec, brought, offline=request.how.offline)
    if request.audit:
        reviewed, read = _add_audit(reviewed, old, new, spec, request)
        complete = complete and read
    path = inputs.folder_of(spec, request.locks_dir).path if spec else Path(request.other or request.path)
    return Compared(reviewed, path, complete, spec.path if spec else None)


def _refuse_for_spec(wish: Wish) -> None:
    """Refuse choices when no universal file is compared: a spec's lock has its targets. Raises InputError."""
    if wish.selects or wish.platforms or wish.python:
        hint = "use them with OLD and NEW files such as uv.lock"
        raise InputError("a spec's lock has no extras, groups or platforms to choose", hint=hint)


def _against_git(spec: Spec, revision: str, locks_dir: Path | None) -> tuple[Side, Side]:
    folder = inputs.folder_of(spec, locks_dir)
    lock, old = folder.read(), inputs.lock_at(revision, spec, locks_dir)
    if lock is None and old is None:
        raise InputError(f"{spec.path} has no lock, neither here nor at {revision}", hint=f"envspec lock {spec.path}")
    before = Side(f"{revision} (no lock yet)", nothing(spec.name)) if old is None else Side(revision, old)
    if lock is None:
        return before, Side(f"{folder.path} (no lock any more)", nothing(spec.name))
    return before, Side(str(folder.path), lock)


def _spec_changes(spec: Spec, revision: str, old: Lock, new: Lock) -> tuple[tuple[Fact, ...], Mapping[str, str]]:
    """List what changed in the spec and isn't in its locks, and give the addresses that came with it, by name."""
    path = Path(spec.path)
    try:
        before_text = text_at(path, revision)
    except InputError:
        return (), {}  # the spec isn't in the repository of its locks
    try:
        before = inputs.read_edit(spec.path, before_text) if before_text else None
    except SpecError as error:
        # what an envspec of then could read
        return (_unread(f"{spec.path} at {revision} can't be read: {error.message}"),), {}
    if before is None:
        return (_unread(f"{spec.path} doesn't exist at {revision}"),), {}
    days = tuple(lock_day(spec, lock.inputs.exclude_newer) for lock in (old, new))
    exceptions = of_exceptions(before.newer_for, spec.newer_for, datetime.now(timezone.utc), (days[0], days[1]))
    return (*of_specs(before, spec), *exceptions), brought_addresses(before, spec)


def _signers(spec: Spec, revision: str, locks_dir: Path | None) -> tuple[Fact, ...]:
    """List the keys that signed the lock at the revision, or sign it now, and not both. Of a signed lock also what
    changed in the repository's own list of those that may."""
    folder = inputs.folder_of(spec, locks_dir)
    file = folder.read_with_signature()
    old = text_at(folder.path.with_name(SIGNATURE_NAME), revision)
    now = file.signature if file else None
    facts = tuple(of_signatures(old, now.decode(errors="replace") if now is not None else None))
    top = work_tree(folder.path.parent)
    if top is None or (old is None and now is None):
        return facts
    try:
        before = text_at(top / ALLOWED_SIGNERS, revision)
        after = signers_text(top / ALLOWED_SIGNERS) if os.path.lexists(top / ALLOWED_SIGNERS) else None
    except EnvspecError as error:
        unread = Fact("medium", "signers-allowed", f"{ALLOWED_SIGNERS} can't be read: {error.message}")
        return (*facts, unread)
    return (*facts, *of_allowed_signers(before, after, ALLOWED_SIGNERS))


def _unread(why: str) -> Fact:
    message = f"{why}. Its addresses, [image] and [audit] aren't compared: read the spec's own diff"
    return Fact("medium", "spec-unread", message)


def _edited_files(spec: Spec, locks_dir: Path | None, lock: Lock) -> tuple[Fact, ...]:
    """List the rendered files of the working tree that aren't as the lock gives them: `pip` installs from these."""
    folder = inputs.folder_of(spec, locks_dir)
    remedy = f"run `envspec lock {spec.path}{inputs.elsewhere(locks_dir)}`, which renders it again"
    try:
        differences = folder.rendered_reasons(lock)
    except EnvspecError as error:
        return (Fact("high", "rendered-edited", f"a rendered file can't be read: {error.message}"),)
    return tuple(
        Fact(
            "high",
            difference.code,
            f"{folder.path.parent.as_posix()}/{difference.message}: {remedy}; find out who edited it",
            tuple(
                target.name
                for target in lock
                if len(lock.targets) > 1 and str(difference.file).startswith(f"{target.name}/")
            ),
        )
        for difference in differences
        if difference.code == "rendered-edited"
    )


def _merge_losses(spec: Spec, locks_dir: Path | None, old: Lock, new: Lock) -> tuple[Fact, ...]:
    """List the versions that a side of the merge at hand had moved to, and that the new lock is behind."""
    merged = merged_revisions(inputs.folder_of(spec, locks_dir).path)
    if merged is None:
        return ()
    revisions = (merged[0], *merged[1])
    try:
        base, *sides = (inputs.lock_at(revision, spec, locks_dir) for revision in revisions)
    except LockError:
        return ()  # a side's lock can't be read: the merge itself can't have been by package
    facts = (
        (fact.targets[0], replace(fact, targets=()))
        for revision, side in zip(merged[1], sides, strict=True)
        for fact in (of_merge(base or nothing(spec.name), side, revision, old, new) if side else ())
    )
    return merge_facts(facts, [target.name for target in new])


def _add_verification(
    review: Review, old: Lock, new: Lock, spec: Spec, brought: Mapping[str, str], *, offline: bool
) -> tuple[Review, bool]:
    """Add what the indexes say of the pins that changed, and say whether all of them could be asked. `brought` are the
    addresses that came with the change."""
    before = claims_in(spec, old, old.targets)
    required = new_claims(claims_in(spec, new, new.targets), before)
    names = packages_in_doubt(review)
    # what another file replaced: lowering its risk needs both
    replaced = {claim: where for claim, where in before.items() if (claim.pin.kind, claim.pin.name) in names}
    claims = {**replaced, **required}
    if offline:
        results = tuple(ClaimResult(claim, targets, Outcome(unasked=_OFFLINE)) for claim, targets in claims.items())
    else:
        results = ask_indexes(spec, new, claims) if claims else ()
    verification = Verification(tuple(result for result in results if result.claim in required), len(required))
    hosts = {host_of(pin.url) for target in old for pin in target.pins if pin.url}
    servers = {result.claim: _server_of_change(result, brought, hosts) for result in results}
    trusted = Verification(
        tuple(result for result in verification.results if servers[result.claim] is None), len(required)
    )
    unproving: dict[str, list[str]] = {}
    for result in verification.results:
        server = servers[result.claim]
        if server is not None and not result.is_unasked and not result.differs:
            unproving.setdefault(server, []).append(result.claim.label)
    answers = Answers(
        held=frozenset(
            file for result in results if servers[result.claim] is None and (file := _file_of_index(result)) is not None
        ),
        refuted=_forgeries(verification, frozenset(target.name for target in new)),
        verified=Asked(
            len(required),
            trusted.proved,
            len({result.claim for result, *_ in verification.forged}),
            tuple(verification.unasked.items()),
            tuple((server, tuple(sorted(set(names)))) for server, names in unproving.items()),
            verification.by_facts,
        ),
        yanked={
            (
                result.claim.pin.kind,
                result.claim.pin.name,
                result.claim.pin.version,
            ): f"its publisher yanked it: {reason}"
            if reason.strip()
            else "its publisher yanked it, and gives no reason"
            for result, reason in verification.yanked
            if result.claim.builds is None
        },
    )
    return with_answers(review, answers), not verification.unasked


def _server_of_change(result: ClaimResult, brought: Mapping[str, str], hosts: Collection[str]) -> str | None:
    """Name the server that answered for a pin, where the change itself chose it; None where the old lock's spec did.
    `hosts` are those of the old lock's URLs. A second source is the choice of the site's policy.
    """
    pin = result.claim.pin
    if result.second is not None or pin.git is not None:
        return None
    if pin.url is not None:
        host = host_of(pin.url)
        return None if host in hosts else host
    name = pin.index.rpartition("/")[0] if pin.kind == "conda" else pin.index
    return f"{name} ({brought[name]})" if name in brought else None


def _file_of_index(result: ClaimResult) -> tuple[str, str] | None:
    """Return the file of a claim, if its index was found to hold it."""
    outcome, artifact = result.outcome, result.claim.pin.artifact
    if artifact is None or outcome.unasked is not None or not outcome.source:
        return None
    if any(finding.code in _OF_FILES for finding in outcome.differences):
        return None
    return artifact.file, artifact.sha256


def _forgeries(verification: Verification, every: frozenset[str]) -> tuple[Fact, ...]:
    return tuple(
        Fact(
            "high",
            difference.code,
            f"NOT WHAT ITS INDEX PUBLISHES: {result.claim.label}: {difference.message}",
            () if set(result.targets) == every else result.targets,
            result.claim.builds or result.claim.pin.name,
        )
        for result, *_, difference in verification.forged
    )


def _add_audit(review: Review, old: Side, new: Side, spec: Spec | None, request: DiffRequest) -> tuple[Review, bool]:
    """Add the findings to a review, and say whether everything was read: what wasn't is on stderr.

    Looks up only the versions in the review's rows. Two files have no spec, so their own indexes and the advisories to
    ignore are unknown. Raises InputError for a database that isn't one.
    """
    keys = versions(review)
    chosen = _packages_in(keys, old, new)
    now = datetime.now(timezone.utc)
    if spec is not None and not request.how.offline:
        permit_addresses(spec)
    try:
        with observer().progress("looking up releases") as progress:
            indexes = spec.indexes if spec else {}
            name, facts = look_up_facts(indexes, chosen, request.how, os.environ, now, progress.count, warn)
    except OutsideError as error:
        # the rest of the review is worth showing
        name, facts = "", Facts(files=None, unread=(str(error),))
    incomplete = tell_unread(facts)
    judged = findings(chosen, facts, spec.audit if spec else Audit(), now)
    unchecked = (
        (tuple(code for code in not_asked.codes if code in _CODES), not_asked.reason, not_asked.packages)
        for not_asked in (unchecked_packages(chosen, facts) if name else ())
    )
    looked_up = LookedUp(
        name,
        oldest(chosen, facts),
        (*facts.unread, *facts.unread_files),
        tuple(not_asked for not_asked in unchecked if not_asked[0]),
    )
    known = {
        key: _version_findings([package for package in chosen if _is(package, key)], facts, judged) for key in keys
    }
    return with_advisories(review, known, looked_up), not incomplete


def _packages_in(keys: Iterable[Key], old: Side, new: Side) -> tuple[AuditedPackage, ...]:
    """Give the packages of both sides in these versions."""
    targets = [
        replace(target, name=f"{side} {target.name}", pins=tuple(p for p in target.pins if not isinstance(p, LoosePin)))
        for side, lock in (("old", old.lock), ("new", new.lock))
        for target in lock
    ]
    named = {key[:3] for key in keys}
    return tuple(
        package
        for package in packages(targets)
        if (package.kind, package.name, package.version) in named and any(_is(package, key) for key in keys)
    )


def _is(package: AuditedPackage, key: Key) -> bool:
    return (package.kind, package.name, package.version) == key[:3] and key[3] in (None, package.index)


def _version_findings(alike: Iterable[AuditedPackage], facts: Facts, findings: Iterable[Finding]) -> Known:
    """Give the findings of a version, whatever licence or file a side has of it."""
    alike = tuple(alike)
    mine = [finding for finding in findings if finding.evidence.package in alike]
    answers = [facts.answers.get(package.release) for package in alike if package.release is not None]
    advisories = [finding.evidence.advisory for finding in mine]
    vulnerabilities = {
        advisory.id: Vulnerability(advisory.id, advisory.names, advisory.summary, advisory.fixed_in, finding.accepted)
        for finding, advisory in zip(mine, advisories, strict=True)
        if advisory is not None
    }
    is_known = any(answer is not None and answer.known for answer in answers)
    yanked = next((finding.message for finding in mine if finding.code == "yanked"), None)
    return Known(
        tuple(vulnerabilities.values()) if is_known else None,
        yanked,
        newest_upload_day(alike, facts),
        releases=next((answer.releases for answer in answers if answer is not None and answer.releases), None),
    )
