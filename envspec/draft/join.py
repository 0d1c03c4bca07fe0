"""Several files' drafts as one, and where the files contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import Place
from envspec.base.texts import few, plural
from envspec.draft.claims import Agreement, candidates, settle, within
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
        draft, settled = self.draft, settle(self.draft.claims)
        requirements = [*(() if draft.project else draft.own), *draft.pip]
        names = few([requirement_name(text.rpartition("::")[2]) for text in (*requirements, *draft.conda)], 6)
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
            *(f"Python {version}" for version in (settled.python, settled.requires) if version),
            f"CUDA {', '.join(cudas)}" if (cudas := settled.cuda or settled.cuda_bounds) else "",
        ]
        return ", ".join(filter(None, parts)) + (f" ({names})" if names else "")


class Contradiction(Struct, frozen=True):
    """The claims of several files, or of the lines of one, that can't all hold. `option` is what decides it for one of
    them, `about` the package or the key, `lines` are the claims with their places."""

    about: str
    claims: Mapping[str, str]
    lines: tuple[Note, ...]
    option: str = "--prefer"

    def __str__(self) -> str:
        return f"{self.about} ({', '.join(f'{line.text} in {line.place}' for line in self.lines)})"


def join(sources: Iterable[Declaration], prefer: Sequence[str]) -> Draft:
    """Join what several files ask for. Where they contradict each other in a package, the first of the preferred files
    counts."""
    drafts = _without_one_another({source.file: source.draft for source in sources})
    against: dict[tuple[str, str], list[Contradiction]] = {}
    for contradiction in contradictions(drafts):
        chosen = next((file for file in prefer if file in contradiction.claims), None)
        if contradiction.option == "--prefer" and chosen is not None:
            for file in sorted(contradiction.claims.keys() - {chosen}):
                against.setdefault((file, chosen), []).append(contradiction)
    for (file, chosen), contradicting in against.items():
        of_torch = any(contradiction.about == "torch" for contradiction in contradicting)
        if len(contradicting) > (_MOST_WITH_TORCH if of_torch else _MOST):
            why = f"it contradicts {chosen} in {len(contradicting)} packages, so it's for an environment of its own"
            notes = (*drafts[file].notes, Note(f"the packages of {file} are left out: {why}"))
            drafts[file] = replace(drafts[file], pip=(), own=(), constraints=(), conda=(), project=None, notes=notes)
            continue
        for contradiction in contradicting:
            drafts[file] = without(
                drafts[file], contradiction.about, f"{chosen} has {contradiction.claims[chosen]}", file
            )
    gathered = Gathered()
    for file, draft in drafts.items():
        gathered.take(draft, file)
    return gathered.draft()


def _without_one_another(drafts: Mapping[str, Draft]) -> dict[str, Draft]:
    """Return the drafts without their requirements on projects among them, which no index is asked for: what those
    ask for counts, with the extras that others ask of them."""
    joined = dict(drafts)
    homes = {canonical_name(draft.name): file for file, draft in reversed([*drafts.items()]) if draft.name}
    for file, draft in drafts.items():
        for parsed in map(parse_requirement, (*draft.pip, *draft.own)):
            name = canonical_name(parsed.name)
            home = homes.get(name, file)
            if home != file and not parsed.url:
                joined[file] = without(joined[file], name, f"it's the project of {home}", file)
                joined[home] = with_extras(joined[home], sorted(parsed.extras))
    return joined


def with_extras(draft: Draft, extras: Iterable[str]) -> Draft:
    """Return the draft of a project with the requirements of these extras; one that it doesn't have becomes a note."""
    for extra in extras:
        key = next((name for name in draft.available if canonical_name(name) == canonical_name(f"extra {extra}")), None)
        if key is None:
            draft = replace(draft, notes=(*draft.notes, Note(f"the project has no extra {extra}")))
            continue
        project = draft.project and (draft.project[0], tuple(dict.fromkeys((*draft.project[1], extra))))
        lines = [line for line in draft.available[key] if is_requirement(line)]
        itself = [line for line in lines if requirement_name(line) == canonical_name(draft.name or "")]
        own = (*draft.own, *(line for line in lines if line not in itself))
        left = {name: requirements for name, requirements in draft.available.items() if name != key}
        draft = replace(draft, own=own, project=project, available=left)
        draft = with_extras(
            draft, sorted({requested for text in itself for requested in parse_requirement(text).extras})
        )
    return draft


