"""Looking through conda packages that another machine will link, as `install` looks through its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from envspec.base.errors import ToolError
from envspec.install.collect import Paths
from envspec.install.conda_cache import members_of, refuse_special, unpack_failure
from envspec.install.conda_paths import PackagePath, Unpacked, entries_of, refuse_unsafe, site_packages_of
from envspec.lock.conda_files import artifact_of
from envspec.lock.model import Pin, TargetInputs


def refuse_unfit_packages(pins: Sequence[Pin], found: Paths, inputs: TargetInputs, scratch: Path) -> None:
    """Raise IndexFailure for a conda package that would write outside the environment. `scratch` is an empty folder, to
    unpack in. Raises ToolError without py-rattler, OSError."""
    try:
        from rattler.package_streaming import extract
    except ImportError:
        raise ToolError(
            "the bundle has conda packages, and py-rattler, which looks through them, isn't installed",
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
            raise unpack_failure(error, pin.name) from None
        refuse_special(pin.name, special, package.folder)
        if pin.name == "python" and (place := site_packages_of(package)):
            places.add(place)
        unpacked.append(package)
    entries: dict[Unpacked, list[PackagePath]] = {package: entries_of(package, places) for package in unpacked}
    refuse_unsafe(entries, scratch / "prefix", inputs.platform)
