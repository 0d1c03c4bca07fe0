"""Cases for the tests of runners: plain ones, and ones whose every path and name is hostile."""

from pathlib import Path

from envspec.prove.smoke.run.case import Folders, SmokeCase

CARRIED = {"check/__main__.py": "print('check')\n", "target.json": "{}\n"}


def recipe(target: str) -> dict[str, str]:
    return {
        f"{target}/Dockerfile": "FROM scratch\n",
        f"{target}/apptainer.def": "Bootstrap: docker\n",
        "envspec/check/__main__.py": "print('check')\n",
    }


PLAIN = Folders(Path("/cache/smoke"), Path("/results"))
HOSTILE = Folders(Path("/ca che/$(id)"), Path("/re,sul\"ts/'; rm -rf $HOME #"))


def case(target: str = "cpu", *, cuda: str | None = None, path: str = "specs/demo.toml") -> SmokeCase:
    made = recipe(target)
    return SmokeCase(
        "demo", target, path, "locks", "linux-64", cuda, "0123456789abcdef", CARRIED, made, wants_gpu=cuda is not None
    )


HOSTILE_CASE = case(path="specs/it's; $(rm -rf ~)\n`x`.toml")
