"""What sources are built with has the target's torch, CUDA and NumPy, from the target's own indexes."""

from pathlib import Path

import pytest
from resolutions import CUDA, targets
from support.git_repository import repository
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, metadata_text, sdist, source_files, wheel
from support.torch_packages import stand_ins

from envspec.lock.model import Lock

pytestmark = pytest.mark.e2e

TOOLS = (wheel("setuptools", "80.0"), wheel("wheel", "0.45"), wheel("ninja", "1.11"))


def extension(*requires: str, needs: str = "torch", name: str = "ext") -> Dist:
    """The source of an extension, which says all that it requires without being run."""
    lines = ", ".join(f'"{line}"' for line in ("setuptools", "wheel", *requires))
    project = f'[build-system]\nrequires = [{lines}]\nbuild-backend = "setuptools.build_meta"\n'
    info = metadata_text(name, "1.0", [needs])
    return sdist(name, "1.0", files={"pyproject.toml": project, "setup.py": "", "PKG-INFO": info})


def built_with(lock: Lock, target: str = "t") -> dict[str, tuple[str, str]]:
    found = lock.target(target)
    assert found is not None
    source = found.pin("ext")
    assert source is not None and source.built_with is not None
    return {pin.name: (pin.version, pin.index) for pin in found.build_wheels(source)}


def spec(*dependencies: str, cuda: str = "12.6", extra: str = "", python: str = "3.12") -> str:
    return cpu(
        *dependencies, extra=f"allow-source = ['ext']\n{extra}", python=python, targets=targets(t=CUDA.format(cuda))
    )


@pytest.fixture
def torches(index: Index) -> Index:
    """PyPI's newest torch is of CUDA 13; the facts have the target's."""
    index.add(*stand_ins("cu126", "2.9.1"), *TOOLS)
    index.add(wheel("torch", "2.14.1", "nvidia-cublas==13.1.1.3"), wheel("nvidia-cublas", "13.1.1.3"))
    return index


@pytest.mark.slow
def test_an_extension_is_built_with_the_target_s_torch(machine: Machine, torches: Index) -> None:
    torches.add(extension("torch", "ninja"))
    found = built_with(machine.locked(spec=spec("torch==2.9.1", "ext")))
    assert found["torch"] == ("2.9.1+cu126", "pytorch/cu126")
    assert found["setuptools"] == ("80.0", "pypi") and found["ninja"] == ("1.11", "pypi")
    assert "nvidia-cublas" not in found and "nvidia-cublas-cu12" in found
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
def test_it_is_resolved_anew_with_the_target_s_torch(machine: Machine, torches: Index) -> None:
    torches.add(extension("torch"), *stand_ins("cu126", "2.8.0"))
    assert built_with(machine.locked(spec=spec("torch==2.8.0", "ext")))["torch"][0] == "2.8.0+cu126"
    assert built_with(machine.locked(spec=spec("torch==2.9.1", "ext")))["torch"][0] == "2.9.1+cu126"


@pytest.mark.slow
def test_what_leads_to_another_torch_gives_way_to_the_target_s(machine: Machine, torches: Index) -> None:
    """Targets share the answer of a build that meets nothing of theirs; this one does, through what it requires."""
    torches.add(extension("helper"), wheel("helper", "2.0", "torch==2.14.1"), wheel("helper", "1.0"))
    assert built_with(machine.locked(spec=spec("torch==2.9.1", "ext")))["helper"] == ("1.0", "pypi")
    torches.add(wheel("helper", "1.1", "torch==2.9.1"))
    machine.lock_path().unlink()
    again = machine.locked(spec=spec("torch==2.9.1", "ext"), env={"ENVSPEC_CACHE_DIR": str(machine.base / "other")})
    assert built_with(again)["torch"] == ("2.9.1+cu126", "pytorch/cu126")


@pytest.mark.slow
def test_targets_share_the_answer_of_a_build_that_meets_nothing_of_theirs(machine: Machine, torches: Index) -> None:
    torches.add(extension(), *stand_ins("cu130", "2.9.1"))
    both = targets(a=CUDA.format("12.6"), b=CUDA.format("13.0"))
    lock = machine.locked(spec=cpu("torch==2.9.1", "ext", extra="allow-source = ['ext']", targets=both))
    assert built_with(lock, "a") == built_with(lock, "b") == {"setuptools": ("80.0", "pypi"), "wheel": ("0.45", "pypi")}


@pytest.mark.slow
def test_each_target_has_its_own(machine: Machine, torches: Index) -> None:
    torches.add(extension("torch"), *stand_ins("cu130", "2.9.1"), *stand_ins("cpu", "2.9.1"))
    both = targets(a=CUDA.format("12.6"), b=CUDA.format("13.0"), c="platform = 'linux-64'")
    lock = machine.locked(spec=cpu("torch==2.9.1", "ext", extra="allow-source = ['ext']", targets=both))
    assert [built_with(lock, name)["torch"][1] for name in "abc"] == ["pytorch/cu126", "pytorch/cu130", "pytorch/cpu"]


