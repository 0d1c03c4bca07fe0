"""`envspec run` and `envspec shell`: real environments of small wheels, real programs in them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.conda_archives import Archive, Channel
from support.documents import valid
from support.index import Index
from support.installs import SPEC, pip_pin, tree, write_lock
from support.machine import Machine, Ran
from support.packages import wheel
from support.site import CONTACT, place_policy

from envspec.install.environments import memo
from envspec.prove.doctor import gather
from envspec.prove.doctor.machine import Device, Nvidia

APP, APP2 = wheel("app", "1.0"), wheel("app", "2.0")
PRINT = "import app, sys; print(app.version, sys.prefix)"


@pytest.fixture
def locked(machine: Machine, index: Index) -> Machine:
    index.add(APP, APP2)
    write_lock(machine, [pip_pin(APP)])
    return machine


def ran(machine: Machine, *arguments: str, status: int = 0, env: dict[str, str] | None = None) -> Ran:
    """A run in a process of its own, which becomes the command."""
    return machine.envspec("run", *arguments, env=env, spawn=True, status=status)


def planned(machine: Machine, *arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """What a run would do."""
    found = machine.envspec("run", "--dry-run", "--json", *arguments, "--", "python", env=env, status=0)
    document: dict[str, Any] = valid(found.out, "run")
    return document


def refused(machine: Machine, *arguments: str) -> Ran:
    return machine.envspec("run", "--dry-run", *arguments, "--", "python", status=2)


@pytest.mark.e2e
def test_a_command_in_an_environment_that_is_made_for_it(locked: Machine, index: Index) -> None:
    first = ran(locked, "--", "python", "-c", PRINT)
    (prefix,) = locked.environments.iterdir()
    assert prefix.name.startswith("demo-here-")
    assert first.out == f"1.0 {prefix}\n"
    assert f"making the environment of here in {prefix}" in first.err
    assert f"installed {prefix}: here, 1 package" in first.err
    before = tree(prefix)
    index.asked.clear()
    second = ran(locked, SPEC, "--", "python", "-c", PRINT, env={"PYTHONPATH": ""})
    assert (second.out, second.err) == (first.out, "")
    assert index.asked == [] and tree(prefix) == before


@pytest.mark.e2e
@pytest.mark.slow
def test_a_ready_environment_is_found_without_reading_the_lock(locked: Machine) -> None:
    ran(locked, "--", "true")
    kept = list((locked.cache / memo.FOLDER).iterdir())
    assert len(kept) == 1
    script = (
        "import sys; from envspec.cli import become, run; from envspec.app import run as enter;"
        "ready = enter.enter(enter.RunRequest(None, None, None));"
        "heavy = {'tomli', 'envspec.lock.model', 'envspec.spec.model', 'envspec.configuration.settings'};"
        "print(sorted(set(sys.modules) & heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=locked.folder, env=locked.environment(), capture_output=True, check=True
    )
    assert done.stdout == b"[]\n"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_changed_lock_gets_an_environment_of_its_own(locked: Machine) -> None:
    """What runs in the old one isn't changed under it."""
    ran(locked, "--", "true")
    (old,) = locked.environments.iterdir()
    before = tree(old)
    write_lock(locked, [pip_pin(APP2)])
    assert ran(locked, "--", "python", "-c", PRINT).out.startswith("2.0 ")
    assert tree(old) == before and len(list(locked.environments.iterdir())) == 2
    write_lock(locked, [pip_pin(APP)])
    assert ran(locked, "--", "python", "-c", PRINT).out == f"1.0 {old}\n"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_stale_lock_is_refused(locked: Machine) -> None:
    ran(locked, "--", "true")
    path = locked.folder / SPEC
    path.write_text(path.read_text().replace("glibc = '2.17'", "glibc = '2.18'"))
    found = ran(locked, "--", "true", status=1)
    assert f"{SPEC} changed since it was locked" in found.error
    assert found.hint == f"hint: envspec lock {SPEC}"


@pytest.mark.e2e
def test_a_lock_that_cant_be_right_is_refused_as_install_does(locked: Machine) -> None:
    path = locked.lock_path()
    path.write_text(path.read_text().replace(APP.file, APP2.file))
    assert "what the lock pins can't be right for its spec" in refused(locked).error


@pytest.mark.e2e
def test_no_lock_and_no_spec(machine: Machine) -> None:
    assert "there is no spec" in refused(machine).error
    write_lock(machine, [pip_pin(APP)])
    machine.lock_path().unlink()
    assert refused(machine).hint == f"hint: envspec lock {SPEC}"


