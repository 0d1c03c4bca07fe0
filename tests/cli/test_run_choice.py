"""Which target `envspec run` takes, what the site forbids it, and `envspec shell`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from run_project import APP, APP2, PRINT, locked as locked, planned, ran, refused
from support.index import Index
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine
from support.site import CONTACT, place_policy

from envspec.prove.doctor import gather
from envspec.prove.doctor.machine import Device, Nvidia

pytestmark = pytest.mark.e2e


def shows(monkeypatch: pytest.MonkeyPatch, nvidia: Nvidia) -> None:
    monkeypatch.setattr(gather, "_nvidia", lambda env: nvidia)


H100 = Nvidia(driver="550.54.15", nvml="answered", devices=(Device("NVIDIA H100", "9.0"),))


@pytest.fixture
def for_gpus(machine: Machine, index: Index) -> Machine:
    """A lock with a CPU target and one for GPUs, whose only package is no torch: the choice is what is tested."""
    index.add(APP)
    write_lock(machine, {"cpu": [pip_pin(APP)], "gpu": [pip_pin(APP)]})
    path = machine.folder / SPEC
    path.write_text(path.read_text().replace("[targets.gpu]\n", "[targets.gpu]\ncuda = '12.8'\ngpus = ['sm_90']\n"))
    locked = machine.envspec("lock", SPEC)
    assert locked.status == 0, locked.err
    return machine


def test_the_gpu_of_this_machine_decides(for_gpus: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, H100)
    document = planned(for_gpus)
    assert (document["target"], document["because"]) == ("gpu", "GPU of sm_90, driver 550.54.15")
    assert document["variables"]["TORCH_CUDA_ARCH_LIST"] == "9.0"


@pytest.mark.parametrize(
    "nvidia", [Nvidia(), Nvidia(driver="550.54.15", devices=(Device("NVIDIA H100", "9.0"),), visible="-1")]
)
def test_a_login_node_is_asked_and_never_given_a_cpu_target(
    for_gpus: Machine, monkeypatch: pytest.MonkeyPatch, nvidia: Nvidia
) -> None:
    shows(monkeypatch, nvidia)
    found = refused(for_gpus)
    assert (
        "shows no working GPU, which doesn't say that a CPU target is wanted; the targets are cpu, gpu" in found.error
    )
    named = for_gpus.envspec("run", "--dry-run", "--target", "gpu", "--", "python")
    assert "target   gpu (not judged here, because this machine shows no working GPU)" in named.out
    default = {"ENVSPEC_DEFAULT_TARGET": "gpu"}
    assert "not judged here" in for_gpus.envspec("run", "--dry-run", "--", "python", env=default).out


@pytest.mark.slow
def test_in_a_terminal_it_is_a_question(machine: Machine, index: Index) -> None:
    index.add(APP, APP2)
    write_lock(machine, {"one": [pip_pin(APP)], "two": [pip_pin(APP2)]})
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "envspec", "run", "--", "python", "-c", PRINT],
        cwd=machine.folder, env=machine.environment({"TERM": "dumb"}),
        stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
    ) as process:  # fmt: skip
        os.write(ours, b"2\n")
        out, _ = process.communicate(timeout=90)
    os.close(theirs)
    told = os.read(ours, 100_000).decode()
    os.close(ours)
    assert out.startswith(b"2.0 ")
    assert "1  one: CPU" in told and "2  two: CPU" in told
    assert '[run] targets = ["two"]' in told


def test_inside_the_job_it_is_chosen_again(for_gpus: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell of the login node hands its variables to the job: what was chosen there decides nothing here."""
    login = {"ENVSPEC_TARGET": "cpu", "ENVSPEC_SPEC": "demo", "VIRTUAL_ENV": "/login"}
    shows(monkeypatch, H100)
    job = {**login, "SLURM_JOB_ID": "17", "CUDA_VISIBLE_DEVICES": "0"}
    assert "target   gpu (GPU of sm_90" in for_gpus.envspec("run", "--dry-run", "--", "python", env=job).out


