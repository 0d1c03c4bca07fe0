"""Sources that are built against the environment: what their builds see, and when they are built again."""

import py_compile
import shutil
from pathlib import Path

import pytest
from support.index import Index
from support.installs import PYTHON, SUBDIR
from support.machine import Machine
from support.packages import Dist, sdist, source_files, wheel

from envspec.base.errors import InputError
from envspec.base.progress import Progress
from envspec.export.environment import build_variables
from envspec.facts.minimum import architectures
from envspec.install.build import BuildRules, WheelBuilder
from envspec.install.host import InstallHost
from envspec.lock.model import Artifact, LockedTarget, Pin, TargetInputs
from envspec.resolve.uv.program import Uv

pytestmark = pytest.mark.e2e

SEEN = """
def _look():
    import importlib.metadata, os
    names = sorted(f"{d.name} {d.version}" for d in importlib.metadata.distributions())
    said = [os.environ.get(name, "-") for name in ("TORCH_CUDA_ARCH_LIST", "FORCE_CUDA")]
    with open(%r, "a") as file:
        file.write(", ".join(names) + " | " + " ".join(said) + " | " + str(int(os.environ["MAX_JOBS"]) > 0) + "\\n")

_plain = build_wheel
def build_wheel(*given):
    import tool
    _look()
    return _plain(*given)
"""


def compiled(witness: Path, requires: str = "[]", name: str = "fast") -> Dist:
    """A source whose build imports the module `tool` without declaring it, and notes what it sees."""
    backend = source_files(name, "1.0")["backend.py"] + SEEN % str(witness)
    project = f"[build-system]\nrequires = {requires}\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    return sdist(name, "1.0", files={"backend.py": backend, "pyproject.toml": project})


@pytest.fixture
def witness(machine: Machine, index: Index) -> Path:
    path = machine.base / "witness"
    index.add(compiled(path), wheel("tool", "1.0", "part"), wheel("tool", "2.0", "part"), wheel("part", "1.0"))
    index.add(wheel("other", "1.0"))
    return path


def spec(tool: str = "1.0", more: str = 'build-dependencies = { fast = ["tool"] }', target: str = "") -> str:
    pip = f"[pip]\ndependencies = ['fast', 'tool=={tool}', 'other']\nallow-source = ['fast']\n{more}\n"
    return f"[env]\npython = '{PYTHON}'\n{pip}[targets.here]\nplatform = '{SUBDIR}'\nglibc = '2.17'\n{target}"


def install(machine: Machine, prefix: str = "prefix", status: int = 0) -> str:
    ran = machine.envspec("install", "specs/demo.toml", "--prefix", prefix, status=status)
    return ran.out + ran.err


@pytest.mark.slow
def test_a_build_sees_what_the_spec_names_in_the_locks_versions_and_nothing_else(
    machine: Machine, witness: Path
) -> None:
    machine.locked(spec=spec())
    install(machine)
    assert witness.read_text() == "part 1.0, tool 1.0 | - - | True\n"


@pytest.mark.slow
def test_it_is_built_once_for_all_environments(machine: Machine, witness: Path, index: Index) -> None:
    machine.locked(spec=spec())
    install(machine)
    install(machine, "another")
    assert len(witness.read_text().splitlines()) == 1
    assert "already" in install(machine)


@pytest.mark.slow
def test_another_version_of_what_it_was_built_against_builds_it_again(machine: Machine, witness: Path) -> None:
    machine.locked(spec=spec())
    install(machine)
    machine.locked(spec=spec("2.0"))
    assert "fast" in install(machine)
    assert [line.partition(" |")[0] for line in witness.read_text().splitlines()] == [
        "part 1.0, tool 1.0",
        "part 1.0, tool 2.0",
    ]
    # what wasn't seen changes nothing
    machine.locked(spec=spec("2.0").replace("'other'", "'part'"))
    install(machine)
    assert len(witness.read_text().splitlines()) == 2


