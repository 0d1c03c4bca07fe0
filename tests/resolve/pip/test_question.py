"""What uv is asked for a line of its own, beside what it found."""

from pathlib import Path
from typing import Any

import pytest

from envspec.base.errors import Unsatisfiable
from envspec.resolve.pip.indexes import Question
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found

REQUEST = Request("linux-64", "3.12", "2.28", ("app", "partner"), "12.8", constraints=("own<3",))


def test_only_torch_stays_for_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else goes back is part of the answer. uv itself is left out."""
    asked = []

    def refuse(self: Question, request: Request) -> None:
        asked.append(request.constraints)
        raise Unsatisfiable("why")

    monkeypatch.setattr(Question, "ask", refuse)
    unused: Any = None
    question = Question(unused, unused, unused, True, unused, unused, "cu128", Path())
    found = (
        Found("app", "1.0"),
        Found("lib", "2.0"),
        Found("torch", "2.9.1+cu128"),
        Found("of-git", "3", git=("url", "0" * 40, None)),
    )
    assert question.refusal(REQUEST, ("app>=2",), found) == "why"
    assert asked == [("own<3", "torch>=2.9.1", "app>=2")]
