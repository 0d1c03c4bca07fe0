"""Looking through conda packages that another machine will link, as `install` looks through its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from envspec.errors import IndexFailure, ToolError
from envspec.install.collect import Paths
from envspec.install.conda_cache import members_of
from envspec.install.conda_paths import PackagePath, Unpacked, entries_of, refuse_unsafe, site_packages_of
from envspec.lock.conda_files import artifact_of
from envspec.lock.model import Pin, TargetInputs
from envspec.redact import redact


def refuse_unfit_packages(pins: Sequence[Pin], found: Paths, inputs: TargetInputs, scratch: Path) -> None:
    """Raise IndexFailure for a conda package that would write outside the environment. `scratch` is an empty folder, to
    unpack in. Raises ToolError without py-rattler, OSError."""
    try:
        from rattler.package_streaming import extract
    except ImportError:
        raise ToolError(
            "there are conda packages, and py-rattler, which looks through them, isn't there",
            hint="pip install 'envspec[conda]'",
        ) from None
    places = {f"lib/python{inputs.python}/site-packages"}
    unpacked: list[Unpacked] = []
    for number, pin in enumerate(sorted(pins, key=lambda pin: pin.name != "python")):
        archive = found[pin.index, artifact_of(pin).file]
        special = asyncio.run(members_of(archive, pin.name))
        package = Unpacked(pin.name, scratch / str(number))
        try:
            extract(archive, package.folder)
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise IndexFailure(
                f"the conda package {pin.name} can't be unpacked: {redact(' '.join(str(error).split()))}",
                hint="don't install from this channel until who runs it has found out why",
            ) from None
        if strange := next((member for member in special if not (package.folder / member).is_dir()), None):
            raise IndexFailure(
                f"the conda package {pin.name} has the entry {strange!r}: it's neither a file nor a folder nor a link",
                hint="don't install from this channel until who runs it has found out why",
            )
        if pin.name == "python" and (place := site_packages_of(package)):
            places.add(place)
        unpacked.append(package)
    entries: dict[Unpacked, list[PackagePath]] = {package: entries_of(package, places) for package in unpacked}
    refuse_unsafe(entries, scratch / "prefix", inputs.platform)
