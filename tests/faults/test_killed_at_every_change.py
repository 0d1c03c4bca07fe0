"""Exports and locks killed before each single change of the filesystem, on the way from any state to any other.

Whichever state it is for, the next complete run gives exactly what a fresh one gives, and nobody else's file goes. The
kill is simulated in this process: from that change on no other one happens, tidying included. An export may leave one
thing behind, the empty folder of a target: nothing tells it from a user's own.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from support.installs import pip_pin, write_lock
from support.machine import Machine
from support.matrix import first_by_day
from support.packages import wheel

from envspec.export import carried, make
from envspec.export.carried import carried_files
from envspec.export.plan import SUMS, decode
from envspec.lock.model import Artifact, Pin
from envspec.lock.store import LockFolder

CHANGES = ("mkdir", "rmdir", "unlink", "replace", "open", "fsync")
EXPORT = ("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo")
FOREIGN = {
    "README.md": "ours\n",
    "recipes/_shared/notes.txt": "mine\n",
    "recipes/_shared/services/own.sh": "echo mine\n",
    "recipes/demo/requirements/own.txt": "mine\n",
    "recipes/demo/two/notes.md": "mine\n",
    ".devcontainer/own/devcontainer.json": "{}\n",
    "locks/demo/notes.md": "mine\n",
    "locks/demo/two/requirements.in": "mine\n",
}


class Killed(BaseException):
    """The process is dead."""


@contextmanager
def killed_before(number: int) -> Iterator[list[str]]:
    """Let no change of the filesystem happen from this one on (from 1). Gives the changes that were tried."""
    tried: list[str] = []
    real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in CHANGES}

    def changing(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            writes = name != "open" or arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            # `in_process` has its streams elsewhere, by path; envspec changes files by descriptor of their folder
            if writes and ("dir_fd" in options or "src_dir_fd" in options or name == "fsync"):
                tried.append(name)
                if len(tried) == number or (len(tried) > number and name == "open"):
                    raise Killed
                if len(tried) > number:
                    return None  # whoever tidies up goes on, and lets go of what it holds, as the system does
            return real[name](*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, changing(name))
        yield tried


def conda_pin(name: str, version: str) -> Pin:
    artifact = Artifact(f"{name}-{version}-h0_0.conda", hashlib.sha256(name.encode()).hexdigest(), 9)
    return Pin("conda", name, version, "conda-forge/linux-64", artifact, direct=True, build="h0_0")


@dataclass(frozen=True)
class State:
    """A spec with its lock, and the envspec that exports it."""

    name: str
    image: str
    targets: Mapping[str, tuple[str, ...]]
    carried: Callable[[], Mapping[str, str]] = carried_files


def of_another_version() -> Mapping[str, str]:
    """What an envspec carries that has other files, and others of the same name."""
    files = {path: text for path, text in carried_files().items() if path != "check/envspec_check/process.py"}
    return MappingProxyType({**files, "healthcheck.sh": "#!/bin/sh\n", "more/deep/new.py": "new = 1\n"})


STATES = (
    State("services", '[image]\nservices = ["ssh"]\n', {"one": ("alpha",), "two": ("alpha", "beta")}),
    State("bare", '[image]\nenv = { WHO = "bare" }\n', {"one": ("beta",)}),
    State("another version", "", {"one": ("alpha",), "three": ("beta",)}, of_another_version),
    State("conda", "", {"one": ("zlib",), "two": ("zlib",)}),
)
WAYS = [(one.name, other.name) for one in STATES for other in STATES if one is not other]
NIGHTLY = [pytest.param(*way, 1, marks=pytest.mark.nightly) for way in WAYS]
EXPORTS = [("services", "bare", 18), pytest.param("bare", "services", 2, marks=pytest.mark.nightly), *NIGHTLY]
"""What was exported before, the export that is killed, and at each so many changes."""
EMPTIED = {
    place
    for state in STATES
    for name in state.targets
    for place in (f"recipes/demo/{name}", f".devcontainer/demo-{name}")
}


class Project:
    """The states of one project, made once: specs, locks and the recipes that a fresh export gives."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.folder = machine.folder
        pins = {name: [pip_pin(wheel(name, "1.0"))] for name in ("alpha", "beta")}
        pins["zlib"] = [conda_pin("zlib", "1.3"), conda_pin("python", "3.12.1")]
        self.fresh: dict[str, dict[str, str]] = {}
        for state in STATES:
            targets = {target: [pin for name in names for pin in pins[name]] for target, names in state.targets.items()}
            write_lock(machine, targets, python="3.12", platform="linux-64", channels=["conda-forge"])
            spec = self.folder / "specs" / "demo.toml"
            spec.write_text(spec.read_text() + state.image)
            self.export(state)
            self.fresh[state.name] = self.files()
            shutil.copytree(self.folder, self.kept(state))
            self.clear()

    def kept(self, state: State) -> Path:
        return self.machine.base / "states" / state.name

    def clear(self) -> None:
        shutil.rmtree(self.folder)
        (self.folder / "specs").mkdir(parents=True)

    def put(self, state: State, *names: str) -> None:
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self.kept(state) / name, self.folder / name)

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def export(self, state: State) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(make, "carried_files", state.carried)
            patch.setattr(carried, "carried_files", state.carried)
            ran = self.machine.envspec(*EXPORT)
        assert ran.status == 0, ran.err

    def lock(self, state: State) -> None:
        LockFolder(self.folder / "locks", "demo").write(LockFolder(self.kept(state) / "locks", "demo").load())

    def files(self) -> dict[str, str]:
        """Every file and every empty folder, but the spec."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if path.is_file():
                found[name] = decode(path.read_bytes())
            elif not any(path.iterdir()) and name not in EMPTIED:
                found[f"{name}/"] = ""
        return {name: text for name, text in found.items() if not name.startswith("specs/")}


@pytest.fixture
def project(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power fails here, and each takes its time
    return Project(machine)


def state(name: str) -> State:
    return next(one for one in STATES if one.name == name)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "begun", "each"), EXPORTS)
def test_an_export(project: Project, before: str, begun: str, each: int) -> None:
    for turn in range(500):
        number = 1 + turn * each
        project.clear()
        project.put(state(before), "recipes", ".devcontainer")
        project.put(state(begun), "specs", "locks")
        foreign = FOREIGN if turn % 2 else {}
        project.write(foreign)
        with killed_before(number) as tried, suppress(Killed):
            project.export(state(begun))
        after = STATES[turn % len(STATES)]
        project.put(after, "specs", "locks")
        project.write(foreign)
        project.export(after)
        assert project.files() == project.fresh[after.name] | foreign, f"{number}: {tried[-3:]}, then {after.name}"
        if len(tried) < number:
            assert number > 40, "fewer changes prove nothing"
            return
    pytest.fail("an export has more changes than this test knows")


@pytest.mark.slow
@pytest.mark.by_commit(3)
@pytest.mark.parametrize(("before", "begun"), first_by_day(1, WAYS))
def test_a_lock(project: Project, before: str, begun: str) -> None:
    for number in range(1, 300):
        project.clear()
        foreign = {path: text for path, text in FOREIGN.items() if path.startswith("locks/")} if number % 2 else {}
        project.put(state(before), "locks")
        project.write(foreign)
        with killed_before(number) as tried, suppress(Killed):
            project.lock(state(begun))
        after = STATES[number % len(STATES)]
        project.lock(after)
        fresh = {path: text for path, text in project.fresh[after.name].items() if path.startswith("locks/")}
        assert project.files() == fresh | foreign, f"{number}: {tried[-3:]}, then {after.name}"
        if len(tried) < number:
            assert number > 15, "fewer changes prove nothing"
            return
    pytest.fail("a lock has more changes than this test knows")


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("formats", [["all"], ["dockerfile", "devcontainer"]], ids=" ".join)
def test_an_export_of_one_target_forgets_no_file_of_the_others(project: Project, formats: list[str]) -> None:
    """What they may still use stays, and the next export of all knows that it's envspec's."""
    before = state("services")
    project.put(before, "recipes", ".devcontainer", "locks", "specs")
    spec = project.folder / "specs" / "demo.toml"
    spec.write_text(spec.read_text().replace('services = ["ssh"]', ""))
    chosen = [word for name in formats for word in ("--format", name)]
    export = ("export", "specs/demo.toml", *chosen, "-o", "taken")
    spec_text = spec.read_text()
    spec.write_text(project.kept(before).joinpath("specs", "demo.toml").read_text())
    assert project.machine.envspec(*export).status == 0
    spec.write_text(spec_text)
    assert project.machine.envspec(*export, "--target", "one").status == 0
    listed = project.folder / "taken" / "envspec"
    assert (listed / "services" / "ssh.sh").is_file()
    words = ["sha256sum", "--check", "--quiet", "--ignore-missing", SUMS]
    checked = subprocess.run(words, cwd=listed, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    assert project.machine.envspec(*export).status == 0
    found = project.files()
    assert not [path for path in found if path.startswith("taken/envspec/services")]
    shutil.rmtree(project.folder / "taken")
    assert project.machine.envspec(*export).status == 0
    assert project.files() == found


@pytest.mark.slow
def test_two_exports_from_nothing(project: Project) -> None:
    """Each waits for the other, and looks for what is superseded when its turn has come."""
    commands = {}
    for one in STATES[:2]:
        path = project.machine.base / "at" / one.name
        shutil.copytree(project.kept(one), path, ignore=shutil.ignore_patterns("recipes", ".devcontainer"))
        commands[one.name] = ("export", str(path / "specs" / "demo.toml"), "-f", "dockerfile", "-o", "recipes/demo")
    states = []
    for command in commands.values():
        assert project.machine.envspec(*command).status == 0
        states.append(project.files())
        shutil.rmtree(project.folder / "recipes")
    running = [project.machine.start(*command) for command in commands.values()]
    for process in running:
        assert process.communicate(timeout=60) and process.returncode == 0
    assert project.files() in states
