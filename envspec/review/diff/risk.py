"""The meaning of one pin's change, and its risk: pure rules on two pins."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from envspec.configuration.settings import host_of
from envspec.facts.calendar import breaks_below_one, counts_years
from envspec.facts.cuda_stack import TORCH
from envspec.facts.most_used import lookalike, names
from envspec.lock.model import Artifact, Pin
from envspec.packages.licences import is_same, judge
from envspec.packages.version_numbers import numbers_in
from envspec.review.diff.causes import Reason
from envspec.review.diff.jump import Jump, jump
from envspec.review.diff.rows import Fact

CLASSES = ("permissive", "weak copyleft", "copyleft", "proprietary", "unknown")
"""The classes in the order that counts: of a choice (OR) the first, of licences that hold together (AND) the last.
"""

# Identifiers and words, each from its beginning on; where a text has words of several classes, the first class counts.
# "Proprietary" is whatever restricts who may use it, what for, or how it may be changed.
_END = r"(?![A-UW-Z])"
"""The end of a licence's name: GPL, GPL-3.0, GPL3 and GPLv3 are one licence."""
_WORDS = {
    "proprietary": (
        r"PROPRIETARY|NVIDIA|CUDNN|NON-?COMMERCIAL|COMMERCIAL|BUSL|BUSINESS SOURCE|ALL RIGHTS|EULA|END.USER"
        r"|CC-BY(?:-\w+)*-N[CD]\b|ELASTIC|POLYFORM|UNLICENSED\b|LLAMA|GEMMA|\w*RAIL\b|COMMONS.CLAUSE"
    ),
    "copyleft": (
        rf"A?GPL{_END}|AFFERO|(?<!LESSER )(?<!LIBRARY )GENERAL PUBLIC|SSPL|EUPL|OSL-|OPEN SOFTWARE LICEN[CS]E|CC-BY-SA"
    ),
    "weak copyleft": rf"LGPL{_END}|LESSER|LIBRARY GENERAL|MPL{_END}|MOZILLA|EPL-|ECLIPSE|CDDL|CECILL-C|OFL-",
    "permissive": (
        r"(?:(?:0?BSD|APACHE)\d?|MIT|ISCL?|ZLIB|LIBPNG|UNLICENSE|CC0|CC-BY|PSFL?|PYTHON|CNRI|HPND|X11|NCSA|AFL|BSL|BOOST"
        r"|FTL|IJG|TCL|UPL|ZPL|ZOPE|MULANPSL|ARTISTIC|POSTGRESQL|OPENSSL|CURL|BZIP2|LIBTIFF|NTP|UNICODE|WTFPL|BLESSING"
        r"|EXPAT|OLDAP|ICU|W3C|VIM)\b|PUBLIC.DOMAIN|HISTORICAL PERMISSION"
    ),
}
_PATTERNS = tuple((name, re.compile(rf"(?<![A-Z0-9])(?:{words})")) for name, words in _WORDS.items())


def licence_class(licence: str) -> str:
    """Return one of `CLASSES`. Each part of an SPDX expression counts; of a choice, the lighter part."""
    rank = judge(licence, _rank, min, max)
    return CLASSES[rank]


def _rank(licence: str) -> int:
    text = licence.upper()
    return CLASSES.index(next((name for name, pattern in _PATTERNS if pattern.search(text)), "unknown"))


_ROUTINE = 10
"""A project that counts so far makes major versions as a matter of course (cryptography 46, pyarrow 22, pillow 12)."""

LARGE_GROWTH = 100_000_000
"""Bytes. A download that grows by this and by a fifth is worth a line: it costs image size, pull time and quota."""

_OFFICIAL = re.compile(r"pypi|pytorch/.+")
"""PyPI, and PyTorch's own index for each CUDA: a move between them is the choice of a build, not of a publisher."""

_PUBLIC = "whoever owns the name there supplies it now"


