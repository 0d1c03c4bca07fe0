"""`envspec why` and `envspec tree`."""

import os
import sys
from pathlib import Path

import pytest
from cli_project import SPEC, Envspec, Project, demo_pins, pin, told_whole, without
from support.terminal import at_terminal

from envspec.lock.model import Pin

pytest_plugins = ["cli_fixtures"]

ROOT = Path(__file__).resolve().parents[2]


WHOLE = {
    "why-every-path-the-shortest-first": ["why", "fsspec"],
    "why-targets-with-other-answers-stand-apart": ["why", "Nvidia_Cublas.cu12"],
    "why-a-cycle-ends": ["why", "ping", "--limit", "100"],
    "why-limit": ["why", "fsspec", "--limit", "1"],
    "why-an-extra": ["why", "speedup"],
    "why-the-spec-itself": ["why", "app", "--target", "cpu"],
    "tree": ["tree", "--target", "cpu"],
    "tree-every-group-under-its-heading": ["tree"],
    "tree-of-a-package": ["tree", "--package", "ping"],
    "tree-depth-1": ["tree", "-t", "cpu", "--depth", "1"],
    "tree-depth-0": ["tree", "-t", "cpu", "--depth", "0"],
    "tree-inverse": ["tree", "--package", "FSSpec", "--inverse", "-t", "cpu"],
    "tree-a-package-of-some-targets": ["tree", "--package", "nvidia-cublas-cu12"],
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_output(project: Project, envspec: Envspec, name: str) -> None:
    command, *arguments = WHOLE[name]
    assert told_whole(f"{name}.txt", envspec(command, "specs/demo.toml", *arguments))


def test_a_limit_that_is_enough_says_nothing_of_more(project: Project, envspec: Envspec) -> None:
    assert "more paths" not in envspec("why", "specs/demo.toml", "fsspec", "--limit", "4").out
    assert envspec("why", "specs/demo.toml", "fsspec", "--limit", "0").code == 2
    assert envspec("tree", "specs/demo.toml", "--depth", "-1").code == 2


def test_each_torch_has_its_own_heading(project: Project, envspec: Envspec) -> None:
    heads = [line for line in envspec("why", "specs/demo.toml", "torch").out.splitlines() if line[:1].strip()]
    assert heads == [
        "cpu: torch 2.9.1+cpu (pytorch/cpu, BSD-3-Clause)",
        "cu126-volta: torch 2.9.1+cu126 (pytorch/cu126, BSD-3-Clause)",
        "cu128-hopper: torch 2.9.1+cu128 (pytorch/cu128, BSD-3-Clause)",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["why", "fspec"], 1, "fspec isn't in the lock of demo\nhint: did you mean fsspec?"),
        (
            ["why", "nvidia-cublas-cu12", "-t", "cpu"],
            1,
            "nvidia-cublas-cu12 isn't locked for cpu\nhint: it is locked for cu126-volta, cu128-hopper",
        ),
        (
            ["why", "torch", "--target", "cu128-hoper"],
            2,
            "the lock of demo has no target cu128-hoper\nhint: did you mean cu128-hopper?",
        ),
        (["tree", "--package", "troch"], 1, "troch isn't in the lock of demo\nhint: did you mean torch?"),
        (
            ["tree", "--inverse"],
            2,
            "--inverse needs --package\nhint: envspec tree specs/demo.toml --inverse --package PKG",
        ),
        (
            ["tree", "--target", "laptop"],
            2,
            "the lock of demo has no target laptop\nhint: its targets: cpu, cu126-volta, cu128-hopper",
        ),
    ],
)
def test_no_answer(project: Project, envspec: Envspec, arguments: list[str], code: int, error: str) -> None:
    command, *rest = arguments
    assert envspec(command, "specs/demo.toml", *rest) == (code, "", f"error: {error}\n")


def test_a_name_that_is_none_steers_no_terminal(project: Project, envspec: Envspec) -> None:
    told = envspec("why", "specs/demo.toml", "\x1b[2J")
    assert told.code == 1 and "\x1b" not in told.err and "`envspec tree`" in told.err