@pytest.mark.slow
def test_without_isolation_it_sees_the_environment(machine: Machine, witness: Path) -> None:
    machine.locked(spec=spec(more='no-build-isolation = ["fast"]'))
    install(machine)
    assert witness.read_text().startswith("other 1.0, part 1.0, tool 1.0 |")


@pytest.mark.slow
def test_a_kept_wheel_that_was_changed_is_built_again(machine: Machine, witness: Path) -> None:
    machine.locked(spec=spec())
    install(machine)
    (kept,) = machine.cache.glob("built-v1/*/*.whl")
    kept.write_bytes(b"other")
    install(machine, "another")
    assert len(witness.read_text().splitlines()) == 2


@pytest.mark.slow
def test_what_a_build_declares_must_be_locked(machine: Machine, index: Index, tmp_path: Path) -> None:
    path = machine.base / "witness"
    index.add(compiled(path, "['part>=1', 'maker']"), wheel("tool", "1.0", "part"), wheel("part", "1.0"))
    index.add(wheel("other", "1.0"), wheel("maker", "3.0"))
    machine.locked(spec=spec())
    said = install(machine, status=2)
    assert "the build of fast 1.0 needs maker, which it wouldn't see" in said
    assert 'build-dependencies = { fast = ["tool", "maker"] }' in said
    machine.locked(spec=spec(more='build-dependencies = { fast = ["tool", "maker"] }'))
    install(machine)
    assert path.read_text().startswith("maker 3.0, part 1.0, tool 1.0 |")


@pytest.mark.slow
def test_builds_that_need_each_other_come_in_order(machine: Machine, index: Index, witness: Path) -> None:
    more = sdist("more", "1.0", "fast", files={"backend.py": source_files("more", "1.0", ["fast"])["backend.py"]})
    index.add(more)
    text = spec(more='build-dependencies = { fast = ["tool"], more = ["fast"] }')
    machine.locked(spec=text.replace("['fast']", "['fast', 'more']").replace("'other'", "'other', 'more'"))
    install(machine)
    # `more` sees the wheel of `fast` that was built for it
    assert len(witness.read_text().splitlines()) == 1


@pytest.mark.slow
def test_a_failed_build_says_what_to_do(machine: Machine, index: Index, witness: Path) -> None:
    machine.locked(spec=spec(more='build-dependencies = { fast = ["part"] }'))
    said = install(machine, status=3)
    assert "the build of fast 1.0 failed" in said and "No module named 'tool'" in said
    assert "[pip] build-dependencies" in said
    assert not list(machine.cache.glob("built-v1/*"))


PYPROJECT = """\
[build-system]
requires = ["maker"]
build-backend = "maker"
[project]
name = "own"
version = "1.0"
dependencies = ["part"]
"""


@pytest.fixture
def project(machine: Machine, index: Index) -> Path:
    """A project whose build backend is a package of the index, and puts the project's source into the wheel."""
    own = 'members = {f"{STEM}.py": open(os.path.join(os.getcwd(), "own.txt")).read()'
    backend = source_files("own", "1.0", ["part"])["backend.py"].replace('members = {f"{STEM}.py": ""', own)
    index.add(wheel("maker", "1.0", files={"maker.py": backend.encode()}), wheel("part", "1.0"))
    (machine.folder / "pyproject.toml").write_text(PYPROJECT)
    text = f"[env]\npython = '{PYTHON}'\nproject = '..'\n[targets.here]\nplatform = '{SUBDIR}'\nglibc = '2.17'\n"
    machine.locked(spec=text)
    return machine.folder


@pytest.mark.slow
def test_the_project_is_installed_last_and_again_when_it_changes(machine: Machine, project: Path) -> None:
    (project / "own.txt").write_text("answer = 1\n")
    assert "+ pip   own 1.0" in install(machine)
    module = project / "prefix" / "lib" / f"python{PYTHON}" / "site-packages" / "own.py"
    assert module.read_text() == "answer = 1\n"
    assert "already" in install(machine)
    bytecode = Path(str(py_compile.compile(str(module), doraise=True)))
    (project / "own.txt").write_text("answer = 2\n")
    assert "own 1.0" in install(machine)
    assert module.read_text() == "answer = 2\n"
    assert not bytecode.exists(), "of the same second and size, it would count for the new text"
    shutil.rmtree(module.parent / "own-1.0.dist-info")
    install(machine)
    assert (module.parent / "own-1.0.dist-info").is_dir()


