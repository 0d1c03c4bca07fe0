"""The exported pixi.toml of the shipped conda spec, solved again: by rattler as the file's own tables ask, and by pixi
where it is installed. Either way to the lock's pins."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomli
from cli_project import Envspec

from envspec.lock.model import Lock, LockedTarget
from envspec.lock.read import load

rattler = pytest.importorskip("rattler")

pytest_plugins = ["cli_fixtures"]

ROOT = Path(__file__).resolve().parents[2]
SPEC = "hpc-v2.7"
VIRTUAL = {"glibc": "__glibc", "linux": "__linux", "macos": "__osx"}


@pytest.fixture(scope="module")
def lock() -> Lock:
    return load(ROOT / "locks" / SPEC / "envspec.lock")


@pytest.fixture
def exported(envspec: Envspec, tmp_path: Path) -> Path:
    told = envspec("export", str(ROOT / "specs" / f"{SPEC}.toml"), "-f", "pixi", "-o", str(tmp_path / "out"))
    assert told.code == 0, told.err
    return tmp_path / "out"


def platform_of(workspace: dict[str, Any], name: str) -> tuple[str, dict[str, str]]:
    """A platform's subdir and virtual packages, with pixi's own defaults for what the file leaves out."""
    found = {"__glibc": "2.28", "__linux": "4.18", "__unix": "0"}
    for one in workspace["platforms"]:
        if isinstance(one, dict) and one["name"] == name:
            found |= {VIRTUAL[key]: version for key, version in one.items() if key in VIRTUAL}
            if cuda := one.get("cuda"):
                found |= {"__cuda": cuda["driver"], "__cuda_arch": cuda["arch"]} if isinstance(cuda, dict) else {}
                found |= {"__cuda": cuda} if isinstance(cuda, str) else {}
            return one["platform"], found
    return name, found


def spec_texts(tables: dict[str, Any]) -> list[str]:
    texts = []
    for name, asked in tables.items():
        one = {"version": asked} if isinstance(asked, str) else asked
        texts.append(f"{name} {one.get('version', '*')} {one.get('build', '')}".strip())
    return texts


def solved(data: dict[str, Any], environment: str, channel: Path, cache: Path) -> set[tuple[str, str, str]]:
    """What rattler chooses for an environment: dependencies and constraints of its features, one after the other."""
    features = [data["feature"][name] for name in data["environments"][environment]]
    subdir, virtual = platform_of(data["workspace"], features[0]["platforms"][0])
    tables = [data, *features]
    asked = [text for one in tables for text in spec_texts(one.get("dependencies", {}))]
    held = [text for one in tables for text in spec_texts(one.get("constraints", {}))]
    records = asyncio.run(
        rattler.solve(
            [rattler.Channel(channel.as_uri())],
            [rattler.MatchSpec(text) for text in asked],
            gateway=rattler.Gateway(cache_dir=cache),
            platforms=[subdir, "noarch"],
            virtual_packages=[_virtual(name, version) for name, version in virtual.items()],
            constraints=[rattler.MatchSpec(text) for text in held],
            channel_relations="disabled",
        )
    )
    return {(one.name.normalized, str(one.version), str(one.build)) for one in records}


def _virtual(name: str, version: str) -> Any:
    named = rattler.PackageName(name), rattler.Version(version)
    return rattler.GenericVirtualPackage(*named, rattler.BuildString("0"))


def conda_pins(target: LockedTarget) -> set[tuple[str, str, str]]:
    return {(pin.name, pin.version, pin.build or "") for pin in target.pins if pin.kind == "conda"}


@pytest.mark.slow
def test_rattler_solves_the_conda_part_to_the_locks_pins_on_recorded_conda_forge(
    exported: Path, lock: Lock, recorded_data: Path, tmp_path: Path
) -> None:
    data = tomli.loads((exported / "pixi.toml").read_text("utf-8"))
    assert data["workspace"]["channels"] == ["conda-forge"]
    for target in lock:
        found = solved(data, target.name, recorded_data / "conda-forge", tmp_path / "cache")
        assert found == conda_pins(target), target.name


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.skipif(shutil.which("pixi") is None, reason="pixi isn't on PATH")
def test_pixi_locks_to_the_locks_pins(exported: Path, lock: Lock) -> None:
    subprocess.run(["pixi", "lock"], cwd=exported, check=True, timeout=1800)
    written = rattler.LockFile.from_path(exported / "pixi.lock")
    for target in lock:
        environment = written.environment(target.name)
        (packages,) = environment.packages_by_platform().values()
        files = {one.location.rpartition("/")[2] for one in packages}
        assert files == {pin.artifact.file for pin in target.pins if pin.artifact}, target.name
