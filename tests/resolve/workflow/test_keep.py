"""What of an old lock stays: all that may, but nothing that shall move or can't be right."""

from support.told import pin

from envspec.base.finding import Finding
from envspec.lock.model import Artifact, GitSource, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.resolve.pip.request import Preferences
from envspec.resolve.workflow.keep import Kept, Upgrade, preserve

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CLIP = "clip @ git+https://host/clip@main"
TORCH = Pin(
    "conda",
    "pytorch",
    "2.7.1",
    "conda-forge/linux-64",
    Artifact("pytorch-2.7.1-h_0.conda", "0" * 64, 1, "0" * 32),
    build="h_0",
    provides=("torch",),
)


def lock(*names: str) -> Lock:
    inputs = TargetInputs(platform="linux-64", python="3.12", glibc="2.28", requirements=(CLIP, "numpy"))
    clip = Pin("pip", "clip", "1.0", "git", None, git=GitSource("https://host/clip", COMMIT))
    return Lock(
        "demo", SpecInputs(), tuple(LockedTarget(name, inputs, (TORCH, clip, pin("numpy", "2.0"))) for name in names)
    )


def test_everything_that_may_stays() -> None:
    preferred = Preferences({"numpy": "2.0"}, {CLIP: COMMIT}, last={"numpy": "2.0"})
    assert preserve(lock("a", "b"), Upgrade()) == Kept(
        {"a": preferred, "b": preferred}, dict.fromkeys("ab", Preferences({"pytorch": "2.7.1 h_0"}))
    )


def test_without_a_lock_or_for_a_new_one_nothing_stays() -> None:
    assert preserve(None, Upgrade()) == Kept()
    assert preserve(lock("a"), Upgrade(everything=True)) == Kept({"a": Preferences(last={"numpy": "2.0"})})


def test_packages_move_by_any_spelling_and_by_what_they_provide() -> None:
    kept = preserve(lock("a"), Upgrade(packages=frozenset({"NumPy", "torch", "Clip"})))
    assert kept == Kept({"a": Preferences(last={"numpy": "2.0"})}, {"a": Preferences()})


def test_what_cannot_be_right_goes_where_it_is_wrong_alone() -> None:
    flaws = (
        Finding("error", "wrong-index", "numpy is from evil", targets=("b",), package="numpy"),
        Finding("error", "wrong-marks", "odd", targets=("a",)),
    )
    kept = preserve(lock("a", "b"), Upgrade(), flaws)
    assert {name: dict(one.versions) for name, one in kept.pip.items()} == {"a": {"numpy": "2.0"}, "b": {}}
