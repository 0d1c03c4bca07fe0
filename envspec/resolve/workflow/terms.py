"""The terms of a spec's pip tables: what none may say, and what has no effect (any more)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from urllib.parse import unquote, urlsplit

from envspec.base.codes import meanings
from envspec.base.errors import Place, SpecError
from envspec.base.finding import Finding
from envspec.base.redact import redact
from envspec.lock.inputs import place_of_term
from envspec.packages.edges import Markers
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.packages.tags import wheel_file_tags, wheel_fits
from envspec.resolve.workflow.notices import Notice
from envspec.rules.case import refuse_unacceptable
from envspec.spec.model import Located, Spec, Target


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


def tell_unused_terms(spec: Spec, found: Sequence[tuple[Target, Collection[str]]], notice: Notice) -> None:
    """Report accepted findings that no locked target has, by target and the codes of its findings, and flat indexes
    that no package comes from. Without all targets of the spec, only what stands at a target is judged."""
    whole = {target.name for target, _ in found} == {target.name for target in spec.targets}
    everywhere = {code for _, codes in found for code in codes}
    for code in spec.pip.terms.accept if whole else ():
        if code not in everywhere and not _is_of_a_change(code):
            place = spec.places.get(f"pip.accept.{code.replace(':', '.')}")
            notice(_unused_accept(f"[pip] accepts {_code_text(code)}, which no target has", place))
    for target, codes in found:
        for code in target.terms.accept:
            if code not in codes and not _is_of_a_change(code):
                place = place_of_term(spec, target, "accept", code)
                notice(_unused_accept(f"{target.name} accepts {_code_text(code)}, which it doesn't have", place))
    used = set(spec.pip.sources.values())
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


def _is_of_a_change(key: str) -> bool:
    """Whether `diff` alone finds it: a lock can't say that it no longer occurs."""
    return meanings()[key.partition(":")[0]].said_by == "`diff`"


def _code_text(key: str) -> str:
    code, _, package = key.partition(":")
    return f"{code} of {package}" if package else code


def _unused_accept(message: str, place: Place | None) -> Finding:
    return Finding("warning", "unused-accept", message, place, "remove it")
