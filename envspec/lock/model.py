"""The lock as frozen values, which `envspec.lock.read` reads and `envspec.lock.write` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from envspec.base.finding import Finding
from envspec.base.records import RecordWithNotes
from envspec.lock.inventory import Inventory
from envspec.packages.metadata import Metadata
from envspec.packages.python_range import releases_of
from envspec.packages.stated import StatedMetadata
from envspec.packages.tags import takes_python

LOCK_VERSION = 5
"""The schema's version. A reader refuses every other; it has nothing to do with envspec's own version."""


class WheelVariant(Struct, frozen=True):
    """The build of a variant wheel (PEP 817): the label that ends its file's name, and the index's data on it.

    properties  "namespace :: feature :: value", those of the namespace that the package puts first at the front
    priorities  the namespaces that any of the release's variants has, the most important first
    """

    label: str
    properties: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()


class Artifact(Struct, frozen=True):
    """One file that a target installs.

    `size` is in bytes, None where no index says it. `url` is set only for a direct-URL requirement. `md5` is conda's.
    `inert`: it is a source whose build runs no code of its own, so that `allow-source` needn't name it
    (`envspec.artifacts.sdist.inert`).
    """

    file: str
    sha256: str
    size: int | None = None
    md5: str | None = None
    variant: WheelVariant | None = None
    inert: bool = False


class BuildPin(Struct, frozen=True):
    """One wheel of the environment that a source is built in."""

    name: str
    version: str
    file: str
    sha256: str
    size: int | None = None

    @property
    def pin(self) -> Pin:
        """Give the wheel as a package of its own, from PyPI (`LockedTarget.build_wheels`)."""
        return Pin("pip", self.name, self.version, "pypi", Artifact(self.file, self.sha256, self.size))


class Publisher(Struct, frozen=True):
    """The publisher of a release by its index (PEP 740). Its word, until `verify` proves it.

    kind  "GitHub", "GitLab", "Google", …; the other fields are what that kind says
    """

    kind: str
    repository: str | None = None
    workflow: str | None = None
    environment: str | None = None
    email: str | None = None

    def __str__(self) -> str:
        identity = self.repository or self.email
        parts = [self.workflow, self.environment and f"environment {self.environment}"]
        details = ", ".join(text for text in parts if text)
        return " ".join(filter(None, [self.kind, identity, details and f"({details})"]))


class GitSource(Struct, frozen=True):
    """A git requirement, pinned: the repository's URL without credentials, the full commit, and a folder inside."""

    url: str
    commit: str
    subdirectory: str | None = None

    @property
    def address(self) -> str:
        """Its address as it stands behind `git+` in a requirement: `URL@commit`, with `#subdirectory=` where it has
        one."""
        folder = f"#subdirectory={self.subdirectory}" if self.subdirectory else ""
        return f"{self.url}@{self.commit}{folder}"


class SolverView(Struct, frozen=True):
    """The knowledge of a pin that a resolution has and a lock doesn't hold: its METADATA, for the rules that read it.

    metadata  its METADATA, with what corrections add; None where that wasn't read
    added     those of the pin's `dependencies` that its METADATA leaves out
    newer     newer final releases on offer that install on the target; None where no correction is about the package
    sole      whether a correction is about what it requires, and no other release that the spec admits installs
    """

    metadata: Metadata | None = None
    added: tuple[str, ...] = ()
    newer: tuple[str, ...] | None = None
    sole: bool = False


