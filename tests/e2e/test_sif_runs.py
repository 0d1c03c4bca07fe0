"""A SIF of an image that `envspec image` made, by the real Apptainer: it starts programs as the definition's does, with
their arguments as they are, and without a caller's variables for another Python. And the image's own entry point, by
chroot, for a user whom no passwd names.

The base is Debian by debootstrap, with its own Python, and tini of this machine.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.base_image import add_blob, layer, status, write_layout
from support.debian import debian_tree
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR, serve_lock
from support.machine import Machine
from support.packages import wheel

from envspec.base.places import OF_OTHER_PYTHONS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer"),
    pytest.mark.skipif(shutil.which("tini") is None, reason="no tini"),
    pytest.mark.skipif(shutil.which("debootstrap") is None or os.getuid() != 0, reason="no debootstrap, or not root"),
    pytest.mark.skipif((PYTHON, SUBDIR) != ("3.11", "linux-64"), reason="the base has Python 3.11"),
]

BASE = ("--base", "./base", "--without", "fabric")
ARGUMENTS = [
    '{"lr": 1}',
    "cost is $5",
    "$(id -un)",
    "a`id -un`b",
    "it's",
    r"a\b",
    "*",
    "a  b",
    "",
    "x\ny",
    '"',
    "$HOME",
]
SHOWS = "import json, sys; print(json.dumps(sys.argv[1:]))"
LOOKS = "import json, os, sys; print(json.dumps([dict(os.environ), sys.flags.optimize, sys.flags.safe_path]))"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with `image.tar`, the image of a lock."""
    with Index() as index:
        machine = Machine(tmp_path_factory.mktemp("project") / "machine", index.url)
        serve_lock(machine, index, wheel("lib", "1.0"), platform="linux-64")
        spec = machine.folder / SPEC
        spec.write_text(f'{spec.read_text()}\n[image]\npython = "base"\n')
        write_debian(machine.folder / "base")
        machine.variables["PATH"] = os.environ["PATH"]
        machine.envspec("image", SPEC, *BASE, "-o", "image.tar", status=0, seconds=600)
        yield machine
        machine.close()


