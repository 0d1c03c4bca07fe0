"""The parts of the page that work without its script: key figures, targets, licences, GPUs, findings, changes.

All texts from a lock, a spec or an audit go through `text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.html_page import text
from envspec.base.texts import byte_size, clean_text, plural
from envspec.review.diff import html as changes, words
from envspec.review.report.model import CapabilityProducts, Cell, Page, Trouble

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
        yield Eye("vulnerabilities", "medium", "the audit is incomplete", clean_text("; ".join(audit.unread[:2])))


_SYMBOLS = {
    "code": ("yes", "runs"),
    "ptx": ("PTX", "only PTX"),
    "library": ("part", "not all libraries"),
    "no": ("–", "no"),
}
_LEGEND = (
    ("code", "yes", "torch has machine code"),
    ("ptx", "PTX", "the driver compiles PTX at first use"),
    ("library", "part", "torch has code, but another library doesn't"),
    ("no", "–", "doesn't run"),
    ("asked", "ringed", "a GPU of the target"),
)
_VERDICTS = {"accepted": "accepted", "denied": "denied", "unlisted": "not allowed", "none": "no rule"}


def eyes(page: Page) -> Iterator[str]:
    """Show the points that need eyes, or that there are none."""
    points = needs_eyes(page)
    yield '<div class="eyes"><h2>Needs eyes</h2>'
    if points:
        yield f"<ul>{''.join(map(_eye, points))}</ul>"
    else:
        yield "<p>Nothing: no change, and no vulnerability is known of what could be looked up.</p>"
    yield "</div>"


def _eye(eye: Eye) -> str:
    names = f" <small>{text(eye.names)}</small>" if eye.names else ""
    tone = eye.tone or "unknown"
    word = f'<span class="tag {tone}">{eye.tone or "?"}</span>'
    return f'<li>{word} <a href="#{eye.section}">{text(eye.what)}</a>{names}</li>'


def figures(page: Page) -> Iterator[str]:
    """Yield the key figures. Each links to its section."""
    direct = sum(bool(package.direct) for package in page.packages)
    unsized = [variant for package in page.packages for variant in package.variants if variant.size is None]
    largest = f'<span class="whole">{byte_size(max(target.download for target in page.targets))}</span>'
    # a file of unknown size makes it no bound from above
    span = f"at least {largest}" if unsized else f"up to {largest}" if len(page.targets) > 1 else largest
    more = f", and {plural(len(unsized), 'file')} of unknown size" if unsized else ""
    yield _figure("packages", str(len(page.packages)), "packages", f"{direct} asked for by name")
    yield _figure("targets", str(len(page.targets)), "target" if len(page.targets) == 1 else "targets", _cudas(page))
    yield _figure("size", span, "to download", f"a target{more}")
    yield _figure("vulnerabilities", *_audit_words(page))
    if page.review is None:
        yield _figure("changes", "not compared", "changes", "")
    elif not page.review:
        yield _figure("changes", "none", "changes", f"since {text(page.review.old_title)}")
    else:
        count = str(len(page.review.rows))
        note = f"{page.review.risk} risk, since {text(page.review.old_title)}"
        yield _figure("changes", count, "packages changed", note, page.review.risk)


def _table(label: str, *heads: str, style: str = "") -> str:
    """Open a table in a region that scrolls by itself. A head "#x" is a column of numbers, "~x" is hidden."""
    cells = []
    for head in heads:
        if head.startswith("~"):
            cells.append(f'<th scope="col"><span class="away">{head[1:]}</span></th>')
        else:
            number = ' class="n"' if head.startswith("#") else ""
            cells.append(f'<th scope="col"{number}>{head.removeprefix("#")}</th>')
    begin = f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table class="{style}">'
    return f"{begin}<thead><tr>{''.join(cells)}</tr></thead><tbody>"


def _td(head: str, content: str, style: str = "") -> str:
    """A cell that names its column itself, where a phone shows a row as a card."""
    named = f' class="{style}"' if style else ""
    return f'<td data-head="{head}"{named}>{content}</td>'


_END = "</tbody></table></div>"


def _figure(section: str, value: str, label: str, note: str, tone: str = "") -> str:
    return (
        f'<li><a href="#{section}"><span class="label">{label}</span><strong class="{tone}">{value}</strong>'
        f"<small>{note}</small></a></li>"
    )


def _cudas(page: Page) -> str:
    cudas = sorted({target.cuda for target in page.targets if target.cuda})
    parts = [f"CUDA {', '.join(cudas)}"] if cudas else []
    parts += ["CPU"] if any(target.cuda is None for target in page.targets) else []
    return text(" and ".join(parts))


def _audit_words(page: Page) -> tuple[str, str, str, str]:
    """Return value, label, note and tone. What wasn't looked up never reads as "none"."""
    label = "vulnerabilities"
    audit = page.audit
    if audit is None:
        return "not checked", label, "no audit was given", ""
    if audit.vulnerabilities:
        packages = len({number for advisory in audit.advisories for number in advisory.packages})
        note = f"in {plural(packages, 'package')}" + ("" if audit.complete else "; the audit is incomplete")
        return str(len(audit.advisories)), label, note, "high"
    if not audit.complete:
        return "not known", label, "the audit is incomplete", "medium"
    unknown = {number for _, numbers in audit.unknown for number in numbers}
    note = f"{plural(len(unknown), 'package')} not checked" if unknown else "in all packages"
    return "none known", label, note, "" if unknown else "low"