class Around(Struct, frozen=True):
    """The surroundings of a pin's change.

    exact   both sides are locks of envspec, for the same machines: a file that fitted still does, and its METADATA
            asks for the same
    news    the name is in no target of the old lock, and there is an old lock
    first   there is no old lock
    moved   requirements that came or went and that hold in the target whatever extras are asked for, without those
            that the spec states or envspec's corrections add
    inner   both sides know what their spec asks for by name, and the package isn't among it: whatever requires it
            admits the new version
    lost    extras that the spec asks for, and that no longer add a package
    family  a much used package whose name begins alike, and that requires it
    origin  the nearest much used package that leads to it; None where the spec itself asks for it
    against the reason why it went back, None where that isn't known
    """

    exact: bool = False
    news: bool = False
    first: bool = False
    moved: tuple[str, ...] = ()
    inner: bool = False
    lost: tuple[str, ...] = ()
    family: str | None = None
    origin: str | None = None
    against: Reason | None = None

    @property
    def pulled_by(self) -> tuple[str, str | None] | None:
        """The package whose change takes this one back, and envspec's correction behind it, if there is one."""
        if self.against is None or self.against.package is None:
            return None
        return self.against.package, self.against.correction


ALONE = Around()


def facts(old: Pin | None, new: Pin | None, around: Around = ALONE) -> tuple[Fact, ...]:
    """Return the facts about a pin that came, went or changed, besides the versions themselves."""
    if new is None:
        message = "was asked for by name: code that imports it stops working"
        return (Fact("medium", "direct-removed", message),) if old and old.direct else ()
    if old is None:
        return tuple(_risks_of_addition(new, around))
    return (
        *_hash(old, new, around),
        *_requirements(old, new, around),
        *_source(old, new),
        *_version(old, new, around),
        *_form(old, new),
        *_index(old, new),
        *_build(old, new),
        *_licence(old, new),
        *_size(old, new),
        *_direct(old, new),
        *_publisher(old, new),
        *_build_changes(old, new),
    )


def different_hashes(old: Artifact, new: Artifact) -> str | None:
    """Describe the contradiction of two files' hashes, by the best algorithm that both have; None if they agree."""
    for kind, was, now in (("sha256", old.sha256, new.sha256), ("md5", old.md5, new.md5)):
        if was and now:
            return None if was == now else f"{kind} {was[:12]} became {now[:12]}"
    return None


def far(old: Pin, new: Pin) -> Jump:
    """Return the jump between the versions of two pins."""
    return jump(new.kind, old.version, new.version, by_year=counts_years(new.name))


def form(pin: Pin) -> str | None:
    """Return the form of the installed file: "wheel", "sdist", "conda", "git", or None where the file isn't known."""
    if pin.git:
        return "git"
    if pin.kind == "conda":
        return "conda"
    if pin.artifact is None or not pin.artifact.file:
        return None
    return "wheel" if pin.is_wheel else "sdist"


def label(pin: Pin) -> str | None:
    """Return the label of a variant's wheel."""
    return pin.artifact.variant.label if pin.artifact and pin.artifact.variant else None


def _risks_of_addition(new: Pin, around: Around) -> Iterator[Fact]:
    yield from _name(new, around)
    if new.git:
        yield Fact(
            "medium", "from-git", f"comes from {new.git.url} at {new.git.commit[:12]}, which no index vouches for"
        )
    elif form(new) == "sdist":
        runs = "by the lock, that runs no code of its own" if new.is_inert else "installing it runs its code"
        yield Fact("medium", "builds-from-source", f"is built from source: {runs}")
    if new.url:
        yield Fact("medium", "from-url", f"comes from {new.url}, which no index vouches for")
    if not new.git and jump(new.kind, "0", new.version).to_prerelease:
        yield _pre_release(new, around)


