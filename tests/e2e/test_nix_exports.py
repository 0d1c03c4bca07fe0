"""An exported flake, built by Nix."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from envspec_check.lock import read_target
from flakes import PYTHON, files as files, host, machine as machine, pin
from msgspec.structs import replace
from support.nix import Files, Nix
from support.packages import sdist, source_files, wheel

from envspec.export.carried import carried_files, carried_sources, check_files
from envspec.export.folder import render_spec
from envspec.export.make import make_spec_plan
from envspec.export.plan import CHECK, encode
from envspec.lock.model import BuildPin, GitSource, Lock, LockedTarget, Pin, SoundLock, SpecInputs, TargetInputs
from envspec.spec.parse import parse_spec

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nix") is None, reason="nix isn't installed"),
    pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the locks are for Linux"),
]


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
    ready, tool, teamed = wheel("ready", "1.0"), wheel("tool", "1.0"), wheel("teamed", "3.0+local.1")
    project = '[build-system]\nrequires = ["tool", "teamed"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    backend = f"import tool, teamed\n{source_files('compiled', '2.0')['backend.py']}"
    compiled = sdist("compiled", "2.0", files={"pyproject.toml": project, "backend.py": backend})
    # of the target's own file the target's index counts
    own = BuildPin("teamed", "3.0+local.1", teamed.file, teamed.sha256, len(teamed.content))
    built_with = (BuildPin("tool", "1.0", tool.file, tool.sha256), own)
    placed, odd, direct = wheel("placed", "4.0"), wheel("odd", "5!5.0"), wheel("direct", "6.0")
    files.content = {dist.file: dist.content for dist in (ready, compiled, teamed, odd, direct, tool)}
    pins = (
        replace(pin(compiled, "pypi"), built_with=built_with),
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
    plan = make_spec_plan(spec, SoundLock.of(lock))
    program = {f"{CHECK}/__main__.py": "import sys, ready; print(sys.prefix, *sys.argv[1:])\n"}
    carried = {f"envspec/{name}": text for name, text in carried_sources({**carried_files(), **program}).items()}
    folder = tmp_path / "flake"
    texts = render_spec(plan, "nix")
    for name in texts:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encode(carried.get(name, texts[name])))
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
    teamed = [path for path in files.asked if "/teamed-" in path]
    assert teamed and all(path.startswith("/team/") for path in teamed)
    imports = "import compiled, direct, odd, pinned, placed, ready, sys, teamed; print(sys.prefix, ready.__cached__)"
    out = subprocess.run(
        [result / "bin/python", "-I", "-c", imports], check=True, capture_output=True, text=True
    ).stdout
    assert out.split()[0] == str(result)
    assert Path(out.split()[1]).is_file()
    assert sorted(files.asked) == [
        "/odd/odd/odd-5!5.0-py3-none-any.whl",
        "/pypi/py3/r/ready/ready-1.0-py3-none-any.whl",
        "/pypi/py3/t/tool/tool-1.0-py3-none-any.whl",
        "/pypi/source/c/compiled/compiled-2.0.tar.gz",
        "/some/where/direct-6.0-py3-none-any.whl",
        "/team/teamed-3.0+local.1-py3-none-any.whl",
    ]
    carried = result / "share" / "envspec"
    assert read_target(str(carried / "target.json")) == read_target(str(small / "cpu" / "target.json"))
    assert {path.relative_to(carried).as_posix() for path in carried.rglob("*") if path.is_file()} == {
        "SHA256SUMS", "bytecode.py",
        *check_files(),
        "entrypoint.sh", "healthcheck.sh", "preflight.py", "target.json", "warned.sh",
    }  # fmt: skip
    # Nothing of how it was made stays: no download, no source, no note of the time
    closure = machine.run("path-info", "--recursive", result).stdout.split()
    assert closure == [str(result)]
    assert not list(result.rglob("uv_cache.json")) and not list(result.rglob("direct_url.json"))
    again = machine.flake("build", f"path:{small}#", "--rebuild", "--no-link", cwd=small)
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_the_check_runs_in_the_environment(machine: Nix, small: Path, files: Files) -> None:
    machine.nixpkgs(host(files))
    ran = machine.flake("run", f"path:{small}#cpu-check", "--", "--quick", "two words", cwd=small)
    assert ran.returncode == 0, ran.stderr
    prefix, told = ran.stdout.rstrip("\n").split(" ", 1)
    assert Path(prefix).name.endswith("-envspec-small-cpu")
    assert told == f"--config {prefix}/share/envspec/target.json --quick two words"


@pytest.mark.slow
def test_what_moves_elsewhere_in_the_folder_builds_nothing_anew(machine: Nix, small: Path, files: Files) -> None:
    machine.nixpkgs(host(files))
    built = machine.evaluate("packages.x86_64-linux.cpu.drvPath", cwd=small)
    (small / "other").mkdir()
    (small / "other" / "target.json").write_text("{}")
    assert machine.evaluate("packages.x86_64-linux.cpu.drvPath", cwd=small) == built
    of_it = small / "cpu" / "target.json"
    of_it.write_text(json.dumps({**json.loads(of_it.read_text("utf-8")), "steps": 99}), encoding="utf-8")
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
