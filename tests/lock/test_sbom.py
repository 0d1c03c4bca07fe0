"""The bill of materials: valid by the library's own validator, whole, and the same every time."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from msgspec.structs import replace
from packageurl import PackageURL
from support.matrix import by_day

from envspec.base.errors import ToolError
from envspec.lock.formats.sbom import sbom
from envspec.lock.graph import Graph
from envspec.lock.model import Artifact, GitSource, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.lock.read import load
from envspec.packages.own_extras import how_to_get

SHIPPED = sorted(path.parent.name for path in Path(__file__).parents[2].glob("locks/*/envspec.lock"))
SHA, MD5 = "a" * 64, "b" * 32


def pin(name: str, *dependencies: str, **fields: Any) -> Pin:
    given = {"version": "1.0", "index": "pypi", "artifact": Artifact(f"{name}-1.0.whl", SHA, 7), **fields}
    return Pin("pip", name, dependencies=dependencies, **given)


PINS = (
    Pin(
        "conda",
        "ffmpeg",
        "7.1",
        "conda-forge/linux-64",
        Artifact("ffmpeg-7.1-h0_0.conda", SHA, 9, MD5),
        ("zlib",),
        licence="GPL-2.0-or-later",
        build="h0_0",
    ),
    Pin("conda", "zlib", "1.3", "conda-forge/linux-64", Artifact("zlib-1.3-h1_0.tar.bz2", SHA, 9, MD5), build="h1_0"),
    pin("app", "lib>=1", 'other; extra == "x"', "ping", direct=True, licence="MIT OR Apache-2.0"),
    pin("flash", index="git", artifact=None, git=GitSource("https://example.org/flash.git", "c" * 40)),
    pin("lib", licence="BSD License"),
    pin("ping", "pong"),
    pin("pong", "ping"),
    pin("tar", index="url", artifact=Artifact("tar-1.0.tar.gz", SHA), url="https://example.org/tar-1.0.tar.gz"),
    pin("torch", version="2.9.1+cu126", index="pytorch/cu126", licence="BSD-3-Clause"),
)
INPUTS = TargetInputs(
    "linux-64", "3.12", "2.28", "12.6", ("A100",), requirements=("app", "torch"), conda_requirements=("ffmpeg 7.*",)
)
TARGET = LockedTarget("cu126", INPUTS, PINS, ("sm_80",), "525.60.13")
LOCK = Lock("demo", SpecInputs(), (TARGET,))


VALIDATOR = JsonStrictValidator(SchemaVersion.V1_6)
"""Reads CycloneDX's schema once."""


def document(lock: Lock = LOCK, target: LockedTarget = TARGET) -> dict[str, Any]:
    text = sbom(lock, target)
    error = VALIDATOR.validate_str(text)
    assert error is None, error
    made: dict[str, Any] = json.loads(text)
    return made


def component(name: str) -> dict[str, Any]:
    (found,) = (one for one in document()["components"] if one["name"] == name)
    return dict(found)


def test_the_head() -> None:
    made = document()
    assert (made["bomFormat"], made["specVersion"], made["version"]) == ("CycloneDX", "1.6", 1)
    root = made["metadata"]["component"]
    assert (root["name"], root["type"], root["bom-ref"]) == ("demo", "application", "demo/cu126")
    properties = {one["name"]: one["value"] for one in root["properties"]}
    assert properties["envspec:cuda"] == "12.6" and properties["envspec:driver-floor"] == "525.60.13"
    assert properties["envspec:fingerprint"].startswith("sha256:")
    assert "timestamp" not in made["metadata"] and "tools" not in made["metadata"]


def test_hashes_and_files() -> None:
    assert component("ffmpeg")["hashes"] == [{"alg": "MD5", "content": MD5}, {"alg": "SHA-256", "content": SHA}]
    assert component("lib")["hashes"] == [{"alg": "SHA-256", "content": SHA}]
    assert "hashes" not in component("flash")
    properties = {one["name"]: one["value"] for one in component("app")["properties"]}
    assert properties == {
        "envspec:direct": "true",
        "envspec:file": "app-1.0.whl",
        "envspec:index": "pypi",
        "envspec:size": "7",
    }


