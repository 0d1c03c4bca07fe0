"""The docker runner: an image built from the recipe, or one that is there, under docker or podman.

The container is read-only, has no network and no capability, and runs as the caller, so that results are the
caller's too. `--gpus all` is docker's own way to GPUs; podman has the Container Device Interface (CDI).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from envspec.smoke.case import Case, Folders
from envspec.smoke.command import Command, Files, Step
from envspec.smoke.runner import Places

CARRIED = "/mnt/envspec"
RESULTS = "/mnt/results"
PYTHON = "/opt/env/bin/python"


@dataclass(frozen=True)
class Docker:
    """engine  "docker" or "podman"
    user    uid and gid of the caller
    image   an image that is there; None: build one from the recipe
    """

    folders: Folders
    engine: str
    user: tuple[int, int]
    image: str | None = None
    name: str = "docker"

    def tag(self, case: Case) -> str:
        return self.image or f"envspec-smoke/{case.spec}:{case.target}-{case.key}"

    def prepare(self, case: Case) -> tuple[Step, ...]:
        if self.image:
            return ()
        folder = self.folders.recipe(case)
        build = ("docker", "buildx", "build", "--load") if self.engine == "docker" else ("podman", "build")
        tag = self.tag(case)
        return (
            Files(folder, tuple(sorted(case.recipe.items())), f"the recipe of {case.title}"),
            Command(
                (*build, "--tag", tag, str(folder)),
                f"the image of {case.title}",
                (self.engine, "image", "inspect", tag),
            ),
        )

    def places(self, carried: str, results: str) -> Places:
        return Places(PurePosixPath(CARRIED), PurePosixPath(RESULTS))

    def python(self, case: Case, carried: str, results: str, arguments: tuple[str, ...]) -> Command:
        uid, gid = self.user
        words = [self.engine, "run", "--rm", "--init", "--read-only", "--network", "none", "--cap-drop", "all"]
        words += ["--security-opt", "no-new-privileges", "--ipc", "host", "--tmpfs", "/tmp:rw,exec,mode=1777"]
        words += ["--user", f"{uid}:{gid}", *(["--userns", "keep-id"] if self.engine == "podman" else [])]
        if case.wants_gpu:
            words += ["--gpus", "all"] if self.engine == "docker" else ["--device", "nvidia.com/gpu=all"]
        for source, there, mode in ((carried, CARRIED, ",readonly"), (results, RESULTS, "")):
            words += ["--mount", f"type=bind,{_field('source', source)},target={there}{mode}"]
        # a caller that the image doesn't know has no home there; torch wants one for its caches
        words += ["--env", "HOME=/tmp", "--env", "USER=envspec", "--workdir", RESULTS]
        words += ["--entrypoint", PYTHON, self.tag(case), *arguments]
        return Command(tuple(words), f"the checks of {case.title}")


def _field(key: str, value: str) -> str:
    """A field of `--mount`, which is read as CSV: a comma or a quote in a path is data there too."""
    field = f"{key}={value}"
    return '"' + field.replace('"', '""') + '"' if any(c in value for c in ',"\n') else field


def engine_of(found: dict[str, Path | None]) -> str | None:
    """The engine to use of those found: docker, else podman."""
    return next((name for name in ("docker", "podman") if found.get(name)), None)
