"""The `sh` blocks of docs/how-to, each in a shell, and what the page says to see afterwards.

The indexes and the channel are stand-ins on loopback under the pages' names, and the packages tiny. What isn't run
stands in `NOT_RUN`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from sh_blocks import HOW_TOS, blocks
from support.channel import LocalChannel, Record, pythons
from support.git_repository import git, repository
from support.hub import serving_hub
from support.index import Index
from support.machine import Machine, Ran
from support.packages import wheel
from support.python_build import lock_build, served, standalone_build
from support.site import place_site
from support.torch_packages import stand_ins

pytestmark = pytest.mark.slow

NOT_RUN = {
    "docker buildx build -f demo/cu128-hopper/Dockerfile -t demo .": "needs a daemon: tests/e2e/test_docker_heads.py",
    "docker run --rm --gpus all --shm-size 8g demo smoke --quick": "needs a daemon and a GPU",
    'docker run --rm -it --gpus all --shm-size 8g -v "$PWD:/workspace" demo python train.py': "as the line before",
    "docker compose up --build cpu": "needs a daemon: tests/e2e/test_docker_heads.py has one",
    "envspec smoke specs/mm-v2.9.toml --target cu128-hopper --runner slurm --partition gpu -o runs --html loss.html": (
        "needs a cluster: tests/e2e/test_smoke_slurm.py, where Slurm is"
    ),
    "python3 -m venv /opt/envspec/program && /opt/envspec/program/bin/pip install envspec": "it changes a machine",
    "ln -s /opt/envspec/program/bin/envspec /usr/local/bin/envspec": "as the line before",
    "mkdir -p /etc/envspec": "as the line before: tests/journeys/test_whole_site.py has an /etc of its own",
    "docker buildx build -f recipes/ngc/hopper/Dockerfile -t ngc-more recipes/ngc": (
        "needs a daemon: tests/e2e/test_recipes_on_base.py builds one with buildah"
    ),
    "envspec smoke specs/llm-v2.9.toml -t cu128-gh200 --runner slurm --inner apptainer --nodes 2": (
        "needs a cluster: tests/e2e/test_slurm_two_nodes.py, where Slurm is"
    ),
    "(cd ../demo-pixi && pixi lock)": "pixi isn't on PyPI: tests/cli/test_export_pixi_solved.py runs it where it is",
    "envspec diff ../demo-pixi/pixi.lock locks/demo/envspec.lock": "it is the line before that writes the pixi.lock",
}
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
CPU = '[targets.cpu]\nplatform = "linux-64"\n'
GPU = '[targets.cu128-hopper]\nplatform = "linux-64"\ncuda = "12.8"\ngpus = ["H100"]\n'


def followed(machine: Machine, page: str, changed: Mapping[str, str] | None = None) -> str:
    """Run each block of a page in the project's folder; all have to succeed. Gives what they told.

    `changed` names what of the page stands for something of this machine.
    """
    told = ""
    for block in blocks(HOW_TOS / page):
        text = block
        for words in NOT_RUN:
            text = re.sub(rf"(&& )?{re.escape(words)}", "", text)
        for words, instead in (changed or {}).items():
            text = text.replace(words, instead)
        ran = subprocess.run(
            ["sh", "-eu", "-c", text], cwd=machine.folder, env=machine.environment(), text=True, timeout=120,
            check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert ran.returncode == 0, f"{block}\n{ran.stdout}"
        told += ran.stdout
    return told


def spec(machine: Machine, name: str, *dependencies: str, pip: str = "", more: str = "", targets: str = CPU) -> str:
    listed = ", ".join(f'"{one}"' for one in dependencies)
    text = f'[env]\npython = "{HERE}"\n[pip]\ndependencies = [{listed}]\n{pip}\n{more}\n{targets}'
    return machine.spec(text, name)


def seen(page: str, ran: Ran, word: str) -> None:
    """What a page says to see is what is printed."""
    assert f"`{word}`" in (HOW_TOS / page).read_text("utf-8").partition("See that it worked")[2]
    good(ran, word)


def good(ran: Ran, *words: str) -> None:
    assert ran.status == 0, ran.err
    assert [word for word in words if word not in ran.out + ran.err] == []


def test_every_page_has_a_test() -> None:
    tested = {name.removeprefix("test_").replace("_", "-") + ".md" for name in globals() if name.startswith("test_")}
    assert {page.name for page in HOW_TOS.glob("*.md")} <= tested
    lines = "".join(block for page in HOW_TOS.glob("*.md") for block in blocks(page))
    assert [words for words in NOT_RUN if words not in lines] == []


def test_conda_user(machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add(wheel("alpha", "1.0"))
    records = [*pythons("3.12.11"), Record("ffmpeg", "7.1.1")]
    channel = LocalChannel(tmp_path / "channels" / "conda-forge").write(records)
    (machine.home / ".condarc").write_text(f"channel_alias: {channel.folder.parent.as_uri()}\n", "utf-8")
    (machine.folder / "environment.yml").write_text(
        "channels: [conda-forge]\ndependencies:\n- python=3.12\n- ffmpeg=7\n- pip\n- pip:\n  - alpha\n", "utf-8"
    )
    followed(machine, "conda-user.md")
    seen("conda-user.md", machine.envspec("check", "specs/demo.toml"), "fresh")
    good(machine.envspec("tree", "specs/demo.toml"), "ffmpeg 7.1.1", "alpha 1.0")


def test_migrating(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    (machine.folder / "pyproject.toml").write_text(
        '[project]\nname = "itself"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["alpha"]\n', "utf-8"
    )
    uv = [str(Path(sys.executable).with_name("uv")), "lock", "--quiet"]
    subprocess.run(uv, cwd=machine.folder, env=machine.environment(), check=True, timeout=60)
    index.add(wheel("alpha", "2.0"))
    good(machine.envspec("init", "demo", "--from", "pyproject.toml"))
    told = followed(machine, "migrating.md")
    assert machine.versions("cpu", "demo") == {"alpha": "1.0"}, told


def test_mirror(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    demo = spec(machine, "demo", "alpha")
    machine.locked()
    with Index() as mirror:
        mirror.add(wheel("alpha", "1.0"))
        told = followed(machine, "mirror.md", {"https://mirror.example.org/simple": f"{mirror.url}\nenv"})
        chosen = dict(re.findall(r"^(UV_DEFAULT_INDEX)=(\S+)", told, re.MULTILINE))
        index.asked.clear()
        seen("mirror.md", machine.envspec("lock", demo, "--dry-run", env=chosen), "is fresh")
        good(machine.envspec("verify", demo, env=chosen), "1 pin")
        assert mirror.asked and not index.asked


def test_old_repository(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"), uploaded="2025-06-01T00:00:00Z")
    index.add(wheel("alpha", "2.0"), uploaded="2026-06-01T00:00:00Z")
    repository(machine.folder, {"requirements.txt": "alpha\n", "train.py": "import alpha\n"})  # of 2026-01-01
    told = followed(machine, "old-repository.md")
    seen("old-repository.md", machine.envspec("check", "specs/demo.toml"), "fresh")
    (target,) = machine.locked(name="demo").targets
    assert [(pin.name, pin.version) for pin in target.pins] == [("alpha", "1.0")], told


def test_docker(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    (machine.folder / "requirements.txt").write_text("alpha\n", "utf-8")
    followed(machine, "docker.md")
    assert "alpha==1.0" in "".join(
        one.read_text("utf-8") for one in (machine.folder / "recipes" / "demo" / "requirements").glob("*.txt")
    )
    assert (machine.folder / "recipes" / "demo" / "cu128-hopper" / "Dockerfile").is_file()


def programs(machine: Machine, folder: Path, lines: Mapping[str, str]) -> None:
    """Put stand-ins of programs on PATH."""
    folder.mkdir()
    for name, line in lines.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        (folder / name).chmod(0o755)
    machine.variables["PATH"] = f"{folder}:{machine.environment()['PATH']}"


def test_cluster_job(machine: Machine, index: Index, tmp_path: Path) -> None:
    """With stand-ins of Apptainer and sbatch: tests/e2e has the SIF and the job with the real tools."""
    index.add(wheel("alpha", "1.0"))
    spec(machine, "mm-v2.9", "alpha", targets=GPU)
    machine.locked(name="mm-v2.9")
    stand_ins = {"apptainer": 'test -f "$4" && : > "$3"', "sbatch": 'test -f "$3" -a -f "mm-v2.9-$ENVSPEC_TARGET.sif"'}
    programs(machine, tmp_path / "programs", stand_ins)
    followed(machine, "cluster-job.md")


def test_alps(machine: Machine, index: Index, tmp_path: Path) -> None:
    """With a stand-in of srun that reads the EDF: the container engine is Alps' own."""
    index.add(wheel("alpha", "1.0"))
    target = re.findall(r"```toml\n(.*?)```", (HOW_TOS / "alps.md").read_text("utf-8"), re.DOTALL)[0]
    spec(machine, "llm-v2.9", "alpha", targets=target)
    machine.locked(name="llm-v2.9")
    programs(machine, tmp_path / "programs", {"srun": 'grep aws_ofi_nccl "${1#--environment=}"; shift; echo "$@"'})
    told = followed(machine, "alps.md")
    assert 'com.hooks.aws_ofi_nccl.variant = "cuda12"' in told and "sh /opt/envspec/entrypoint.sh smoke" in told


