"""The recorded PyTorch indexes, asked by the real uv: a torch comes with the libraries of its own CUDA."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from support.index import Index
from support.machine import Machine, cpu
from support.matrix import first_by_day
from support.packages import wheel
from support.recorded import RecordedIndex, pages
from uv import find_uv_bin

pytestmark = pytest.mark.e2e
VARIANTS = ("cpu", "cu118", "cu121", "cu124", "cu126", "cu128", "cu129", "cu130")
PLAIN = ("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools", "numpy", "pillow")


@pytest.fixture
def recorded() -> Iterator[RecordedIndex]:
    made = RecordedIndex()
    with made:
        yield made


@pytest.fixture
def plain(index: Index) -> Index:
    """PyPI, with what torch needs besides its own family. It has no torch."""
    return index.add(
        *(wheel(name, "99.0") for name in PLAIN), wheel("cuda-pathfinder", "1.99"), wheel("cuda-bindings", "13.99")
    )


def newest(variant: str) -> str:
    """The newest torch of a variant with a wheel for CPython 3.12 on x86-64 Linux."""
    found: list[str] = [
        version
        for version, release in pages()[variant]["torch"].items()
        if any("-cp312-cp312-" in name and "linux" in name and "x86_64" in name for name in release["files"])
    ]
    return max(found, key=Version)


def exact_needs(variant: str, version: str) -> dict[str, str]:
    """The versions that a torch fixes, on x86-64 Linux with Python 3.12."""
    release = pages()[variant]["torch"][version]
    (number,) = {
        number
        for name, (_, number) in release["files"].items()
        if "-cp312-cp312-" in name and "linux" in name and "x86_64" in name
    }
    here = {"python_version": "3.12", "python_full_version": "3.12.0", "platform_system": "Linux", "extra": ""}
    here |= {"platform_machine": "x86_64", "sys_platform": "linux", "platform_python_implementation": "CPython"}
    asked = map(Requirement, release["metadata"][number]["requires_dist"])
    return {
        canonicalize_name(one.name): next(iter(one.specifier)).version
        for one in asked
        if "==" in str(one.specifier) and (one.marker is None or one.marker.evaluate(here))
    }


def is_recorded(variant: str, project: str, version: str) -> bool:
    """Whether a variant's pages have a wheel for the Python of these tests."""
    files = pages()[variant].get(project, {}).get(version, {}).get("files", ())
    return any("-cp312-cp312-" in name or "-none-" in name for name in files)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("form", ["json", "html"])
@pytest.mark.parametrize("variant", first_by_day(1, VARIANTS))
def test_uv_resolves_the_newest_torch_of_each_variant(
    recorded: RecordedIndex, plain: Index, machine: Machine, variant: str, form: str
) -> None:
    recorded.form = form
    version = newest(variant)
    needs = exact_needs(variant, version)
    # what the PyTorch index only links to, or nobody recorded, is PyPI's here
    plain.add(*(wheel(name, at) for name, at in needs.items() if not is_recorded(variant, name, at)))
    (machine.folder / "in.txt").write_text(f"torch=={version}\n")
    command = [
        find_uv_bin(), "pip", "compile", "in.txt", "--no-header", "--no-annotate", "--no-build",
        "--python", sys.executable, "--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_28",
        "--index", f"{recorded.whl}/{variant}", "--default-index", plain.url,
        # it has old copies of typing-extensions and others too
        "--index-strategy", "unsafe-best-match",
    ]  # fmt: skip
    ran = subprocess.run(
        command, cwd=machine.folder, env=machine.environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = dict(line.split("==") for line in ran.stdout.splitlines())
    assert found["torch"] == version
    assert {name: found[name] for name in needs} == needs
    assert any(name.startswith("nvidia-") for name in found) == (variant != "cpu")
    assert all("/files/" not in path or path.endswith(".metadata") for path in recorded.paths()), "no wheel is fetched"


def test_envspec_takes_it_for_a_mirror(recorded: RecordedIndex, plain: Index, machine: Machine) -> None:
    machine.configure(f'pytorch = "{recorded.whl}"')
    lock = machine.locked(spec=cpu("torch==2.7.1"))
    (torch,) = (pin for pin in lock.targets[0].pins if pin.name == "torch")
    assert (torch.version, torch.index) == ("2.7.1+cpu", "pytorch/cpu") and torch.artifact is not None
    sha256, _ = pages()["cpu"]["torch"]["2.7.1+cpu"]["files"][torch.artifact.file]
    assert torch.artifact.sha256 == sha256


def test_a_name_has_its_own_hash_in_each_variant() -> None:
    """What the recordings teach: a file name is no identity."""
    hashes: dict[str, set[str]] = {}
    for projects in pages().values():
        for releases in projects.values():
            for release in releases.values():
                for name, (sha256, _) in release["files"].items():
                    hashes.setdefault(name, set()).add(sha256)
    assert sum(len(found) > 1 for found in hashes.values()) > 20


def test_a_release_that_the_live_index_lacks_is_pypis(recorded: RecordedIndex, index: Index, machine: Machine) -> None:
    """The facts know none of its time, so the live index is asked, and PyPI behind it, whose file is judged as its own:
    it was locked as PyTorch's, and taken for a CUDA build."""
    machine.configure(f'pytorch = "{recorded.whl}"')
    index.add(wheel("torch", "1.13.1", tag="cp310-cp310-manylinux1_x86_64"), wheel("setuptools", "69.5.1"))
    target = "[targets.t]\nplatform = 'linux-64'\ncuda = '11.7'\ngpus = ['A100']\n"
    ran = machine.envspec("lock", machine.spec(cpu("torch==1.13.1", targets=target, python="3.10")), status=1)
    assert "t asks for CUDA 11.7, but torch 1.13.1 from pypi is a CPU build" in ran.error
