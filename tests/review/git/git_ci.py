"""The scripts that other repositories run, with as much of their surroundings as they ask."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from git_project import BASE, ROOT, Repository, State, pin

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}


UPDATE: dict[Any, Any] = yaml.safe_load((ROOT / "docs" / "ci" / "update.yml").read_text(encoding="utf-8"))


GITLAB: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab.yml").read_text(encoding="utf-8"))


MARK = "<!-- envspec-review locks -->\n"
NOTE = "<!-- envspec-review review/a -->\n"
"""How the comment of the job `locks` begins, and GitLab's note."""


GH = f"""\
#!{sys.executable}
import json, os, subprocess, sys
from pathlib import Path

here = Path(os.environ["RUNNER_TEMP"])
arguments = sys.argv[1:]
with open(here / "gh.log", "a") as log:
    print(" ".join(arguments), file=log)


def option(name):
    return arguments[arguments.index(name) + 1] if name in arguments else ""


def refuse():
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")


if "--method" in arguments:
    if os.environ.get("GH_READ_ONLY"):
        refuse()
    body = option("-F").removeprefix("body=@")
    (here / "posted.md").write_text(Path(body).read_text())
    sys.exit()
if os.environ.get("GH_BLIND"):
    refuse()
if "graphql" in arguments:
    assert option("-f") == "query={{ viewer {{ login }} }}"
    pages = [{{"data": {{"viewer": {{"login": os.environ["GH_LOGIN"]}}}}}}]
else:
    comments = json.loads(os.environ.get("GH_COMMENTS", "[]"))
    size = 100 if arguments[-3].endswith("?per_page=100") else 30
    pages = [comments[at : at + size] for at in range(0, len(comments), size)]
    pages = pages if "--paginate" in arguments else pages[:1]
for page in pages:
    subprocess.run(["jq", "-r", option("--jq")], input=json.dumps(page), text=True, check=True)
"""
"""As much of GitHub's program as is called: a log, comments by their authors, and jq for what is asked of them."""


