"""`envspec-mount`, which a squashfs brings: mounted by the real squashfuse or unpacked, shared, gone when it is used no
longer."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.machine import ROOT

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="no mksquashfs"),
    pytest.mark.skipif(shutil.which("flock") is None, reason="no flock"),
]
needs_fuse = pytest.mark.skipif(
    shutil.which("squashfuse") is None or not os.access("/dev/fuse", os.R_OK | os.W_OK),
    reason="no squashfuse or no /dev/fuse",
)

SCRIPT = ROOT / "envspec" / "carried" / "mount.sh"
ENTRYPOINT = 'export PATH="$ENVSPEC_PREFIX/bin:$PATH"\n[ $# -gt 0 ] || { echo the services; exit 9; }\nexec "$@"\n'
"""As the images' own, which starts their services where it is given nothing."""
TOOLS = (
    *("bash", "sh", "env", "cat", "chmod", "cksum", "find", "flock", "id", "mkdir", "mv", "realpath", "rm", "rmdir"),
    *("setsid", "sleep", "stat", "tr"),
)


@dataclass(frozen=True)
class Mounts:
    """A file, and the folder of mounts of its runs."""

    file: Path
    base: Path
    tools: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def command(self, *words: str) -> list[str]:
        return ["bash", str(SCRIPT), *words]

    def env(self, without: Sequence[str] = (), **more: str) -> dict[str, str]:
        """Variables whose PATH lacks some tools."""
        path = os.environ["PATH"]
        if without:
            for tool in (*TOOLS, *({"squashfuse", "squashfuse_ll", "fusermount3", "unsquashfs"} - {*without})):
                if (found := shutil.which(tool)) and not (self.tools / tool).exists():
                    (self.tools / tool).symlink_to(found)
            path = str(self.tools)
        return {"PATH": path, "HOME": str(self.base.parent), "ENVSPEC_MOUNTS": str(self.base), **more}

    def run(
        self, *program: str, env: Mapping[str, str] | None = None, input: str = ""
    ) -> subprocess.CompletedProcess[str]:
        command, env = self.command(str(self.file), *program), env or self.env()
        return subprocess.run(command, capture_output=True, text=True, env=env, input=input, check=False)

    def start(self, *program: str) -> subprocess.Popen[str]:
        """A run in a session of its own, once its program has said something."""
        made = subprocess.Popen(
            self.command(str(self.file), *program),
            stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=self.env(), start_new_session=True,
        )  # fmt: skip
        self.started.append(made)
        return made

    def ready(self, *program: str) -> subprocess.Popen[str]:
        """A run whose program has said that it's ready."""
        made = self.start(*program)
        assert made.stdout is not None and made.stdout.readline() == "ready\n"
        return made

    def mounted(self) -> list[str]:
        return [
            line
            for line in Path("/proc/mounts").read_text().splitlines()
            if str(self.base).replace(" ", "\\040") in line
        ]

    def left(self) -> list[str]:
        return sorted(os.listdir(self.base))

    def gone(self) -> bool:
        """Whether nothing is left, now or within some seconds."""
        for _ in range(100):
            if not self.mounted() and not self.left():
                return True
            time.sleep(0.05)
        return False


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[Mounts]:
    tree = tmp_path / "tree"
    (tree / "etc/envspec").mkdir(parents=True)
    (tree / "etc/envspec/mount").write_text("anywhere\n")
    (tree / "etc/envspec/entrypoint.sh").write_text(ENTRYPOINT)
    (tree / "bin").mkdir()
    (tree / "bin/hello").write_text('#!/bin/sh\necho "$ENVSPEC_PREFIX" "$@"\ncat\nexit 7\n')
    (tree / "bin/hello").chmod(0o755)
    file = tmp_path / "an env.sqfs"
    subprocess.run(["mksquashfs", str(tree), str(file), "-quiet", "-no-progress"], check=True, capture_output=True)
    (tmp_path / "tools").mkdir()
    made = Mounts(file, tmp_path / "the mounts", tmp_path / "tools")
    yield made
    for one in made.started:
        with one:
            one.kill()
    for line in made.mounted():
        subprocess.run(["fusermount", "-uz", line.split()[1].replace("\\040", " ")], check=False)


