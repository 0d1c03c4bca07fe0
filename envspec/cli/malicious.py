"""What `lock`, `install` and `bundle` refuse because somebody has reported it as malicious."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from envspec.cli.console import say, warn
from envspec.cli.policy import ask as whom_to_ask
from envspec.cli.policy import site_policy
from envspec.errors import AnswerNo, InputError, OutsideError, Place
from envspec.texts import printable, shown

if TYPE_CHECKING:
    from envspec.audit.model import AuditFinding
    from envspec.lock.model import LockedTarget
    from envspec.spec.model import Spec

SETTING = "ENVSPEC_ADVISORIES"
"""`ask`, or `kept`: only answers that were kept count, and nobody is asked."""


class Malicious(AnswerNo):
    """A release is known to be malicious. `found` has all of them."""

    def __init__(self, found: tuple[AuditFinding, ...], what: str) -> None:
        self.found = found
        lines = [f"{one.subject} {one.version}: {shown(one.message)}" for one in found]
        first = found[0].advisory.id if found[0].advisory else ""
        super().__init__(
            "\n  ".join(["known to be malicious, and so neither locked nor installed:", *map(printable, lines)]),
            hint=f"keep it out, for example with a constraint; if the report is wrong: [audit.ignore] {first} = why",
            place=Place(what),
        )


def refuse_malicious(
    spec: Spec, targets: Iterable[LockedTarget], path: str, *, offline: bool, quiet: bool = False
) -> None:
    """Refuse releases that are known to be malicious, and say where nobody could be asked.

    That stops nothing by itself: only where the site's policy wants an answer it is an error. Raises Malicious,
    OutsideError, InputError.
    """
    from envspec.audit.malicious import look_for_malicious
    from envspec.audit.packages import packages

    ask = os.environ.get(SETTING, "ask")
    if ask not in ("ask", "kept"):
        raise InputError(f"{SETTING} is {ask!r}", hint="set it to ask or kept, or unset it")
    policy = site_policy()
    wanted = policy is not None and policy.advisories
    look = look_for_malicious(
        packages(targets),
        spec.audit,
        spec.pip.indexes,
        os.environ,
        datetime.now(timezone.utc),
        ask=not offline and (ask == "ask" or wanted),
        on_trouble=warn,
    )
    if look.found:
        raise Malicious(look.found, path)
    if look.unasked and policy is not None and wanted:
        raise OutsideError(
            f"the site's policy wants releases looked up in PyPI's advisories, and they couldn't be: {look.unasked}",
            hint=whom_to_ask(policy),
            place=Place(path),
        )
    if look.unasked and ask == "ask" and not quiet:
        reason = "--offline" if offline else printable(look.unasked)
        say(f"note: known malicious releases weren't all looked up: {reason}", style="cyan")
