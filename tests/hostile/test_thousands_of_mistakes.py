"""A spec that a program made, with a mistake ten thousand times: what is said of it stays short."""

from pathlib import Path

import pytest
from support.matrix import first_by_day

from envspec.base.errors import MOST, Infeasible, InfeasibleTargets, SpecErrors
from envspec.cli.main import run
from envspec.spec.parse import parse_spec

HEAD = '[env]\npython = "3.12"\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    first_by_day(
        1,
        [
            HEAD + "".join(f"unknown{number} = 1\n" for number in range(10_000)),
            HEAD + "".join(f"[targets.t{number}]\nunknown = 1\n" for number in range(5_000)),
            HEAD + "[pip]\ndependencies = [\n" + '  "a b",\n' * 10_000 + "]\n",
        ],
    ),
    ids=["keys", "targets", "requirements"],
)
def test_the_first_are_told_and_the_others_counted(text: str) -> None:
    with pytest.raises(SpecErrors) as caught:
        parse_spec(text, "a.toml")
    errors = caught.value.errors
    assert len(errors) == MOST + 1 and len(str(caught.value)) < 20_000
    assert "more" in errors[-1].message and str(errors[-1].place) == "a.toml"
    assert all(error.hint for error in errors[:MOST])


@pytest.mark.slow
def test_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(HEAD + "".join(f"unknown{number} = 1\n" for number in range(10_000)))
    assert run(["check", "a.toml"]) == 2
    told = capsys.readouterr().err
    assert told.count("error:") == MOST + 1 and "a.toml: and 9,9" in told and len(told) < 20_000


def test_targets_that_can_not_work() -> None:
    found = InfeasibleTargets(Infeasible(f"target {number}") for number in range(10_000))
    assert len(found.errors) == MOST + 1 and str(found).endswith("and 9,950 more")


def test_reasons_of_a_stale_lock() -> None:
    from envspec.cli.check import reason_lines
    from envspec.lock.freshness import reason

    found = [reason("target-added", f"target t{number} is not locked yet") for number in range(10_000)]
    told = reason_lines(found, Path("locks"), Path("recipes"))
    assert len(told) == MOST + 1 and told[-1] == "and 9,950 more: --json has them all"


@pytest.mark.slow
def test_a_round_of_requirements_that_is_larger_than_a_cache_would_be() -> None:
    """5,000 requirements in 50 targets are parsed 5,000 times, not 250,000 times."""
    from envspec.packages.names import normalise_requirement

    normalise_requirement.cache_clear()
    for _ in range(3):
        for number in range(20_000):
            normalise_requirement(f"a{number}>=1")
    assert normalise_requirement.cache_info().misses == 20_000