@needs_fuse
def test_a_program_runs_in_a_mount_that_goes_with_it(mounts: Mounts) -> None:
    ran = mounts.run("hello", "a b", "*", input="from stdin\n")
    assert (ran.returncode, ran.stderr) == (7, "") and ran.stdout.endswith(" a b *\nfrom stdin\n")
    assert ran.stdout.startswith(f"{mounts.base}/")
    assert mounts.gone()
    told = mounts.run(
        "sh", "-c", 'grep -c "fuse.*squashfuse" /proc/mounts; ! touch "$ENVSPEC_PREFIX/x" 2>/dev/null && echo read-only'
    )
    assert told.stdout.split("\n")[1] == "read-only" and told.returncode == 0, told.stderr


def test_without_a_program_it_is_a_shell(mounts: Mounts) -> None:
    """And no server on a node that somebody shares: those are of images."""
    ran = mounts.run(input="hello there; echo from a shell\n")
    assert ran.stdout.splitlines()[1:] == ["from a shell"] and " there" in ran.stdout, ran.stderr
    assert ran.returncode == 0 and mounts.gone()


def test_without_squashfuse_it_is_unpacked(mounts: Mounts) -> None:
    env = mounts.env(without=["squashfuse", "squashfuse_ll"])
    ran = mounts.run("hello", "a b", env=env, input="")
    assert (ran.returncode, ran.stderr) == (7, ""), ran.stderr
    assert ran.stdout.rstrip().endswith(" a b") and str(mounts.base) in ran.stdout
    assert mounts.gone()


def test_with_neither_it_says_what_would_do(mounts: Mounts) -> None:
    ran = mounts.run("hello", env=mounts.env(without=["squashfuse", "squashfuse_ll", "unsquashfs"]))
    assert ran.returncode == 3 and "neither squashfuse with /dev/fuse, nor unsquashfs" in ran.stderr
    assert "hint: install squashfuse or squashfs-tools" in ran.stderr and mounts.left() == []


@pytest.mark.nightly
@needs_fuse
def test_two_runs_share_a_mount(mounts: Mounts) -> None:
    first = mounts.start("sh", "-c", 'echo "$ENVSPEC_PREFIX"; read -r line')
    assert first.stdout is not None
    place = first.stdout.readline()
    second = mounts.run("sh", "-c", 'echo "$ENVSPEC_PREFIX"')
    assert second.stdout == place and len(mounts.mounted()) == 1
    first.terminate()
    assert first.wait(10) == 143
    assert mounts.gone()


@pytest.mark.nightly
@needs_fuse
@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1"])
def test_signals_reach_the_program(name: str, mounts: Mounts) -> None:
    program = mounts.ready("sh", "-c", f"trap 'echo got; exit 5' {name}; echo ready; while :; do sleep 0.05; done")
    assert program.stdout is not None
    program.send_signal(getattr(signal, f"SIG{name}"))
    assert program.stdout.readline() == "got\n" and program.wait(10) == 5
    assert mounts.gone()


@pytest.mark.nightly
@needs_fuse
def test_a_program_gets_ctrl_c(mounts: Mounts) -> None:
    """As from a terminal, to all of the group."""
    code = "import time\ntry: print('ready', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: raise SystemExit(4)"
    statuses = []
    for _ in range(12):  # one in five or so was lost
        program = mounts.ready(sys.executable, "-c", code)
        os.killpg(program.pid, signal.SIGINT)
        statuses.append(program.wait(10))
    assert statuses == [4] * 12 and mounts.gone()


@needs_fuse
def test_killed_with_all_of_its_group_it_leaves_nothing(mounts: Mounts) -> None:
    program = mounts.ready("sh", "-c", "echo ready; sleep 60")
    os.killpg(program.pid, signal.SIGKILL)
    program.wait(10)
    assert mounts.gone()


@pytest.mark.nightly
@needs_fuse
def test_killed_alone_it_leaves_the_mount_to_its_program(mounts: Mounts) -> None:
    program = mounts.ready("sh", "-c", 'echo ready; sleep 0.7; cat "$ENVSPEC_PREFIX/etc/envspec/mount"')
    program.kill()
    program.wait(10)
    assert mounts.mounted() and program.stdout is not None
    assert program.stdout.read() == "anywhere\n" and mounts.gone()


@needs_fuse
def test_a_run_takes_away_what_a_killed_job_left(mounts: Mounts) -> None:
    """As a batch system kills: squashfuse and the watcher too, so that the mount is a dead one."""
    program = mounts.ready("sh", "-c", "sleep 60 & echo ready; wait")
    ours = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_of(pid, mounts)]
    assert len(ours) >= 3
    for pid in ours:
        os.kill(pid, signal.SIGKILL)
    program.wait(10)
    time.sleep(0.2)
    assert mounts.mounted() and mounts.left()
    assert mounts.run("hello", input="").returncode == 7 and mounts.gone()


