"""Five journeys, each from an empty home to a trained run, by the blocks of the page that it follows.

The index is the real one, and so are uv, rattler, buildah, Apptainer and Slurm. What stands in for what a test can't
have: images of Debian and uv from support.sif and support.oci, a conda channel on disk, and CPUs for the pages' GPUs.
A page's words that name the user's own things, and which those become here, stand in each test.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.conda_archives import Channel, data_package, python_module, relocated_python
from support.git_repository import git
from support.oci import BASE, opened_builder, skip_without, torch_mirror
from support.sif import skip_without_tools, torch_wheel
from support.slurm import slurm

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "docs"))

from console_blocks import TUTORIAL, fits, of, shown  # noqa: E402
from sh_blocks import HOW_TOS, blocks  # noqa: E402

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.e2e,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the wheel of torch is for Python 3.11"),
    pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="its wheel is for linux-64"),
]

TRAIN = """
import torch
torch.manual_seed(0)
x = torch.randn(256, 8)
y = x.sum(dim=1, keepdim=True)
model = torch.nn.Linear(8, 1)
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(30):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 100, losses
print(f"trained: from {losses[0]:.3f} to {losses[-1]:.3f}")
"""
OLD = """
from sklearn.datasets import make_regression
from sklearn.linear_model import SGDRegressor
x, y = make_regression(200, 8, random_state=0)
model, losses = SGDRegressor(random_state=0), []
for _ in range(20):
    losses.append(((model.partial_fit(x, y).predict(x) - y) ** 2).mean())