def test_the_policy_of_the_site_is_obeyed(locked: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place_policy(monkeypatch, tmp_path, '[indexes]\nallow = ["conda-forge"]\n')
    found = locked.envspec("run", "--", "true")
    assert found.status == 1 and "[index-forbidden]" in found.err and CONTACT in found.hint
    assert not locked.environments.exists()


@pytest.mark.slow
def test_a_policy_that_came_later_is_obeyed(locked: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The memo of an earlier run holds only under the policy that it was made under."""
    policy = place_policy(monkeypatch, tmp_path, "")
    script = (
        "from envspec.app import site_policy; from envspec.cli import main; import os, sys;"
        "site_policy.PLACE = sys.argv[1]; site_policy.OWNER = os.geteuid();"
        "sys.exit(main.run(['run', '--', 'echo', 'ran']))"
    )
    words = [sys.executable, "-c", script, str(policy)]

    def go() -> tuple[int, str]:
        done = subprocess.run(
            words,
            cwd=locked.folder,
            env={**locked.environment(), "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    assert go()[0] == 0 and go() == (0, "ran\n")
    policy.write_text(policy.read_text() + '[indexes]\nallow = ["conda-forge"]\n')
    status, told = go()
    assert status == 1 and "[index-forbidden]" in told and "ran" not in told.splitlines()


# the shell


@pytest.fixture
def shell_home(locked: Machine) -> Machine:
    for name in (".bashrc", ".zshrc"):
        (locked.home / name).write_text("MINE=yes; PATH=/usr/bin:/bin; PS1='$ '\n")
    fish = locked.home / ".config" / "fish" / "config.fish"
    fish.parent.mkdir(parents=True)
    fish.write_text("set -g MINE yes; set -gx PATH /usr/bin /bin; function fish_prompt; echo -n '$ '; end\n")
    return locked


def in_terminal(machine: Machine, lines: str, shell: str) -> str:
    """What a shell of `envspec shell` prints on a terminal of its own, given these lines."""
    script = f"{sys.executable} -m envspec shell"
    words = ["script", "-qec", script, "/dev/null"]
    done = subprocess.run(
        words, cwd=machine.folder, env=machine.environment({"SHELL": shell, "TERM": "dumb"}),
        input=lines, capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip
    return done.stdout.replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("script") is None, reason="there is no script(1) here")
@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_shell_with_the_users_settings_and_a_mark(shell_home: Machine, name: str) -> None:
    shell = shutil.which(name)
    if shell is None:
        pytest.skip(f"there is no {name} here")
    ran(shell_home, "--", "true")
    asked = "echo $MINE:(command -v python)" if name == "fish" else "echo $MINE:$(command -v python)"
    told = in_terminal(shell_home, f"{asked}\nexit\n", shell)
    (prefix,) = shell_home.environments.iterdir()
    assert f"demo (here) in {name}: `exit` or Ctrl-D leaves it" in told
    assert f"yes:{prefix}/bin/python" in told
    assert "(demo) $ " in told


@pytest.mark.slow
def test_a_shell_reads_a_script(shell_home: Machine) -> None:
    """Any shell, without a terminal: its variables are those of `run`."""
    for shell in ("/bin/sh", "/bin/bash"):
        done = subprocess.run(
            [sys.executable, "-m", "envspec", "shell", "-q"],
            cwd=shell_home.folder, env=shell_home.environment({"SHELL": shell}),
            input="command -v python; exit 9\n", capture_output=True, text=True, check=False,
        )  # fmt: skip
        (prefix,) = shell_home.environments.iterdir()
        assert (done.returncode, done.stdout, done.stderr) == (9, f"{prefix}/bin/python\n", "")


def test_install_without_a_prefix_chooses_as_run_does(for_gpus: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, H100)
    prefix = planned(for_gpus)["prefix"]
    found = for_gpus.envspec("install", SPEC, "--dry-run")
    assert found.status == 0 and f"{prefix} would be installed: gpu" in found.out
    assert "target gpu of demo: GPU of sm_90, driver 550.54.15" in found.err
    shows(monkeypatch, Nvidia())
    found = for_gpus.envspec("install", SPEC, "--dry-run")
    assert found.status == 2 and "doesn't say that a CPU target is wanted" in found.error
    found = for_gpus.envspec("install", SPEC, "--dry-run", "--prefix", "p")
    assert found.status == 2 and "has 2 targets: cpu, gpu" in found.error, "a folder of one's own gets what one names"
