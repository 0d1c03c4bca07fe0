"""What the rules refuse of a solution becomes a bound, and is solved again."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace
from support.told import ByRequest, pin

from envspec.base.errors import Infeasible
from envspec.base.finding import Finding
from envspec.lock.model import Lock, Pin, SolverView
from envspec.packages.conflict import Unsatisfiable
from envspec.packages.metadata import Metadata
from envspec.packages.requirement import parse_requirement, published_requirement
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.workflow.bounded import (
    GivenUp,
    describe_moves,
    explain_refusals,
    of_one_cause,
    retreats,
    sacrifices,
)
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.parse import parse_spec

DSL = "nvidia-cutlass-dsl-libs-cu13"
NEW = (pin("vllm", "0.26.0", "nvidia-cutlass-dsl"), pin("nvidia-cutlass-dsl", "4.6.0", DSL), pin(DSL, "4.6.0"))
OLD = (pin("vllm", "0.21.0", "nvidia-cutlass-dsl"), pin("nvidia-cutlass-dsl", "4.4.2"))


class Solver(ByRequest):
    """Knows two releases of vllm, of which the newer needs CUDA 13."""

    def __init__(self, old: bool = True) -> None:
        self.old = old
        self.asked: list[Mapping[str, Request]] = []

    def answer(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> Mapping[str, tuple[Pin, ...]]:
        self.asked.append(requests)
        return {name: self._pins(name, request) for name, request in requests.items()}

    def _pins(self, name: str, request: Request) -> tuple[Pin, ...]:
        pins: tuple[Pin, ...] = NEW
        if f"{DSL}<0" in request.constraints:
            if not self.old:
                raise Unsatisfiable(f"{name}: vllm can't be had")
            pins = OLD
        return tuple(replace(one, direct=one.name == "vllm") for one in pins)


def locked(solver: Solver, asked: str = "vllm", **cudas: str) -> tuple[Lock, tuple[Finding, ...]]:
    targets = "".join(f'[targets.{name}]\nplatform = "linux-64"\ncuda = "{cuda}"\n' for name, cuda in cudas.items())
    text = f"[env]\npython = '3.12'\n[pip]\ndependencies = ['{asked}']\n{targets}"
    return relock(RelockRequest(parse_spec(text, "specs/demo.toml")), Resolvers(solver))


def test_a_pin_of_another_cuda_is_given_up_and_told() -> None:
    solver = Solver()
    lock, notices = locked(solver, a="12.8")
    (target,) = lock.targets
    assert {one.name: one.version for one in target.pins} == {"vllm": "0.21.0", "nvidia-cutlass-dsl": "4.4.2"}
    assert [asked["a"].constraints for asked in solver.asked] == [(), (f"{DSL}<0",)]
    assert [one.text for one in notices] == [
        f"a: vllm 0.21.0 is locked, not 0.26.0, which leads to nvidia-cutlass-dsl → {DSL}: "
        f"{DSL} 4.6.0 belongs to CUDA 13, and the target is for CUDA 12.8; with nvidia-cutlass-dsl 4.4.2 for 4.6.0, "
        f"no {DSL}"
    ]


def test_where_nothing_works_the_way_and_the_nearest_change_are_named() -> None:
    """The target for CUDA 13 has its solution, and isn't accused."""
    with pytest.raises(Infeasible) as error:
        locked(Solver(old=False), a="12.8", b="13.0")
    assert str(error.value).endswith(f"for CUDA 12.8 (vllm → nvidia-cutlass-dsl → {DSL})")
    assert str(error.value.hint).startswith('cuda = "13.2" in the target; or if you know that it is safe')


def test_a_release_that_works_is_told_of_where_the_specs_bounds_leave_it_out() -> None:
    """The spec without these bounds is solved, and told; never locked."""

    class Pinned(Solver):
        def _pins(self, name: str, request: Request) -> tuple[Pin, ...]:
            self.old = "vllm==0.26.0" not in request.requirements
            return super()._pins(name, request)

    solver = Pinned()
    with pytest.raises(Infeasible, match="belongs to CUDA 13") as error:
        locked(solver, a="12.8", asked="vllm==0.26.0")
    assert str(error.value.hint).startswith('write "vllm": without its bounds; or cuda = "13.2" in the target; or ')
    assert len(solver.asked) == 7, "twice before the refusal, and three changes to their end"


def test_without_a_bound_for_every_refusal_nothing_is_tried() -> None:
    bound = Finding("error", "cuda-major-mixed", "b is wrong", bound="b<0")
    other = Finding("error", "no-build", "c is wrong")
    pins = (pin("a", "1", "b"), pin("b", "2"))
    assert sacrifices([bound, other], pins, ["a"]) == ()
    (one,) = sacrifices([bound, Finding("warning", "x", "odd")], pins, ["a"])
    assert one == GivenUp(bound, ("a", "b"), {"a": "1", "b": "2"})
    assert explain_refusals([other], pins, ["a"]) == (other,)
    (told,) = explain_refusals([bound], pins, ["a<2"])
    assert told.message == "b is wrong (a → b)" and [one.text for one in told.ways] == [
        'write "a": without its bounds', "leave a out"
    ]  # fmt: skip