@pytest.mark.nightly
@needs_fuse
def test_a_dead_mount_that_something_still_has_is_no_hindrance(mounts: Mounts) -> None:
    program = mounts.ready("sh", "-c", "echo ready; read -r line")
    (server,) = subprocess.run(
        ["pgrep", "-f", f"^/.*squashfuse.*{mounts.base}"], capture_output=True, text=True
    ).stdout.split()
    os.kill(int(server), signal.SIGKILL)
    ran = mounts.run("hello", input="")
    assert ran.returncode == 7 and ran.stdout.startswith(f"{mounts.base}/"), ran.stderr
    program.communicate("\n", timeout=10)
    assert mounts.gone()


def _is_of(pid: int, mounts: Mounts) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text()
    except OSError:
        return False
    return pid != os.getpid() and str(mounts.base) in words


@pytest.mark.nightly
def test_a_file_for_one_path_is_refused_elsewhere(mounts: Mounts, tmp_path: Path) -> None:
    (tmp_path / "tree/etc/envspec/mount").write_text(f"{tmp_path}/at\n")
    file = tmp_path / "conda.sqfs"
    subprocess.run(
        ["mksquashfs", str(tmp_path / "tree"), str(file), "-quiet", "-no-progress"], check=True, capture_output=True
    )
    ran = subprocess.run(mounts.command(str(file), "hello"), capture_output=True, text=True, env=mounts.env())
    assert ran.returncode == 2 and f"works at {tmp_path}/at alone" in ran.stderr and "--at" in ran.stderr
    assert mounts.gone()
    at = mounts.command("--at", f"{tmp_path}/at", str(file), "hello")
    ran = subprocess.run(at, capture_output=True, text=True, env=mounts.env(), input="")
    assert ran.stdout == f"{tmp_path}/at\n" and mounts.gone() and not (tmp_path / "at").exists()


def test_a_planted_link_is_refused(mounts: Mounts, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / f"envspec-mounts.{os.getuid()}").symlink_to(tmp_path / "own")
    env = {**mounts.env(), "TMPDIR": str(tmp_path)}
    del env["ENVSPEC_MOUNTS"]
    ran = mounts.run("hello", env=env)
    assert ran.returncode == 3 and "is a link" in ran.stderr and os.listdir(tmp_path / "own") == []


@needs_fuse
@pytest.mark.nightly
@pytest.mark.xdist_group("slurm")
def test_in_a_real_slurm_nothing_stays_of_a_job(mounts: Mounts, slurm_cluster: Path, tmp_path: Path) -> None:
    """Steps of a job have a mount each, as Slurm kills what a step started. A job that is cancelled leaves at most what
    the next run takes away."""
    env = {**os.environ, "SLURM_CONF": str(slurm_cluster), "ENVSPEC_MOUNTS": str(mounts.base)}
    program = 'echo "$ENVSPEC_PREFIX"; sleep 1; cat "$ENVSPEC_PREFIX/etc/envspec/mount"'
    step = [*mounts.command(str(mounts.file)), "sh", "-c", program]
    srun = f"srun --overlap --ntasks=1 {shlex.join(step)}"
    ran = subprocess.run(
        ["sbatch", "--parsable", "--wait", "--ntasks=2", f"--output={tmp_path}/out"],
        input=f"#!/bin/bash\n{srun} & {srun} & wait\n", env=env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    said = (tmp_path / "out").read_text().splitlines()
    assert ran.returncode == 0, ran.stderr + str(said)
    assert said.count("anywhere") == 2 and len({*said}) == 3, said
    assert mounts.gone()
    job = subprocess.run(
        ["sbatch", "--parsable", f"--output={tmp_path}/cancelled"],
        input=f"#!/bin/bash\nsrun {shlex.join([*mounts.command(str(mounts.file)), 'sleep', '60'])}\n",
        env=env, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    while not mounts.mounted():
        time.sleep(0.1)
    subprocess.run(["scancel", "--signal=KILL", "--full", job], env=env, check=True)
    while subprocess.run(["squeue", "-h", "-j", job], env=env, capture_output=True, text=True).stdout:
        time.sleep(0.2)
    assert mounts.run("hello").returncode == 7 and mounts.gone()
