"""`envspec tree`."""

import json
import os
import sys
from pathlib import Path

import pytest
from cli_project import Envspec, Project
from support.terminal import at_terminal

pytest_plugins = ["cli_fixtures"]

ROOT = Path(__file__).resolve().parents[2]

CPU = """\
demo, cpu:
|-- app 1.4
|   |-- lib[fast] 2.5
|   |   |-- fsspec 2026.9.0
|   |   |-- ping 1.0
|   |   |   `-- pong 1.0
|   |   |       |-- fsspec 2026.9.0 if python_version >= "3.8"
|   |   |       `-- ping 1.0 (*)
|   |   `-- speedup 1.1 if extra == "fast"
|   `-- torch 2.9.1+cpu
|       `-- fsspec 2026.9.0
`-- torch 2.9.1+cpu (*)
"""


def test_tree(project: Project, envspec: Envspec) -> None:
    assert envspec("tree", "specs/demo.toml", "--target", "cpu") == (0, CPU, "")


def test_every_group_under_its_heading(project: Project, envspec: Envspec) -> None:
    told = envspec("tree", "specs/demo.toml")
    assert told.out.startswith(CPU + "\ndemo, cu126-volta:\n|-- app 1.4\n")
    assert "\n\ndemo, cu128-hopper:\n" in told.out
    assert (
        envspec("tree", "specs/demo.toml", "--package", "ping").out
        == """\
demo, all 3 targets:
`-- ping 1.0
    `-- pong 1.0
        |-- fsspec 2026.9.0 if python_version >= "3.8"
        `-- ping 1.0 (*)
"""
    )


def test_depth(project: Project, envspec: Envspec) -> None:
    told = envspec("tree", "specs/demo.toml", "-t", "cpu", "--depth", "1")
    assert (
        told.out
        == """\
demo, cpu:
|-- app 1.4
|   |-- lib[fast] 2.5
|   `-- torch 2.9.1+cpu
`-- torch 2.9.1+cpu
    `-- fsspec 2026.9.0
"""
    )
    assert envspec("tree", "specs/demo.toml", "-t", "cpu", "--depth", "0").out.splitlines()[1:] == [
        "|-- app 1.4",
        "`-- torch 2.9.1+cpu",
    ]
    assert envspec("tree", "specs/demo.toml", "--depth", "-1").code == 2


def test_inverse(project: Project, envspec: Envspec) -> None:
    told = envspec("tree", "specs/demo.toml", "--package", "FSSpec", "--inverse", "-t", "cpu")
    assert (
        told.out
        == """\
demo, cpu:
`-- fsspec 2026.9.0
    |-- lib 2.5
    |   `-- app 1.4 (in the spec)
    |-- pong 1.0 if python_version >= "3.8"
    |   `-- ping 1.0
    |       |-- lib 2.5 (*)
    |       `-- pong 1.0 (*)
    `-- torch 2.9.1+cpu (in the spec)
        `-- app 1.4 (in the spec)
"""
    )


def test_a_package_of_some_targets(project: Project, envspec: Envspec) -> None:
    told = envspec("tree", "specs/demo.toml", "--package", "nvidia-cublas-cu12")
    assert (
        told.out
        == """\
demo, cpu:
`-- not locked

demo, cu126-volta, cu128-hopper:
`-- nvidia-cublas-cu12 12.8.4.1
"""
    )


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["--package", "troch"], 1, "error: troch isn't in the lock of demo\nhint: did you mean torch?\n"),
        (
            ["--inverse"],
            2,
            "error: --inverse needs --package\nhint: envspec tree specs/demo.toml --inverse --package PKG\n",
        ),
        (
            ["--target", "laptop"],
            2,
            "error: the lock of demo has no target laptop\nhint: its targets: cpu, cu126-volta, cu128-hopper\n",
        ),
    ],
)
def test_no(project: Project, envspec: Envspec, arguments: list[str], code: int, error: str) -> None:
    assert envspec("tree", "specs/demo.toml", *arguments) == (code, "", error)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("encoding", "branch"), [("utf-8", "└── torch"), ("ascii", "`-- torch")])
def test_lines_on_a_terminal(project: Project, encoding: str, branch: str) -> None:
    command = [sys.executable, "-c", "from envspec.cli.main import main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding, "NO_COLOR": ""}
    at = at_terminal([*command, "tree", "specs/demo.toml", "-t", "cpu"], env=environment, stdout=True)
    assert at.status == 0
    shown = at.told.decode()
    assert branch in shown
    assert 'speedup 1.1\x1b[2m if extra == "fast"\x1b[0m' in shown


def test_json(project: Project, envspec: Envspec) -> None:
    report = json.loads(envspec("tree", "specs/demo.toml", "--json", "--target", "cpu").out)
    assert (report["schema"], report["package"], report["inverse"]) == ("envspec/tree/1", None, False)
    (group,) = report["groups"]
    app, torch = group["tree"]
    assert group["targets"] == ["cpu"]
    assert (app["name"], app["direct"], app["requirement"]) == ("app", True, "app>=1")
    assert torch == {
        "kind": "pip",
        "name": "torch",
        "version": "2.9.1+cpu",
        "extras": [],
        "requirement": "torch==2.9.*",
        "direct": True,
        "repeated": True,
        "branches": [],
    }
    lib = app["branches"][0]
    assert (lib["extras"], lib["requirement"], lib["direct"]) == (["fast"], "lib[fast]<3,>=2", False)
