"""The site's policy at the command line: what it refuses, who signed, and when packages were published."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from envspec.app.observer import report
from envspec.app.site_policy import site_policy
from envspec.base.errors import AnswerNo, OutsideError, Place
from envspec.base.finding import Finding, note
from envspec.base.texts import printable
from envspec.facts.torch_builds import variant_of
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.signing.model import LOCK, Signer, allowed_keys
from envspec.lock.store import LockFile
from envspec.packages.names import channel_name
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from envspec.resolve.workflow.prepare import NotAfter
    from envspec.review.audit.store import Stored
    from envspec.review.policy.model import Policy

_TOLD = 8

Making = Literal["proof", "signature"]
"""The demands of the policy that a command itself fulfils, and so can't need. The codes of their breaches begin so."""


class Forbidden(AnswerNo):
    """The site's policy forbids it. `breaches` has everything that it forbids; the text names the first ones."""

    def __init__(self, policy: Policy, breaches: Iterable[Finding], what: str, spec: str | None = None) -> None:
        self.breaches = tuple(breaches)
        left = len(self.breaches) - _TOLD
        lines = [f"{printable(breach.text)}  [{breach.code}]" for breach in self.breaches[:_TOLD]]
        more = [f"and {left} more: `envspec check` names them"] if left > 0 else []
        super().__init__(
            "\n  ".join([f"the policy of this site, {policy.path}, forbids it:", *lines, *more]),
            hint=_remedy(self.breaches, spec) + ask(policy),
            place=Place(what),
        )


def _remedy(breaches: Iterable[Finding], spec: str | None) -> str:
    """Name the option that takes older releases of packages that are too young: the old lock's pins stay otherwise."""
    young = dict.fromkeys(str(breach.package) for breach in breaches if breach.code == "too-young")
    if not young or spec is None:
        return ""
    options = " ".join(f"--upgrade-package {name}" for name in young)
    command = f"envspec lock {printable(spec)} {options}"
    return f"`{command}` takes the newest that is old enough, if the spec allows one; or "


def ask(policy: Policy) -> str:
    """Return the hint that names the policy's contact."""
    return f"ask {printable(policy.contact)}; `envspec doctor` shows the whole policy"


class Applied(Struct, frozen=True):
    """A site's policy, applied to a spec that it allows: the moment at which what is resolved must have been published,
    and what that means for the spec."""

    policy: Policy | None = None
    not_after: NotAfter | None = None
    findings: tuple[Finding, ...] = ()

    def judge(self, spec: Spec, lock: Lock, path: str, *, offline: bool) -> tuple[Finding, ...]:
        """Judge a lock before it is written, or that is fresh. Raises Forbidden, OutsideError."""
        if self.policy is None:
            return ()
        from envspec.review.policy.judge import judge_lock

        _refuse(self.policy, judge_lock(self.policy, lock), path, spec.path)
        breaches, notes = _ages(self.policy, spec, tuple(lock), lock, offline=offline)
        _refuse(self.policy, breaches, path, spec.path)
        return notes


def apply(spec: Spec) -> Applied:
    """Apply the policy before anything is resolved: to what the spec asks for, and where this machine asks. Raises
    Forbidden, PolicyError, and InputError for a broken configuration."""
    policy = site_policy()
    if policy is None:
        return Applied()
    from envspec.review.policy.judge import judge_spec

    _refuse(policy, (*judge_spec(policy, spec), *_addresses(policy, spec, _indexes_of(spec))), spec.path)
    return Applied(policy, bound := bound_of(policy), tuple(_bound_findings(spec, policy, bound)))


def refuse_lock(spec: Spec, lock: Lock, file: LockFile, path: str, making: Making | None = None) -> None:
    """Judge a lock before it is used, but for what the command is about to make of what the policy demands. Raises
    Forbidden, PolicyError, ToolError."""
    policy = site_policy()
    if policy is None:
        return
    from envspec.review.policy.judge import judge_lock, judge_spec

    used = [
        finding for finding in judge_file(policy, file) if making is None or not finding.code.startswith(f"{making}-")
    ]
    _refuse(policy, (*judge_spec(policy, spec), *judge_lock(policy, lock), *used), path)


def judge_file(policy: Policy, file: LockFile) -> tuple[Finding, ...]:
    """Judge a lock that is used by the policy's demands. Raises ToolError without ssh-keygen."""
    from envspec.review.policy.judge import judge_use

    unsigned = None
    if policy.signers:
        from envspec.lock.signing.ssh_keygen import signer_of

        today = datetime.now(timezone.utc).date()
        signer = signer_of(file.content, file.signature, LOCK, allowed_keys(policy.keys_on(today), LOCK))
        unsigned = None if isinstance(signer, Signer) else signer
        if unsigned is not None and policy.revoked:
            revoked = signer_of(file.content, file.signature, LOCK, allowed_keys(policy.revoked, LOCK))
            if isinstance(revoked, Signer):
                unsigned = replace(unsigned, message=f"{unsigned.message}; revoked: {revoked.name}")
    return judge_use(policy, unsigned)


def bound_of(policy: Policy | None) -> NotAfter | None:
    """Return the moment by which releases must have been published, by the policy; None where it sets none."""
    if policy is None or policy.minimum_age is None:
        return None
    from envspec.resolve.workflow.prepare import NotAfter
    from envspec.review.policy.judge import not_after

    return NotAfter(not_after(policy.minimum_age, datetime.now(timezone.utc)), frozenset(policy.young))


