"""The build requirements of sources: wheels of the default index, through an index proxy of its own and its bounds.

uv has no other network then. What else a source names (a URL, an index in its own `[tool.uv]`), and what the user's
other settings name, is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from envspec.base.errors import OutsideError, ToolError
from envspec.base.redact import redact
from envspec.lock.toml_text import key, string, value
from envspec.net.index_proxy.pages import Describe, Pages, Upstream
from envspec.net.index_proxy.server import IndexProxy, open_proxy
from envspec.net.simple_page import LivePages
from envspec.resolve.uv.program import Uv


@dataclass(frozen=True)
class BuildIndex:
    """The index that builds see. `default` is the address of "pypi" behind it; `own` are indexes before it, by name: of
    packages that the target has from there."""

    proxy: IndexProxy
    default: str
    own: tuple[tuple[str, str], ...] = ()

    def configuration(self, uv: Uv) -> str:
        """Write uv's configuration for a build: the user's settings that don't change answers, and this index."""
        lines = [f"{key(name)} = {value(item)}" for name, item in uv.settings_cut_off(self.proxy.host).items()]
        url = self.proxy.index(Upstream(self.default))
        for name, address in self.own:
            lines += ["[[index]]", f"name = {string(name)}", f"url = {string(address)}"]
        lines += ["[[index]]", 'name = "pypi"', f"url = {string(url)}", "default = true"]
        return "\n".join(lines) + "\n"


@contextmanager
def build_requirements(
    pages: Pages,
    describe: Describe,
    default: str | None,
    secrets: Path,
    live: Mapping[str, LivePages] | None = None,
) -> Iterator[BuildIndex]:
    """Serve the index. `default` is where "pypi" is; `secrets` keeps the secret of its address; `describe` gives
    METADATA, of sources what a lock is shown of those that may not be built; `live` are the pages of PyTorch's indexes.

    Raises OutsideError where no index is configured for PyPI.
    """
    if default is None:
        raise OutsideError("no index is configured for PyPI", hint="name the index to use: UV_DEFAULT_INDEX=https://…")
    with open_proxy(live, pages=pages, metadata=describe, folder=secrets, purpose="builds") as proxy:
        yield BuildIndex(proxy, default)


def url_requirement_error(url: str) -> ToolError:
    """Make the error for a build that requires a file by its URL."""
    return ToolError(
        f"the build requires {redact(url)}, and what builds require comes from the default index alone",
        hint="choose a release that has a wheel, or put that file on your default index",
    )
