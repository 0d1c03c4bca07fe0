"""A spec that changes after it was locked: every command has an answer or an error, and none a fault of its own."""

from collections.abc import Callable
from functools import partial

import pytest
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.app.export.render import CHOICES

OTHER = "linux-aarch64" if SUBDIR == "linux-64" else "linux-64"
NEW_TARGET = f"\n[targets.more]\nplatform = '{OTHER}'\nglibc = '2.28'\n"
CHANGES: dict[str, Callable[[str], str]] = {
    **{
        f"[base] {row.split()[0]}": partial("{1}\n[base]\n{0}\n".format, row)
        for row in ("image = 'x/y:1'", "sif = 'x.sif'", "prefix = '/opt'", "module = 'torch/2'")
    },
    "[base] with what it replaces": lambda text: f"{text}\n[base]\nimage = 'x/y:1'\nreplace = {{ lib = 'a repair' }}\n",
    "[base] of another platform": lambda text: f"{text}{NEW_TARGET}[base]\nimage = 'x/y:1'\n",
    "a target of another platform": lambda text: text + NEW_TARGET,
    "another name of the target": lambda text: text.replace("targets.here", "targets.there"),
    "another platform": lambda text: text.replace(f"platform = '{SUBDIR}'", f"platform = '{OTHER}'"),
    "another Python": lambda text: text.replace(f"'{PYTHON}'", "'3.9'"),
    "a CUDA": lambda text: text.replace(
        f"platform = '{SUBDIR}'", f"platform = '{SUBDIR}'\ncuda = '12.8'\ngpus = ['H100']"
    ),
    "another image": lambda text: f"{text}\n[image]\nbase = 'x/y:2'\npython = false\nservices = ['jupyter', 'ssh']\n",
    "Slurm and Kubernetes": lambda text: f"{text}\n[slurm]\naccount = 'x'\n[kubernetes]\nnamespace = 'y'\n",
    "another environment's name": lambda text: text.replace("[env]", "[env]\nname = 'other'"),
    "an index": lambda text: text.replace(
        "[pip]", "[pip]\nindexes = { own = 'http://127.0.0.1:9/simple' }\nsources = { lib = 'own' }"
    ),
    "a channel": lambda text: text.replace("channels = []", "channels = ['conda-forge']"),
    "conda packages": lambda text: text.replace(
        "channels = []\ndependencies = []", "channels = ['conda-forge']\ndependencies = ['ffmpeg']"
    ),
    "no packages": lambda text: text.replace("dependencies = ['lib==1.0']", "dependencies = []"),
    "a project": lambda text: text.replace("[env]", "[env]\nproject = '.'"),
}
COMMANDS = (
    *(("check", SPEC), ("report", SPEC, "-o", "r.html"), ("tree", SPEC), ("why", SPEC, "lib"), ("diff", SPEC)),
    *(("verify", SPEC), ("audit", SPEC, "--offline"), ("outdated", SPEC), ("doctor", SPEC), ("link", SPEC)),
    *(("install", SPEC, "--dry-run"), ("install", SPEC, "--prefix", "p"), ("run", SPEC, "--offline", "--", "true")),
    *(("bundle", SPEC, "-o", "b.tar"), ("image", SPEC, "-o", "l"), ("smoke", SPEC, "--dry-run"), ("sign", SPEC)),
    *(("smoke", SPEC, "--runner", runner, "--dry-run") for runner in ("docker", "apptainer", "slurm")),
    *(("export", SPEC, "--format", name, "-o", "o") for name in ("all", *CHOICES)),
    *(("lock", SPEC, "--offline"), ("upgrade", SPEC, "--offline"), ("add", SPEC, "lib", "--offline")),
)


@pytest.mark.slow
@pytest.mark.by_commit(4)
@pytest.mark.parametrize("change", CHANGES)
def test_every_command_has_an_answer(machine: Machine, index: Index, change: str) -> None:
    """`[base]` that was added ended export and bundle with a KeyError."""
    lib = wheel("lib", "1.0")
    index.add(lib)
    machine.default = index.url
    write_lock(machine, [pip_pin(lib)])
    spec, lock = machine.folder / SPEC, machine.lock_path()
    before = lock.read_bytes()
    changed = CHANGES[change](spec.read_text())
    assert changed != spec.read_text()
    (machine.folder / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\ndependencies = ['lib']\n")
    for words in COMMANDS:
        spec.write_text(changed)
        lock.write_bytes(before)
        ran = machine.envspec(*words, seconds=120, spawn=words[0] == "run")
        assert "has a fault" not in ran.err and "Traceback" not in ran.err, (words, ran.err)
        assert ran.status in (0, 1, 2, 3), (words, ran.status)
        assert ran.status == 0 or ran.err.strip() or ran.out.strip(), (words, ran)
