"""The verdict on a target before anything is resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import Place
from envspec.base.finding import Finding, errors
from envspec.facts import conda_builds, gpus, toolkits, torch_builds
from envspec.packages.names import requirement_name
from envspec.packages.requirement import head_of, published_requirement
from envspec.packages.version_numbers import numbers
from envspec.rules import companions, fallback, machine as machine_rules, nearest
from envspec.rules.build import problems, works
from envspec.rules.case import CandidateBuild, Case, apply_acceptances, of_target
from envspec.rules.secret_variables import secret_variables
from envspec.rules.wanted import (
    FamilyRequirement,
    Specifier,
    builds_of,
    companions_of,
    known_releases,
    newest_cudnn,
    other_channel,
    parse,
    torch_of,
)
from envspec.spec.model import Spec, Target
from envspec.spec.way import Way


class Verdict(Struct, frozen=True):
    """The rules' answer on one target.

    findings     the target's faults by the facts, errors first; empty if it can be locked as it stands
    requirement  the torch that the target asks for, by name or through torchvision alone; None without one
    feasible     the known torch releases that the target admits and that work on it, newest first
    narrowed     the newest release with a build for the target isn't in `feasible`: the resolver needs that list
    """

    findings: tuple[Finding, ...] = ()
    requirement: FamilyRequirement | None = None
    feasible: tuple[str, ...] = ()
    narrowed: bool = False

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop a lock."""
        return errors(self.findings)


def admits_newer(requirement: FamilyRequirement) -> bool:
    """Return whether a requirement admits releases that are newer than every one in the table."""
    known = conda_builds.versions()[-1] if requirement.channel == "conda" else torch_builds.newest().version
    major, minor, *_ = torch_builds.order(known)
    nexts = (f"{major}.{minor + more}.0" for more in (1, 2, 3, 900))
    return any(map(requirement.admits, (*nexts, f"{major + 1}.0.0")))


def ease(problem: Finding, requirement: FamilyRequirement, case: Case) -> Finding:
    """Make an error a warning where it rests on the table's end alone: a CUDA or a Python that is newer than any that
    a known torch was built for, and a requirement that admits newer ones."""
    past = {"no-build": _cuda_is_newer, "python-too-new": _python_is_newer}.get(problem.code)
    if past is None or not past(requirement, case) or not admits_newer(requirement):
        return problem
    return replace(problem, severity="warning", message=f"{problem.message}; one that envspec doesn't know may have it")


def _cuda_is_newer(requirement: FamilyRequirement, case: Case) -> bool:
    return case.cuda is not None and _is_newest(case.cuda, (cuda for cuda in _cudas(requirement) if cuda))


def _python_is_newer(requirement: FamilyRequirement, case: Case) -> bool:
    return _is_newest(case.python, (python for build in torch_builds.builds() for python in build.pythons))


def _cudas(requirement: FamilyRequirement) -> Iterable[str | None]:
    every = conda_builds.builds() if requirement.channel == "conda" else torch_builds.builds()
    return (build.cuda for build in every)


def _is_newest(version: str, known: Iterable[str]) -> bool:
    return numbers(version) > max(map(numbers, known))


_ORDER = {"error": 0, "warning": 1, "info": 2}


def judge(spec: Spec, target: Target, *, with_ways: bool = True) -> Verdict:
    """Judge a target by the facts.

    A range of torch releases is infeasible only if all of them are. A torch that isn't in the tables yet is never an
    error. Ways that the facts refuse are left out; unless `with_ways`, the others of errors wait for a judge that
    solves.
    """
    case = case_of(spec, target)
    family = companions_of(spec, target)
    named = torch_of(spec, target)
    requirement, versions = _torch(named, family)
    choice = _choice(requirement, versions, case)
    findings = list(_unknown_gpus(target))
    if other := other_channel(spec, target):
        conda_torch, channel = other
        message = f"{conda_torch.label} comes from the channel {channel}, whose builds envspec has no facts of"
        advice = "prove the environment with `envspec smoke`, or take conda-forge's or pip's"
        findings.append(Finding("warning", "torch-channel-unknown", message, conda_torch.place, advice))
    contradictions = list(fallback.problems(case, target.gpus, requirement))
    request = _Request(case, named, family)
    against = [*contradictions, *request.problems(machine_alone=bool(contradictions))]
    before = request.errors if against or family else frozenset()
    for problem in against:
        if problem in contradictions:
            problem = _leave_working_ways(problem, request, before)
        else:
            problem = _with_ways(problem, versions, request, before)
        findings.append(locate(spec, target, requirement, ease(problem, requirement, case) if requirement else problem))
    for companion in family:
        for problem in companions.findings(
            companion, requirement, versions, lambda version: _works(requirement, version, case)
        ):
            findings.append(_leave_working_ways(problem, request, before))
    findings += secret_variables(spec)
    findings = [
        finding if finding.severity == "error" and not with_ways else finding.tell_ways() for finding in findings
    ]
    findings = list(apply_acceptances(findings, spec.pip_terms(target).accept))
    return Verdict(
        findings=tuple(sorted(dict.fromkeys(findings), key=lambda finding: _ORDER[finding.severity])),
        requirement=requirement,
        feasible=choice.releases,
        narrowed=choice.narrowed,
    )


