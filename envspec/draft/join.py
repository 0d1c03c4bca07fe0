"""Several files' drafts as one, and where the files contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.texts import few, plural
from envspec.draft.cuda import candidates, within
from envspec.draft.gather import Gathered
from envspec.draft.model import Draft, Note
from envspec.packages.names import requirement_name
from envspec.packages.requirement import (
    canonical_name,
    is_requirement,
    is_satisfiable,
    parse_requirement,
    parse_specifier,
)

_MOST = 8
"""Packages in which a file may contradict the preferred one and still be about the same environment."""
_MOST_WITH_TORCH = 3
"""The same where torch is one of them: what a torch of other days stands beside is of those days too."""
PART = "it's for a part of the repository"
"""Why a file of a folder below is only offered."""


class Declaration(Struct, frozen=True):
    """A file that says something of the environment. `aside` is why it is only offered; None for one that counts."""

    file: str
    draft: Draft
    aside: str | None = None

    @property
    def gives(self) -> str:
        """What it asks for, in a few words; empty where that is nothing."""
        draft = self.draft
        requirements = [*(() if draft.project else draft.own), *draft.pip]
        names = few([requirement_name(one.rpartition("::")[2]) for one in (*requirements, *draft.conda)], 6)
        counts = (
            (len(requirements), "requirement"),
            (len(draft.conda), "match spec"),
            (len(draft.constraints), "constraint"),
            (len(draft.targets), "target"),
            (len(draft.apt), "Debian package"),
        )
        parts = [
            f"the project with {plural(len(draft.own), 'requirement')}" if draft.project else "",
            *(plural(count, word) for count, word in counts if count),
            *(f"Python {one}" for one in (draft.python, draft.requires_python) if one),
            f"CUDA {', '.join(draft.cuda or draft.cuda_bounds)}" if draft.cuda or draft.cuda_bounds else "",
        ]
        return ", ".join(filter(None, parts)) + (f" ({names})" if names else "")


class Contradiction(Struct, frozen=True):
    """The words of several files that can't all hold. `option` is what decides it for one of them, `about` the package
    or the key."""

    about: str
    said: Mapping[str, str]
    option: str = "--prefer"


def join(sources: Iterable[Declaration], prefer: Sequence[str]) -> Draft:
    """Join what several files ask for. Where they contradict each other in a package, the first of the preferred files
    counts."""
    drafts = _without_one_another({one.file: one.draft for one in sources})
    against: dict[tuple[str, str], list[Contradiction]] = {}
    for found in contradictions(drafts):
        chosen = next((one for one in prefer if one in found.said), None)
        if found.option == "--prefer" and chosen is not None:
            for file in sorted(found.said.keys() - {chosen}):
                against.setdefault((file, chosen), []).append(found)
    for (file, chosen), several in against.items():
        of_torch = any(one.about == "torch" for one in several)
        if len(several) > (_MOST_WITH_TORCH if of_torch else _MOST):
            why = f"it contradicts {chosen} in {len(several)} packages, so it's for an environment of its own"
            notes = (*drafts[file].notes, Note(f"the packages of {file} are left out: {why}"))
            drafts[file] = replace(drafts[file], pip=(), own=(), constraints=(), conda=(), project=None, notes=notes)
            continue
        for found in several:
            drafts[file] = without(drafts[file], found.about, f"{chosen} has {found.said[chosen]}", file)
    gathered = Gathered()
    for file, draft in drafts.items():
        gathered.take(draft, file)
    return gathered.draft()


def _without_one_another(drafts: Mapping[str, Draft]) -> dict[str, Draft]:
    """Return the drafts without their requirements on projects among them, which no index is asked for: what those
    ask for counts, with the extras that others ask of them."""
    found = dict(drafts)
    homes = {canonical_name(draft.name): file for file, draft in reversed([*drafts.items()]) if draft.name}
    for file, draft in drafts.items():
        for parsed in map(parse_requirement, (*draft.pip, *draft.own)):
            name = canonical_name(parsed.name)
            home = homes.get(name, file)
            if home != file and not parsed.url:
                found[file] = without(found[file], name, f"it's the project of {home}", file)
                found[home] = with_extras(found[home], sorted(parsed.extras))
    return found


def with_extras(draft: Draft, extras: Iterable[str]) -> Draft:
    """Return the draft of a project with the requirements of these extras; one that it doesn't have becomes a note."""
    for extra in extras:
        key = next((one for one in draft.available if canonical_name(one) == canonical_name(f"extra {extra}")), None)
        if key is None:
            draft = replace(draft, notes=(*draft.notes, Note(f"the project has no extra {extra}")))
            continue
        project = draft.project and (draft.project[0], tuple(dict.fromkeys((*draft.project[1], extra))))
        lines = [one for one in draft.available[key] if is_requirement(one)]
        itself = [one for one in lines if requirement_name(one) == canonical_name(draft.name or "")]
        own = (*draft.own, *(one for one in lines if one not in itself))
        left = {name: one for name, one in draft.available.items() if name != key}
        draft = replace(draft, own=own, project=project, available=left)
        draft = with_extras(draft, sorted({one for text in itself for one in parse_requirement(text).extras}))
    return draft


