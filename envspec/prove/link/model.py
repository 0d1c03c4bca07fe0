"""What link knows of wheels, and what it finds, as frozen values."""

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
    """

    files: tuple[ElfFile, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()


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
    paths    the files that can't be loaded, from site-packages
    names    the libraries, symbol versions or symbols that they lack
    """

    version: str
    paths: tuple[str, ...]
    names: tuple[str, ...]
