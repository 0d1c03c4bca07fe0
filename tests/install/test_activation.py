"""Activation scripts in the shells they are for: bash, zsh and fish."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from envspec.base.places import OF_OTHER_PYTHONS
from envspec.install import activation
from envspec.install.activation import PATHS, scripts

PLACES = [
    "plain",
    "with space",
    "quote's",
    'double"quote',
    "$HOME and `id`",
    "back\\slash",
    "a;b&c|d>e*f?[g]!",
    "-dash",
    "~tilde",
    "ünï",
]

POSIX = """\
PS1='> '
env | sort | grep -v ^_= > before
. "$1/bin/activate"
printf '%s\\n' "$PATH" "${CONDA_PREFIX-}" "${VIRTUAL_ENV-}" "${PYTHONNOUSERSITE-}" "${FROM_PACKAGE-}" "$PS1" > active
deactivate
env | sort | grep -v ^_= > after
printf '%s\\n' "$PS1" > prompt
(set; typeset -f) | grep -a 'envspec' | grep -v -e EXECUTION -e '/envspec' -e ^PWD -e ^OLDPWD > left || true
"""

FISH = """\
env | sort | grep -v -e ^_= > before
source "$argv[1]/bin/activate.fish"
string join : $PATH > active
printf '%s\\n' "$CONDA_PREFIX" "$VIRTUAL_ENV" "$PYTHONNOUSERSITE" "$FROM_PACKAGE" >> active
deactivate
env | sort | grep -v -e ^_= > after
begin; set -n; functions -a; end | grep envspec > left; or true
"""

SHELLS = {"bash": ["bash", "--norc", "-eu"], "zsh": ["zsh", "-f", "-eu"], "fish": ["fish", "-N"]}


def made(prefix: Path, *, conda: bool) -> Path:
    """A prefix with activation scripts, and a package that has scripts of its own."""
    for folder in ("bin", "etc/conda/activate.d", "etc/conda/deactivate.d"):
        (prefix / folder).mkdir(parents=True)
    for path, text in scripts(prefix, "demo", conda=conda).items():
        (prefix / path).write_text(text)
    (prefix / "etc/conda/activate.d/own.sh").write_text('export FROM_PACKAGE="$PYTHONNOUSERSITE here"\n')
    (prefix / "etc/conda/deactivate.d/own.sh").write_text("unset FROM_PACKAGE\n")
    (prefix / "etc/conda/activate.d/own.fish").write_text('set -gx FROM_PACKAGE "$PYTHONNOUSERSITE here"\n')
    (prefix / "etc/conda/deactivate.d/own.fish").write_text("set -e FROM_PACKAGE\n")
    return prefix


def run(shell: str, script: str, prefix: Path, folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} isn't installed")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    argument = [str(prefix)] if shell == "fish" else [shell, str(prefix)]
    ran = subprocess.run(
        [*SHELLS[shell], "-c", script, *argument], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.by_day(7)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shell", SHELLS)
def test_any_prefix_in_any_shell(shell: str, place: str, tmp_path: Path) -> None:
    prefix = made(tmp_path / place, conda=True)
    run(shell, FISH if shell == "fish" else POSIX, prefix, tmp_path)
    active = lines(tmp_path / "active")
    assert active[0].split(":")[0] == f"{prefix}/bin"
    assert active[1:5] == [str(prefix), "", "1", "1 here"]
    if shell != "fish":
        assert active[5] == "(demo) > " and lines(tmp_path / "prompt") == ["> "]
    assert lines(tmp_path / "before") == lines(tmp_path / "after")
    assert lines(tmp_path / "left") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_virtual_environment_is_called_so(shell: str, tmp_path: Path) -> None:
    prefix = made(tmp_path / "venv", conda=False)
    run(shell, FISH if shell == "fish" else POSIX, prefix, tmp_path)
    assert lines(tmp_path / "active")[1:3] == ["", str(prefix)]


@pytest.mark.parametrize("shell", SHELLS)
def test_what_was_set_comes_back(shell: str, tmp_path: Path) -> None:
    """Another environment's variables, and a PYTHONHOME, are there again afterwards; in between, it is gone."""
    prefix = made(tmp_path / "env", conda=True)
    if shell == "fish":
        head = "set -gx CONDA_PREFIX /other\nset -gx PYTHONHOME /home\nset -gx PYTHONNOUSERSITE ''\n"
        script = head + FISH.replace("string join", "set -q PYTHONHOME; and exit 9\nstring join")
    else:
        head = "export CONDA_PREFIX=/other PYTHONHOME=/home PYTHONNOUSERSITE=\n"
        script = head + POSIX.replace("printf", 'test -z "${PYTHONHOME+x}"\nprintf', 1)
    run(shell, script, prefix, tmp_path)
    after = lines(tmp_path / "after")
    assert lines(tmp_path / "before") == after
    assert {"CONDA_PREFIX=/other", "PYTHONHOME=/home", "PYTHONNOUSERSITE="} <= set(after)


@pytest.mark.parametrize("keep", ["", "1"])
@pytest.mark.parametrize("shell", SHELLS)
def test_pythonpath_is_unset_and_told_unless_it_is_to_stay(shell: str, keep: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} isn't installed")
    prefix = made(tmp_path / "env", conda=False)
    file = f"{prefix}/bin/activate.fish" if shell == "fish" else f"{prefix}/bin/activate"
    shown = 'printf "<%s>" "$PYTHONPATH"' if shell == "fish" else 'printf "<%s>" "${PYTHONPATH-}"'
    script = f"{'source' if shell == 'fish' else '.'} {file}; {shown}; deactivate; {shown}"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": "/a:/b", "ENVSPEC_KEEP_PYTHONPATH": keep}
    ran = subprocess.run([*SHELLS[shell], "-c", script], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == f"<{'/a:/b' if keep else ''}></a:/b>"
    assert ("PYTHONPATH is unset here" in ran.stderr) is not bool(keep), ran.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_one_environment_after_another(shell: str, tmp_path: Path) -> None:
    """Activating a second one leaves the first; leaving the second gives back what was before both."""
    first, second = made(tmp_path / "first", conda=True), made(tmp_path / "second", conda=False)
    name = "activate.fish" if shell == "fish" else "activate"
    source = "source" if shell == "fish" else "."
    activate = f'{source} "{first}/bin/{name}"\n{source} "'
    script = FISH if shell == "fish" else POSIX
    run(shell, script.replace(f'{source} "', activate, 1), second, tmp_path)
    active = lines(tmp_path / "active")
    assert str(first) not in active[0] and active[1:3] == ["", str(second)]
    assert lines(tmp_path / "before") == lines(tmp_path / "after")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_program_called_deactivate_is_left_alone(shell: str, tmp_path: Path) -> None:
    prefix = made(tmp_path / "env", conda=True)
    program = tmp_path / "programs" / "deactivate"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntouch called\n")
    program.chmod(0o755)
    run(shell, f'PATH="{program.parent}:$PATH"\n. "$1/bin/activate"\n', prefix, tmp_path)
    assert not (tmp_path / "called").exists()


def test_the_paths() -> None:
    assert tuple(scripts(Path("/x"), "demo", conda=True)) == PATHS


def test_what_is_for_another_python_is_one_list() -> None:
    """The script that mounts an environment carries a copy."""
    text = (Path(activation.__file__).parents[1] / "carried" / "mount.sh").read_text()
    words = text.partition("\nunset ")[2].partition("\n[[")[0].replace("\\\n", " ").split()
    assert {*words, "PYTHONPATH"} == {*OF_OTHER_PYTHONS}
