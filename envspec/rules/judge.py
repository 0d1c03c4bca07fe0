"""The verdict on a target before anything is resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import Place, Way
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
    Specifier,
    Wanted,
    builds_of,
    companions_of,
    known_releases,
    newest_cudnn,
    other_channel,
    parse,
    torch_of,
)
from envspec.spec.model import Spec, Target


class Verdict(Struct, frozen=True):
    """The rules' answer on one target.

    findings  everything that the facts say against the target, errors first; empty if it can be locked as it stands
    wanted    the torch that the target asks for, by name or through torchvision alone; None without one
    feasible  the known torch releases that the target admits and that work on it, newest first
    narrowed  the newest release with a build for the target isn't in `feasible`: the resolver needs that list
    """

    findings: tuple[Finding, ...] = ()
    wanted: Wanted | None = None
    feasible: tuple[str, ...] = ()
    narrowed: bool = False

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop a lock."""
        return errors(self.findings)


def admits_newer(wanted: Wanted) -> bool:
    """Say whether a requirement admits releases that are newer than every one in the table."""
    known = conda_builds.versions()[-1] if wanted.channel == "conda" else torch_builds.newest().version
    major, minor, *_ = torch_builds.order(known)
    nexts = (f"{major}.{minor + more}.0" for more in (1, 2, 3, 900))
    return any(map(wanted.admits, (*nexts, f"{major + 1}.0.0")))


def ease(problem: Finding, wanted: Wanted, case: Case) -> Finding:
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


_ORDER = {"error": 0, "warning": 1, "info": 2}


def judge(spec: Spec, target: Target, *, told: bool = True) -> Verdict:
    """Judge a target by the facts.

    A range of torch releases is infeasible only if all of them are. A torch that isn't in the tables yet is never an
    error. Ways that the facts refuse are left out; unless `told`, the others of errors wait for a judge that solves.
    """
    case = case_of(spec, target)
    family = companions_of(spec, target)
    named = torch_of(spec, target)
    wanted, versions = _torch(named, family)
    choice = _choice(wanted, versions, case)
    found = list(_unknown_gpus(target))
    if other := other_channel(spec, target):
        asked_torch, channel = other
        said = f"{asked_torch.label} comes from the channel {channel}, whose builds envspec has no facts of"
        advice = "prove the environment with `envspec smoke`, or take conda-forge's or pip's"
        found.append(Finding("warning", "torch-channel-unknown", said, asked_torch.place, advice))
    contradictions = list(fallback.problems(case, target.gpus, wanted))
    asked = _Asked(case, named, family)
    against = [*contradictions, *asked.problems(machine_alone=bool(contradictions))]
    before = asked.errors if against or family else frozenset()
    for problem in against:
        if problem in contradictions:
            problem = _leave_working_ways(problem, asked, before)
        else:
            problem = _with_ways(problem, versions, asked, before)
        found.append(locate(spec, target, wanted, ease(problem, wanted, case) if wanted else problem))
    for companion in family:
        for problem in companions.findings(companion, wanted, versions, lambda version: _works(wanted, version, case)):
            found.append(_leave_working_ways(problem, asked, before))
    found += secret_variables(spec)
    found = [one if one.severity == "error" and not told else one.tell_ways() for one in found]
    found = list(apply_acceptances(found, spec.pip_terms(target).accept))
    return Verdict(
        findings=tuple(sorted(dict.fromkeys(found), key=lambda finding: _ORDER[finding.severity])),
        wanted=wanted,
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
        """Whether some releases work, and the newest isn't one of them."""
        return bool(self.working) and self.builds[-1].version != self.working[-1].version


def _choice(wanted: Wanted | None, versions: Sequence[str], case: Case) -> _Choice:
    if wanted is None:
        return _Choice()
    machine = case if case.cuda else replace(case, gpus=())
    builds = builds_of(wanted, versions, case.cuda, case.platform)
    return _Choice(tuple(builds), tuple(build for build in builds if works(build, machine)))


def _works(wanted: Wanted | None, version: str, case: Case) -> bool:
    """Say whether a release of torch works on a target, and can be locked for it."""
    working = _choice(wanted, [version], case).working if wanted else ()
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
    return replace(case, cudnn=newest_cudnn(one.text for one in spec.conda_dependencies(target)))


def locate(spec: Spec, target: Target, wanted: Wanted | None, problem: Finding) -> Finding:
    """Put a rule's finding at the place of the key that it is about."""
    if problem.key == "torch" and wanted:
        place: Place | None = wanted.place
    elif problem.key == "python":
        place = spec.places.get("env.python")
    else:
        place = target.places.get(problem.key or "")
    package = head_of(problem.bound).name if problem.bound else problem.package
    return replace(problem, key=None, place=place or target.place, package=package)


def _torch(named: Wanted | None, family: Sequence[Wanted]) -> tuple[Wanted | None, list[str]]:
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
                ("".join(f'did you mean "{one}"? ' for one in near))
                + 'Name a product ("H100") or a capability ("sm_90")',
            )


