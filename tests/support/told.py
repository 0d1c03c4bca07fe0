"""A pip resolver that is told what to answer, and pins to tell it."""

import hashlib
from collections.abc import Mapping

from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.lock.model import Artifact, Pin
from envspec.packages.names import requirement_name
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.pip.request import Preferences, Request


def pin(name: str, version: str, *dependencies: str, index: str = "pypi") -> Pin:
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return Pin("pip", name, version, index, Artifact(file, hashlib.sha256(file.encode()).hexdigest(), 1), dependencies)


class Told:
    """Answers every target with the same pins, or with its own; remembers what it was asked."""

    def __init__(self, *pins: Pin, **by_target: tuple[Pin, ...]) -> None:
        self.pins = pins
        self.by_target = by_target
        self.requests: Mapping[str, Request] = {}
        self.keep: Mapping[str, Preferences] = {}

    def resolve(
        self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]:
        self.requests, self.keep = requests, keep
        return {name: _marked(self.by_target.get(name, self.pins), request) for name, request in requests.items()}


def _marked(pins: tuple[Pin, ...], request: Request) -> tuple[Pin, ...]:
    """With what a resolver sees in the request: which packages it asks for, and the index that it gives them."""
    asked, sources = {requirement_name(text) for text in request.requirements}, dict(request.sources)
    return tuple(replace(p, direct=p.name in asked, index=sources.get(p.name, p.index)) for p in pins)


class CondaTold:
    """A conda solver that answers each target with the pins it was made with, and remembers what to keep."""

    def __init__(self, *pins: Pin) -> None:
        self.pins = pins
        self.keep: Mapping[str, Preferences] = {}

    def resolve(
        self, requests: Mapping[str, CondaRequest], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]:
        self.keep = keep
        return dict.fromkeys(requests, self.pins)

    def findings(self, pins: Mapping[str, tuple[Pin, ...]]) -> tuple[Finding, ...]:
        """Nothing was passed over."""
        return ()
