"""What a lock was solved from, in a normal form: the same meaning gives the same values and the same fingerprint.

The URLs of the spec's indexes are not part of it: an index that moves doesn't make a lock stale.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache

from envspec.errors import Place, SpecError
from envspec.lock.model import Lock, SpecInputs, TargetInputs
from envspec.packages.requirement import TEXTS, parse_requirement
from envspec.packages.requirement import canonical_name as canonical_name
from envspec.redact import without_credentials
from envspec.spec.model import Located, Spec, Target
from envspec.texts import UNSEEN, printable

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def channel_name(channel: str) -> str:
    """What a lock calls a spec's channel: by the name that the spec gives it, or by the last part of its URL's path.

    A URL without a path has its host alone to be known by, with its port: `http://127.0.0.1:8080` is "127.0.0.1-8080".
    What a name in a lock can't have becomes a hyphen there too.
    """
    if not _URL.match(channel):
        return channel.strip("/")
    last = without_credentials(channel).partition("://")[2].rstrip("/").rpartition("/")[2]
    return _NOT_IN_NAMES.sub("-", last).lstrip("._-") or "channel"


@lru_cache(maxsize=TEXTS)
def normalise_requirement(text: str) -> str:
    """A PEP 508 requirement in one spelling: canonical name, sorted extras and specifiers, no credentials.

    Raises ValueError when it isn't PEP 508.
    """
    parsed = parse_requirement(text)
    extras = sorted({canonical_name(extra) for extra in parsed.extras})
    bracket = f"[{','.join(extras)}]" if extras else ""
    specifiers = sorted({specifier.operator + specifier.version for specifier in parsed.specifier})
    normal = canonical_name(parsed.name) + bracket + ",".join(specifiers)
    if parsed.url:
        normal += f" @ {without_credentials(parsed.url)}"
    if parsed.marker:
        # Only a space tells a URL from the marker's semicolon (PEP 508).
        normal += f" ; {parsed.marker}" if parsed.url else f"; {parsed.marker}"
    return normal


def normalise_match_spec(text: str) -> str:
    """A conda match spec in one spelling: lower-case name, single spaces, none inside a version range."""
    joined = re.sub(r"\s*([,|])\s*", r"\1", " ".join(text.split()))
    joined = re.sub(r"(?<=[<>=!~])\s+", "", joined)
    name = conda_name(joined)
    start = joined.find("::") + 2 if "::" in joined else 0
    return joined[:start] + name + joined[start + len(name) :]


@lru_cache(maxsize=16384)
def conda_name(match_spec: str) -> str:
    """The package's name in a match spec or in a record's `depends`."""
    return re.split(r"[\s=<>!~\[]", match_spec.rpartition("::")[2].lstrip(), maxsplit=1)[0].lower()


def requirement_name(requirement: str) -> str:
    """The canonical name at the start of a PEP 508 requirement."""
    return canonical_name(re.split(r"[^A-Za-z0-9._-]", requirement.lstrip(), maxsplit=1)[0])


PUBLIC = "pypi"
"""In a spec's `sources`: from PyPI, or the PyTorch index where that stands in for it, whatever else has the package."""


def spec_inputs(spec: Spec) -> SpecInputs:
    """What all targets of a spec share."""
    return SpecInputs(
        exclude_newer=spec.exclude_newer,
        allow_source=tuple(sorted({canonical_name(name) for name in spec.pip.allow_source})),
        without_corrections=tuple(sorted(spec.pip.without_corrections)),
        sources={canonical_name(name): index for name, index in sorted(spec.pip.sources.items())},
        channels=spec.conda.channels,
    )


def target_inputs(spec: Spec, target: Target) -> TargetInputs:
    """What one target is solved from. The order in which the spec names requirements and GPUs doesn't matter.

    Raises SpecError, with its place, for a requirement that isn't PEP 508.
    """
    for gpu in target.gpus:
        _refuse_unseen(gpu, target.places.get("gpus", target.place))
    for match_spec in spec.conda_dependencies(target):
        _refuse_unseen(match_spec.text, match_spec.place)
    return TargetInputs(
        platform=target.platform,
        python=spec.python,
        glibc=target.glibc if target.platform.startswith("linux-") else None,
        cuda=target.cuda,
        gpus=tuple(sorted(set(target.gpus))),
        driver=target.driver,
        requirements=tuple(sorted({_normalised(located) for located in spec.pip_dependencies(target)})),
        conda_requirements=tuple(sorted({normalise_match_spec(d.text) for d in spec.conda_dependencies(target)})),
    )


def has_equal_inputs(spec: Spec, lock: Lock) -> bool:
    """Whether a lock was made from the very inputs that the spec has now. Raises SpecError as `target_inputs` does."""
    return (
        lock.name == spec.name
        and lock.inputs == spec_inputs(spec)
        and {locked.name: locked.inputs for locked in lock} == {t.name: target_inputs(spec, t) for t in spec.targets}
    )


def implied_match_specs(python: str, *, with_pip: bool) -> tuple[str, ...]:
    """What conda's solver is asked for besides the spec's match specs: its Python, and pip where there is a pip half,
    as every conda tool expects."""
    return (f"python {python}.*", *("pip",) * with_pip)


def _refuse_unseen(text: str, place: Place) -> None:
    """Refuse what no lock can hold, for nobody would see it there."""
    unseen = UNSEEN.search(text)
    if unseen:
        raise SpecError(f'"{printable(text)}" holds {unseen[0]!a}, which doesn\'t show', place=place)


def _normalised(located: Located) -> str:
    _refuse_unseen(located.text, located.place)
    try:
        return normalise_requirement(located.text)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f'"{located.text}" is not a requirement: {reason}', place=located.place) from None


def fingerprint(spec: SpecInputs, target: TargetInputs) -> str:
    """`sha256:` and the digest of everything that decides a target's solution; its name has no part in that."""
    canonical = json.dumps(
        {
            "allow-source": spec.allow_source,
            "channels": spec.channels,
            "exclude-newer": spec.exclude_newer,
            "sources": dict(spec.sources),
            "conda-requirements": target.conda_requirements,
            "cuda": target.cuda,
            "driver": target.driver,
            "glibc": target.glibc,
            "gpus": target.gpus,
            "platform": target.platform,
            "python": target.python,
            "requirements": target.requirements,
            # keys that came later stand only where they say something, so that older fingerprints stay true
            **({"without-corrections": spec.without_corrections} if spec.without_corrections else {}),
        },
        sort_keys=True,
        separators=(",", ":"),
    )
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