@pytest.mark.slow
def test_a_build_that_wants_another_torch_is_refused(machine: Machine, torches: Index) -> None:
    torches.add(extension("torch>=2.14"))
    ran = machine.envspec("lock", machine.spec(spec("torch==2.9.1", "ext")))
    assert ran.status == 1 and "torch>=2.14" in ran.error and "2.9.1+cu126" in ran.error, ran
    assert "build-dependencies = { ext = " in ran.hint


@pytest.mark.slow
def test_a_build_with_a_torch_that_the_target_lacks_is_refused(machine: Machine, torches: Index) -> None:
    torches.add(extension("torch", needs="ninja"))
    ran = machine.envspec("lock", machine.spec(spec("ext")))
    assert ran.status == 2 and "the build of ext 1.0 requires torch 2.14.1, but the target has none of pip" in ran.error
    assert "build-dependencies" in ran.hint


NUMPIES = tuple(wheel("numpy", version) for version in ("1.23.5", "1.26.4", "2.0.2", "2.2.6", "2.4.6"))


@pytest.mark.slow
@pytest.mark.parametrize(("setuptools", "has"), [("68.0.0", {"setuptools", "wheel"}), ("70.1", {"setuptools"})])
def test_a_setuptools_that_asks_for_wheel_has_it(
    machine: Machine, index: Index, setuptools: str, has: set[str]
) -> None:
    """As lit 16.0.6 of the days before 70.1, which today's setuptools was asked for: it doesn't name wheel."""
    project = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    source = sdist("ext", "1.0", files={"pyproject.toml": project, "setup.py": ""})
    index.add(wheel("setuptools", setuptools), wheel("wheel", "0.40.0"), source)
    lock = machine.locked(spec=cpu("ext", extra="allow-source = ['ext']"))
    assert built_with(lock, "cpu").keys() == has


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("asks", "has", "gets"),
    [
        ("numpy", "1.26.4", "1.26.4"),
        ("numpy", "2.2.6", "2.2.6"),
        ("numpy>=2", "1.26.4", "2.0.2"),
        ("numpy>=2", "1.23.5", "2.0.2"),
        ("numpy<1.24", "1.26.4", "1.23.5"),
        ("numpy==2.0.*", "2.4.6", "2.0.2"),
    ],
)
def test_a_build_has_the_target_s_numpy_or_one_that_builds_for_it(
    machine: Machine, index: Index, asks: str, has: str, gets: str
) -> None:
    index.add(*TOOLS, *NUMPIES, extension(asks, needs="numpy"))
    found = built_with(machine.locked(spec=cpu(f"numpy=={has}", "ext", extra="allow-source = ['ext']")), "cpu")
    assert found["numpy"] == (gets, "pypi")
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize(("asks", "has"), [("numpy>=2.1", "1.26.4"), ("numpy<2", "2.2.6"), ("numpy>=2.4", "2.2.6")])
def test_a_numpy_for_which_nothing_builds_is_refused(machine: Machine, index: Index, asks: str, has: str) -> None:
    index.add(*TOOLS, *NUMPIES, extension(asks, needs="numpy"))
    ran = machine.envspec("lock", machine.spec(cpu(f"numpy=={has}", "ext", extra="allow-source = ['ext']")))
    assert ran.status == 1 and asks in ran.error, ran


@pytest.mark.slow
def test_what_the_target_has_from_a_named_index_its_builds_have_from_there(machine: Machine, index: Index) -> None:
    with Index() as internal:
        internal.add(wheel("acme-core", "1.0"), wheel("acme-core", "1.1"))
        index.add(*TOOLS, extension("acme-build", needs="acme-core"), wheel("acme-build", "1.0", "acme-core"))
        index.add(wheel("acme-core", "99.0"))
        said = f"indexes = {{ internal = '{internal.url}' }}\nsources = {{ acme-core = 'internal' }}"
        lock = machine.locked(spec=cpu("acme-core<1.1", "ext", extra=f"allow-source = ['ext']\n{said}"))
        assert built_with(lock, "cpu")["acme-core"] == ("1.0", "internal")


