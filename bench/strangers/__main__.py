"""`python -m bench.strangers FOLDER`: takes strangers' repositories by `init --from .` and `lock`, with the options
that the errors name, installs those that a CPU can import, imports modules of their own, and writes done.json.

FOLDER has the clones, as OWNER/NAME; what isn't there is cloned from GitHub. Each is taken from its folder itself, as
its user would: specs/ and locks/ are written into it. Of their code, what `--allow-needed` builds is run, and the
modules that are imported. One environment at a time lies in FOLDER/environments; uv's cache keeps its wheels.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import tomli
import tomlkit

from envspec.draft.imports import read_imports

HERE = Path(__file__).resolve().parent
DONE = HERE / "done.json"
_OPTION = re.compile(r"--(?:prefer|from|python|cuda) (?:'[^']*'|[^\s`,]+)|--allow-(?:needed|static)")
"""The options that a hint may name, as it writes them."""
_LINE = re.compile(r"^hint: (?:[^`]*?, )?add to \[(\w+)\]: (.*?)(?:; or .*)?$", re.MULTILINE)
"""A line that a hint adds to a spec."""
_DAY = re.compile(
    r'^hint: exclude-newer = "([\d-]+)" in \[env\]|begin here with torch \S+, of ([\d-]+)\)', re.MULTILINE
)
"""The day that a hint names in place of a spec's, or the one before it."""
_MOST = 6
"""Options that are taken for one command."""


@dataclass
class Stranger:
    """A repository's clone, the seconds that each command may take, and where all that is said is kept."""

    root: Path
    seconds: float
    log: Path

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run envspec in the clone, without a terminal: gives its exit code, None's place taken by -1, and what it
        printed."""
        command = [str(Path(sys.executable).with_name("envspec")), *words]
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env={**os.environ, "ENVSPEC_ENVIRONMENTS_DIR": str(self.log.parent.parent / "environments")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(timeout=self.seconds)
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate()
            code = -1
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ envspec {shlex.join(words)}\n{out}{err}[{code}]\n")
        return code, out, err

    def with_hints(self, *words: str) -> tuple[int, str, str, list[str]]:
        """Run a command, and again with what its error names, until it holds or names nothing new. Gives also the
        options that it took."""
        taken: list[str] = []
        while True:
            code, out, err = self.run(*words, *(word for one in taken for word in shlex.split(one)))
            hints = "\n".join(re.findall(r"^hint: (.*)$", err, re.MULTILINE))
            new = next((one for one in _OPTION.findall(hints) if one not in taken), None)
            if code in (0, -1) or new is None or len(taken) == _MOST:
                return code, out, err, taken
            taken.append(new)


def add_line(spec: Path, table: str, line: str) -> bool:
    """Add what a hint says to a table of a spec; False for what stands there already."""
    document = tomlkit.parse(spec.read_text("utf-8"))
    into: Any = document.setdefault(table, tomlkit.table())
    for key, value in tomlkit.parse(line).items():
        if isinstance(value, list) and key in into:
            if all(one in into[key] for one in value):
                return False
            into[key].extend(value)
        else:
            into[key] = value
    spec.write_text(tomlkit.dumps(document), "utf-8")
    return True


def line_of_hint(err: str) -> tuple[str, str] | None:
    """Find the line that an error's hint has for a spec, and the table that it is for."""
    if found := _DAY.search(err):
        day = found[1] or (date.fromisoformat(found[2]) + timedelta(days=1)).isoformat()
        return "env", f'exclude-newer = "{day}"'
    line = _LINE.search(err)
    return (line[1], line[2]) if line else None


def taken(stranger: Stranger, options: list[str]) -> dict[str, Any]:
    """Take a repository: what came of it."""
    for folder in ("specs", "locks"):
        shutil.rmtree(stranger.root / folder, ignore_errors=True)
    begun = time.monotonic()
    code, out, err, flags = stranger.with_hints("init", "it", "--from", ".", *options)
    row: dict[str, Any] = {"init": flags, "lock": []}
    if code == 0:
        code, out, err, row["lock"] = stranger.with_hints("lock", "specs/it.toml")
        while code > 0 and len(row["lock"]) < _MOST and (found := line_of_hint(err)):
            if not add_line(stranger.root / "specs" / "it.toml", *found):
                break
            row["lock"].append(found[1] if found[0] == "env" else found[1].partition(" = ")[0])
            code, out, err, more = stranger.with_hints("lock", "specs/it.toml")
            row["lock"] += more
    row |= {"what": {0: "locked", -1: "too long"}.get(code, "refused"), "seconds": round(time.monotonic() - begun)}
    if code:
        said = re.findall(r"^error: (.*)$", err, re.MULTILINE) or err.splitlines() or [""]
        return row | {"error": re.sub(r"://[^/\s]+", "://…", said[0] if code != -1 else said[-1])}
    lock = (stranger.root / "locks" / "it" / "envspec.lock").read_text("utf-8")
    row["packages"] = int(re.findall(r"(\d+) package", out)[-1])
    row["cuda"] = sorted(set(re.findall(r'^cuda = "([\d.]+)"', (stranger.root / "specs/it.toml").read_text(), re.M)))
    row["cuda 13"] = sorted(set(re.findall(r"\bnvidia-[a-z0-9-]*-cu13\b|\+cu13\d", lock)))
    return row