def contradictions(drafts: Mapping[str, Draft]) -> Iterator[Contradiction]:
    """Find what files contradict each other in."""
    settled = {file: settle(draft.claims) for file, draft in drafts.items()}
    pythons = {file: python for file, of in settled.items() if (python := of.python or of.requires)}
    bounds = (python if python.startswith(tuple("<>=!~")) else f"=={python}.*" for python in pythons.values())
    if not _can_hold(bounds):
        yield Contradiction("Python", pythons, _lines_about("python", drafts), "--python")
    cudas = {file: cuda for file, of in settled.items() if (cuda := _cuda(of) or ",".join(of.cuda_bounds))}
    named = {cuda for cuda in map(_cuda, settled.values()) if cuda}
    of_cuda = [bound for of in settled.values() for bound in of.cuda_bounds]
    if len(named) > 1 or not (within(of_cuda, named) if named else candidates(of_cuda, "linux-64")):
        yield Contradiction("CUDA", cudas, _lines_about("cuda", drafts), "--cuda")
    asks_by_name: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for file, draft in drafts.items():
        for name, marker, bound, text in _asks(draft):
            asks_by_name.setdefault((name, marker), {}).setdefault(file, {})[text] = bound
    for (name, _), asks in asks_by_name.items():
        if not _can_hold(bound for bounds in asks.values() for bound in bounds.values()):
            lines = {
                line: None
                for file, bounds in asks.items()
                for text in bounds
                for line in drafts[file].lines.get(text) or (Note(text, Place(file)),)
            }
            yield Contradiction(name, {file: " and ".join(bounds) for file, bounds in asks.items()}, tuple(lines))


def _lines_about(subject: str, drafts: Mapping[str, Draft]) -> tuple[Note, ...]:
    claims = (claim for draft in drafts.values() for claim in draft.claims if claim.about.startswith(subject))
    return tuple(dict.fromkeys(Note(claim.written or claim.text, claim.place) for claim in claims))


def _cuda(settled: Agreement) -> str | None:
    return next((version for version in settled.cuda if version != "cpu"), None)


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
    """Return whether one version satisfies all bounds. One that PEP 440 can't read is taken to agree; a URL agrees with
    itself and with every version."""
    given = [bound.replace(" ", "") for bound in bounds if bound]
    urls = {bound for bound in given if "://" in bound}
    readable = []
    for bound in set(given) - urls:
        try:
            readable.append(str(parse_specifier(bound)))
        except ValueError:
            continue
    return len(urls) < 2 and is_satisfiable(",".join(sorted(readable)))


def without(draft: Draft, package: str, why: str, file: str) -> Draft:
    """Return a draft without what it asks of a package. The spec can't name a project that asks for it: its
    requirements are listed then."""
    pip, own, constraints, conda = (
        tuple(text for text in texts if requirement_name(text.rpartition("::")[2]) != package)
        for texts in (draft.pip, draft.own, draft.constraints, draft.conda)
    )
    left = {*pip, *own, *constraints, *conda}
    gone = [text for text in (*draft.pip, *draft.own, *draft.constraints, *draft.conda) if text not in left]
    notes = (*draft.notes, *(Note(f"{text} of {file} is left out: {why}") for text in gone))
    project = draft.project if own == draft.own else None
    return replace(draft, pip=pip, own=own, constraints=constraints, conda=conda, notes=notes, project=project)