def targets(page: Page) -> Iterator[str]:
    """Yield one row per target."""
    most = max((target.download for target in page.targets), default=0)
    heads = ("Target", "Platform", "Python", "CUDA", "GPUs", "Driver from", "Proved", "#Packages", "#Download")
    yield _table("All targets", *heads, "~Share of the largest", style="cards")
    for target in page.targets:
        glibc = (
            f" <small>glibc {text(target.glibc)}</small>"
            if target.glibc and target.platform.startswith("linux")
            else ""
        )
        cells = [
            text(target.platform) + glibc,
            text(target.python),
            text(target.cuda) if target.cuda else '<span class="quiet">CPU</span>',
            text(", ".join(target.gpus)) or '<span class="quiet">–</span>',
            text(target.driver_floor) if target.driver_floor else '<span class="quiet">–</span>',
            text(target.proved),
        ]
        unsized = f"<small>and {plural(len(target.unsized), 'file')} of unknown size</small>" if target.unsized else ""
        row = "".join(_td(head, cell) for head, cell in zip(heads[1:], cells, strict=False))
        yield f'<tr><th scope="row">{text(target.name)}</th>{row}'
        yield _td("Packages", str(target.packages), "n") + _td("Download", byte_size(target.download), "n")
        yield f'<td><span class="share">{_bar(target.download, most)}{unsized}</span></td></tr>'
    yield _END


def pythons(page: Page) -> Iterator[str]:
    """Show the builds of Python that the targets get: version, release and hash of each, and where images have
    another."""
    if page.pythons:
        yield "<h3>Builds of Python</h3>"
        yield _table("Builds of Python", "Python", "Release", "Platform", "SHA-256", "Targets", style="cards")
    for python in page.pythons:
        yield f'<tr><th scope="row">{text(python.version)} <small>{text(python.file)}</small></th>'
        yield _td("Release", text(python.build)) + _td("Platform", text(python.platform))
        yield _td("SHA-256", f"<code>{text(python.sha256)}</code>")
        yield _td("Targets", _where(page, python.targets)) + "</tr>"
    if page.pythons:
        yield _END
    if page.on_base:
        yield f"<p>These packages come on top of {text(page.on_base)}, which has its own Python.</p>"
    if page.base_python:
        yield "<p>Images have the Python of their base, by <code>[image] python</code>.</p>"


def _where(page: Page, targets: tuple[int, ...]) -> str:
    every = len(targets) == len(page.targets)
    return text("all" if every else words.join_names((page.targets[place].name for place in targets), 6))


def _bar(value: int, most: int) -> str:
    width = round(100 * value / most, 1) if most else 0
    return (
        '<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="4"/><rect width="{width}" height="4"/></svg>'
    )


