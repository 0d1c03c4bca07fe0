"""The conda half in `relock`: solved first, never left out, and its torch bounded by the GPU facts."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from envspec.base.errors import Infeasible, InternalError
from envspec.lock.model import Artifact, Lock, Pin
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.workflow import prepare
from envspec.resolve.workflow.keep import Upgrade
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.rules.judge import judge
from envspec.spec.parse import load_spec

pytest.importorskip("rattler")

SPEC = """
[env]
python = "3.12"
[conda]
channels = ["conda-forge"]
dependencies = {conda}
[pip]
dependencies = {pip}
[targets.t]
platform = "linux-64"
{target}
"""


def conda_pin(name: str, version: str, build: str = "0", *provides: str) -> Pin:
    artifact = Artifact(f"{name}-{version}-{build}.conda", hashlib.sha256(name.encode()).hexdigest(), 1, "0" * 32)
    return Pin("conda", name, version, "conda-forge/linux-64", artifact, build=build, provides=provides)


class CondaStandIn:
    """Gives the pins it was made with, and remembers what it was asked."""

    def __init__(self, *pins: Pin) -> None:
        self.pins = pins
        self.asked: dict[str, CondaRequest] = {}
        self.kept: Mapping[str, Preferences] = {}

    def resolve(
        self, requests: Mapping[str, CondaRequest], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]:
        self.asked, self.kept = dict(requests), keep
        return {
            target: tuple(replace(pin, direct=pin.name in request.names) for pin in self.pins)
            for target, request in requests.items()
        }


class PipStandIn:
    def __init__(self) -> None:
        self.asked: dict[str, Request] = {}

    def resolve(
        self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]:
        self.asked = dict(requests)
        return dict.fromkeys(requests, ())


def lock(
    folder: Path, conda: CondaStandIn | None, pip: PipStandIn, old: Lock | None = None, upgrade: Upgrade | None = None,
    *, asks: str = '["tool"]', wants: str = "[]", target: str = "",
) -> Lock:  # fmt: skip
    path = folder / "demo.toml"
    path.write_text(SPEC.format(conda=asks, pip=wants, target=target), encoding="utf-8")
    return relock(RelockRequest(load_spec(str(path)), old, upgrade=upgrade or Upgrade()), Resolvers(pip, conda=conda))


def test_conda_dependencies_are_never_left_out(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="conda packages"):
        lock(tmp_path, None, PipStandIn())


def test_a_target_without_pip_requirements_asks_pip_nothing(tmp_path: Path) -> None:
    pip = PipStandIn()
    made = lock(tmp_path, CondaStandIn(conda_pin("tool", "1")), pip)
    assert pip.asked == {}
    assert [pin.name for pin in made.targets[0].pins] == ["tool"]


def test_what_conda_installs_is_told_to_pip(tmp_path: Path) -> None:
    pip = PipStandIn()
    conda = CondaStandIn(conda_pin("tool", "1"), conda_pin("numpy", "2.1", "py_0", "numpy"))
    lock(tmp_path, conda, pip, wants='["numpy>=2"]')
    assert pip.asked["t"].provided == (("numpy", "2.1"),)
    assert conda.asked["t"].with_pip


def test_old_pins_are_kept_with_their_builds_unless_they_may_move(tmp_path: Path) -> None:
    pins = (conda_pin("tool", "1", "h_0"), conda_pin("pytorch", "2.7.1", "cpu_0", "torch"))
    asks = '["tool", "pytorch"]'
    old = lock(tmp_path, CondaStandIn(*pins), PipStandIn(), asks=asks)

    def kept(upgrade: Upgrade) -> set[str]:
        conda = CondaStandIn(*pins)
        lock(tmp_path, conda, PipStandIn(), old, upgrade, asks=asks)
        return {f"{name} {text}" for keep in conda.kept.values() for name, text in keep.versions.items()}

    assert kept(Upgrade()) == {"tool 1 h_0", "pytorch 2.7.1 cpu_0"}
    assert kept(Upgrade(packages=frozenset({"torch"}))) == {"tool 1 h_0"}
    assert kept(Upgrade(packages=frozenset({"Tool"}))) == {"pytorch 2.7.1 cpu_0"}
    assert kept(Upgrade(everything=True)) == set()


def test_the_gpu_facts_bound_condas_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Today's tables narrow no conda target, so they are made to: 2.6.0 and 2.8.0 don't work."""
    works = ("2.7.1", "2.7.0", "2.5.1")
    monkeypatch.setattr(
        prepare, "judge", lambda spec, target, **_: replace(judge(spec, target), feasible=works, narrowed=True)
    )
    conda = CondaStandIn(conda_pin("pytorch", "2.7.1", "cuda126_0", "torch"), conda_pin("einops", "1", "0", "einops"))
    pip = PipStandIn()
    gpu = 'cuda = "12.6"\ngpus = ["H100"]'
    lock(tmp_path, conda, pip, asks='["pytorch >=2.5", "einops"]', wants='["einops"]', target=gpu)
    assert conda.asked["t"].architectures == ("sm_90",)
    assert conda.asked["t"].constraints == ("pytorch >=2.5.1,<=2.7.1,!=2.6.0",)
    assert pip.asked["t"].constraints == ()


def test_the_gpu_facts_judge_condas_pins(tmp_path: Path) -> None:
    wrong = CondaStandIn(conda_pin("pytorch", "2.7.1", "cpu_mkl_py312_h1_100", "torch"))
    with pytest.raises(Infeasible, match="CPU build"):
        lock(tmp_path, wrong, PipStandIn(), asks='["pytorch ==2.7.1"]', target='cuda = "12.6"\ngpus = ["H100"]')
