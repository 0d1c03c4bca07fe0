"""Wheels that no installer can install, or that replace what isn't their own: `lock` refuses them where it reads them,
and `install` and `bundle` before anything of them is written."""

import io
import warnings
import zipfile

import pytest
from msgspec.structs import replace
from support.index import Index
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist, wheel

from envspec.packages.archive_entries import layout_fault

pytestmark = pytest.mark.e2e

DATA = "alpha-1.0.data"
OWN = "which replaces a file of the environment's own"
INFO = "which is of another package's .dist-info"
BAD: dict[str, tuple[dict[str, bytes], str]] = {
    "settings": ({f"{DATA}/data/pyvenv.cfg": b"include-system-site-packages = true\n"}, OWN),
    "activate": ({f"{DATA}/scripts/activate": b"#!/bin/sh\n"}, OWN),
    "activate-data": ({f"{DATA}/data/bin/activate": b"#!/bin/sh\n"}, OWN),
    "activate-fish": ({f"{DATA}/data/bin/activate.fish": b"x"}, OWN),
    "python": ({f"{DATA}/data/bin/python": b"#!/bin/sh\n"}, OWN),
    "python-version": ({f"{DATA}/scripts/python3.12": b"#!/bin/sh\n"}, OWN),
    "notes": ({f"{DATA}/data/etc/envspec/install.json": b"{}"}, OWN),
    "conda": ({f"{DATA}/data/conda-meta/history": b""}, OWN),
    "another-info": ({f"{DATA}/purelib/pip-1.0.dist-info/METADATA": b"x"}, INFO),
    "another-info-data": ({f"{DATA}/data/lib/python3.12/site-packages/pip-1.0.dist-info/RECORD": b""}, INFO),
    "settings-dot": ({f"{DATA}/data/./pyvenv.cfg": b"x"}, OWN),
    "settings-slashes": ({f"{DATA}//data//pyvenv.cfg": b"x"}, OWN),
    "activate-dot": ({f"{DATA}/scripts/./activate": b"x"}, OWN),
    "a-link-of-python": ({f"{DATA}/data/lib64": b"x"}, OWN),
    "a-folder-of-python": ({f"{DATA}/data/bin": b"x"}, OWN),
    "another-info-lib64": ({f"{DATA}/data/lib64/python3.12/site-packages/pip-1.0.dist-info/RECORD": b""}, INFO),
    "two-infos": ({"beta-1.0.dist-info/METADATA": b"x"}, "has 2 folders .dist-info instead of one"),
    "file-and-folder": ({"a/b": b"x", "a/b/c": b"x"}, "has the entry 'a/b' both as a file and as a folder"),
    "twice": ({}, "has the entry 'alpha.py' twice, with different content"),
}
ENTRY_POINTS = "alpha-1.0.dist-info/entry_points.txt"
COMMANDS = {
    name: {ENTRY_POINTS: f"[console_scripts]\n{name} = alpha:run\n".encode()} for name in ("activate", "./activate")
}


def made(kind: str) -> Dist:
    files, _ = BAD[kind]
    return twice(wheel("alpha", "1.0")) if kind == "twice" else wheel("alpha", "1.0", files=files)


def twice(dist: Dist) -> Dist:
    buffer = io.BytesIO(dist.content)
    with zipfile.ZipFile(buffer, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("alpha.py", "another = True\n")
    return replace(dist, content=buffer.getvalue())


@pytest.mark.by_day(2)
@pytest.mark.parametrize("sidecars", [True, False], ids=["sidecar", "wheel"])
@pytest.mark.parametrize("kind", BAD)
def test_lock_refuses_it(machine: Machine, index: Index, kind: str, sidecars: bool) -> None:
    """Its list of entries is read for the paths that it installs, or for its METADATA."""
    index.sidecars = sidecars
    index.add(made(kind), wheel("beta", "1.0"))
    machine.default = index.url
    spec = machine.spec(
        "[env]\npython = '3.12'\n[pip]\ndependencies = ['alpha', 'beta']\n[targets.cpu]\nplatform = 'linux-64'\n"
    )
    ran = machine.envspec("lock", spec)
    assert ran.status == 3 and "alpha-1.0-py3-none-any.whl" in ran.err and BAD[kind][1] in ran.err, ran.err
    assert not machine.lock_path().exists()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", [*BAD, *COMMANDS])
def test_install_and_bundle_refuse_it(machine: Machine, index: Index, kind: str) -> None:
    dist = made(kind) if kind in BAD else wheel("alpha", "1.0", files=COMMANDS[kind])
    index.add(dist)
    write_lock(machine, [pip_pin(dist)])
    for words in (("install", SPEC, "--prefix", "env"), ("bundle", SPEC, "-o", "x.tar")):
        ran = machine.envspec(*words)
        said = BAD[kind][1] if kind in BAD else f"has the command {kind!r}, which replaces"
        assert ran.status == 3 and said in ran.err, ran.err
    assert not (machine.folder / "x.tar").exists()


HONEST = [
    *("setuptools/_vendor/wheel-0.45.dist-info/METADATA", f"{DATA}/scripts/activate-global-python-argcomplete"),
    *(f"{DATA}/data/etc/jupyter/x.json", f"{DATA}/data/share/man/man1/python.1", f"{DATA}/scripts/python-config-x"),
    *("alpha/activate", "alpha/pyvenv.cfg", f"{DATA}/headers/python", f"{DATA}/platlib/alpha/bin/python"),
]


@pytest.mark.parametrize("name", HONEST)
def test_what_is_honest_stays(name: str) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in ("alpha-1.0.dist-info/METADATA", name, name):
            archive.writestr(one, b"the same")
    assert layout_fault(zipfile.ZipFile(buffer).infolist()) == ""
