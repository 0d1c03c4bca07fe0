"""`envspec why`."""

import json

import pytest
from cli_project import SPEC, Envspec, Project, demo_pins, pin, without

from envspec.lock.model import Pin

pytest_plugins = ["cli_fixtures"]


def test_every_path_the_shortest_first(project: Project, envspec: Envspec) -> None:
    told = envspec("why", "specs/demo.toml", "fsspec")
    assert told == (
        0,
        """\
all 3 targets: fsspec 2026.9.0 (pypi, BSD-3-Clause)
  1.  the spec requires torch==2.9.*
      torch 2.9.1 requires fsspec>=0.8
  2.  the spec requires app>=1
      app 1.4 requires torch>=2
      torch 2.9.1 requires fsspec>=0.8
  3.  the spec requires app>=1
      app 1.4 requires lib[fast]<3,>=2
      lib 2.5 requires fsspec
  4.  the spec requires app>=1
      app 1.4 requires lib[fast]<3,>=2
      lib 2.5 requires ping
      ping 1.0 requires pong
      pong 1.0 requires fsspec>=0.8; python_version >= "3.8"
""",
        "",
    )


def test_limit(project: Project, envspec: Envspec) -> None:
    told = envspec("why", "specs/demo.toml", "fsspec", "--limit", "1")
    assert told.out.splitlines()[1:] == [
        "  1.  the spec requires torch==2.9.*",
        "      torch 2.9.1 requires fsspec>=0.8",
        "  ... and more paths: raise --limit to see them",
    ]
    assert "and others" not in envspec("why", "specs/demo.toml", "fsspec", "--limit", "4").out
    assert envspec("why", "specs/demo.toml", "fsspec", "--limit", "0").code == 2


def test_a_cycle_ends(project: Project, envspec: Envspec) -> None:
    told = envspec("why", "specs/demo.toml", "ping", "--limit", "100")
    assert told.out.splitlines()[1:] == [
        "  1.  the spec requires app>=1",
        "      app 1.4 requires lib[fast]<3,>=2",
        "      lib 2.5 requires ping",
    ]


def test_an_extra_is_why(project: Project, envspec: Envspec) -> None:
    told = envspec("why", "specs/demo.toml", "speedup")
    assert 'lib 2.5 requires speedup>=1; extra == "fast"' in told.out


def test_targets_with_other_answers_stand_apart(project: Project, envspec: Envspec) -> None:
    told = envspec("why", "specs/demo.toml", "Nvidia_Cublas.cu12")
    assert (
        told.out
        == """\
cpu: nothing requires it

cu126-volta, cu128-hopper: nvidia-cublas-cu12 12.8.4.1 (pypi, LicenseRef-NVIDIA-Proprietary)
  1.  the spec requires torch==2.9.*
      torch 2.9.1 requires nvidia-cublas-cu12==12.8.4.1; platform_system == "Linux"
  2.  the spec requires app>=1
      app 1.4 requires torch>=2
      torch 2.9.1 requires nvidia-cublas-cu12==12.8.4.1; platform_system == "Linux"
"""
    )
    heads = [line for line in envspec("why", "specs/demo.toml", "torch").out.splitlines() if not line.startswith(" ")]
    assert heads == [
        "cpu: torch 2.9.1+cpu (pytorch/cpu, BSD-3-Clause)",
        "",
        "cu126-volta: torch 2.9.1+cu126 (pytorch/cu126, BSD-3-Clause)",
        "",
        "cu128-hopper: torch 2.9.1+cu128 (pytorch/cu128, BSD-3-Clause)",
    ]


def test_what_the_spec_asks_for_itself(project: Project, envspec: Envspec) -> None:
    told = envspec("why", "specs/demo.toml", "app", "--target", "cpu")
    assert told.out == "cpu: app 1.4 (pypi, licence unknown)\n  1.  the spec requires app>=1\n"


def test_not_in_the_lock(project: Project, envspec: Envspec) -> None:
    assert envspec("why", "specs/demo.toml", "fspec") == (
        1,
        "",
        "error: fspec isn't in the lock of demo\nhint: did you mean fsspec?\n",
    )
    told = envspec("why", "specs/demo.toml", "\x1b[2J")
    assert told.code == 1
    assert "\x1b" not in told.err and "`envspec tree`" in told.err


def test_not_in_this_target(project: Project, envspec: Envspec) -> None:
    told = envspec("why", "specs/demo.toml", "nvidia-cublas-cu12", "-t", "cpu")
    assert (told.code, told.out) == (1, "")
    assert told.err == (
        "error: nvidia-cublas-cu12 isn't locked for cpu\nhint: it is locked for cu126-volta, cu128-hopper\n"
    )


def test_unknown_target(project: Project, envspec: Envspec) -> None:
    told = envspec("why", "specs/demo.toml", "torch", "--target", "cu128-hoper")
    assert told == (2, "", "error: the lock of demo has no target cu128-hoper\nhint: did you mean cu128-hopper?\n")


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
    report = json.loads(envspec("why", "specs/demo.toml", package, "--json").out)
    assert (report["schema"], report["spec"], report["package"]) == ("envspec/why/1", "specs/demo.toml", package)
    answer = report["groups"][-1]
    assert answer["targets"][-1] == "cu128-hopper"
    assert answer["packages"][0]["name"] == package
    assert answer["paths"][0][0] == {"from": None, "requirement": "torch==2.9.*"}
    assert answer["paths"][0][1]["from"] == {"kind": "pip", "name": "torch", "version": "2.9.1"}
    assert answer["more"] is False
    assert report["groups"][0]["targets"] == (["cpu"] if package != "fsspec" else answer["targets"])
    assert report["groups"][0]["packages"] == ([] if package != "fsspec" else answer["packages"])
