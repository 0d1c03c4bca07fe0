"""A policy's judgement of a spec, a lock and a machine's addresses: pure.

No spec can loosen it: a package's licence is the metadata's or the policy's word, an index is the address behind its
name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from msgspec.structs import replace

from envspec.base.finding import Finding, merge_targets
from envspec.base.redact import redact
from envspec.lock.model import Lock, Pin
from envspec.packages.address import is_within
from envspec.packages.licences import is_acceptable
from envspec.packages.names import channel_name
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.prove.rungs import RUNGS
from envspec.review.policy.model import Policy
from envspec.spec.model import Spec
from envspec.spec.newer import moment_of

# The breaches of a policy, in words.


def rules(policy: Policy) -> tuple[tuple[str, str], ...]:
    """List each demand: its key, and a sentence."""
    return tuple(_rules(policy))


def _rules(policy: Policy) -> Iterator[tuple[str, str]]:
    if policy.indexes is not None:
        yield "[indexes] allow", f"packages come from {_join_or_nothing(policy.indexes)} alone"
    for name, address in policy.places.items():
        yield "[indexes] at", f"{name} is asked at {redact(address)} alone"
    for name, address in policy.second.items():
        yield "[indexes] second", f"what `envspec verify` asks {name}, it asks {redact(address)} too"
    if policy.build is not None:
        yield _BUILD, f"{_join_or_nothing(sorted(policy.build))} may be built from source"
        yield _OWN, f"specs' own projects may {'be built too' if policy.own_projects else 'not be built'}"
    if policy.origins is not None:
        yield "[sources] from", f"git and URL requirements lie below {_join_or_nothing(policy.origins)}"
    if policy.minimum_age is not None:
        hours = int(policy.minimum_age.total_seconds()) // 3600
        age = f"{hours // 24} days" if hours % 24 == 0 else f"{hours} hours"
        yield "[releases] minimum-age", f"a release is {age} old before it's locked or installed"
        for name, reason in policy.young.items():
            yield "[releases] except", f"releases of {name} may be younger: {redact(reason)}"
    if policy.exceptions is not None:
        yield "[releases] exceptions", f"exclude-newer holds for all but {_join_or_nothing(policy.exceptions)}"
    if policy.advisories:
        yield "[releases] ask-advisories", "a release is looked up in OSV's reports before it's locked or installed"
    if policy.allow_licences:
        yield "[licences] allow", f"packages are under {_join_or_nothing(policy.allow_licences)} alone"
    if policy.deny_licences:
        yield "[licences] deny", f"no package is under {_join_or_nothing(policy.deny_licences)}"
    if policy.signers:
        keys = f"one of {len(policy.signers)} keys" if len(policy.signers) > 1 else "a single key"
        yield (
            "[signatures] signers",
            f"{keys} has signed a lock before it is used: {_join_or_nothing(map(_whose, policy.signers))}",
        )
        for key, day in policy.revoked.items():
            yield "[signatures] revoked", f"{redact(_whose(key))} doesn't count from {day} on"
    if policy.proof == RUNGS[0]:
        yield "[proof] required", "a target is locked before it's used"
    elif policy.proof is not None:
        unchecked = "this envspec can't tell yet, and so refuses to use any lock"
        yield "[proof] required", f"a target is proved as far as {policy.proof!r} before it's used: {unchecked}"


def _whose(key: str) -> str:
    kind, text, *comment = key.split(None, 2)
    return comment[0] if comment else f"{kind} …{text[-8:]}"


def _join_or_nothing(names: Iterable[str]) -> str:
    return ", ".join(map(redact, names)) or "nothing"


_NO_MIRRORS: Mapping[str, str] = MappingProxyType({})
_INDEXES, _AT = "[indexes] allow", "[indexes] at"
_BUILD, _OWN, _FROM = "[sources] allow", "[sources] own-projects", "[sources] from"
AGE, _EXCEPT = "[releases] minimum-age", "[releases] exceptions"


def _breach(code: str, key: str, message: str, targets: tuple[str, ...] = (), package: str | None = None) -> Finding:
    """Make the finding that a key of the policy forbids something."""
    return Finding("error", code, f"{message} ({key} of the site's policy)", key=key, targets=targets, package=package)


def judge_spec(policy: Policy, spec: Spec) -> tuple[Finding, ...]:
    """Judge a spec by the policy."""
    return merge_targets(_of_spec(policy, spec))


def judge_lock(policy: Policy, lock: Lock) -> tuple[Finding, ...]:
    """Judge a lock's content by the policy. The spec has the addresses of its indexes and channels, which `judge_spec`
    judges."""
    return merge_targets(
        breach for target in lock for pin in target.pins for breach in _of_pin(policy, target.name, pin)
    )


def judge_use(policy: Policy, unsigned: Finding | None) -> tuple[Finding, ...]:
    """Judge a lock before it is used: it needs a signature (`unsigned` says why this lock has none of the policy's
    signers). envspec refuses a demand that it can't check."""
    findings = []
    if policy.signers and unsigned is not None:
        findings.append(_breach(unsigned.code, "[signatures] signers", unsigned.message))
    if policy.proof not in (None, RUNGS[0]):
        message = f"a target must be proved as far as {policy.proof!r}, and this envspec can't tell yet"
        findings.append(_breach("proof-unchecked", "[proof] required", message))
    return tuple(findings)


