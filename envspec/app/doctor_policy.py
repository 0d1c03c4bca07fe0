"""What `envspec doctor` says of the site's policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.app import inputs
from envspec.app.policy import ask, judge_file
from envspec.app.site_policy import site_policy
from envspec.base.errors import LockError
from envspec.base.finding import Finding
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from envspec.prove.doctor.result import Result
    from envspec.review.policy.model import Policy


def policy_results() -> tuple[Result, ...]:
    """What the policy demands, and whom to ask; empty where the site has none. Raises nothing for a broken one: it is
    an error of its own."""
    from envspec.prove.doctor.result import Result
    from envspec.review.policy.read import PolicyError
    from envspec.review.policy.tell import rules

    try:
        policy = site_policy()
    except PolicyError as error:
        broken = Finding("error", "policy-broken", error.message, error.place, error.hint)
        return (Result("policy", "unknown", "the site's policy can't be used", (broken,)),)
    if policy is None:
        return ()
    told = tuple(Finding("info", "policy", f"{key}: {sentence}") for key, sentence in rules(policy))
    summary = f"{policy.path} says what is allowed here; ask {policy.contact}"
    return (Result("policy", "ok", summary, told),)


def forbidden(policy: Policy, spec: Spec, locks_dir: Path | None) -> tuple[Finding, ...]:
    """What the policy forbids of a spec and its lock. Raises ToolError."""
    from envspec.review.policy.judge import judge_lock, judge_spec

    try:
        file = inputs.folder_of(spec, locks_dir).read_signed()
    except LockError:
        # told elsewhere
        file = None
    breaches = judge_spec(policy, spec)
    if file is not None:
        breaches += judge_lock(policy, file.lock) + judge_file(policy, file)
    return tuple(replace(one, remedy=ask(policy)) for one in breaches)
