"""`export --format uv-project` and `pixi`: a spec's intent in another tool's project, and what that makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli
from cli_project import Envspec, Project, served, without_settings
from msgspec.structs import replace
from packaging.requirements import Requirement
from support.index import Index
from support.packages import sdist, wheel
from support.recorded import RecordedIndex

from envspec.draft.claims import settle
from envspec.draft.repository import read_draft
from envspec.draft.targets import with_cuda
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin
from envspec.lock.read import load
from envspec.packages.tags import marker_environment
from envspec.resolve.uv.program import find_uv
from envspec.spec.parse import load_spec

pytest_plugins = ["cli_fixtures"]


_TEXT = """\
#!{real} -I
import subprocess, sys
ran = subprocess.run([{real!r}, *sys.argv[1:]], capture_output=True, text=True)
for own, said in {said}:
    ran.stdout = ran.stdout.replace(own, said)
sys.stderr.write(ran.stderr)
sys.stdout.write(ran.stdout)
raise SystemExit(ran.returncode)
"""


def pretended_python(folder: Path, version: str) -> Path:
    """Write a program that answers as this interpreter, by the name of another version ("3.10"); gives its path."""
    path = folder / f"python{version}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        own = sys.version_info[:2]
        said = [(".".join(map(str, own)), version), ("".join(map(str, own)), version.replace(".", ""))]
        path.write_text(_TEXT.format(real=sys.executable, said=said), "utf-8")
        path.chmod(0o755)
    return path


ROOT = Path(__file__).resolve().parents[2]
PYTHON = ".".join(map(str, sys.version_info[:2]))
SPEC = f"""\
[env]
name = "demo"
python = "{PYTHON}"

[pip]
dependencies = ["app>=1", "torch==2.9.*", 'tomli; python_version < "3"']
overrides = [{{ requirement = "lib<3", reason = "3 lost its loader" }}]

[targets.cpu]
platform = "linux-64"

[targets.cu128-hopper]
platform = "linux-64"
cuda = "12.8"
gpus = ["H100"]

[smoke]
steps = 7
"""
APP, LIB = wheel("app", "1.4", "lib", "torch"), wheel("lib", "2.5")
TORCH = {
    "cpu": wheel("torch", "2.9.1+cpu"),
    "cu128-hopper": wheel("torch", "2.9.1+cu128", "nvidia-cublas-cu12==12.8.4.1"),
}
CUBLAS = wheel("nvidia-cublas-cu12", "12.8.4.1")
INDEX_OF = {"cpu": "cpu", "cu128-hopper": "cu128"}


def pins(target: str) -> tuple[Pin, ...]:
    cuda = (served(CUBLAS),) if target != "cpu" else ()
    needs = ("nvidia-cublas-cu12==12.8.4.1",) if cuda else ()
    torch = served(TORCH[target], *needs, index=f"pytorch/{INDEX_OF[target]}")
    return (served(APP, "lib", "torch"), served(LIB), *cuda, torch)


@pytest.fixture
def pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Index, project: Project
) -> Iterator[dict[str, Index]]:
    """A user of a loopback PyPI, which has newer releases than the lock, and of a mirror of PyTorch's indexes."""
    home = tmp_path / "home"
    without_settings(monkeypatch, home)
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    index.add(APP, LIB, CUBLAS, wheel("app", "1.5", "lib", "torch"), wheel("lib", "2.6"), wheel("torch", "2.9.1"))
    with Index() as cpu, Index() as cu128:
        cpu.add(TORCH["cpu"], wheel("torch", "2.9.2+cpu"))
        cu128.add(TORCH["cu128-hopper"], wheel("torch", "2.9.2+cu128"))
        config = home / ".config/envspec/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[mirrors]\n"pytorch/cpu" = "{cpu.url}"\n"pytorch/cu128" = "{cu128.url}"\n')
        project.spec(SPEC)
        project.lock(pins)
        yield {"cpu": cpu, "cu128": cu128}