def test_no_lock(project: Project, envspec: Envspec) -> None:
    project.spec(name="other")
    told = envspec("why", "specs/other.toml", "torch")
    assert told == (2, "", "error: specs/other.toml has no lock yet\nhint: envspec lock specs/other.toml\n")


def test_a_stale_lock_answers_with_a_warning(project: Project, envspec: Envspec) -> None:
    project.spec(SPEC.replace('"app>=1", ', '"app>=1", "numpy", "pandas", '))
    told = envspec("why", "specs/demo.toml", "fsspec")
    assert told.code == 0 and told.out.startswith("all 3 targets: fsspec")
    assert told.err == (
        "warning: specs/demo.toml changed since it was locked: numpy was added (and 1 more)\n"
        "hint: envspec lock specs/demo.toml\n"
    )


def conda(name: str, *depends: str, provides: tuple[str, ...] = ()) -> Pin:
    made = pin(name, "1.0", *depends, index="conda-forge/linux-64")
    return Pin("conda", name, "1.0", made.index, made.artifact, depends, build="h1_0", provides=provides)


def test_a_lock_of_another_layout_answers_and_a_damaged_one_does_not(project: Project, envspec: Envspec) -> None:
    """What judges a lock demands envspec's own layout; `why` only shows what it says."""
    lock = project.lock_path
    text = lock.read_text("utf-8")
    asked = ("why", "specs/demo.toml", "fsspec")
    told = envspec(*asked)
    lock.write_text(text.replace("\n[[pip]]", "\n\n[[pip]]", 1), "utf-8")
    assert envspec(*asked) == told
    assert envspec("check", "specs/demo.toml").code == 1
    lock.write_text(text.replace("\n[[pip]]", "\n<<<<<<< ours\n[[pip]]", 1), "utf-8")
    damaged = envspec(*asked)
    assert (damaged.code, damaged.out) == (2, "") and "merge conflict" in damaged.err


def test_across_the_border_of_conda(project: Project, envspec: Envspec) -> None:
    """fsspec comes from conda here, as the package `fs-spec`, which pip's torch needs by its own name."""
    project.lock(lambda target: (conda("fs-spec", "libfs >=1", provides=("fsspec",)), conda("libfs"), conda("spare"),
                                 *without(demo_pins(target), "fsspec")))  # fmt: skip
    told = envspec("why", "specs/demo.toml", "libfs", "--limit", "1", "--target", "cpu")
    assert (
        told.out
        == """\
cpu: libfs 1.0 h1_0 (conda-forge/linux-64, licence unknown)
  1.  the spec requires torch==2.9.*
      torch 2.9.1 requires fsspec>=0.8
      fs-spec 1.0 requires libfs >=1
  ... and more paths: raise --limit to see them
"""
    )
    assert envspec("why", "specs/demo.toml", "fsspec", "-t", "cpu").out.startswith("cpu: fs-spec 1.0 h1_0 (conda")
    told = envspec("tree", "specs/demo.toml", "--package", "fsspec", "-t", "cpu")
    assert told.out == "demo, cpu:\n`-- fs-spec 1.0 (conda)\n    `-- libfs 1.0 (conda)\n"
    assert envspec("why", "specs/demo.toml", "spare", "-t", "cpu").out == (
        "cpu: spare 1.0 h1_0 (conda-forge/linux-64, licence unknown)\n"
        "  nothing in the spec leads to this package: conda's solver added it\n"
    )


@pytest.mark.parametrize("package", ["nvidia-cublas-cu12", "fsspec"])
def test_json_holds_what_the_text_tells(project: Project, envspec: Envspec, package: str) -> None:
    assert told_whole(f"why-{package}.json", envspec("why", "specs/demo.toml", package, "--json"))


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


def test_tree_as_json(project: Project, envspec: Envspec) -> None:
    assert told_whole("tree.json", envspec("tree", "specs/demo.toml", "--json", "--target", "cpu"))
