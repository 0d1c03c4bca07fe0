"""Exact pins before they become a lock: what is refused of them."""

import pytest
from msgspec.structs import replace
from support.told import CondaTold, Told, pin

from envspec.base.errors import IndexFailure, Infeasible, InfeasibleTargets, InternalError
from envspec.base.finding import Finding
from envspec.lock.inputs import spec_case
from envspec.lock.model import Artifact, LockedTarget, Pin
from envspec.resolve.workflow.accept import accept, of_pins
from envspec.resolve.workflow.keep import Kept
from envspec.resolve.workflow.prepare import prepare
from envspec.resolve.workflow.solve import Resolvers, solve
from envspec.spec.parse import parse_spec
from envspec.spec.way import Way

LINUX = 'platform = "linux-64"'
V100 = f'{LINUX}\ncuda = "12.8"\ngpus = ["V100"]'


NO_RELEASES = Resolvers(Told()).releases


def accepted(told: Told, pip: str, lines: str = LINUX) -> tuple[tuple[LockedTarget, ...], tuple[Finding, ...]]:
    """Targets `a` and `b`, solved as `told` answers. What preparing tells is left out."""
    tables = f"[targets.a]\n{lines}\n[targets.b]\n{lines}\n"
    spec = parse_spec(f"[env]\npython = '3.12'\n[pip]\ndependencies = [{pip}]\n{tables}", "specs/demo.toml")
    solved = solve(prepare(spec_case(spec), spec.targets), Resolvers(told), Kept())
    return accept(spec, [replace(one, judged=of_pins(spec, one, NO_RELEASES)) for one in solved])


def test_pins_are_in_the_locks_order() -> None:
    (a, _), _ = accepted(Told(pin("numpy", "2.0", "beta"), pin("beta", "1.0")), "'numpy'")
    assert [one.name for one in a.pins] == ["beta", "numpy"]


def test_pins_that_cannot_work_are_refused_for_all_targets_at_once() -> None:
    torch = pin("torch", "2.11.0+cu128", index="pytorch/cu128")
    with pytest.raises(InfeasibleTargets, match=r"b: torch 2\.11\.0\+cu128 has no code for sm_70") as several:
        accepted(Told(torch), "'torch'", V100)
    assert [error.ways[0].line for error in several.value.errors] == ["torch==2.10.0", "torch==2.10.0"]


def test_a_wheel_without_the_cuda_that_pypis_own_has_is_a_cpu_build() -> None:
    with pytest.raises(Infeasible, match=r"a asks for CUDA 12\.8, but torch 2\.9\.1 from pypi is a CPU build") as error:
        accepted(Told(pin("torch", "2.9.1")), "'torch'", V100)
    assert error.value.place is not None and error.value.place.line == 7
    assert "`envspec builds torch --cuda 12.8`" in str(error.value.hint)


def test_a_result_that_contradicts_itself_is_never_written() -> None:
    with pytest.raises(InternalError, match="a: the resolution contradicts itself"):
        accepted(Told(replace(pin("numpy", "2.0"), build="py312_0")), "'numpy'")


@pytest.mark.parametrize(
    ("pins", "said", "ways"),
    [
        (
            (pin("numpy", "2.0", "beta>=2"), pin("beta", "1.0")),
            r"numpy requires beta>=2, but beta is 1\.0 \(numpy-2\.0-py3-none-any\.whl of pypi\)",
            [Way(overrides=("beta==1.0",))],
        ),
        ((pin("numpy", "2.0", "beta"),), r"numpy requires beta, but nothing .* \(numpy-2\.0", [Way(more=("beta",))]),
        ((pin("numpy", "2.0"), pin("beta", "1.0")), r"beta is pinned, but .* \(beta-1\.0", [Way(more=("beta",))]),
        (
            (replace(pin("numpy", "2.0"), artifact=Artifact("numpy-2.0-cp312-cp312-win32.whl", "0" * 64, 1)),),
            r"numpy-2\.0-cp312-cp312-win32\.whl doesn't run on linux-64",
            [],
        ),
    ],
)
def test_what_files_of_others_say_is_never_envspecs_fault(pins: tuple[Pin, ...], said: str, ways: list[Way]) -> None:
    """The file that is installed may say otherwise than the one that uv read, and an index may serve anything. The ways
    are tried before they are told."""
    with pytest.raises((Infeasible, IndexFailure), match=f"a: {said}") as error:
        accepted(Told(*pins), "'numpy'")
    assert list(error.value.ways) == ways
    assert error.value.hint == (None if ways else "report this to whoever runs the index")
    assert error.value.about[0] in said


