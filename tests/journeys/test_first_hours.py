"""Each of the five users' first hour, in this process. `python -m bench first_hours` times the same in processes."""

from pathlib import Path

import pytest
from first_hours import hours, live, place
from stacks.recording import Recording
from support.machine import Ran

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

HOURS = hours()


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording.load()


@pytest.mark.parametrize("user", HOURS)
def test_a_first_hour(user: str, recording: Recording, tmp_path: Path) -> None:
    hour = HOURS[user]
    with place(tmp_path, recording, hour) as machine:

        def run(arguments: list[str]) -> Ran:
            # what becomes another program has to be a process
            return machine.envspec(*arguments, seconds=300, spawn=arguments[0] == "run")

        done = {line.split()[1] for line in live(machine, hour, run)}
    assert {"init", "lock", "check", "export", "diff", "run"} <= done
