"""The inputs of a lock's solution, in a normal form: the same meaning gives the same values and the same fingerprint.

The addresses of the indexes and flat pages that the spec names are among them, without logins: a file's origin is a
part of its identity. PyPI, PyTorch's indexes and the spec's mirrors have names alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import Place, SpecError
from envspec.base.redact import redact, without_credentials
from envspec.base.texts import UNSEEN, is_seen, printable
from envspec.lock.listed import metadata_table
from envspec.lock.model import BaseInputs, Lock, SpecInputs, TargetInputs
from envspec.packages.names import normalise_match_spec, normalise_requirement
from envspec.packages.python_range import releases_of
from envspec.packages.requirement import canonical_name
from envspec.packages.version_numbers import numbers
from envspec.spec.model import Base, Located, Spec, Target
from envspec.spec.newer import with_moments_of_lock


def spec_inputs(spec: Spec) -> SpecInputs:
    """Return the inputs that all targets of a spec share."""
    return SpecInputs(
        exclude_newer=spec.exclude_newer,
        allow_source=tuple(sorted({canonical_name(name) for name in spec.pip.allow_source})),
        without_corrections=tuple(sorted(spec.pip.without_corrections)),
        sources={canonical_name(name): index for name, index in sorted(spec.pip.sources.items())},
        channels=spec.conda.channels,
        image_python=spec.image.python if spec.image.python != "locked" else None,
        base=_base_inputs(spec.base) if spec.base else None,
    )


def _base_inputs(base: Base) -> BaseInputs:
    for reason in base.replace.values():
        _refuse_unseen(reason, Place(""))
    return BaseInputs(base.kind, base.place, tuple(sorted(base.replace.items())))


def target_inputs(spec: Spec, target: Target) -> TargetInputs:
    """Return the inputs of a target's solution. The order in which the spec names requirements and GPUs doesn't matter.

    Raises SpecError, with its place, for a requirement that isn't PEP 508.
    """
    for gpu in target.gpus:
        _refuse_unseen(gpu, target.places.get("gpus", target.place))
    for match_spec in spec.conda_dependencies(target):
        _refuse_unseen(match_spec.text, match_spec.place)
    terms = spec.pip_terms(target)
    for override in terms.overrides:
        _refuse_unseen(override.reason, override.place)
    for code, reason in terms.accept.items():
        _refuse_unseen(reason, place_of_term(spec, target, "accept", code))
    return TargetInputs(
        platform=target.platform,
        python=spec.python,
        glibc=target.glibc if target.platform.startswith("linux-") else None,
        cuda=target.cuda,
        gpus=tuple(sorted(set(target.gpus))),
        driver=target.driver,
        cpu=target.cpu,
        requirements=tuple(sorted({_normalise(located) for located in spec.pip_dependencies(target)})),
        conda_requirements=tuple(sorted({normalise_match_spec(d.text) for d in spec.conda_dependencies(target)})),
        constraints=tuple(sorted({_normalise(located) for located in terms.constraints})),
        overrides=tuple(sorted({(_normalise(override), override.reason) for override in terms.overrides})),
        find_links=tuple(sorted((name, page_name(url)) for name, url in terms.find_links.items())),
        addresses=tuple(
            sorted(
                (name, bare_address(url))
                for name, url in {**terms.find_links, **spec.pip.indexes}.items()
                if not url.startswith(_OF_THE_MACHINE)
            )
        ),
        accept=tuple(sorted((code, reason.strip()) for code, reason in terms.accept.items())),
        metadata=terms.metadata,
        inspect=terms.inspect is not False,
        python_range=spec.python_range,
    )


def place_of_term(spec: Spec, target: Target, key: str, name: str) -> Place:
    """Find where a target's own `[targets.X.pip] key` has a name, or else the spec's."""
    path = name.replace(":", ".")
    own = spec.places.get(f"targets.{target.name}.pip.{key}.{path}")
    return own or spec.places.get(f"pip.{key}.{path}") or target.place


def page_name(url: str) -> str:
    """Name the page of a flat index by its path; of a folder, the path that the spec has. A lock has no hosts, and none
    of the tokens that a path may have."""
    path = urlsplit(url).path.strip("/")
    return redact(f"https://host/{path}").removeprefix("https://host/")


_OF_THE_MACHINE = "file:"
"""A lock has no path of a machine; a folder beside the spec is called by its relative one."""

_PORTS = {"http": 80, "https": 443}


def same_address(address: str, other: str) -> bool:
    """Return whether two addresses are the same, whatever the login, a default port or a slash at the end."""
    return normal_address(address) == normal_address(other)


def bare_address(address: str) -> str:
    """Return an address without a login, as locks and messages have it."""
    return redact(without_credentials(address))


def normal_address(address: str) -> str:
    """Return the normal spelling of an address, without a login."""
    bare = without_credentials(address)
    try:
        parts = urlsplit(bare)
        port = parts.port
    except ValueError:
        return bare
    if not parts.scheme:
        return bare.rstrip("/")
    named = f":{port}" if port is not None and port != _PORTS.get(parts.scheme) else ""
    path = parts.path.rstrip("/")
    more = "".join(f"{mark}{text}" for mark, text in (("?", parts.query), ("#", parts.fragment)) if text)
    return f"{parts.scheme}://{parts.hostname or ''}{named}{path}{more}"


def _beside(own: TargetInputs, locked: TargetInputs) -> TargetInputs:
    """Give a target's inputs with the lock's spelling of addresses, and the spec's where an address changed. An index
    without an address in the lock has none in the result."""
    spec = dict(own.addresses)
    addresses = tuple(
        (name, address if same_address(address, spec[name]) else spec[name])
        for name, address in locked.addresses
        if name in spec
    )
    return replace(own, addresses=addresses)


class SpecCase(Struct, frozen=True):
    """A spec with its inputs: normalised once, for all that compare, judge and resolve.

    shared   the inputs of all targets
    targets  the inputs of each target, by name
    """

    spec: Spec
    shared: SpecInputs
    targets: Mapping[str, TargetInputs]

    def beside(self, lock: Lock) -> SpecCase:
        """Give the case with the choices of a lock: its moment in place of a duration, and its minor version of Python
        in place of a range. So a table with newer builds makes no lock stale."""
        spec = with_moments_of_lock(self.spec, lock.inputs.exclude_newer)
        bound = spec.python_range
        minors = [target.inputs.python for target in lock if releases_of(target.inputs.python, bound)] if bound else []
        python = max(minors, key=numbers, default=spec.python)
        return SpecCase(
            replace(spec, python=python),
            replace(self.shared, exclude_newer=spec.exclude_newer),
            {
                name: replace(
                    _beside(inputs, locked.inputs) if (locked := lock.target(name)) else inputs, python=python
                )
                for name, inputs in self.targets.items()
            },
        )

    def is_of(self, lock: Lock) -> bool:
        """Return whether a lock was made from exactly these inputs."""
        own = self.beside(lock)
        named = (lock.name, lock.inputs) == (own.spec.name, own.shared)
        return named and {locked.name: locked.inputs for locked in lock} == own.targets


def spec_case(spec: Spec) -> SpecCase:
    """Normalise a spec. Raises SpecError as `target_inputs` does."""
    return SpecCase(spec, spec_inputs(spec), {target.name: target_inputs(spec, target) for target in spec.targets})


def implied_match_specs(python: str, *, with_pip: bool, bound: str | None = None) -> tuple[str, ...]:
    """Return the match specs that conda's solver gets besides the spec's: Python, and pip where the target has pip
    packages, as every conda tool expects. `bound` is the spec's bound on Python, beside the minor version."""
    return (f"python {python}.*{f',{bound}' if bound else ''}", *("pip",) * with_pip)