def judge_builds(policy: Policy, names: Iterable[str]) -> tuple[Finding, ...]:
    """Judge the packages that are built from source."""
    return tuple(
        _breach("source-forbidden", _BUILD, f"{name} may not be built from source", package=name)
        for name in sorted(names)
        if not policy.allows_build(name)
    )


def judge_addresses(
    policy: Policy, used: Mapping[str, str | None], mirrors: Mapping[str, str] = _NO_MIRRORS
) -> tuple[Finding, ...]:
    """Judge the addresses at which this machine asks the indexes: name → address, None for where envspec or uv would
    ask by itself. `mirrors` are the site's own mirrors of allowed indexes."""
    findings = []
    for name, address in used.items():
        usage = f"{name} is asked at {redact(address)}" if address else f"{name} is asked where uv or conda has it"
        place = policy.places.get(name) or policy.places.get(name.partition("/")[0])
        if place is not None:
            if address is None or not is_within(address, place):
                findings.append(_breach("index-elsewhere", _AT, f"{usage}, and has to be at {redact(place)}"))
        elif address is not None and not policy.allows_address(address):
            if name in mirrors and is_within(address, mirrors[name]):
                continue
            findings.append(_breach("index-forbidden", _INDEXES, f"{usage}, which isn't allowed"))
    return tuple(findings)


def judge_ages(
    policy: Policy, lock: Lock, uploaded: Mapping[tuple[str, str], str | None], now: datetime
) -> tuple[Finding, ...]:
    """Judge the files that are too young, or have no publication date. `uploaded` has the files' times of upload (RFC
    3339), by index and file name."""
    if policy.minimum_age is None:
        return ()
    return merge_targets(_of_age(policy, policy.minimum_age, lock, uploaded, now))


def not_after(age: timedelta, now: datetime) -> str:
    """Return the moment after which no release counts, for a minimum age: RFC 3339 in UTC."""
    return (now - age).strftime("%Y-%m-%dT%H:%M:%SZ")


def _of_spec(policy: Policy, spec: Spec) -> Iterator[Finding]:
    for name, url in sorted(spec.indexes.items()):
        if not policy.allows_address(url):
            yield _breach("index-forbidden", _INDEXES, f'the index "{name}" ({redact(url)}) isn\'t allowed')
    for name, urls in sorted(spec.flat_pages.items()):
        for url in urls:
            if not policy.allows_address(url):
                yield _breach("index-forbidden", _INDEXES, f'the index "{name}" ({redact(url)}) isn\'t allowed')
    for channel in spec.conda.channels:
        fine = policy.allows_address(channel) if "://" in channel else policy.allows_index(channel_name(channel))
        if not fine:
            yield _breach("index-forbidden", _INDEXES, f"the channel {redact(channel)} isn't allowed")
    yield from judge_builds(policy, spec.pip.allow_source)
    builds = spec.asked_project is not None and (spec.project is None or spec.project.build_requires is not None)
    if builds and not policy.own_projects:
        yield _breach("source-forbidden", _OWN, "its own project may not be built")
    for exception in spec.newer_for:
        if not policy.allows_exception(
            spec.index_addresses.get(exception.name) if exception.of_index else exception.name
        ):
            what = f"the index {exception.name}" if exception.of_index else exception.name
            message = f"exclude-newer has to hold for {what} too"
            yield _breach(
                "exception-forbidden", _EXCEPT, message, package=None if exception.of_index else exception.name
            )
    for target in spec.targets:
        for located in (*spec.pip_dependencies(target), *spec.pip_terms(target).overrides):
            if "@" not in located.text:
                continue
            requirement = parse_requirement(located.text)
            if requirement.url and not policy.allows_origin(requirement.url):
                message = f"{redact(located.text)} names an address that isn't allowed"
                yield _breach("origin-forbidden", _FROM, message, (target.name,), canonical_name(requirement.name))


