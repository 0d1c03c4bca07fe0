"""A spec on a base: the base's packages are fixed, and findings describe them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.facts.wheels import FAMILY
from envspec.lock.graph import Graph
from envspec.lock.inventory import Inventory, as_release
from envspec.lock.model import LockedTarget
from envspec.packages.names import requirement_name
from envspec.packages.requirement import published_requirement
from envspec.resolve.workflow.notices import merge_findings
from envspec.rules.case import apply_acceptances
from envspec.rules.judge import Verdict, case_of, judge, locate
from envspec.rules.on_base import ARCHITECTURES, KnownBase, other_images, problems
from envspec.spec.model import Located, Spec, Target


def judge_on_base(spec: Spec, target: Target, base: Inventory, replaced: Collection[str]) -> Verdict:
    """Judge a target on its base: the base by its inventory, the packages on top by the tables of releases."""
    stay = {name for name, _ in base.packages_besides(replaced)}
    known = stay | {*FAMILY} if "torch" in stay else stay
    verdict = judge(*_without(spec, target, known), with_ways=False)
    torch = base.packages["torch"] if "torch" in stay else None
    known_base = KnownBase(base.python or "", base.glibc, base.cuda, torch, base.variables.get(ARCHITECTURES, ""))
    case = case_of(spec, target)
    lines = [dependency.text for dependency in spec.pip_dependencies(target)] if torch else []
    images = other_images(case, spec.python_range, base.packages.get("torch"), lines)
    findings = [
        locate(spec, target, None, replace(problem, remedy=images) if problem.code == "base-unfit" else problem)
        for problem in problems(case, spec.python_range, known_base)
    ]
    terms = spec.pip_terms(target)
    return replace(verdict, findings=(*apply_acceptances(findings, terms.accept), *verdict.findings))


def _without(spec: Spec, target: Target, names: Collection[str]) -> tuple[Spec, Target]:
    """Give a spec and its target without what they ask of packages."""

    def leave_out(lines: Iterable[Located]) -> tuple[Located, ...]:
        return tuple(line for line in lines if requirement_name(line.text) not in names)

    own = spec.project
    if own is not None:
        of_targets = {name: leave_out(lines) for name, lines in own.of_targets.items()}
        own = replace(own, dependencies=leave_out(own.dependencies), of_targets=of_targets)
    pip = replace(spec.pip, dependencies=leave_out(spec.pip.dependencies))
    return replace(spec, pip=pip, project=own), replace(target, pip=leave_out(target.pip))


def base_findings(locked: Sequence[LockedTarget], inventories: Mapping[str, Inventory]) -> tuple[Finding, ...]:
    """Report once for each package how a base counts: its pre-releases as their final releases, wheels that were
    compiled for a release beside a vendor's own torch, and the unmet requirements of its packages."""
    bases = ((target, inventories.get(target.inputs.platform)) for target in locked)
    return merge_findings((target.name, (*_of_target(target, base),)) for target, base in bases if base)


def _of_target(target: LockedTarget, base: Inventory) -> Iterator[Finding]:
    graph, seen = Graph.of(target), set()
    for edge in (*graph.roots, *(edge for edges in graph.outgoing.values() for edge in edges)):
        own = base.packages.get(edge.target.name) if edge.target.kind == "base" else None
        if own is None or edge.target in seen or as_release(own) == own:
            continue
        if not published_requirement(edge.requirement).specifier.contains(own, prereleases=True):
            seen.add(edge.target)
            who = edge.source.name if edge.source else "the spec"
            text = f"the base's {edge.target.name} {own} counts as {as_release(own)}: {who} requires {edge.requirement}"
            yield Finding("info", "base-pre-release", text, package=edge.target.name)
    stay = dict(target.provided)
    torch = base.packages["torch"] if "torch" in stay else None
    beside = [pin.name for pin in target.pins if pin.name in FAMILY]
    if torch is not None and beside:
        text = f"{', '.join(beside)} {'are' if len(beside) > 1 else 'is'} compiled for PyTorch's own torch"
        remedy = "`envspec smoke` shows whether they work together"
        yield Finding("warning", "base-companion", f"{text}, and the base's is {torch}", remedy=remedy)
    here = stay.keys() | {pin.name for pin in target.pins}
    lacking = [
        f"{name} requires {line}"
        for name in sorted(stay)
        for line in base.requires.get(name, ())
        if requirement_name(line) not in here
    ]
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        text = f"the base lacks packages that its own require: {', '.join(lacking[:3])}{more}"
        yield Finding("info", "base-lacks", text, remedy="name them in the spec where you need them")
