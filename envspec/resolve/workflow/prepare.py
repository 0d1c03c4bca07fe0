"""The preparation of targets: each is judged, and the inputs of its resolution are collected."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.codes import meanings
from envspec.base.errors import EnvspecError, Place, SpecError, together
from envspec.base.finding import Finding, carrying
from envspec.base.redact import redact
from envspec.base.texts import nearest
from envspec.facts import conda_builds, torch_builds
from envspec.facts.corrections import NO_CORRECTIONS, Corrections, corrections, table, unknown_names
from envspec.facts.cuda_stack import stack_of
from envspec.facts.minimum import architectures
from envspec.lock.inputs import SpecCase, place_of_term
from envspec.lock.inventory import Inventory
from envspec.lock.model import Pin, SpecInputs, TargetInputs
from envspec.lock.rules.builds import NUMPY
from envspec.packages.address import parse_address
from envspec.packages.edges import Markers
from envspec.packages.names import normalise_requirement, requirement_name
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.packages.tags import wheel_file_tags, wheel_fits
from envspec.resolve.conda.request import CondaRequest, conda_request_for
from envspec.resolve.workflow.base import judge_on_base
from envspec.resolve.workflow.notices import merge_findings, refusals
from envspec.rules.case import refuse_unacceptable
from envspec.rules.judge import Verdict, judge
from envspec.spec.model import Located, Spec, Target
from envspec.spec.newer import bounds

# The terms of a spec's pip tables: what none may say, and what has no effect (any more).


def refuse_terms(spec: Spec) -> None:
    """Raise SpecError for an accepted finding that can't be accepted or doesn't exist, for a package whose flat index a
    target that asks for it lacks, and for a wheel by address that doesn't run on a target that asks for it."""
    for target in spec.targets:
        terms = spec.pip_terms(target)
        for located in (*spec.pip_dependencies(target), *terms.overrides):
            _refuse_wheel(spec, target, located)
        for code in terms.accept:
            refuse_unacceptable(code, place_of_term(spec, target, "accept", code))
        for located in spec.pip_dependencies(target):
            name = requirement_name(located.text)
            index = spec.pip.sources.get(name)
            if index in spec.flat_pages and index not in terms.find_links:
                raise SpecError(
                    f"{target.name} asks for {name}, which comes from {index}, and has no page of that name",
                    hint=f'add to [targets.{target.name}.pip]: find-links = {{ {index} = "https://…" }}',
                    place=located.place,
                )


def _refuse_wheel(spec: Spec, target: Target, located: Located) -> None:
    """Raise SpecError for a wheel by address whose file name says that it doesn't run on a target that asks for it."""
    url = parse_requirement(located.text).url if "@" in located.text else None
    file = unquote(urlsplit(url).path).rpartition("/")[2] if url else ""
    if not file.endswith(".whl") or not Markers(target.platform, spec.full_python(target)).hold(located.text):
        return
    glibc = target.glibc if target.platform.startswith("linux-") else None
    if not wheel_file_tags(file):
        raise SpecError(
            f"{redact(file)} isn't the name of a wheel",
            hint="give the wheel's own address, whose last part is its file name",
            place=located.place,
        )
    if not wheel_fits(file, target.platform, spec.python, glibc):
        machine = f"{target.platform} with Python {spec.python}" + (f" and glibc {glibc}" if glibc else "")
        raise SpecError(
            f"{target.name}: {redact(file)} doesn't run on {machine}",
            hint="give the wheel for this target in its own [targets.NAME.pip], or bound this one by a marker",
            place=located.place,
        )


def unused_terms(spec: Spec, codes_of_targets: Sequence[tuple[Target, Collection[str]]]) -> Iterator[Finding]:
    """Warn of accepted findings that no locked target has, by target and the codes of its findings, and flat indexes
    that no package comes from. Without all targets of the spec, only what stands at a target is judged."""
    whole = {target.name for target, _ in codes_of_targets} == {target.name for target in spec.targets}
    everywhere = {code for _, codes in codes_of_targets for code in codes}
    for code in spec.pip.terms.accept if whole else ():
        if code not in everywhere and not _is_of_a_change(code):
            place = spec.places.get(f"pip.accept.{code.replace(':', '.')}")
            yield _unused_accept(f"[pip] accepts {_code_text(code)}, which no target has", place)
    for target, codes in codes_of_targets:
        for code in target.terms.accept:
            if code not in codes and not _is_of_a_change(code):
                place = place_of_term(spec, target, "accept", code)
                yield _unused_accept(f"{target.name} accepts {_code_text(code)}, which it doesn't have", place)
    used = set(spec.pip.sources.values())
    for name in spec.flat_pages:
        if name not in used:
            yield Finding(
                "warning",
                "unused-find-links",
                f"no package comes from the flat index {name}",
                spec.places.get(f"pip.find-links.{name}"),
                f'name its packages in [pip]: sources = {{ PACKAGE = "{name}" }}',
            )


