"""A team's year: three specs, a monthly upgrade on a branch and an event on another one, and both joined by git.

Beside it the same requirements in a project of uv's. The index serves stand-ins of the year's releases
(tests/data/year).
"""

# One event a line.

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import reduce
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version
from support.index import Index
from support.machine import Machine
from support.packages import wheel

from envspec.lock.model import Lock
from envspec.lock.read import load
from envspec.resolve.uv.program import find_uv
from envspec.review.git.setup import install, repository

DATA = Path(__file__).resolve().parents[1] / "data" / "year"
SPECS = ("train", "serve", "dev")
DAYS = tuple(f"{2025 + month // 12}-{month % 12 + 1:02}-01" for month in range(10, 23))
WAYS = ("merge", "rebase", "cherry-pick", "revert")
_EXTRA = re.compile(r'extra == "([^"]+)"')


class Event(Struct, frozen=True):
    """What happens to a spec between two upgrades: a text in it and what takes its place; for uv's project, too, where
    it has that."""

    name: str
    spec: str
    was: str
    now: str
    uv: bool = True


EVENTS = (
    Event("add", "train", '"hydra-core"', '"hydra-core", "matplotlib"'),
    Event("remove", "train", '"einops", ', ""),
    Event("bump", "serve", '"urllib3"', '"urllib3>=2.6"'),
    Event("new target", "serve", "[targets.cpu]",
          '[targets.h100]\nplatform = "linux-64"\ncuda = "12.8"\ngpus = ["H100"]\n[targets.cpu]', False),
    Event("renamed target", "train", "targets.cu126-hopper", "targets.hopper", False),
    Event("dropped target", "dev", '[targets.mac]\nplatform = "osx-arm64"\n', "", False),
    Event("CUDA", "train", 'cuda = "12.6"', 'cuda = "12.8"', False),
    Event("Python", "dev", 'python = "3.12"', 'python = "3.13"', False),
    Event("private wheel", "serve", '"huggingface-hub"]',
          '"huggingface-hub", "acme-models"]\nindexes = { internal = "INTERNAL" }\n'
          'sources = { acme-models = "internal" }'),
    Event("override", "dev", "[targets.linux]",
          '[[pip.overrides]]\nrequirement = "numpy>=2"\nreason = "a year"\n[targets.linux]'),
    Event("security fix", "serve", "[pip]",
          '[env.exclude-newer-package]\nurllib3 = { exclude-newer = "LATER", reason = "a fix" }\n\n[pip]'),
    Event("pin", "serve", '"torch>=2.8"', '"torch>=2.11,<2.14"'),
)  # fmt: skip


@dataclass
class Merges:
    """What one way of joining two branches gave, in all months. Each count is of months.

    ours, uv     where git left a lock in conflict, with our drivers, and uv.lock without any
    plain        where git's own merge of our lock's lines would have
    others       where a rendered file or a recipe was in conflict
    lost         what was older than on one of the sides once `lock` ended the merge
    """

    ours: Counter[str] = field(default_factory=Counter)
    plain: Counter[str] = field(default_factory=Counter)
    uv: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)


@dataclass
class Figures:
    """What a year measured.

    changed  packages of locks that a month's upgrade changed
    lines    git's added and removed lines of these upgrades, by kind of file
    risks    of the reviews of these upgrades
    seconds  of each month's upgrade: lock, diff, outdated, export, check; uv's lock of its one project by itself
    """

    changed: int = 0
    uv_changed: int = 0
    lines: Counter[str] = field(default_factory=Counter)
    risks: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    uv_seconds: list[float] = field(default_factory=list)
    merges: dict[str, Merges] = field(default_factory=lambda: {way: Merges() for way in WAYS})


@contextmanager
def releases(internal: Index) -> Iterator[Index]:
    """Serve the year's releases, each from the day before the first lock that has it; `internal` gets a wheel of its
    own."""
    internal.add(wheel("acme-models", "1.0"), uploaded="2025-01-01T00:00:00Z")
    with internal, Index() as index:
        for line in (DATA / "releases.txt").read_text(encoding="utf-8").splitlines():
            name, version, day, *rest = line.split(" ", 3)
            lines = rest[0].split(" | ") if rest else []
            extras = sorted({extra for one in lines for extra in _EXTRA.findall(one)})
            before = date.fromisoformat(day) - timedelta(days=1)
            index.add(wheel(name, version, *lines, extras=extras), uploaded=f"{before}T00:00:00Z")
        yield index


