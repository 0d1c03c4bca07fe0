"""The rules: what of a target can't work, why, and the nearest change that would.

They are pure: a spec and a target go in, a verdict comes out, and the fact tables decide. Nothing is resolved or
fetched.
"""

from __future__ import annotations

from envspec.rules.judge import judge
from envspec.rules.pins import judge_pins
from envspec.rules.verdict import Verdict

__all__ = ["Verdict", "judge", "judge_pins"]
