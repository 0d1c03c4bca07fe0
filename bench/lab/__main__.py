"""`python -m bench.lab`: does what is still to do, and adds it to done.json."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from stacks.answers import Answer
from stacks.recording import DATE, Recording

from bench.lab.answers import Bench, on_the_bench
from bench.lab.cases import Case, cases, dated
from bench.lab.installs import installed
from bench.lab.shrink import Versions, differences, plain, shrunk, told_names, told_pins
from envspec.base.atomic import write_file

PARTS = ["answers", "conda", "installs"]
ROOT = Path(__file__).resolve().parents[2]
DONE = Path(__file__).resolve().parent / "done.json"
Row = dict[str, Any]


@dataclass
class Lab:
    """folder     of the caches and of what is made
    minutes    after which nothing new begins
    gigabytes  that the folder may hold: caches go when they are more
    recording  to ask in place of the real index
    """

    folder: Path
    minutes: float
    gigabytes: float
    recording: Recording | None = None
    state_path: Path = DONE

    def __post_init__(self) -> None:
        self.until = time.monotonic() + 60 * self.minutes
        self.done: dict[str, Row] = json.loads(self.state_path.read_text()) if self.state_path.exists() else {}

    @property
    def caches(self) -> Path:
        return self.folder / "caches"

    def run(self, units: dict[str, Callable[[], Row]]) -> None:
        """Do the units that aren't done; all of them anew where all are."""
        if units.keys() <= self.done.keys():
            self.done = {key: row for key, row in self.done.items() if key not in units}
        for key, unit in units.items():
            if key in self.done:
                continue
            if time.monotonic() > self.until:
                sys.stderr.write("the time is up: the next run goes on from here\n")
                return
            if size(self.folder) > 1e9 * self.gigabytes:
                shutil.rmtree(self.caches)
            start = time.monotonic()
            try:
                row = unit()
            except Exception as error:  # noqa: BLE001 - a night goes on
                row = {"what": "the lab failed", "told": plain(f"{type(error).__name__}: {error}")[:300]}
            self.done[key] = {"asked": datetime.now(timezone.utc).date().isoformat(), **row}
            write_file(self.state_path, json.dumps(self.done, indent=1, sort_keys=True) + "\n")
            sys.stderr.write(f"{key}: {self.done[key]['what']} ({time.monotonic() - start:.0f} s)\n")

    def answers(self, case: Case) -> Row:
        """Compare a case's answers; a difference from uv that lock didn't tell of is made small."""
        with self.on_the_bench(case) as bench:
            ours, theirs = bench.ours(), bench.uvs()
            row = compared(bench, ours, theirs)
            if ours.packages and self.recording is None:
                pips = bench.pips()
                row["pip"] = pips if isinstance(pips, str) else pip_differs(ours, theirs, pips)
        if row.get("open"):
            until = time.monotonic() + 600
            row["smallest"] = shrunk(
                case.requirements, lambda some: time.monotonic() < until and self.shows(case.with_requirements(some))
            )
        return row

    def shows(self, case: Case) -> bool:
        """Whether a case's answers differ in what lock didn't tell of."""
        with self.on_the_bench(case) as bench:
            return bool(compared(bench, bench.ours(), bench.uvs()).get("open"))

    def conda(self, case: Case) -> Row:
        """Compare a case's conda half with rattler's answer."""
        with self.on_the_bench(case) as bench:
            ours = bench.ours()
            if not ours.packages:
                return {"what": "refused", "told": first_line(ours.told)}
            pins = {pin.name: f"{pin.version}={pin.build}" for pin in bench.locked.pins if pin.kind == "conda"}
            return said(pins, bench.rattlers().packages, ours.told, bench.rattlers)

    def install(self, case: Case) -> Row:
        """Install a case's rendered requirements and its environment."""
        with self.on_the_bench(case) as bench:
            ours = bench.ours()
            if not ours.packages:
                return {"what": "refused", "told": first_line(ours.told)}
            return installed(bench, ours.told, self.gigabytes - size(self.folder) / 1e9)

    @contextmanager
    def on_the_bench(self, case: Case) -> Iterator[Bench]:
        """Set a case up in a folder that goes afterwards."""
        with (
            tempfile.TemporaryDirectory(dir=self.folder) as folder,
            on_the_bench(case, Path(folder), self.caches, self.recording) as bench,
        ):
            yield bench


