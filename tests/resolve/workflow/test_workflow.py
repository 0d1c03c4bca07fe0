"""From spec to lock with a resolver that is told what to answer: what is asked of it, kept, refused."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.told import Told, pin

from envspec.base.errors import EnvspecError, Infeasible, InputError
from envspec.base.finding import Finding
from envspec.facts.minimum import architectures
from envspec.lock.model import Lock
from envspec.resolve.workflow.keep import Upgrade
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def spec(folder: Path, *requirements: str, extra: str = "", targets: str = "a b", lines: str = "") -> Spec:
    path = folder / "demo.toml"
    tables = "\n".join(f"[targets.{name}]\nplatform = 'linux-64'\n{lines}" for name in targets.split())
    listed = ", ".join(repr(requirement) for requirement in requirements)
    path.write_text(f"[env]\npython = '3.12'\n[pip]\ndependencies = [{listed}]\n{extra}\n{tables}\n")
    return load_spec(str(path))


def locked(folder: Path, *versions: tuple[str, str], targets: str = "a b") -> Lock:
    names = [name for name, _ in versions]
    return relock(
        RelockRequest(spec(folder, *names, targets=targets)), Resolvers(Told(*(pin(*version) for version in versions)))
    )[0]


def test_only_some_targets(folder: Path) -> None:
    old = locked(folder, ("numpy", "1.0"))
    told = Told(pin("numpy", "2.0"))
    made, _ = relock(
        RelockRequest(spec(folder, "numpy"), old, upgrade=Upgrade(everything=True), only=["b"]), Resolvers(told)
    )
    assert list(told.requests) == ["b"]
    assert [target.pins[0].version for target in made] == ["1.0", "2.0"]


def test_only_an_unknown_target(folder: Path) -> None:
    with pytest.raises(InputError, match="has no target c") as error:
        relock(RelockRequest(spec(folder, "numpy"), only=["c"]), Resolvers(Told()))
    assert error.value.hint == "its targets: a, b"


def test_what_all_targets_share_cannot_change_for_one(folder: Path) -> None:
    old = locked(folder, ("numpy", "1.0"))
    changed = spec(folder, "numpy", extra="allow-source = ['numpy']")
    with pytest.raises(InputError, match="must be locked together"):
        relock(RelockRequest(changed, old, only=["a"]), Resolvers(Told(pin("numpy", "1.0"))))
    made, _ = relock(RelockRequest(changed, old, only=["a", "b"]), Resolvers(Told(pin("numpy", "1.0"))))
    assert made.inputs.allow_source == ("numpy",)


def test_a_source_that_no_target_has_is_told(folder: Path) -> None:
    lines = "indexes = { own = 'https://example.org/simple' }\nsources = { Acme_Models = 'own', acme-tools = 'own' }"
    wanted = spec(folder, "acme-models", "acme-tool", extra=lines)
    _, found = relock(RelockRequest(wanted), Resolvers(Told(pin("acme-models", "1.0"), pin("acme-tool", "1.0"))))
    assert [*found] == [
        Finding(
            "warning",
            "unused-source",
            "[pip] sources names acme-tools, which no target has: a misspelt name would come from PyPI",
            wanted.places["pip.sources.acme-tools"],
            "write the name as the dependency has it, or remove it if no package has to come from own",
        )
    ]


def test_a_name_much_like_a_locked_one_is_told(folder: Path) -> None:
    lines = "allow-source = ['acme-modles', 'elsewhere']\nbuild-dependencies = { acme-modles = ['numpy'] }"
    wanted = spec(folder, "acme-models", "numpy", extra=lines)
    _, found = relock(RelockRequest(wanted), Resolvers(Told(pin("acme-models", "1.0"), pin("numpy", "1.0"))))
    assert [(one.code, one.text, one.place, one.remedy) for one in found] == [
        (
            "misspelt",
            f"[pip] {key} names acme-modles, which no target has",
            wanted.places[place],
            "did you mean acme-models?",
        )
        for key, place in (
            ("allow-source", "pip.allow-source"),
            ("build-dependencies", "pip.build-dependencies.acme-modles"),
        )
    ]


def test_a_source_that_one_target_alone_has_is_used(folder: Path) -> None:
    lines = "indexes = { own = 'https://example.org/simple' }\nsources = { Acme_Models = 'own' }"
    wanted = spec(folder, "beta", extra=lines)
    told = Told(pin("beta", "1.0"), b=(pin("beta", "1.0", "acme-models"), pin("acme-models", "1.0")))
    made, found = relock(RelockRequest(wanted), Resolvers(told))
    assert (found, relock(RelockRequest(wanted, made, only=["a"]), Resolvers(told))[1]) == ((), ())


def test_a_target_that_left_the_spec_leaves_the_lock(folder: Path) -> None:
    old = locked(folder, ("numpy", "1.0"))
    made, _ = relock(RelockRequest(spec(folder, "numpy", targets="a"), old), Resolvers(Told(pin("numpy", "1.0"))))
    assert [target.name for target in made] == ["a"]


def test_an_unknown_gpu_is_told_at_its_place(folder: Path) -> None:
    wanted = spec(folder, "numpy", targets="t", lines="cuda = '12.8'\ngpus = ['H1000']")
    with pytest.raises(EnvspecError, match=r'demo\.toml:9:8: .*GPU "H1000"') as error:
        relock(RelockRequest(wanted), Resolvers(Told()))
    assert "H100" in str(error.value.hint)


def test_architectures_in_order(folder: Path) -> None:
    (target,) = spec(
        folder, "numpy", targets="t", lines="cuda = '12.8'\ngpus = ['B200', 'sm_75', 'A100', 'ampere']"
    ).targets
    assert architectures(target.gpus)[:2] == ("sm_75", "sm_80")
    assert architectures(target.gpus)[-1] == "sm_100"


def test_what_cannot_be_right_is_solved_anew(folder: Path) -> None:
    old = locked(folder, ("numpy", "1.0"), ("beta", "1.0"))
    first, second = old.targets
    evil = tuple(replace(p, index="evil") if p.name == "numpy" else p for p in second.pins)
    forged = replace(old, targets=(first, replace(second, pins=evil)))
    told = Told(pin("numpy", "1.0"), pin("beta", "1.0"))
    made, said = relock(RelockRequest(spec(folder, "numpy", "beta"), forged, only=["a"]), Resolvers(told))
    assert {name: dict(keep.versions) for name, keep in told.keep.items()} == {
        "a": {"numpy": "1.0", "beta": "1.0"},
        "b": {"beta": "1.0"},
    }
    assert set(told.requests) == {"a", "b"}, "a target that fails isn't left as it is, whatever was asked for"
    assert made == old
    assert [(finding.code, finding.text) for finding in said] == [
        (
            "wrong-index",
            "the lock can't be right: b: numpy is from evil, but must come from pypi; envspec resolves this again",
        )
    ]


def test_what_the_spec_asks_for_otherwise_is_not_wrong(folder: Path) -> None:
    old = locked(folder, ("numpy", "1.0"))
    assert relock(RelockRequest(spec(folder, "numpy>=2"), old), Resolvers(Told(pin("numpy", "2.0"))))[1] == ()


def test_what_pins_decide_is_told_of_them_and_once(folder: Path) -> None:
    """triton 3.4's compiler doesn't know sm_103: so say the facts of torch 2.8.0 too, before it is locked."""
    wanted = spec(folder, "torch==2.8.0", targets="t", lines="cuda = '12.8'\ngpus = ['B300']")
    torch = pin("torch", "2.8.0", "triton==3.4.0", "nvidia-cuda-runtime-cu12==12.8.90")
    others = pin("triton", "3.4.0"), pin("nvidia-cuda-runtime-cu12", "12.8.90")
    _, found = relock(RelockRequest(wanted), Resolvers(Told(torch, *others)))
    assert [one.code for one in found if one.severity == "warning"] == ["triton-architecture"]
    with pytest.raises(Infeasible, match=r"CUDA 12\.6") as refused:
        relock(RelockRequest(wanted), Resolvers(Told(pin("torch", "2.8.0+cu126"))))
    assert [one.code for one in refused.value.findings if one.severity == "warning"] == ["triton-architecture"]


def test_a_cuda_target_says_what_it_needs(folder: Path) -> None:
    cuda = "cuda = '12.8'\ngpus = ['H100', 'A100']"
    torch = pin("torch", "2.9.1", "nvidia-cuda-runtime-cu12==12.8.90")
    runtime = pin("nvidia-cuda-runtime-cu12", "12.8.90")
    (target,), _ = relock(
        RelockRequest(spec(folder, "torch==2.9.1", targets="t", lines=cuda)), Resolvers(Told(torch, runtime))
    )
    assert target.architectures == ("sm_80", "sm_90")
    assert target.driver_floor is not None and target.driver_floor.startswith("525.")
