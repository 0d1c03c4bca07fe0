"""A shipped lock, forged by somebody who keeps it well-formed: a reviewer has to be told loudly."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from diff_samples import Change, added, artifact, both, fields, pins, sha, target
from msgspec.structs import replace

from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Artifact, GitSource, Lock, Pin
from envspec.lock.read import load
from envspec.review.diff.judged import with_flaws
from envspec.review.diff.review import review

LOCK = Path(__file__).resolve().parents[3] / "locks" / "mm-v2.9" / "envspec.lock"


@cache
def shipped() -> Lock:
    return load(LOCK)


def pinned(name: str) -> Pin:
    return next(pin for one in shipped() for pin in one.pins if pin.name == name)


def renamed(name: str, rename: Callable[[str], str], **values: object) -> Change:
    """Another file name and another hash, and other fields of the pin."""
    file = rename(str(getattr(pinned(name).artifact, "file", "")))
    return both(artifact(name, file=file, sha256=sha(file)), fields(name, **values))


def newcomer(name: str, **values: object) -> Pin:
    pin = Pin("pip", name, "1.0", "pypi", Artifact(f"{name}-1.0-py3-none-any.whl", sha(name), 1000), licence="MIT")
    return replace(pin, **values)


def with_edge(name: str, line: str) -> Change:
    return pins(lambda pin: replace(pin, dependencies=(*pin.dependencies, line)), name)


GIT = GitSource("https://evil.example/requests", "0123456789abcdef0123456789abcdef01234567")
GPU = next(one for one in shipped() if one.inputs.cuda)

FORGERIES: dict[str, Change] = {
    "another hash": artifact("requests", sha256=sha("evil")),
    "another hash and tag": renamed("requests", lambda file: file.replace("py3-none", "py2.py3-none")),
    "another hash and a build tag": renamed("requests", lambda file: file.replace("-py3", "-1-py3")),
    "another hash, and the version written otherwise": renamed(
        "requests", lambda file: file, version=f"{pinned('requests').version}.0"
    ),
    "the file of another project": renamed("requests", lambda file: file.replace("requests", "evil")),
    "an sdist in place of the wheel": renamed("requests", lambda file: file.replace("-py3-none-any.whl", ".tar.gz")),
    "another size": artifact("requests", size=7),
    "a typosquat that nothing asks for": added(newcomer("acelerate")),
    "a typosquat with an invented edge": both(added(newcomer("acelerate")), with_edge("requests", "acelerate")),
    "a known package that nothing asks for": added(newcomer("django")),
    "an invented edge to a known package": both(added(newcomer("django")), with_edge("requests", "django")),
    "an edge less": fields("requests", dependencies=pinned("requests").dependencies[1:]),
    "from git": fields("requests", git=GIT, index="git", artifact=None),
    "from a URL": fields("requests", url="https://evil.example/requests-2.0-py3-none-any.whl", index="url"),
    "from an unknown index": fields("requests", index="evil"),
    "from the PyTorch index": fields("requests", index="pytorch/cu126"),
    "older than the spec asks for": fields("transformers", version="4.40.0"),
    "a dependency dropped": pins(lambda pin: None, "certifi"),
    "a driver floor lowered": target(GPU.name, driver_floor="450.80.02"),
    "other architectures": target(GPU.name, architectures=("sm_60",)),
    "a local version from PyPI": renamed("requests", lambda file: file, version=f"{pinned('requests').version}+evil"),
    "torch for the CPU": pins(
        lambda pin: replace(pin, version=f"{pin.version.partition('+')[0]}+cpu", index="pytorch/cpu"), "torch"
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_lock_is_of_high_risk(name: str) -> None:
    forged = FORGERIES[name](shipped())
    assert forged != shipped()
    new = Side("new", forged)
    found = with_flaws(review(Side("old", shipped()), new), new, None)
    assert found.reaches("high")


def test_the_shipped_lock_has_no_flaws() -> None:
    new = Side("new", shipped())
    assert not with_flaws(review(new, new), new, None)