class _Choice(Struct, frozen=True):
    """The builds of torch that a target admits, and those of them that work on it, oldest first."""

    builds: tuple[CandidateBuild, ...] = ()
    working: tuple[CandidateBuild, ...] = ()

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that work, newest first."""
        return tuple(sorted({build.version for build in self.working}, key=torch_builds.order, reverse=True))

    @property
    def narrowed(self) -> bool:
        """Return whether some releases work, and the newest isn't one of them."""
        return bool(self.working) and self.builds[-1].version != self.working[-1].version


def _choice(requirement: FamilyRequirement | None, versions: Sequence[str], case: Case) -> _Choice:
    if requirement is None:
        return _Choice()
    machine = case if case.cuda else replace(case, gpus=())
    builds = builds_of(requirement, versions, case.cuda, case.platform)
    return _Choice(tuple(builds), tuple(build for build in builds if works(build, machine)))


def _works(requirement: FamilyRequirement | None, version: str, case: Case) -> bool:
    """Return whether a release of torch works on a target, and can be locked for it."""
    working = _choice(requirement, [version], case).working if requirement else ()
    return any(build.is_lockable(case.python) for build in working)


def case_of(spec: Spec, target: Target) -> Case:
    """Make the case of a target."""
    case = of_target(
        target.platform,
        spec.python,
        target.cuda,
        target.gpus,
        target.driver,
        target.glibc,
        cuda_compat=target.cuda_compat,
    )
    return replace(case, cudnn=newest_cudnn(dependency.text for dependency in spec.conda_dependencies(target)))


def locate(spec: Spec, target: Target, requirement: FamilyRequirement | None, problem: Finding) -> Finding:
    """Put a rule's finding at the place of the key that it is about."""
    if problem.key == "torch" and requirement:
        place: Place | None = requirement.place
    elif problem.key == "python":
        place = spec.places.get("env.python")
    else:
        place = target.places.get(problem.key or "")
    package = head_of(problem.bound).name if problem.bound else problem.package
    return replace(problem, key=None, place=place or target.place, package=package)


def _torch(
    named: FamilyRequirement | None, family: Sequence[FamilyRequirement]
) -> tuple[FamilyRequirement | None, list[str]]:
    """Find the torch that the target asks for, and its known releases. One that only torchvision requires counts."""
    if named:
        return named, list(named.versions())
    for companion in family:
        made_for = companions.torches(companion)
        if made_for:  # of one that is newer than the tables, its METADATA decides
            return replace(companion, name="torch", specifier=Specifier(), local=None), made_for
    return None, []


def _unknown_gpus(target: Target) -> Iterator[Finding]:
    """Refuse names of no GPU where the spec was read without the tables; the command line refuses them as it reads."""
    for name in target.gpus:
        if not gpus.find(name):
            near = gpus.nearest(name, 1)
            yield Finding(
                "error",
                "unknown-gpu",
                f'envspec doesn\'t know the GPU "{name}"',
                target.places.get("gpus") or target.place,
                ("".join(f'did you mean "{known}"? ' for known in near))
                + 'Name a product ("H100") or a capability ("sm_90")',
            )


def _for_torch(case: Case) -> Case:
    """Leave out the GPUs that the CUDA doesn't support: the toolkit's rule reports those once."""
    known = toolkits.toolkit(case.cuda) if case.cuda else None
    if case.cuda is None or known is None:
        return replace(case, gpus=() if case.cuda is None else case.gpus)
    return replace(case, gpus=tuple(gpu for gpu in case.gpus if known.reaches(gpu.capability)))