def imported(stranger: Stranger, options: list[str], one: dict[str, Any]) -> dict[str, Any]:
    """Take a repository for a machine without a GPU, install its lock and import modules of its own, with its folders
    before the installed packages: what came of it, with which torch, and what `check --imports` had added."""
    row = taken(stranger, one.get("options", options))
    if row["what"] != "locked":
        return row
    # what its sources import: by the hint, what another of its files declares; by hand, of what is named
    by_hand: dict[str, str] = one.get("by-hand", {})
    _, out, err = stranger.run("check", "--imports", "--verbose")
    found = re.search(r"^hint: envspec add specs/it\.toml (.*)$", err, re.MULTILINE)
    assert all(re.search(rf"^ *{module} is imported by", out, re.MULTILINE) for module in by_hand), out
    if wanted := [*by_hand.values()] or shlex.split(found[1] if found else ""):
        done = stranger.with_hints("add", "specs/it.toml", *wanted)[0] == 0
        row["by hand" if by_hand else "added"] = wanted if done else []
    folders = [*one.get("folders", ()), ".", "src"]
    program = f"import sys; sys.path[:0] = {folders}; import {', '.join(one['modules'])}"
    program += "; print('torch', getattr(sys.modules.get('torch'), '__version__', ''))"
    code, out, err = stranger.run("run", "specs/it.toml", "--", "python", "-c", program)
    shutil.rmtree(stranger.log.parent.parent / "environments", ignore_errors=True)
    said = re.findall(r"^(?:error: |\w+Error: )(.*)$", err, re.MULTILINE) or err.splitlines()[-1:] or [""]
    if code == 0:
        torch = re.search(r"^torch (\S+)$", out, re.MULTILINE)
        return row | {"imports": "imported", "torch": torch[1] if torch else ""}
    return row | {"imports": "not imported: " + re.sub(r"://[^/\s]+", "://…", said[-1])}


def imports(stranger: Stranger) -> dict[str, int]:
    """Count the packages that a repository's sources import at module level: in the lock, declared elsewhere in the
    repository, declared nowhere."""
    _, out, _ = stranger.run("check", "--imports", "--json")
    codes = ("import-unlocked", "cuda-without-torch")
    found = [one for spec in json.loads(out)["specs"] for one in spec["reasons"] if one["code"] in codes]
    offered = sum(one.get("package") is not None for one in found)
    every = sum(bool(one.files) for one in read_imports(stranger.root))
    return {"locked": every - len(found), "offered": offered, "named": len(found) - offered}


def clone(root: Path, name: str, commit: str) -> str | None:
    """Bring a repository's commit; gives the commit that is there, None where it can't be had."""
    git = ["git", "-C", str(root)]
    if not root.is_dir():
        root.mkdir(parents=True)
        for words in (["init", "-q"], ["fetch", "-q", "--depth=1", f"https://github.com/{name}", commit]):
            if subprocess.run([*git, *words], check=False).returncode:
                shutil.rmtree(root)
                return None
        subprocess.run([*git, "checkout", "-q", "FETCH_HEAD"], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Take the repositories of the list, or those named, and write what came of them."""
    parser = argparse.ArgumentParser(prog="python -m bench.strangers", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="OWNER/NAME")
    parser.add_argument("--seconds", type=float, default=300, help="for each command [default: 300]")
    parser.add_argument("--new", action="store_true", help="what alone done.json doesn't have")
    parser.add_argument("--part", choices=("locks", "imports"), help="one of the two alone")
    given = parser.parse_args()
    listed = tomli.loads((HERE / "repositories.toml").read_text("utf-8"))
    done = json.loads(DONE.read_text("utf-8")) if DONE.exists() else {}
    logs = given.folder.resolve() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    commits = {**listed["repositories"], **{name: one["commit"] for name, one in listed["old"].items()}}
    for name, commit in commits.items():
        if given.names and name not in given.names:
            continue
        row = done.get(name, {})
        old, here = listed["old"].get(name), listed["imports"].get(name)
        locks = given.part != "imports" and not old and not (given.new and row)
        imports_too = (
            given.part != "locks" and (old or here) and not (given.new and (row if old else "on a CPU" in row))
        )
        if not locks and not imports_too:
            continue
        root = given.folder.resolve() / name
        there = clone(root, name, commit)
        if there is None:
            done[name] = {"what": "not had"}
        else:
            asked = {"commit": there, "asked": datetime.now(timezone.utc).date().isoformat()}
            stranger = Stranger(root, given.seconds, logs / f"{name.replace('/', '+')}.txt")
            stranger.log.unlink(missing_ok=True)
            if locks:
                kept = {key: row[key] for key in ("on a CPU",) if key in row}
                row = taken(stranger, listed["machine"]) | asked | kept
                if row["what"] == "locked":
                    row["imports"] = imports(stranger)
            if imports_too:
                came = imported(stranger, listed["old machine"], old or here) | asked
                row = came if old else {**row, "on a CPU": came}
            done[name] = row
        print(name, json.dumps(done[name]), flush=True)
        DONE.write_text(json.dumps(done, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