def test_a_package_that_had_to_move_is_told_once() -> None:
    bad = "cuda-major-mixed"
    findings = [Finding("error", bad, f"{one} is wrong", package=one, bound=f"{one}<0") for one in ("b", "c")]
    gone = sacrifices(findings, (pin("a", "2", "b", "c"), pin("b", "2"), pin("c", "2")), ["a"])
    how = 'if you know that it is safe here, add to [pip]: accept = { cuda-major-mixed = { b = "why" } }'
    (moved,) = describe_moves(gone, {"a": "1"})
    why = "a 1 is locked, not 2, which leads to b: b is wrong; with no b, no c"
    assert (moved.message, moved.remedy, moved.package) == (why, how, "a")
    moved = describe_moves(gone, {"a": "2", "c": "2"})[0]
    assert (moved.message, moved.remedy, moved.package) == ("b isn't locked: b is wrong", how, "b")


def test_packages_of_another_major_are_one_error_with_the_ways_to_them() -> None:
    names = ("nvidia-cublas", "nvidia-cufft", "nvidia-nvtx", "nvidia-curand", "nvidia-nccl")
    pins = (pin("a", "1", "cupy-cuda13x"), pin("cupy-cuda13x", "13", *names), *(pin(name, "13") for name in names))
    mixed = [
        Finding("error", "cuda-major-mixed", f"{one} 13 belongs to CUDA 13, the target is for 12.8", bound=f"{one}<0")
        for one in ("cupy-cuda13x", *names)
    ]
    other = Finding("error", "no-build", "c is wrong")
    whole, kept = of_one_cause([*mixed, other], pins, ["a"])
    assert kept == other
    assert whole.message == (
        "cupy-cuda13x 13 belongs to CUDA 13, the target is for 12.8, as do nvidia-cublas, nvidia-cufft, nvidia-nvtx"
        " and 2 more; the spec leads there by a → cupy-cuda13x"
    )
    assert [one.text for one in whole.ways] == ["leave a out"]
    assert of_one_cause(mixed[:1], pins, ["a"]) == (mixed[0],)


def gave_up(outgrown: bool) -> GivenUp:
    finding = Finding("error", "built-for-another", "b 2 is for CUDA 12", bound="b<0", outgrown=outgrown)
    return GivenUp(finding, ("a", "b"), {"a": "2", "b": "2"})


@pytest.mark.parametrize(
    ("outgrown", "requires", "refused"),
    [
        (False, (), False),
        (True, (), True),
        (True, ("torch>=2.8",), True),
        (True, ("torch<3",), True),
        (True, ("torch==2.14.*",), False),
        (True, ("torch<2.15",), False),
        (True, ("torch==2.8.0",), True),
    ],
)
def test_an_older_release_without_what_was_outgrown_must_name_the_torch(
    outgrown: bool, requires: tuple[str, ...], refused: bool
) -> None:
    """What is made for more than the target has may be answered by anything older; what is made for less may not."""
    pins = (pin("a", "1", *requires), pin("torch", "2.14.1+cu130"))
    found = retreats([gave_up(outgrown)], pins)
    assert bool(found) == refused
    if refused:
        (one,) = found
        assert one.message == "a 2 leads to b: b 2 is for CUDA 12; a 1 doesn't, and names nothing newer"
        older = 'add to [pip]: constraints = ["a<=1"]'
        assert one.package == "a" and older in [way.text for way in one.ways], "the spec's line keeps its extras"


def test_a_newer_python_may_bring_the_release_for_the_targets_cuda() -> None:
    """xgboost 3.4.1 is the first for CUDA 13, and takes Python 3.12 and newer: Python 3.11 led to 2.0.3."""
    (found,) = retreats([gave_up(True)], (pin("a", "1"),), "3.12")
    assert [one.python for one in found.ways if one.python] == ["3.13", "3.14"]


def test_a_release_of_the_targets_cuda_names_it_by_its_version() -> None:
    """cuda-python 12.6.2 in a target for CUDA 13 gives way to 13.4.4, which requires no torch."""
    finding = Finding("error", "cuda-major-mixed", "of CUDA 12", bound="cuda-python==13.*", outgrown=True)
    one = GivenUp(finding, ("a", "cuda-python"), {"a": "1", "cuda-python": "12.6.2"})
    assert retreats([one], (pin("a", "1"), pin("cuda-python", "13.4.4"))) == ()
    assert retreats([one], (pin("a", "0.9"),)) != (), "a went back, and cuda-python with it"


@pytest.mark.parametrize(("offers", "line"), [(("cu12", "cu13"), "a[cu13]>=2"), (("cu12",), None)])
def test_an_extra_of_another_cuda_is_told_with_its_counterpart(offers: tuple[str, ...], line: str | None) -> None:
    mixed = Finding("error", "cuda-major-mixed", "b is of CUDA 12", bound="b==13.*")
    pins = (replace(pin("a", "2", "b"), solver=SolverView(Metadata("a", "2", provides_extra=offers))), pin("b", "12.9"))
    (told,) = explain_refusals([mixed], pins, ["a[cu12]>=2"], "13.0")
    (gave,) = sacrifices([mixed], pins, ["a[cu12]>=2"], "13.0")
    assert [one.line for one in gave.finding.ways] == ([line] if line else [])
    assert [one.line for one in told.ways if one.line] == ["a", *([line] if line else [])]
    assert parse_requirement("a[cu12]>=2") == published_requirement("a[cu12]>=2"), "what all read stays"


def test_a_release_without_the_torch_that_the_newer_one_had_is_no_answer() -> None:
    one = gave_up(False)
    lost = GivenUp(one.finding, one.path, {**one.pins, "torch": "2.14.1"})
    assert retreats([lost], (pin("a", "1"), pin("torch", "2.14.1"))) == ()
    (found,) = retreats([lost], (pin("a", "1"),))
    assert found.code == "retreat" and found.package == "a"