@pytest.mark.e2e
@pytest.mark.slow
def test_from_a_subfolder_of_the_repository(locked: Machine) -> None:
    (locked.folder / ".git").mkdir()
    below = locked.folder / "src" / "deep"
    below.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "envspec", "run", "--", "pwd"],
        cwd=below, env=locked.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{below}\n"


@pytest.mark.e2e
def test_a_target_is_named(machine: Machine) -> None:
    write_lock(machine, {"one": [pip_pin(APP)], "two": [pip_pin(APP2)]})
    found = refused(machine)
    assert "2 targets run on this machine; the targets are one, two" in found.error
    assert "--target one" in found.hint
    assert planned(machine, "-t", "two")["target"] == "two"
    assert planned(machine, env={"ENVSPEC_DEFAULT_TARGET": "none,tw*"})["target"] == "two"
    path = machine.configure("")
    path.write_text(path.read_text() + '[run]\ntargets = ["one"]\n')
    assert (planned(machine)["target"], planned(machine)["because"]) == ("one", "by the default of your settings")


@pytest.mark.e2e
@pytest.mark.slow
def test_the_choice_is_said_in_a_line(machine: Machine, index: Index) -> None:
    index.add(APP)
    write_lock(machine, {"one": [pip_pin(APP)], "two": []})
    default = {"ENVSPEC_DEFAULT_TARGET": "one", "PYTHONPATH": ""}
    said = "note: target one of demo: by the default of your settings\n"
    assert ran(machine, "--", "true", env=default).err.endswith(said)
    assert ran(machine, "--", "true", env=default).err == said
    assert ran(machine, "-q", "--", "true", env=default).err == ""


@pytest.mark.e2e
def test_the_exit_code_and_the_streams_are_the_commands(locked: Machine) -> None:
    code = "import sys; sys.stdout.write(sys.argv[1]); sys.stderr.write('talk'); sys.exit(41)"
    found = ran(locked, "--", "python", "-c", code, "--json", status=41)
    assert found.out == "--json" and found.err.endswith("talk")
    assert ran(locked, "--", "sh", "-c", "kill -TERM $$", status=-signal.SIGTERM).out == ""


@pytest.mark.e2e
@pytest.mark.slow
def test_the_command_starts_as_from_a_shell(locked: Machine) -> None:
    """No ignored signals, no timer, and the caller's umask: what envspec needs for itself stays with it."""
    code = (
        "import os, signal;"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getitimer(signal.ITIMER_REAL)[0]);"
        "print(oct(os.umask(0)))"
    )
    shell = f"umask 022; exec {sys.executable} -m envspec run -- python -c '{code}'"
    done = subprocess.run(
        ["sh", "-c", shell], cwd=locked.folder, env=locked.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "True 0.0\n0o22\n"
    ignored = [line for line in ran(locked, "--", "cat", "/proc/self/status").out.splitlines() if "SigIgn" in line]
    assert all(int(line.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0 for line in ignored)


@pytest.mark.e2e
@pytest.mark.slow
def test_a_signal_reaches_the_command(locked: Machine) -> None:
    ran(locked, "--", "true")
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7));"
        "print('up', flush=True); time.sleep(60)"
    )
    process = locked.start("run", "--", "python", "-c", code)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait(30) == 7


@pytest.mark.e2e
@pytest.mark.slow
def test_variables(locked: Machine) -> None:
    path = locked.folder / SPEC
    path.write_text(path.read_text() + "[image]\nenv = { HF_HOME = '/data/hf', KEEP = 'spec' }\n")
    given = {"KEEP": "mine", "PYTHONHOME": "/nowhere", "CONDA_PREFIX": "/conda"}
    # a shell: a Python of envspec's own would take PYTHONHOME at its word
    names = (
        "HF_HOME",
        "KEEP",
        "PYTHONHOME",
        "CONDA_PREFIX",
        "VIRTUAL_ENV",
        "PYTHONNOUSERSITE",
        "ENVSPEC_TARGET",
        "PATH",
    )
    code = f"import json, os; print(json.dumps([os.environ.get(name) for name in {names!r}]))"
    del given["PYTHONHOME"]
    found = json.loads(ran(locked, "--", "python", "-c", code, env=given).out)
    (prefix,) = locked.environments.iterdir()
    assert found[:-1] == ["/data/hf", "mine", None, None, str(prefix), "1", "here"]
    assert found[-1].split(os.pathsep)[0] == f"{prefix}/bin"


