"""Claims compared with published data. Pure: the caller reads the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from envspec.base.finding import Finding
from envspec.base.texts import without_unseen
from envspec.facts.corrections import corrections
from envspec.lock.model import Artifact, Pin, Publisher, WheelVariant
from envspec.net.index_proxy.releases import Release, Row, by_version, releases_of, version_of
from envspec.packages.conda import takes_build_number
from envspec.packages.edges import Markers, Overrides
from envspec.packages.metadata import Metadata
from envspec.packages.python_range import binding_range
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.packages.tags import ReleaseFile, choose_file, takes_python
from envspec.packages.variant_choice import compatible
from envspec.packages.variants import Variants, WheelOfVariant, read_name
from envspec.resolve.pip.edges import edges_of, for_other_cuda
from envspec.review.verify.model import IndexedFile, PinClaim, difference
from envspec.spec.newer import moment_of


def of_file(artifact: Artifact, listed: IndexedFile | None) -> Iterator[Finding]:
    """Compare a file with its index's entry of that name."""
    if listed is None:
        yield difference("not-published", f"its index has no file {artifact.file}", artifact.file, None)
        return
    if artifact.sha256 != listed.sha256:
        yield _differs("other-hash", f"the sha256 of {artifact.file}", artifact.sha256, listed.sha256)
    # a size that the lock doesn't have claims nothing
    if artifact.size is not None and listed.size is not None and artifact.size != listed.size:
        yield _differs("other-size", f"the size of {artifact.file}", str(artifact.size), str(listed.size))


def of_variant(file: str, locked: WheelVariant, published: Variants) -> Iterator[Finding]:
    """Compare a variant with the entry of its label alone: others may come after the release, and its priorities may
    grow at their end."""
    entry = published.variants.get(locked.label)
    if entry is None:
        sentence = f"the index knows no variant {locked.label} of this release"
        yield difference("other-variant", sentence, locked.label, None)
        return
    present = tuple(map(str, entry))
    if set(present) != set(locked.properties):
        what, mine = f"the properties of {file}", "; ".join(locked.properties) or "none"
        yield _differs("other-variant", what, mine, "; ".join(present) or "none")
    elif published.priorities[: len(locked.priorities)] != locked.priorities:
        what = f"the priorities of {file}"
        yield _differs("other-variant", what, ", ".join(locked.priorities), ", ".join(published.priorities))


def wheel_of(claim: PinClaim, locked: WheelVariant, published: Variants) -> WheelOfVariant:
    """Give the variant as its requirements see it, by the index's entry of its label."""
    if claim.machine is None or locked.label not in published.variants:
        return WheelOfVariant(locked.label)
    return WheelOfVariant(locked.label, compatible=compatible(published, locked.label, claim.machine))


def of_time(claim: PinClaim, uploaded: str | None) -> Iterator[Finding]:
    """Compare the time of an upload with the latest moment that the lock admits."""
    bound, moment = moment_of(claim.exclude_newer), moment_of(uploaded)
    if bound is None or moment is None or moment <= bound:
        return
    sentence = f"it was uploaded at {uploaded}, and exclude-newer is {claim.exclude_newer}"
    yield difference("too-new", sentence, str(claim.exclude_newer), uploaded)


def of_metadata(claim: PinClaim, metadata: Metadata) -> Iterator[Finding]:
    """Compare version, requirements, Requires-Python and licence with METADATA."""
    if version_of(claim.pin.version) != version_of(metadata.version):
        yield _differs("other-version", "the version in its METADATA", claim.pin.version, metadata.version)
    yield from of_requirements(claim, metadata.requires_dist)
    yield from of_python(claim, metadata.requires_python)
    yield from of_licence(claim.pin, metadata.licence)


def of_beside(own: Metadata, beside: Metadata | None) -> Iterator[Finding]:
    """Compare an index's copy of a file's METADATA with the file's own: installers read the first, and Python the
    second."""
    if beside is None:
        return
    for what, mine, other in (
        ("the version", own.version, beside.version),
        ("Requires-Python", own.requires_python or "none", beside.requires_python or "none"),
        ("the requirements", _join_in_order(own.requires_dist), _join_in_order(beside.requires_dist)),
        ("the extras", _join_in_order(own.provides_extra), _join_in_order(beside.provides_extra)),
    ):
        if mine != other:
            sentence = f"{what} in the METADATA that its index has beside it: {other}; in the file: {mine}"
            yield difference("other-metadata", sentence, mine, other)


