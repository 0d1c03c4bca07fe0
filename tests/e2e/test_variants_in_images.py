"""Variant wheels in images, built from the exported recipes by the real tools: buildah, Apptainer, and envspec itself.

The wheels are tiny and come from a loopback index, which wants a login: none is for this machine. Of three packages one
is for GPUs, one for newer processors than any has, and one is built against torch, which uv knows nothing of.
"""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.base_image import PACKAGES, system, text, write_base
from support.index import Index
from support.machine import Machine
from support.nix import Nix
from support.oci import Builder, opened_builder, skip_without
from support.sif import built_sif, skip_without_tools
from support.variants import cuda, release
from uv import find_uv_bin

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
# the best for an A100 alone, the best for an H100 alone, and the one that serves both
BOUND = {"cuda_version_upper_bound": ["15.0"]}
TORCH = {
    "null": {},
    "cu130_a100": {"nvidia": {**cuda("13.0", 80)["nvidia"], **BOUND}},
    "cu130_h100": {"nvidia": {**cuda("13.0", 90)["nvidia"], **BOUND}},
    "cu130": cuda("13.0", 80, 90),
}
KERNELS = {f"torch{minor}": {"abi_dependency": {"torch": [f"2.{minor}"]}} for minor in (8, 9)}
FAST = {"null": {}, "v4": {"x86_64": {"level": ["v4"]}}}
LABELS = (
    "import torch_label, kernels_label, fast_label as fast; print(torch_label.label, kernels_label.label, fast.label)"
)
RIGHT = "cu130 torch9 v4"
GPU = '[targets.gpu]\nplatform = "linux-64"\ncuda = "13.0"\ngpus = ["A100", "H100"]\ncpu = "x86-64-v4"\n'
LOGIN = ("user", "s3cret")


@dataclass(frozen=True)
class Project:
    """A machine with the locked spec, its index, its recipes and the unpacked wheels of its bundle."""

    machine: Machine
    index: Index
    recipe: Path
    wheels: Path


def made(folder: Path, index: Index, packages: str) -> Project:
    machine = Machine(folder, index.url)
    spec = machine.spec(
        f'[env]\nname = "demo"\npython = "{PYTHON}"\n[pip]\ndependencies = [{packages}]\n'
        f'indexes = {{ own = "{index.url}" }}\nsources = {{ torch = "own", kernels = "own", fast = "own" }}\n'
        f"{GPU}[image]\npython = 'base'\n"
    )
    for command in (["lock", spec], ["export", spec, "--format", "all", "-o", str(folder / "recipe")]):
        machine.envspec(*command, status=0)
    machine.envspec("bundle", spec, "--target", "gpu", "-o", str(folder / "b.tar"), status=0)
    with tarfile.open(folder / "b.tar") as tar:
        tar.extractall(folder / "bundle", filter="data")
    return Project(machine, index, folder / "recipe", folder / "bundle" / "wheels")


@pytest.fixture(scope="module")
def index() -> Iterator[Index]:
    with Index() as index:
        # two releases of each, so that no build finds another's layers
        for patch in (1, 2):
            index.add(*release("torch", f"2.9.{patch}", TORCH))
            index.add(*release("kernels", f"1.{patch}", KERNELS, "torch", namespaces=("abi_dependency",)))
            index.add(*release("fast", f"1.{patch}", FAST, namespaces=("x86_64",)))
        yield index


