"""One request, and uv with all that it needs to answer it, however often it is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envspec.base.errors import EnvspecError, Unsatisfiable
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.server import IndexProxy
from envspec.resolve.pip.compile import UvCompile, compile_request
from envspec.resolve.pip.direct import DirectFiles
from envspec.resolve.pip.indexes import UvIndexes
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.pip.sharing import versions_of
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.resolve.uv.answer import Found
from envspec.resolve.uv.program import Uv


@dataclass(frozen=True)
class Question:
    """The constant part of uv's questions for one solution.

    torch   the PyTorch index of the request, and whether the proxy serves it (`gated`): else uv asks the live one
    direct  the files that are named by their URL
    label   the targets' names, for messages
    folder  holds a folder for each answer
    """

    uv: Uv
    indexes: UvIndexes
    torch: TorchIndex
    gated: bool
    proxy: IndexProxy
    direct: DirectFiles
    label: str
    folder: Path

    @property
    def backend(self) -> str | None:
        """The variant of the live PyTorch index that uv asks by itself."""
        return None if self.gated else self.torch.variant

    def ask(
        self, request: Request, preferences: Preferences | None = None, no_pre_releases: Sequence[str] = ()
    ) -> tuple[Found, ...]:
        """Have uv solve a request. Raises what `compile_request` raises."""
        return compile_request(
            UvCompile(
                self.uv,
                replace(request, constraints=(*request.constraints, *self.torch.constraints)),
                self.indexes.for_request(request, self.torch if self.gated else None, self.proxy),
                Path(tempfile.mkdtemp(dir=self.folder)),
                self.label,
                self.proxy.host,
                preferences or Preferences(),
                self.direct,
                self.backend,
                no_pre_releases,
            )
        )

    def refusal(self, request: Request, bounds: Sequence[str], found: Sequence[Found]) -> str:
        """Say, in uv's words, why bounds (`name>=2`) can't be met beside the torch that was found; nothing where they
        can."""
        own = versions_of(found)
        floors = tuple(f"{name}>={own[name]}" for name in FAMILY if name in own)
        try:
            self.ask(replace(request, constraints=(*request.constraints, *floors, *bounds)))
        except Unsatisfiable as conflict:
            return conflict.message
        except EnvspecError:
            # the solution stands without it: this only says more of it
            pass
        return ""