def _join_in_order(lines: Iterable[str]) -> str:
    return ", ".join(sorted(set(lines))) or "none"


def page_refusals(claim: PinClaim, rows: Iterable[Row]) -> Iterator[Finding]:
    """Find the files of a page that `lock` wouldn't take: a pre-release that no requirement asks for, beside a final
    release, and a wheel of a release with another that ranks before it."""
    pin = claim.pin
    version = version_of(pin.version)
    if version is None or pin.artifact is None:
        return
    files = by_version(rows, pin.name)
    if version.is_prerelease:
        final = _final(claim, releases_of(files))
        if final is not None:
            sentence = f"it is a pre-release that nothing asks for, and its index has {final}"
            yield difference("unasked-pre-release", sentence, pin.version, final, "warning")
    mine = pin.artifact.file
    label = read_name(mine).label
    wheels = [
        ReleaseFile(str(row["filename"]), bool(row.get("yanked")), row.get("requires-python"))
        for row in (files[version].wheels if pin.is_wheel and version in files else ())
        if read_name(str(row["filename"])).label == label and _is_in_time(claim, row.get("upload-time"))
    ]
    other = choose_file(wheels, claim.platform, claim.python, claim.glibc)
    if other not in (None, mine) and any(wheel.file == mine and not wheel.yanked for wheel in wheels):
        sentence = f"its index has {other} too, which pip and uv prefer"
        yield difference("other-build-tag", sentence, mine, other, "warning")


def _final(claim: PinClaim, releases: Iterable[Release]) -> str | None:
    """Find a final release that could stand in a pre-release's place; None where a requirement names a pre-release."""
    specifiers = [parse_requirement(line).specifier for line in claim.requirements]
    if any(specifier.prereleases for specifier in specifiers):
        return None
    for release in releases:
        version = version_of(release.version)
        if (
            version is not None
            and not version.is_prerelease
            and not release.yanked
            and _is_in_time(claim, release.uploaded)
            and takes_python(release.requires_python or "", claim.python)
            and all(specifier.contains(version, prereleases=True) for specifier in specifiers)
        ):
            return release.version
    return None


def _is_in_time(claim: PinClaim, uploaded: object) -> bool:
    bound = moment_of(claim.exclude_newer)
    moment = moment_of(str(uploaded)) if uploaded else None
    return bound is None or (moment is not None and moment <= bound)


def of_requirements(claim: PinClaim, published: Sequence[str]) -> Iterator[Finding]:
    """Compare a pip package's requirements with the Requires-Dist lines that hold in its target.

    envspec's own corrections of METADATA may stand in a lock, and an older one lacks those of today. So may lines that
    name for the target's CUDA what the package also requires for another one.
    """
    pin = claim.pin
    markers, overrides = Markers(claim.platform, claim.python), Overrides(claim.overrides)

    def active_lines(lines: Iterable[str]) -> set[str]:
        return set(edges_of(lines, claim.extras, markers, overrides)[0])

    added = active_lines(corrections().missing_requirements(pin.name, pin.version, published))
    held = active_lines(published)
    beside = for_other_cuda(held, published, markers)
    yield from _of_lines(set(pin.dependencies), held, {*added, *beside})


def of_python(claim: PinClaim, published: str | None) -> Iterator[Finding]:
    """Compare the Requires-Python of a pip package with the form in which a lock holds METADATA's."""
    if claim.builds is not None:
        return
    locked, present = claim.pin.requires_python, binding_range(published, ".".join(claim.python.split(".")[:2]))
    if locked != present:
        yield _differs("other-requires-python", "its Requires-Python", locked or "none", present or "none")