def test_licences_are_as_declared() -> None:
    said = {"acknowledgement": "declared"}
    assert component("torch")["licenses"] == [{"license": {**said, "id": "BSD-3-Clause"}}]
    assert component("app")["licenses"] == [{**said, "expression": "MIT OR Apache-2.0"}]
    assert component("lib")["licenses"] == [{"license": {**said, "name": "BSD License"}}]
    assert "licenses" not in component("zlib")


@pytest.mark.parametrize(
    ("name", "purl"),
    [
        ("ffmpeg", ("conda", "ffmpeg", "7.1", "h0_0 conda-forge linux-64 conda")),
        ("zlib", ("conda", "zlib", "1.3", "h1_0 conda-forge linux-64 tar.bz2")),
        ("torch", ("pypi", "torch", "2.9.1+cu126", "torch-1.0.whl")),
        ("flash", ("pypi", "flash", "1.0", f"git+https://example.org/flash.git@{'c' * 40}")),
        ("tar", ("pypi", "tar", "1.0", "https://example.org/tar-1.0.tar.gz")),
    ],
)
def test_package_urls(name: str, purl: tuple[str, str, str, str]) -> None:
    parsed = PackageURL.from_string(component(name)["purl"])
    assert (parsed.type, parsed.name, parsed.version) == purl[:3]
    assert " ".join(value for _, value in sorted(dict(parsed.qualifiers).items())) == purl[3]


def test_edges() -> None:
    made = document()
    names = {one["bom-ref"]: one["name"] for one in made["components"]}
    edges = {
        names.get(one["ref"], "root"): [names[ref] for ref in one.get("dependsOn", ())] for one in made["dependencies"]
    }
    assert {name: sorted(found) for name, found in edges.items()} == {
        "root": ["app", "ffmpeg", "torch"],
        "app": ["lib", "ping"],
        "ffmpeg": ["zlib"],
        "flash": [],
        "lib": [],
        "ping": ["pong"],
        "pong": ["ping"],
        "tar": [],
        "torch": [],
        "zlib": [],
    }


def test_the_serial_number_is_the_locks() -> None:
    number = document()["serialNumber"]
    assert UUID(number.removeprefix("urn:uuid:")).version == 5
    assert document()["serialNumber"] == number
    other = replace(TARGET, pins=PINS[:-1])
    assert document(Lock("demo", SpecInputs(), (other,)), other)["serialNumber"] != number
    twin = replace(TARGET, name="cu126-b")
    both = Lock("demo", SpecInputs(), (TARGET, twin))
    assert document(both, TARGET)["serialNumber"] != document(both, twin)["serialNumber"]


@pytest.mark.slow
@pytest.mark.by_commit(3)
@pytest.mark.parametrize("name", by_day(SHIPPED, lambda name: name in ("cpu-py311", "deit-v2.6")))
def test_a_real_lock(name: str, root: Path) -> None:
    for target in (lock := load(root / "locks" / name / "envspec.lock")):
        made = document(lock, target)
        build = lock.python(target)
        pythons = [one for one in made["components"] if one["type"] == "platform"]
        assert len(pythons) == (build is not None) == (target.pin("python", "conda") is None)
        assert len(made["components"]) == len(target.pins) + len(pythons)
        assert len(made["dependencies"]) == len(target.pins) + len(pythons) + 1
        said = [(one["name"], one["version"], one["hashes"]) for one in pythons]
        assert said == ([("cpython", build.version, [{"alg": "SHA-256", "content": build.sha256}])] if build else [])
        edges = sum(len(one.get("dependsOn", ())) for one in made["dependencies"])
        graph = Graph.of(target)
        unique = {(e.source, e.target) for found in graph.outgoing.values() for e in found}
        assert edges == len(unique) + len({e.target for e in graph.roots}) + len(pythons)


@pytest.mark.slow
def test_another_process_writes_the_same_bytes(root: Path) -> None:
    path = root / "locks" / "deit-v2.6" / "envspec.lock"
    code = (
        "import sys; from pathlib import Path;"
        "from envspec.lock.read import load; from envspec.lock.formats.sbom import sbom;"
        "lock = load(Path(sys.argv[1])); sys.stdout.write(sbom(lock, lock.targets[0]))"
    )
    digests = set()
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            cwd=root,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        )
        digests.add(hashlib.sha256(ran.stdout).hexdigest())
    assert len(digests) == 1


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("cyclonedx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cyclonedx", None)
    with pytest.raises(ToolError) as caught:
        sbom(LOCK, TARGET)
    assert caught.value.hint == how_to_get("sbom")
