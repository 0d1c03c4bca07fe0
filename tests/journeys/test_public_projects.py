"""From a public project's own requirements to a lock in two commands: `envspec init --from`, then `envspec lock`.

The file asks for what the project's own files ask for, which tests/stacks holds by digests, and the index is the
recording. With ENVSPEC_STACKS=FOLDER (checkouts, as tests/stacks/digests.toml says) it is the project's very file,
where that file alone says all that the stack asks for.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from stacks.checkouts import Checkout
from stacks.own_files import own_requirements
from stacks.projects import Project, projects
from stacks.recording import RecordedPyPI, Recording
from support.machine import Machine

from envspec.lock.toml_text import string

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

_GLIBC = "the recording has what glibc 2.35 gets, and `init` writes a target for 2.28"
_METADATA = "a spec's `metadata` says what basicsr requires, whose build imports torch"
BEYOND = {
    "mmdetection": "a spec's `sources` says that mmcv comes from the find-links page",
    "pyg-lib": "a spec's `sources` says that pyg-lib comes from the find-links page",
    **dict.fromkeys(("trl-vllm", "verl-vllm", "nerfstudio", "simpletuner", "sglang"), _GLIBC),
    **dict.fromkeys(("stable-diffusion-webui", "real-esrgan"), _METADATA),
}
"""Stacks for which two commands don't do, and why."""
PROJECTS = [project for project in projects().values() if project.recorded and project.name not in BEYOND]


@pytest.fixture(scope="session")
def recording() -> Recording:
    return Recording.load()


@pytest.fixture
def machine(recording: Recording, tmp_path: Path) -> Iterator[Machine]:
    with RecordedPyPI(recording=recording) as index:
        made = Machine(tmp_path, index.url)
        yield made
        made.close()


def written(project: Project, folder: Path) -> str:
    """Write what a project asks for as a file of its own kind, or its very file; gives the name."""
    checkout = Checkout(Path(os.environ.get("ENVSPEC_STACKS", "/dev/null")), project)
    there = checkout.repository.exists() or checkout.tree.exists()
    if there and len(project.files) == 1 and not (project.parts or project.adds):
        own_requirements(checkout.read, project.files, ())  # the files that it names too
        for path in checkout.seen:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(checkout.read(path), encoding="utf-8")
        return project.files[0]
    asked, terms = [one.text for one in project.spec().pip.dependencies], project.spec().pip.terms
    bounds, overrides = [one.text for one in terms.constraints], [one.text for one in terms.overrides]
    if project.files[0] != "pyproject.toml":
        (folder / "requirements.txt").write_text("".join(f"{text}\n" for text in asked), encoding="utf-8")
        return "requirements.txt"
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{project.name}-itself"\nversion = "1"\ndependencies = {listed(asked)}\n'
        f"[tool.uv]\nconstraint-dependencies = {listed(bounds)}\noverride-dependencies = {listed(overrides)}\n",
        encoding="utf-8",
    )
    return "pyproject.toml"


def listed(texts: list[str]) -> str:
    return "[" + ", ".join(string(text) for text in texts) + "]"


def builds(project: Project) -> bool:
    """Whether a package of the stack has no wheel: `envspec lock` says so, and `--allow-needed` lets it be built."""
    return bool(project.spec().pip.allow_source)


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_two_commands_lead_to_a_fresh_lock(project: Project, machine: Machine) -> None:
    (target,) = project.spec().targets
    gpus = [word for gpu in target.gpus for word in ("--gpu", gpu)]
    needed = ["--python", project.spec().python, "--cuda", str(target.cuda), *gpus]
    machine.envspec("init", project.name, "--from", written(project, machine.folder), *needed, status=0)
    if builds(project):
        ran = machine.envspec("lock", seconds=300)
        assert (ran.status, "the same command with --allow-needed" in ran.hint) == (1, True), ran.err
        ran = machine.envspec("lock", "--allow-needed", seconds=300)
    else:
        ran = machine.envspec("lock", seconds=300)
    assert ran.status == 0, ran.err
    checked = machine.envspec("check")
    assert (checked.status, ": fresh (1 target" in checked.out) == (0, True), checked.out


def test_two_commands_do_for_twenty_stacks() -> None:
    assert len(PROJECTS) >= 20
    assert BEYOND.keys() <= {project.name for project in projects().values() if project.recorded}