def _against_torch(
    requirement: FamilyRequirement, versions: Sequence[str], choice: _Choice, case: Case
) -> list[Finding]:
    if not versions:
        return [_unknown_torch(requirement)]
    if not (case.cuda and choice.working):
        case = _for_torch(case)
        choice = _choice(requirement, versions, case)
    if not choice.builds:
        return [_no_build(requirement, versions, case)]
    if not choice.working:
        best = min(reversed(choice.builds), key=lambda build: sum(p.severity == "error" for p in problems(build, case)))
        return problems(best, case)
    findings = problems(choice.working[-1], case)
    return [*findings, _narrowing(requirement, choice, case)] if choice.narrowed else findings


def _unknown_torch(requirement: FamilyRequirement) -> Finding:
    known = known_releases(requirement.channel)
    bounds = requirement.bounds()
    where = (
        "conda-forge's builds that envspec knows" if requirement.channel == "conda" else "the releases envspec knows"
    )
    if bounds and max(bounds) > torch_builds.order(known[-1]):
        message = f"{requirement.label} is newer than {where} (up to {known[-1]}): envspec relies on its METADATA"
        return Finding("info", "torch-newer-than-tables", message, key="torch")
    if bounds and max(bounds) < torch_builds.order(known[0]):
        message = f"{requirement.label} is older than {where} (from {known[0]}): envspec checks nothing"
        return Finding("info", "torch-older-than-tables", message, key="torch")
    return Finding("error", "no-such-torch", f"envspec knows no release that fits {requirement.label}", key="torch")


def _no_build(requirement: FamilyRequirement, versions: Sequence[str], case: Case) -> Finding:
    owner = "conda-forge's " if requirement.channel == "conda" else ""
    requested = requirement.label.split("+")[0]
    if case.cuda is None:
        return Finding("error", "no-build", f"{owner}{requested} has no CPU build for {case.platform}", key="platform")
    elsewhere = [p for p in ("linux-64", "linux-aarch64", "win-64") if builds_of(requirement, versions, case.cuda, p)]
    message = f"{owner}{requested} has no CUDA {case.cuda} build" + (f" for {case.platform}" if elsewhere else "")
    if requirement.channel == "pip" and torch_builds.pypi_variant(versions[-1], case.platform) == "cpu":
        message += "; PyPI's own wheel there is the CPU build"
    return Finding("error", "no-build", message, key="cuda")


def _narrowing(requirement: FamilyRequirement, choice: _Choice, case: Case) -> Finding:
    first, last = choice.working[0].version, choice.working[-1].version
    span = first if first == last else f"{first} to {last}"
    reason = next(p.message for p in problems(choice.builds[-1], case) if p.severity == "error")
    message = f"of {requirement.label}, only {span} can work on this target: {reason}"
    held = [build.version for build in choice.working if build.is_lockable(case.python)]
    ways = tuple(_pin_back(requirement, newest) for newest in held[-1:])
    return Finding("warning", "torch-narrowed", message, key="torch", ways=ways)


def _pin_back(requirement: FamilyRequirement, last: str) -> Way:
    return Way(conda=f"{requirement.name} <={last}") if requirement.channel == "conda" else Way(line=f"torch<={last}")


class _Request(Struct, frozen=True):
    """The subject of the facts' judgement: a target. `torch` is what it asks for by name."""

    case: Case
    torch: FamilyRequirement | None
    family: tuple[FamilyRequirement, ...]

    def problems(self, *, machine_alone: bool = False) -> list[Finding]:
        """List the faults of the target's machine and, unless only the machine is judged, of torch on it."""
        requirement, versions = _torch(self.torch, self.family)
        choice = _choice(requirement, versions, self.case)
        findings = machine_rules.problems(self.case)
        if self.case.cuda and choice.working:  # a GPU that this CUDA doesn't know runs what one has for older ones
            findings = [finding for finding in findings if finding.code != "cuda-too-old-for-gpu"]
        hopeless = machine_rules.older_than_tables(self.case) or any(
            finding.code == "no-such-cuda" for finding in findings
        )
        if requirement and not machine_alone and not hopeless:
            findings += _against_torch(requirement, versions, choice, self.case)
        return findings

    @property
    def errors(self) -> frozenset[str]:
        """The codes of all errors by the facts."""
        requirement, versions = _torch(self.torch, self.family)
        findings = [ease(finding, requirement, self.case) if requirement else finding for finding in self.problems()]
        for companion in self.family:
            findings += companions.findings(companion, requirement, versions, lambda version: False)
        return frozenset(finding.code for finding in findings if finding.severity == "error")

    def apply(self, way: Way) -> _Request:
        """Give the same after a change of the spec."""
        case = replace(
            self.case,
            platform=way.platform or self.case.platform,
            cuda=None if way.cpu else way.cuda or self.case.cuda,
            gpus=() if way.cpu else self.case.gpus,
            python=way.python or self.case.python,
            glibc=way.glibc or self.case.glibc,
            cuda_compat=self.case.cuda_compat if way.cuda_compat is None else way.cuda_compat,
        )
        name, text = "", ""
        if way.line:
            name, text = requirement_name(way.line), str(published_requirement(way.line).specifier)
        elif way.conda:
            name, _, text = way.conda.partition(" ")
            case = replace(case, cudnn=newest_cudnn([way.conda]) or case.cudnn)

        def specify(requirement: FamilyRequirement) -> FamilyRequirement:
            return replace(requirement, specifier=parse(text), local=None) if requirement.name == name else requirement

        torch = self.torch or (replace(self.family[0], name="torch") if name == "torch" and self.family else None)
        return _Request(case, torch and specify(torch), tuple(map(specify, self.family)))