def contradictions(drafts: Mapping[str, Draft]) -> Iterator[Contradiction]:
    """Find what files contradict each other in."""
    pythons = {file: one for file, draft in drafts.items() if (one := draft.python or draft.requires_python)}
    bounds = (one if one.startswith(tuple("<>=!~")) else f"=={one}.*" for one in pythons.values())
    if not _can_hold(bounds):
        yield Contradiction("Python", pythons, "--python")
    cudas = {file: one for file, draft in drafts.items() if (one := _cuda(draft) or ",".join(draft.cuda_bounds))}
    named = {one for one in map(_cuda, drafts.values()) if one}
    of_cuda = [one for draft in drafts.values() for one in draft.cuda_bounds]
    if len(named) > 1 or not (within(of_cuda, named) if named else candidates(of_cuda, "linux-64")):
        yield Contradiction("CUDA", cudas, "--cuda")
    asked: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for file, draft in drafts.items():
        for name, marker, bound, text in _asks(draft):
            known = asked.setdefault((name, marker), {}).get(file)
            asked[name, marker][file] = (f"{known[0]},{bound}".strip(","), known[1]) if known else (bound, text)
    for (name, _), said in asked.items():
        if not _can_hold(bound for bound, _ in said.values()):
            yield Contradiction(name, {file: text for file, (_, text) in said.items()})


def _cuda(draft: Draft) -> str | None:
    return next((one for one in draft.cuda if one != "cpu"), None)


def _asks(draft: Draft) -> Iterator[tuple[str, str, str, str]]:
    """Yield each requirement's name, marker, bound and text; a URL stands for itself as a bound."""
    for text in (*draft.pip, *draft.own, *draft.constraints):
        parsed = parse_requirement(text)
        yield canonical_name(parsed.name), str(parsed.marker or ""), parsed.url or str(parsed.specifier), text
    for text in draft.conda:
        text = text.rpartition("::")[2].strip()
        name = requirement_name(text)
        bound = text[len(name) :].strip()
        bound = f"=={bound}" if bound[:1].isdigit() else bound
        yield name, "", bound if " " not in bound else "", text


def _can_hold(bounds: Iterable[str]) -> bool:
    """Say whether one version satisfies all bounds. One that PEP 440 can't read is taken to agree; a URL agrees with
    itself and with every version."""
    given = [one.replace(" ", "") for one in bounds if one]
    urls = {one for one in given if "://" in one}
    readable = []
    for one in set(given) - urls:
        try:
            readable.append(str(parse_specifier(one)))
        except ValueError:
            continue
    return len(urls) < 2 and is_satisfiable(",".join(sorted(readable)))


def without(draft: Draft, package: str, why: str, file: str) -> Draft:
    """Return a draft without what it asks of a package. The spec can't name a project that asks for it: its
    requirements are listed then."""
    pip, own, constraints, conda = (
        tuple(one for one in several if requirement_name(one.rpartition("::")[2]) != package)
        for several in (draft.pip, draft.own, draft.constraints, draft.conda)
    )
    left = {*pip, *own, *constraints, *conda}
    gone = [one for one in (*draft.pip, *draft.own, *draft.constraints, *draft.conda) if one not in left]
    notes = (*draft.notes, *(Note(f"{one} of {file} is left out: {why}") for one in gone))
    project = draft.project if own == draft.own else None
    return replace(draft, pip=pip, own=own, constraints=constraints, conda=conda, notes=notes, project=project)
