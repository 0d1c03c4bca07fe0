"""The breaches of a policy, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envspec.base.redact import redact
from envspec.prove.rungs import RUNGS
from envspec.review.policy.model import Policy


def rules(policy: Policy) -> tuple[tuple[str, str], ...]:
    """Each demand: its key, and a sentence."""
    return tuple(_rules(policy))


def _rules(policy: Policy) -> Iterator[tuple[str, str]]:
    if policy.indexes is not None:
        yield "[indexes] allow", f"packages come from {_join_or_nothing(policy.indexes)} alone"
    for name, address in policy.places.items():
        yield "[indexes] at", f"{name} is asked at {redact(address)} alone"
    for name, address in policy.second.items():
        yield "[indexes] second", f"what `envspec verify` asks {name}, it asks {redact(address)} too"
    if policy.build is not None:
        yield "[sources] allow", f"{_join_or_nothing(sorted(policy.build))} may be built from source"
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
