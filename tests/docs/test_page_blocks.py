"""The `sh` blocks of README.md and docs/, but for the how-tos: each line that starts envspec runs, in a small project.

The project has the pages' names (specs, targets, packages, files), an index on loopback and wheels of a few bytes. A
line changes nothing for the next one: specs and locks are put back. What isn't run stands in `NOT_RUN`; other programs
in test_sh_blocks.py.
"""

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sh_blocks import HOW_TOS, Command, commands, pages
from support.audit import Pypi
from support.channel import LocalChannel, Record, pythons
from support.git_repository import git
from support.machine import Machine
from support.packages import wheel
from uv import find_uv_bin

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
NOT_RUN = {
    "envspec shell": "a shell that people type into: tests/cli/test_run.py has terminals",
    "--runner slurm": "needs a cluster: tests/e2e/test_smoke_slurm.py, where Slurm is",
    "--attach": "needs a cluster's jobs: tests/e2e/test_smoke_slurm.py",
    "--runner apptainer": "tests/e2e/test_smoke_by_runner.py, where Apptainer is",
    "--compare": "needs two machines' reports: tests/prove/smoke",
    "envspec smoke specs/cpu-py311.toml": "trains with torch: tests/e2e/test_smoke_by_runner.py",
    "envspec smoke specs/first.toml": "trains with torch: tests/e2e/test_smoke_by_runner.py",
    "envspec smoke specs/mm-v2.9.toml --target cu128-hopper": "trains on a GPU",
    "registry.example": "needs a registry: tests/e2e/test_image_registry.py has one on loopback",
    "-o mm.tar": "needs its base image: tests/e2e/test_image_from_lock.py builds",
    "-o ./mm": "needs its base image: tests/e2e/test_image_from_lock.py builds",
    "--sif mm-v2.9": "needs Apptainer: tests/e2e/test_apptainer_image.py",
    "--squashfs mm.sqfs": "needs the lock's build of Python: test_how_tos.py has a mirror with one",
    "torchrun": "torch's program, on GPUs",
    "import torch": "needs torch: docs/tutorial.md's consoles run in test_tutorial.py",
    "--compile": "needs CUDA's compilers: tests/prove/compiles",
    "docs/evidence/h100.json": "a report from a GPU: tests/lock/signing has one",
    "old:gpu": "two locks of uv with such extras: tests/review/diff/test_uv_choices.py",
    "--extra cu12": "two locks of uv with such extras: tests/review/diff/test_uv_choices.py",
    "old.uv.lock uv.lock": "two locks of uv: tests/review/diff/test_uv_choices.py",
    "--extra train": "locks of uv with such extras: tests/review/diff/test_uv_choices.py",
    "--references": "a site's figures: tests/cli/test_smoke.py",
    "--evidence docs/evidence": "trains with torch: tests/cli/test_smoke.py",
    "--package torch": "torch's wheels are on PyTorch's own index: tests/cli/test_why.py",
    "--database all.zip": "a copy of the database: tests/cli/test_audit.py",
    "--variants": "asks the live index of variants: tests/cli/test_builds.py",
    "envspec base": "needs a vendor's image: tests/e2e/test_base_read.py builds one",
    "cache fill": "needs a site's shared folders: tests/cli/test_shared.py has some",
    "--verify registry": "needs a registry: tests/e2e/test_image_registry.py",
}
"""Words of a line → why it isn't run here, and what tests it."""
NO = {"doctor": (0, 1), "audit": (0, 1), "diff": (0, 1), "verify": (0, 1)}
"""Commands whose answer may be no: this machine has no GPU, and the index no database and no hashes of before."""

MM = f"""\
[env]
python = "{HERE}"
[pip]
dependencies = ["numpy", "transformers"]
[targets.cpu]
platform = "linux-64"
[targets.cu128-hopper]
platform = "linux-64"
cuda = "12.8"
gpus = ["H100"]
[targets.cu128-hopper.pip]
dependencies = ["nvidia-cudnn-cu12"]
[image]
services = ["ssh"]
"""
CONDA = f"""\
[env]
python = "{HERE}"
[conda]
channels = ["conda-forge"]
dependencies = ["ffmpeg"]
[targets.cpu]
platform = "linux-64"
"""
ALONE = MM.partition("[targets.cu128")[0]
RAN = [
    command
    for page in pages()
    if page.parent != HOW_TOS
    for command in commands(page)
    if command.program == "envspec" and not any(words in command.line for words in NOT_RUN)
]


