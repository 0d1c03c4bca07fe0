"""Past the tables' horizon: where a newer torch than they know could have what no known one has, nothing is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from envspec.facts import conda_builds, torch_builds
from envspec.packages.version_numbers import numbers
from envspec.rules.case import Case, Problem
from envspec.rules.wanted import Wanted


def admits_newer(wanted: Wanted) -> bool:
    """Say whether a requirement admits releases that are newer than every one in the table."""
    known = conda_builds.versions()[-1] if wanted.channel == "conda" else torch_builds.newest().version
    major, minor, *_ = torch_builds.order(known)
    nexts = (f"{major}.{minor + more}.0" for more in (1, 2, 3, 900))
    return any(map(wanted.admits, (*nexts, f"{major + 1}.0.0")))


def eased(problem: Problem, wanted: Wanted, case: Case) -> Problem:
    """Make an error a warning where it rests on the table's end alone: a CUDA or a Python that is newer than any that
    a known torch was built for, and a requirement that admits newer ones."""
    past = {"no-build": _cuda_is_newer, "python-too-new": _python_is_newer}.get(problem.code)
    if past is None or not past(wanted, case) or not admits_newer(wanted):
        return problem
    return replace(problem, severity="warning", message=f"{problem.message}; one that envspec doesn't know may have it")


def _cuda_is_newer(wanted: Wanted, case: Case) -> bool:
    return case.cuda is not None and _is_newest(case.cuda, (cuda for cuda in _cudas(wanted) if cuda))


def _python_is_newer(wanted: Wanted, case: Case) -> bool:
    return _is_newest(case.python, (python for build in torch_builds.builds() for python in build.pythons))


def _cudas(wanted: Wanted) -> Iterable[str | None]:
    every = conda_builds.builds() if wanted.channel == "conda" else torch_builds.builds()
    return (build.cuda for build in every)


def _is_newest(asked: str, known: Iterable[str]) -> bool:
    return numbers(asked) > max(map(numbers, known))