@pytest.mark.skipif(not (shutil.which("docker-registry") and shutil.which("buildah")), reason="no docker-registry")
def test_ngc(machine: Machine, index: Index, tmp_path: Path) -> None:
    """From a registry on loopback, with an image made here in the shape of NVIDIA's: names and versions alone."""
    index.add(wheel("transformers", "4.57.0", "numpy"))
    site = "usr/local/lib/python3.12/dist-packages"
    torch = "2.9.0a0+50eac811a6.nv25.09"
    packages = {"torch": torch, "numpy": "1.26.4"}
    files = {
        f"{site}/{name}-{of}.dist-info/METADATA": f"Name: {name}\nVersion: {of}\n" for name, of in packages.items()
    }
    files |= {
        "usr/bin/python3.12": "",
        "etc/pip/constraint.txt": "",
        "usr/lib/x86_64-linux-gnu/libc.so.6": "release version 2.39",
    }
    for path, text in files.items():
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_text(text)
    (tmp_path / "tree/usr/bin/python3").symlink_to("python3.12")
    with serving_hub(tmp_path / "hub") as hub:
        container = hub.buildah("from", "scratch")
        hub.buildah("copy", "--quiet", container, str(tmp_path / "tree"), "/")
        for one in ("PATH=/usr/bin", "CUDA_VERSION=13.0.1.012", "TORCH_CUDA_ARCH_LIST=8.0 9.0 10.0 12.0+PTX"):
            hub.buildah("config", "--env", one, container)
        image = hub.buildah("commit", "--quiet", "--rm", container)
        hub.buildah("push", "--quiet", "--tls-verify=false", image, f"docker://{hub.host}/nvidia/pytorch:25.09-py3")
        machine.configure(f'"nvcr.io" = "http://{hub.host}"')
        page = re.findall(r"```toml\n(.*?)```", (HOW_TOS / "ngc.md").read_text("utf-8"), re.DOTALL)[0]
        (machine.folder / "specs").mkdir(exist_ok=True)
        (machine.folder / "specs/ngc.toml").write_text(page, "utf-8")
        told = followed(machine, "ngc.md")
    assert f"the base's torch {torch} counts as 2.9.0" in told
    assert machine.versions("hopper", "ngc") == {"transformers": "4.57.0"}
    recipe = (machine.folder / "recipes/ngc/hopper/Dockerfile").read_text("utf-8")
    assert re.search(r'^ARG BASE_IMAGE="nvcr\.io/nvidia/pytorch:25\.09-py3@sha256:[0-9a-f]{64}"$', recipe, re.M)