@pytest.fixture(scope="module")
def alone(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """What is built from the index alone."""
    found = made(tmp_path_factory.mktemp("alone"), index, '"torch==2.9.2", "kernels==1.2", "fast==1.2"')
    yield found
    found.machine.close()


@pytest.fixture(scope="module")
def given(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """What is built from a bundle's wheels."""
    found = made(tmp_path_factory.mktemp("given"), index, '"torch==2.9.1", "kernels==1.1", "fast==1.1"')
    yield found
    found.machine.close()


@pytest.fixture
def login(index: Index, monkeypatch: pytest.MonkeyPatch) -> str:
    """The index wants one; gives its address with that."""
    monkeypatch.setattr(index, "credentials", LOGIN)
    return index.url_with(*LOGIN)


@pytest.fixture(scope="module")
def builder(given: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    skip_without()
    storage = tmp_path_factory.mktemp("buildah")
    with opened_builder(storage, given.recipe, "gpu", "http://127.0.0.1:9") as found:
        yield found


def labels(builder: Builder, image: str) -> str:
    container = builder("from", image).strip()
    ran = builder.run(container, "/opt/env/bin/python", "-c", LABELS)
    builder("rm", container)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_dockerfile_takes_any_variant_from_the_index_alone(builder: Builder, alone: Project, login: str) -> None:
    settings = builder.storage / "uv.toml"
    settings.write_text(f'{settings.read_text()}[[index]]\nname = "own"\nurl = "{login}"\nexplicit = true\n')
    at = Builder(builder.storage, alone.recipe, "gpu", builder.arguments)
    said = at.build("localhost/alone")
    assert labels(at, "localhost/alone") == RIGHT
    assert LOGIN[1] not in said


def test_a_dockerfile_takes_any_variant_from_a_bundle(builder: Builder, given: Project) -> None:
    before = len(given.index.paths(r"\.whl$"))
    builder.build("localhost/given", f"--build-context=wheels={given.wheels}")
    assert labels(builder, "localhost/given") == RIGHT
    assert len(given.index.paths(r"\.whl$")) == before, "no wheel came from the index"


def labels_of_a_sif(project: Project, scratch: Path) -> str:
    recipe = {
        path.relative_to(project.recipe).as_posix(): path.read_text()
        for path in sorted(project.recipe.rglob("*"))
        if path.is_file()
    }
    sif = built_sif(recipe, scratch)
    command = ["apptainer", "exec", str(sif), "python", "-c", LABELS]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_sif_takes_any_variant_from_the_index_alone(alone: Project, login: str, tmp_path: Path) -> None:
    skip_without_tools()
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "netrc").write_text(f"machine 127.0.0.1 login {LOGIN[0]} password {LOGIN[1]}\n")
    assert labels_of_a_sif(alone, tmp_path) == RIGHT


def test_a_sif_takes_any_variant_from_a_bundle(given: Project, tmp_path: Path) -> None:
    skip_without_tools()
    shutil.copytree(given.wheels, tmp_path / "settings" / "wheels")
    before = len(given.index.paths(r"\.whl$"))
    assert labels_of_a_sif(given, tmp_path) == RIGHT
    assert len(given.index.paths(r"\.whl$")) == before, "no wheel came from the index"


def test_an_image_straight_from_the_lock_has_them(given: Project) -> None:
    machine = given.machine
    debian = {**PACKAGES, **dict.fromkeys(("ibverbs-providers", "libibverbs1", "libnuma1", "librdmacm1"), "1")}
    write_base(machine.folder / "base", system(PYTHON, debian))
    machine.envspec("image", "specs/demo.toml", "--target", "gpu", "--base", "./base", "-o", "out", status=0)
    site = f"opt/env/lib/python{PYTHON}/site-packages"
    for module, label in zip(("torch", "kernels", "fast"), RIGHT.split(), strict=True):
        layer = "torch" if module == "torch" else "rest"
        assert text(machine.folder / "out", layer, f"{site}/{module}_label.py") == f"label = {label!r}\n"


@pytest.mark.skipif(shutil.which("nix") is None, reason="nix isn't installed")
def test_a_flake_builds_them(given: Project, tmp_path: Path) -> None:
    nix = Nix(tmp_path / "nix")
    try:
        nix.nixpkgs({"pypi": given.index.url, "pytorch": given.index.url, "pythons": [PYTHON]})
        folder = shutil.copytree(given.recipe, tmp_path / "flake")
        (folder / "indexes.nix").write_text(f'{{ own = "{given.index.origin}/files"; }}\n')
        result = nix.build("gpu", cwd=folder)
        ran = subprocess.run([result / "bin/python", "-I", "-c", LABELS], capture_output=True, text=True, check=False)
        assert ran.stdout.strip() == RIGHT, ran.stderr
    finally:
        nix.close()


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_installers_that_know_no_variants_take_the_bundle_s(installer: str, given: Project, tmp_path: Path) -> None:
    requirements = given.machine.locks / "demo" / "gpu" / "requirements.txt"
    options = ["--require-hashes", "--no-deps", "--no-index", "--find-links", str(given.wheels), "--target", "out"]
    program = [sys.executable, "-m", "pip"] if installer == "pip" else [find_uv_bin(), "pip"]
    command = [*program, "install", *options, "-r", str(requirements)]
    subprocess.run(command, cwd=tmp_path, env=given.machine.environment(), check=True, timeout=120)
    assert (tmp_path / "out" / "kernels_label.py").read_text() == "label = 'torch9'\n"
