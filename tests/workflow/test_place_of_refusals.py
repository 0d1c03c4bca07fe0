"""A refusal names the file and the line of the requirement that it is about."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from envspec.errors import AnswerNo, Unsatisfiable
from envspec.lock.model import Pin
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.pip.sources_needed import NeededSource, SourcesNeeded
from envspec.spec.parse import parse_spec
from envspec.workflow.relock import relock

SPEC = """[env]
python = "3.12"
[pip]
dependencies = [
  "numpy",
  "Hydra.Core>=1",
]
[targets.a]
platform = "linux-64"
"""
NEEDED = NeededSource("antlr4-python3-runtime", "4.9.3", ("hydra-core", "antlr4-python3-runtime"), "static", None)


@pytest.mark.parametrize(
    ("refused", "line"),
    [
        (Unsatisfiable("a: no version of hydra-core==9 and the spec asks for hydra-core==9."), 6),
        (Unsatisfiable("a: [pip] asks for numpy<1, but conda installs numpy 2"), 5),
        (Unsatisfiable("a: app needs lib"), None),
        (SourcesNeeded({NEEDED: ["a"]}), 6),
    ],
)
def test_a_refusal_has_its_place(refused: AnswerNo, line: int | None) -> None:
    class Refusing:
        def resolve(
            self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
        ) -> Mapping[str, tuple[Pin, ...]]:
            raise refused

    with pytest.raises(AnswerNo) as error:
        relock(parse_spec(SPEC, "specs/demo.toml"), None, Refusing())
    place = error.value.place
    assert (place and (place.file, place.line)) == (line and ("specs/demo.toml", line))