def _refuse_unseen(text: str, place: Place) -> None:
    """Refuse characters that no lock can hold because its readers can't see them."""
    unseen = None if is_seen(text) else UNSEEN.search(text)
    if unseen:
        raise SpecError(f'"{printable(text)}" contains the invisible character {unseen[0]!a}', place=place)


def _normalise(located: Located) -> str:
    _refuse_unseen(located.text, located.place)
    try:
        return normalise_requirement(located.text)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f'"{located.text}" isn\'t a requirement: {reason}', place=located.place) from None


def fingerprint(spec: SpecInputs, target: TargetInputs) -> str:
    """Return `sha256:` and the digest of everything that decides a target's solution, but not of its name."""
    import hashlib

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
            **({"metadata": [metadata_table(stated) for stated in target.metadata]} if target.metadata else {}),
            **({"without-corrections": spec.without_corrections} if spec.without_corrections else {}),
            **({"constraints": target.constraints} if target.constraints else {}),
            **({"overrides": [requirement for requirement, _ in target.overrides]} if target.overrides else {}),
            **({"find-links": dict(target.find_links)} if target.find_links else {}),
            **({"accept": [code for code, _ in target.accept]} if target.accept else {}),
            **({} if target.inspect else {"inspect": False}),
            **({"cpu": target.cpu} if target.cpu else {}),
            **({"base": str(spec.base)} if spec.base else {}),
        },
        sort_keys=True,
        separators=(",", ":"),
    )
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
