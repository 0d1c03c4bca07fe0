"""A lock's environment from what an interpreter has installed: it is the lock's, or the check says what isn't."""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.machine import ROOT

from bench import installed_lock
from envspec.lock.slice import slice_digest

NAMES = ("click", "pygments", "setuptools")
"""One with a program, and one that carries other distributions' RECORDs."""


def asked_of(folder: Path, **versions: str) -> Path:
    """What the check is asked with, for a lock of some packages that this interpreter has."""
    wanted = {name: versions.get(name, importlib.metadata.version(name)) for name in NAMES}
    python = "{}.{}".format(*sys.version_info)
    pins = [
        {
            "name": name,
            "version": version,
            "artifacts": [{"file": f"{name}-{version}-py3-none-any.whl", "sha256": "0" * 64}],
        }
        for name, version in wanted.items()
    ]
    lock = {
        "lock-version": 5,
        "env": {"name": "here"},
        "targets": {"here": {"platform": "linux-64", "python": python}},
        "pip": pins,
    }
    asked: dict[str, Any] = {
        "schema": 2,
        "spec": "here",
        "target": "here",
        "lock_digest": slice_digest(lock),
        "lock": lock,
    }
    path = folder / "target.json"
    path.write_text(json.dumps({**asked, "fingerprint": "", "workload": "basic", "steps": 1, "references": {}}))
    return path


@pytest.mark.slow
def test_distributions_are_copied_whole_and_alone(tmp_path: Path) -> None:
    report = tmp_path / "check.json"
    installed_lock.main(["check", str(asked_of(tmp_path)), "-o", str(report), "--only", "static", "--deep"])
    found = {one["name"]: one for one in json.loads(report.read_text())["checks"]}
    for name in ("static.distributions", "static.files", "static.unowned", "static.isolation"):
        assert found[name]["status"] == "pass", found[name]
    assert found["static.distributions"]["details"]["distributions"] == len(NAMES)
    assert str(ROOT) not in report.read_text()


def test_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"doesn't have click 0\.1"):
        installed_lock.main(["check", str(asked_of(tmp_path, click="0.1")), "-o", str(tmp_path / "check.json")])


def test_a_launcher_gets_the_new_interpreter() -> None:
    assert (
        installed_lock.launched_by(b"#!/old/python3\nimport sys\n", Path("/new/python"))
        == b"#!/new/python\nimport sys\n"
    )
    assert installed_lock.launched_by(b"#!/bin/sh\n", Path("/new/python")) == b"#!/bin/sh\n"
