"""Which older release is an answer: uv on pages of real packages as they were on one day."""

import resource
from pathlib import Path

import pytest
from recorded_retreats import CASES, RECORDED, answer
from stacks.recording import RecordedPyPI, Recording
from support.machine import Machine

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording.load(RECORDED)


@pytest.mark.by_commit(3)
@pytest.mark.parametrize("name", CASES)
def test_an_older_release_is_an_answer_only_if_it_names_what_the_target_has(
    name: str, recording: Recording, tmp_path: Path
) -> None:
    one = CASES[name]
    with RecordedPyPI(recording=recording) as index:
        said = answer(one, Machine(tmp_path, default=index.url))
    if isinstance(one.right, str) or isinstance(said.came, str):
        assert said.came == one.right, said.text
    else:
        assert one.right.items() <= said.came.items()
    assert [words for words in one.said if words not in said.text] == [], said.text


REFUSED = [name for name, one in CASES.items() if one.right in ("refuse", "unsatisfiable")]


def spent() -> float:
    """The processor's seconds of this process, and of the uvs that it started and waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.mark.nightly
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_takes_no_ten_seconds_with_warm_caches(name: str, recording: Recording, tmp_path: Path) -> None:
    """Counted in processor's seconds of envspec and uv, which a busy machine lengthens little."""
    with RecordedPyPI(recording=recording) as index:
        machine = Machine(tmp_path, default=index.url)
        first = answer(CASES[name], machine)
        before = spent()
        again = answer(CASES[name], machine)
        taken = spent() - before
    assert again.came == first.came == CASES[name].right
    assert taken < 10, f"{taken:.1f} s"


def test_ten_conflicts_are_recorded() -> None:
    assert len(REFUSED) >= 10


def test_the_recording_is_small() -> None:
    assert sum(path.stat().st_size for path in RECORDED.iterdir()) < 600_000
