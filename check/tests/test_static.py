"""Parts of the static checks."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envspec_check.capability import covers
from envspec_check.checks.files import Recorded, damage, recorded_files
from envspec_check.checks.installed import compare_conda, compare_distributions
from envspec_check.checks.isolation import first_on_path, leaks
from envspec_check.checks.stack.locked import has_accelerator_for_cpus
from envspec_check.cuda_libraries import is_cuda_library
from envspec_check.environment import Installed, distributions
from envspec_check.lock import Pin
from envspec_check.machine import arch_flags, card_of, spelled_cudnn


@pytest.mark.parametrize(
    ("flags", "architecture", "runs"),
    [
        ("sm_80 sm_90", "sm_90", True),
        ("sm_80", "sm_86", True),  # the same major version, a lower minor
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_80 compute_80", "sm_90", True),  # PTX is compiled by the driver
        ("compute_90", "sm_80", False),
        ("sm_90a", "sm_90", True),
        ("sm_100a", "sm_103", False),  # code for one capability alone
        ("sm_100f", "sm_103", True),
        ("compute_90a", "sm_100", False),
        ("sm_120", "sm_120", True),
        ("sm_50 sm_60", "sm_70", False),
        ("", "sm_70", False),
    ],
)
def test_which_code_runs_where(flags: str, architecture: str, runs: bool) -> None:
    assert covers(flags.split(), architecture) is runs


def pin(name: str, version: str, kind: str = "pip", build: str | None = None, provides: tuple[str, ...] = ()) -> Pin:
    return Pin(kind, name, version, build, None, provides)


def installed(name: str | None, version: str, installer: str = "uv", folder: str = "") -> Installed:
    return Installed(name, version, folder or f"/env/{name}.dist-info", installer, None)


@pytest.mark.parametrize(
    ("packages", "wrong"),
    [
        ([installed("torch", "2.9.1"), installed("pip", "25.0")], []),
        ([installed("torch", "2.9.0")], ["torch is 2.9.0, locked is 2.9.1"]),
        ([], ["torch 2.9.1 is missing"]),
        ([installed("torch", "2.9.1"), installed("extra", "1")], ["extra 1 isn't locked"]),
        (
            [installed("torch", "2.9.1"), installed("torch", "2.9.0")],
            ["torch is 2.9.0, locked is 2.9.1", "torch is there twice: 2.9.1 and 2.9.0"],
        ),
        ([installed("torch", "2.9.1"), installed("brotli", "1"), installed("numpy", "1", "conda")], []),
        ([installed("torch", "2.9.1"), installed("old", "1", "", "/env/old.egg-info")], []),
        ([installed("torch", "2.9.1"), installed(None, "")], ["None.dist-info has no metadata"]),
    ],
)  # fmt: skip
def test_distributions_against_the_lock(packages: list[Installed], wrong: list[str]) -> None:
    locked = [pin("torch", "2.9.1"), pin("brotli-python", "1.0", "conda", provides=("Brotli",))]
    assert compare_distributions(locked, packages, ["/env/old.egg-info"]) == wrong


def test_the_specs_own_project_may_be_there() -> None:
    packages = [installed("torch", "2.9.1"), installed("mine", "0.1")]
    assert compare_distributions([pin("torch", "2.9.1")], packages, project="mine") == []
    assert compare_distributions([pin("torch", "2.9.1")], packages) == ["mine 0.1 isn't locked"]


def test_what_a_base_has_is_what_it_had_when_it_was_locked() -> None:
    locked = [pin("torch", "2.9.0a0+nv", "provided"), pin("numpy", "1.26.4", "provided"), pin("numpy", "2.1.0")]
    numpy = [installed("numpy", "2.1.0"), installed("numpy", "1.26.4")]  # its own stands behind what replaces it
    assert compare_distributions(locked, [installed("torch", "2.9.0a0+nv"), *numpy]) == []
    moved = [installed("torch", "2.9.0"), *numpy]
    assert compare_distributions(locked, moved) == ["the base's torch is 2.9.0, and was 2.9.0a0+nv when it was locked"]
    assert compare_distributions(locked, numpy) == ["torch 2.9.0a0+nv is missing"]
    assert compare_distributions(locked, [installed("torch", "2.9.0a0+nv"), *reversed(numpy)]) == [
        "numpy is 1.26.4, locked is 2.1.0"
    ]


def test_conda_against_the_lock() -> None:
    locked = [pin("python", "3.11.2", "conda", "h1"), pin("gone", "1", "conda"), pin("torch", "2")]
    records = [{"name": "python", "version": "3.11.2", "build": "h2"}, {"name": "extra", "version": "1"}]
    assert compare_conda(locked, records) == [
        "conda's extra 1 isn't locked",
        "conda's gone 1 is missing",
        "conda's python is 3.11.2 h2, locked is 3.11.2 h1",
    ]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A distribution of two files with its RECORD."""
    contents = {"demo/__init__.py": b"x = 1\n", "demo/lib.so": bytes(1000)}
    rows = []
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}")
    info = tmp_path / "demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: De_mo\nVersion: 1.0\n\nName: no\n")
    (info / "RECORD").write_text("\n".join([*rows, "demo/__pycache__/x.pyc,,", "demo-1.0.dist-info/RECORD,,"]) + "\n")
    return tmp_path