def test_pull_request(machine: Machine, index: Index) -> None:
    index.add(wheel("numpy", "2.3.0"), wheel("alpha", "1.0"))
    spec(machine, "demo", "numpy", "alpha")
    machine.locked()
    repository(machine.folder, {})
    for key, value in (("user.name", "a"), ("user.email", "a@example.org")):
        git(machine.folder, "config", key, value)
    index.add(wheel("numpy", "2.4.0"), wheel("alpha", "2.0"))
    told = followed(machine, "pull-request.md")
    assert machine.versions("cpu", "demo") == {"numpy": "2.4.0", "alpha": "1.0"}
    # the page's picture has such a second line (test_reference.py draws it anew)
    second = "low risk: 1 package changed (1 low)\n1 of 1 changed file is as its index publishes it\n"
    assert "fresh" in told and second in told, told


def test_offline(machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add(wheel("alpha", "1.0"))
    machine.variables["PYTHON"] = sys.executable
    spec(machine, "mm-v2.9", "alpha", targets=GPU)
    machine.locked(name="mm-v2.9")
    scratch = tmp_path / "scratch"
    # stand-ins: tests/e2e has the SIF and the job with the real tools
    stand_ins = {"apptainer": ': > "$3"', "sbatch": 'test -f job.sbatch -a -f "mm-v2.9-$ENVSPEC_TARGET.sif"'}
    programs(machine, tmp_path / "programs", stand_ins)
    scratch.mkdir()
    followed(machine, "offline.md", {"/scratch/": f"{scratch}/"})
    installed = subprocess.run(
        [scratch / "envs" / "mm" / "bin" / "python", "-c", "import alpha; print(alpha.version)"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert installed.stdout == "1.0\n"


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="no mksquashfs")
def test_one_file(machine: Machine, index: Index, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    build = standalone_build(tmp_path_factory)
    index.add(wheel("alpha", "1.0"))
    spec(machine, "mm-v2.9", "alpha", targets=GPU)
    lock_build(machine, machine.locked(name="mm-v2.9"), build)
    (machine.folder / "train.py").write_text(
        "import alpha, sys; print('trained with', alpha.version, sys.argv)", "utf-8"
    )
    machine.variables["ENVSPEC_MOUNTS"] = str(tmp_path / "mounts")
    with served(build, tmp_path / "builds") as mirror:
        machine.configure(f'python = "{mirror}"')
        machine.variables["UV_PYTHON_DOWNLOADS"] = "automatic"
        assert "trained with 1.0 ['train.py']" in followed(machine, "one-file.md")
    assert list((tmp_path / "mounts").iterdir()) == []


def test_private_index(machine: Machine, index: Index) -> None:
    index.add(*stand_ins("cpu", "2.9.1", python=HERE), wheel("acme-models", "9.0"))
    with Index(credentials=("me", "secret")) as private:
        private.add(wheel("acme-models", "1.0"))
        text = re.findall(r"```toml\n(.*?)```", (HOW_TOS / "private-index.md").read_text("utf-8"), re.DOTALL)[0]
        text = text.replace("https://packages.example.org/simple", private.url)
        machine.spec(f'[env]\npython = "{HERE}"\n{text}\n{CPU}')
        followed(machine, "private-index.md", {"packages.example.org": "127.0.0.1", "password …": "password secret"})
        told = machine.envspec("why", "specs/demo.toml", "acme-models")
        seen("private-index.md", told, "internal")
        good(told, "acme-models 1.0 (internal")


def test_team_image(machine: Machine, index: Index) -> None:
    index.add(*stand_ins("cpu", "2.9.1", python=HERE), wheel("jupyterlab", "4.5.0"), wheel("tensorboard", "2.21.0"))
    text = re.findall(r"```toml\n(.*?)```", (HOW_TOS / "team-image.md").read_text("utf-8"), re.DOTALL)[0]
    pip, image = text.split("[image]")
    machine.spec(f'[env]\npython = "{HERE}"\n{pip}\n[image]\n{image}\n{CPU}', "team-v2.9")
    followed(machine, "team-image.md")
    folder = machine.folder / "recipes" / "team-v2.9"
    (upped,) = [one for one in NOT_RUN if one.startswith("docker compose up")]
    assert upped in (HOW_TOS / "team-image.md").read_text("utf-8")
    assert upped.split()[-1] in yaml.safe_load((folder / "compose.yaml").read_text("utf-8"))["services"]
    assert (folder.parent / "_shared" / "envspec-check.pyz").is_file()
    text = (folder / "cpu" / "Dockerfile").read_text("utf-8")
    assert "libgl1" in text and "HF_HOME" in text


def test_site(machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With /etc and /opt elsewhere. tests/journeys/test_whole_site.py lives all of it in a namespace with two users."""
    index.add(wheel("alpha", "1.0"), uploaded="2020-01-01T00:00:00Z")
    page = (HOW_TOS / "site.md").read_text("utf-8")
    changed = {"https://mirror.example/pypi": index.url, "/opt/envspec": str(tmp_path / "opt")}
    for name, text in zip(("config", "policy"), re.findall(r"```toml\n(.*?)```", page, re.DOTALL), strict=True):
        for words, instead in changed.items():
            text = text.replace(words, instead)
        place = place_site(monkeypatch, tmp_path, f"{name}.toml", text.replace("/scratch", str(tmp_path)))
        assert f"`/etc/envspec/{name}.toml`" in page
    machine.default = ""
    machine.spec(f"[env]\npython = '{HERE}'\n[pip]\ndependencies = ['alpha']\n{CPU}", "mm-v2.9")
    machine.envspec("lock", "specs/mm-v2.9.toml", status=0)
    (line,) = (block for block in blocks(HOW_TOS / "site.md") if "cache fill" in block and "--mirror" not in block)
    program, *asked = line.split()
    assert program == "envspec"
    machine.envspec(*asked, env={"UV_PYTHON_DOWNLOADS": "never"}, status=0)
    user = {"HOME": str(tmp_path / "user")}
    (tmp_path / "user").mkdir()
    said = machine.envspec("doctor", env=user).out
    assert str(place) in said and str(place.with_name("config.toml")) in said
    index.asked.clear()
    ran = machine.envspec("run", "specs/mm-v2.9.toml", "--dry-run", "--", "true", env=user, status=0)
    assert "(ready)" in ran.out and not index.asked
