"""`envspec link`: from a lock to findings, exit codes and JSON."""

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.compiled import Compiler, needs_compiler, platform_wheel
from support.documents import valid
from support.index import Index
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist, sdist, wheel

from envspec.prove.compiles import build
from envspec.spec.parse import load_spec

pytestmark = needs_compiler

PURE = wheel("pure", "1.0")


@pytest.fixture
def acme(tmp_path: Path) -> Dist:
    """A wheel whose extension needs a library that isn't in it."""
    compiler = Compiler(tmp_path / "built")
    compiler.library("libfoo.so.1", defines=["foo"], soname="libfoo.so.1")
    return platform_wheel("acme", "1.0", files={"acme/_C.so": compiler.extension("_C.so", needs=["libfoo.so.1"])})


@pytest.fixture
def foo(tmp_path: Path) -> Dist:
    """A wheel that brings it."""
    path = Compiler(tmp_path / "foo").library("libfoo.so.1", defines=["foo"], soname="libfoo.so.1")
    return platform_wheel("foo", "1.0", files={"foo.libs/libfoo.so.1": path})


SETUPTOOLS_82 = {"setuptools/__init__.py": b""}
SETUPTOOLS_80 = {**SETUPTOOLS_82, "pkg_resources/__init__.py": b""}


def locked(machine: Machine, index: Index, *dists: Dist) -> None:
    index.add(*dists)
    write_lock(machine, [pip_pin(dist) for dist in dists], glibc="2.28")


def test_a_missing_library_is_an_answer_of_no(machine: Machine, index: Index, acme: Dist) -> None:
    locked(machine, index, acme, PURE)
    ran = machine.envspec("link", SPEC, status=1)
    needs = "acme/_C.so needs libfoo.so.1, which the target's wheels, debian:trixie-slim and Python don't have"
    assert ran.out.splitlines() == [
        "here: 1 compiled file of 1 wheel: 1 error",
        f"  error: acme 1.0: {needs}  [library-missing]",
        "    remedy: choose another build of acme, or add what brings the library",
    ]
    ran = machine.envspec("link", SPEC, "--json")
    document = valid(ran.out, "link")
    assert ran.status == 1 and not document["ok"]
    (target,) = document["targets"]
    assert [(one["code"], one["paths"], one["names"]) for one in target["findings"]] == [
        ("library-missing", ["acme/_C.so"], ["libfoo.so.1"])
    ]
    assert [(one["name"], one["files"], one["torch_abi"]) for one in target["packages"]] == [("acme", 1, None)]


def test_what_another_wheel_brings_is_there(machine: Machine, index: Index, acme: Dist, foo: Dist) -> None:
    locked(machine, index, acme, foo)
    ran = machine.envspec("link", SPEC)
    assert (ran.status, ran.out) == (0, "here: 2 compiled files of 2 wheels: all that importing needs is there\n")


def test_a_wheel_is_read_once_and_its_size_told_before(machine: Machine, index: Index, acme: Dist, foo: Dist) -> None:
    locked(machine, index, acme, foo, PURE)
    first = machine.envspec("link", SPEC)
    assert first.err.startswith("reading 3 wheels (") and "kB), once: what they say is kept" in first.err
    asked = len(index.asked)
    for path in (machine.cache / "artifacts").rglob("*.whl"):
        path.unlink()
    again = machine.envspec("link", SPEC, "--offline")
    assert (again.status, again.out, again.err) == (0, first.out, "")
    assert len(index.asked) == asked


def test_a_torch_that_nothing_is_known_of_is_named_before_it_is_read(
    machine: Machine, index: Index, foo: Dist, tmp_path: Path
) -> None:
    path = Compiler(tmp_path / "torch").library("libc10.so", defines=["c10"], soname="libc10.so")
    torch = platform_wheel("torch", "2.99.0", files={"torch/lib/libc10.so": path})
    locked(machine, index, torch, foo)
    told = machine.envspec("link", SPEC).err
    assert "what these say doesn't come with envspec: torch 2.99.0 of pypi\n" in told


def test_what_is_compiled_where_it_is_installed_is_not_called_linked(
    machine: Machine, index: Index, acme: Dist, foo: Dist
) -> None:
    source = sdist("made", "1.0")
    index.add(acme, foo, source)
    write_lock(machine, [pip_pin(dist) for dist in (acme, foo, source)], glibc="2.28", pip='allow-source = ["made"]')
    ran = machine.envspec("link", SPEC, "--evidence", "kept")
    assert ran.status == 0 and list((machine.folder / "kept").iterdir()) == []
    assert ran.out == (
        "here: 2 compiled files of 2 wheels: nothing is missing in these\n  not read: made, which installing compiles\n"
    )


@pytest.mark.by_day(1)
@pytest.mark.parametrize("damage", ["", "x", "eJw="])
def test_a_damaged_entry_counts_as_absent(machine: Machine, index: Index, acme: Dist, foo: Dist, damage: str) -> None:
    locked(machine, index, acme, foo)
    first = machine.envspec("link", SPEC)
    entries = list((machine.cache / "linked-v4").rglob("*.json.z"))
    assert len(entries) == 2
    for path in entries:
        path.write_text(damage)
    again = machine.envspec("link", SPEC)
    assert (again.status, again.out, again.err) == (0, first.out, first.err)


