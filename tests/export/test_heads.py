"""The commands that the heads of the shipped recipes print: the files, services and targets that they name are there,
and docker's own program takes the options of `docker run`. tests/e2e/test_slurm_heads.py gives those of `sbatch` to a
real Slurm, as they stand, and test_docker_heads.py and test_apptainer_heads.py those of Docker, compose, enroot and
Apptainer to real ones. test_clusters.py runs those for Kubernetes and HTCondor up to kubectl and condor_submit,
test_lmod.py the modulefile's. test_nix_flakes.py adds options to `nix`, for a nixpkgs that lies here. Not run: what
needs a GPU, the API of a Kubernetes cluster, a pool of HTCondor, or CSCS's own enroot.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from recipe_plans import shipped
from support.recipes import RENDERED, all_recipes

from envspec.export import edf, htcondor

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "Dockerfile", "apptainer.def", "apptainer-offline.def", "compose.yaml", "job.sbatch", "job-pyxis.sbatch",
    "job.yaml", "flake.nix", "modulefile.lua",
}  # fmt: skip
PROGRAMS = (
    "docker", "apptainer", "sbatch", "python3", "enroot", "nix", "kubectl", "condor_submit", "srun", "envspec", "mkdir",
)  # fmt: skip


class Printed(NamedTuple):
    """A command of a head. `folder` is where it says that it runs."""

    file: Path
    folder: Path
    line: str

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.line, comments=True))


def heads(recipes: Path) -> Iterator[Printed]:
    for file in sorted(path for path in recipes.glob("*/**/*") if path.is_file() and "_shared" not in path.parts):
        folder = recipes / file.relative_to(recipes).parts[0]
        text = re.sub(r" \\\n# +", " ", file.read_text("utf-8"))
        for line in text.splitlines():
            if not line.startswith(("#", "--")):
                break
            if "In recipes/" in line:
                folder = recipes
            elif "In the repository's own folder" in line:
                folder = recipes.parent
            found = re.match(rf"(?:#|--) {{1,3}}((?:[A-Z_]+=\S+ )?(?:{'|'.join(PROGRAMS)}) .*)", line)
            if found:
                yield Printed(file, folder, found[1])


@cache
def shipped_heads() -> tuple[Printed, ...]:
    return tuple(heads(all_recipes()))


def shipped_targets() -> set[Path]:
    return {path.parent for path in all_recipes().glob("*/*/target.json")}


def services(words: tuple[str, ...], document: Mapping[str, Any]) -> list[str]:
    """Which services a `docker compose` command is for: those that it names, else those of its profile or of none."""
    given = list(words[2:])
    profile = given.pop(given.index("--profile") + 1) if "--profile" in given else None
    verb = next(at for at, word in enumerate(given) if not word.startswith("-"))
    named = [word for word in given[verb + 1 :] if not word.startswith("-")]
    if given[verb] == "run":
        named = named[:1]
    there = document["services"]
    assert set(named) <= there.keys(), named
    return named or [name for name, one in there.items() if profile in one.get("profiles", [profile])]


@RENDERED
def test_every_recipe_says_how_it_is_used() -> None:
    assert {head.file.name for head in shipped_heads()} == FILES
    for target in shipped_targets():
        assert {head.file.parent for head in shipped_heads()} >= {target, target.parent}


@pytest.mark.slow
@RENDERED
def test_a_line_is_pasted_whole(tmp_path: Path) -> None:
    """With what is said behind the command, which is a comment then, and with folders that have blanks."""
    for module in (htcondor, edf):
        for name, text in module.render(shipped("mm-v2.9", "cu128-hopper")).items():
            (tmp_path / "mm" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "mm" / name).write_text(text)
    lines = {one.line: one for one in (*heads(tmp_path), *shipped_heads())}
    assert {one.words[0] for one in lines.values()} >= {"condor_submit", "srun", "nix", "mkdir", "envspec"}
    for line, one in lines.items():
        assert subprocess.run(["sh", "-n", "-c", line]).returncode == 0, line
        assert one.words == tuple(shlex.split(re.split(" {3,}", line)[0])), line
        assert not re.search(r'(?<!["{])\$(?!\{)[A-Z_]+[^"]*$', line.partition(" # ")[0]), f"unquoted: {line}"


@pytest.mark.by_day(4)
@pytest.mark.parametrize("file", sorted(FILES))
@RENDERED
def test_what_a_head_names_is_there(file: str) -> None:
    for one in shipped_heads():
        words = [word for word in one.words if "=" not in word or word.startswith("-")]
        said = f"{one.file.relative_to(all_recipes())}: {shlex.join(one.words)}"
        names = {f"{target.parent.name}-{target.name}" for target in shipped_targets()}
        if one.file.name != file:
            continue
        if words[0] == "python3":
            assert (one.folder / words[2]).is_file() and (one.folder / words[4]).samefile(one.file), said
        elif "-f" in words:
            assert (one.folder / words[words.index("-f") + 1]).is_file(), said
        if words[:2] == ["apptainer", "build"]:
            assert (one.folder / words[-1]).samefile(one.file), said
        if words[0] == "apptainer":
            assert {Path(word).name.removesuffix(".sif") for word in words if word.endswith(".sif")} <= names, said
        if words[0] == "sbatch":
            assert one.file.name in words, said
            target = one.words[0].partition("=")[2] if "=" in one.words[0] else next(one.folder.glob("*/target.json"))
            assert (one.folder / target).exists(), said
        if words[0] == "nix":
            spec, _, output = words[2].removeprefix("./recipes/").partition("#")
            assert (all_recipes() / spec / output.removesuffix("-check") / "target.json").is_file(), said
        if words[:2] in (["docker", "compose"], ["docker", "buildx"]) and "bake" not in words and "-f" not in words:
            assert services(one.words, yaml.safe_load(one.file.read_text("utf-8"))), said


@RENDERED
def test_a_compose_command_without_a_name_starts_nothing() -> None:
    document = yaml.safe_load((all_recipes() / "team-v2.9" / "compose.yaml").read_text("utf-8"))
    assert services(("docker", "compose", "up", "--build"), document) == []
    assert services(("docker", "compose", "up", "--build", "cpu"), document) == ["cpu"]
    assert len(services(("docker", "compose", "--profile", "all", "build"), document)) == len(document["services"])


@pytest.mark.slow
@RENDERED
def test_docker_knows_the_options_of_docker_run() -> None:
    if shutil.which("docker") is None:
        pytest.skip("no docker")
    lines = {one.words for one in shipped_heads() if one.words[:2] == ("docker", "run")}
    assert len(lines) >= len(shipped_targets())
    env = {**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:1"}  # nobody is there: what is wrong before is told first
    for words in [*lines, ("docker", "run", "--nothing", "image")]:
        ran = subprocess.run(
            words, env=env, cwd=all_recipes(), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        taken = bool(re.search("not a TTY|[Cc]annot connect|[Ff]ailed to connect|error during connect", ran.stderr))
        assert taken is ("--nothing" not in words), f"{shlex.join(words)}: {ran.stderr}"