def damage_of(folder: Path, budget: int = 1 << 20) -> list[str]:
    return damage(recorded_files(distributions([str(folder)])), budget)[0]


def test_a_whole_package_is_whole(package: Path) -> None:
    assert [(distribution.name, distribution.version) for distribution in distributions([str(package)])] == [
        ("de-mo", "1.0")
    ]
    assert damage_of(package) == []


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"one", []),
        (b"other", []),
        (b"two", ["isn't the file"]),
        (b"neither", ["is another file: 7 bytes of 3 or 5"]),
        (None, ["is missing"]),
    ],
)
def test_of_a_shared_path_any_owners_content_is_whole(tmp_path: Path, content: bytes | None, wrong: list[str]) -> None:
    shared = tmp_path / "tool"
    if content is not None:
        shared.write_bytes(content)
    owners = [
        Recorded(str(shared), name, len(text), hashlib.sha256(text).hexdigest())
        for name, text in [("a 1", b"one"), ("b 1", b"other")]
    ]
    faults, _ = damage(owners, None)
    assert len(faults) == len(wrong) and all(words in fault for words, fault in zip(wrong, faults))


@pytest.mark.parametrize(
    ("version", "present"), [("0.9.5", False), ("0.14.0", False), ("0.14.1", True), ("0.18.0", True), (None, False)]
)
def test_which_deepspeed_has_an_accelerator_for_cpus(version: str | None, present: bool) -> None:
    lock = {"pip": [{"name": "deepspeed", "version": version}] if version else []}
    assert has_accelerator_for_cpus(lock) is present


def test_a_file_cut_short_is_found(package: Path) -> None:
    (package / "demo/lib.so").write_bytes(bytes(600))
    assert damage_of(package) == [f"{package}/demo/lib.so of de-mo 1.0 is cut short: 600 bytes of 1000"]


def test_a_missing_file_is_found(package: Path) -> None:
    (package / "demo/lib.so").unlink()
    assert damage_of(package) == [f"{package}/demo/lib.so of de-mo 1.0 is missing"]


def test_an_altered_file_of_the_same_size_is_found_by_its_hash(package: Path) -> None:
    (package / "demo/__init__.py").write_bytes(b"x = 2\n")
    assert damage_of(package) == [f"{package}/demo/__init__.py of de-mo 1.0 isn't the file that was installed"]
    assert damage_of(package, budget=0) == []