class Pin(RecordWithNotes, frozen=True, eq=False):
    """One package as one target installs it. `Lock` merges the pins of its targets only when it's written.

    kind          "pip" or "conda"
    name          normalised (PEP 503) for pip, conda's own name for conda
    version       PEP 440 text with local part, or conda's
    build         conda's build string, else None
    index         the index's *name*: "pypi", "pytorch/cu126", "conda-forge/linux-64", or one of the spec's names;
                  "git" and "url" for requirements that name their source themselves
    dependencies  pip: Requires-Dist lines that hold for this target (PEP 508 with markers, `extra` included);
                  conda: the record's `depends`
    direct        the spec asks for it by name
    provides      conda only: PyPI names that this package installs (counted as present when pip is solved)
    publisher     its publisher by the index; None where the index names none
    built_with    sources only: the wheels that it is built with, by name; None for a package that isn't built, and for
                  one that is built against the lock's own packages
    requires_python  pip only: its Requires-Python, where that may refuse this Python or a later one
                  (`envspec.packages.python_range.binding_range`); None in locks of schema 2
    overwrites    pip only: the packages installed before its wheel, some of whose files it overwrites with others; of
                  locks of schema 2 it isn't known
    code          pip only: the code for GPUs that the target loads of its wheel, as far as `lock` read it
                  (`envspec.rules.wheel_code.locked_code`)
    solver        pip only: the solver's view of it, which a lock doesn't hold
    """

    notes: ClassVar = frozenset({"solver"})

    kind: str
    name: str
    version: str
    index: str
    artifact: Artifact | None
    dependencies: tuple[str, ...] = ()
    direct: bool = False
    licence: str | None = None
    build: str | None = None
    git: GitSource | None = None
    url: str | None = None
    provides: tuple[str, ...] = ()
    publisher: Publisher | None = None
    built_with: tuple[BuildPin, ...] | None = None
    requires_python: str | None = None
    overwrites: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    solver: SolverView = SolverView()

    @property
    def is_wheel(self) -> bool:
        return self.artifact is not None and self.artifact.file.endswith(".whl")

    @property
    def is_inert(self) -> bool:
        """Return whether it is a source whose build runs no code of its own."""
        return self.artifact is not None and self.artifact.inert


class TargetInputs(RecordWithNotes, frozen=True, eq=False):
    """The inputs of a target's solution: enough to name later the reasons why a lock is stale, field by field.

    All texts are normalised (`envspec.lock.inputs`), so equal meaning gives equal values.

    python       the minor version: "3.12"
    constraints  bounds that ask for nothing
    overrides    requirements that take the place of all others on their packages, each with its reason
    find_links   the flat indexes: name and page, without its host
    addresses    of the indexes and flat pages that the spec names: name and address, without a login. One that isn't
                 there isn't known
    accept       the findings of the rules that the spec takes knowingly: code and reason
    metadata     the spec's statements on sources: of a package, the first that covers a version counts
    inspect      wheels are read for bounds that their METADATA lacks
    cpu          the oldest processors ("x86-64-v3"), None for any of the platform
    python_range    the spec's bound on Python beside its minor version: "==3.12.4", ">=3.11,<3.13"
    python_version  the version of the build that the target gets, chosen before all else; None where the machine brings
                    one of its own
    newest_python   the newest release of the minor version, where no build is known and none comes with a base: uv
                    fetches that release then, and `install` judges the one that it gets
    """

    notes: ClassVar = frozenset({"python_version", "newest_python"})

    platform: str
    python: str
    glibc: str | None
    cuda: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    requirements: tuple[str, ...] = ()
    conda_requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()
    find_links: tuple[tuple[str, str], ...] = ()
    addresses: tuple[tuple[str, str], ...] = ()
    accept: tuple[tuple[str, str], ...] = ()
    metadata: tuple[StatedMetadata, ...] = ()
    inspect: bool = True
    cpu: str | None = None
    python_range: str | None = None
    python_version: str | None = None
    newest_python: str | None = None

    @property
    def full_python(self) -> str:
        """The Python that markers and Requires-Python are judged for: the build's, else the newest, else, for a base's
        own Python, the oldest that the spec admits."""
        if self.python_version is not None:
            return self.python_version
        if self.newest_python is not None:
            return self.newest_python
        return self.python if self.python_range is None else releases_of(self.python, self.python_range)[0]

    def with_python(self, version: str | None, *, of_base: bool) -> TargetInputs:
        """Give the inputs with the exact Python. Without one, images may get any from their base, others the newest."""
        newest = None
        if not (version or of_base or self.python_range):
            # a lock of today names its builds: what reads it and judges nothing needs no table
            from envspec.facts.python_builds import newest_release

            newest = newest_release(self.python)
        return replace(self, python_version=version, newest_python=newest)

    def accepts(self, code: str, package: str) -> bool:
        """Return whether the spec takes a finding knowingly, of this package or whatever it is about."""
        return any(key in (code, f"{code}:{package}") for key, _ in self.accept)


class BaseInputs(Struct, frozen=True):
    """`[base]` of a spec: the environment below the lock.

    kind     "image", "sif", "prefix" or "module"; `place` is its name or path, as the spec has it
    replace  packages of the base that the lock may replace, each with the reason
    """

    kind: str
    place: str
    replace: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        replaced = ", ".join(f"{name}: {why}" for name, why in self.replace)
        return f"{self.kind} {self.place}{f' without {replaced}' if replaced else ''}"


