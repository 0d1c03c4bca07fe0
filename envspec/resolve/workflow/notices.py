"""The notices of a locking run: the rules' findings, corrections, oddities of the spec or the old lock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from envspec.base.errors import Infeasible, together
from envspec.base.finding import Finding, merge_targets
from envspec.base.texts import nearest
from envspec.facts.corrections import Correction, sources_of
from envspec.lock.model import LockedTarget
from envspec.packages.requirement import canonical_name
from envspec.resolve.workflow.corrected import Effect
from envspec.rules.case import hint_to_accept
from envspec.spec.model import Spec

Notice = Callable[[Finding], None]
"""The callback for findings that stop nothing: warnings, corrections."""


def tell_findings(found: Iterable[tuple[str, Sequence[Finding]]], notice: Notice) -> None:
    """Report the findings of targets, by name: each finding once, with its targets.

    Raises Infeasible with an error among them, InfeasibleTargets with several.
    """
    if refused := refusals(found, notice):
        raise together(refused)


def refusals(found: Iterable[tuple[str, Sequence[Finding]]], notice: Notice) -> tuple[Infeasible, ...]:
    """Report the findings of targets, by name, and give the errors among them: each once, with its targets."""
    refused = []
    for one in merge_targets(replace(finding, targets=(name,)) for name, findings in found for finding in findings):
        if one.severity == "error":
            refused.append(_refusal(one))
        else:
            notice(one)
    return tuple(refused)


def _refusal(finding: Finding) -> Infeasible:
    error = Infeasible(finding.text, hint=hint_to_accept(finding), place=finding.place)
    error.code, error.targets, error.ways = finding.code, finding.targets, finding.ways
    return error.concerning(*filter(None, [finding.package]))


def tell_flaws(flaws: Iterable[Finding], notice: Notice) -> None:
    """Report what can't be right in the old lock."""
    for flaw in flaws:
        notice(Finding("warning", flaw.code, f"the lock can't be right: {flaw.text}; envspec resolves this again"))


def tell_corrections(found: Iterable[tuple[str, Effect]], notice: Notice) -> None:
    """Report what corrections of published metadata did, by target name: each once, with its targets."""
    targets: dict[tuple[str, str, str, str], list[str]] = {}
    for target, effect in found:
        one = effect.correction
        more = f"; `envspec explain {one.name}` has its source" if sources_of(one) else ""
        targets.setdefault((one.name, effect.text, one.reason, more), []).append(target)
    for (name, text, reason, more), names in targets.items():
        notice(
            Finding(
                "info",
                "correction",
                f"{text}, because {reason}",
                remedy=f'to do without: without-corrections = ["{name}"] in [pip]{more}',
                targets=tuple(names),
            )
        )


def tell_given_way(found: Iterable[tuple[str, Correction]], notice: Notice) -> None:
    """Report corrections that requirements left no room for, by target name: each once, with its targets."""
    tell_sacrifices(
        (
            (
                name,
                f"{one.requirement} isn't added to {one.package}, because the requirements leave nothing within it, "
                f"though {one.reason}",
                None,
            )
            for name, one in found
        ),
        notice,
    )


def tell_sacrifices(found: Iterable[tuple[str, str, str | None]], notice: Notice) -> None:
    """Report what was locked instead of pins that can't work, and how to keep them, by target name: each once, with its
    targets."""
    targets: dict[tuple[str, str | None], list[str]] = {}
    for target, text, how in found:
        targets.setdefault((text, how), []).append(target)
    for (text, how), names in targets.items():
        notice(Finding("info", "given-up", text, remedy=how, targets=tuple(names)))


def tell_unused_sources(spec: Spec, locked: Iterable[LockedTarget], notice: Notice) -> None:
    """Report a source for a name that no target has: the name that it was meant for would come from PyPI."""
    used = _names(locked)
    places = {
        canonical_name(key.removeprefix("pip.sources.")): place
        for key, place in spec.places.items()
        if key.startswith("pip.sources.")
    }
    for name, index in sorted(spec.pip.sources.items()):
        if name not in used:
            notice(
                Finding(
                    "warning",
                    "unused-source",
                    f"[pip] sources names {name}, which no target has: a misspelt name would come from PyPI",
                    places.get(name),
                    f"write the name as the dependency has it, or remove it if no package has to come from {index}",
                )
            )


def tell_misspelt(spec: Spec, locked: Iterable[LockedTarget], notice: Notice) -> None:
    """Report what [pip] says of a package that no target has, where one has a name much like it. A list that several
    specs share may name more than one of them has."""
    used = _names(locked)
    for key, names in _package_keys(spec):
        for name in sorted(set(names) - used):
            meant = nearest(name, used, alike=0.8)
            if meant and meant not in names:
                notice(
                    Finding(
                        "warning",
                        "misspelt",
                        f"[pip] {key} names {name}, which no target has",
                        spec.places.get(f"pip.{key}.{name}") or spec.places.get(f"pip.{key}"),
                        f"did you mean {meant}?",
                    )
                )


def _package_keys(spec: Spec) -> Iterable[tuple[str, Collection[str]]]:
    """Give the keys of [pip] that speak of packages without asking for them, and the packages' names."""
    terms = spec.pip.terms
    return (
        ("allow-source", spec.pip.allow_source),
        ("metadata", [one.name for one in terms.metadata]),
        ("build-dependencies", terms.build_dependencies),
        ("no-build-isolation", terms.no_build_isolation),
    )


def _names(locked: Iterable[LockedTarget]) -> set[str]:
    return {canonical_name(name) for target in locked for pin in target.pins for name in (pin.name, *pin.provides)}