def direct_packages(page: Page) -> Iterator[str]:
    """List the packages that the spec asks for, with their versions in each target, for readers without the script."""
    yield _table("Packages that the spec names", "Package", *(text(target.name) for target in page.targets))
    for package in page.packages:
        if package.direct:
            versions = {place: variant.version for variant in package.variants for place in variant.targets}
            kind = " <small>conda</small>" if package.kind == "conda" else ""
            yield f'<tr><th scope="row">{text(package.name)}{kind}</th>'
            yield "".join(f"<td>{text(versions.get(place, '–'))}</td>" for place in range(len(page.targets)))
            yield "</tr>"
    yield _END


def licences(page: Page) -> Iterator[str]:
    """List every licence, the most frequent first; those that the spec doesn't accept lead."""
    rank = {"denied": 0, "unlisted": 1}
    ranked = sorted(
        (licence for licence in page.licences if licence.packages),
        key=lambda licence: (rank.get(licence.verdict, 2), -len(licence.packages)),
    )
    ruled = any(licence.verdict != "none" for licence in ranked)
    most = max((len(licence.packages) for licence in ranked), default=0)
    if not ruled:
        yield "<p>The spec's <code>[audit]</code> has no rule for licences, so this page accepts or denies none.</p>"
    yield _table(
        "All licences", "Licence", *(["By the spec"] if ruled else []), "#Packages", "~Share", "Which", style="cards"
    )
    for licence in ranked:
        name = text(licence.name) if licence.name else '<em class="quiet">not stated</em>'
        tone = {"denied": "high", "unlisted": "high", "accepted": "low"}.get(licence.verdict, "quiet")
        judged = _td("By the spec", _VERDICTS[licence.verdict], tone) if ruled else ""
        names = words.join_names((page.packages[number].name for number in licence.packages), 6)
        yield f'<tr><th scope="row">{name}</th>{judged}' + _td("Packages", str(len(licence.packages)), "n")
        yield f"<td>{_bar(len(licence.packages), most)}</td>" + _td("Which", text(names)) + "</tr>"
    yield _END


def gpus(page: Page) -> Iterator[str]:
    """Compare targets with architectures."""
    coverage = page.coverage
    if not coverage.architectures:
        yield "<p>envspec's facts don't cover the GPU code of any torch build here.</p>"
        return
    heads = [
        f"{architecture.sm} <small>{text(architecture.generation)}"
        f"<br>{'<br>'.join(map(text, architecture.products))}</small>"
        for architecture in coverage.architectures
    ]
    yield _table("Targets and architectures", "Target", *heads, style="coverage")
    for row in coverage.rows:
        build = f"<small>{text(row.build)}</small>" if row.build else ""
        yield f'<tr><th scope="row">{text(page.targets[row.target].name)} {build}</th>'
        if row.why:
            yield f'<td colspan="{len(row.cells)}" class="quiet">{text(row.why)}</td>'
        else:
            yield "".join(map(_cell, row.cells))
        yield "</tr>"
    yield _END
    entries = "".join(f'<li><span class="cell {style}">{mark}</span> {means}</li>' for style, mark, means in _LEGEND)
    yield f'<ul class="legend">{entries}</ul>'
    notes = dict.fromkeys(
        f"{page.targets[row.target].name}, {architecture.sm}: {cell.note}"
        for row in coverage.rows
        for architecture, cell in zip(coverage.architectures, row.cells, strict=True)
        if cell.note
    )
    if notes:
        yield f"<ul>{''.join(f'<li>{text(note)}</li>' for note in notes)}</ul>"
    if coverage.nowhere:
        yield f"<p>No target runs on {text(', '.join(map(_capability_name, coverage.nowhere)))}.</p>"


def _capability_name(architecture: CapabilityProducts) -> str:
    return f"{architecture.sm} ({architecture.generation})"


