"""The first hour of five users, each as a script: from an empty folder to a command that runs in a locked environment.

The stacks ask for what public projects ask for (tests/stacks), and the index is their recording, which has no wheels.
So the command at the end runs in an environment of its own, of a wheel that the index has beside the recording.
"""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stacks.projects import projects
from stacks.recording import RecordedPyPI, Recording
from support.channel import LocalChannel, Record, pythons
from support.git_repository import git
from support.index import Answer, Index
from support.machine import Machine, Ran
from support.packages import wheel

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
RUN = """run specs/prepare.toml --target cpu -- python -c 'import shards; print("prepared with", shards.version)'"""
PREPARE = f"""\
[env]
python = "{HERE}"
[pip]
dependencies = ["shards"]
[targets.cpu]
platform = "linux-64"
"""
PAIR = ("envspec lock specs/prepare.toml", f"envspec {RUN} | prepared with 1.0")
"""The end of each hour: a small environment for preparing data, made and used."""


@dataclass(frozen=True)
class Hour:
    """What one user does.

    files  what the folder holds at the start, beside the spec that ends the hour
    lines  `envspec …` or `git …`, run one after another; `| words` behind a line has to be in its answer, and
           `! 1` is the status that it ends with where that isn't 0
    """

    files: dict[str, str]
    lines: tuple[str, ...]


def asked(stack: str) -> str:
    """Give a public project's requirements as a requirements.txt."""
    return "".join(f"{one.text}\n" for one in projects()[stack].spec().pip.dependencies)


def hours() -> dict[str, Hour]:
    """Give the five."""
    return {
        "ml-engineer": Hour(
            {"requirements.txt": asked("open-clip")},
            (
                "envspec init clip --from requirements.txt --gpu H100 --cuda 12.8 --driver 550.54.15",
                "envspec lock specs/clip.toml | wrote locks/clip/envspec.lock",
                "envspec check specs/clip.toml | fresh",
                "envspec export specs/clip.toml --format all -o recipes/clip",
                "git commit",
                "envspec remove specs/clip.toml webdataset",
                "envspec diff specs/clip.toml | webdataset",
                *PAIR,
            ),
        ),
        "conda-user": Hour(
            {
                "environment.yml": "name: vision\nchannels: [conda-forge]\ndependencies:\n- python=3.12\n- ffmpeg=7\n"
                "- pip\n- pip:\n" + "".join(f"  - {line}\n" for line in asked("timm").splitlines())
            },
            (
                "envspec init vision --from environment.yml --gpu A100 --cuda 12.8",
                "envspec lock specs/vision.toml | wrote locks/vision/envspec.lock",
                "envspec check specs/vision.toml | fresh",
                "envspec export specs/vision.toml --format dockerfile --format apptainer -o recipes/vision",
                "git commit",
                "envspec remove specs/vision.toml ffmpeg",
                "envspec diff specs/vision.toml | ffmpeg",
                *PAIR,
            ),
        ),
        "hpc-user": Hour(
            {"requirements.txt": asked("speechbrain")},
            (
                "envspec init speech --from requirements.txt --gpu A100 --cuda 12.8 --driver 535.104.05",
                "envspec doctor specs/speech.toml --gpu A100 --driver 470.57.02 | infeasible ! 1",
                "envspec lock specs/speech.toml | wrote locks/speech/envspec.lock",
                "envspec check specs/speech.toml | fresh",
                "envspec export specs/speech.toml --format apptainer --format slurm -o recipes/speech",
                "git commit",
                "envspec remove specs/speech.toml sentencepiece",
                "envspec diff specs/speech.toml | sentencepiece",
                "envspec lock specs/prepare.toml",
                "envspec bundle specs/prepare.toml -o prepare.tar",
                f"envspec {RUN} | prepared with 1.0",
            ),
        ),
        "reviewer": Hour(
            {"requirements.txt": asked("diffusers-text-to-image")},
            (
                "envspec init paint --from requirements.txt --gpu H100 --cuda 12.8",
                "envspec lock specs/paint.toml",
                "git commit",
                "envspec remove specs/paint.toml ftfy --no-lock",
                "envspec check specs/paint.toml | ftfy ! 1",
                "envspec lock specs/paint.toml",
                "envspec check specs/paint.toml | fresh",
                "envspec diff specs/paint.toml --format markdown | ftfy",
                "envspec why specs/paint.toml numpy | requires",
                "envspec report specs/paint.toml -o paint.html",
                "envspec export specs/paint.toml --format requirements -o out",
                *PAIR,
            ),
        ),
        "team-lead": Hour(
            {"requirements.txt": asked("lerobot")},
            (
                "envspec init robots --from requirements.txt --gpu H100 --gpu A100 --cuda 12.8",
                "envspec lock specs/robots.toml | wrote locks/robots/envspec.lock",
                "envspec check | fresh",
                "envspec export specs/robots.toml --format dockerfile --format kubernetes -o recipes/robots",
                "git commit",
                "envspec tree specs/robots.toml | torch",
                "envspec remove specs/robots.toml termcolor",
                "envspec diff specs/robots.toml --fail-on high | termcolor",
                *PAIR,
            ),
        ),
    }


@dataclass
class RecordingWithWheels(RecordedPyPI):
    """The recording, and wheels beside it that can be installed."""

    def answer(self, path: str) -> Answer:
        own = Index.answer(self, path)
        return own if own.status == 200 else super().answer(path)


@contextmanager
def place(folder: Path, recording: Recording, hour: Hour) -> Iterator[Machine]:
    """A user's machine with what the hour begins with."""
    with RecordingWithWheels(recording=recording) as index:
        index.add(wheel("shards", "1.0"))
        machine = Machine(folder, index.url)
        channels = folder / "channels"
        LocalChannel(channels / "conda-forge").write([*pythons("3.12.11"), Record("ffmpeg", "7.1.1")])
        (machine.home / ".condarc").write_text(f"channel_alias: {channels.as_uri()}\n", encoding="utf-8")
        for name, text in hour.files.items():
            (machine.folder / name).write_text(text, encoding="utf-8")
        git(machine.folder, "init", "-q", "-b", "main")
        yield machine
        machine.close()


def live(machine: Machine, hour: Hour, run: Callable[[list[str]], Ran]) -> Iterator[str]:
    """Run an hour's lines; yields each as soon as it has ended as it should. `run` runs envspec with arguments."""
    for line in hour.lines:
        text, _, status = line.partition(" ! ")
        command, _, words = text.partition(" | ")
        if command == "git commit":
            git(machine.folder, "add", "-A")
            git(machine.folder, "commit", "-qm", "one")
            continue
        arguments = shlex.split(command)[1:]
        if arguments == ["lock", "specs/prepare.toml"]:
            machine.spec(PREPARE, "prepare")
        ran = run(arguments)
        assert (ran.status, words in ran.out + ran.err) == (int(status or 0), True), f"{line}\n{ran.out}{ran.err}"
        yield command