def _for_torch(case: Case) -> Case:
    """Leave out the GPUs that the CUDA doesn't support: the toolkit's rule reports those once."""
    known = toolkits.toolkit(case.cuda) if case.cuda else None
    if case.cuda is None or known is None:
        return replace(case, gpus=() if case.cuda is None else case.gpus)
    return replace(case, gpus=tuple(gpu for gpu in case.gpus if known.reaches(gpu.capability)))


def _against_torch(wanted: Wanted, versions: Sequence[str], choice: _Choice, case: Case) -> list[Finding]:
    if not versions:
        return [_unknown_torch(wanted)]
    if not (case.cuda and choice.working):
        case = _for_torch(case)
        choice = _choice(wanted, versions, case)
    if not choice.builds:
        return [_no_build(wanted, versions, case)]
    if not choice.working:
        best = min(reversed(choice.builds), key=lambda build: sum(p.severity == "error" for p in problems(build, case)))
        return problems(best, case)
    found = problems(choice.working[-1], case)
    return [*found, _narrowing(wanted, choice, case)] if choice.narrowed else found


def _unknown_torch(wanted: Wanted) -> Finding:
    known = known_releases(wanted.channel)
    bounds = wanted.bounds()
    where = "conda-forge's builds that envspec knows" if wanted.channel == "conda" else "the releases envspec knows"
    if bounds and max(bounds) > torch_builds.order(known[-1]):
        message = f"{wanted.label} is newer than {where} (up to {known[-1]}): envspec relies on its METADATA"
        return Finding("info", "torch-newer-than-tables", message, key="torch")
    if bounds and max(bounds) < torch_builds.order(known[0]):
        message = f"{wanted.label} is older than {where} (from {known[0]}): envspec checks nothing"
        return Finding("info", "torch-older-than-tables", message, key="torch")
    return Finding("error", "no-such-torch", f"envspec knows no release that fits {wanted.label}", key="torch")


def _no_build(wanted: Wanted, versions: Sequence[str], case: Case) -> Finding:
    owner = "conda-forge's " if wanted.channel == "conda" else ""
    asked = wanted.label.split("+")[0]
    if case.cuda is None:
        return Finding("error", "no-build", f"{owner}{asked} has no CPU build for {case.platform}", key="platform")
    elsewhere = [p for p in ("linux-64", "linux-aarch64", "win-64") if builds_of(wanted, versions, case.cuda, p)]
    message = f"{owner}{asked} has no CUDA {case.cuda} build" + (f" for {case.platform}" if elsewhere else "")
    if wanted.channel == "pip" and torch_builds.pypi_variant(versions[-1], case.platform) == "cpu":
        message += "; PyPI's own wheel there is the CPU build"
    return Finding("error", "no-build", message, key="cuda")


def _narrowing(wanted: Wanted, choice: _Choice, case: Case) -> Finding:
    first, last = choice.working[0].version, choice.working[-1].version
    span = first if first == last else f"{first} to {last}"
    reason = next(p.message for p in problems(choice.builds[-1], case) if p.severity == "error")
    message = f"of {wanted.label}, only {span} can work on this target: {reason}"
    held = [build.version for build in choice.working if build.is_lockable(case.python)]
    ways = tuple(_pin_back(wanted, newest) for newest in held[-1:])
    return Finding("warning", "torch-narrowed", message, key="torch", ways=ways)


def _pin_back(wanted: Wanted, last: str) -> Way:
    return Way(conda=f"{wanted.name} <={last}") if wanted.channel == "conda" else Way(line=f"torch<={last}")


