"""The nearest change that works: another torch, CUDA or Python, computed from the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from envspec.facts import conda_builds, gpus, torch_builds
from envspec.packages.version_numbers import numbers
from envspec.rules import machine as machine_rules
from envspec.rules.build import works
from envspec.rules.case import Case
from envspec.rules.companions import torches
from envspec.rules.wanted import FamilyRequirement, builds_of, known_releases
from envspec.spec.way import Way


def alternatives(
    requirement: FamilyRequirement, versions: Sequence[str], case: Case, family: Sequence[FamilyRequirement] = ()
) -> list[Way]:
    """Find the smallest changes after which a build works. Each changes one thing, or torch and CUDA where both must.

    `versions` are the releases that `requirement` admits. If there are none, changes stay near those of its specifier.
    `family` are the companions of the spec: a release of torch that none of them is made for isn't proposed.
    """
    changes = [
        *_another_torch(requirement, versions, case, family),
        *_another_cuda(requirement, versions, case),
        *_another_python(requirement, versions, case),
    ]
    return changes or _both(requirement, versions, case, family)


def _beside(family: Sequence[FamilyRequirement], versions: Iterable[str]) -> list[str]:
    """List the releases of torch that every companion has an admitted release for, as far as the tables know those."""
    made_for = [known for companion in family if (known := torches(companion))]
    return [version for version in versions if all(version in known for known in made_for)]


def _torch(requirement: FamilyRequirement, version: str, cuda: str | None = None, note: str = "") -> Way:
    """Make the way to a release of torch, as pip and conda write it."""
    if requirement.channel == "conda":
        return Way(cuda=cuda, conda=f"{requirement.name} =={version}", near=True, note=note)
    return Way(cuda=cuda, line=f"torch=={version}", near=True, note=note)


def _another_torch(
    requirement: FamilyRequirement, versions: Sequence[str], case: Case, family: Sequence[FamilyRequirement]
) -> list[Way]:
    other_releases = [v for v in known_releases(requirement.channel) if v not in versions]
    releases = _working(requirement, _beside(family, other_releases), case)
    if not releases:
        return []
    best = min(releases, key=lambda v: _torch_distance(requirement, versions, v))
    return [_torch(requirement, best, note=f"with {f'CUDA {case.cuda}' if case.cuda else 'the CPU'}")]


def _another_cuda(requirement: FamilyRequirement, versions: Sequence[str], case: Case) -> list[Way]:
    if case.cuda is None:
        return []
    cudas = [cuda for cuda in _cudas(requirement) if cuda != case.cuda]
    working = {cuda: _working(requirement, versions, replace(case, cuda=cuda)) for cuda in cudas}
    fitting = {cuda: max(map(torch_builds.order, releases)) for cuda, releases in working.items() if releases}
    if not fitting:
        return []
    nearest = sorted(fitting, key=lambda cuda: _cuda_distance(case.cuda or "", cuda))
    newest = max(nearest, key=fitting.__getitem__)
    ahead = [newest] if fitting[newest] > fitting[nearest[0]] else []

    def note(cuda: str) -> str:
        return " ".join(filter(None, (f"with {requirement.label.split('+')[0]}", _driver_note(case, cuda))))

    return [Way(cuda=cuda, near=True, note=note(cuda)) for cuda in (nearest[0], *ahead)]


def _another_python(requirement: FamilyRequirement, versions: Sequence[str], case: Case) -> list[Way]:
    builds = builds_of(requirement, versions, case.cuda, case.platform)
    pythons = {python for build in builds for python in build.pythons} - {case.python}
    fitting = [p for p in pythons if _working(requirement, versions, replace(case, python=p))]
    if not fitting:
        return []
    minor = numbers(case.python)[1]
    best = min(fitting, key=lambda p: (abs(numbers(p)[1] - minor), -numbers(p)[1]))
    return [Way(python=best, near=True)]


def _both(
    requirement: FamilyRequirement, versions: Sequence[str], case: Case, family: Sequence[FamilyRequirement]
) -> list[Way]:
    if case.cuda is None:
        return []
    pairs = [
        (_torch_distance(requirement, versions, version), _cuda_distance(case.cuda, cuda), version, cuda)
        for cuda in _cudas(requirement)
        for version in _working(
            requirement, _beside(family, known_releases(requirement.channel)), replace(case, cuda=cuda)
        )
    ]
    if not pairs:
        return []
    *_, version, cuda = min(pairs)
    return [_torch(requirement, version, cuda, _driver_note(case, cuda))]


def _working(requirement: FamilyRequirement, versions: Iterable[str], case: Case) -> list[str]:
    """List the releases with a build that works on a machine which runs this CUDA. No machine has a CUDA whose oldest
    driver isn't known."""
    if case.driver and case.cuda and machine_rules.find_lowest_driver(case, case.cuda) is None:
        return []
    machine = machine_rules.problems(case)
    if any(p.severity == "error" for p in machine):
        return []
    builds = builds_of(requirement, versions, case.cuda, case.platform)
    return [build.version for build in builds if build.is_lockable(case.python) and works(build, case)]


def _cudas(requirement: FamilyRequirement) -> list[str]:
    if requirement.channel == "conda":
        cudas = {build.cuda for build in conda_builds.builds()}
    else:
        cudas = {build.cuda for build in torch_builds.builds()}
    return sorted((cuda for cuda in cudas if cuda), key=numbers)


def _torch_distance(requirement: FamilyRequirement, versions: Sequence[str], version: str) -> tuple[int, int]:
    """Count the releases between a release and the ones asked for; of two equally near, the newer comes first."""
    known = known_releases(requirement.channel)
    here = known.index(version)
    points = [known.index(v) for v in versions if v in known]
    if not points:
        releases = [torch_builds.order(v) for v in known]
        points = [sum(r < bound for r in releases) for bound in requirement.bounds()] or [len(known)]
    return min(abs(here - point) for point in points), -here


def _cuda_distance(requested: str, cuda: str) -> tuple[int, int]:
    """Measure how far a CUDA is from the asked one: majors weigh more; of two equally near, the newer comes first."""
    (a, b), (c, d) = numbers(requested)[:2], numbers(cuda)[:2]
    return abs((a - c) * 20 + b - d), -(c * 20 + d)


def _driver_note(case: Case, cuda: str) -> str:
    if case.integrated and (jetpack := machine_rules.first_jetpack(case, cuda)):
        return f"(JetPack {jetpack} or newer)"
    lowest = machine_rules.find_lowest_driver(case, cuda)
    if lowest is None:
        return ""
    return f"(driver {lowest} or newer)" if lowest.startswith("R") else f"(driver >= {lowest})"


def with_cuda(requirement: FamilyRequirement | None, case: Case) -> tuple[Way, ...]:
    """Propose the newest CUDA that has a build of the torch of a target without one."""
    if requirement is None:
        return tuple(filter(None, [toolkit_change(case)]))
    cudas = reversed(_cudas(requirement))
    working = (cuda for cuda in cudas if _working(requirement, requirement.versions(), replace(case, cuda=cuda)))
    return tuple(Way(cuda=cuda) for cuda in islice(working, 1))


def toolkit_change(case: Case) -> Way | None:
    """Propose a CUDA that supports all GPUs of a target without torch; None where none does."""
    known = [gpus.capabilities()[c] for c in case.capabilities]
    first = max((c.first_cuda for c in known if c.first_cuda), key=numbers, default=None)
    last = min((c.last_cuda for c in known if c.last_cuda), key=numbers, default=None)
    if first and last and numbers(first) > numbers(last):
        return None
    if last:
        return Way(cuda=last)
    return Way(cuda=first) if first else None
