"""SIFs of small images from an archive: the same lock gives the same bytes, where Apptainer can."""

import os
import shutil
import subprocess

import pytest
from support.base_image import system, write_base
from support.index import Index
from support.installs import PYTHON, SPEC, serve_lock
from support.machine import Machine
from support.packages import wheel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

STAND_IN = """#!/bin/sh
if [ "$2" = --help ]; then echo "  --reproducible"; exit; fi
echo "$@ $SOURCE_DATE_EPOCH" > "$TOLD"
for one in "$@"; do case $one in *.sif) cp /dev/null "$one";; esac; done
"""


@pytest.fixture
def machine(machine: Machine, index: Index) -> Machine:
    lib = wheel("lib", "1.0")
    serve_lock(machine, index, lib, platform="linux-64")
    write_base(machine.folder / "base", system(PYTHON))
    machine.variables["PATH"] = os.environ["PATH"]
    return machine


def test_a_stand_in_for_apptainer_is_asked_for_a_reproducible_sif_where_it_can(machine: Machine) -> None:
    programs, told = machine.base / "programs", machine.base / "told"
    programs.mkdir()
    (programs / "apptainer").write_text(STAND_IN)
    (programs / "apptainer").chmod(0o755)
    machine.variables |= {"PATH": f"{programs}:{os.environ['PATH']}", "TOLD": str(told)}
    ran = machine.envspec("image", SPEC, "--base", "./base", "--sif", "one.sif", "-o", "one.tar", status=0)
    build, option, _, archive, epoch = told.read_text().split()
    assert (build, option, epoch) == ("build", "--reproducible", "315532800")
    assert archive == f"oci-archive:{machine.folder / 'one.tar'}"
    assert "reproducible" not in ran.err
    (programs / "apptainer").write_text(STAND_IN.replace("  --reproducible", "  --force"))
    ran = machine.envspec("image", SPEC, "--base", "./base", "--sif", "one.sif")
    assert ran.status == 0 and "note: another build of one.sif has other bytes" in ran.err
    assert "--reproducible" not in told.read_text()


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer")
@pytest.mark.parametrize("kind", ["zstd", "gzip"])
def test_the_same_lock_gives_the_same_sif(kind: str, machine: Machine) -> None:
    made = []
    for name in ("one.sif", "two.sif"):
        machine.envspec("image", SPEC, "--base", "./base", "--sif", name, "--compression", kind, status=0)
        made.append((machine.folder / name).read_bytes())
    help_text = subprocess.run(["apptainer", "build", "--help"], capture_output=True, text=True, check=True).stdout
    if "--reproducible" not in help_text:
        pytest.skip("both kinds are taken, and this Apptainer has no --reproducible")
    assert made[0] == made[1]