class Runner:
    """A job on a clone of depth 1, as a CI service makes it."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.base = repository.git("rev-parse", "main").strip()
        self.clone = folder / "checkout"
        # services give commits by their hash
        repository.git("config", "uploadpack.allowAnySHA1InWant", "true")
        repository.git(
            "clone", "-q", "--depth", "1", "--branch", "topic", f"file://{repository.folder}", str(self.clone)
        )
        self.temp = folder / "temp"
        self.temp.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        # the action's own environment, which no later step's PATH has
        own = self.temp / "envspec" / "bin"
        own.mkdir(parents=True)
        (own / "python").symlink_to(sys.executable)
        self.program(programs / "envspec", f'#!/bin/sh\nexec "{sys.executable}" -m envspec "$@"\n')
        self.program(programs / "gh", GH)
        for program in ("python", "python3"):
            (programs / program).symlink_to(sys.executable)
        self.env = {
            **repository.env,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.temp / "output"),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"),
            "GITHUB_REPOSITORY": "me/project",
            "GH_LOGIN": BOT,
            "SPECS": "",
            "BASE": self.base,
            "NUMBER": "7",
            "KEY": "locks",
            "GITHUB_REF": "refs/heads/topic",
            "GITHUB_SHA": "",
        }

    @staticmethod
    def program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def bash(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [shutil.which("bash") or "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        env = {**self.env, **env}
        return subprocess.run(command, cwd=self.clone, env=env, capture_output=True, text=True, check=False, timeout=60)

    def review(self, **env: str) -> dict[str, str]:
        """The steps from the check to the comment; gives the outputs. None of these steps may fail."""
        for name in ("Check", "Show what changed", "Comment"):
            outputs = self.outputs()
            known = {
                "CHECKED": outputs.get("code", ""),
                "MARK": outputs.get("mark", ""),
                "WORTH_SAYING": str(outputs.get("changed") == "true" or outputs.get("fresh") != "true").lower(),
            }
            ran = self.bash(STEPS[name]["run"], **known, **env)
            assert ran.returncode == 0, f"{name}: {ran.stdout}{ran.stderr}"
            self.said = ran.stdout
            if name == "Check":
                self.checked = ran.stdout
            if name == "Show what changed":
                self.compared = ran.stdout
        return self.outputs()

    def outputs(self) -> dict[str, str]:
        path = self.temp / "output"
        return dict(line.split("=", 1) for line in path.read_text().splitlines()) if path.exists() else {}

    def calls(self) -> list[str]:
        """What gh was asked to write."""
        path = self.temp / "gh.log"
        return [re.sub(r" -F .*", "", line) for line in path.read_text().splitlines() if "--method" in line]

    def verdict(self) -> int:
        found = self.outputs()
        known = {"CHECKED": found["code"], "GATE": found["gate"], "RISK": found["risk"], "FAIL_ON": "high"}
        return self.bash(STEPS["Verdict"]["run"], **known).returncode

    @property
    def posted(self) -> str:
        return (self.temp / "posted.md").read_text()

    @property
    def comment(self) -> str:
        """The comment as it would be, whether it was posted or not."""
        return (self.temp / "envspec-comment.md").read_text()

    @property
    def summary(self) -> str:
        return (self.temp / "summary.md").read_text()


BOT = "github-actions[bot]"


def runner(tmp_path: Path, theirs: State | None) -> Runner:
    """A pull request with `theirs` against BASE; with None, one that removes the spec and all that was made from it."""
    repository = Repository(tmp_path / "origin")
    repository.commit(BASE)
    repository.git("switch", "-q", "-c", "topic")
    if theirs is None:
        repository.git("rm", "-rq", "specs", "locks")
    else:
        repository.write(theirs)
    repository.git("add", "-A")
    repository.git("commit", "-q", "--allow-empty", "-m", "theirs")
    return Runner(repository, tmp_path)


def leave_without_spec(job: Runner, what: str) -> None:
    """Commit a second lock with its spec as the job's base. Then change the lock, what is rendered from it, or its
    folder's name, and take its spec away, or move it to where no pattern finds it."""
    lock = job.clone / "locks" / "other" / "envspec.lock"
    commit = "git -c user.name=x -c user.email=x@example.org commit -qm x"
    shutil.copytree(job.clone / "locks" / "demo", lock.parent)
    lock.write_text(lock.read_text().replace('"demo"', '"other"'))
    spec = job.clone / "specs" / "other.toml"
    spec.write_text((job.clone / "specs" / "demo.toml").read_text().replace('"demo"', '"other"'))
    job.env["BASE"] = job.bash(f"git add -A; {commit}; git rev-parse HEAD").stdout.strip()
    if what in ("lock", "moved"):
        lock.write_text(lock.read_text().replace('version = "2', 'version = "3'))
    elif what == "rendered":
        next(lock.parent.rglob("requirements.txt")).write_text("evil==1.0\n")
    else:
        os.rename(bytes(lock.parent), os.fsencode(lock.parent.with_name("a`")) + b"\xff\n")
    spec.rename(job.clone / spec.name) if what == "moved" else spec.unlink()
    assert job.bash(f"git add -A; {commit}").returncode == 0


ODD: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "17 MiB": lambda path: path.write_bytes(b"#\n" * (17 << 19)),
}
ODD_FILES = pytest.mark.parametrize(
    ("place", "kind"), [(place, kind) for place in ("specs/demo.toml", "locks/demo/envspec.lock") for kind in ODD]
)


def put_odd(job: Runner, place: str, kind: str) -> None:
    """What no job may wait for, or read whole, in place of a spec or a lock; committed where git takes it."""
    path = job.clone / place
    path.unlink()
    ODD[kind](path)
    job.bash("git add -A; git -c user.name=x -c user.email=x@example.org commit -qm x")


BUMPED = BASE.bump(pin("numpy", "2.2"))


@pytest.fixture
def bumped(tmp_path: Path) -> Runner:
    """The pull request that bumps a package."""
    return runner(tmp_path, BUMPED)


@pytest.fixture
def unchanged(tmp_path: Path) -> Runner:
    return runner(tmp_path, BASE)


MODULES = ("json", "os", "pathlib", "sys", "urllib", "venv", "pip", "typing", "ensurepip", "subprocess")


def plant_modules(folder: Path, mark: Path) -> None:
    """What Python would import where it looks into the folder that it is started in."""
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n", encoding="utf-8")
