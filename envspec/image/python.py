"""The Python of an image without conda's: the lock's own build of it, the base's, or the one that envspec knows for its
version; and the environment around it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from envspec.base.errors import InputError
from envspec.export.plan import PYTHON, Plan
from envspec.facts.python_builds import TRIPLES, newest_build
from envspec.image.base import BaseFiles
from envspec.image.layer import LayerEntry, folder_entry, link_entry, text_entry
from envspec.image.wheel import Scheme
from envspec.install import activation
from envspec.lock.model import LockedPython

_PLACES = ("usr/bin", "usr/local/bin")
"""The folders in which bases have a Python, in the order of PATH's end: Debian's own, then that of `python` images."""


class ImagePython(Struct, frozen=True):
    """home   the folder of the interpreter in the image
    key       what it is, for the layer's key
    headers   whether `Python.h` is beside it, which torch.compile needs
    build     the build to bring; None for the base's own
    """

    home: str
    key: str
    headers: bool
    build: LockedPython | None = None

    @property
    def prefix(self) -> str:
        return posixpath.dirname(self.home)

    def interpreter(self, python: str) -> str:
        return f"{self.home}/python{python}"


def image_python(plan: Plan, base: BaseFiles, locked: LockedPython | None) -> ImagePython:
    """Choose the target's Python: the lock's build, else the base's own, else the build that envspec knows for the
    version; the base's own alone where the spec asks for that. Raises InputError where there is none of them."""
    if locked is not None and not plan.runtime.base_python:
        return _image_python(locked)
    for place in reversed(_PLACES):
        if f"{place}/python{plan.runtime.python}" in base.paths:
            headers = f"{posixpath.dirname(place)}/include/python{plan.runtime.python}/Python.h" in base.paths
            return ImagePython(f"/{place}", f"base:/{place}", headers)
    if plan.runtime.base_python:
        message = f"the base image has no Python {plan.runtime.python} of its own, and the spec asks for that"
        raise InputError(message, hint='take a base that has it, or leave out python = "base" in [image]')
    known = _known_build(plan)
    if known is None:
        python, platform = plan.runtime.python, plan.runtime.platform
        message = f"the base image has no Python {python}, and envspec knows no build of it for {platform}"
        raise InputError(message, hint=f"take a base that has it, or {_FROM_CONDA.format(python)}")
    return _image_python(known)


def standalone_python(plan: Plan, locked: LockedPython | None) -> LockedPython:
    """Choose the Python of an environment that stands on no base: the lock's build, else the one that envspec knows for
    the version. Raises InputError where there is neither."""
    build = locked or _known_build(plan)
    if build is None:
        python, platform = plan.runtime.python, plan.runtime.platform
        hint = f"take {_FROM_CONDA.format(python)}"
        raise InputError(f"envspec knows no build of Python {python} for {platform}", hint=hint)
    return build


_FROM_CONDA = 'Python from conda: [conda] dependencies = ["python {}.*"]'


def _known_build(plan: Plan) -> LockedPython | None:
    known = newest_build(plan.runtime.python, plan.runtime.platform)
    if known is None:
        return None
    return LockedPython(known.platform, known.version, known.build, known.file, known.sha256)


def _image_python(build: LockedPython) -> ImagePython:
    machine = TRIPLES[build.platform].partition("-")[0]
    home = f"{PYTHON}/cpython-{build.version}-linux-{machine}-gnu/bin"
    return ImagePython(home, f"build:{build.sha256}", True, build)


def environment_entries(plan: Plan, python: ImagePython, scheme: Scheme) -> Iterator[LayerEntry]:
    """Give the files that make a virtual environment of a prefix (PEP 405)."""
    root = scheme.root
    interpreter = python.interpreter(plan.runtime.python)
    yield text_entry(
        f"{root}/pyvenv.cfg",
        f"home = {python.home}\nimplementation = CPython\nversion_info = {plan.runtime.python}\n"
        "include-system-site-packages = false\n",
    )
    yield link_entry(f"{root}/bin/python", interpreter)
    yield link_entry(f"{root}/bin/python3", "python")
    yield link_entry(f"{root}/bin/python{plan.runtime.python}", "python")
    yield folder_entry(scheme.site)
    yield link_entry(f"{root}/lib64", "lib")


def activation_entries(plan: Plan, scheme: Scheme) -> Iterator[LayerEntry]:
    """Give the scripts that activate an environment in a shell."""
    texts = activation.scripts(Path(scheme.prefix), plan.spec, conda=bool(plan.sources.explicit))
    for path, text in texts.items():
        yield text_entry(f"{scheme.root}/{path}", activation.without_writer(text))
