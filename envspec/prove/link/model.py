"""Link's knowledge of wheels, and its results, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from envspec.binaries.elf import DynamicFacts


@dataclass(frozen=True)
class ElfFile:
    """path   where the file is installed, from site-packages
    facts  its dynamic facts; of its symbols those of a family (`envspec.prove.link.symbols`)
    """

    path: str
    facts: DynamicFacts


@dataclass(frozen=True)
class WheelFacts:
    """files   the files of a wheel that the loader can load
    unread  those whose tables are damaged, each with the reason
    imports the modules that METADATA forgets most (`FORGOTTEN`), each with the first of the wheel's own that imports it
            as it is imported; none where that isn't known
    brings  those of these modules that the wheel has itself
    """

    files: tuple[ElfFile, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    imports: tuple[tuple[str, str], ...] = ()
    brings: tuple[str, ...] = ()


FORGOTTEN = {
    "distutils": "setuptools",
    "pkg_resources": "setuptools<82",
    **{name: name for name in ("filelock", "numpy", "packaging", "psutil", "requests", "scipy", "setuptools", "six")},
    **{name: name for name in ("torch", "tqdm", "triton", "typing_extensions", "wheel")},
    "PIL": "pillow",
    "attr": "attrs",
    "yaml": "pyyaml",
}
"""Modules that nearly every environment has, and the requirement that brings each: whoever publishes a wheel doesn't
notice that its METADATA lacks one. `distutils` is Python's own up to 3.11, and setuptools puts its own in its place."""


@dataclass(frozen=True)
class LinkedPackage:
    """A package of a target with its wheel's file name and facts."""

    name: str
    version: str
    file: str
    facts: WheelFacts


@dataclass(frozen=True)
class Unloadable:
    """The evidence of a finding of link, about a file of a wheel.

    version  the package's
    paths    the files that can't be loaded, from site-packages; of an import the module that has it
    names    the libraries, symbol versions, symbols or modules that they lack
    """

    version: str
    paths: tuple[str, ...]
    names: tuple[str, ...]
