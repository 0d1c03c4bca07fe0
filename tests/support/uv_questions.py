"""What uv is asked."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from envspec.resolve.pip.loop import Answer
from envspec.resolve.pip.problem import Problem
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.target_solver import TargetSolver


@contextmanager
def questions() -> Iterator[dict[str, list[Request]]]:
    """Give what uv is asked for each solution, by its target."""
    asked, ask = defaultdict[str, list[Request]](list), TargetSolver.ask

    def asking(self: TargetSolver, problem: Problem) -> Answer:
        asked[f"{self.label} {id(self.serving)}"].append(problem.question)
        return ask(self, problem)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TargetSolver, "ask", asking)
        yield asked