class _Asked(Struct, frozen=True):
    """The subject of the facts' judgement: a target. `torch` is what it asks for by name."""

    case: Case
    torch: Wanted | None
    family: tuple[Wanted, ...]

    def problems(self, *, machine_alone: bool = False) -> list[Finding]:
        """List what speaks against the target's machine and, unless that counts alone, against torch on it."""
        wanted, versions = _torch(self.torch, self.family)
        choice = _choice(wanted, versions, self.case)
        found = machine_rules.problems(self.case)
        if self.case.cuda and choice.working:  # a GPU that this CUDA doesn't know runs what one has for older ones
            found = [one for one in found if one.code != "cuda-too-old-for-gpu"]
        hopeless = machine_rules.older_than_tables(self.case) or any(one.code == "no-such-cuda" for one in found)
        if wanted and not machine_alone and not hopeless:
            found += _against_torch(wanted, versions, choice, self.case)
        return found

    @property
    def errors(self) -> frozenset[str]:
        """The codes of all that the facts refuse."""
        wanted, versions = _torch(self.torch, self.family)
        found = [ease(one, wanted, self.case) if wanted else one for one in self.problems()]
        for companion in self.family:
            found += companions.findings(companion, wanted, versions, lambda version: False)
        return frozenset(one.code for one in found if one.severity == "error")

    def apply(self, way: Way) -> _Asked:
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

        def specify(one: Wanted) -> Wanted:
            return replace(one, specifier=parse(text), local=None) if one.name == name else one

        torch = self.torch or (replace(self.family[0], name="torch") if name == "torch" and self.family else None)
        return _Asked(case, torch and specify(torch), tuple(map(specify, self.family)))


def _leave_working_ways(problem: Finding, asked: _Asked, before: frozenset[str]) -> Finding:
    """Leave out the ways after which the facts still say the same, or refuse something else."""
    ways = tuple(
        way
        for way in problem.ways
        for after in (asked.apply(way),)
        if after.errors <= before - {problem.code}
        and (problem.severity == "error" or all(one.code != problem.code for one in after.problems()))
    )
    return replace(problem, ways=ways)


def _with_ways(problem: Finding, versions: Sequence[str], asked: _Asked, before: frozenset[str]) -> Finding:
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
        return _leave_working_ways(problem, asked, before)
    case, (wanted, _) = asked.case, _torch(asked.torch, asked.family)
    found = nearest.alternatives(wanted, versions, case, asked.family) if wanted else []
    if wanted is None and problem.key == "cuda" and (change := nearest.toolkit_change(case)):
        found = [change]
    if problem.code.startswith("driver"):
        others = tuple(one for one in found if one.cuda and not (one.line or one.conda))[:1]
        # a newer driver helps only where nothing else is against the target
        helps = replace(asked, case=replace(case, driver=None)).errors <= before - {problem.code}
        remedy = f"if the machines can have it, {problem.remedy}" if helps and problem.remedy else None
        return _leave_working_ways(replace(problem, remedy=remedy, ways=(*others, *problem.ways)), asked, before)
    problem = _leave_working_ways(replace(problem, ways=(*found, *problem.ways)), asked, before)
    if problem.ways:
        return replace(problem, remedy=machine_rules.instead(case) if machine_rules.is_before_servers(case) else None)
    return problem if problem.remedy else _last_resort(problem, wanted, versions, case)


def _last_resort(problem: Finding, wanted: Wanted | None, versions: Sequence[str], case: Case) -> Finding:
    """Add what is left where no other wheel works: conda-forge's builds, or that the GPUs have none together."""
    if wanted is None:
        several = len(case.capabilities) > 1
        return replace(problem, remedy="no CUDA knows these GPUs together" if several else None)
    if wanted.channel == "pip" and wanted.name == "torch":
        by_conda = replace(wanted, name="pytorch", channel="conda", local=None)
        if found := nearest.alternatives(by_conda, versions, case):
            same = f"pytorch {wanted.specifier}".strip()
            moved = (replace(one, conda=one.conda or same, near=False, note="", without=("torch",)) for one in found)
            return replace(problem, ways=tuple(moved))
    if any(gpu.integrated for gpu in case.gpus):
        return replace(problem, remedy=machine_rules.instead(case))
    return replace(problem, remedy="no build fits all GPUs of this target" if len(case.gpus) > 1 else None)