def _bound_findings(spec: Spec, policy: Policy, bound: NotAfter | None) -> Iterator[Finding]:
    """Report a bound of the policy that is earlier than a spec's own, or than an exception's."""
    if bound is None:
        return
    moment = bound.moment
    later = [
        exception.name
        for exception in spec.newer_for
        if (exception.bound or "9") > moment and exception.name not in bound.exempt
    ]
    if later or (spec.exclude_newer or "9") > moment:
        names = f", not even of {', '.join(later)}" if later else ""
        message = f"nothing published after {moment} is taken{names}: {policy.path}, [releases] minimum-age"
        yield note(f"{printable(message)}; {printable(policy.contact)} knows why")


def refuse_target(
    spec: Spec, lock: Lock, target: LockedTarget, path: str, *, offline: bool, carried: Stored | None = None
) -> None:
    """Judge a target before it is installed or bundled: the addresses of its indexes, the age of its files, and the
    licences that these state themselves. `carried` is what an image knows of itself.

    Raises Forbidden, PolicyError, OutsideError.
    """
    policy = site_policy()
    if policy is not None:
        used = {pin.index if pin.kind == "pip" else pin.index.rpartition("/")[0] for pin in target.fetched}
        _refuse(policy, _addresses(policy, spec, used), path, spec.path)
        breaches, notes = _ages(policy, spec, (target,), lock, offline=offline, carried=carried)
        report(notes)
        _refuse(policy, breaches, path, spec.path)
        if policy.allow_licences or policy.deny_licences:
            from envspec.app.file_licences import judge_files

            _refuse(policy, judge_files(policy, spec, target, offline=offline), path, spec.path)


def permit_addresses(spec: Spec) -> None:
    """Judge the addresses of a spec's indexes on this machine, before any is asked. Raises Forbidden, PolicyError."""
    if (policy := site_policy()) is not None:
        _refuse(policy, _addresses(policy, spec, _indexes_of(spec)), spec.path)


def refuse_addresses(policy: Policy, used: Mapping[str, str | None], what: str) -> None:
    """Judge the addresses of services that no spec names. Raises Forbidden."""
    from envspec.review.policy.judge import judge_addresses

    _refuse(policy, judge_addresses(policy, used), what)


def _refuse(policy: Policy, findings: Iterable[Finding], what: str, spec: str | None = None) -> None:
    breaches = tuple(findings)
    if breaches:
        raise Forbidden(policy, breaches, what, spec)


def _indexes_of(spec: Spec) -> set[str]:
    """Return the indexes that locking may ask, by name."""
    torch = {f"pytorch/{variant_of(target.cuda)}" for target in spec.targets}
    return {"pypi", *torch, *spec.pip.indexes, *spec.flat_pages, *map(channel_name, spec.conda.channels)}


def _addresses(policy: Policy, spec: Spec, names: Iterable[str]) -> tuple[Finding, ...]:
    """Judge the addresses at which this machine asks these indexes: by the user's settings, variables and all."""
    if policy.indexes is None and not policy.places:
        return ()
    from envspec.artifacts.conda_channels import channel_addresses, load_conda_config
    from envspec.configuration.settings import load_settings
    from envspec.configuration.user_config import load_site_config
    from envspec.review.policy.judge import judge_addresses

    settings = load_settings(os.environ)
    channels = channel_addresses(spec.conda.channels, settings, load_conda_config(os.environ))
    known: dict[str, str | None] = {
        channel.name: channel.address if "://" in channel.address else None for channel in channels
    }
    known |= settings.index_urls(spec.index_addresses) | {"pypi": settings.default_index}
    used: dict[str, str | None] = {}
    for name in sorted(names):
        if name in known:
            used[name] = known[name]
        elif name.startswith("pytorch/"):
            # without a mirror nobody is asked: the facts that ship say what is there
            mirror = settings.pytorch_mirror(name.partition("/")[2])
            if mirror is not None:
                used[name] = mirror
    own = load_site_config().mirrors
    mirrors = {name: mirror for name in used if (mirror := own.get(name) or own.get(name.partition("/")[0]))}
    return judge_addresses(policy, used, {name: at for name, at in mirrors.items() if _is_allowed(policy, spec, name)})


def _is_allowed(policy: Policy, spec: Spec, name: str) -> bool:
    address = spec.index_addresses.get(name)
    return policy.allows_index(name) if address is None else policy.allows_address(address)


def _ages(
    policy: Policy,
    spec: Spec,
    targets: tuple[LockedTarget, ...],
    lock: Lock,
    *,
    offline: bool,
    carried: Stored | None = None,
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Give the breaches of the minimum age, and a note where dates of an earlier time count."""
    if policy.minimum_age is None:
        return (), ()

    from envspec.app.release_dates import ask_dates, dated_files, known_dates
    from envspec.review.policy.judge import AGE, judge_ages

    # what is built with them runs, too
    targets = tuple(replace(target, pins=target.fetched) for target in targets)
    judged, now = replace(lock, targets=targets), datetime.now(timezone.utc)
    files = dated_files(targets, policy.young)
    known = known_dates(files, targets, carried)
    young = tuple(breach for breach in judge_ages(policy, judged, known.times, now) if breach.code == "too-young")
    lacking = {key: pin for key, pin in files.items() if key not in known.times}
    if young or not lacking:
        dated = f"ages are judged by the dates that were asked on {known.oldest} or later"
        notes = (note(dated),) if offline and known.oldest else ()
        return young or judge_ages(policy, judged, known.times, now), notes
    try:
        if offline:
            raise OutsideError("--offline forbids asking")
        times = {**known.times, **ask_dates(spec, lacking)}
    except OutsideError as error:
        names = ", ".join(sorted(file for _, file in lacking))
        raise OutsideError(
            f"{policy.path} wants to know how old each release is ({AGE}), and of {printable(names)} nothing is known: "
            f"{error.message}",
            hint=f"`envspec install` where the indexes answer asks and keeps the dates; or {ask(policy)}",
        ) from None
    return judge_ages(policy, judged, times, now), ()
