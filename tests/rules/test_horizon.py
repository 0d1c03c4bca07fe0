"""A target's horizon: its last torch, why none after it, what each next move costs; on the tables' own rows."""

import pytest

from envspec.base.errors import Place
from envspec.base.finding import Finding
from envspec.facts import conda_builds, torch_builds
from envspec.packages.version_numbers import numbers
from envspec.rules.case import Case, of_target
from envspec.rules.horizon import Advance, Channel, horizon
from envspec.rules.judge import judge
from envspec.spec.model import CondaTable, Located, PipTable, Spec, Target


def case(cuda: str | None, *gpus: str, driver: str | None = None, python: str = "3.12", **changed: str) -> Case:
    return of_target(changed.get("platform", "linux-64"), python, cuda, gpus, driver, changed.get("glibc", "2.28"))


@pytest.mark.parametrize(
    ("asked", "last", "reason"),
    [
        # CUDA 12.6 ends with 2.14.1, and Volta with it; the facts have the files of 2.12.1
        (case("12.6", "V100"), "2.12.1", "the facts have no file of torch 2.13.0 for CUDA 12.6, linux-64, Python 3.12"),
        # cu128 dropped Volta a release before it ended
        (case("12.8", "V100"), "2.10.0", "torch 2.11.0+cu128 has no code for sm_70 (V100): it is compiled for 7.5"),
        (case("12.8", "H100"), "2.11.0", "torch 2.12.0 has no CUDA 12.8 build for linux-64: the last is of torch 2.11"),
        (case("11.8", "K80", python="3.9", glibc="2.17"), "2.3.1", "cuDNN 9.1.0.70, which has no code for sm_37"),
        (case("13.2", "H100", python="3.10"), None, "has no wheel for Python 3.10: it has 3.11"),
        (case("12.6", "H100", glibc="2.17"), None, "needs glibc 2.28"),
        (case("12.4", "RTX 5090"), None, "CUDA 12.4 doesn't support GeForce RTX 5090 (sm_120)"),
        (case("12.5", "H100"), None, "torch 2.15.0 has no CUDA 12.5 build for linux-64"),
        (case("13.0", "H100", driver="535.104.05"), None, "driver 535.104.05 is below 580.65.06"),
    ],
)
def test_the_last_torch_and_why(asked: Case, last: str | None, reason: str) -> None:
    found = horizon(asked, "pip")
    assert found.last == last and found.newest == torch_builds.newest().version
    assert any(reason in one for one in found.reasons), found.reasons


def test_what_each_move_costs() -> None:
    found = horizon(case("12.8", "V100", "A100", driver="570.86.15"), "pip").moves
    assert found[:3] == (
        Advance("2.12.1", "12.6"),
        Advance("2.11.0", dropped=("V100",)),
        Advance("2.13.0", "12.9", dropped=("V100",)),
    )
    assert Advance("2.15.0", "13.2", "580.65.06", ("V100",)) in found, "R580 drops no GPU; CUDA 13 does"


def test_a_driver_that_is_new_enough_costs_nothing() -> None:
    moves = horizon(case("12.8", "H100", driver="580.65.06"), "pip").moves
    assert {move.driver for move in moves} == {None}
    unknown = horizon(case("12.8", "H100"), "pip").moves
    assert {move.driver for move in unknown if move.cuda and move.cuda > "13"} == {"580.65.06"}


def test_a_jetsons_driver_is_its_jetpack() -> None:
    moves = horizon(case("12.6", "Orin", platform="linux-aarch64", glibc="2.35"), "pip").moves
    assert {(move.cuda, move.driver) for move in moves} == {("13.0", "JetPack 7.2"), ("13.2", "JetPack 7.2")}


def test_a_python_and_a_glibc_are_costs() -> None:
    (move,) = horizon(case("13.0", "H100", python="3.10"), "pip").moves
    assert move == Advance("2.15.0", "13.2", python="3.11")
    assert any(move.glibc == "2.28" for move in horizon(case("11.8", "A100", python="3.9", glibc="2.17"), "pip").moves)


def test_nothing_leads_on_where_no_gpu_would_be_left() -> None:
    assert horizon(case("12.6", "V100"), "pip").moves == ()


def test_the_newest_has_no_horizon() -> None:
    found = horizon(case("13.2", "H100"), "pip")
    assert (found.last, found.reasons, found.moves) == (found.newest, (), ())


def test_what_has_no_files_is_neither_the_last_nor_a_move() -> None:
    without = [build for build in torch_builds.builds(platform="linux-64") if not torch_builds.lockable_pythons(build)]
    assert any(build.trust == "planned" for build in without)
    for build in without:
        found = horizon(case(build.cuda, *(["H100"] if build.cuda else [])), "pip")
        assert found.last != build.version
        assert all((move.torch, move.cuda or build.cuda) != (build.version, build.cuda) for move in found.moves)


def test_condas_builds_run_with_a_newer_minor_of_their_cuda() -> None:
    found = horizon(case("12.8", "H100"), "conda")
    assert found.newest == conda_builds.versions()[-1]
    assert found.last == "2.7.1" and "conda-forge's pytorch 2.8.0 has no CUDA 12.8 build" in found.reasons[0]
    assert Advance(found.newest, "12.9") in found.moves