def _pre_release(new: Pin, around: Around) -> Fact:
    reason = ", which whatever requires it asks for" if around.inner else ""
    return Fact("low" if around.inner else "medium", "pre-release", f"{new.version} is a pre-release{reason}")


def _name(new: Pin, around: Around) -> Iterator[Fact]:
    """Yield the facts about a new package's name. conda's channels review theirs, and name libraries otherwise."""
    if new.kind != "pip" or not (around.news or around.first):
        return

    known = None if around.origin else lookalike(new.name)
    if known:
        text = f"{new.name} is nearly the name of {known}"
        yield Fact("high", "near-name", f"{text}: was {known} meant?")
    elif around.news and new.name not in names():
        text = "new here, and not among the most used packages"
        if around.family:
            yield Fact("low", "new-package", f"{text}; {around.family} requires it")
        else:
            leads = f"; {around.origin} leads to it" if around.origin else ""
            yield Fact("medium", "new-package", f"{text}{leads}: see whose it is")


def _hash(old: Pin, new: Pin, around: Around) -> Iterator[Fact]:
    """Yield a fact for a file that was replaced without a new version."""
    was, now = old.artifact, new.artifact
    if was is None or now is None or not _same_release(old, new):
        return
    hashes = different_hashes(was, now)
    if hashes is None:
        if was.sha256 == now.sha256 and was.size and now.size and was.size != now.size:
            sizes = f"{was.size:,} B became {now.size:,} B"
            yield Fact("high", "size-changed", f"SAME FILE, DIFFERENT SIZE: {sizes}, with one hash: one is wrong")
    elif was.file == now.file:
        name = f" ({was.file})" if was.file else ""
        yield Fact(
            "high",
            "hash-changed",
            f"SAME VERSION, DIFFERENT FILE{name}: {hashes}. A published file doesn't change: find out who replaced it",
        )
    elif was.variant is not None and now.variant is not None and label(old) != label(new):
        yield Fact("medium", "variant-changed", f"variant {label(old)} → {label(new)}: a build for other machines")
    elif around.exact and not (old.url or new.url) and not _is_repacked(old, new):
        files = f"{was.file} became {now.file}"
        yield Fact(
            "high",
            "file-changed",
            f"SAME VERSION, ANOTHER FILE: {files}, for the same machines: find out whose it is",
        )
    elif form(old) == form(new):
        yield Fact("low", "file-changed", "a different file of the same version")


def _same_release(old: Pin, new: Pin) -> bool:
    """Return whether two pins are of one version, however it is written, and of one conda build."""
    return old.build == new.build and far(old, new).kind == "none"


_CONDA = re.compile(r"\.(?:conda|tar\.bz2)$")


def _is_repacked(old: Pin, new: Pin) -> bool:
    """Return whether two conda files are one build in both of conda's formats, as channels serve it."""
    files = [pin.artifact.file if pin.artifact else "" for pin in (old, new)]
    return old.kind == "conda" and len({_CONDA.sub("", file) for file in files}) == 1


def _requirements(old: Pin, new: Pin, around: Around) -> Iterator[Fact]:
    """Yield a fact for other requirements of the very same file."""
    commits = [pin.git.commit if pin.git else None for pin in (old, new)]
    if not around.moved or not _same_release(old, new) or commits[0] != commits[1] or label(old) != label(new):
        return
    lines = "; ".join(around.moved)
    if new.kind == "conda":
        yield Fact("medium", "requirements-changed", f"its channel's record differs, at the same build: {lines}")
    else:
        text = f"SAME VERSION, OTHER REQUIREMENTS: {lines}. A published file's METADATA doesn't change"
        yield Fact("high", "requirements-changed", text)


