"""uv's own answers about variants: told of another GPU, behind its preview, with nothing of the user's settings."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from uv import find_uv_bin

from envspec.packages.variant_choice import TargetMachine
from support.index import Index
from support.variants import Properties, release

_SELECTED = re.compile(r"Selecting: (\S+)==\S+ \[compatible\] \(\S+?-py3-none-any(?:-([a-z0-9_.]+))?\.whl\)")


def uv(index: Index, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run uv with its preview of variants."""
    env = {**os.environ, "UV_CACHE_DIR": str(folder / "cache"), "UV_PREVIEW_FEATURES": "wheel-variants", **variables}
    for name in [name for name in env if name.startswith(("PIP_", "UV_INDEX", "UV_DEFAULT", "UV_FIND"))]:
        del env[name]
    command = [os.fspath(find_uv_bin()), "pip", *arguments, "--no-config", "--default-index", index.url]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def uvs_choices(
    releases: Mapping[str, Mapping[str, Properties]], namespaces: Sequence[str], target: TargetMachine, folder: Path
) -> dict[str, str]:
    """The labels that uv takes of packages on the machine of a target, by package."""
    with Index() as index:
        for name, variants in releases.items():
            index.add(*release(name, "1.0", variants, namespaces=namespaces))
        ran = uv(
            index, folder, "install", "--dry-run", "--verbose", "--target", str(folder / "out"), *releases,
            NV_VARIANT_PROVIDER_FORCE_SM_ARCH=target.capabilities[0],
            NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION=str(target.cuda),
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    return dict(_SELECTED.findall(ran.stderr))
