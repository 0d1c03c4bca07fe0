"""The shipped specs, proved on this machine: every target × runner that it can run; the others are skipped by name."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tomli
from support.smoke_runs import whole_run

from envspec.pytest_plugin import PROGRAMS, SmokeTarget, Unproved, cases, prove, skip_reason

ROOT = Path(__file__).resolve().parents[3]


def named(path: Path) -> list[SmokeTarget]:
    """The cases of a spec by its own text: reading ten locks takes a twentieth of each worker's collection."""
    spec = tomli.loads(path.read_text(encoding="utf-8"))
    return [
        SmokeTarget(str(path), spec["env"]["name"], name, runner) for name in spec["targets"] for runner in PROGRAMS
    ]


SHIPPED = [case for path in sorted((ROOT / "specs").glob("*.toml")) for case in named(path)]


@pytest.mark.nightly  # tests/e2e trains one of each kind for each commit
@pytest.mark.network
@pytest.mark.e2e
@pytest.mark.parametrize("case", [pytest.param(case, id=str(case)) for case in SHIPPED])
def test_it_trains(
    case: SmokeTarget, record_property: Callable[[str, object], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        run = prove(case, ask=whole_run(tmp_path_factory))
    except Unproved as problem:
        if "can't be made (status 3)" in str(problem):
            # the index that it needs isn't reached from here; what it has is in nobody's hands
            pytest.skip(f"{case}: no files of its environment here: {problem}")
        pytest.fail(str(problem), pytrace=False)
    record_property("headline", run.headline)


def test_every_shipped_target_is_a_case() -> None:
    names = {str(case) for case in SHIPPED}
    assert sorted(names) == sorted(map(str, cases([ROOT / "specs"], tuple(PROGRAMS))))
    assert {f"cpu-py311-cpu-{runner}" for runner in PROGRAMS} <= names
    assert len(names) == len(SHIPPED)


@pytest.mark.parametrize("case", [case for case in SHIPPED if case.spec == "dev"], ids=str)
def test_a_target_without_a_framework_isnt_checked(case: SmokeTarget) -> None:
    assert skip_reason(case) == (
        "the target locks none of torch, jax, tensorflow, onnxruntime, cupy, rapids: nothing of it is checked"
    )