def test_what_condas_records_say_is_mended_in_condas_part_of_the_spec() -> None:
    wanted = "[conda]\nchannels = ['conda-forge']\ndependencies = ['libx']\n"
    spec = parse_spec(f"[env]\npython = '3.12'\n{wanted}[targets.a]\n{LINUX}", "specs/demo.toml")
    prepared = prepare(spec_case(spec), spec.targets)

    def record(name: str, version: str, *depends: str) -> Pin:
        file = Artifact(f"{name}-{version}-h1_0.conda", "0" * 64, 1, "0" * 32)
        return Pin("conda", name, version, "conda-forge/linux-64", file, depends, build="h1_0")

    base = record("python", "3.12.12"), record("libx", "1.0", "liby >=2")
    for more, ways in (((), [Way(conda="liby")]), ((record("liby", "1.0"),), [])):
        (solved,) = solve(prepared, Resolvers(Told(), CondaTold(*base, *more)), Kept())
        with pytest.raises(Infeasible, match="a: libx requires liby >=2, but") as error:
            accept(spec, (solved,))
        assert list(error.value.ways) == ways


def test_condas_pins_are_judged_by_their_builds() -> None:
    build = "cpu_mkl_py312_h1_100"
    artifact = Artifact(f"pytorch-2.7.1-{build}.conda", "0" * 64, 1, "0" * 32)
    torch = Pin("conda", "pytorch", "2.7.1", "conda-forge/linux-64", artifact, build=build, provides=("torch",))
    wanted = "[conda]\nchannels = ['conda-forge']\ndependencies = ['pytorch ==2.7.1']\n"
    spec = parse_spec(f"[env]\npython = '3.12'\n{wanted}[targets.a]\n{V100}", "specs/demo.toml")
    prepared = prepare(spec_case(spec), spec.targets)
    (solved,) = solve(prepared, Resolvers(Told(), CondaTold(torch)), Kept())
    (found,) = of_pins(spec, solved, NO_RELEASES)
    assert found.text == f"pytorch 2.7.1 ({build}) is the CPU build, and the target is for CUDA 12.8"


@pytest.mark.parametrize(("cudnn", "codes"), [("9.10.2.21", []), ("9.13.1.26", ["cudnn-architecture"])])
def test_condas_cudnn_is_judged_as_it_is_locked(cudnn: str, codes: list[str]) -> None:
    """cuDNN 9.11 left out the V100, which conda-forge's pytorch 2.7.1 has code for (data/libraries.toml)."""
    wanted = "[conda]\nchannels = ['conda-forge']\ndependencies = ['pytorch ==2.7.1']\n"
    spec = parse_spec(f"[env]\npython = '3.12'\n{wanted}[targets.a]\n{V100}", "specs/demo.toml")
    records = {"pytorch": ("2.7.1", "cuda126_mkl_py312_h30b5a27_300"), "cudnn": (cudnn, "hbcb9cd8_0")}
    pins = (
        Pin("conda", name, version, "conda-forge/linux-64", Artifact("x.conda", "0" * 64, 1, "0" * 32), build=build)
        for name, (version, build) in records.items()
    )
    prepared = prepare(spec_case(spec), spec.targets)
    (solved,) = solve(prepared, Resolvers(Told(), CondaTold(*pins)), Kept())
    assert [one.code for one in of_pins(spec, solved, NO_RELEASES)] == codes
