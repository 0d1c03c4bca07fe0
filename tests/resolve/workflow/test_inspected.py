"""What wheels say of themselves bounds a solution, stands in the lock, and is replayed from there."""

from collections.abc import Collection, Mapping, Sequence

import pytest
from msgspec.structs import replace
from support.told import ByRequest, pin

from envspec.base.finding import Finding
from envspec.lock.freshness import reasons
from envspec.lock.inputs import spec_case
from envspec.lock.model import Artifact, Lock, LockedCorrection, Pin
from envspec.lock.read import loads
from envspec.lock.write import dumps
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.workflow.keep import Upgrade
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.rules.wheel_code import WheelBuild
from envspec.spec.model import Spec
from envspec.spec.parse import parse_spec

ACME = replace(pin("acme", "2.0", "numpy"), direct=True)
ACME = replace(ACME, artifact=Artifact("acme-2.0-cp312-cp312-manylinux_2_17_x86_64.whl", "a" * 64, 1))
assert ACME.artifact is not None
READ = LockedCorrection("acme", "2.0", ACME.artifact.file, ACME.artifact.sha256, "numpy<2", "compiled for NumPy 1")


class Solver(ByRequest):
    """Has acme 2.0 and 1.0, NumPy 1 and 2, keeps what it may, and goes back to acme 1.0 before it does to NumPy 1."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> Mapping[str, tuple[Pin, ...]]:
        self.asked += 1
        return {name: self._pins(request, keep.get(name, Preferences())) for name, request in requests.items()}

    def _pins(self, request: Request, keep: Preferences) -> tuple[Pin, ...]:
        for acme, numpy in ((ACME, keep.versions.get("numpy", "2.2.6")), (OLD, "2.2.6"), (ACME, "1.26.4")):
            bounds = request.corrections.bounds("acme", acme.version, ["numpy"])
            if numpy.startswith("1") or "numpy<2" not in bounds:
                return (acme, pin("numpy", numpy))
        raise AssertionError


OLD = replace(ACME, version="1.0", artifact=Artifact(READ.file.replace("2.0", "1.0"), "b" * 64, 1))


class Wheels:
    """Reads acme: `rows` is what its wheels say. `known` are those that are in the cache."""

    def __init__(self, *rows: LockedCorrection, known: bool = False) -> None:
        self.rows, self.known = rows, known
        self.read_about: list[frozenset[tuple[str, str]]] = []

    def recalls(self, one: LockedCorrection, pin: Pin) -> bool:
        return self.known and one in self.rows and one.is_of(pin)

    def builds(
        self, pins: Sequence[Pin], cuda: str | None, platform: str, capabilities: Collection[str]
    ) -> Mapping[str, WheelBuild]:
        return {}

    def read(self, pins: Sequence[Pin], about: Collection[tuple[str, str]] = ()) -> Sequence[LockedCorrection]:
        self.read_about.append(frozenset(about))
        broken = any(pin.name == "numpy" and pin.version.startswith("2") for pin in pins)
        return [
            one for one in self.rows if any(map(one.is_of, pins)) and (broken or (one.package, one.constraint) in about)
        ]


def spec(more: str = "") -> Spec:
    text = f"[env]\npython = '3.12'\n[pip]\ndependencies = ['acme']\n{more}\n[targets.a]\nplatform = \"linux-64\"\n"
    return parse_spec(text, "specs/demo.toml")


def locked(old: Lock | None = None, upgrade: Upgrade | None = None, more: str = "") -> Lock:
    """Lock the spec with a wheel that says `READ`."""
    inspect = Wheels(READ, known=old is not None)
    return relock(RelockRequest(spec(more), old, upgrade=upgrade or Upgrade()), Resolvers(Solver(), inspect=inspect))


def numpy(lock: Lock) -> str:
    found = lock.targets[0].pin("numpy")
    assert found is not None
    return found.version


def test_an_older_release_that_says_nothing_is_free_of_it() -> None:
    """Another bound led to acme 1.0, and it was compiled for NumPy 2."""

    class Bounded(Solver):
        def _pins(self, request: Request, keep: Preferences) -> tuple[Pin, ...]:
            return self._older(request) if self.asked > 1 else (ACME, pin("numpy", "2.2.6"))

        def _older(self, request: Request) -> tuple[Pin, ...]:
            bound = "numpy<2" in request.corrections.bounds("acme", "1.0", ["numpy"])
            return (OLD, pin("numpy", "1.26.4" if bound else "2.2.6"))

    solver = Bounded()
    lock = relock(RelockRequest(spec()), Resolvers(solver, inspect=Wheels(READ)))
    assert (numpy(lock), lock.corrections, solver.asked) == ("2.2.6", (), 3)


@pytest.mark.parametrize("more", ["inspect = false", "[targets.a.pip]\ninspect = false"])
def test_with_inspect_false_no_wheel_is_read(more: str) -> None:
    first = locked()
    wheels = Wheels(READ, known=True)
    if "targets" in more:
        text = f"[env]\npython = '3.12'\n[pip]\ndependencies = ['acme']\n[targets.a]\nplatform = \"linux-64\"\n{more}\n"
        asked = parse_spec(text, "specs/demo.toml")
    else:
        asked = spec(more)
    told: list[Finding] = []
    upgrade = Upgrade(everything=True)
    lock = relock(RelockRequest(asked, first, upgrade=upgrade), Resolvers(Solver(), inspect=wheels), told.append)
    assert (numpy(lock), lock.corrections, wheels.read_about) == ("2.2.6", (), [])
    assert [(finding.code, finding.text.partition(":")[0]) for finding in told] == [("not-inspected", "a")]
    assert "\ninspect = false\n" in dumps(lock)
    assert loads(dumps(lock), "envspec.lock") == lock
    assert {reason.code for reason in reasons(spec_case(asked), first)} == {"inspect-changed"}
    assert reasons(spec_case(asked), lock) == ()


def test_it_is_switched_off_by_name() -> None:
    first = locked()
    upgrade = Upgrade(packages=frozenset({"numpy"}))
    lock = locked(first, upgrade, more="without-corrections = ['acme-read-numpy']")
    assert (numpy(lock), lock.corrections) == ("2.2.6", ())


def test_rows_of_targets_that_stay_are_kept_and_others_go() -> None:
    text = "[env]\npython = '3.12'\n[pip]\ndependencies = ['acme']\n"
    both = parse_spec(text + "".join(f"[targets.{one}]\nplatform = 'linux-64'\n" for one in "ab"), "specs/demo.toml")
    first = relock(RelockRequest(both), Resolvers(Solver(), inspect=Wheels(READ)))
    stale = replace(READ, package="gone")
    old = replace(first, corrections=(READ, stale))
    again = relock(RelockRequest(both, old, only=["a"]), Resolvers(Solver(), inspect=Wheels(READ, known=True)))
    assert again.corrections == (READ,)


def test_a_row_that_the_spec_says_itself_leaves_the_lock() -> None:
    assert locked(locked(), more="constraints = ['numpy<2']").corrections == ()


def test_a_row_that_its_wheel_confirms_is_replayed() -> None:
    first, solver = locked(), Solver()
    again = relock(RelockRequest(spec(), first), Resolvers(solver, inspect=Wheels(READ, known=True)))
    assert (dumps(again), solver.asked) == (dumps(first), 1)


def test_a_row_that_its_wheel_does_not_say_is_left_out() -> None:
    told: list[Finding] = []
    lock = relock(RelockRequest(spec(), locked()), Resolvers(Solver(), inspect=Wheels()), told.append)
    assert (lock.corrections, [finding.code for finding in told]) == ((), ["correction-unfounded"])
    assert "the old lock says that acme 2.0 needs numpy<2, and acme-2.0-" in told[0].message


def test_without_its_answer_in_the_cache_the_wheel_is_asked_first() -> None:
    wheels = Wheels(READ)
    relock(RelockRequest(spec(), locked()), Resolvers(Solver(), inspect=wheels))
    assert wheels.read_about[0] == {("acme", "numpy<2")}


def test_what_a_wheel_says_is_told_with_its_remedy() -> None:
    told: list[Finding] = []
    relock(RelockRequest(spec()), Resolvers(Solver(), inspect=Wheels(READ)), told.append)
    assert [(finding.text, finding.remedy) for finding in told] == [
        (
            "a: numpy<2 added, because compiled for NumPy 1",
            'to do without: without-corrections = ["acme-read-numpy"] in [pip]',
        )
    ]
