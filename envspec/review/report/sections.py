"""The values of the page's sections that its template can't count, sort or merge by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.texts import plural
from envspec.review.diff import words
from envspec.review.report.model import Licence, PackageRow, Page, Trouble

_SHOUTED = 3
"""How many of the loudest stand there by themselves."""


class Eye(Struct, frozen=True):
    """A line on a point that needs eyes: `section` is its section, `tone` is "high", "medium", "low", or "" for an
    unknown."""

    section: str
    tone: str
    what: str
    names: str = ""


def needs_eyes(page: Page) -> tuple[Eye, ...]:
    """List the points that need eyes, the most serious first. Empty where all was asked and no fault found."""
    order = {"high": 0, "medium": 1, "": 2}
    return tuple(sorted(_eyes(page), key=lambda eye: order.get(eye.tone, 3)))


def _eyes(page: Page) -> Iterator[Eye]:
    yield from _of_changes(page)
    yield from _of_audit(page)
    torches = {
        variant.version.partition("+")[0] for row in page.packages if row.name == "torch" for variant in row.variants
    }
    if len(torches) > 1:
        yield Eye("packages", "medium", "targets have different releases of torch", words.join_names(sorted(torches)))
    for verdict, phrase in (("denied", "under a denied licence"), ("unlisted", "under a licence that isn't allowed")):
        names = [
            page.packages[n].name for licence in page.licences if licence.verdict == verdict for n in licence.packages
        ]
        if names:
            yield Eye("licences", "medium", f"{plural(len(names), 'package')} {phrase}", words.join_names(names))


def _of_changes(page: Page) -> Iterator[Eye]:
    review = page.review
    if review is None:
        yield Eye("changes", "", f"not compared: {page.uncompared}")
        return
    shouted = review.shouted[:_SHOUTED]
    for row, fact in shouted:
        yield Eye("changes", "high", f"{row.name}: {words.fact(fact)}")
    if review.flaws:
        yield Eye(
            "changes", "high", f"{plural(len(review.flaws), 'fault')} of the lock itself", review.flaws[0].message
        )
    shouted_names = {row.name for row, _ in shouted}
    for risk in ("high", "medium"):
        names = [row.name for row in review.rows if row.risk == risk and not row.new and row.name not in shouted_names]
        if names:
            yield Eye("changes", risk, f"{plural(len(names), 'change')} at {risk} risk", words.join_names(names))
    new = [row for row in review.rows if row.new]
    if new:
        tone = "high" if any(row.risk == "high" for row in new) else "medium"
        yield Eye("changes", tone, plural(len(new), "new package"), words.join_names(row.name for row in new))
    wider = [fact for fact in (*review.settings, *review.gpu) if fact.risk != "low"]
    if wider:
        tone = "high" if any(fact.risk == "high" for fact in wider) else "medium"
        yield Eye("changes", tone, f"{plural(len(wider), 'change')} of spec, targets or GPUs", words.fact(wider[0]))


def _of_audit(page: Page) -> Iterator[Eye]:
    audit = page.audit
    if audit is None:
        yield Eye("vulnerabilities", "", "vulnerabilities not checked: no audit was given")
        return
    if audit.advisories:
        names = dict.fromkeys(
            page.packages[number].name for advisory in audit.advisories for number in advisory.packages
        )
        what = (
            "1 known vulnerability" if len(audit.advisories) == 1 else f"{len(audit.advisories)} known vulnerabilities"
        )
        yield Eye("vulnerabilities", "high", what, words.join_names(names))
    if not audit.complete:
        yield Eye("vulnerabilities", "medium", "the audit is incomplete", "; ".join(audit.unread[:2]))


def unsized_files(page: Page) -> int:
    """Count the files of unknown size."""
    return sum(variant.size is None for package in page.packages for variant in package.variants)


def cuda_releases(page: Page) -> str:
    """Return "CUDA 12.8, 13.0 and CPU"."""
    cudas = sorted({target.cuda for target in page.targets if target.cuda})
    parts = [f"CUDA {', '.join(cudas)}"] if cudas else []
    parts += ["CPU"] if any(target.cuda is None for target in page.targets) else []
    return " and ".join(parts)


def audit_figure(page: Page) -> tuple[str, str, str]:
    """Return value, note and tone of an audit's figure. What wasn't looked up never reads as "none"."""
    audit = page.audit
    if audit is None:
        return "not checked", "no audit was given", ""
    if audit.vulnerabilities:
        packages = len({number for advisory in audit.advisories for number in advisory.packages})
        note = f"in {plural(packages, 'package')}" + ("" if audit.complete else "; the audit is incomplete")
        return str(len(audit.advisories)), note, "high"
    if not audit.complete:
        return "not known", "the audit is incomplete", "medium"
    unknown = {number for _, numbers in audit.unknown for number in numbers}
    note = f"{plural(len(unknown), 'package')} not checked" if unknown else "in all packages"
    return "none known", note, "" if unknown else "low"


def where(page: Page, targets: tuple[int, ...]) -> str:
    """Name some targets, or "all"."""
    every = len(targets) == len(page.targets)
    return "all" if every else words.join_names((page.targets[place].name for place in targets), 6)


def package_names(page: Page, numbers: Iterable[int], shown: int) -> str:
    """Name some packages, the first few."""
    return words.join_names((page.packages[number].name for number in numbers), shown)


def direct_versions(package: PackageRow) -> dict[int, str]:
    """Return the version of a package in each target that has it."""
    return {place: variant.version for variant in package.variants for place in variant.targets}


def ranked_licences(page: Page) -> list[Licence]:
    """List the licences, the most frequent first; those that the spec doesn't accept lead."""
    rank = {"denied": 0, "unlisted": 1}
    return sorted(
        (licence for licence in page.licences if licence.packages),
        key=lambda licence: (rank.get(licence.verdict, 2), -len(licence.packages)),
    )


def library_notes(page: Page) -> Iterable[str]:
    """List the libraries without code for an architecture that torch has code for, each once."""
    coverage = page.coverage
    return dict.fromkeys(
        f"{page.targets[row.target].name}, {architecture.sm}: {cell.note}"
        for row in coverage.rows
        for architecture, cell in zip(coverage.architectures, row.cells, strict=True)
        if cell.note
    )


def merge_troubles(troubles: Iterable[Trouble]) -> list[Trouble]:
    """Join the findings of one advisory about one package: its versions and targets, each once."""
    joined: list[Trouble] = []
    for trouble in troubles:
        names = {trouble.id, *trouble.aliases}
        for place, other in enumerate(joined):
            alike = (other.package, other.ignored) == (trouble.package, trouble.ignored)
            if alike and trouble.id and names & {other.id, *other.aliases}:
                versions = dict.fromkeys((*other.version.split(", "), trouble.version))
                targets = tuple(sorted({*other.targets, *trouble.targets}))
                joined[place] = replace(other, version=", ".join(versions), targets=targets)
                break
        else:
            joined.append(trouble)
    return joined