def uv(folder: Path, *words: str) -> str:
    command = [str(find_uv(os.environ).executable), *words, "--no-progress"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def uv_locked(folder: Path, python: str = sys.executable) -> set[tuple[str, str]]:
    """What `uv lock` pins in a folder: names and versions."""
    uv(folder, "lock", "--python", python)
    found = tomli.loads((folder / "uv.lock").read_text())["package"]
    return {(one["name"], one["version"]) for one in found if "virtual" not in one["source"]}


def test_uv_locks_targets_of_one_platform_as_extras_to_the_same_pins(
    envspec: Envspec, project: Project, pytorch: dict[str, Index]
) -> None:
    told = envspec("export", "specs/demo.toml", "-f", "uv-project", "-o", "out")
    assert told.code == 0
    text = Path("out/pyproject.toml").read_text()
    for line in ("target cu128-hopper: GPUs H100; glibc 2.28", "[smoke] is envspec's own"):
        assert f"# left out: {line}\n" in text and f"warning: pyproject.toml: left out: {line}\n" in told.err
    assert "# 3 lost its loader" in text
    assert uv_locked(Path("out")) == {(p.name, p.version) for target in TORCH for p in pins(target)}
    # again: an export is written over, a project of one's own isn't
    assert envspec("export", "specs/demo.toml", "-f", "uv-project", "-o", "out").code == 0
    Path("out/pyproject.toml").write_text("[project]\n")
    refused = envspec("export", "specs/demo.toml", "-f", "uv-project", "-o", "out")
    assert refused.code == 2 and "would replace them: pyproject.toml\n" in refused.err


def test_uv_locks_one_target_and_builds_no_source_for_it(
    envspec: Envspec, project: Project, index: Index, pytorch: dict[str, Index]
) -> None:
    source = sdist("old", "0.9")
    index.add(source)
    built = replace(served(source, "lib"), built_with=())
    sources = '"old"]\nallow-source = ["old"]\nconstraints = ["lib>=2"]'
    project.spec(SPEC.replace("'tomli; python_version < \"3\"']", sources))
    project.lock(lambda target: (*pins(target), built))
    told = envspec("export", "specs/demo.toml", "-t", "cpu", "-f", "uv-project")
    assert told.code == 0, told.err
    Path("out").mkdir()
    Path("out/pyproject.toml").write_text(told.out)
    data = tomli.loads(told.out)
    assert data["project"]["dependencies"] == ["app>=1", "old", "torch==2.9.*"]
    assert data["tool"]["uv"]["sources"] == {"torch": {"index": "pytorch-cpu"}}
    assert data["tool"]["uv"]["no-build"] and data["tool"]["uv"]["no-binary-package"] == ["old"]
    assert uv_locked(Path("out")) == {(p.name, p.version) for p in (*pins("cpu"), built)}


def test_uv_takes_nothing_that_conda_provides_and_what_a_correction_adds(
    envspec: Envspec, project: Project, index: Index, pytorch: dict[str, Index]
) -> None:
    """torch is conda's on one platform and pip's on the other; faiss-cpu 1.7.4 needs NumPy, and its METADATA says so
    nowhere."""
    index.add(wheel("faiss-cpu", "1.7.4"), wheel("numpy", "1.26.4"), wheel("numpy", "2.3.0"))
    faiss, numpy = served(wheel("faiss-cpu", "1.7.4"), "numpy"), served(wheel("numpy", "1.26.4"))
    file = Artifact("pytorch-2.9.1-h0_1.conda", "0" * 64, 1000)
    torch = Pin(
        "conda", "pytorch", "2.9.1", "conda-forge/linux-64", file, direct=True, build="h0_1", provides=("torch",)
    )
    asked = ["[pip]\ndependencies = [", "[targets.arm.pip]\ndependencies = ["]
    project.spec(
        f'[env]\nname = "demo"\npython = "{PYTHON}"\n{asked[0]}"app", "faiss-cpu"]\n[conda]\n'
        'channels = ["conda-forge"]\n[targets.x86]\nplatform = "linux-64"\n'
        '[targets.x86.conda]\ndependencies = ["pytorch"]\n[targets.arm]\nplatform = "linux-aarch64"\n'
        f'{asked[1]}"torch"]\n'
    )
    both = (served(APP, "lib", "torch"), served(LIB), faiss, numpy)
    by_target = {"x86": (torch, *both), "arm": (*both, served(TORCH["cpu"], index="pytorch/cpu"))}
    project.lock(lambda target: by_target[target])
    told = envspec("export", "specs/demo.toml", "-f", "uv-project", "-o", "out")
    assert told.code == 0 and "left out: target x86: what conda provides: torch\n" in told.err
    assert uv_locked(Path("out")) == {(pin.name, pin.version) for pin in by_target["arm"]}
    lock = load(Path("locks/demo/envspec.lock"))
    for target in lock:
        wanted = {f"{pin.name}=={pin.version}" for pin in by_target[target.name] if pin.kind == "pip"}
        assert uv_exported(Path("out"), lock, target) == wanted


def test_pixi_toml_comes_back_as_the_spec(
    envspec: Envspec, project: Project, pytorch: dict[str, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = envspec("export", "specs/demo.toml", "-t", "cu128-hopper", "-f", "pixi", "-o", "out")
    assert told.code == 0 and "warning: pixi.toml: left out: target cu128-hopper: GPUs H100\n" in told.err
    monkeypatch.chdir("out")
    found = read_draft(Path("pixi.toml"))
    (target,) = map(with_cuda, found.targets)
    assert (settle(found.claims).python, target.cuda, target.platform, target.gpus) == (
        PYTHON,
        "12.8",
        "linux-64",
        ("sm_90",),
    )
    assert found.pip == ("app>=1", "torch==2.9.*")
    assert [text for text, _ in found.overrides] == ["lib<3"]
    data = tomli.loads(Path("pixi.toml").read_text())
    assert data["environments"] == {"default": ["pins"]}
    assert data["feature"]["pins"]["pypi-dependencies"]["torch"] == {
        "version": "==2.9.1+cu128",
        "index": pytorch["cu128"].url,
    }


def test_pixi_has_a_feature_and_an_environment_a_target_and_they_come_back_as_targets(
    envspec: Envspec, project: Project, pytorch: dict[str, Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Artifact("ffmpeg-7.1-h0_1.conda", "0" * 64, 1000)
    conda = Pin("conda", "ffmpeg", "7.1", "conda-forge/linux-64", file, direct=True, build="h0_1")
    project.spec(
        SPEC.replace(
            "[targets.cpu]", '[conda]\nchannels = ["conda-forge"]\ndependencies = ["ffmpeg 7.*"]\n[targets.cpu]'
        )
        .replace('gpus = ["H100"]\n', 'gpus = ["H100", "B200"]\ncpu = "x86-64-v3"\nglibc = "2.34"\n')
        .replace("[smoke]", '[targets.cu128-hopper.pip]\ndependencies = ["lib"]\n[smoke]')
    )
    project.lock(lambda target: (conda, *pins(target)))
    told = envspec("export", "specs/demo.toml", "-f", "pixi", "-o", "out")
    assert told.code == 0, told.err
    monkeypatch.chdir("out")
    data = tomli.loads(Path("pixi.toml").read_text())
    assert data["environments"] == {one: [one, f"{one}-pins"] for one in ("cpu", "cu128-hopper")}
    cpu, hopper = data["workspace"]["platforms"]
    assert cpu == "linux-64" and hopper == {
        "name": "linux-64-cuda-12-8-arch-9-0-archspec-x86-64-v3-glibc-2-34",
        "platform": "linux-64",
        "cuda": {"driver": "12.8", "arch": "9.0"},
        "archspec": "x86_64_v3",
        "glibc": "2.34",
    }
    assert data["feature"]["cu128-hopper"]["platforms"] == [hopper["name"]]
    assert data["feature"]["cu128-hopper"]["dependencies"] == {"python": f"{PYTHON}.*", "ffmpeg": "7.*"}
    assert data["feature"]["cpu-pins"]["constraints"] == {"ffmpeg": {"version": "==7.1", "build": "h0_1"}}
    assert envspec("init", "back", "--from", "pixi.toml").code == 0
    back = load_spec("specs/back.toml")
    assert {one.name: (one.cuda, one.gpus, one.cpu, one.glibc) for one in back.targets} == {
        "cpu": (None, (), None, "2.28"),
        "cu128-hopper": ("12.8", ("sm_90",), "x86-64-v3", "2.34"),
    }
    assert {one.name: [text.text for text in one.pip] for one in back.targets} == {"cpu": [], "cu128-hopper": ["lib"]}
    assert [text.text for text in back.pip.dependencies] == ["app>=1", "torch==2.9.*"]


@pytest.mark.network
@pytest.mark.nightly
@pytest.mark.parametrize("name", [path.stem for path in sorted((ROOT / "specs").glob("*.toml"))])
def test_uv_locks_each_shipped_spec_on_pypi_to_the_same_pins_for_a_pretended_python(
    name: str, envspec: Envspec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each target gets the lock's pip packages and no other: none of what conda provides."""
    lock = load(ROOT / "locks" / name / "envspec.lock")
    recorded = RecordedIndex()
    with recorded:
        config = tmp_path / "config/envspec/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[mirrors]\npytorch = "{recorded.whl}"\n')
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        assert (
            envspec("export", str(ROOT / "specs" / f"{name}.toml"), "-f", "uv-project", "-o", str(tmp_path)).code == 0
        )
        uv_locked(tmp_path, str(pretended_python(tmp_path / "bin", next(iter(lock)).inputs.python)))
    for target in lock:
        wanted = {f"{pin.name}=={pin.version}" for pin in target.pins if pin.kind == "pip"}
        assert uv_exported(tmp_path, lock, target) == wanted, target.name


def uv_exported(folder: Path, lock: Lock, target: LockedTarget) -> set[str]:
    """What a folder's uv.lock installs for a target."""
    words = ["export", "--frozen", "--no-hashes", "--no-header", "--no-annotate", "--no-emit-project"]
    apart = len({one.inputs.platform for one in lock}) < len(lock.targets)
    environment = {**marker_environment(target.inputs.platform, target.inputs.python), "extra": ""}
    lines = map(Requirement, uv(folder, *words, *(["--extra", target.name] if apart else [])).splitlines())
    return {f"{one.name}{one.specifier}" for one in lines if one.marker is None or one.marker.evaluate(environment)}
