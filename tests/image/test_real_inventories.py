"""The reader of bases against what real images and modules hold, on both platforms (`real_inventories.toml`)."""

from pathlib import Path
from typing import Any

import pytest
import tomli
from packaging.utils import canonicalize_name
from packaging.version import Version
from support.base_image import layer, write_base

from envspec.app.base import read_base
from envspec.base.errors import Place
from envspec.lock.inventory import Inventory, as_release, read_inventory

REAL: dict[str, dict[str, Any]] = tomli.loads(Path(__file__).with_name("real_inventories.toml").read_text())
MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}


def laid_out(name: str, folder: Path) -> Inventory:
    """Lay a list out as its installers did: NVIDIA's in Debian's folder of an image, conda's in a prefix; read it."""
    real = REAL[name]
    minor = real["python"].rpartition(".")[0]
    prefix = "" if "conda" in real else "usr/"
    site = f"lib/python{minor}/site-packages" if "conda" in real else f"usr/local/lib/python{minor}/dist-packages"
    files = {
        f"{prefix}bin/python{minor}": "an interpreter",
        f"{prefix}include/python{minor}/patchlevel.h": f'#define PY_VERSION      "{real["python"]}"\n',
    }
    for one in real["pip"].split():
        package, version = one.split("==")
        head = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        files[f"{site}/{package.replace('-', '_')}-{version}.dist-info/METADATA"] = head
    for one in real.get("conda", "").split():
        files[f"conda-meta/{one.replace('=', '-')}.json"] = "{}"
    if "conda" not in real:
        libc = f"usr/lib/{MACHINES[real['platform']]}-linux-gnu/libc.so.6"
        files[libc] = "\x7fELF GNU C Library (Ubuntu GLIBC 2.39-0ubuntu8.4) stable release version 2.39.\n"
        machine = {"linux-64": "amd64", "linux-aarch64": "arm64"}[real["platform"]]
        lower = layer(files, {"usr/bin/python3": f"python{minor}"})
        return read_base(str(write_base(folder, lower, Env=["PATH=/usr/bin"], machine=machine)), real["platform"])
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "bin/python3").symlink_to(f"python{minor}")
    return read_base(str(folder), real["platform"])


@pytest.mark.parametrize("name", REAL)
def test_all_of_a_real_one_is_read(name: str, tmp_path: Path) -> None:
    real = REAL[name]
    found = laid_out(name, tmp_path / "base")
    pip = dict(one.split("==") for one in real["pip"].split())
    conda = {one.split("=")[0]: " ".join(one.split("=")[1:]) for one in real.get("conda", "").split()}
    assert len(pip) + len(conda) == real["count"]
    assert found.packages == {canonicalize_name(package): version for package, version in pip.items()}
    assert found.conda == conda
    assert (found.python, found.shadowed) == (real["python"], {})
    assert found.glibc == (None if conda else "2.39")
    assert read_inventory(found.text, Place("base.toml")) == found


@pytest.mark.parametrize("name", REAL)
def test_each_version_of_a_real_one_counts(name: str, tmp_path: Path) -> None:
    """A vendor's pre-releases as what they are on the way to; no version is lost or made older."""
    found = laid_out(name, tmp_path / "base")
    for package, version in found.packages_besides(()):
        own = Version(found.packages[package])
        assert Version(version) >= own and not Version(version).is_prerelease, (package, version)
        assert Version(version).local == own.local and Version(version).base_version == own.base_version


def test_what_nvidias_torch_counts_as() -> None:
    versions = [dict(one.split("==") for one in REAL[name]["pip"].split())["torch"] for name in REAL if "ngc" in name]
    assert [as_release(one) for one in versions] == ["2.8.0+5228986c39.nv25.6", "2.9.0+145a3a7bda.nv25.10"]