class Team:
    """A repository with the three specs, their locks and recipes, and uv's project beside them."""

    def __init__(self, folder: Path, index: Index, internal: Index) -> None:
        self.machine = Machine(folder, index.url)
        self.folder = self.machine.folder
        self.internal = internal.url
        self.uv = find_uv(self.machine.environment()).executable
        self.env = self.machine.environment({"GIT_EDITOR": "true"}) | {
            f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        for name in SPECS:
            self.machine.spec((DATA / f"{name}.toml").read_text(encoding="utf-8"), name)
        self.git("init", "-q", "-b", "main")
        install(repository(self.folder), (sys.executable, "-m", "envspec"))

    def git(self, *arguments: str, fails: bool = False) -> str:
        """Run git, and give what it prints."""
        command = ("git", "-c", "core.abbrev=12", *arguments)
        ran = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False)
        assert fails or ran.returncode == 0, f"{arguments}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def envspec(self, *arguments: str, status: int = 0) -> str:
        """Run envspec in this process, and give what it prints."""
        ran = self.machine.envspec(*arguments, seconds=300)
        assert ran.status == status, f"{arguments}\n{ran.out}{ran.err}"
        return ran.out + ran.err

    def write_project(self, day: str) -> None:
        """Write uv's project: what the specs ask for together."""
        asked = dict.fromkeys(one for name in SPECS for one in re.findall(r'"[^"]+"', self._dependencies(name)))
        listed = ", ".join(one for one in asked if "acme-models" not in one)
        text = f'[project]\nname = "team"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = [{listed}]\n'
        (self.folder / "pyproject.toml").write_text(f'{text}\n[tool.uv]\nexclude-newer = "{day}T00:00:00Z"\n')

    def _dependencies(self, name: str) -> str:
        text = (self.folder / "specs" / f"{name}.toml").read_text(encoding="utf-8")
        return re.search(r"^dependencies = \[(.*)\]$", text, re.MULTILINE)[1]  # type: ignore[index]

    def uv_lock(self, *options: str) -> float:
        """Lock uv's project; gives the seconds."""
        start = time.perf_counter()
        command = (self.uv, "lock", "--quiet", "--no-python-downloads", *options)
        subprocess.run(command, cwd=self.folder, env=self.env, check=True, capture_output=True, text=True)
        return time.perf_counter() - start

    def lock(self, *names: str, upgrade: bool = False) -> None:
        """Lock specs and export their recipes."""
        for name in names:
            self.envspec("lock", f"specs/{name}.toml", *(["--upgrade"] if upgrade else []))
            self.envspec("export", f"specs/{name}.toml", "--format", "all", "-o", f"recipes/{name}")

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD").strip()

    def locks(self) -> dict[str, Lock]:
        return {name: load(self.folder / "locks" / name / "envspec.lock") for name in SPECS}

    def edit(self, name: str, was: str, now: str) -> None:
        path = self.folder / "specs" / f"{name}.toml"
        text = path.read_text(encoding="utf-8")
        assert was in text, f"{name}: {was}"
        path.write_text(text.replace(was, now, 1), encoding="utf-8")


def live(team: Team, months: range = range(12)) -> Iterator[Figures]:
    """Live these months of the year, from the locks of the day before; yields the figures after each. A month's event
    is taken back at its end, by the revert: the next one begins with the upgrade alone."""
    figures = Figures()
    for name in SPECS:
        team.edit(name, DAYS[0], DAYS[months.start])
    team.write_project(DAYS[months.start])
    team.lock(*SPECS)
    team.uv_lock()
    team.commit("the first locks")
    for month in months:
        day, later, event = DAYS[month + 1], DAYS[min(month + 2, 12)], EVENTS[month]
        base = team.git("rev-parse", "HEAD").strip()
        upgraded = _upgrade(team, day, figures)
        team.git("checkout", "-q", "-b", f"event-{day}", base)
        texts = {"LATER": later, "INTERNAL": team.internal}
        event = replace(event, now=reduce(lambda text, name: text.replace(name, texts[name]), texts, event.now))
        team.edit(event.spec, event.was, event.now)
        team.lock(event.spec)
        if event.uv:
            team.write_project(_day(team))
            team.uv_lock()
        done = team.commit(event.name)
        for way in WAYS:
            _join(team, way, event, upgraded, done, figures.merges[way])
        yield figures


def _day(team: Team) -> str:
    return re.search(r'exclude-newer = "(.+?)T', (team.folder / "pyproject.toml").read_text())[1]  # type: ignore[index]


def _upgrade(team: Team, day: str, figures: Figures) -> str:
    team.git("checkout", "-q", "-b", f"upgrade-{day}")
    before, was = team.locks(), _uv_versions(team)
    for name in SPECS:
        text = (team.folder / "specs" / f"{name}.toml").read_text(encoding="utf-8")
        (was_newer,) = re.findall(r'^exclude-newer = ".*"$', text, re.MULTILINE)
        team.edit(name, was_newer, f'exclude-newer = "{day}"')
    start = time.perf_counter()
    team.lock(*SPECS, upgrade=True)
    for name in SPECS:
        review = team.envspec("diff", f"specs/{name}.toml", "--from", "HEAD")
        figures.risks[re.search(r"^(low|medium|high) risk\b", review, re.MULTILINE)[1]] += 1  # type: ignore[index]
        team.envspec("outdated", f"specs/{name}.toml")
    team.envspec("check")
    figures.seconds.append(time.perf_counter() - start)
    team.write_project(day)
    figures.uv_seconds.append(team.uv_lock("--upgrade"))
    commit = team.commit(f"upgrade {day}")
    after, now = team.locks(), _uv_versions(team)
    figures.changed += sum(len(_changed(before[name], after[name])) for name in SPECS)
    figures.uv_changed += len({name for name, _ in {*was.items()} ^ {*now.items()}})
    for line in team.git("diff", "--numstat", "HEAD~1", "HEAD").splitlines():
        came, went, path = line.split("\t")
        figures.lines[_kind(path)] += int(came) + int(went)
    return commit


