"""An environment that stands on no base, as the entries of one tree: for a single file that is mounted or unpacked.

Its Python is in it. Where pip's packages are all there is, the tree works at any path: the packages are the Python's
own, not those of a virtual environment, whose `pyvenv.cfg` would name a path. Conda's packages name theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path, PurePosixPath

from envspec.export.plan import Plan
from envspec.image.conda import LinkedPackages, history_entry
from envspec.image.layer import PROGRAM, LayerEntry, folder_entry, in_order, link_entry, text_entry
from envspec.image.layers import package_entries, project_entries
from envspec.image.wheel import Scheme
from envspec.install import activation
from envspec.install.collect import Paths
from envspec.install.prefix import FOLDER
from envspec.lock.model import LockedTarget
from envspec.lock.shared_paths import in_install_order

MOUNT = "mount"
"""The note, beside the carried files, of the path where a tree works; `ANYWHERE` if it has none."""
ANYWHERE = "anywhere"
MOUNTER = "bin/envspec-mount"
"""The carried script that mounts the file that it lies in."""
_BROUGHT = re.compile(r"lib/python3\.\d+/site-packages/.*|bin/pip[\d.]*")
"""What a build of Python has as a package: its own pip, which no lock names."""


@dataclass(frozen=True)
class TreeInputs:
    """The inputs of a tree.

    path     where it is going to be; it decides the content with conda packages alone
    build    the files of the build of Python below `path`; empty where conda brings it
    carried, wheels, conda, project, built: as of `envspec.image.layers.LayerInputs`
    """

    plan: Plan
    target: LockedTarget
    path: str
    build: Sequence[LayerEntry]
    carried: Mapping[str, str]
    wheels: Paths
    conda: LinkedPackages | None = None
    project: Path | None = None
    built: Mapping[str, tuple[Path, str]] = field(default_factory=dict)

    @property
    def scheme(self) -> Scheme:
        return Scheme(self.path, self.plan.python, anywhere=self.conda is None)


def tree_entries(inputs: TreeInputs) -> list[LayerEntry]:
    """List the entries of a tree from its own root, each below its folder. Raises InputError, IndexFailure."""
    root = f"{inputs.scheme.root}/"
    found = [replace(one, path=one.path.removeprefix(root)) for one in _first_entries(inputs)]
    tops = {PurePosixPath(one.path).parts[0] for one in found if "/" in one.path}
    return list(in_order([*map(folder_entry, sorted(tops)), *found, *_own(inputs)]))


def _first_entries(inputs: TreeInputs) -> Iterator[LayerEntry]:
    """Give what has the tree's path before its own."""
    scheme = inputs.scheme
    for one in inputs.build:
        if not _BROUGHT.fullmatch(one.path.removeprefix(f"{scheme.root}/")):
            yield one
    if inputs.conda:
        yield history_entry(scheme.root)
    yield from package_entries(in_install_order(inputs.target), scheme, inputs.wheels, inputs.conda, inputs.built)
    if inputs.project:
        yield from project_entries(inputs.project, inputs.plan, scheme)


def _own(inputs: TreeInputs) -> Iterator[LayerEntry]:
    """Give what envspec adds: the carried files, the scripts that activate and mount, the note of the path."""
    folder = FOLDER.as_posix()
    for path, text in inputs.carried.items():
        yield text_entry(f"{folder}/{path}", text, PROGRAM)
    yield text_entry(f"{folder}/{MOUNT}", f"{inputs.path if inputs.conda else ANYWHERE}\n")
    yield text_entry(MOUNTER, files("envspec.carried").joinpath("mount.sh").read_bytes(), PROGRAM)
    if inputs.build:
        yield link_entry("bin/python3", f"python{inputs.plan.python}")
        yield link_entry("bin/python", f"python{inputs.plan.python}")
    place = Path(inputs.path) if inputs.conda else None
    for path, text in activation.scripts(place, inputs.plan.spec, conda=inputs.conda is not None).items():
        yield text_entry(path, activation.unwritten(text))
