"""What link knows of wheels, and what it finds, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envspec.binaries.elf import DynamicFacts

Level = Literal["error", "warning"]


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
class LinkFinding:
    """What the loader would refuse, or what can't be said.

    level    an error where Python modules, or what they need, can't be loaded; else a warning
    code     library-missing, version-missing, symbol-missing, symbol-elsewhere, elf-unreadable
    package  with `version` and `file`, whose files these are
    paths    the files, from site-packages
    names    the libraries, symbol versions or symbols
    """

    level: Level
    code: str
    package: str
    version: str
    file: str
    paths: tuple[str, ...]
    names: tuple[str, ...]
    message: str
    remedy: str
