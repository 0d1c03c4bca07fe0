"""`envspec base read` against what isn't ours: Python's list of an environment, Apptainer's SIF, a registry."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support.base_image import write_base
from support.hub import serving_hub
from support.machine import Machine

from envspec.app.base import read_base
from envspec.image.sif import open_sif
from envspec.image.squashfs import build_sif
from envspec.lock.inventory import Inventory
from envspec.packages.requirement import canonical_name

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SITE = "usr/local/lib/python3.12/dist-packages"
FILES = {
    "usr/bin/python3": "an interpreter",
    "usr/bin/python3.12": "an interpreter",
    "usr/lib/x86_64-linux-gnu/libnccl.so.2.27.7": "",
    "etc/pip/constraint.txt": "numpy==1.26.4\n",
    "bin/sh": "",
    f"{SITE}/torch-2.9.0a0+50eac811a6.nv25.09.dist-info/METADATA": "Name: torch\nVersion: 2.9.0a0+50eac811a6.nv25.09\n",
    f"{SITE}/numpy-1.26.4.dist-info/METADATA": "Name: numpy\nVersion: 1.26.4\n\nA text.\n",
}
VARIABLES = ["PATH=/usr/local/bin:/usr/bin:/bin", "CUDA_VERSION=13.0.1.012", "HF_TOKEN=hf_aSecretOfSomebody"]

_LIST = """
import importlib.metadata as m, json
found = {}
for one in m.distributions():
    found.setdefault(one.name, one.version)
print(json.dumps(found))
"""


def test_the_packages_are_those_that_python_finds() -> None:
    """Of this test's own environment: its Python lists them by its own search."""
    said = subprocess.run([sys.executable, "-I", "-c", _LIST], capture_output=True, text=True, check=True).stdout
    found = read_base(sys.prefix, "linux-64")
    assert found.packages == {canonical_name(name): version for name, version in json.loads(said).items()}
    assert found.python and sys.version.startswith(found.python)


@pytest.mark.skipif(not shutil.which("apptainer"), reason="no apptainer")
@pytest.mark.skipif(not shutil.which("unsquashfs"), reason="no unsquashfs")
def test_a_sif_holds_what_its_image_does(tmp_path: Path) -> None:
    layout = write_base(tmp_path / "layout", FILES, Env=VARIABLES)
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        for path in sorted(layout.rglob("*")):
            archive.add(path, str(path.relative_to(layout)))
    build_sif(tmp_path / "image.tar", tmp_path / "image.sif", os.environ, 0)
    image, sif = (read_base(str(one), "linux-64") for one in (layout, tmp_path / "image.sif"))
    assert sif.packages == image.packages and len(sif.packages) == 2
    assert (sif.python, sif.folders, sif.platform) == (image.python, image.folders, "linux-64")
    assert (sif.libraries, sif.constraints) == (image.libraries, image.constraints)
    assert sif.variables["CUDA_VERSION"] == "13.0.1.012" and "HF_TOKEN" not in sif.variables
    assert sif.digest and sif.digest != image.digest


LIBRARIES = {
    "libmpi": "40.40.7",
    "libfabric": "1.27.0",
    "libcudnn": "9.13.0",
    "libnccl": "2.27.7",
    "libstdc++": "6.0.33",
}
TOLD = {
    "PATH": "/usr/bin:/bin",
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64:/opt/hpcx/ompi/lib",
    "NVIDIA_REQUIRE_CUDA": "cuda>=13.0 brand=tesla,driver>=535,driver<536",
    "PIP_CONSTRAINT": "/etc/pip/constraint.txt",
    "CUDA_VERSION": "13.0.1.012",
    "OPAL_PREFIX": "/opt/hpcx/ompi",
    "TORCH_CUDA_ARCH_LIST": "8.0 9.0 10.0+PTX",
}
FIELDS = {
    **{name: ("libraries", name, version) for name, version in LIBRARIES.items()},
    **{name: ("variables", name, text) for name, text in TOLD.items()},
    "glibc": ("glibc", None, "2.39"),
    "constraints": ("constraints", None, ("numpy==1.26.4",)),
    "a secret": ("variables", "HF_TOKEN", None),
}


@pytest.fixture(scope="module")
def inventories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Inventory]:
    """One base as an image, as the SIF that Apptainer makes of it, and as the folder of its sandbox."""
    folder = tmp_path_factory.mktemp("fields")
    places = dict.fromkeys(("libcudnn", "libnccl", "libstdc++"), "usr/lib/x86_64-linux-gnu")
    paths = {f"{places.get(name, 'opt/hpcx/ompi/lib')}/{name}.so.{version}": "" for name, version in LIBRARIES.items()}
    libc = {"usr/lib/x86_64-linux-gnu/libc.so.6": "GNU C Library stable release version 2.39.\n"}
    files = {**FILES, **paths, **libc}
    del files["bin/sh"]
    layout = write_base(
        folder / "layout", {**files, "usr/bin/sh": ""}, Env=[f"{k}={v}" for k, v in {**TOLD, "HF_TOKEN": "x"}.items()]
    )
    found = {"image": read_base(str(layout), "linux-64")}
    if shutil.which("apptainer") and shutil.which("unsquashfs"):
        with tarfile.open(folder / "image.tar", "w") as archive:
            for path in sorted(layout.rglob("*")):
                archive.add(path, str(path.relative_to(layout)))
        build_sif(folder / "image.tar", folder / "image.sif", os.environ, 0)
        unpack = ["unsquashfs", "-q", "-o", str(open_sif(folder / "image.sif").offset), "-d", str(folder / "sandbox")]
        subprocess.run([*unpack, str(folder / "image.sif")], check=True)
        found |= {kind: read_base(str(folder / place), "linux-64", kind) for kind, place in PLACES.items()}
    return found


PLACES = {"sif": "image.sif", "prefix": "sandbox"}


@pytest.mark.parametrize("kind", ["image", *PLACES])
@pytest.mark.parametrize("field", FIELDS)
def test_each_field_is_read(inventories: dict[str, Inventory], kind: str, field: str) -> None:
    if kind not in inventories:
        pytest.skip("no apptainer, or no unsquashfs")
    part, name, expected = FIELDS[field]
    found = getattr(inventories[kind], part)
    assert (found if name is None else found.get(name)) == expected


@pytest.mark.skipif(not (shutil.which("docker-registry") and shutil.which("buildah")), reason="no docker-registry")
def test_an_image_of_a_registry_leaves_no_layer_on_the_disk(machine: Machine, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for path, text in FILES.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    with serving_hub(tmp_path / "hub") as hub:
        hub.push_tree("vendor/torch:25.09", tree)
        ran = machine.envspec("base", "read", f"{hub.host}/vendor/torch:25.09", "-o", "base.toml", status=0)
    assert "wrote base.toml: Python 3.12, 2 packages, torch 2.9.0a0+50eac811a6.nv25.09" in ran.err
    blobs = {path.name for path in (tmp_path / "hub").glob("**/blobs/sha256/??/*")}
    left = {hashlib.sha256(path.read_bytes()).hexdigest() for path in machine.base.rglob("*") if path.is_file()}
    assert len(blobs) == 3 and not blobs & left