def _source(old: Pin, new: Pin) -> Iterator[Fact]:
    if old.git and new.git:
        if old.git.url != new.git.url:
            yield Fact("high", "repository-changed", f"a different repository: {old.git.url} -> {new.git.url}")
        if old.git.commit != new.git.commit:
            commits = f"{old.git.commit[:12]} -> {new.git.commit[:12]}"
            yield Fact("medium", "commit-changed", f"a different commit: {commits}; the version doesn't show it")
        if old.git.subdirectory != new.git.subdirectory:
            folder = new.git.subdirectory or "."
            yield Fact("medium", "commit-changed", f"a different folder of {new.git.url}: {folder}")
    elif new.git:
        yield Fact("medium", "from-git", f"now comes from {new.git.url} at {new.git.commit[:12]}")
    if new.url and old.url and new.url != old.url:
        elsewhere = host_of(old.url) != host_of(new.url)
        yield Fact("high" if elsewhere else "medium", "url-changed", f"a different URL: {old.url} -> {new.url}")
    elif new.url and not old.url:
        yield Fact("medium", "from-url", f"now comes from {new.url}")
    own = old.git.url if old.git else old.url
    if own and not (new.git or new.url):
        where = f"no longer comes from {own}, but from {f'the index {new.index}' if new.index else 'an index'}"
        if _OFFICIAL.fullmatch(new.index):
            yield Fact("high", "from-index", f"{where}: {_PUBLIC}")
        else:
            yield Fact("medium", "from-index", where)


def _version(old: Pin, new: Pin, around: Around) -> Iterator[Fact]:
    distance = far(old, new)
    if distance.down:
        yield _step_back(around.against)
    elif distance.kind == "epoch":
        yield Fact("medium", "epoch-jump", "a new epoch: versions are counted anew")
    elif distance.kind == "major":
        if around.inner:
            yield Fact("low", "major-jump", "a major version; no requirement of the lock forbids it")
        elif numbers_in(old.version)[0] >= _ROUTINE:
            yield Fact("low", "major-jump", "a major version; this project publishes one or more a year")
        else:
            yield Fact("medium", "major-jump", "a major version may break its users")
    elif distance.kind == "minor" and new.name in TORCH:
        # a project's own extensions and compiled caches are in no lock
        message = f"your own extensions for torch {'.'.join(old.version.split('.')[:2])} must be built again"
        yield Fact("medium", "torch-jump", message)
    elif distance.kind == "minor" and (broke := breaks_below_one(new.name, old.version, new.version)):
        yield Fact("medium", "zero-minor-jump", f"below 1.0, and has broken its users: {'; '.join(broke)}")
    elif distance.kind == "local" and new.index == "pypi" and "+" in new.version:
        yield Fact("high", "local-version", f"{new.version} can't be from PyPI, which takes no local versions")
    if distance.to_prerelease:
        yield _pre_release(new, around)
    for extra in around.lost:
        yield Fact("high", "extra-lost", f"its extra {extra}, which the spec asks for, brings nothing any more")


def _step_back(reason: Reason | None) -> Fact:
    why = f": {reason.text}" if reason else ""
    message = f"goes back to an older version{why}"
    if reason is not None and reason.package is not None:
        # the package that takes it back has the risk
        return Fact("low", "downgrade", message)
    if reason is not None and reason.by_spec:
        return Fact("medium", "downgrade", message)
    return Fact("high", "downgrade", message)


def _form(old: Pin, new: Pin) -> Iterator[Fact]:
    was, now = form(old), form(new)
    if (was, now) == ("wheel", "sdist"):
        yield Fact("medium", "builds-from-source", "was a wheel, is now built from source: installing it runs its code")
    elif (was, now) == ("sdist", "wheel"):
        yield Fact("low", "now-a-wheel", "was built from source, is now a wheel")


