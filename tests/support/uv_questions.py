"""What uv is asked."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envspec.resolve.pip.loop import Answer
from envspec.resolve.pip.problem import Problem
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.request_solver import RequestSolver


@contextmanager
def questions() -> Iterator[dict[Path, list[Request]]]:
    """Give what uv is asked for each solution, which its folder stands for."""
    asked, ask = defaultdict[Path, list[Request]](list), RequestSolver.ask

    def asking(self: RequestSolver, problem: Problem) -> Answer:
        asked[self.scratch].append(problem.question)
        return ask(self, problem)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RequestSolver, "ask", asking)
        yield asked