def _leave_working_ways(problem: Finding, request: _Request, before: frozenset[str]) -> Finding:
    """Leave out the ways after which the facts still say the same, or refuse something else."""
    ways = tuple(
        way
        for way in problem.ways
        for after in (request.apply(way),)
        if after.errors <= before - {problem.code}
        and (problem.severity == "error" or all(finding.code != problem.code for finding in after.problems()))
    )
    return replace(problem, ways=ways)


def _with_ways(problem: Finding, versions: Sequence[str], request: _Request, before: frozenset[str]) -> Finding:
    """Add the nearest changes of the tables to a rule's remedy, or a last resort where there is none."""
    if problem.severity != "error" or problem.code in (
        "driver-too-old-for-gpu",
        "driver-dropped-gpu",
        "cuda-compat-impossible",
        "jetson",
        "gpu-platform",
    ):
        if problem.severity == "error" and problem.remedy and problem.code.startswith("driver"):
            problem = replace(problem, remedy=f"if the machines can have it, {problem.remedy}")
        return _leave_working_ways(problem, request, before)
    case, (requirement, _) = request.case, _torch(request.torch, request.family)
    changes = nearest.alternatives(requirement, versions, case, request.family) if requirement else []
    if requirement is None and problem.key == "cuda" and (change := nearest.toolkit_change(case)):
        changes = [change]
    if problem.code.startswith("driver"):
        cuda_changes = tuple(other for other in changes if other.cuda and not (other.line or other.conda))[:1]
        # a newer driver helps only where nothing else is against the target
        helps = replace(request, case=replace(case, driver=None)).errors <= before - {problem.code}
        remedy = f"if the machines can have it, {problem.remedy}" if helps and problem.remedy else None
        return _leave_working_ways(
            replace(problem, remedy=remedy, ways=(*cuda_changes, *problem.ways)), request, before
        )
    problem = _leave_working_ways(replace(problem, ways=(*changes, *problem.ways)), request, before)
    if problem.ways:
        return replace(problem, remedy=machine_rules.instead(case) if machine_rules.is_before_servers(case) else None)
    return problem if problem.remedy else _last_resort(problem, requirement, versions, case)


def _last_resort(
    problem: Finding, requirement: FamilyRequirement | None, versions: Sequence[str], case: Case
) -> Finding:
    """Add what is left where no other wheel works: conda-forge's builds, or that the GPUs have none together."""
    if requirement is None:
        is_many = len(case.capabilities) > 1
        return replace(problem, remedy="no CUDA knows these GPUs together" if is_many else None)
    if requirement.channel == "pip" and requirement.name == "torch":
        by_conda = replace(requirement, name="pytorch", channel="conda", local=None)
        if changes := nearest.alternatives(by_conda, versions, case):
            same = f"pytorch {requirement.specifier}".strip()
            moved = (replace(way, conda=way.conda or same, near=False, note="", without=("torch",)) for way in changes)
            return replace(problem, ways=tuple(moved))
    if any(gpu.integrated for gpu in case.gpus):
        return replace(problem, remedy=machine_rules.instead(case))
    return replace(problem, remedy="no build fits all GPUs of this target" if len(case.gpus) > 1 else None)