class SpecInputs(Struct, frozen=True):
    """The inputs that all targets of a spec share.

    base          the environment below the lock; None where the lock is a whole environment
    image_python  "base" where images use the base's own Python; None where they bring the lock's
    """

    exclude_newer: str | None = None
    allow_source: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[str, ...] = ()
    without_corrections: tuple[str, ...] = ()
    image_python: str | None = None
    base: BaseInputs | None = None

    @property
    def brings_python(self) -> bool:
        """Return whether the lock names the build of Python. It doesn't where images or a base have their own."""
        return self.image_python is None and self.base is None


class LockedTarget(RecordWithNotes, frozen=True, eq=False):
    """A target of a lock: its inputs, its values from the GPU facts, and its pins, sorted by (kind, name).

    provided  the packages of its base that stay, each with the version that requirements see
              (`envspec.lock.inventory`); `extras` has the requirements of their extras. Both are from the inventory
              beside the lock, not from the lock's text
    as_locked the architectures and the driver floor of the lock's text, where today's facts gave stricter ones
    """

    notes: ClassVar = frozenset({"provided", "extras", "as_locked"})

    name: str
    inputs: TargetInputs
    pins: tuple[Pin, ...]
    architectures: tuple[str, ...] = ()
    driver_floor: str | None = None
    provided: tuple[tuple[str, str], ...] = ()
    extras: tuple[tuple[str, tuple[str, ...]], ...] = ()
    as_locked: tuple[tuple[str, ...], str | None] | None = None

    @property
    def is_past_requires_python(self) -> bool:
        """Return whether the spec accepts a package whose Requires-Python refuses the target's Python. pip needs an
        option for that; uv ignores Requires-Python of pinned packages."""
        python = self.inputs.full_python
        return any(pin.requires_python and not takes_python(pin.requires_python, python) for pin in self.pins)

    @property
    def fetched(self) -> tuple[Pin, ...]:
        """Its pins, then the wheels that its sources are built with, each file once."""
        known = {(pin.index, pin.artifact) for pin in self.pins}
        wheels = {wheel for pin in self.pins for wheel in self.build_wheels(pin)}
        extra_wheels = (pin for pin in wheels if (pin.index, pin.artifact) not in known)
        return (*self.pins, *sorted(extra_wheels, key=lambda pin: (pin.name, pin.version)))

    def build_wheels(self, source: Pin) -> tuple[Pin, ...]:
        """Give the wheels that a source is built with as packages of their own. A file that the target has too comes
        from the target's index, any other from PyPI."""
        own = {(pin.name, pin.version, pin.artifact): pin.index for pin in self.pins} if source.built_with else {}
        wheels = (build_pin.pin for build_pin in source.built_with or ())
        return tuple(
            replace(wheel, index=own.get((wheel.name, wheel.version, wheel.artifact), wheel.index)) for wheel in wheels
        )

    def pin(self, name: str, kind: str | None = None) -> Pin | None:
        return next((p for p in self.pins if p.name == name and kind in (None, p.kind)), None)


class LockedImage(Struct, frozen=True):
    """An image that the recipes stand on: its name as the spec or a recipe writes it ("debian:bookworm-slim"), and the
    digest ("sha256:…") of the registry's manifest of that name: of the image index where there is one, so that it holds
    for every platform.
    """

    name: str
    digest: str


class LockedPython(Struct, frozen=True):
    """The build of CPython that environments and images of a platform get, unless conda brings Python.

    build  the release of the builds that it is from (python-build-standalone's date)
    """

    platform: str
    version: str
    build: str
    file: str
    sha256: str
    size: int | None = None


def inventory_name(platform: str) -> str:
    """Name the file of a base's inventory, beside the lock."""
    return f"base-{platform}.toml"


class LockedBase(Struct, frozen=True):
    """The inventory of a platform's base, which lies beside the lock: `sha256` is of its file, `digest` of the image or
    the SIF ("sha256:…"), None of a folder."""

    platform: str
    sha256: str
    digest: str | None = None