@pytest.mark.e2e
@pytest.mark.slow
def test_pythonpath_stays_outside_unless_it_is_asked_for(locked: Machine, tmp_path: Path) -> None:
    """A module there would shadow the locked one."""
    (tmp_path / "shadow.py").write_text("")
    code, env = "import importlib.util; print(importlib.util.find_spec('shadow'))", {"PYTHONPATH": str(tmp_path)}
    without = ran(locked, "--", "python", "-c", code, env=env)
    assert without.out == "None\n" and "note: PYTHONPATH is unset" in without.err
    kept = ran(locked, "--keep-pythonpath", "--", "python", "-c", code, env=env)
    assert str(tmp_path) in kept.out and "note: PYTHONPATH stays" in kept.err


@pytest.mark.e2e
@pytest.mark.slow
def test_the_sites_fabric_reaches_programs_and_the_users_own_variables_win(locked: Machine, tmp_path: Path) -> None:
    config = tmp_path / "site.toml"
    config.write_text('[site.fabric]\nkind = "slingshot"\nlibraries = ["/opt/ofi/lib"]\n')
    names = ["NCCL_NET", "NCCL_CROSS_NIC", "FI_MR_CACHE_MONITOR", "LD_LIBRARY_PATH"]
    code = f"import os, json; print(json.dumps([os.environ.get(name) for name in {names}]))"
    env = {"ENVSPEC_CONFIG": str(config), "NCCL_CROSS_NIC": "2", "LD_LIBRARY_PATH": "/mine", "SLURM_JOB_NUM_NODES": "2"}
    found = json.loads(ran(locked, "--", "python", "-c", code, env=env).out)
    assert found == ["AWS Libfabric", "2", "userfaultfd", "/mine:/opt/ofi/lib"]
    alone = json.loads(ran(locked, "--", "python", "-c", code, env={"ENVSPEC_CONFIG": str(config)}).out)
    assert alone == [None, "1", "userfaultfd", "/opt/ofi/lib"]


@pytest.mark.e2e
@pytest.mark.slow
def test_scripts_that_conda_packages_bring_are_run(machine: Machine, tmp_path: Path) -> None:
    script = {
        "etc/conda/activate.d/tool.sh": b'export TOOL_HOME="$CONDA_PREFIX/tool"\n',
        "bin/tool": b"#!/bin/sh\necho $TOOL_HOME $1\n",
    }
    tool = Archive("tool", "1.0", files=script)
    channel = Channel(tmp_path / "own").add(tool)
    write_lock(machine, [channel.pin(tool)], channels=[channel.url])
    for _ in range(2):
        found = ran(machine, "--", "sh", "-c", 'echo "$TOOL_HOME" "$1"', "sh", "a  b")
        (prefix,) = machine.environments.iterdir()
        assert found.out == f"{prefix}/tool a  b\n"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_program_that_isnt_there(locked: Machine) -> None:
    found = ran(locked, "--", "no-such-program", status=2)
    assert "'no-such-program' is neither in the environment" in found.error


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "envspec run -- python"),
        ([SPEC], f"envspec run {SPEC} -- python"),
        (["python", "train.py"], "envspec run -- python train.py"),
        (["train.py"], "envspec run -- train.py"),
        (["--"], "envspec run -- python"),
        (["--json", "--", "true"], "add --dry-run"),
    ],
)
def test_a_line_without_a_command(locked: Machine, arguments: list[str], hint: str) -> None:
    found = locked.envspec("run", *arguments)
    assert (found.status, found.hint) == (2, f"hint: {hint}")


@pytest.mark.e2e
@pytest.mark.slow
def test_dry_run_makes_nothing(locked: Machine) -> None:
    found = locked.envspec("run", "--dry-run", "--", "python", "a b.py", status=0)
    assert [line.split()[0] for line in found.out.splitlines()] == ["target", "prefix", "command"]
    assert "(to be made)" in found.out and found.out.endswith("python 'a b.py'\n")
    assert not locked.environments.exists()
    document = planned(locked)
    assert (document["status"], document["changes"], document["because"]) == ("to be made", 1, None)
    ran(locked, "--", "true")
    assert planned(locked)["status"] == "ready"


@pytest.mark.e2e
@pytest.mark.slow
def test_install_without_a_prefix_makes_the_same(locked: Machine) -> None:
    found = locked.envspec("install", SPEC, status=0)
    (prefix,) = locked.environments.iterdir()
    assert f"installed {prefix}: here, 1 package" in found.out
    assert ran(locked, "--", "python", "-c", PRINT).out == f"1.0 {prefix}\n"
    assert (prefix.parent.stat().st_mode & 0o077) == 0


