"""The terms of a spec's pip tables: what none may say, and what has no effect (any more)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from envspec.errors import SpecError
from envspec.lock.inputs import place_of_term
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.rules.accepted import refuse_unacceptable
from envspec.rules.finding import Finding
from envspec.spec.model import Spec, Target
from envspec.workflow.notices import Notice


def refuse_terms(spec: Spec) -> None:
    """Raise SpecError for an accepted finding that can't be accepted or doesn't exist, and for a package whose flat
    index a target that asks for it lacks."""
    for target in spec.targets:
        terms = spec.pip_terms(target)
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


def tell_unused_terms(spec: Spec, found: Sequence[tuple[Target, Collection[str]]], notice: Notice) -> None:
    """Report accepted findings that no locked target has, by target and the codes of its findings, and flat indexes
    that no package comes from. Without all targets of the spec, only what stands at a target is judged."""
    whole = {target.name for target, _ in found} == {target.name for target in spec.targets}
    everywhere = {code for _, codes in found for code in codes}
    for code in spec.pip.terms.accept if whole else ():
        if code not in everywhere:
            notice(_unused(f"[pip] accepts {code}, which no target has", spec.places.get(f"pip.accept.{code}")))
    for target, codes in found:
        for code in target.terms.accept:
            if code not in codes:
                place = place_of_term(spec, target, "accept", code)
                notice(_unused(f"{target.name} accepts {code}, which it doesn't have", place))
    used = {index for name, index in spec.pip.sources.items() if canonical_name(name)}
    for name in spec.flat_pages:
        if name not in used:
            notice(
                Finding(
                    "warning",
                    "unused-find-links",
                    f"no package comes from the flat index {name}",
                    spec.places.get(f"pip.find-links.{name}"),
                    f'name its packages in [pip]: sources = {{ PACKAGE = "{name}" }}',
                )
            )


def _unused(message: str, place: object) -> Finding:
    return Finding("warning", "unused-accept", message, place, "remove it")  # type: ignore[arg-type]
