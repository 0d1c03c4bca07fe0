"""Both halves of prepared targets: the order they are solved in, and solving again with corrections."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace
from support.told import ByRequest, CondaTold, Told, pin

from envspec.base.errors import InternalError
from envspec.lock.inputs import spec_case
from envspec.lock.model import Artifact, Pin, SolverView
from envspec.packages.metadata import Metadata
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.workflow.keep import Kept
from envspec.resolve.workflow.prepare import Prepared, prepare
from envspec.resolve.workflow.solve import Resolvers, solve
from envspec.spec.parse import parse_spec

TWO = '[targets.a]\nplatform = "linux-64"\n[targets.b]\nplatform = "linux-64"\n'


def prepared(pip: str, conda: str = "", targets: str = TWO) -> tuple[Prepared, ...]:
    tables = f"[pip]\ndependencies = [{pip}]\n[conda]\nchannels = ['conda-forge']\ndependencies = [{conda}]\n"
    spec = parse_spec(f"[env]\npython = '3.12'\n{tables}{targets}", "specs/demo.toml")
    return prepare(spec_case(spec), spec.targets)


class ByTurn(ByRequest):
    """Answers each question with the next answer, by target, and remembers the questions."""

    def __init__(self, *answers: Mapping[str, tuple[Pin, ...]]) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, Request]] = []

    def answer(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> Mapping[str, tuple[Pin, ...]]:
        self.asked.append(requests)
        return self.answers.pop(0)


OLD, NEW = pin("numpy", "1.26.4"), pin("numpy", "2.0.0")
SPEED = pin("deepspeed", "0.9.5", "numpy")


def test_what_stands_side_by_side_is_bounded_together() -> None:
    """An older package may break what the newer one didn't: one more solution is enough for both."""
    torch = pin("torch", "2.6.0+cpu", index="pytorch/cpu")
    told = ByTurn({"a": (torch, SPEED, NEW), "b": ()}, {"a": (torch, SPEED, OLD), "b": ()})
    solve(prepared("'torch', 'deepspeed'"), Resolvers(told), Kept())
    assert told.asked[1]["a"].corrections.active >= {"torch-numpy-2", "deepspeed-numpy-2"}


WORKS_WITH = {torch: Metadata("transformers", "5", (f'torch>={torch}; extra == "torch"',)) for torch in ("2.6", "2.0")}


def test_an_extra_named_like_what_it_bounds_says_what_works() -> None:
    old, new = pin("torch", "2.5.1"), pin("torch", "2.6.0")
    five = replace(pin("transformers", "5.20.2"), solver=SolverView(WORKS_WITH["2.6"]))
    four = replace(pin("transformers", "4.49.0"), solver=SolverView(WORKS_WITH["2.0"]))
    told = ByTurn({"a": (old, five), "b": (new, five)}, {"a": (old, four), "b": (new, five)})
    a, b = solve(prepared("'torch', 'transformers'"), Resolvers(told), Kept())
    assert "transformers-extra-torch" in told.asked[1]["a"].corrections.active
    assert [effect.text for effect in a.effects] == ["transformers 4.49.0 locked"]
    assert "transformers 5.20.2 works with torch>=2.6 alone" in a.effects[0].correction.reason
    assert b.effects == ()


def test_a_correction_that_metadata_does_not_reach_is_a_constraint() -> None:
    """What comes from git or a direct URL isn't shown to uv by the index proxy."""
    told = ByTurn({"a": (SPEED, NEW)}, {"a": (SPEED, NEW)}, {"a": (SPEED, OLD)})
    (a,) = solve(prepared("'deepspeed'", targets='[targets.a]\nplatform = "linux-64"\n'), Resolvers(told), Kept())
    assert [asked["a"].constraints for asked in told.asked] == [(), (), ("numpy<2",)]
    assert a.pins == (SPEED, OLD)


def test_a_correction_that_does_not_help_is_not_tried_for_ever() -> None:
    told = ByTurn(*[{"a": (SPEED, NEW)}] * 3)
    (a,) = solve(prepared("'deepspeed'", targets='[targets.a]\nplatform = "linux-64"\n'), Resolvers(told), Kept())
    assert len(told.asked) == 3
    assert a.pins == (SPEED, NEW)


def test_what_metadata_leaves_out_is_told_of_the_targets_that_have_it() -> None:
    torch = pin("torch", "2.11.0+cpu", index="pytorch/cpu")
    audio = replace(pin("torchaudio", "2.11.0+cpu", index="pytorch/cpu"), solver=SolverView(added=("torch>=2.11.0",)))
    a, b = solve(prepared("'torchaudio'"), Resolvers(Told(a=(audio, torch), b=(OLD,))), Kept())
    assert [effect.text for effect in a.effects] == ["torch>=2.11.0 added"]
    assert b.effects == ()


def test_what_the_spec_says_itself_is_not_told() -> None:
    told = Told(SPEED, OLD)
    a, _ = solve(prepared("'deepspeed', 'numpy==1.26.4'"), Resolvers(told), Kept())
    assert a.effects == ()


def test_conda_comes_first_and_each_half_keeps_its_own() -> None:
    artifact = Artifact("numpy-2.1-0.conda", "0" * 64, 1, "0" * 32)
    numpy = Pin("conda", "numpy", "2.1", "conda-forge/linux-64", artifact, build="0", provides=("numpy",))
    told, conda = Told(pin("beta", "1.0")), CondaTold(numpy)
    kept = Kept({"a": Preferences({"beta": "1.0"})}, {"a": Preferences({"numpy": "2.1 0"})})
    a, _ = solve(prepared("'beta'", "'numpy'"), Resolvers(told, conda), kept)
    assert told.requests["a"].provided == (("numpy", "2.1"),)
    assert (told.keep, conda.keep) == (kept.pip, kept.conda)
    assert [one.kind for one in a.pins] == ["conda", "pip"]


def test_pip_is_asked_nothing_where_nothing_is_wanted_of_it() -> None:
    told = ByTurn()
    a, b = solve(prepared("", "'numpy'"), Resolvers(told, CondaTold()), Kept())
    assert (told.asked, a.pins, b.request) == ([], (), None)


def test_a_conda_half_needs_a_solver() -> None:
    with pytest.raises(InternalError, match="a, b ask for conda packages"):
        solve(prepared("", "'numpy'"), Resolvers(ByTurn()), Kept())