def _index(old: Pin, new: Pin) -> Iterator[Fact]:
    was, now = old.index, new.index
    if was == now or old.git or new.git or old.url or new.url:
        return
    what = "channel" if new.kind == "conda" else "index"
    if _OFFICIAL.fullmatch(was) and _OFFICIAL.fullmatch(now):
        yield Fact("low", f"{what}-moved", f"{what} {was} -> {now}")
    elif new.kind == "pip" and _OFFICIAL.fullmatch(now):
        yield Fact("high", "index-moved", f"index {was} -> {now}: {_PUBLIC}")
    elif new.kind == "conda" and was.rpartition("/")[0] == now.rpartition("/")[0]:
        yield Fact("low", "channel-moved", f"its channel's subdir {was} -> {now}")
    else:
        yield Fact("high", f"{what}-moved", f"{what} {was} -> {now}: another publisher supplies it now")


def _build(old: Pin, new: Pin) -> Iterator[Fact]:
    if old.build != new.build and old.version == new.version:
        yield Fact("low", "build-changed", f"build {old.build or 'unknown'} -> {new.build or 'unknown'}")


def _licence(old: Pin, new: Pin) -> Iterator[Fact]:
    was, now = old.licence, new.licence
    if was == now or (was and now and is_same(was, now)):
        return
    if was is None:
        yield Fact("low", "licence-changed", f"licence now stated: {now}")
    elif now is None:
        yield Fact("low", "licence-changed", f"licence no longer stated (was {was})")
    else:
        before, after = licence_class(was), licence_class(now)
        # the class of an unknown licence isn't known; a lighter one is nothing to worry about
        lighter = CLASSES.index(after) <= CLASSES.index(before) if before != "unknown" else after == "permissive"
        yield Fact("low" if lighter else "medium", "licence-changed", f"licence {was} -> {now}")


def _size(old: Pin, new: Pin) -> Iterator[Fact]:
    was = old.artifact.size if old.artifact else None
    now = new.artifact.size if new.artifact else None
    if was and now and now - was >= LARGE_GROWTH and now >= was * 1.2:
        yield Fact("medium", "size-grew", f"its download grew by {(now - was) / 1e6:.0f} MB")


def _publisher(old: Pin, new: Pin) -> Iterator[Fact]:
    was, now = old.publisher, new.publisher
    if was == now:
        return
    if was is None:
        yield Fact("low", "publisher-named", f"its index now names a publisher: {now}")
    elif now is None:
        yield Fact("medium", "publisher-gone", f"its index names no publisher any more (was {was})")
    elif (was.kind, was.repository, was.email) != (now.kind, now.repository, now.email):
        yield Fact("high", "publisher-changed", f"ANOTHER PUBLISHER: {was} -> {now}: find out whose it is now")
    else:
        yield Fact("medium", "publisher-workflow", f"published by another workflow: {was} -> {now}")


def _build_changes(old: Pin, new: Pin) -> Iterator[Fact]:
    if old.built_with is None or new.built_with is None or old.built_with == new.built_with:
        return
    before = {pin.name: pin for pin in old.built_with}
    after = {pin.name: pin for pin in new.built_with}
    for name in sorted(before.keys() & after.keys()):
        was, now = before[name], after[name]
        if (was.version, was.file) == (now.version, now.file) and was.sha256 != now.sha256:
            message = f"SAME VERSION, DIFFERENT FILE in its build ({now.file}): find out who replaced it"
            yield Fact("high", "build-hash-changed", message)
    versions = [
        (name, *(side[name].version if name in side else "none" for side in (before, after)))
        for name in sorted(before.keys() | after.keys())
    ]
    moved = [f"{name} {was} -> {now}" for name, was, now in versions if was != now]
    if moved:
        yield Fact("low", "built-with-changed", f"is built with {', '.join(moved)}")


def _direct(old: Pin, new: Pin) -> Iterator[Fact]:
    if new.direct and not old.direct:
        yield Fact("low", "now-direct", "is now asked for by name")
    elif old.direct and not new.direct:
        yield Fact("low", "now-pulled-in", "is no longer asked for by name, only as a dependency")
    if old.provides != new.provides:
        yield Fact("low", "provides-changed", f"provides {', '.join(new.provides) or 'nothing'} for pip")
