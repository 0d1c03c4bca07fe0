"""The specs of examples/ lock, from the recordings alone: PyPI's pages of November 2026, and conda-forge's records."""

from pathlib import Path

import pytest
from stacks.recording import RecordedPyPI, Recording
from support.machine import Machine

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.toml"))
pytestmark = pytest.mark.slow  # the recording takes seconds to unpack


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording.load()


@pytest.mark.by_commit(3)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_locks(example: Path, recording: Recording, recorded_data: Path, tmp_path: Path) -> None:
    pypi = RecordedPyPI(recording=recording)
    with pypi:
        machine = Machine(tmp_path, pypi.url)
        machine.configure(f'conda-forge = "{(recorded_data / "conda-forge").as_uri()}"')
        machine.spec(example.read_text(encoding="utf-8"), example.stem)
        locked = machine.locked(name=example.stem, seconds=300)
    assert pypi.unknown == []
    assert all(target.pins for target in locked.targets)
