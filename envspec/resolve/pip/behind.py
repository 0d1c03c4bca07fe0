"""The requirements of a spec that stay behind: chosen anew, and its bounds, its date and the platform admit a newer
release. A warning a cause where one is far behind; a note where the target is the cause. Nothing is solved for
it: pages and METADATA come in through functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from envspec.base.finding import Finding, Severity
from envspec.facts import torch_builds
from envspec.facts.cuda_stack import VERSIONED_BY_CUDA, is_toolkit
from envspec.facts.frameworks import LEADING
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import Release, is_older
from envspec.packages.names import requirement_name
from envspec.packages.requirement import published_requirement
from envspec.packages.tags import is_for_platform, takes_python
from envspec.packages.version_numbers import numbers
from envspec.resolve.pip.leads import LeadCase
from envspec.resolve.pip.newest import is_behind, is_skipped, needed_glibc, suits_target, wheels_fit
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index import holes
from envspec.resolve.torch_index.choice import TorchIndex

FAR = "far-behind"
"""The warning above everything else."""
_MOST = 5
"""Packages that a sentence names."""
_READ = 12
"""Packages of whose METADATA the reason of one is read."""

Kind = Literal["python", "glibc", "platform", "cuda", "hole", "refused", "package", "target", "rest"]

OF_TARGET: frozenset[Kind] = frozenset({"python", "glibc", "platform", "cuda", "hole", "refused"})
"""The causes that another target wouldn't have."""


class BehindCause(Struct, frozen=True):
    """The reason why newer releases stay out.

    subject  the package, with its version, whose wheels don't fit, that rules refuse on the target, or that they don't
             go with; or the torch that the facts lack
    line     the subject's requirement that refuses them; none where their own requirements refuse the subject
    glibc    the glibc that the newer releases want
    torch    the newest known release of torch that they go with, where the target has none of these
    """

    kind: Kind
    subject: str = ""
    line: str = ""
    glibc: str = ""
    torch: str = ""


class Behind(Struct, frozen=True):
    """A package that isn't at the newest release that the spec admits.

    far  the package is a year behind it, or, for a framework, three feature releases
    """

    name: str
    taken: str
    newest: str
    far: bool
    cause: BehindCause


def find_behind(case: LeadCase, index: TorchIndex, shared: Mapping[str, str]) -> Iterator[Behind]:
    """Find the packages that stay behind in an answer. Versions `shared` with another target don't count: that target
    chose them."""
    locked = {package.name: package.version or "" for package in case.packages}
    for name in case.order:
        page = () if case.stays(name) else case.admitted(name)
        taken = case.taken[name]
        newer = [release for release in page if is_older(taken, release.version)]
        if newer:
            own = next((release for release in (*page, *case.releases(name)) if release.version == taken), None)
            own = own or Release(taken, (), False, False, None, None)
            far = is_behind(own, newer[0], name, page)
            fitting = case.newer(name)
            if not fitting or (far and not is_behind(own, fitting[0], name, page)):
                cause = _unfit(name, newer[0], case)
            elif shared.get(name) == locked[name]:
                cause = BehindCause("target")
            else:
                cause = cause_of(name, fitting[-1], case, index)
            yield Behind(name, taken, newer[0].version, far, cause)


def cause_of(name: str, release: Release, case: LeadCase, index: TorchIndex) -> BehindCause:
    """Find the cause that keeps a release, which fits by its page, out of an answer."""
    # what the spec asks for itself says more than what it leads to
    for asker in sorted(case.edges, key=lambda package: package not in case.order):
        for line in case.edges[asker]:
            if requirement_name(line) == name and release.version not in published_requirement(line).specifier:
                return BehindCause("package", f"{asker} {case.taken[asker]}", line)
    causes = _causes(name, release.version, case, index, set())
    return min(causes, key=lambda cause: _ORDER.index(cause.kind), default=BehindCause("rest"))


