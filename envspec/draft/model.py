"""The contents of a new spec, and the parts of another tool's file that no spec can hold."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from envspec.base.errors import Place


class Note(Struct, frozen=True):
    """Something of a file that the spec doesn't hold as it stands there: what, and what becomes of it, in a line."""

    text: str
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


class NewTarget(Struct, frozen=True):
    """A target as a new spec has it. `pip` and `conda` are what it asks for beside the spec's own."""

    name: str
    platform: str
    cuda: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    glibc: str | None = None
    cpu: str | None = None
    pip: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()


class Draft(Struct, frozen=True):
    """A spec's contents before its targets are known, or with those that the file has.

    pip           requirements
    own           what the project itself asks for: it counts where the spec can't name the project's folder
    conda         match specs
    constraints   bounds that ask for nothing
    overrides     requirements that take the place of all others, with their reasons
    indexes       further indexes, and flat ones (`find_links`): name → URL
    sources       packages of one index alone: name → index
    unisolated    packages that are built in the environment itself
    cuda          the CUDA versions that the file names, newest first; "cpu" alone where it wants none
    cuda_bounds   the versions of match specs that bound the CUDA, of which each holds
    variables     of the environment
    apt           packages of the image's distribution
    project       the folder of a pyproject.toml whose dependencies are the spec's, and its extras
    available     extras and groups of the project that a spec may take, with what they ask for
    name          of the project that the file is of
    """

    python: str | None = None
    requires_python: str | None = None
    description: str | None = None
    exclude_newer: str | None = None
    pip: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()
    indexes: Mapping[str, str] = field(default_factory=dict)
    find_links: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    unisolated: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    apt: tuple[str, ...] = ()
    project: tuple[str, tuple[str, ...]] | None = None
    available: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    targets: tuple[NewTarget, ...] = ()
    name: str | None = None
    cuda_bounds: tuple[str, ...] = ()

    @property
    def day(self) -> str | None:
        """The moment after which releases don't count, as `exclude_newer` has it; None where that is an age."""
        return self.exclude_newer if self.exclude_newer and self.exclude_newer[:4].isdecimal() else None
