"""macOS and Windows, pretended: every module that the commands for all systems may load, and these commands.

Each is a process that hides what its system lacks (support/pretended.py). What macOS and Windows really answer, the
CI's matrix shows (.github/workflows/elsewhere.yml).
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import pretended
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.cli.main import ANYWHERE, COMMANDS, POSIX

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def on(platform: str, machine: Machine, *commands: tuple[str, ...]) -> tuple[list[str], list[int], str]:
    """What went wrong with imports, the exit code of each command, and all that they said."""
    ran = subprocess.run(
        [sys.executable, pretended.__file__, platform, *map(json.dumps, commands)],
        cwd=machine.folder, env=machine.environment(), check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    wrong, *rest = ran.stdout.splitlines()
    statuses = [json.loads(line)[1] for line in rest if line.startswith('["status"')]
    return json.loads(wrong), statuses, ran.stdout + ran.stderr


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_the_commands_that_run_everywhere(platform: str, machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0", "dep"), wheel("dep", "1.0"))
    spec = machine.spec(cpu("lib"))
    commands: dict[str, tuple[str, ...]] = {
        "lock": (spec,),
        "check": (spec,),
        "diff": ("locks/demo/envspec.lock", "locks/demo/envspec.lock"),
        "why": (spec, "dep"),
        "export": (spec, "--format", "dockerfile", "-o", "recipes"),
        "doctor": (spec, "--gpu", "H100", "--driver", "580.82.07"),
        "report": (spec, "-o", "report.html"),
        "verify": (spec,),
    }
    assert tuple(commands) == ANYWHERE
    asked = [(name, *rest) for name, rest in commands.items()]
    wrong, statuses, said = on(platform, machine, *asked, ("doctor",))
    assert wrong == []
    # a machine's findings are its own
    assert statuses[:-1] == [0] * len(asked) and statuses[-1] in (0, 1), said
    assert "has a fault" not in said and (machine.folder / "report.html").exists()


def test_what_needs_another_system_says_so(machine: Machine) -> None:
    assert set(POSIX) < set(COMMANDS) and not {*POSIX} & {*ANYWHERE}
    _, statuses, said = on("win32", machine, *((name,) for name in POSIX), ("run", "--help"))
    assert statuses == [2] * len(POSIX) + [0]
    for name in POSIX:
        assert f"error: `envspec {name}` runs on Linux and macOS, and this is Windows" in said


MAC = """\
[env]
python = "3.12"
[pip]
dependencies = ["lib"]
[targets.cpu]
platform = "linux-64"
[targets.mac]
platform = "osx-arm64"
"""
LINUX_ALONE = (
    (("install", "--target", "cpu", "--prefix", "p"), "error: cpu is for linux-64, and this machine is osx-arm64"),
    (("run", "--target", "cpu", "--", "true"), "error: cpu is for linux-64, and this machine is osx-arm64"),
    (("shell", "--target", "cpu"), "error: cpu is for linux-64, and this machine is osx-arm64"),
    (("bundle", "--target", "mac", "-o", "b.tar"), "a bundle is for Linux, and the target mac is for osx-arm64"),
    (("image", "--target", "mac", "-o", "i"), "images are for Linux, and the target mac is for osx-arm64"),
    (("smoke", "--target", "cpu", "--runner", "apptainer"), "neither apptainer nor singularity is in PATH"),
    (("smoke", "--target", "cpu", "--runner", "docker"), "neither docker nor podman is in PATH"),
    (("smoke", "--target", "cpu", "--runner", "slurm"), "sbatch isn't in PATH"),
    (("link", "--target", "mac"), "link reads the libraries of Linux: mac is for osx-arm64"),
)
"""Of the commands for Linux and macOS, what macOS can't do, and the sentence that says so."""
LINUX_TOO = (("bundle", "--target", "cpu", "-o", "b.tar"), ("link", "--target", "cpu"))
"""What a Mac does for a Linux target."""


def test_what_is_for_linux_alone_says_so_on_a_pretended_mac(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"))
    spec = machine.spec(MAC)
    machine.variables["PATH"] = str(Path(sys.executable).parent)
    asked = [words for words, _ in LINUX_ALONE]
    commands = [("lock", spec), *((words[0], spec, *words[1:]) for words in (*LINUX_TOO, *asked))]
    _, statuses, said = on("darwin", machine, *commands)
    assert statuses[:3] == [0, 0, 0] and set(statuses[3:]) == {2, 3}, said
    assert [sentence for _, sentence in LINUX_ALONE if sentence not in said] == [], said
    assert "making the environment" not in said
    assert {words[0] for words in asked} == set(POSIX)


def test_writers_of_a_lock_wait_for_each_other_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where a folder can't be locked: by filelock, here with the lock that it has on this system."""
    from envspec.base import flock
    from envspec.lock.exclusive import LOCK_FILE, exclusive

    monkeypatch.setattr(flock, "fcntl", None)
    place = tmp_path / "demo"
    waited: list[Any] = []
    with exclusive(place, lambda: waited.append("first")):
        holder = subprocess.Popen(
            [sys.executable, "-c", _SECOND, str(place)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
        )
        assert holder.stdout is not None and holder.stdout.readline() == "waiting\n"
        (place / "kept").write_text("")
    assert holder.communicate(timeout=30)[0] == "in\n" and holder.returncode == 0
    assert waited == [] and [path.name for path in place.iterdir() if path.name != LOCK_FILE] == ["kept"]


_SECOND = """
import sys
from pathlib import Path
from envspec.base import flock
flock.fcntl = None
from envspec.lock.exclusive import exclusive
with exclusive(Path(sys.argv[1]), lambda: print("waiting", flush=True)):
    print("in", flush=True)
"""
