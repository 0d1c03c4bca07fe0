"""What uv is asked."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from envspec.resolve.pip.loop import Answer
from envspec.resolve.pip.problem import Problem, Subject
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.target_solver import TargetSolver


@contextmanager
def questions() -> Iterator[dict[str, list[Request]]]:
    """Give what uv is asked, by target and what its answers so far have shown: a target that a review of the whole
    changed is another one."""
    asked, ask = defaultdict[str, list[Request]](list), TargetSolver.ask
    subjects = dict[int, Subject | None]()

    def asking(self: TargetSolver, problem: Problem) -> Answer:
        subjects[id(problem.subject)] = problem.subject
        asked[f"{self.label} {id(problem.subject)}"].append(problem.question)
        return ask(self, problem)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TargetSolver, "ask", asking)
        yield asked