def project(machine: Machine, index: Pypi) -> None:
    """Lay out what the pages name."""
    dists = [
        wheel("numpy", "2.0"), wheel("transformers", "4.57", "numpy"), wheel("nvidia-cudnn-cu12", "9.1"),
        wheel("einops", "0.8"), wheel("datasets", "4.0"), wheel("flash-attn", "2.8.3"),
    ]  # fmt: skip
    index.add(*dists)
    for one in dists:
        index.know(one.name, one.version)
    records = [*pythons(f"{HERE}.9"), Record("ffmpeg", "7.1"), Record("openmpi", "5.0.8")]
    channel = LocalChannel(machine.base / "channels" / "conda-forge").write(records)
    (machine.home / ".condarc").write_text(f"channel_alias: {channel.folder.parent.as_uri()}\n", "utf-8")
    for name in ("mm-v2.9", "llm-v2.9", "train"):
        machine.spec(MM, name)
    for name in ("cpu-py311", "first", "deit-v2.6", "mm-v2.1", "team-v2.9"):
        machine.spec(ALONE, name)
    for name in ("hpc", "hpc-v2.7"):
        machine.spec(CONDA, name)
    folder = machine.folder
    for name, text in {
        "requirements.txt": "numpy\n", "train.py": "print('trained')\n", ".scratch/.keep": "",
        "environment.yml": f"channels: [conda-forge]\ndependencies: [python={HERE}, ffmpeg]\n",
        "pyproject.toml": f'[project]\nname = "mine"\nversion = "1"\nrequires-python = ">={HERE}"\n'
        'dependencies = ["numpy"]\n',
        "uv.lock": f'version = 1\nrequires-python = ">={HERE}"\n[[package]]\nname = "numpy"\nversion = "2.0"\n'
        'source = { registry = "https://packages.example.org/simple" }\nsdist = { url = "https://a/numpy-2.0.tar.gz",'
        f' hash = "sha256:{"0" * 64}", size = 1 }}\n',
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", machine.home / "venvs" / "demo"], check=True)
    site = next((machine.home / "venvs" / "demo" / "lib").glob("python*/site-packages"))
    (site / "numpy-2.0.dist-info").mkdir()
    (site / "numpy-2.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 2.0\n")
    machine.envspec("lock", status=0)
    key = machine.home / ".ssh" / "id_ed25519"
    key.parent.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (folder / ".allowed_signers").write_text(f"me@example.org {key.with_suffix('.pub').read_text('utf-8')}", "utf-8")
    assert machine.envspec("sign", "specs/mm-v2.9.toml", "--key", str(key)).status == 0
    shutil.copytree(folder / "locks" / "cpu-py311", folder / "old")
    wheel_of = wheel("torchvision", "0.24.1", tag="cp312-cp312-manylinux_2_28_x86_64")
    (folder / wheel_of.file).write_bytes(wheel_of.content)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert machine.envspec("audit", "specs/mm-v2.9.toml", "--json").status in NO["audit"]
    (folder / "audit.json").write_text(machine.envspec("audit", "specs/mm-v2.9.toml", "--json").out, "utf-8")
    assert machine.envspec("bundle", "specs/mm-v2.9.toml", "--target", "cpu", "-o", "mm-cpu.tar").status == 0


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    index = Pypi()
    with index:
        made = Machine(tmp_path_factory.mktemp("pages"), index.url)
        project(made, index)
        shutil.copytree(made.folder, made.base / "kept")
        yield made
        made.close()


def put_back(machine: Machine) -> None:
    shutil.rmtree(machine.folder)
    shutil.copytree(machine.base / "kept", machine.folder)


def arguments(command: Command, machine: Machine) -> list[str]:
    """A command's words as a shell gives them: `~` and patterns stand for files."""
    found: list[str] = []
    for word in command.words[1:]:
        word = word.replace("/tmp/", f"{machine.base}/").replace("$spec", "specs/mm-v2.9.toml")
        word = word.replace("~", str(machine.home), 1) if word.startswith("~") else word
        matched = sorted(glob.glob(word, root_dir=machine.folder)) if "*" in word and os.sep in word else []
        found += matched or [word]
    return found


def prepare(command: Command, machine: Machine) -> list[str]:
    """Lay out what a line starts from; gives its words."""
    put_back(machine)
    words = arguments(command, machine)
    if words[0] == "init":
        shutil.rmtree(machine.folder / "specs")
    elif words[0] == "remove":
        machine.envspec("add", words[1], words[2], *words[3:], status=0)
    elif words[0] == "lock" and "demo" in command.line:
        machine.spec(ALONE, "demo")
    elif words[0] == "run":
        for spec in machine.folder.glob("specs/*.toml"):
            if spec.stem != "cpu-py311":
                spec.unlink()
    return words


@pytest.mark.parametrize("command", RAN, ids=lambda one: f"{Path(one.page).name}: {' '.join(one.words[1:])[:70]}")
def test_a_line_runs(command: Command, machine: Machine) -> None:
    words = prepare(command, machine)
    ran = machine.envspec(*words, spawn=words[0] == "run", seconds=120)
    assert ran.status in NO.get(words[0], (0,)), f"{command.line}\n{ran.out}{ran.err}"


@pytest.mark.network
@pytest.mark.e2e
def test_readme_with_the_wheel(machine: Machine, root: Path, tmp_path: Path) -> None:
    """Its lines run with the wheel that a release publishes, in an environment of its own, as with this checkout."""
    env = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_"))}
    env |= {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True)
    (built,) = tmp_path.glob("*.whl")
    prefix = tmp_path / "v"
    subprocess.run([find_uv_bin(), "venv", "--python", sys.executable, prefix], env=env, check=True)
    subprocess.run([find_uv_bin(), "pip", "install", "-p", prefix, f"{built}[conda,image]"], env=env, check=True)
    mine = {**machine.environment(), "PATH": f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    del mine["PYTHONPATH"]
    lines = [one for one in RAN if one.page == "README.md"]
    assert len(lines) > 5
    for command in lines:
        words = prepare(command, machine)
        ran = subprocess.run(
            [prefix / "bin" / "envspec", *words], cwd=machine.folder, env=mine, capture_output=True, text=True
        )
        assert ran.returncode in NO.get(words[0], (0,)), f"{command.line}\n{ran.stdout}{ran.stderr}"


def test_what_is_not_run_stands_there() -> None:
    lines = [one.line for page in pages() if page.parent != HOW_TOS for one in commands(page)]
    assert [words for words in NOT_RUN if not any(words in line for line in lines)] == []
    assert len(RAN) > 100