def _is_of_a_change(key: str) -> bool:
    """Whether `diff` alone finds it: a lock can't say that it no longer occurs."""
    return meanings()[key.partition(":")[0]].said_by == "`diff`"


def _code_text(key: str) -> str:
    code, _, package = key.partition(":")
    return f"{code} of {package}" if package else code


def _unused_accept(message: str, place: Place | None) -> Finding:
    return Finding("warning", "unused-accept", message, place, "remove it")


class NotAfter(Struct, frozen=True):
    """A site's bound in time: nothing published at `moment` (RFC 3339, UTC) or later is taken, but for packages that
    are `exempt`, by their normalised names."""

    moment: str
    exempt: frozenset[str] = frozenset()


class Prepared(Struct, frozen=True):
    """A target that is ready to be solved.

    target       as the spec has it
    shared       the inputs of all targets of the spec
    inputs       the inputs of this target
    verdict      the rules' verdict, without errors
    constraints  PEP 508 lines that admit only the torch wheels that work on it
    corrections  of published metadata; active those whose two packages the target itself asks for
    exempt       packages that the spec's own bound in time alone holds for: name → that bound
    conda        the request of its conda half; None without one
    tools        the requirements of the spec's project for its build alone, as `inputs` has them, each with its place:
                 they shape nothing else. Packages that the project may be compiled against aren't among them
    direct       the packages that the spec itself asks for, in its order, without those for builds alone
    provided     the packages that stay of its base, each with the version that requirements see; `extras` has the
                 requirements of their extras
    """

    target: Target
    shared: SpecInputs
    inputs: TargetInputs
    verdict: Verdict
    constraints: tuple[str, ...] = ()
    corrections: Corrections = NO_CORRECTIONS
    exempt: tuple[tuple[str, str | None], ...] = ()
    conda: CondaRequest | None = None
    tools: tuple[tuple[str, Place], ...] = ()
    direct: tuple[str, ...] = ()
    provided: tuple[tuple[str, str], ...] = ()
    extras: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def name(self) -> str:
        return self.target.name

    def beside(self, conda: Sequence[Pin]) -> Prepared:
        """Give the target with the Python that its conda half brings."""
        python = next((pin.version for pin in conda if pin.name == "python"), None)
        return replace(self, inputs=replace(self.inputs, python_version=python)) if python else self


def prepare(
    case: SpecCase,
    targets: Sequence[Target],
    not_after: NotAfter | None = None,
    inventories: Mapping[str, Inventory] = MappingProxyType({}),
) -> tuple[Prepared, ...]:
    """Prepare these targets of a spec, within a site's bound in time. `inventories` are those of its bases, by
    platform. The rules' warnings stand in the verdicts.

    Raises Infeasible, with these warnings, for targets that the rules refuse, with ways that only the facts have
    judged; SpecError for a correction that doesn't exist and for a requirement that no lock can hold, and
    InfeasibleTargets for several of them.
    """
    spec, shared = case.spec, case.shared
    _refuse_unknown_corrections(spec)
    refuse_terms(spec)
    refused: list[EnvspecError] = [address for target in targets for address in _refused_addresses(spec, target)]
    replaced = [name for name, _ in shared.base.replace] if shared.base else []

    def verdict_on(target: Target) -> Verdict:
        base = inventories.get(target.platform)
        return judge_on_base(spec, target, base, replaced) if base else judge(spec, target, with_ways=False)

    verdicts = [verdict_on(target) for target in targets]
    of_rules = merge_findings((t.name, verdict.findings) for t, verdict in zip(targets, verdicts, strict=True))
    refused += refusals(of_rules)
    if refused:
        with carrying() as findings:
            findings += (finding for finding in of_rules if finding.severity != "error")
            raise together(refused)
    exempt = _exempt(spec, not_after)
    if not_after is not None:
        # no part of the lock: a bound that moves would make it stale the next day
        shared = replace(shared, exclude_newer=min(shared.exclude_newer or not_after.moment, not_after.moment))
    known = corrections(shared.without_corrections)

    def prepare_one(target: Target, verdict: Verdict) -> Prepared:
        inputs, base = case.targets[target.name], inventories.get(target.platform)
        if not inputs.conda_requirements:
            exact = base.exact_python if base else spec.python_builds.get(target.platform)
            inputs = inputs.with_python(exact, of_base=not shared.brings_python)
        of_pip, of_conda = _torch_bounds(verdict)
        by_base = map(normalise_requirement, base.constraints_on(replaced)) if base else ()
        return Prepared(
            target=target,
            shared=shared,
            inputs=inputs,
            verdict=verdict,
            constraints=(*of_pip, *by_base),
            corrections=known.with_active(known.beside(map(requirement_name, inputs.requirements))),
            exempt=exempt,
            conda=conda_request_for(shared, inputs, architectures(target.gpus), of_conda)
            if inputs.conda_requirements
            else None,
            tools=tuple(_tools(spec, target)),
            direct=tuple(dict.fromkeys(requirement_name(own.text) for own in spec.own_dependencies(target))),
            provided=base.packages_besides(replaced) if base else (),
            extras=base.extras_besides(replaced) if base else (),
        )

    return tuple(map(prepare_one, targets, verdicts))


