"""Cases for the tests of runners: plain ones, and ones whose every path and name is hostile."""

from __future__ import annotations

from pathlib import Path

from envspec.smoke.case import Case, Folders

CARRIED = {"check.py": "print('check')\n", "envspec.lock": "# a lock\n", "target.json": "{}\n"}
RECIPE = {
    "Dockerfile": "FROM scratch\n",
    "apptainer.def": "Bootstrap: docker\n",
    "envspec/check.py": "print('check')\n",
}

PLAIN = Folders(Path("/cache/smoke"), Path("/results"))
HOSTILE = Folders(Path("/ca che/$(id)"), Path("/re,sul\"ts/'; rm -rf $HOME #"))


def case(target: str = "cpu", *, cuda: str | None = None, path: str = "specs/demo.toml") -> Case:
    return Case(
        "demo", target, path, "locks", "linux-64", cuda, "0123456789abcdef", CARRIED, RECIPE, wants_gpu=cuda is not None
    )


HOSTILE_CASE = case(path="specs/it's; $(rm -rf ~)\n`x`.toml")
