"""One cause, one row: what follows from another change is told under it, which has the risk."""

import pytest
from diff_samples import Change, added, base, both, every_target, fields, reviewed, sha, spec, version, wheel
from msgspec.structs import replace

from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Artifact, Lock, LockedPython, LockedTarget
from envspec.review.diff.markdown import markdown
from envspec.review.diff.review import review
from envspec.review.diff.rows import Fact, Review
from envspec.review.diff.text import text


def between(old: Lock, new: Lock) -> Review:
    return review(Side("old", old), Side("new", new))


def removed(*names: str) -> Change:
    def apply(lock: Lock) -> Lock:
        def without(found: LockedTarget) -> LockedTarget:
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
        (BY_SPEC, every_target(requirements=(*ASKED, "beta")), "the spec no longer asks for the extra fast of beta"),
        (BY_SPEC, every_target(requirements=ASKED), "the spec no longer asks for the extra fast of beta"),
        (
            WITH_EXTRA,
            every_target(overrides=(("beta>=0.5", "ours"),)),
            "the override beta>=0.5 takes away the extra fast of beta",
        ),
        (
            WITH_EXTRA,
            fields("lib", dependencies=("beta", "inner")),
            "lib 2.5.1 no longer asks for the extra fast of beta",
        ),
        (
            WITH_EXTRA,
            both(version("2.6.0", "lib"), fields("lib", dependencies=("beta", "inner"))),
            "lib 2.6.0 no longer asks for the extra fast of beta",
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


# What goes back because of another package.


def facts_of(found: Review, name: str) -> list[tuple[str, str, str]]:
    (row,) = (row for row in found.rows if row.name == name)
    return [(fact.risk, fact.code, fact.message) for move in row.moves for fact in move.facts]


OLDER = "goes back to an older version: "


def test_what_the_spec_asks_back_is_medium() -> None:
    change = both(version("2.4", "lib"), every_target(requirements=("app>=1", "lib==2.4", *ASKED[1:2], "year")))
    assert facts_of(reviewed(change), "lib") == [("medium", "downgrade", f"{OLDER}the spec asks for lib==2.4")]


def test_two_steps_have_one_risk_at_their_cause() -> None:
    """lib 2.5.1 requires a newer inner than the spec admits: an older lib is what is left."""
    old = fields("lib", dependencies=("beta", "inner>=3"))(base())
    change = both(
        version("2.9", "inner"),
        version("1.4", "lib"),
        fields("lib", dependencies=("beta", "inner")),
        every_target(constraints=("inner<3",)),
    )
    found = between(old, change(old))
    assert facts_of(found, "inner") == [
        ("high", "pulls-back", "takes lib back: 2.5.1 -> 1.4"),
        ("medium", "downgrade", f"{OLDER}the spec asks for inner<3"),
    ]
    assert facts_of(found, "lib") == [("low", "downgrade", f"{OLDER}lib 2.5.1 requires inner>=3, and inner is 2.9 now")]
    assert {row.name: row.risk for row in found.rows} == {"inner": "high", "lib": "low"}


def test_a_package_that_moved_has_the_risk_of_what_it_takes_back() -> None:
    change = both(version("1.5.0", "app"), fields("app", dependencies=("lib<2.5", "torch")), version("2.4", "lib"))
    found = reviewed(change)
    assert facts_of(found, "app")[0] == ("high", "pulls-back", "takes lib back: 2.5.1 -> 2.4")
    assert facts_of(found, "lib") == [("low", "downgrade", f"{OLDER}app 1.5.0 requires lib<2.5")]


def test_without_a_cause_that_changed_it_stays_high() -> None:
    """The same requirement was there before: something else took it back, perhaps a hand."""
    old = fields("app", dependencies=("lib<2.5", "torch"))(base())
    (fact,) = facts_of(between(old, version("2.4", "lib")(old)), "lib")
    assert fact[:2] == ("high", "downgrade")
    (fact,) = facts_of(reviewed(version("2.4", "lib")), "lib")
    assert fact == ("high", "downgrade", OLDER.removesuffix(": "))


def test_a_correction_that_begins_to_count_is_named() -> None:
    old = added(wheel("numpy", "2.2.6", direct=True), "cpu")(base())
    change = both(version("2.2.0+cpu", "torch", "cpu"), version("1.26.4", "numpy", "cpu"))
    found = between(old, change(old))
    ((risk, message),) = (fact[::2] for fact in facts_of(found, "numpy") if fact[1] == "downgrade")
    assert risk == "low" and "torch 2.2.0+cpu needs numpy<2, says envspec's correction torch-numpy-2: " in message
    pulled = "takes numpy back: 2.2.6 -> 1.26.4, by envspec's correction torch-numpy-2"
    assert ("medium", "pulls-back", pulled) in facts_of(found, "torch")


# CUDA's libraries go with torch.

LIBRARIES = ("nvidia-cublas-cu12", "nvidia-cufft-cu12", "nvidia-curand-cu12")


def cuda(local: str, number: str, size: int = 1_000_000, *, pinned: bool = True) -> Lock:
    pins = [wheel(name, number, size=size, index=f"pytorch/{local}") for name in LIBRARIES]
    lines = [f"{name}=={number}" for name in LIBRARIES] if pinned else []
    torch = wheel("torch", f"2.8.0+{local}", *lines, index=f"pytorch/{local}", direct=True)
    inputs = {"requirements": ("torch",), "conda_requirements": (), "cuda": f"{local[2:4]}.{local[4]}"}
    target = replace(base().targets[1], pins=(*pins, torch))
    return replace(base(), targets=(replace(target, inputs=replace(target.inputs, **inputs)),))


@pytest.mark.parametrize("form", ["envspec", "uv_lock"])
def test_cuda_going_down_is_one_row_of_its_libraries(form: str) -> None:
    old, new = cuda("cu128", "12.8.1"), cuda("cu126", "12.6.4")
    found = review(Side("old", old, format=form), Side("new", new, format=form))
    assert ("medium", "cuda-moved") in [(fact.risk, fact.code) for fact in found.gpu]
    assert found.risk == "medium" and {row.risk for row in found.rows if row.name in LIBRARIES} == {"low"}
    told = " ".join(text(found).split())
    assert "CUDA libraries 3 moved with torch 2.8.0+cu126" in told
    assert 'medium risk, see "GPU": 4 packages changed (4 low)' in told, "as many as are shown"


def test_cuda_going_up_grows_torch_alone() -> None:
    found = between(cuda("cu126", "12.6.4"), cuda("cu128", "12.8.1", 400_000_000))
    facts = [fact for row in found.rows for move in row.moves for fact in move.facts if fact.risk != "low"]
    assert "size-grew" not in {fact.code for fact in facts}


def test_a_library_that_torch_does_not_ask_back_stays_high() -> None:
    old, new = cuda("cu128", "12.8.1"), cuda("cu128", "12.6.4", pinned=False)
    found = between(old, new)
    assert {row.risk for row in found.rows if row.name in LIBRARIES} == {"high"}


def test_a_forged_library_is_never_folded_away() -> None:
    new = cuda("cu126", "12.6.4")
    pins = tuple(replace(pin, index="stranger") if pin.name == LIBRARIES[0] else pin for pin in new.targets[0].pins)
    found = between(cuda("cu128", "12.8.1"), replace(new, targets=(replace(new.targets[0], pins=pins),)))
    assert {row.name: row.risk for row in found.rows}[LIBRARIES[0]] == "high"
    assert f"{LIBRARIES[0]} 12.8.1 -> 12.6.4" in " ".join(markdown(found).replace("&#62;", ">").split())


def test_the_files_of_another_python_are_one_row() -> None:
    def compiled(tag: str) -> Change:
        def file(name: str) -> Artifact:
            return Artifact(f"{name}-1.0-{tag}-{tag}-linux_x86_64.whl", sha(name + tag), 9)

        return both(*(added(wheel(name, "1.0", artifact=file(name))) for name in ("aa", "bb", "cc")))

    old = both(compiled("cp312"), every_target(python="3.12"))(base())
    new = both(compiled("cp313"), every_target(python="3.13"))(base())
    found = between(old, new)
    told = " ".join(text(found).split())
    assert "compiled packages 3 of the same versions, in their files for Python 3.13" in told
    assert 'medium risk, see "Spec and targets": 3 packages changed (3 low)' in told


def test_renamed_libraries_are_not_as_before_and_count_as_shown() -> None:
    def libraries(names: tuple[str, ...], number: str) -> Lock:
        pins = tuple(wheel(name, number) for name in names)
        target = base().targets[1]
        return replace(base(), targets=(replace(target, pins=(*pins, *(p for p in target.pins if p.name == "torch"))),))

    found = between(
        libraries(LIBRARIES, "12.8.1"), libraries(tuple(n.removesuffix("-cu12") for n in LIBRARIES), "13.0.0")
    )
    told = text(found)
    assert "as installed before" not in told and "3 under the new CUDA's names" in told
    assert "3 packages changed (3 low)" in told


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
