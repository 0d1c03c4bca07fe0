"""The facts behind the site's rules on releases, as bundles and images carry them to nodes without internet."""

from __future__ import annotations

import os

from envspec.app.malicious import named_service
from envspec.app.release_dates import undated_dates
from envspec.app.site_policy import site_policy
from envspec.configuration.settings import load_settings
from envspec.lock.model import LockedTarget
from envspec.review.audit.malicious import stored_answers
from envspec.review.audit.model import packages
from envspec.review.audit.store import Stored, text_of


def facts_text(target: LockedTarget) -> str:
    """Give the facts about a target that the policy's rules used: dates of publication, and OSV's answers with their
    day. Empty where no rule needs any."""
    policy, facts = site_policy(), Stored()
    if policy is not None and policy.minimum_age is not None:
        facts = undated_dates(target)
    if policy is not None and policy.advisories and (service := named_service(policy)):
        releases = {package.release for package in packages((target,))}
        known = stored_answers(load_settings(os.environ), service)
        facts = facts.with_more(Stored({key: known[key] for key in known if key in releases}))
    return text_of("policy", facts) if facts != Stored() else ""
