"""What a review says of publishers, and of what sources are built with."""

import pytest
from msgspec.structs import replace

from envspec.lock.model import Artifact, BuildPin, Pin, Publisher
from envspec.review.diff.risk import facts

PIN = Pin("pip", "lib", "1.0", "pypi", Artifact("lib-1.0.tar.gz", "a" * 64))
OWN = Publisher("GitHub", "a/lib", "release.yml", "pypi")
TOOL = BuildPin("tool", "1.0", "tool-1.0-py3-none-any.whl", "b" * 64)


def told(old: Pin, new: Pin) -> list[tuple[str, str]]:
    return [(one.risk, one.code) for one in facts(old, new)]


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (OWN, OWN, []),
        (None, OWN, [("low", "publisher-named")]),
        (OWN, None, [("medium", "publisher-gone")]),
        (OWN, replace(OWN, repository="evil/lib"), [("high", "publisher-changed")]),
        (OWN, replace(OWN, kind="GitLab"), [("high", "publisher-changed")]),
        (OWN, replace(OWN, workflow="evil.yml"), [("medium", "publisher-workflow")]),
        (OWN, replace(OWN, environment=None), [("medium", "publisher-workflow")]),
        (Publisher("Google", email="a@x"), Publisher("Google", email="b@x"), [("high", "publisher-changed")]),
    ],
)
def test_publishers(was: Publisher | None, now: Publisher | None, said: list[tuple[str, str]]) -> None:
    assert told(replace(PIN, publisher=was), replace(PIN, publisher=now)) == said


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ((TOOL,), (TOOL,), []),
        (None, (TOOL,), []),
        ((TOOL,), (replace(TOOL, sha256="e" * 64),), [("high", "build-hash-changed")]),
        ((TOOL,), (replace(TOOL, version="1.1", file="tool-1.1-py3-none-any.whl"),), [("low", "built-with-changed")]),
        ((TOOL,), (), [("low", "built-with-changed")]),
    ],
)
def test_build_environments(
    was: tuple[BuildPin, ...] | None, now: tuple[BuildPin, ...] | None, said: list[tuple[str, str]]
) -> None:
    assert told(replace(PIN, built_with=was), replace(PIN, built_with=now)) == said
