"""One cause, one row: what follows from another change is told under it, which has the risk."""

import pytest
from diff_samples import Change, added, base, both, every_target, fields, reviewed, spec, version, wheel
from msgspec.structs import replace

from envspec.lock.model import Lock, LockedPython
from envspec.review.diff.model import Side
from envspec.review.diff.review import review
from envspec.review.diff.rows import Fact, Review


def between(old: Lock, new: Lock) -> Review:
    return review(Side("old", old), Side("new", new))


def removed(*names: str) -> Change:
    def apply(lock: Lock) -> Lock:
        def without(found: object) -> object:
            return replace(found, pins=tuple(pin for pin in found.pins if pin.name not in names))

        return replace(lock, targets=tuple(map(without, lock.targets)))

    return apply


def settings(found: Review, code: str) -> list[Fact]:
    return [fact for fact in found.settings if fact.code == code]


# A lost extra, whoever lost it. beta[fast] brings speedups.

ASKED = ("app>=1", "clip @ git+https://git.example.org/c@main", "lib", "year")
WITH_EXTRA = both(
    fields("beta", dependencies=("speedups; extra == 'fast'",)),
    fields("lib", dependencies=("beta[fast]", "inner")),
    added(wheel("speedups", "1.0")),
)
BY_SPEC = both(
    fields("beta", dependencies=("speedups; extra == 'fast'",)),
    every_target(requirements=(*ASKED, "beta[fast]")),
    added(wheel("speedups", "1.0")),
)
GONE = removed("speedups")


@pytest.mark.parametrize(
    ("before", "change", "who"),
    [
        (BY_SPEC, every_target(requirements=(*ASKED, "beta")), "the spec no longer asks for beta's extra fast"),
        (BY_SPEC, every_target(requirements=ASKED), "the spec no longer asks for beta's extra fast"),
        (
            WITH_EXTRA,
            every_target(overrides=(("beta>=0.5", "ours"),)),
            "the override beta>=0.5 takes away beta's extra fast",
        ),
        (WITH_EXTRA, fields("lib", dependencies=("beta", "inner")), "lib 2.5.1 no longer asks for beta's extra fast"),
        (
            WITH_EXTRA,
            both(version("2.6.0", "lib"), fields("lib", dependencies=("beta", "inner"))),
            "lib 2.6.0 no longer asks for beta's extra fast",
        ),
    ],
)
def test_a_lost_extra_is_medium_whoever_lost_it(before: Change, change: Change, who: str) -> None:
    old = before(base())
    found = between(old, both(change, GONE)(old))
    (fact,) = settings(found, "extra-dropped")
    assert (fact.risk, fact.targets, fact.package) == ("medium", (), "beta")
    assert fact.message == f"{who}, so 1 package goes: speedups"
    assert found.risk in ("medium", "high")


def test_an_extra_that_takes_nothing_away_is_no_loss() -> None:
    """Of a release that has it all without the extra."""
    old = WITH_EXTRA(base())
    new = both(fields("lib", dependencies=("beta", "inner")), fields("beta", dependencies=("speedups",)))(old)
    assert settings(between(old, new), "extra-dropped") == []


def test_an_extra_that_another_package_still_asks_for_is_no_loss() -> None:
    old = both(WITH_EXTRA, fields("app", dependencies=("lib>=1", "torch", "beta[fast]")))(base())
    assert settings(between(old, fields("lib", dependencies=("beta", "inner"))(old)), "extra-dropped") == []


# A safeguard taken away.


def test_a_correction_switched_off_is_medium_and_on_again_low() -> None:
    off = spec(without_corrections=("torch-numpy-2",))
    assert [(fact.risk, fact.code) for fact in reviewed(off).settings] == [("medium", "corrections-changed")]
    assert [(fact.risk, fact.code) for fact in between(off(base()), base()).settings] == [
        ("low", "corrections-changed")
    ]


# torch's minor.


def test_torchs_minor_has_one_risk_in_every_kind_of_lock() -> None:
    new = version("2.10.0+cpu", "torch", "cpu")(base())
    for form in ("envspec", "uv_lock"):
        found = review(Side("old", base(), format=form), Side("new", new, format=form))
        assert [(row.name, row.risk) for row in found.rows] == [("torch", "medium")]


# Pythons of platforms.


def python(platform: str) -> LockedPython:
    return LockedPython(platform, "3.12.10", "20250529", f"cpython-{platform}.tar.gz", "a" * 64)


def test_the_python_of_a_new_platform_is_no_row_of_its_own() -> None:
    old = replace(base(), pythons=(python("linux-64"),))
    new = both(every_target(platform="linux-aarch64"))(replace(base(), pythons=(python("linux-aarch64"),)))
    assert settings(between(old, new), "python-build-moved") == []
    assert settings(between(old, new), "platform-changed")
