"""Which wheel a distribution is from, by the tags that its WHEEL has beside the name of the locked file."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envspec_check.checks.installed import other_wheels, targets_of
from envspec_check.environment import Installed, distributions

from envspec.lock.read import load
from envspec.lock.slice import slice_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("tag", "pythons", "processors"),
    [
        ("cp311-cp311-manylinux_2_28_x86_64", {"cp311-cp311"}, {"x86_64"}),
        ("py2.py3-none-any", {"py2-none", "py3-none"}, {"any"}),
        ("cp39-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64", {"cp39-abi3"}, {"aarch64"}),
        ("strange", set(), set()),
    ],
)
def test_what_a_tag_says(tag: str, pythons: set[str], processors: set[str]) -> None:
    assert targets_of([tag]) == (pythons, processors)


@pytest.mark.parametrize(
    ("tags", "file", "wrong"),
    [
        (["cp311-cp311-linux_x86_64"], "x-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", False),  # renamed, as torch's are
        (["py3-none-any"], "x-1.0-py2.py3-none-any.whl", False),
        (["cp312-cp312-linux_x86_64"], "x-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", True),
        (["cp313-cp313t-linux_x86_64"], "x-1.0-cp313-cp313-manylinux_2_28_x86_64.whl", True),
        (["cp311-cp311-linux_aarch64"], "x-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", True),
        (["py3-none-any"], "x-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", True),
        (["cp311-cp311-linux_x86_64"], "x-1.0.tar.gz", False),  # built here
        ([], "x-1.0-py3-none-any.whl", False),
    ],
)
def test_a_wheel_of_another_build(tags: list[str], file: str, wrong: bool) -> None:
    text = "".join(f"Tag: {tag}\n" for tag in tags)
    distribution: Any = SimpleNamespace(read_text=lambda name: text if name == "WHEEL" else None)
    there = [Installed("x", "1.0", "/env/x.dist-info", "uv", distribution)]
    lock = {"pip": [{"name": "x", "artifacts": [{"file": file}]}]}
    assert other_wheels(lock, there) == ([f"x is built for {tags[0]}, locked is {file}"] if wrong else [])


def test_no_wheel_of_this_environment_is_another() -> None:
    """What the tests themselves run in, as far as it is the development lock's: no publisher's tags are an alarm."""
    lock = load(ROOT / "locks" / "dev" / "envspec.lock")
    target = next(one for one in lock.targets if one.inputs.platform == "linux-64")
    pins: Any = slice_of(lock, target)
    there = distributions(sys.path)
    assert len({one["name"] for one in pins["pip"]} & {one.name for one in there}) > 20
    if target.inputs.python == "{}.{}".format(*sys.version_info[:2]):
        assert other_wheels(pins, there) == []
