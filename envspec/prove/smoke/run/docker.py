"""The docker runner: an image built from the recipe, or an existing one, under docker or podman.

The container is read-only, has no network and no capability, and runs as the caller, who so owns the results. docker
passes GPUs in with `--gpus all`, podman with the Container Device Interface (CDI). All GPUs go in, so that
CUDA_VISIBLE_DEVICES means the same ones inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, field

from envspec.base.errors import ToolError
from envspec.base.texts import printable
from envspec.export.dockerfile import FILE as DOCKERFILE
from envspec.prove.smoke.run.case import Command, Files, Folders, Places, SiteBuilds, SmokeCase, Step, secret_variable
from envspec.prove.smoke.run.process import FinishedProgram, ask_program

CARRIED = "/mnt/envspec"
RESULTS = "/mnt/results"


class Docker(Struct, frozen=True):
    """engine  "docker" or "podman"
    user    uid and gid to run as, see `user_of`
    image   an existing image; None: build one from the recipe
    site    what builds take of the site
    """

    folders: Folders
    engine: str
    user: tuple[int, int]
    image: str | None = None
    name: str = "docker"
    site: SiteBuilds = field(default_factory=SiteBuilds)

    def tag(self, case: SmokeCase) -> str:
        return self.image or f"envspec-smoke/{case.spec}:{case.target}-{case.key}"

    def prepare(self, case: SmokeCase) -> tuple[Step, ...]:
        if self.image:
            return ()
        folder = self.folders.recipe(case)
        build = ("docker", "buildx", "build", "--load") if self.engine == "docker" else ("podman", "build")
        tag = self.tag(case)
        text = case.recipe.get(f"{case.target}/{DOCKERFILE}", "")
        given = self.folders.site(case)
        logins = self.site.secrets(text, case.indexes)
        files, options = self.site.files(text, logins), self.site.options(text, given, logins)
        return (
            Files(folder, tuple(sorted(case.recipe.items())), f"the recipe of {case.title}"),
            *([Files(given, files, "what the build takes of this site")] if files else []),
            Command(
                (*build, *options, "--file", str(folder / case.target / DOCKERFILE), "--tag", tag, str(folder)),
                f"the image of {case.title}",
                (self.engine, "image", "inspect", tag),
                hidden={secret_variable(name): text for name, text in logins.items()},
            ),
        )

    def places(self, carried: str, results: str) -> Places:
        return Places(PurePosixPath(CARRIED), PurePosixPath(RESULTS))

    def python(self, case: SmokeCase, carried: str, results: str, arguments: tuple[str, ...]) -> Command:
        uid, gid = self.user
        words = [self.engine, "run", "--rm", "--init", "--read-only", "--network", "none", "--cap-drop", "all"]
        words += ["--security-opt", "no-new-privileges", "--ipc", "host", "--tmpfs", "/tmp:rw,exec,mode=1777"]
        # podman refuses keep-id to root, who is root inside anyway
        words += ["--user", f"{uid}:{gid}", *(["--userns", "keep-id"] if self.engine == "podman" and uid else [])]
        if case.wants_gpu:
            words += ["--gpus", "all"] if self.engine == "docker" else ["--device", "nvidia.com/gpu=all"]
            # without a value: the caller's, where it's set
            words += ["--env", "CUDA_VISIBLE_DEVICES", "--env", "CUDA_DEVICE_ORDER"]
        for source, place, mode in ((carried, CARRIED, ",readonly"), (results, RESULTS, "")):
            words += ["--mount", f"type=bind,{_field('source', source)},target={place}{mode}"]
        # a caller that the image doesn't know has no home there; torch wants one for its caches
        words += ["--env", "HOME=/tmp", "--env", "USER=envspec", "--workdir", RESULTS]
        words += ["--entrypoint", case.python, self.tag(case), *arguments]
        return Command(tuple(words), f"the checks of {case.title}")


def _field(key: str, value: str) -> str:
    """Quote a field of `--mount`, which is read as CSV, for a comma or a quote in a path."""
    field = f"{key}={value}"
    return '"' + field.replace('"', '""') + '"' if any(c in value for c in ',"\n') else field


def user_of(
    engine: str, caller: tuple[int, int], asking: Callable[[Sequence[str]], FinishedProgram] = ask_program
) -> tuple[int, int]:
    """Give the user of a container whose files belong to the caller: the caller, or root inside rootless docker. A
    docker that doesn't answer counts as one with root.
    """
    if engine != "docker":
        return caller
    answer = asking(("docker", "info", "--format", "{{.SecurityOptions}}"))
    return (0, 0) if answer.status == 0 and "rootless" in answer.output else caller


def refuse_without_buildx() -> None:
    """Test that docker can build the recipe. Raises ToolError where it can't."""
    done = ask_program(["docker", "buildx", "version"])
    if done.status:
        lines = done.output.strip().splitlines()
        reason = printable(lines[0]) if lines else "docker gave no reason"
        raise ToolError(
            f"docker has no buildx, which builds the image: {reason}",
            hint="install docker's buildx plugin, use --engine podman, or name a built image with --image",
        )
