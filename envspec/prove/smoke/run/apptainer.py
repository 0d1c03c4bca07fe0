"""The apptainer runner: a SIF built from the recipe's `apptainer.def`, or an existing one. Read-only, no home.

The container gets the caller's variables that select GPUs and configure the network between nodes, the devices of
InfiniBand and Slingshot, and the paths of the site's fabric. They are read where the container starts, on a job's node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct, field

from envspec.base.places import LIBRARIES
from envspec.export.apptainer import FILE as DEFINITION
from envspec.export.sif import BASE, SETTINGS
from envspec.export.slurm import PASSED
from envspec.facts.fabrics import fabrics
from envspec.prove.smoke.run.case import (
    Command,
    Files,
    Folders,
    Places,
    SiteBuilds,
    SmokeCase,
    Step,
    quote,
    secret_variable,
)

CARRIED = "/mnt/envspec"
RESULTS = "/mnt/results"
_WITH_LOGINS = (
    # apptainer takes files alone: they are there while it builds
    "trap 'rm -f {0}' EXIT; trap 'exit 143' HUP INT TERM; rm -f {0}; mkdir -p \"$0\" && (umask 077; {1}) && \"$@\""
)
_HANDING_ON = (
    # --env would end a value at its first comma
    f"for name in {' '.join(f'${{{{!{name[:-1]}@}}}}' if name.endswith('*') else name for name in PASSED)}; "
    'do [ -z "${{!name+set}}" ] || export "{prefix}ENV_$name=${{!name}}"; done; '
    '[ -z "${{{libraries}-}}" ] || export "{prefix}ENV_LD_LIBRARY_PATH=${libraries}"; '
    'for path in {paths}; do [ ! -e "$path" ] || set -- "$1" --bind "$path" "${{@:2}}"; done; exec "$0" "$@"'
)


class Apptainer(Struct, frozen=True):
    """program  "apptainer" or "singularity"
    sif      an existing image or sandbox folder; None: build one from the recipe
    site     what builds take of the site
    """

    folders: Folders
    program: str = "apptainer"
    sif: Path | None = None
    name: str = "apptainer"
    site: SiteBuilds = field(default_factory=SiteBuilds)

    def image(self, case: SmokeCase) -> Path:
        return self.sif or self.folders.sif(case)

    def prepare(self, case: SmokeCase) -> tuple[Step, ...]:
        if self.sif:
            return ()
        image, folder = self.image(case), self.folders.recipe(case)
        staged = image.with_name(f"{image.name}.part")
        present = ("test", "-f", str(image))
        # --notest: the checks follow, with GPUs and a report, which %test has not
        name = f"{case.target}/{DEFINITION}"
        text = case.recipe.get(name, "")
        given = self.folders.site(case)
        own = self.site.binds(SETTINGS)
        logins = {} if own else self.site.secrets(text, case.indexes)
        files = () if own else self.site.files(text, logins)
        bind = ("--bind", f"{given}:{SETTINGS}") if files or logins else ()
        build = (self.program, "build", "--notest", "--force", *bind, str(staged), name)
        if logins:
            build = ("sh", "-c", _WITH_LOGINS.format(*_shell_of(logins)), str(given), *build)
        recipe = {**case.recipe, **({name: self.site.definition(text, case.indexes)} if text else {})}
        return (
            Files(folder, tuple(sorted(recipe.items())), f"the recipe of {case.title}"),
            *([Files(given, files, "what the build takes of this site")] if files else []),
            Command(("mkdir", "-p", str(image.parent)), "the folder of images"),
            *_base_steps(case, folder, present),
            Command(
                build,
                f"the image of {case.title}",
                present,
                folder,
                {secret_variable(name): text for name, text in logins.items()},
            ),
            Command(("mv", str(staged), str(image)), "the image is complete: give it its name", present),
        )

    def places(self, carried: str, results: str) -> Places:
        return Places(PurePosixPath(CARRIED), PurePosixPath(RESULTS))

    def python(self, case: SmokeCase, carried: str, results: str, arguments: tuple[str, ...]) -> Command:
        settings = self.site.settings
        devices = sorted({device for fabric in fabrics().values() for device in fabric.devices})
        paths = " ".join((*devices, *map(quote, settings.site.fabric.paths if settings else ())))
        handing_on = _HANDING_ON.format(prefix=self.program.upper(), libraries=LIBRARIES, paths=paths)
        words = ["bash", "-c", handing_on, self.program, "exec", "--containall", "--cleanenv", "--no-home"]
        words += ["--nv"] if case.wants_gpu else []
        # --mount takes any path as CSV; --bind would end one at a comma or a colon
        for source, place, mode in ((carried, CARRIED, ",ro"), (results, RESULTS, "")):
            quoted = source.replace('"', '""')
            words += ["--mount", f'type=bind,"source={quoted}",destination={place}{mode}']
        # contained, they are 64 MiB where Apptainer is installed setuid (sessiondir max size)
        words += ["--bind", "/tmp", "--bind", "/dev/shm"]
        words += ["--env", "PYTHONNOUSERSITE=1", "--pwd", RESULTS, str(self.image(case)), "sh", "-c", _AT_HOME, "sh"]
        return Command((*words, case.python, *arguments), f"the checks of {case.title}")


# HOME can't be set by --env, and what isn't there can't hold the caches of compilers. /tmp is the machine's, where a
# neighbour may have left settings and caches.
_AT_HOME = (
    """HOME=$(mktemp -d) || exit; export HOME; trap 'rm -rf -- "$HOME"' EXIT; """
    'trap "exit 130" INT; trap "exit 143" TERM; "$@"'
)


def _base_steps(case: SmokeCase, folder: Path, present: tuple[str, ...]) -> Iterator[Command]:
    """Put the SIF that an image comes on top of where its recipe names it."""
    if case.base is None:
        return
    path, digest = case.base
    test = ("sh", "-c", 'echo "$1  $2" | sha256sum --check --quiet --strict', "sh", digest.partition(":")[2], path)
    yield Command(test, f"the base of {case.title} is as it was locked", present)
    yield Command(("ln", "-sfn", path, str(folder / case.target / BASE)), "the base", present)


def _shell_of(logins: Mapping[str, str]) -> tuple[str, str]:
    """Give the paths of files with logins, and the commands that write them, for a shell."""
    paths = {name: f'"$0/{name}"' for name in logins}
    writing = (f'printf "%s\\n" "${{{secret_variable(name)}?}}" >{path}' for name, path in paths.items())
    return " ".join(paths.values()), " && ".join(writing)