assert losses[-1] < losses[0] / 2, losses
import sklearn
print("trained with", sklearn.__version__)
"""
_IMAGE = '\n[image]\nbase = "{base}"\npython = "base"\n'
"""The lock's own build of Python lies where a test may not reach: the image has its base's."""


class Newcomer:
    """A home and a folder, both empty, with this machine's settings and programs."""

    def __init__(self, base: Path) -> None:
        self.home, self.folder, self.programs = base / "home", base / "work", base / "programs"
        for folder in (self.home, self.folder, self.programs):
            folder.mkdir()
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "ENVSPEC_", "SLURM_"))}
        path = os.pathsep.join([str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        here = {"HOME": str(self.home), "PATH": path, "PYTHONPATH": str(ROOT), "UV_PYTHON_DOWNLOADS": "never"}
        self.variables = {**kept, **here}

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text, "utf-8")
        path.chmod(0o755)

    def run(self, text: str, changed: Mapping[str, str]) -> str:
        """Run a block in a shell of its own; it has to succeed. Gives what it told."""
        for words, instead in changed.items():
            text = text.replace(words, instead)
        ran = subprocess.run(
            ["sh", "-eu", "-c", text], cwd=self.folder, env=self.variables, text=True, timeout=3600, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert ran.returncode == 0, f"{text}\n{ran.stdout[-6000:]}"
        return ran.stdout

    def follow(self, page: str, changed: Mapping[str, str]) -> Iterator[str]:
        """Run the blocks of a how-to one after the other, as its user does."""
        text = (HOW_TOS / page).read_text("utf-8")
        assert [words for words in changed if words not in text] == [], "the page has other words now"
        for block in blocks(HOW_TOS / page):
            yield self.run(block, changed)


APPTAINER = """#!{python}
import os, shutil, sys, tempfile
from pathlib import Path
os.environ["HOME"] = {home!r}
words = sys.argv[1:]
if words[:2] != ["build", "--notest"]:
    os.execv({apptainer!r}, ["apptainer", *words])
sys.path[:0] = [{tests!r}, {root!r}]
from support.sif import built_sif
sif, definition = words[2:]
files = [path for path in Path().rglob("*") if path.is_file() and path.name not in ("apptainer.def", Path(sif).name)]
recipe = {{str(path): path.read_text("utf-8") for path in [*files, Path(definition)]}}
with tempfile.TemporaryDirectory() as scratch:
    shutil.copyfile(built_sif(recipe, Path(scratch)), sif)
"""
"""Apptainer, whose builds have the images that the definition names from a registry on loopback."""


def with_apptainer(newcomer: Newcomer) -> None:
    skip_without_tools()
    torch_wheel()
    real, home = shutil.which("apptainer"), str(Path.home())
    assert real
    filled = {"python": sys.executable, "home": home, "apptainer": real, "tests": str(ROOT / "tests")}
    newcomer.program("apptainer", APPTAINER.format(**filled, root=str(ROOT)))


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    return Newcomer(tmp_path)


def test_the_tutorial(newcomer: Newcomer) -> None:
    with_apptainer(newcomer)
    for block in of(TUTORIAL):
        assert fits(block, told := shown(block, newcomer.folder, newcomer.variables)), told
    train, build, more = blocks(TUTORIAL)
    told = newcomer.run(train, {})
    assert re.search(r"^2\.\d+\.\d+", told, re.MULTILINE) and " 0 failed" in told, told[-3000:]
    with (newcomer.folder / "specs" / "first.toml").open("a") as spec:
        spec.write('\n[image]\npython = "base"\n')
    told = newcomer.run(f"envspec lock specs/first.toml\n{build}", {})
    assert " 0 failed" in told and "2.13.0+cpu" in told, told[-3000:]
    (table,) = re.findall(r"^```toml\n(.*?)^```$", TUTORIAL.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    with (newcomer.folder / "specs" / "first.toml").open("a") as spec:
        spec.write(f"\n{table}")
    lock, smoke = more.splitlines()
    assert "2 targets" in newcomer.run(lock, {}) and smoke.startswith("envspec smoke"), "that one has to have a GPU"


def test_an_old_repository(newcomer: Newcomer) -> None:
    (newcomer.folder / "requirements.txt").write_text("scikit-learn\n", "utf-8")
    (newcomer.folder / "train.py").write_text(OLD, "utf-8")
    git(newcomer.folder, "init", "-q", "-b", "main")
    git(newcomer.folder, "add", "-A")
    day = "2024-02-15T00:00:00Z"
    git(newcomer.folder, "commit", "-qm", "one")
    again = {**newcomer.variables, "GIT_COMMITTER_DATE": day, "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c"}
    command = ["git", "commit", "-q", "--amend", "--no-edit", "--date", day]
    subprocess.run(command, cwd=newcomer.folder, env=again, check=True)
    list(newcomer.follow("old-repository.md", {}))
    told = newcomer.run("envspec check\nenvspec run -- python train.py", {})
    assert "fresh" in told and "trained with 1.4.0" in told, told


def test_a_conda_repository(newcomer: Newcomer, tmp_path: Path) -> None:
    """Its channels are those of 2023, two of which have ended or may not be had: torch comes by pip, at its version."""
    torch_wheel()
    channel = Channel(tmp_path / "channels" / "conda-forge")
    modules = python_module("shards", "1.0"), python_module("pip", "26.2")
    channel.add(relocated_python("linux-64"), data_package("ffmpeg", "7.1.1"), *modules)
    (newcomer.home / ".condarc").write_text(f"channel_alias: {channel.folder.parent.as_uri()}\n", "utf-8")
    (newcomer.folder / "environment.yml").write_text(
        "channels: [pytorch, defaults]\n"
        "dependencies:\n- python=3.11\n- pytorch=2.13.0\n- ffmpeg=7\n- shards\n- pip\n- pip:\n  - einops\n",
        "utf-8",
    )
    (newcomer.folder / "train.py").write_text(f"import einops, shards\n{TRAIN}", "utf-8")
    list(newcomer.follow("conda-user.md", {"--gpu A100": "--cuda cpu"}))
    told = newcomer.run("envspec check\nenvspec run -- python train.py\nenvspec tree specs/demo.toml", {})
    assert "fresh" in told and "trained: from" in told and "ffmpeg 7.1.1" in told, told


DOCKER = """#!{python}
import os, subprocess, sys
words = sys.argv[1:]
buildah = {buildah!r}
os.environ.update({environment!r})
if words[:2] == ["buildx", "build"]:
    _, _, _, file, _, tag, context = words
    build = ["bud", "--isolation", "chroot", "--format", "docker", "--layers", *{arguments!r}, "-t", tag, "-f", file]
    raise SystemExit(subprocess.run([*buildah, *build, context]).returncode)
assert words[0] == "run", words
at = words.index("demo")
container = subprocess.run([*buildah, "from", "demo"], check=True, capture_output=True, text=True).stdout.strip()
volume = [f"--volume={{words[words.index('-v') + 1]}}"] if "-v" in words[:at] else []
entry = ["/usr/bin/tini", "-s", "--", "/opt/envspec/entrypoint.sh", *words[at + 1 :]]
ran = subprocess.run([*buildah, "run", "--isolation", "chroot", *volume, container, "--", *entry])
subprocess.run([*buildah, "rm", container], check=True, stdout=subprocess.DEVNULL)
raise SystemExit(ran.returncode)
"""
"""`docker buildx build` and `docker run` by buildah, which needs no daemon. The entry point is the Dockerfile's."""


@contextmanager
def docker(newcomer: Newcomer, base: Path) -> Iterator[None]:
    """Have buildah answer for Docker, with the images and the PyTorch index that can't be had here."""
    (base / "mirror").mkdir()
    (base / "storage").mkdir()
    with (
        torch_mirror(base / "mirror") as mirror,
        opened_builder(base / "storage", newcomer.folder / "recipes", "demo/cpu", mirror) as builder,
    ):
        filled = {
            "python": sys.executable,
            "buildah": builder.command("x")[:5],
            "arguments": list(builder.arguments),
            "environment": {"HOME": str(Path.home()), "STORAGE_DRIVER": "overlay"},
        }
        newcomer.program("docker", DOCKER.format(**filled))
        yield


def test_docker(newcomer: Newcomer, tmp_path: Path) -> None:
    skip_without()
    (newcomer.folder / "requirements.txt").write_text("torch==2.13.0\nnumpy\n", "utf-8")
    (newcomer.folder / "train.py").write_text(TRAIN, "utf-8")
    cpus = {
        "--gpu H100 --driver 550.54.15 --cuda 12.8": "--cuda cpu --python 3.11",
        "envspec lock": f"printf '{_IMAGE.format(base=BASE)}' >> specs/demo.toml\nenvspec lock",
        "demo/cu128-hopper/": "demo/cpu/",
    }
    with docker(newcomer, tmp_path):
        *_, trained = newcomer.follow("docker.md", cpus)
    assert " 0 failed" in trained and "trained: from" in trained, trained[-3000:]


def test_a_cluster(newcomer: Newcomer, tmp_path: Path) -> None:
    """On a Slurm of one node, which is this machine. The job's own line trains in the SIF."""
    with_apptainer(newcomer)
    (newcomer.folder / "train.py").write_text(TRAIN, "utf-8")
    (newcomer.folder / "specs").mkdir()
    (newcomer.folder / "specs" / "mm-v2.9.toml").write_text(
        '[env]\npython = "3.11"\n[pip]\ndependencies = ["torch==2.13.0", "numpy"]\n'
        '[targets.cpu]\nplatform = "linux-64"\n[image]\npython = "base"\n[smoke]\nsteps = 20\n',
        "utf-8",
    )
    newcomer.run("envspec lock specs/mm-v2.9.toml", {})
    cpus = {
        "--gpu H100 --driver 550.54.15 ": "",
        "cu128-hopper": "cpu",
        "sbatch --nodes=2 --gpus-per-node=8": "sbatch --wait",
        "--partition gpu": "--partition main",
    }
    with slurm(tmp_path / "slurm") as conf:
        newcomer.variables["SLURM_CONF"] = str(conf)
        *_, smoke = newcomer.follow("cluster-job.md", cpus)
    (log,) = newcomer.folder.glob("mm-v2.9-*.out")
    assert "trained: from" in log.read_text("utf-8"), log.read_text("utf-8")
    assert " 0 failed" in smoke and "<svg" in (newcomer.folder / "loss.html").read_text("utf-8"), smoke[-3000:]
