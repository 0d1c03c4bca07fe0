"""Variants' wheels under the names of plain ones, which every installer takes: the lock has chosen already."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from envspec.install.collect import Paths
from envspec.lock.conda_files import artifact_of
from envspec.lock.model import Pin
from envspec.packages.variant_name import read_name


def plain_name(pin: Pin) -> str:
    """Give the name that a pin's file has for an installer."""
    artifact = artifact_of(pin)
    return artifact.file if artifact.variant is None else read_name(artifact.file).plain


def plainly_named(pins: Sequence[Pin], files: Paths, folder: Path) -> Paths:
    """Give the same files, those of variants under plain names in a folder, each in one of its own. Nothing is copied
    where the system can link. Raises OSError."""
    found = dict(files)
    for pin in pins:
        if pin.artifact is None or pin.artifact.variant is None:
            continue
        key = (pin.index, pin.artifact.file)
        place = folder / pin.name / plain_name(pin)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        try:
            os.link(files[key].resolve(), place)
        except OSError:
            shutil.copyfile(files[key], place)
        found[key] = place
    return found