def _unfit(name: str, release: Release, case: LeadCase) -> BehindCause:
    """Say what a release wants that the target hasn't."""
    if name == "torch":
        return _cuda(case)
    request = case.request
    if release.unsuited:
        return BehindCause("platform", f"{name} {release.version}")
    if takes_python(release.requires_python or "", request.full_python):
        if glibc := needed_glibc(release.wheels, request):
            return BehindCause("glibc", glibc=glibc)
        if not release.wheels or wheels_fit(release.wheels, request):
            return BehindCause("rest")
    return BehindCause("python")


def _cuda(case: LeadCase, torch: str = "") -> BehindCause:
    return BehindCause("cuda", next((release.version for release in case.releases("torch")), "none"), torch=torch)


def _causes(name: str, version: str, case: LeadCase, index: TorchIndex, seen: set[str]) -> Iterator[BehindCause]:
    """Read what a release requires for the causes that keep it out. `seen` has the packages that were read."""
    seen.add(name)
    for line in case.requires(name, version) if len(seen) <= _READ else ():
        requirement = published_requirement(line)
        other = requirement_name(line)
        now = case.taken.get(other)
        if requirement.url or other in seen or (now and requirement.specifier.contains(now, prereleases=True)):
            continue
        if other in FAMILY and not case.can_have(line, {}):
            unheld = holes.find_unheld([(other, str(requirement.specifier))], case.request, index)
            yield from (BehindCause("hole", lack.sentence(case.request)) for lack in unheld if lack.hole)
            known = (release.version for release in torch_builds.releases() if other == "torch")
            within = [version for version in known if requirement.specifier.contains(version, prereleases=True)]
            yield _cuda(case, max(within, key=torch_builds.order, default=""))
            continue
        page = [release for release in case.releases(other) if release.version in requirement.specifier]
        admitted = [candidate for candidate in page if suits_target(candidate, case.request, other, None)]
        fitting = [candidate for candidate in admitted if not is_skipped(candidate, case.request, other)]
        own = [bound for bound in map(published_requirement, case.request.own) if bound.name == other]
        if admitted and not fitting:
            yield _lacking(case.request, other, admitted[0])
        elif fitting and not any(all(candidate.version in bound.specifier for bound in own) for candidate in fitting):
            yield BehindCause("refused", f"{other} {fitting[0].version}")
        elif now and (torch := _older_torch(case, other, fitting)):
            yield _cuda(case, torch)
        elif now:
            yield BehindCause("package", f"{other} {now}")
        elif fitting:
            yield from _causes(other, fitting[0].version, case, index, seen)


def _older_torch(case: LeadCase, name: str, releases: Sequence[Release]) -> str:
    """Find the newest torch, older than all that the target has, which goes with releases that the answer's torch
    refuses; empty without one."""

    def admits(lines: Iterable[str]) -> bool:
        bounds = [published_requirement(line).specifier for line in lines if requirement_name(line) == name]
        return any(all(release.version in bound for bound in bounds) for release in releases)

    if "torch" not in case.taken or admits(case.edges.get("torch", ())):
        return ""
    oldest = [case.taken["torch"], *(release.version for release in case.fitting("torch"))][-1]
    known = holes.known_requirements(case.request)
    return next((version for version, lines in known if is_older(version, oldest) and admits(lines)), "")


def _lacking(request: Request, name: str, release: Release) -> BehindCause:
    subject = f"{name} {release.version}"
    if glibc := needed_glibc(release.wheels, request):
        return BehindCause("glibc", subject, glibc=glibc)
    here = any(is_for_platform(file, request.platform) for file in release.wheels)
    return BehindCause("python" if here else "platform", subject)


_ORDER: Sequence[Kind] = ("hole", "cuda", "refused", "glibc", "platform", "python", "package", "rest")
"""Of several causes that with the least that a spec says of it comes first."""