def test_libraries_first_on_the_path(tmp_path: Path) -> None:
    own, other, empty = tmp_path / "env/lib", tmp_path / "cuda/lib64", tmp_path / "empty"
    for folder in (own, other, empty):
        folder.mkdir(parents=True)
    for path in (own / "libcudnn.so.9", other / "libcudnn.so.9", other / "libcudnn_ops.so.9", other / "libcuda.so.1"):
        path.touch()
    roots = [str(tmp_path / "env")]

    def first(*folders: Path) -> list[str]:
        return first_on_path({"LD_LIBRARY_PATH": ":".join(map(str, folders))}, roots)

    assert first(empty, other) == [f"{other}/libcudnn.so.9", f"{other}/libcudnn_ops.so.9"]
    assert first(own, other) == [f"{other}/libcudnn_ops.so.9"]
    assert first(own, empty, tmp_path / "missing") == []
    assert first_on_path({"LD_PRELOAD": "/x/libnccl.so.2 /y/libm.so"}, roots) == ["/x/libnccl.so.2"]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("libcudnn_engines_precompiled.so.9", True),
        ("libcudart-d0da41ae.so.11.0", True),
        ("libnvJitLink.so.12", True),
        ("libcuda.so.1", False),  # the driver's
        ("libnvidia-ml.so.1", False),
        ("libcudnn.a", False),
        ("libc10_cuda.so", False),
    ],
)
def test_which_libraries_are_cudas(name: str, is_one: bool) -> None:
    assert is_cuda_library(f"/x/{name}") is is_one


def test_leaks_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "env/lib/site-packages",
        "base/lib/python3",
        "base/lib/site-packages",
        "user/site-packages",
        "asked",
        "pth",
    )
    env, standard, base, user, python_path, pth = (str(tmp_path / name) for name in names)
    for path in (env, standard, base, user, python_path, pth):
        Path(path).mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", python_path)
    paths = [env, standard, base, user, python_path, pth, str(tmp_path / "missing.zip")]
    assert leaks(paths, [str(tmp_path / "env")], [str(tmp_path / "base")], user) == [
        (base, "the base Python's packages"),
        (user, "the user site"),
        (python_path, "PYTHONPATH"),
        (pth, "not the environment's"),
    ]


@pytest.mark.parametrize(("number", "text"), [(8902, "8.9.2"), (91002, "9.10.2"), (90100, "9.1.0"), (None, None)])
def test_the_versions_of_cudnn(number: int | None, text: str | None) -> None:
    assert spelled_cudnn(number) == text


def test_the_card_of_a_gpu() -> None:
    cards: dict[str, dict[str, Any]] = {
        "H100": {"capability": "9.0", "bandwidth_gb_s": 3350, "forms": {"H100 PCIe": {"bandwidth_gb_s": 2000}}},
        "A100": {"capability": "8.0", "bandwidth_gb_s": 1555},
    }
    assert card_of(cards, "NVIDIA H100 80GB HBM3", "9.0") == {"name": "H100", "product": "H100", **cards["H100"]}
    assert card_of(cards, "NVIDIA H100 PCIe", "9.0") == {
        "name": "H100 PCIe",
        "product": "H100",
        **cards["H100"],
        "bandwidth_gb_s": 2000,
    }
    assert card_of(cards, "NVIDIA A100-SXM4-80GB", "8.0") == {"name": "A100", "product": "A100", **cards["A100"]}
    assert card_of(cards, "NVIDIA H200", "9.0") is None


@pytest.mark.parametrize(
    "name", ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D"]
)
def test_a_part_of_a_card_is_not_the_card(name: str) -> None:
    cards = {"H100": {"capability": "9.0"}, "GeForce RTX 4090": {"capability": "9.0"}}
    assert card_of(cards, name, "9.0") is None


def test_architecture_flags_of_a_torch_without_cuda() -> None:
    assert arch_flags(SimpleNamespace(_C=SimpleNamespace())) == []
    assert arch_flags(SimpleNamespace(_C=SimpleNamespace(_cuda_getArchFlags=lambda: None))) == []
    assert arch_flags(SimpleNamespace(_C=SimpleNamespace(_cuda_getArchFlags=lambda: "sm_80 sm_90"))) == [
        "sm_80",
        "sm_90",
    ]
