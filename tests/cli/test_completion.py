"""`envspec completion`, and what the shells are told by it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cli_project import Envspec, Project
from support.matrix import first_by_day

from envspec.app.export.render import ALL, FORMATS, PROJECTS
from envspec.cli.main import COMMANDS
from envspec.export import folder as recipes
from envspec.facts import gpus

pytest_plugins = ["cli_fixtures"]

ROOT = Path(__file__).resolve().parents[2]
SHELLS = ["bash", "zsh", "fish"]

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(project: Project) -> Complete:
    """What bash is offered for a command line, whose last word is being typed."""

    def ask(*words: str) -> list[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_ENVSPEC_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["envspec", *words]),
            "COMP_CWORD": str(len(words)),
        }
        command = [sys.executable, "-c", "from envspec.cli.main import main; main()"]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
        return [
            line.partition(",")[2] if line.startswith("plain,") else line for line in ran.stdout.split("\n") if line
        ]

    return ask


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts(envspec: Envspec, shell: str, tmp_path: Path) -> None:
    told = envspec("completion", shell)
    assert (told.code, told.err) == (0, "")
    assert f"_ENVSPEC_COMPLETE={shell}_complete" in told.out
    program = shutil.which(shell)
    if program is not None:
        (tmp_path / "script").write_text(told.out)
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True)


@pytest.mark.parametrize("arguments", [["tcsh"], []])
def test_other_shells(envspec: Envspec, arguments: Sequence[str]) -> None:
    told = envspec("completion", *arguments)
    assert (told.code, told.out) == (2, "")
    assert "hint: `envspec completion --help`" in told.err


def test_a_script_needs_no_shell(envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    told = envspec("completion", "bash")
    assert (told.code, told.err) == (0, "")


@pytest.mark.by_commit(3)
@pytest.mark.parametrize(
    ("words", "offered"),
    first_by_day(
        2,
        [
            (["wh"], ["why"]),
            (["--ver"], ["--version"]),
            (["check", ""], ["specs/demo.toml"]),
            (["check", "specs/d"], ["specs/demo.toml"]),
            (["check", "--js"], ["--json"]),
            (["check", "other/"], ["file,other/"]),
            (["why", "specs/demo.toml", "f"], ["fsspec"]),
            (["why", "specs/demo.toml", "p"], ["ping", "pong"]),
            (["why", "specs/none.toml", "p"], []),
            (["tree", "specs/demo.toml", "--target", "cu12"], ["cu126-volta", "cu128-hopper"]),
            (["tree", "specs/demo.toml", "-t", "cpu", "--package", "tor"], ["torch"]),
            (["export", "specs/demo.toml", "--format", ""], [*FORMATS, *PROJECTS, *recipes.RECIPES, ALL]),
            (["inspect", "app.whl", "--spec", "specs/demo.toml", "--target", "cp"], ["cpu"]),
            (["inspect", "app.whl", "--target", "cp"], []),
            (["completion", ""], SHELLS),
            (["doctor", "--gpu", "rtx-507"], ["RTX-5070", "RTX-5070-Ti"]),
            (["gpus", "hopp"], ["hopper"]),
            (["explain", "driver-too"], ["driver-too-old", "driver-too-old-for-gpu"]),
            (["run", "specs/d"], ["specs/demo.toml"]),
            (["run", "specs/demo.toml", "--target", "cu12"], ["cu126-volta", "cu128-hopper"]),
            (["shell", "specs/demo.toml", "-t", "cp"], ["cpu"]),
        ],
    ),
    ids=" ".join,
)
def test_what_is_offered(complete: Complete, words: Sequence[str], offered: list[str]) -> None:
    assert complete(*words) == offered


@pytest.mark.slow
def test_every_gpu_that_is_offered_is_known(complete: Complete) -> None:
    offered = complete("gpus", "")
    assert len(offered) > 100
    assert [name for name in offered if " " in name or not gpus.find(name)] == []


def test_every_command_is_offered(complete: Complete) -> None:
    assert complete("") == list(COMMANDS)


@pytest.mark.slow
def test_targets_come_from_the_spec_as_it_is_now(project: Project, complete: Complete) -> None:
    path = project.folder / "specs" / "demo.toml"
    path.write_text(path.read_text().replace("[targets.cpu]", "[targets.cpu-new]"))
    assert complete("lock", "specs/demo.toml", "--target", "cp") == ["cpu-new"]
    path.write_text("not toml")
    assert complete("lock", "specs/demo.toml", "--target", "cp") == []
    assert complete("why", "specs/demo.toml", "f") == []


@pytest.mark.slow
def test_a_damaged_lock_offers_nothing(project: Project, complete: Complete) -> None:
    project.lock_path.write_text("x")
    assert complete("why", "specs/demo.toml", "f") == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_in_bash(project: Project, envspec: Envspec, tmp_path: Path) -> None:
    """The script in a real bash, with the program found on PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "envspec"
    program.write_text(f"#!{sys.executable}\nfrom envspec.cli.main import main\nmain()\n")
    program.chmod(0o755)
    script = envspec("completion", "bash").out
    words = "COMP_WORDS=(envspec tree specs/demo.toml --target cu12)\nCOMP_CWORD=4\n"
    asking = words + '_envspec_completion envspec\necho "${COMPREPLY[@]}"\n'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "--norc"], input=script + asking, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("cu126-volta cu128-hopper\n", "")


def test_asking_loads_little(project: Project) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_ENVSPEC_COMPLETE": "bash_complete",
        "COMP_WORDS": "envspec ch",
        "COMP_CWORD": "1",
    }
    code = (
        "import sys\n"
        "from envspec.cli.main import run\n"
        "status = run(sys.argv[1:])\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
        "sys.exit(status)"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "plain,check\n"
    assert not {"packaging", "tomli", "rich", "envspec.lock", "envspec.spec"} & set(ran.stderr.split())