@pytest.mark.parametrize("channel", ["pip", "conda"])
@pytest.mark.parametrize("gpus", [["V100"], ["T4", "H100"], ["RTX 5090"], ["K80"], ["B300"], []])
def test_no_move_is_dearer_than_one_that_leads_as_far(gpus: list[str], channel: Channel) -> None:
    for cuda in ("11.8", "12.1", "12.6", "12.8", "13.0") if gpus else (None,):
        moves = horizon(case(cuda, *gpus, python="3.11"), channel).moves
        assert len(set(moves)) == len(moves)
        for one in moves:
            for other in moves:
                further = torch_builds.order(other.torch) >= torch_builds.order(one.torch)
                same = (other.driver, other.cuda, other.python, other.glibc) == (
                    *(one.driver, one.cuda, one.python, one.glibc),
                )
                assert one == other or not (further and same and set(other.dropped) <= set(one.dropped))


@pytest.mark.parametrize("cuda", ["11.8", "12.4", "12.6", "12.8", "13.0", "13.2"])
def test_the_last_is_the_verdicts_newest_that_works(cuda: str) -> None:
    """The horizon has no judgement of its own."""
    here = Place("specs/s.toml", 1, 1)
    torch = PipTable((Located("torch", here),))
    for gpu in ("V100", "T4", "A100", "H100", "RTX 5090"):
        target = Target("t", "linux-64", cuda, (gpu,), glibc="2.28", place=here)
        verdict = judge(Spec("specs/s.toml", "s", "3.12", (target,), pip=torch), target)
        held = torch_builds.lockable("linux-64", torch_builds.variant_of(cuda), "3.12")
        feasible = [one for one in verdict.feasible if one in held] if not verdict.errors else ()
        assert horizon(case(cuda, gpu), "pip").last == next(iter(feasible), None)


# Past the tables' horizon an error becomes a warning; within it, and where a requirement ends, it stays one.


HERE = Place("specs/s.toml", 1, 1)


LAST = torch_builds.newest().version


NEXT_CUDA = f"{max(numbers(build.cuda)[0] for build in torch_builds.builds() if build.cuda) + 1}.0"


NEXT_PYTHON = f"3.{max(numbers(python)[1] for build in torch_builds.builds() for python in build.pythons) + 1}"


def found(
    *pip: str, cuda: str | None = "13.2", python: str = "3.12", conda: tuple[str, ...] = (), gpu: str = "H100"
) -> dict[str, Finding]:
    target = Target("t", "linux-64", cuda, (gpu,) if cuda else (), glibc="2.28", place=HERE)
    table = PipTable(tuple(Located(text, HERE) for text in pip))
    matches = CondaTable(("conda-forge",), tuple(Located(text, HERE) for text in conda))
    findings = judge(Spec("specs/s.toml", "s", python, (target,), pip=table, conda=matches), target).findings
    return {finding.code: finding for finding in findings}


@pytest.mark.parametrize("asked", ["torch", "torch>=2.9", "torch<4", "torch>=2.0,!=2.1.0"])
def test_a_cuda_that_no_known_torch_has_may_be_a_newer_ones(asked: str) -> None:
    one = found(asked, cuda=NEXT_CUDA)["no-build"]
    assert one.severity == "warning" and one.message.endswith("one that envspec doesn't know may have it")
    assert one.remedy and one.remedy.startswith("Nearest: ")


@pytest.mark.parametrize("asked", [f"torch=={LAST}", "torch<2.10", "torch==2.9.*", "torch~=2.9.0"])
def test_a_requirement_that_ends_within_the_tables_stays_an_error(asked: str) -> None:
    assert found(asked, cuda=NEXT_CUDA)["no-build"].severity == "error"
    assert found(asked, cuda=None, python=NEXT_PYTHON)["python-too-new"].severity == "error"


def test_a_python_that_no_known_torch_has_may_be_a_newer_ones() -> None:
    for cuda in ("13.2", None):
        assert found("torch", cuda=cuda, python=NEXT_PYTHON)["python-too-new"].severity == "warning"


def test_what_the_tables_know_stays_an_error() -> None:
    """A newer torch brings back no CUDA and no Python that the known ones have left behind."""
    assert found("torch", cuda="12.8", python="3.7")["python-too-old"].severity == "error"
    assert found("torch>=2.12", cuda="12.8")["no-build"].severity == "error"
    assert found("torch", gpu="V100")["cuda-dropped-gpu"].severity == "error"


def test_condas_builds_too() -> None:
    assert found(conda=("pytorch",), cuda=NEXT_CUDA)["no-build"].severity == "warning"
    assert found(conda=("pytorch 2.13.*",), cuda=NEXT_CUDA)["no-build"].severity == "error"


def test_a_companion_that_is_newer_decides_by_its_metadata() -> None:
    """It was an error: no known torch is for it."""
    assert {code: one.severity for code, one in found("torchvision==0.99.0").items()} == {
        "companion-newer-than-tables": "info"
    }


def test_a_move_drops_the_chip_that_no_such_machine_has() -> None:
    moves = horizon(case("12.6", "Orin", "H100"), "pip").moves
    assert moves and all("Jetson AGX Orin" in move.dropped for move in moves)