def compared(bench: Bench, ours: Answer, theirs: Answer) -> Row:
    """Compare a lock with uv's answer: what differs, and what of it lock didn't tell of. Of this, nothing is left when
    uv is given what lock told of as pins."""
    if not (ours.packages and theirs.packages):
        words = {(True, False): "only locked", (False, True): "only refused", (False, False): "both refused"}
        said_by = ours.told if not ours.packages else theirs.told
        return {"what": words[bool(ours.packages), bool(theirs.packages)], "told": first_line(said_by)}
    return said(ours.packages, theirs.packages, ours.told, bench.uvs)


def said(ours: Versions, theirs: Versions, told: str, ask: Callable[[Sequence[str]], Answer]) -> Row:
    """Write a row of two answers. `ask` asks the other tool again, with pins besides."""
    differs = differences(ours, theirs)
    named = told_names(differs, told)
    left: Sequence[str] = [one for one in differs if one.split(" ")[0] not in named]
    if left and (pins := told_pins(ours, theirs, told)) and (again := ask(pins).packages):
        left = differences(ours, again)
    what = "differs" if left else "told" if differs else "equal"
    return {"what": what, "packages": len(ours), "differs": differs, "open": left}


def pip_differs(ours: Answer, theirs: Answer, pips: Answer) -> Row:
    """Count what pip's answer has otherwise; first where uv agrees with us."""
    if not pips.packages:
        return {"refused": first_line(pips.told)}
    differs = differences(ours.packages, pips.packages)
    return {
        "differs": differs,
        "from uv": len(differences(theirs.packages, pips.packages)) if theirs.packages else None,
    }


def first_line(text: str) -> str:
    """Give the line that says what was wrong."""
    lines = [line for line in text.splitlines() if line.strip()]
    return plain(next((line for line in lines if line.lower().startswith("error")), lines[0] if lines else ""))[:300]


def size(folder: Path) -> int:
    """Add up the bytes below a folder; a file of several names counts once."""
    seen: dict[int, int] = {}
    for path, _, names in os.walk(folder):
        for name in names:
            found = os.lstat(os.path.join(path, name))
            seen[found.st_ino] = found.st_blocks * 512
    return sum(seen.values())


def units(lab: Lab, names: list[str], parts: list[str]) -> Iterator[tuple[str, Callable[[], Row]]]:
    """List what there is to do: at the first date all, then at the second, then conda and installs."""
    known = cases()
    chosen = [known[name] for name in names or known]
    every = [(day, case) for case in chosen if "\n[conda]" not in case.text for day, case in dated(case)]
    if lab.recording is not None:
        every = [(day, case) for day, case in every if day == DATE[:10] and case.project and case.project.recorded]
    if "answers" in parts:
        place = "recorded" if lab.recording is not None else "answers"
        for day, case in sorted(every, key=lambda one: one[0], reverse=True):
            yield f"{place} {day} {case.name}", partial(lab.answers, case)
    if "conda" in parts:
        for case in chosen:
            if "\n[conda]" in case.text:
                yield f"conda {case.name}", partial(lab.conda, case)
    if "installs" in parts:
        for case in chosen:
            if case.install:
                yield f"installs {case.name}", partial(lab.install, case)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.lab", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="stacks [default: all]")
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--recorded", action="store_true", help="ask the recording in place of the real index")
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--gigabytes", type=float, default=60)
    parser.add_argument("--folder", type=Path, default=ROOT / ".scratch" / "lab")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    lab = Lab(given.folder, given.minutes, given.gigabytes, Recording.load() if given.recorded else None)
    lab.run(dict(units(lab, given.names, given.part or PARTS)))


if __name__ == "__main__":
    main()
