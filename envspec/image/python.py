"""The Python of an image without conda's: the lock's own build of it, or the base's; and the environment around it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envspec.errors import InputError
from envspec.image.base_files import BaseFiles
from envspec.image.entry import Entry, folder_entry, link_entry, text_entry
from envspec.image.wheel import Scheme
from envspec.install import activation
from envspec.recipes.plan import Plan

_PLACES = ("usr/bin", "usr/local/bin")
"""Where bases have a Python, in the order of PATH's end: Debian's own, then that of `python` images."""


@dataclass(frozen=True)
class ImagePython:
    """home   the folder of the interpreter in the image
    key       what it is, for the layer's key
    headers   whether `Python.h` is beside it, which torch.compile needs
    """

    home: str
    key: str
    headers: bool

    def interpreter(self, python: str) -> str:
        return f"{self.home}/python{python}"


def base_python(plan: Plan, base: BaseFiles) -> ImagePython:
    """Find the target's Python in the base. Raises InputError where it has none."""
    for place in reversed(_PLACES):
        if f"{place}/python{plan.python}" in base.paths:
            headers = f"{posixpath.dirname(place)}/include/python{plan.python}/Python.h" in base.paths
            return ImagePython(f"/{place}", f"base:/{place}", headers)
    raise InputError(
        f"the base image has no Python {plan.python}, and the lock of {plan.spec} names no build of it",
        hint="lock again, which names one; or take a base that has it: `envspec image --base-recipe` prints its recipe",
    )


def environment_entries(plan: Plan, python: ImagePython, scheme: Scheme) -> Iterator[Entry]:
    """Give the files that make a virtual environment of a prefix (PEP 405)."""
    root = scheme.root
    interpreter = python.interpreter(plan.python)
    yield text_entry(
        f"{root}/pyvenv.cfg",
        f"home = {python.home}\nimplementation = CPython\nversion_info = {plan.python}\n"
        "include-system-site-packages = false\n",
    )
    yield link_entry(f"{root}/bin/python", interpreter)
    yield link_entry(f"{root}/bin/python3", "python")
    yield link_entry(f"{root}/bin/python{plan.python}", "python")
    yield folder_entry(scheme.site)
    yield link_entry(f"{root}/lib64", "lib")


def activation_entries(plan: Plan, scheme: Scheme) -> Iterator[Entry]:
    """Give the scripts that activate an environment in a shell."""
    texts = activation.scripts(Path(scheme.prefix), plan.spec, conda=bool(plan.explicit))
    for path, text in texts.items():
        yield text_entry(f"{scheme.root}/{path}", re.sub(r"\n# Written by envspec[^\n]*", "", text))