def test_offline_without_the_wheel_fails_outside(machine: Machine, index: Index, acme: Dist) -> None:
    locked(machine, index, acme)
    ran = machine.envspec("link", SPEC, "--offline")
    assert ran.status == 3 and acme.file in ran.error and ran.hint == "hint: run without --offline once"


def test_a_target_without_elf_files_is_a_wrong_question(machine: Machine) -> None:
    write_lock(machine, [pip_pin(PURE)], platform="osx-arm64", glibc=None)
    ran = machine.envspec("link", SPEC)
    assert ran.status == 2 and "link reads the libraries of Linux: here is for osx-arm64" in ran.error


def test_a_record_is_kept_of_what_is_proved(machine: Machine, index: Index, acme: Dist, foo: Dist) -> None:
    locked(machine, index, acme, foo)
    assert machine.envspec("link", SPEC, "--evidence", "kept").status == 0
    record = json.loads((machine.folder / "kept" / "demo-here-linked.json").read_text())
    assert (record["kind"], record["rung"], record["target"]) == ("envspec-proof", "linked", "here")
    page = machine.envspec("report", SPEC, "-o", "-", "--evidence", "kept").out
    assert ">locked → linked (without verified)</td>" in page


def test_no_record_is_kept_of_what_is_not(machine: Machine, index: Index, acme: Dist) -> None:
    locked(machine, index, acme)
    assert machine.envspec("link", SPEC, "--evidence", "kept").status == 1
    assert list((machine.folder / "kept").iterdir()) == []


def test_a_target_for_cpus_has_nothing_to_compile_with(machine: Machine, index: Index) -> None:
    locked(machine, index, PURE)
    ran = machine.envspec("link", SPEC, "--compile")
    assert ran.status == 2 and "there is nothing to compile with: here is for CPUs" in ran.err


def test_what_compilers_made_is_told(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    ptxas = build.Compiler("ptxas", "triton", "3.6.0", "triton.whl", ("ptxas",))
    good = build.Compilation(ptxas, "12.8", "sm_90", "sm_90a", "sm_90a")
    found = build.Compiled("here", (good, replace(good, made=None, error="no\nmore")), ("nvrtc",))
    write_lock(machine, [pip_pin(PURE)])
    spec = load_spec(machine.folder / SPEC)
    monkeypatch.setattr("envspec.cli.link.compile_kernels", lambda asked: (spec, [found]))
    ran = machine.envspec("link", SPEC, "--compile")
    assert (ran.status, ran.out) == (
        1,
        """\
here: 1 of 2 kernels built for its GPUs: doesn't compile
  sm_90  ptxas 12.8 (triton 3.6.0): sm_90a
  sm_90  ptxas 12.8 (triton 3.6.0): no
  not in the target's wheels: nvrtc
""",
    )
    document = valid(machine.envspec("link", SPEC, "--compile", "--json").out, "link")
    assert [one["ok"] for one in document["targets"][0]["compiled"]] == [True, False]


def test_what_metadata_forgets_is_told(machine: Machine, index: Index, tmp_path: Path) -> None:
    """As triton's up to 3.2, which imports setuptools."""
    path = Compiler(tmp_path / "tri").library("libtri.so.1", defines=["tri"], soname="libtri.so.1")
    python = tmp_path / "init.py"
    python.write_text("import setuptools\nfrom distutils import log\nimport packaging\n")
    tri = platform_wheel("tri", "1.0", files={"tri/libtri.so.1": path, "tri/__init__.py": python})
    locked(machine, index, tri, wheel("packaging", "26.0"))
    for _ in range(2):
        ran = machine.envspec("link", SPEC)
        assert ran.status == 0 and "tri imports setuptools, which no package of the target brings" in ran.out
        assert "imports packaging" not in ran.out
        assert ("imports distutils" in ran.out) == (sys.version_info >= (3, 12))
    document = valid(machine.envspec("link", SPEC, "--json").out, "link")
    assert document["targets"][0]["findings"][-1]["code"] == "import-missing"


@pytest.mark.parametrize(
    ("source", "beside", "told"),
    [
        ("import pkg_resources\n", [], "setuptools<82"),
        (
            "from pkg_resources import parse_version\n",
            [wheel("setuptools", "82.0.0", files=SETUPTOOLS_82)],
            "setuptools<82",
        ),
        ("import pkg_resources\n", [wheel("setuptools", "80.0.0", files=SETUPTOOLS_80)], None),
        ("import yaml\n", [wheel("pyyaml-ft", "1.0", files={"yaml/__init__.py": b""})], None),
        ("import yaml\n", [], "pyyaml"),
        ("try:\n    import yaml\nexcept ImportError:\n    yaml = None\n", [], None),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy\n", [], None),
        ("import sys\nif sys.platform == 'win32':\n    import requests\n", [], None),
        ("def late():\n    import torch\n", [], None),
    ],
)
def test_what_pure_wheels_forget_is_told(
    source: str, beside: list[Dist], told: str | None, machine: Machine, index: Index
) -> None:
    locked(machine, index, wheel("pure", "1.0", files={"pure/__init__.py": source.encode()}), *beside)
    document = valid(machine.envspec("link", SPEC, "--json").out, "link")
    found = [one["remedy"].removeprefix("add to [pip] dependencies: ") for one in document["targets"][0]["findings"]]
    assert found == ([told] if told else [])
    assert document["targets"][0]["packages"] == []
