"""How many examples a property test that has a count of its own tries: half so many in `.ci/run`, a tenth in
`make test`, ten times as many at night.
"""

from hypothesis import settings

DEFAULT = 100
"""Hypothesis's own count, of which a profile's is a share."""


def examples(count: int, *, night: int | None = None) -> int:
    """`count` as the profile multiplies it: for `settings(max_examples=examples(40))`. At night it is `night` where
    one is given: for a property of which one example takes long."""
    profile = settings.default
    assert profile is not None
    if night is not None and profile.max_examples > DEFAULT:
        return night
    return max(1, count * profile.max_examples // DEFAULT)
