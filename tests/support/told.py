"""A pip resolver that is told what to answer, and pins to tell it."""

import hashlib
from collections.abc import Mapping

from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.lock.model import Artifact, Pin
from envspec.packages.conflict import Unsatisfiable
from envspec.packages.names import requirement_name
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.pip.sources_needed import SourcesNeeded
from envspec.resolve.workflow.solve import Solved


def pin(name: str, version: str, *dependencies: str, index: str = "pypi") -> Pin:
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return Pin("pip", name, version, index, Artifact(file, hashlib.sha256(file.encode()).hexdigest(), 1), dependencies)


class ByRequest:
    """A stand-in for the resolver of the pip half, which answers requests in `answer`: targets look at the answers as
    they do at uv's, and are asked for again as long as they give another request."""

    def answer(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> Mapping[str, tuple[Pin, ...]]:
        """Give the pins of each target. Raises Unsatisfiable."""
        raise NotImplementedError

    def resolve(
        self, targets: Mapping[str, Solved], keep: Mapping[str, Preferences]
    ) -> tuple[dict[str, Solved], SourcesNeeded | None]:
        waiting, solved = dict(targets), dict[str, Solved]()
        while waiting:
            own = {name: one.preferences for name, one in waiting.items()}
            requests = {name: one.request for name, one in waiting.items() if one.request is not None}
            try:
                pins = self.answer(requests, {**keep, **{name: one for name, one in own.items() if one}})
            except Unsatisfiable as conflict:
                names = [*conflict.targets] or [*waiting]
                before = {name: one for name in names if (one := waiting[name].without_refusals())}
                if not before:
                    raise
                waiting |= before
                continue
            reviewed = {name: one.review(pins[name]) for name, one in waiting.items()}
            solved |= {name: one for name, one in reviewed.items() if one.request == waiting[name].request}
            waiting = {name: one for name, one in reviewed.items() if name not in solved}
        return solved, None


class Told(ByRequest):
    """Answers every target with the same pins, or with its own; remembers what it was asked."""

    def __init__(self, *pins: Pin, **by_target: tuple[Pin, ...]) -> None:
        self.pins = pins
        self.by_target = by_target
        self.requests: Mapping[str, Request] = {}
        self.keep: Mapping[str, Preferences] = {}

    def answer(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> Mapping[str, tuple[Pin, ...]]:
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
