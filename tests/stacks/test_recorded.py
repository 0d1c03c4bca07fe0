"""The recorded stacks lock from the recording alone, and from the real index to the same bytes."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.uv_questions import questions

from stacks.answers import SECONDS
from stacks.projects import Project, projects
from stacks.recording import EACH_COMMIT, RECORDING, RecordedPyPI, Recording, lock, machine_of
from stacks.results import read_results

RECORDED = [project for project in projects().values() if project.recorded]
pytestmark = pytest.mark.slow  # the recording takes seconds to unpack


@pytest.fixture(scope="session")
def recording() -> Recording:
    return Recording.load()


@pytest.fixture
def pypi(recording: Recording) -> Iterator[RecordedPyPI]:
    index = RecordedPyPI(recording=recording)
    with index:
        yield index


@pytest.mark.by_commit(2)
@pytest.mark.parametrize(
    "project",
    [
        pytest.param(project, marks=() if project.name in EACH_COMMIT else pytest.mark.nightly, id=project.name)
        for project in RECORDED
    ],
)
def test_a_recorded_stack_locks_without_the_real_index(project: Project, pypi: RecordedPyPI, tmp_path: Path) -> None:
    with questions() as asked:
        locked, _ = lock(project, tmp_path, pypi.url)
    assert pypi.unknown == []
    # by floors and bounds, as one that rules have refused is asked again: uv's own answer, and up to four with bounds
    assert max(len({(one.constraints, one.own, one.glibc) for one in several}) for several in asked.values()) <= 5
    (target,) = locked.targets
    row = read_results()[project.name]
    assert len(target.pins) == row.packages, "results.toml has another number"


@pytest.mark.nightly
@pytest.mark.parametrize("project", RECORDED[:20], ids=lambda project: project.name)
def test_an_upgrade_does_what_outdated_says(project: Project, pypi: RecordedPyPI, tmp_path: Path) -> None:
    name = project.name
    with machine_of(project, tmp_path, pypi.url) as machine:
        before = machine.locked(name=name, seconds=SECONDS)
        said = json.loads(machine.envspec("outdated", f"specs/{name}.toml", "--all", "--json", seconds=SECONDS).out)
        machine.envspec("upgrade", f"specs/{name}.toml", seconds=SECONDS, status=0)
        (was,), (now,) = before.targets, machine.lock(name).targets
    moves = {one["name"]: one["upgrade"] for one in said["newer"] if one["upgrade"] != one["locked"].partition("+")[0]}
    after = {pin.name: pin.version.partition("+")[0] for pin in now.pins}
    moved = {pin.name: after[pin.name] for pin in was.pins if pin.version.partition("+")[0] != after[pin.name]}
    assert moved == moves


@pytest.mark.network
@pytest.mark.nightly
@pytest.mark.parametrize("project", RECORDED, ids=lambda project: project.name)
def test_the_real_index_gives_the_same_bytes(project: Project, pypi: RecordedPyPI, tmp_path: Path) -> None:
    _, real = lock(project, tmp_path / "real", os.environ.get("UV_DEFAULT_INDEX"))
    _, recorded = lock(project, tmp_path / "recorded", pypi.url)
    assert real == recorded


def test_the_recording_is_small_and_holds_nothing_after_its_date(recording: Recording) -> None:
    assert sum(path.stat().st_size for path in RECORDING.iterdir()) < 15_000_000
    times = {str(row[3]) for rows in recording.pages.values() for row in rows}
    assert max(times) < "2026-11-01T00:00:00Z"
    assert not any("://" in str(row[:2]) for rows in recording.pages.values() for row in rows)
