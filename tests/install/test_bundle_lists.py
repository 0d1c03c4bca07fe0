"""What a bundle lists for its installer: wheels, and apart from them what is built where it is unpacked."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from envspec.install.build import BuildRules
from envspec.install.bundle import _add, build_files
from envspec.lock.model import Artifact, BuildPin, Lock, LockedTarget, Pin, SpecInputs, TargetInputs


def pin(name: str, file: str, **more: object) -> Pin:
    return Pin("pip", name, "1.0", "pypi", Artifact(file, "0" * 64), **more)  # type: ignore[arg-type]


def test_what_is_built_stands_apart_from_what_is_installed() -> None:
    wheel = pin("app", "app-1.0-py3-none-any.whl")
    source = pin(
        "src",
        "src-1.0.tar.gz",
        built_with=(BuildPin("setuptools", "80.0", "setuptools-80.0-py3-none-any.whl", "0" * 64),),
    )
    bare, compiled = pin("bare", "bare-1.0.tar.gz", built_with=()), pin("fast", "fast-1.0.tar.gz")
    inputs = TargetInputs("linux-64", "3.12", "2.28", requirements=("app", "bare", "fast", "src"))
    target = LockedTarget("t", inputs, (wheel, bare, compiled, source))
    made = build_files(Lock("demo", SpecInputs(), (target,)), target, BuildRules(target, {"fast": ()}, frozenset()))
    lines = [line for line in made["requirements.txt"].splitlines() if "==" in line]
    assert [line.partition("==")[0] for line in lines] == ["app"]
    assert made["sources/src.versions"] == "setuptools==80.0\n" and made["sources/bare.versions"] == ""
    assert "fast==1.0" in made["builds/000-fast.txt"]


def test_a_member_is_counted_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as tar:
        assert (_add(tar, "a", b"123"), _add(tar, "b.sh", tmp_path / "file")) == (3, 5)
        assert [(one.name, one.size, one.mode) for one in tar.getmembers()] == [("a", 3, 0o644), ("b.sh", 5, 0o755)]
