"""The contents of a new spec, and the parts of another tool's file that no spec can hold."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from envspec.base.errors import Place


class Note(Struct, frozen=True):
    """Something of a file that the spec doesn't hold as it stands there: what, and what becomes of it, in a line. One
    that `is_counted` is a comment of the spec, and only a number on the screen."""

    text: str
    place: Place | None = None
    is_counted: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


class VersionClaim(Struct, frozen=True):
    """A file's words on Python or CUDA, as they stand there.

    about    "python": a specifier of versions; "python-version": a version that a tag or a file names;
             "cuda": a CUDA that a build, an index or an image names, or "cpu"; "cuda-version": the version of a match
             spec; "cuda-driver": the CUDA that the machines' drivers reach
    written  the file's own text, where `text` isn't
    part     the extra or the group for which it holds ("extra cu126")
    marker   the environments for which it holds
    """

    about: str
    text: str
    place: Place
    written: str = ""
    part: str = ""
    marker: str = ""


class NewTarget(Struct, frozen=True):
    """A target as a new spec has it. `pip` and `conda` are what it asks for beside the spec's own, `parts` the extras
    and groups of the project. `claims` choose the CUDA of a target that a file describes."""

    name: str
    platform: str
    cuda: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    glibc: str | None = None
    cpu: str | None = None
    pip: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()
    claims: tuple[VersionClaim, ...] = ()
    parts: tuple[str, ...] = ()


class Draft(Struct, frozen=True):
    """The contents of a file, or of several joined, in no tool's terms. Readers choose nothing: `claims.settle` and
    `targets.choose` do, when all is read.

    pip           requirements
    own           what the project itself asks for: it counts where the spec can't name the project's folder
    conda         match specs
    constraints   bounds that ask for nothing
    overrides     requirements that take the place of all others, with their reasons
    indexes       further indexes, and flat ones (`find_links`): name → URL
    sources       packages of one index alone: name → index
    unisolated    packages that are built in the environment itself
    claims        on Python and CUDA
    variables     of the environment
    apt           packages of the image's distribution; `user` is the image's
    project       the folder of a pyproject.toml whose dependencies are the spec's, and its extras
    available     extras and groups of the project that a spec may take, with what they ask for
    name          of the project that the file is of
    sources_by_marker  the same for the environments of a marker: package, index and marker
    lines         the files' lines behind each requirement and match spec, by its text; what else was taken has none
    """

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
    platforms: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    apt: tuple[str, ...] = ()
    project: tuple[str, tuple[str, ...]] | None = None
    available: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    targets: tuple[NewTarget, ...] = ()
    name: str | None = None
    claims: tuple[VersionClaim, ...] = ()
    lines: Mapping[str, tuple[Note, ...]] = field(default_factory=dict)
    user: str | None = None
    sources_by_marker: tuple[tuple[str, str, str], ...] = ()

    def line_of(self, text: str) -> Place | None:
        """The first line that asks for a requirement or a match spec."""
        return next((line.place for line in self.lines.get(text, ())), None)

    @property
    def day(self) -> str | None:
        """The moment after which releases don't count, as `exclude_newer` has it; None where that is an age."""
        return self.exclude_newer if self.exclude_newer and self.exclude_newer[:4].isdecimal() else None