def _kind(path: str) -> str:
    top, _, rest = path.partition("/")
    if top == "locks":
        return "lock" if rest.endswith("/envspec.lock") else "rendered"
    return {"recipes": "recipes", ".devcontainer": "recipes", "uv.lock": "uv.lock"}.get(top, "specs")


def _versions(lock: Lock) -> dict[tuple[str, str], str]:
    return {(target.name, pin.name): pin.version for target in lock for pin in target.pins}


def _changed(old: Lock, new: Lock) -> set[str]:
    return {name for (_, name), _ in {*_versions(old).items()} ^ {*_versions(new).items()}}


def _uv_versions(team: Team) -> dict[str, str]:
    text = (team.folder / "uv.lock").read_text(encoding="utf-8")
    return dict(re.findall(r'^\[\[package\]\]\nname = "(.+)"\nversion = "(.+)"$', text, re.MULTILINE))


def _join(team: Team, way: str, event: Event, upgraded: str, done: str, found: Merges) -> None:
    """Join the two branches in one way, end it as `check` says, and compare the lock with both sides."""
    onto, command = {
        "merge": (done, ("merge", "-q", "--no-edit", upgraded)),
        "rebase": (upgraded, ("rebase", "-q", done)),
        "cherry-pick": (upgraded, ("cherry-pick", done)),
        "revert": ("main", ("revert", "--no-edit", done)),
    }[way]
    team.git("checkout", "-q", "--detach", onto)
    team.git(*command, fails=True)
    unmerged = {_kind(path): path for path in team.git("diff", "--name-only", "--diff-filter=U").splitlines()}
    if "lock" in unmerged:
        found.ours[event.name] += 1
    if "uv.lock" in unmerged:
        found.uv[event.name] += 1
        team.git("checkout", "--theirs", "uv.lock", fails=True)
    if others := unmerged.keys() & {"rendered", "recipes"}:
        found.others[f"{event.name}: {', '.join(sorted(others))}"] += 1
    if _conflicts_in_lines(team, way, event, upgraded, done):
        found.plain[event.name] += 1
    if "specs" in unmerged:
        # lines that touch: a person writes what both sides mean
        spec = team.git("show", f"{upgraded}:specs/{event.spec}.toml")
        (team.folder / "specs" / f"{event.spec}.toml").write_text(spec, encoding="utf-8")
        if way != "revert":
            team.edit(event.spec, event.was, event.now)
    team.lock(event.spec)
    team.write_project(_day(team))
    team.uv_lock()
    team.git("add", "-A")
    if way != "merge":
        team.git(way, "--continue", fails=True)
    team.git("commit", "-q", "--allow-empty", "-m", f"{way} {event.name}", fails=True)
    assert team.git("status", "--porcelain") == "", f"{way}, {event.name}"
    team.envspec("check")
    _compare(team, way, event, (upgraded,) if way == "revert" else (upgraded, done), found)
    if way == "merge":
        team.git("branch", "-q", "-f", "main", "HEAD")


def _conflicts_in_lines(team: Team, way: str, event: Event, upgraded: str, done: str) -> bool:
    """Say whether git's own merge of the spec's lock has a conflict."""
    base = team.git("merge-base", upgraded, done).strip()
    sides = ("main", done, f"{done}~1") if way == "revert" else (done, base, upgraded)
    paths = []
    for number, revision in enumerate(sides):
        path = team.machine.base / f"side-{number}"
        path.write_text(team.git("show", f"{revision}:locks/{event.spec}/envspec.lock"), encoding="utf-8")
        paths.append(str(path))
    return "\n<<<<<<< " in team.git("merge-file", "-p", *paths, fails=True)


def _compare(team: Team, way: str, event: Event, sides: tuple[str, ...], found: Merges) -> None:
    """Name what is older than a side has it, which that side changed."""
    now = _versions(team.locks()[event.spec])
    for side in sides:
        path = team.machine.base / "side"
        path.write_text(team.git("show", f"{side}:locks/{event.spec}/envspec.lock"), encoding="utf-8")
        for (target, name), version in _versions(load(path)).items():
            key = (target if (target, name) in now else target.removeprefix("cu126-"), name)
            if key in now and Version(now[key]) < Version(version):
                found.lost.append(f"{way}, {event.name}: {key[1]} {version} is {now[key]}")
