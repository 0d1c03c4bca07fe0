"""Before anything is resolved: what is refused, what is told, and what a target's resolution stands on."""

import pytest
from msgspec.structs import replace

from envspec.base.errors import Infeasible, InfeasibleTargets, SpecError
from envspec.lock.inputs import spec_case
from envspec.resolve.workflow import prepare as module
from envspec.resolve.workflow.prepare import NotAfter, Prepared, prepare
from envspec.rules.judge import judge
from envspec.spec.parse import parse_spec

LINUX = 'platform = "linux-64"'
V100 = f'{LINUX}\ncuda = "12.8"\ngpus = ["V100"]'
H100 = f'{LINUX}\ncuda = "12.8"\ngpus = ["H100"]'


def prepared(*requirements: str, conda: tuple[str, ...] = (), more: str = "", **targets: str) -> tuple[Prepared, ...]:
    """Each target of a spec with these requirements, `a` of linux-64 without others."""
    listed = ", ".join(f"'{requirement}'" for requirement in requirements)
    matches = ", ".join(f"'{match}'" for match in conda)
    tables = "\n".join(f"[targets.{name}]\n{lines}" for name, lines in (targets or {"a": LINUX}).items())
    text = f"[env]\npython = '3.12'\n[pip]\ndependencies = [{listed}]\n{more}\n[conda]\ndependencies = [{matches}]\n"
    spec = parse_spec(f"{text}channels = ['conda-forge']\n{tables}\n", "specs/demo.toml")
    return prepare(spec_case(spec), spec.targets)


def test_only_releases_that_work_are_admitted() -> None:
    narrowed, wide = prepared("torch", a=V100, b=H100)
    assert narrowed.constraints == ("torch>=2.8.0,<=2.10.0",)
    assert narrowed.verdict.feasible == ("2.10.0", "2.9.1", "2.9.0", "2.8.0")
    assert wide.constraints == ()


def test_a_requirement_without_the_newest_release_needs_no_bound() -> None:
    (target,) = prepared("torch<2.11", a=V100)
    assert target.constraints == ()


def test_torch_through_torchvision_alone_is_bounded_too() -> None:
    (target,) = prepared("torchvision", a=V100)
    assert target.constraints == ("torch>=2.8.0,<=2.10.0",)


def test_a_target_without_conda_packages_asks_conda_nothing() -> None:
    (target,) = prepared("numpy")
    assert target.conda is None


def test_what_conda_is_asked() -> None:
    (target,) = prepared("numpy", conda=("pytorch",), a=H100)
    assert target.conda is not None
    assert target.conda.architectures == ("sm_90",)
    assert target.conda.constraints == ()
    assert target.conda.with_pip


def test_the_gpu_facts_bound_condas_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Today's tables narrow no conda target, so they are made to: 2.6.0 and 2.8.0 don't work."""
    works = ("2.7.1", "2.7.0", "2.5.1")
    monkeypatch.setattr(
        module, "judge", lambda spec, target, **_: replace(judge(spec, target), feasible=works, narrowed=True)
    )
    (target,) = prepared("einops", conda=("pytorch >=2.5", "einops"), a=f'{LINUX}\ncuda = "12.6"\ngpus = ["H100"]')
    assert target.conda is not None and target.conda.constraints == ("pytorch >=2.5.1,<=2.7.1,!=2.6.0",)
    assert target.constraints == ()


def test_corrections_that_hold_whatever_is_picked() -> None:
    (target,) = prepared("torch==2.2.2", "numpy")
    assert "torch-numpy-2" in target.corrections.active
    (unsaid,) = prepared("torch", "deepspeed")
    assert not any("numpy" in name for name in unsaid.corrections.active)


def test_what_the_spec_does_without() -> None:
    (target,) = prepared("torch==2.2.2", more="without-corrections = ['torch-numpy-2', 'torch-setuptools']")
    assert not [*target.corrections.of("torch", "2.2.2")]
    assert target.corrections.missing_requirements("torchaudio", "2.11.0", ()) == ("torch>=2.11.0",)
    (target,) = prepared("torchaudio", more="without-corrections = ['torchaudio-torch']")
    assert target.corrections.missing_requirements("torchaudio", "2.11.0", ()) == ()
    prepared("torch", more="without-corrections = ['transformers-extra-torch']")


def test_a_correction_that_does_not_exist() -> None:
    with pytest.raises(SpecError, match='no correction "torch-numpy-3"') as error:
        prepared("numpy", more="without-corrections = ['torch-numpy-3']")
    assert "torch-numpy-2" in str(error.value.hint)


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("tool @ file:///home/me/tool-1-py3-none-any.whl", "is a path of this machine"),
        ("tool @ git+https://host/tool@v1", "built from source"),
        ("tool @ https://host/tool-1.tar.gz", "built from source"),
    ],
)
def test_addresses_that_no_lock_can_hold(requirement: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as error:
        prepared(requirement)
    assert error.value.place is not None and error.value.place.line == 4


def test_a_source_that_is_allowed_is_taken() -> None:
    (target,) = prepared("tool @ git+https://host/tool@v1", more="allow-source = ['tool']")
    assert target.inputs.requirements == ("tool @ git+https://host/tool@v1",)


def test_every_target_that_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(InfeasibleTargets) as several:
        prepared("torch==2.11.0", a=V100, b=f'{LINUX}\ncuda = "11.8"')
    assert [error.message.partition(":")[0] for error in several.value.errors] == ["a", "b"]
    with pytest.raises(Infeasible, match=r"a: torch 2\.11\.0"):
        prepared("torch==2.11.0", a=V100, b=H100)


def test_a_sites_bound_goes_before_the_exceptions_of_a_spec() -> None:
    text = """\
[env]
python = "3.12"
exclude-newer = 2026-11-01
[env.exclude-newer-package]
later = { exclude-newer = 2026-11-20, reason = "x" }
earlier = { exclude-newer = 2026-10-01, reason = "x" }
free = { reason = "x" }
[pip]
dependencies = ["later"]
[targets.cpu]
platform = "linux-64"
"""
    spec = parse_spec(text, "a.toml")
    first, tenth = "2026-11-01T00:00:00Z", "2026-11-10T00:00:00Z"
    own = {"earlier": first, "free": None, "later": "2026-11-20T00:00:00Z"}

    def exempt(not_after: NotAfter | None) -> dict[str, str | None]:
        (one,) = prepare(spec_case(spec), spec.targets, not_after)
        return dict(one.exempt)

    assert exempt(None) == own
    within = {"earlier": first, "free": tenth, "later": tenth}
    assert exempt(NotAfter(tenth)) == within
    assert exempt(NotAfter(tenth, frozenset({"young", "free"}))) == {**within, "young": first, "free": None}


def test_markers_of_torch_and_of_wheels_are_judged_for_the_exact_python() -> None:
    marker = "python_full_version >= '3.12.4'"
    lines = f'"torch==2.9.*; {marker}", "a @ https://h.example.org/a-1-cp311-cp311-win_amd64.whl ; {marker}"'
    text = f"[env]\npython = '3.12'\n[pip]\ndependencies = [{lines}]\n[targets.a]\n{LINUX}\n"
    spec = parse_spec(text, "specs/demo.toml")
    (early,) = prepare(spec_case(spec), spec.targets)
    assert early.verdict.requirement is None
    with pytest.raises(SpecError, match=r"doesn't run on linux-64"):
        prepare(spec_case(replace(spec, python_builds={"linux-64": "3.12.12"})), spec.targets)