class LockedCorrection(Struct, frozen=True, order=True):
    """A bound from a wheel's own files that its METADATA leaves out, where it shaped the lock.

    package     its normalised name, in this `version`; `file` and `sha256` are the wheel that was read
    constraint  PEP 508: a target with both packages must meet it
    reason      the finding in the wheel
    """

    package: str
    version: str
    file: str
    sha256: str
    constraint: str
    reason: str

    def is_of(self, pin: Pin) -> bool:
        """Return whether a pin's file is the wheel that was read."""
        return (
            (pin.kind, pin.name, pin.version) == ("pip", self.package, self.version)
            and pin.artifact is not None
            and (pin.artifact.file, pin.artifact.sha256) == (self.file, self.sha256)
        )


class Lock(RecordWithNotes, frozen=True, eq=False):
    """The lock of one spec. `targets` is sorted by name, `images` too; an image without a known digest isn't there.
    `corrections` are those that were read from wheels. `pythons` and `bases` are sorted by platform; `inventories` are
    those of the bases, as far as their files lie beside the lock and are the lock's.
    """

    notes: ClassVar = frozenset({"inventories"})

    name: str
    inputs: SpecInputs
    targets: tuple[LockedTarget, ...]
    images: tuple[LockedImage, ...] = ()
    corrections: tuple[LockedCorrection, ...] = ()
    pythons: tuple[LockedPython, ...] = ()
    bases: tuple[LockedBase, ...] = ()
    inventories: Mapping[str, Inventory] = field(default_factory=dict)

    def target(self, name: str) -> LockedTarget | None:
        return next((t for t in self.targets if t.name == name), None)

    def image(self, name: str) -> LockedImage | None:
        return next((image for image in self.images if image.name == name), None)

    def python(self, target: LockedTarget) -> LockedPython | None:
        """Return the build of Python that a target gets; None where conda brings Python, or where no build is
        locked."""
        if target.pin("python", "conda"):
            return None
        return next((build for build in self.pythons if build.platform == target.inputs.platform), None)

    def with_python_versions(self) -> Lock:
        """Give the lock with the exact Python of each target: its build's, or conda's. A target whose images use their
        base's Python may get any."""
        of_base = not self.inputs.brings_python

        def inputs(target: LockedTarget) -> TargetInputs:
            own = target.pin("python", "conda") or (None if of_base else self.python(target))
            exact = self._base_python(target) or (own.version if own else None)
            return target.inputs.with_python(exact, of_base=of_base)

        targets = tuple(replace(target, inputs=inputs(target)) for target in self.targets)
        return replace(self, targets=targets)

    def _base_python(self, target: LockedTarget) -> str | None:
        base = self.inventories.get(target.inputs.platform)
        return base.exact_python if base else None

    def with_inventories(self, inventories: Mapping[str, Inventory]) -> Lock:
        """Give the lock with the inventories of its bases, by platform, and with what they provide to its targets."""
        replaced = {name for name, _ in self.inputs.base.replace} if self.inputs.base else set()

        def with_base(target: LockedTarget) -> LockedTarget:
            base = inventories.get(target.inputs.platform)
            if base is None:
                return replace(target, provided=(), extras=())
            return replace(target, provided=base.packages_besides(replaced), extras=base.extras_besides(replaced))

        targets = tuple(map(with_base, self.targets))
        return replace(self, targets=targets, inventories=inventories).with_python_versions()

    @property
    def torches(self) -> dict[str, tuple[str, ...]]:
        """The targets that have each release of torch, whatever it is built for; from conda it's called pytorch."""
        by_release: dict[str, tuple[str, ...]] = {}
        for target in self.targets:
            pin = target.pin("torch", "pip") or target.pin("pytorch", "conda")
            if pin is not None:
                release = pin.version.partition("+")[0]
                by_release[release] = (*by_release.get(release, ()), target.name)
        return dict(sorted(by_release.items()))

    def __iter__(self) -> Iterator[LockedTarget]:
        return iter(self.targets)


class SoundLock(Lock, frozen=True, eq=False):
    """A lock without an error. Only `judge.sound` makes one; commands that install, export or run require one. Its
    targets have the stricter of what the lock and today's facts say. `doubts` are the warnings of the judgement."""

    notes: ClassVar = Lock.notes | {"doubts"}

    doubts: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, lock: Lock, doubts: tuple[Finding, ...] = ()) -> SoundLock:
        return cls(**asdict(lock) | {"doubts": doubts})