def of_builds(claim: PinClaim, requires: Sequence[str]) -> Iterator[Finding]:
    """Compare a source's build environment in a lock with its declared build requirements."""
    pin = claim.pin
    if pin.built_with is None:
        return
    has = {canonical_name(built.name): built.version for built in pin.built_with}
    held, _ = edges_of(requires, frozenset(), Markers(claim.platform, claim.python), Overrides(()))
    missing = [line for line in held if not _is_met(line, has)]
    if missing:
        yield difference(
            "other-build",
            f"its build requires {', '.join(missing)}, with which the lock doesn't build it",
            ", ".join(f"{name} {version}" for name, version in sorted(has.items())) or "none",
            ", ".join(held),
        )


def of_code(file: str) -> Finding:
    """Report a source that a lock calls inert although its build may run code of its own."""
    return difference("other-inert", f"the build of {file} may run code of its own", "inert", None)


def _is_met(line: str, has: Mapping[str, str]) -> bool:
    requirement = parse_requirement(line)
    version = has.get(canonical_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def missing_corrections(claim: PinClaim, published: Sequence[str]) -> tuple[str, ...]:
    """List the requirements that envspec's corrections add today and the lock lacks, as sentences.

    The lock is older than the correction, or the edge was dropped: these look the same. A package of the spec's own
    index is another build, of which the corrections say nothing.
    """
    pin = claim.pin
    if not pin.index.startswith(("pypi", "pytorch/")):
        return ()
    markers, overrides = Markers(claim.platform, claim.python), Overrides(claim.overrides)
    known = corrections().without_names(claim.uncorrected)
    lines = known.missing_requirements(pin.name, pin.version, published)
    missing = sorted(set(edges_of(lines, claim.extras, markers, overrides)[0]) - set(pin.dependencies))
    reason = "which envspec's corrections add: the lock is older than the correction, or lost the edge"
    return tuple(f"that it requires {line}, {reason}" for line in missing)


def of_licence(pin: Pin, published: str | None) -> Iterator[Finding]:
    """Compare the licence, as METADATA or a channel words it."""
    licence = without_unseen(published) or None if published else None
    if pin.licence != licence:
        yield _differs("other-licence", "the licence", pin.licence or "none", licence or "none")


def of_publisher(locked: Publisher, claimed: Sequence[Publisher]) -> Iterator[Finding]:
    """Compare a file's publisher with those that its attestations name."""
    if locked not in claimed:
        named = " and ".join(map(str, claimed)) or "no publisher"
        yield difference(
            "other-publisher",
            f"its index names {named} as its publisher, and the lock names {locked}",
            str(locked),
            named if claimed else None,
        )


def of_record(claim: PinClaim, record: Pin, build_number: int) -> Iterator[Finding]:
    """Compare a conda package with the record that its channel has under that file name, read as a pin."""
    pin = claim.pin
    for demand in claim.requirements:
        if not takes_build_number(demand, build_number):
            sentence = f"its build number is {build_number}, and {demand} is asked for"
            yield difference("other-build-number", sentence, demand, str(build_number))
    if pin.artifact is None or record.artifact is None:
        return
    published = record.artifact
    yield from of_file(pin.artifact, IndexedFile(published.file, published.sha256, published.size))
    if pin.artifact.md5 is not None and published.md5 is not None and pin.artifact.md5 != published.md5:
        yield _differs("other-hash", f"the MD5 of {published.file}", pin.artifact.md5, published.md5)
    yield from _of_lines(set(pin.dependencies), set(record.dependencies), set())
    yield from of_licence(pin, record.licence)


def _of_lines(locked: set[str], published: set[str], added: set[str]) -> Iterator[Finding]:
    dropped, invented = sorted(published - locked), sorted(locked - published - added)
    if not dropped and not invented:
        return
    parts = [f"the lock lacks {', '.join(dropped)}"] if dropped else []
    parts += [f"its publisher has no {', '.join(invented)}"] if invented else []
    yield difference(
        "other-requirements",
        f"its requirements differ: {'; '.join(parts)}",
        ", ".join(sorted(locked)) or "none",
        ", ".join(sorted(published)) or "none",
    )


def _differs(code: str, what: str, locked: str, published: str) -> Finding:
    return difference(code, f"{what} is {published} at its index, and {locked} in the lock", locked, published)