def behind_findings(
    lagging: Iterable[Behind], request: Request, explained: Iterable[Finding] = ()
) -> Iterator[Finding]:
    """Write one sentence for each cause: a warning for packages far behind, a note for near ones that only the target
    holds back. Packages `explained` elsewhere have a warning of their own where they are far behind; for a hole of the
    facts that is enough."""
    codes = {
        finding.package: finding.code
        for finding in explained
        if finding.package and finding.code in ("given-up", holes.CODE)
    }
    alone = {name for name, code in codes.items() if code == "given-up"}
    lagging = [behind for behind in lagging if codes.get(behind.name) != holes.CODE and not follows_cuda(behind.name)]
    groups: dict[tuple[bool, str, str], list[Behind]] = {}
    for behind in lagging:
        of_target = behind.cause.kind in OF_TARGET or behind.name in LEADING
        subject = "" if behind.cause.kind in ("python", "glibc") else behind.cause.subject
        if behind.name in alone and behind.far:
            groups[True, "", behind.name] = [behind]
        elif behind.far or (of_target and behind.name not in alone):
            groups.setdefault((behind.far, behind.cause.kind, subject), []).append(behind)
    for (far, kind, _), members in groups.items():
        glibc = max((member.cause.glibc for member in members if member.cause.glibc), key=numbers, default="")
        remedy = f'if the machines have it, set glibc = "{glibc}" in the target' if glibc else None
        message = f"{_subjects(members)}: {reason_of(members, request, glibc)}"
        package = members[0].name if len(members) == 1 else None
        if kind == "hole":
            remedy = "if this machine reaches the PyTorch index, --refresh asks it"
            yield Finding("warning", holes.CODE, message, remedy=remedy, package=package)
        else:
            severity: Severity = "warning" if far else "info"
            yield Finding(severity, FAR if far else "passed-over", message, remedy=remedy, package=package)


def follows_cuda(name: str) -> bool:
    """Return whether a package follows torch or the target's CUDA by its nature."""
    return name in FAMILY[1:] or name in VERSIONED_BY_CUDA or is_toolkit(name)


def _subjects(members: Sequence[Behind]) -> str:
    if len(members) == 1:
        member = members[0]
        return f"{member.name} {member.taken} is locked, not {member.newest}"
    named = [f"{member.name} {member.taken} (not {member.newest})" for member in members[:_MOST]]
    more = len(members) - len(named)
    *front, last = [*named, *([f"{more} more" if more > 1 else "one more"] if more else [])]
    return f"{', '.join(front)} and {last} are locked"


def reason_of(members: Sequence[Behind], request: Request, glibc: str) -> str:
    """Write the reason that keeps newer releases of packages out, for packages with one cause. `glibc` is the newest
    that these releases want."""
    cause = members[0].cause
    subjects = list(dict.fromkeys(behind.cause.subject for behind in members if behind.cause.subject))
    lines = list(dict.fromkeys(behind.cause.line for behind in members))
    match cause.kind:
        case "python":
            return f"{_wanting(subjects)} another Python than {request.python}"
        case "glibc":
            return f"{_wanting(subjects)} glibc {glibc}, and the target has {request.glibc or '2.28'}"
        case "platform":
            return f"{cause.subject} has no wheel for the target"
        case "refused":
            return f"{cause.subject} doesn't work on the target"
        case "cuda":
            return f"the newest torch for {f'CUDA {request.cuda}' if request.cuda else 'the CPU'} is {cause.subject}"
        case "hole":
            return f"newer ones need {cause.subject}"
        case "package" if all(lines):
            return f"{cause.subject} requires {' and '.join(lines)}"
        case "package":
            return f"newer ones don't go with {cause.subject}"
        case "target":
            return "another target has it, and targets of one spec share versions"
    return "newer ones don't go with the rest of the spec"


def _wanting(subjects: Sequence[str]) -> str:
    listed = " and ".join(subjects[:3]) or "newer ones"
    return f"{listed} {'wants' if len(subjects) == 1 else 'want'}"