def _of_pin(policy: Policy, target: str, pin: Pin) -> Iterator[Finding]:
    here = (target,)
    origin = f"git+{pin.git.url}" if pin.git else pin.url
    if origin is not None:
        if not policy.allows_origin(origin):
            yield _breach("origin-forbidden", _FROM, f"{pin.name} is from {redact(origin)}", here, pin.name)
    elif _is_public(pin) and not policy.allows_index(pin.index):
        yield _breach("index-forbidden", _INDEXES, f"{pin.name} is from {pin.index}", here, pin.name)
    if pin.kind == "pip" and not pin.is_wheel and not policy.allows_build(pin.name):
        yield _breach("source-forbidden", _BUILD, f"{pin.name} is built from source", here, pin.name)
    if pin.built_with and not policy.allows_index("pypi"):
        yield _breach("index-forbidden", _INDEXES, f"{pin.name} is built with packages from pypi", here, pin.name)
    yield from _of_licence(policy, here, pin)


def _is_public(pin: Pin) -> bool:
    """Return whether no spec gives the address of a pin's index."""
    return pin.kind == "pip" and (pin.index == "pypi" or pin.index.startswith("pytorch/"))


def judge_licences(policy: Policy, target: str, stated: Iterable[tuple[Pin, str | None]]) -> tuple[Finding, ...]:
    """Judge the licences that a target's files state, where the lock has others."""
    return tuple(
        breach
        for pin, licence in stated
        if licence != pin.licence
        for breach in _of_licence(policy, (target,), replace(pin, licence=licence), " by its own METADATA")
    )


def _of_licence(policy: Policy, here: tuple[str, ...], pin: Pin, by: str = "") -> Iterator[Finding]:
    licence = policy.licences.get(canonical_name(pin.name), pin.licence)
    if licence is None:
        if policy.allow_licences:
            message = f"{pin.name} names no licence{by}; [licences] known can say it"
            yield _breach("licence-unknown", "[licences] allow", message, here, pin.name)
    elif not is_acceptable(licence, (), policy.deny_licences):
        yield _breach("licence-forbidden", "[licences] deny", f'{pin.name} is under "{licence}"{by}', here, pin.name)
    elif not is_acceptable(licence, policy.allow_licences, ()):
        yield _breach("licence-forbidden", "[licences] allow", f'{pin.name} is under "{licence}"{by}', here, pin.name)


def _of_age(
    policy: Policy, least: timedelta, lock: Lock, uploaded: Mapping[tuple[str, str], str | None], now: datetime
) -> Iterator[Finding]:
    for target in lock:
        for pin in target.pins:
            if canonical_name(pin.name) in policy.young:
                continue
            named = pin.artifact.file if pin.artifact else pin.name
            moment = moment_of(uploaded.get((pin.index, named)))
            if moment is None:
                message = f"{named} has no publication date"
                yield _breach("age-unknown", AGE, message, (target.name,), pin.name)
            elif now - moment < least:
                message = f"{named} was published on {moment:%Y-%m-%d}, and may be used {_days(least)} later"
                yield _breach("too-young", AGE, message, (target.name,), pin.name)


def _days(age: timedelta) -> str:
    hours = int(age.total_seconds()) // 3600
    return f"{hours // 24} days" if hours % 24 == 0 and hours > 24 else f"{hours} hours"
