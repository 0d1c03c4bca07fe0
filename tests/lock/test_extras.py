"""Extras that bring nothing are told, whoever asks for them."""

from envspec.base.errors import Place
from envspec.lock.graph import findings
from envspec.lock.model import Artifact, LockedTarget, Pin, SolverView, TargetInputs
from envspec.packages.metadata import Metadata

HERE = Place("specs/s.toml", 4, 1)


def pin(name: str, version: str, *dependencies: str, extras: tuple[str, ...] | None = ()) -> Pin:
    file = f"{name}-{version}-py3-none-any.whl"
    artifact = Artifact(file, "a" * 64, 1)
    return Pin(
        "pip",
        name,
        version,
        "pypi",
        artifact,
        dependencies,
        solver=SolverView(None if extras is None else Metadata(name, version, provides_extra=extras)),
    )


def target(*pins: Pin, requirements: tuple[str, ...]) -> LockedTarget:
    inputs = TargetInputs(platform="linux-64", python="3.12", glibc="2.28", requirements=requirements)
    return LockedTarget(name="t", inputs=inputs, pins=pins)


def told(*pins: Pin, requirements: tuple[str, ...]) -> list[tuple[str, Place | None, str | None]]:
    found = findings(target(*pins, requirements=requirements), {"transformers": HERE})
    return [(finding.message, finding.place, finding.remedy) for finding in found]


def test_an_extra_that_the_spec_asks_for() -> None:
    transformers = pin("transformers", "5.0", 'torch; extra == "torch"', extras=("torch", "vision"))
    assert told(transformers, pin("torch", "2.9.1"), requirements=("transformers[nosuch,torch]",)) == [
        (
            "the spec asks for transformers[nosuch], but transformers 5.0 has no such extra",
            HERE,
            "its extras: torch, vision",
        )
    ]


def test_the_nearest_one_is_named() -> None:
    (one,) = told(pin("transformers", "5.0", extras=("torch", "vision")), requirements=("transformers[visoin]",))
    assert one[2] == "did you mean vision?"


def test_an_extra_that_a_package_asks_for() -> None:
    top, helper = pin("top", "1.0", "helper[fast]>=1"), pin("helper", "2.0")
    assert told(top, helper, requirements=("top",)) == [
        ("top asks for helper[fast], but helper 2.0 has no such extra", None, "leave the extra out")
    ]


def test_one_that_holds_elsewhere_isnt_asked_for() -> None:
    top = pin("top", "1.0", "helper[fast]; sys_platform == 'win32'", "helper")
    assert told(top, pin("helper", "2.0"), requirements=("top",)) == []


def test_names_of_extras_are_compared_as_names() -> None:
    helper = pin("helper", "2.0", extras=("image-io",))
    assert told(helper, requirements=("helper[Image_IO]",)) == []


def test_a_lock_that_was_read_says_nothing_of_extras() -> None:
    assert told(pin("helper", "2.0", extras=None), requirements=("helper[fast]",)) == []
