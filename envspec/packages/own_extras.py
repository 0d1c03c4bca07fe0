"""envspec's extras: whether one is installed, and the command that installs it into this very environment."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from envspec.base.errors import ToolError

MODULES = {
    "conda": {"rattler": "py-rattler"},
    "image": {"zstandard": "zstandard", "zlib_ng": "zlib-ng", "cyclonedx": "cyclonedx-python-lib"},
    "sbom": {"cyclonedx": "cyclonedx-python-lib"},
    "attest": {"pypi_attestations": "pypi-attestations"},
}
"""The modules of each extra, and the distributions that bring them."""


def require_extra(extra: str, purpose: str) -> None:
    """Raise ToolError where a module of an extra is missing; `purpose` begins the sentence: "conda packages need"."""
    for module, distribution in MODULES[extra].items():
        if find_spec(module) is None:
            raise ToolError(f"{purpose} {distribution}, which isn't installed", hint=how_to_get(extra))


def how_to_get(extra: str) -> str:
    """Give the command that installs an extra the way envspec itself was installed.

    No way asks an index for envspec unless it came from one: a tool of uv is installed again from its origin with the
    extra, whose requirements alone are added elsewhere.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        envspec = distribution("envspec")
    except PackageNotFoundError:
        return f"install envspec with its extra {extra}"
    requirements = [
        line.partition(";")[0].strip()
        for line in envspec.requires or ()
        if re.search(rf"""extra\s*==\s*["']{extra}["']""", line)
    ]
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").is_file():
        return shlex.join(["pipx", "inject", "envspec", *requirements])
    if (prefix / "uv-receipt.toml").is_file():
        extras = sorted({extra, *(name for name, modules in MODULES.items() if all(map(find_spec, modules)))})
        named = f"envspec[{','.join(extras)}]"
        origin = _origin(envspec.read_text("direct_url.json"))
        return shlex.join(["uv", "tool", "install", "--force", f"{named} @ {origin}" if origin else named])
    if find_spec("pip") is None:
        return shlex.join([sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, *requirements])
    return shlex.join([sys.executable, "-m", "pip", "install", *_of_the_system(envspec.locate_file("")), *requirements])


def _origin(direct_url: str | None) -> str | None:
    """Read where pip or uv installed a distribution from (PEP 610); None for an index."""
    if direct_url is None:
        return None
    record = json.loads(direct_url)
    vcs = record.get("vcs_info")
    return f"{vcs['vcs']}+{record['url']}@{vcs['commit_id']}" if vcs else str(record["url"])


def _of_the_system(folder: object) -> list[str]:
    """The options with which pip installs beside envspec into a Python that no virtual environment has."""
    if sys.prefix != sys.base_prefix:
        return []
    import site
    import sysconfig

    user = ["--user"] if Path(str(folder)) == Path(site.getusersitepackages()) else []
    managed = Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file()
    return [*user, *(["--break-system-packages"] if managed else [])]