@pytest.mark.e2e
def test_the_folder_is_a_setting(locked: Machine, tmp_path: Path) -> None:
    path = locked.configure("")
    path.write_text(path.read_text() + '[run]\nenvironments = "$PLACE/envs"\n')
    place = {"PLACE": str(tmp_path)}
    assert Path(planned(locked, env=place)["prefix"]).parent == tmp_path / "envs"
    other = {**place, "ENVSPEC_ENVIRONMENTS_DIR": str(tmp_path / "other")}
    assert Path(planned(locked, env=other)["prefix"]).parent == tmp_path / "other"


# room


@pytest.mark.e2e
@pytest.mark.slow
def test_old_environments_go_by_age_and_what_runs_stays(locked: Machine) -> None:
    ran(locked, "--", "true")
    (prefix,) = locked.environments.iterdir()
    assert "environments" in locked.envspec("cache", "size").out
    process = locked.start("run", "--", "python", "-c", "print('up', flush=True); import time; time.sleep(60)")
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    then = time.time() - 40 * 86400
    os.utime(prefix, (then, then))
    assert locked.envspec("cache", "prune", "--older-than", "30d").status == 0
    assert prefix.exists()
    process.kill()
    process.wait()
    assert locked.envspec("cache", "prune", "--max-size", "0 B").status == 0
    assert prefix.exists(), "only what is old goes"
    assert locked.envspec("cache", "clean").status == 0
    assert prefix.exists()
    assert locked.envspec("cache", "prune", "--older-than", "30d").status == 0
    assert not prefix.exists()
    assert ran(locked, "--", "python", "-c", PRINT).out == f"1.0 {prefix}\n"
    mine = locked.environments / "mine"
    mine.mkdir()
    assert locked.envspec("cache", "clean", "environments").status == 0
    assert not prefix.exists() and mine.exists()


@pytest.mark.e2e
def test_a_command_without_its_dashes(locked: Machine) -> None:
    found = locked.envspec("run", "python", "-c", "print(1)")
    assert found.status == 2 and found.hint == "hint: envspec run -- python -c 'print(1)'"
    found = locked.envspec("run", "--nosuch", "python")
    assert found.status == 2 and "no such option '--nosuch'" in found.err


@pytest.mark.e2e
@pytest.mark.by_day(1)
@pytest.mark.parametrize("words", [["install", SPEC, "-q"], ["run", "-q", "--", "true"]], ids=["install", "run"])
def test_quiet(locked: Machine, words: list[str]) -> None:
    found = locked.envspec(*words, spawn=True)
    assert (found.status, found.out, found.err) == (0, "", "")


# Which target `envspec run` takes, what the site forbids it, and `envspec shell`.


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
    machine.envspec("lock", SPEC, status=0)
    return machine


@pytest.mark.slow
@pytest.mark.e2e
def test_the_gpu_of_this_machine_decides(for_gpus: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, H100)
    document = planned(for_gpus)
    assert (document["target"], document["because"]) == ("gpu", "GPU of sm_90, driver 550.54.15")
    assert document["variables"]["TORCH_CUDA_ARCH_LIST"] == "9.0"


@pytest.mark.by_day(1)
@pytest.mark.e2e
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


@pytest.mark.e2e
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


@pytest.mark.e2e
def test_inside_the_job_it_is_chosen_again(for_gpus: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell of the login node hands its variables to the job: what was chosen there decides nothing here."""
    login = {"ENVSPEC_TARGET": "cpu", "ENVSPEC_SPEC": "demo", "VIRTUAL_ENV": "/login"}
    shows(monkeypatch, H100)
    job = {**login, "SLURM_JOB_ID": "17", "CUDA_VISIBLE_DEVICES": "0"}
    assert "target   gpu (GPU of sm_90" in for_gpus.envspec("run", "--dry-run", "--", "python", env=job).out


@pytest.mark.e2e
def test_the_policy_of_the_site_is_obeyed(locked: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place_policy(monkeypatch, tmp_path, '[indexes]\nallow = ["conda-forge"]\n')
    found = locked.envspec("run", "--", "true")
    assert found.status == 1 and "[index-forbidden]" in found.err and CONTACT in found.hint
    assert not locked.environments.exists()


@pytest.mark.e2e
@pytest.mark.slow
def test_a_policy_that_came_later_is_obeyed(locked: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The memo of an earlier run holds only under the policy that it was made under."""
    policy = place_policy(monkeypatch, tmp_path, "")
    script = (
        "from envspec.base import places; from envspec.cli import main; import os, sys;"
        "places.ETC = sys.argv[1]; places.OWNER = os.geteuid();"
        "sys.exit(main.run(['run', '--', 'echo', 'ran']))"
    )
    words = [sys.executable, "-c", script, str(policy.parents[1])]

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


@pytest.mark.e2e
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


@pytest.mark.e2e
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


@pytest.mark.e2e
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