def write_debian(folder: Path) -> None:
    """Debian with g++ by name and tini indeed, as an OCI layout."""
    tree = debian_tree()
    unused = ("./var/lib/dpkg/*", "./var/lib/apt/*", "./var/cache/*", "./usr/share/*")
    command = ["tar", "-C", str(tree), *(f"--exclude={one}" for one in unused), "-cf", "-", "."]
    files = subprocess.run(command, capture_output=True, check=True).stdout
    listed = (tree / "var/lib/dpkg/status").read_text() + status({"g++": "4:12", "tini": "0.19"})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(os.path.realpath(str(shutil.which("tini"))), "usr/bin/tini")
    tars = [files, layer({"var/lib/dpkg/status": listed}), buffer.getvalue()]
    rows = [add_blob(folder, gzip.compress(tar, 1, mtime=0), "layer.v1.tar+gzip") for tar in tars]
    document = {
        "os": "linux",
        "architecture": "amd64",
        "config": {"Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars]},
    }
    write_layout(folder, add_blob(folder, json.dumps(document).encode(), "config.v1+json"), rows)


@pytest.fixture(scope="module")
def folder(project: Machine) -> Path:
    """What Apptainer makes of the archive, as a folder, which takes no time to mount."""
    apptainer("build", "--sandbox", str(project.folder / "built"), f"oci-archive:{project.folder / 'image.tar'}")
    return project.folder / "built"


def apptainer(*words: str, status: int = 0, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        ["apptainer", *words],
        cwd="/",
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == status, ran.stdout[-2000:] + ran.stderr[-3000:]
    return ran


def test_the_sif_starts_as_the_definitions_does(project: Machine) -> None:
    sif = str(project.folder / "image.sif")
    project.envspec("image", SPEC, *BASE, "--sif", sif, status=0, seconds=600)
    assert json.loads(apptainer("run", sif, "python", "-c", SHOWS, *ARGUMENTS).stdout) == ARGUMENTS
    assert apptainer("inspect", "--list-apps", sif).stdout.split() == ["smoke"]
    ran = apptainer("run", "--app", "smoke", sif, "--help", env={"PYTHONHOME": "/elsewhere"})
    assert "--workload" in ran.stdout


def test_arguments_arrive_as_they_are(folder: Path) -> None:
    ran = apptainer("run", str(folder), "python", "-c", SHOWS, *ARGUMENTS)
    assert json.loads(ran.stdout) == ARGUMENTS and "tini" not in ran.stderr.lower()
    assert apptainer("run", str(folder), "python", "-c", 'print("a b")').stdout == "a b\n"
    assert json.loads(apptainer("exec", str(folder), "python", "-c", SHOWS, *ARGUMENTS).stdout) == ARGUMENTS


def test_it_has_the_definitions_apps_test_and_help(folder: Path) -> None:
    assert apptainer("inspect", "--list-apps", str(folder)).stdout.split() == ["smoke"]
    assert "--workload" in apptainer("run", "--app", "smoke", str(folder), "--help").stdout
    # an environment without a framework proves nothing, says the check
    tested = apptainer("test", str(folder), status=1)
    assert " 0 failed" in tested.stdout + tested.stderr
    assert "--app smoke" in apptainer("run-help", str(folder)).stdout


@pytest.mark.parametrize("command", ["run", "exec"])
def test_a_callers_variables_for_another_python_stay_outside(folder: Path, command: str) -> None:
    callers = dict.fromkeys(OF_OTHER_PYTHONS, "/elsewhere") | {"PYTHONOPTIMIZE": "2", "PYTHONSAFEPATH": "1"}
    callers |= {"VIRTUAL_ENV": "/else", "CONDA_PREFIX": "/else", "PYTHONNOUSERSITE": "", "KEPT": "1"}
    found, optimized, safe = json.loads(apptainer(command, str(folder), "python", "-c", LOOKS, env=callers).stdout)
    assert {name: found[name] for name in OF_OTHER_PYTHONS if found.get(name)} == {} and (optimized, safe) == (0, False)
    assert (found["VIRTUAL_ENV"], found.get("CONDA_PREFIX", ""), found["PYTHONNOUSERSITE"]) == ("/opt/env", "", "1")
    assert found["KEPT"] == "1"
    given = {"APPTAINERENV_PYTHONPATH": "/mine", "APPTAINERENV_PYTHONOPTIMIZE": "1"}
    found, optimized, _ = json.loads(apptainer(command, str(folder), "python", "-c", LOOKS, env=callers | given).stdout)
    assert (found["PYTHONPATH"], optimized) == ("/mine", 1)


@pytest.mark.parametrize("given", [{}, {"USER": "me"}, {"HOME": "/"}, {"HOME": "/nowhere", "LOGNAME": "me"}])
@pytest.mark.parametrize("uid", [1042, 1002700000])
def test_a_user_whom_no_passwd_names_has_a_name_and_a_home(folder: Path, uid: int, given: dict[str, str]) -> None:
    """As `docker run --user` and Kubernetes' `runAsUser` start it: the image's entry point with its variables."""
    if not (folder / "dev" / "null").exists():
        os.mknod(folder / "dev" / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        (folder / "dev" / "null").chmod(0o666)
    look = "import getpass, json, os; e = os.environ; h = e['HOME']; open(h + '/x', 'w').close(); "
    look += "print(json.dumps([getpass.getuser(), e['USER'], e['LOGNAME'], os.stat(h).st_uid]))"
    words = [
        shutil.which("chroot") or "chroot",
        f"--userspec={uid}:0",
        str(folder),
        "/usr/bin/tini",
        "--",
        "/opt/envspec/entrypoint.sh",
    ]
    ran = subprocess.run(
        [*words, "python", "-c", look],
        env={"PATH": "/opt/env/bin:/usr/bin:/bin", **given},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    name, user, login, owner = json.loads(ran.stdout)
    expected = given.get("USER", f"uid_{uid}")
    assert (user, login, owner) == (expected, given.get("LOGNAME", expected), uid) and name == login