@pytest.mark.slow
def test_a_project_that_leaves_the_spec_leaves_the_environment(machine: Machine, project: Path) -> None:
    (project / "own.txt").write_text("answer = 1\n")
    install(machine)
    text = (project / "specs" / "demo.toml").read_text()
    machine.locked(spec=text.replace("project = '..'\n", "[pip]\ndependencies = ['part']\n"))
    assert "- pip   own 1.0" in install(machine)


@pytest.mark.slow
def test_a_project_that_does_not_build_says_so(machine: Machine, project: Path) -> None:
    said = install(machine, status=3)
    assert "pyproject.toml: the build of own failed" in said and "own.txt" in said


def built_for(gpus: tuple[str, ...], cuda: str | None = "12.8", torch: str = "2.8.0") -> tuple[BuildRules, Pin]:
    inputs = TargetInputs("linux-64", "3.12", "2.28", cuda, gpus, None, ("flash-attn", "torch"))
    flash = Pin("pip", "flash-attn", "2.8.3", "pypi", Artifact("flash_attn-2.8.3.tar.gz", "a" * 64), ("torch",), True)
    wheel = Artifact(f"torch-{torch}-cp312-cp312-manylinux_2_28_x86_64.whl", "b" * 63 + torch[2])
    pins = (flash, Pin("pip", "torch", torch, "pypi", wheel, (), True))
    target = LockedTarget("gpu", inputs, pins, architectures(gpus))
    return BuildRules(target, {"flash-attn": ("torch",)}, frozenset()), flash


def test_gpus_and_torch_are_part_of_a_built_wheels_key() -> None:
    host = InstallHost("linux-64", "2.36")
    cases = [built_for(("H100",)), built_for(("A100",)), built_for(("H100",), torch="2.9.0"), built_for((), None)]
    assert len({rules.key(pin, host) for rules, pin in cases}) == len(cases)
    rules, pin = cases[0]
    assert rules.key(pin, host) == built_for(("H100",))[0].key(pin, host)
    assert rules.key(pin, host) != rules.key(pin, InstallHost("linux-64", "2.39"))
    assert build_variables(rules.target) == {
        "CUDA_HOME": "/usr/local/cuda",
        "FORCE_CUDA": "1",
        "TORCH_CUDA_ARCH_LIST": "9.0",
        "FLASH_ATTENTION_FORCE_BUILD": "TRUE",
    }


def test_a_build_for_unknown_gpus_is_refused(tmp_path: Path) -> None:
    rules, pin = built_for(())
    uv = Uv("uv", {"TORCH_CUDA_ARCH_LIST": "5.0"})
    builder = WheelBuilder(
        rules, uv, tmp_path, InstallHost("linux-64"), lambda pins: {}, tmp_path, tmp_path, Progress()
    )
    with pytest.raises(InputError, match="compiled for GPUs, and the target gpu names none"):
        builder.wheel(pin, tmp_path / "flash_attn-2.8.3.tar.gz")
    known = WheelBuilder(
        built_for(("H100",))[0], uv, tmp_path, InstallHost("linux-64"), lambda pins: {}, tmp_path, tmp_path, Progress()
    )
    assert known.variables(tmp_path / "bin" / "python")["TORCH_CUDA_ARCH_LIST"] == "9.0"


@pytest.mark.slow
def test_a_run_sees_the_project_as_it_is_now(machine: Machine, project: Path) -> None:
    """What the last run found out holds as long as the project's files are the same."""
    words = ("run", "--", "python", "-c", "import own; print(own.answer)")
    for answer in ("1", "1", "2"):
        (project / "own.txt").write_text(f"answer = {answer}\n")
        ran = machine.envspec(*words, spawn=True)
        assert (ran.status, ran.out) == (0, f"{answer}\n"), ran.err
    assert len(list(machine.environments.iterdir())) == 1