def _tools(spec: Spec, target: Target) -> Iterator[tuple[str, Place]]:
    for tool in spec.build_tools(target):
        name = requirement_name(tool.text)
        if stack_of(name) is None and name != NUMPY:
            yield normalise_requirement(tool.text), tool.place


def _exempt(spec: Spec, not_after: NotAfter | None) -> tuple[tuple[str, str | None], ...]:
    """Give the packages that the bound of all others doesn't hold for, each with its own: the spec's, and within a
    site's bound whichever is earlier, but for what the site exempts."""
    own = dict(bounds(spec))
    if not_after is not None:
        own = {name: min(bound or not_after.moment, not_after.moment) for name, bound in own.items()}
        own |= {name: bounds(spec).get(name, spec.exclude_newer) for name in not_after.exempt}
    return tuple(sorted(own.items()))


def _torch_bounds(verdict: Verdict) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the bounds, for pip and for conda, that admit only the torch releases that work; none where the newest one
    works."""
    if verdict.requirement is None or not verdict.narrowed:
        return (), ()
    newest, oldest = verdict.feasible[0], verdict.feasible[-1]
    by_conda = verdict.requirement.channel == "conda"
    known = conda_builds.versions() if by_conda else [release.version for release in torch_builds.releases()]
    first, last = torch_builds.order(oldest), torch_builds.order(newest)
    between = [version for version in known if first < torch_builds.order(version) < last]
    bounds = ",".join([f">={oldest}", f"<={newest}", *(f"!={v}" for v in between if v not in verdict.feasible)])
    return ((), (f"pytorch {bounds}",)) if by_conda else ((f"torch{bounds}",), ())


def _refuse_unknown_corrections(spec: Spec) -> None:
    for name in unknown_names(spec.pip.without_corrections):
        known = [row.name for row in table()]
        near = nearest(name, known)
        raise SpecError(
            f'there is no correction "{name}"',
            hint=f'did you mean "{near}"?'
            if near
            else "`envspec lock` names each correction in the line that tells it",
            place=spec.places.get("pip.without-corrections"),
        )


def _refused_addresses(spec: Spec, target: Target) -> Iterator[SpecError]:
    """Refuse requirements whose source can't be locked: a path of this machine, or a source that may not be built."""

    def refusal(message: str, hint: str, place: Place, name: str) -> SpecError:
        error = SpecError(message, hint=hint, place=place).with_subjects(name)
        error.targets = (target.name,)
        return error

    for located in (*spec.pip_dependencies(target), *spec.pip_terms(target).overrides):
        requirement = parse_requirement(located.text) if "@" in located.text else None
        if requirement is None or requirement.url is None:
            continue
        name = canonical_name(requirement.name)
        if requirement.url.startswith("file:"):
            message = f"{redact(located.text)} is a path of this machine, which a lock can't hold"
            folder = f'find-links = {{ own = "./wheels" }}, sources = {{ {name} = "own" }}'
            hint = f"name its folder: {folder}; or give a git URL, or a release"
            yield refusal(message, hint, located.place, name)
            continue
        try:
            address = parse_address(requirement.url)
        except ValueError as reason:
            message = f"{redact(located.text)} has an address that tools read in more than one way: {reason}"
            hint = "write it as scheme://host/path, or git+scheme://host/path@revision for a repository"
            yield refusal(message, hint, located.place, name)
            continue
        if (address.git or not unquote(address.path).endswith(".whl")) and name not in spec.pip.allow_source:
            message = f"{redact(located.text)} is built from source, which runs its code"
            hint = (
                f'if you trust it, run the same command with --allow-needed, or add to [pip]: allow-source = ["{name}"]'
            )
            refused = refusal(message, hint, located.place, name)
            refused.code = "source-needed"
            yield refused