def _cell(cell: Cell) -> str:
    symbol, words_for_it = _SYMBOLS.get(cell.state, ("?", "not known"))
    requested = '<span class="away"> (a GPU of this target)</span>' if cell.requested else ""
    style = f"cell {cell.state}{' asked' if cell.requested else ''}"
    return f'<td><span class="{style}" title="{escape(cell.note or words_for_it)}">{symbol}</span>{requested}</td>'


def vulnerabilities(page: Page) -> Iterator[str]:
    """Show an audit's findings and gaps, or that there was no audit."""
    audit = page.audit
    if audit is None:
        spec = text(page.spec)
        yield "<p><strong>Not checked.</strong> No audit was given, so nothing is known about these packages.</p>"
        yield f"<p>To check: <code>envspec audit {spec} --json &gt; audit.json</code>, then "
        yield f"<code>envspec report {spec} -o report.html --audit audit.json</code>.</p>"
        return
    as_of = f", as of {text(audit.as_of[:10])}" if audit.as_of else ""
    yield f"<p>Looked up in {text(audit.database)}{as_of}.</p>"
    if not audit.complete:
        yield '<div class="alarm"><strong>The audit is incomplete.</strong> '
        yield "A package that isn't listed here isn't known to be sound.<ul>"
        yield "".join(f"<li>{text(reason)}</li>" for reason in audit.unread)
        if audit.left_out:
            yield f"<li>not audited: {text(', '.join(page.targets[place].name for place in audit.left_out))}</li>"
        yield "</ul></div>"
    known = [trouble for trouble in audit.troubles if trouble.code == "vulnerability"]
    if known:
        yield from _troubles("Known vulnerabilities", page, _once(known))
    elif audit.complete:
        yield "<p>The packages that could be looked up have no known vulnerability.</p>"
    if audit.unknown:
        yield "<p>Not checked:</p><ul>"
        for reason, numbers in audit.unknown:
            names = words.join_names((page.packages[number].name for number in numbers), 12)
            yield f"<li>{text(reason)}: {text(names)}</li>"
        yield "</ul>"
    rest = [
        trouble
        for trouble in audit.troubles
        if trouble.code != "vulnerability" and not trouble.code.startswith("licence")
    ]
    if rest:
        yield "<h3>Other findings of the audit</h3>"
        yield from _troubles("Other findings", page, rest)


def _once(troubles: Iterable[Trouble]) -> Iterable[Trouble]:
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


def _troubles(label: str, page: Page, troubles: Iterable[Trouble]) -> Iterator[str]:
    yield _table(label, "Package", "Finding", "What", "Remedy", "Targets", style="cards")
    for trouble in troubles:
        tone = (
            "quiet"
            if trouble.ignored is not None
            else {"error": "high", "warning": "medium"}.get(trouble.level, "quiet")
        )
        name = text(trouble.id or trouble.code)
        if trouble.link and trouble.link.startswith("https://"):
            name = f'<a href="{text(trouble.link)}" rel="noreferrer noopener">{name}</a>'
        also = f"<br><small>{text(', '.join(trouble.aliases))}</small>" if trouble.aliases else ""
        severity = f"<strong>{text(trouble.severity)}</strong> " if trouble.severity else ""
        accepted = (
            f"<br><small>accepted by the spec: {text(trouble.ignored)}</small>" if trouble.ignored is not None else ""
        )
        remedy = text(trouble.remedy.replace("SPEC", page.spec))
        package = text(page.packages[trouble.package].name)
        yield f'<tr><th scope="row">{package} <small>{text(trouble.version)}</small></th>'
        yield _td("Finding", f"{name}{also}", tone) + _td("What", f"{severity}{text(trouble.message)}{accepted}")
        yield _td("Remedy", remedy) + _td("Targets", _where(page, trouble.targets)) + "</tr>"
    yield _END


def comparison(page: Page) -> Iterator[str]:
    """Show the review of the changes, in the words of `envspec diff`."""
    review = page.review
    if review is None:
        yield f"<p>Not compared: {text(page.uncompared)}.</p>"
        return
    yield f"<p>{text(review.old_title)} → {text(review.new_title)}: {text(words.summary(review))}</p>"
    yield from changes.body(review, "h3")