@pytest.mark.slow
def test_torch_of_a_mirror_that_the_facts_do_not_know(machine: Machine, index: Index) -> None:
    tag = "cp312-cp312-manylinux_2_28_x86_64"
    index.add(*TOOLS, extension("torch"), wheel("nvidia-cuda-runtime", "15.0.1"), wheel("torch", "99.0"))
    with Index() as mirror:
        mirror.add(wheel("torch", "99.0+cu150", "nvidia-cuda-runtime==15.0.1", tag=tag))
        machine.configure(f'"pytorch/cu150" = "{mirror.url}"')
        machine.spec(spec("torch>=99", "ext", cuda="15.0"))
        assert built_with(machine.locked())["torch"] == ("99.0+cu150", "pytorch/cu150")


def asking_for_torch(*, first: str = "pass") -> Dist:
    """A source whose backend alone knows its requirements, and whose build declares torch and asks for it."""
    project = source_files("ext", "1.0")["pyproject.toml"].replace("requires = []", 'requires = ["torch"]')
    own = source_files("ext", "1.0", ["torch"])["backend.py"]
    asks = "\ndef get_requires_for_build_wheel(config_settings=None):\n    %s\n    return ['torch']\n"
    return sdist("ext", "1.0", static=False, files={"pyproject.toml": project, "backend.py": own + asks % first})


@pytest.mark.slow
def test_a_build_for_metadata_fetches_no_torch_of_stand_in_wheels(machine: Machine, torches: Index) -> None:
    torches.add(asking_for_torch())
    found = built_with(machine.locked(spec=spec("torch==2.9.1", "ext")))
    assert found["torch"] == ("2.9.1+cu126", "pytorch/cu126")
    assert not torches.paths(r"torch-2\.14.*\.whl$|nvidia_cublas-13.*\.whl$")


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [False, True])
def test_one_that_imports_torch_is_refused_at_once_with_the_line_to_write(
    machine: Machine, torches: Index, at_once: bool
) -> None:
    """A backend of the source's own may import it before it is asked anything."""
    backend = "import torch\n" + source_files("ext", "1.0", ["torch"])["backend.py"]
    files = {"pyproject.toml": source_files("ext", "1.0")["pyproject.toml"], "backend.py": backend}
    own = sdist("ext", "1.0", static=False, files=files)
    torches.add(own if at_once else asking_for_torch(first="import torch"))
    ran = machine.envspec("lock", machine.spec(spec("torch==2.9.1", "ext")))
    assert ran.status == 3 and "it imports torch, which the build doesn't have" in ran.error, ran.err
    assert 'metadata = [{ name = "ext", version = "1.0", dependencies = ["torch"] }]' in ran.hint
    assert not torches.paths(r"torch-2\.14.*\.whl$|nvidia_cublas-13.*\.whl$")


@pytest.mark.slow
def test_a_build_of_git_that_requires_torch_is_refused_at_once_with_the_line_to_write(
    machine: Machine, torches: Index, tmp_path: Path
) -> None:
    files = source_files("ext", "1.0", ["torch"])
    files["pyproject.toml"] = files["pyproject.toml"].replace("requires = []", 'requires = ["torch"]')
    repository(tmp_path / "ext", files)
    asked = spec("torch==2.9.1", f"ext @ git+{(tmp_path / 'ext').as_uri()}@main")
    ran = machine.envspec("lock", machine.spec(asked))
    assert ran.status == 3 and "the build of ext requires torch, which no build for metadata gets" in ran.error, ran.err
    assert 'metadata = [{ name = "ext", version = "…", dependencies = ["torch", …] }]' in ran.hint
    assert not torches.paths(r"torch-2\.14.*\.whl$|nvidia_cublas-13.*\.whl$")
    stated = 'metadata = [{ name = "ext", version = "1.0", dependencies = ["torch"] }]'
    machine.locked(spec=asked.replace("allow-source", f"{stated}\nallow-source"))
    assert machine.versions("t")["ext"] == "1.0"


@pytest.mark.slow
@pytest.mark.parametrize("said", ["", ", version='1.0'"])
def test_a_build_of_git_that_requires_torch_has_its_line_from_its_own_files(
    machine: Machine, torches: Index, tmp_path: Path, said: str
) -> None:
    """Its setup.py isn't run."""
    setup = f"import torch, setuptools\nREQ = ['torch>=2']\nsetuptools.setup(name='ext', install_requires=REQ{said})\n"
    project = "[build-system]\nrequires = ['setuptools', 'torch']\n"
    repository(tmp_path / "ext", {"pyproject.toml": project, "setup.py": setup})
    asked = spec("torch==2.9.1", f"ext @ git+{(tmp_path / 'ext').as_uri()}@main")
    ran = machine.envspec("lock", machine.spec(asked), status=3)
    line = f'metadata = [{{ name = "ext", version = "{"1.0" if said else "…"}", dependencies = ["torch>=2"] }}]'
    assert ran.hint == f"hint: add to [pip]{'' if said else ', with its version'}: {line}"
    if said:
        machine.locked(spec=asked.replace("allow-source", f"{line}\nallow-source"))
