"""A refusal names the file and the line of the requirement that it is about."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace
from support.told import ByRequest

from envspec.base.errors import EnvspecError, IndexFailure, SpecError, ToolError, about
from envspec.lock.model import Pin
from envspec.packages.conflict import Clause, Conflict, Unsatisfiable
from envspec.resolve.pip.answer import attribute_to, prefix
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.pip.sources_needed import NeededSource, SourcesNeeded
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.parse import parse_spec

SPEC = """[env]
python = "3.12"
[pip]
dependencies = [
  "numpy",
  "Hydra.Core>=1",
]
constraints = ["torch==2.11.0"]
[targets.a]
platform = "linux-64"
[targets.b]
platform = "linux-64"
[targets.b.pip]
dependencies = ["torch"]
"""
NEEDED = NeededSource("antlr4-python3-runtime", "4.9.3", ("hydra-core", "antlr4-python3-runtime"), "static", None)


def of_targets(refused: EnvspecError, *targets: str) -> EnvspecError:
    refused.targets = targets
    return refused


def of_proof(*chain: Clause) -> EnvspecError:
    refused = Unsatisfiable("a: no versions satisfy this target")
    refused.conflict = Conflict(chain)
    return refused


@pytest.mark.parametrize(
    ("refused", "line"),
    [
        (of_proof(Clause("no-release", "hydra-core", "==9"), Clause("requires", "", "", "hydra-core", "==9")), 6),
        (Unsatisfiable("a: [pip] asks for numpy<1, but conda installs numpy 2").with_subjects("numpy"), 5),
        (Unsatisfiable("a: app needs lib"), 0),
        (of_targets(Unsatisfiable("b: app needs lib"), "b"), 11),
        (SourcesNeeded([replace(NEEDED, targets=("a",))]), 6),
        # the facts lack what the spec asks for, and the index doesn't answer
        (IndexFailure("a: https://index.example/torch/ can't be read").with_subjects("torch"), 14),
        (of_targets(IndexFailure("a: https://index.example/torch/ can't be read").with_subjects("torch"), "a"), 8),
        # it failed outside, and nothing in the spec would mend it
        (IndexFailure("a: https://index.example/lib/ can't be read"), None),
        (of_targets(IndexFailure("a: https://index.example/lib.whl can't be read").with_subjects("lib"), "a"), None),
        (ToolError("building the metadata of Hydra.Core failed").with_subjects("hydra-core"), 6),
        (SpecError("a: lib has a md5, and a lock holds sha256 alone").with_subjects("lib"), 0),
    ],
)
def test_a_refusal_has_its_place(refused: EnvspecError, line: int | None) -> None:
    class Refusing(ByRequest):
        def answer(
            self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
        ) -> Mapping[str, tuple[Pin, ...]]:
            raise refused

    with pytest.raises(EnvspecError) as error:
        relock(RelockRequest(parse_spec(SPEC, "specs/demo.toml")), Resolvers(Refusing()))
    place = error.value.place
    assert (place and (place.file, place.line)) == (None if line is None else ("specs/demo.toml", line))


def test_what_is_labelled_keeps_the_packages_that_it_is_about() -> None:
    with pytest.raises(SpecError) as error, attribute_to(("a", "b")), about("lib"):
        raise prefix(SpecError("app has a md5").with_subjects("app"), "a, b")
    assert (error.value.message, error.value.about, error.value.targets) == (
        "a, b: app has a md5",
        ("app",),
        ("a", "b"),
    )
