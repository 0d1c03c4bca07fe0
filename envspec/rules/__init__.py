"""The rules: what of a target can't work, why, and the nearest change that would.

They are pure: a spec and a target go in, findings come out, and the fact tables decide. Nothing is resolved or
fetched.
"""

from __future__ import annotations

from envspec.rules.judge import feasible, judge
from envspec.rules.pins import judge_pins

__all__ = ["feasible", "judge", "judge_pins"]
