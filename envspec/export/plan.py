"""The plan of a spec's recipes and of its targets', as frozen values: `envspec.export.make` computes it, renderers
print it.

The recipes of a spec are in one folder. In a repository's `recipes/`, where several specs' folders stand beside each
other, what all images carry stands once, in `_shared`, and `recipes/` is the build context. A spec's folder anywhere
else is a build context of its own, which holds all. Paths of the plan's files are below the build context.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from envspec.lock.model import LockedPython
from envspec.spec.cluster import KubernetesTable, SlurmTable

# The list of the carried files, `SHA256SUMS`: what `sha256sum -c` checks, and how a later export knows its own files.
#
# A file is in the list from before it exists until it's gone, so an export that is killed leaves no file that the next
# one doesn't know. In between, a path may stand there twice, with its old and its new digest.


SUMS = "SHA256SUMS"
"""The carried file with the digests of all the others."""
Sums = Collection[tuple[str, str]]
"""Paths below the carried folder, each with the SHA-256 of a content that an export gave it."""
_LINE = re.compile(r"([0-9a-f]{64})  ([!-~]+)")


def read_sums(text: str) -> frozenset[tuple[str, str]]:
    """Read a list. Lines that envspec doesn't write are passed over."""
    matches = (_LINE.fullmatch(line) for line in text.splitlines())
    return frozenset((line[2], line[1]) for line in matches if line)


def sums_text(sums: Iterable[tuple[str, str]]) -> str:
    """Write a list."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(sums))


def with_sums(files: Mapping[str, str]) -> dict[str, str]:
    """Add the list of the files' digests."""
    return {**files, SUMS: sums_text((path, digest(text)) for path, text in files.items())}


def encode(text: str) -> bytes:
    """Give the content of a file with this text. Bytes that aren't UTF-8 stand in a text as surrogates (PEP 383)."""
    return text.encode(errors="surrogateescape")


def decode(content: bytes) -> str:
    """Give the text of a file with this content."""
    return content.decode(errors="surrogateescape")


def digest(text: str) -> str:
    """Give the SHA-256 that a list has for a file with this text."""
    return hashlib.sha256(encode(text)).hexdigest()


ENVIRONMENT = "/opt/env"
"""The environment in an image: a virtual environment or a conda prefix."""
PYTHON = "/opt/python"
"""uv's managed Python, for bases without the target's version."""
CARRIED = "/opt/envspec"
"""The folder of the carried files in an image."""
OCI_PLATFORMS = {"linux-64": "linux/amd64", "linux-aarch64": "linux/arm64"}
"""The platforms of images, as container tools name them."""
CARRIED_FOLDER = "envspec"
"""The folder of the carried files in a spec's folder that can be taken away."""
SHARED_FOLDER = "_shared"
"""The folder of the carried files in a repository's `recipes/`: the same for all specs."""
CHECK = "check"
"""The folder of the smoke check in what is built, which `python -I` runs."""
CHECK_ARCHIVE = "envspec-check.pyz"
"""The smoke check among the sources of what is built, which unpack it: a zipapp, which `python -I` runs too."""
BUILD_SCRIPT = "build.sh"
"""The shell script among the carried files with the steps of builds of images; no image keeps it."""
REQUIREMENTS = "requirements"
"""The folder of the requirements, in a spec's folder and among the carried files: a file for each group of packages and
each set of targets that has them."""
FETCH_VARIANTS = "fetch_variants.py"
"""The carried program that fetches variants' wheels; only where a target of the spec has some."""
ENVIRONMENT_FILE = "environment.nix"
"""The Nix code that makes environments; the repository's own flake imports it too."""
SLICE = "target.json"
"""The target's own file: its slice of the lock, and other facts for the preflight and the smoke check."""
WORKSPACE = "/workspace"
EPOCH = 315532800
"""SOURCE_DATE_EPOCH of what is built, in seconds: the first day of 1980, as ZIP has none before."""
UID = 1000
"""The number of an image's user, and of its group."""
GROUP = "envspec"
"""The user's group, where the base has none of this number. Not the user's name: Debian has groups of many names."""


class ImageReference(Struct, frozen=True):
    """An image by name, and by digest if a registry answered when the lock was made."""

    name: str
    digest: str | None = None

    @property
    def pinned(self) -> str:
        """`name@sha256:…`, or the name alone."""
        return f"{self.name}@{self.digest}" if self.digest and "@" not in self.name else self.name

    @property
    def has_root(self) -> bool:
        """Whether its processes are known to be root's: Debian's, Ubuntu's, Python's and NVIDIA's CUDA images."""
        return bool(re.fullmatch(r"(debian|ubuntu|python|nvidia/cuda)[:@].*", self.name))


class Borrowed(Struct, frozen=True):
    """Files that an image takes from another one, in a stage of this name. `copies`: path there -> path here;
    `links`: further names here -> what they are links to."""

    name: str
    image: ImageReference
    copies: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...] = ()


class Service(Struct, frozen=True):
    """A server that an image can start.

    script     the carried file that starts it in the foreground
    apt        Debian packages that it needs
    image      the source of its program; `copies`: path there -> path here
    published  the host's port for it; None: the same
    """

    name: str
    port: int
    script: str
    apt: tuple[str, ...] = ()
    image: ImageReference | None = None
    copies: tuple[tuple[str, str], ...] = ()
    published: int | None = None

    @property
    def mapping(self) -> str:
        """The ports of the loopback and of the container, as Docker wants them."""
        return f"127.0.0.1:{self.published or self.port}:{self.port}"


class VariantFile(Struct, frozen=True):
    """A variant's wheel (PEP 825), by the name that the index has for it. `size` is in bytes, None where unknown."""

    file: str
    sha256: str
    size: int | None = None


class PipStep(Struct, frozen=True):
    """One run of uv: packages of one index, installed from one requirements file.

    requirements   its files below the build context: that of all targets, and those of some
    group          its layer, one of `LAYERS`; or "build", for what builds see
    torch_backend  uv's name for their PyTorch index (`cu126`), or None
    index, url     another index than PyPI: the lock's name for it, and where the spec says that it is; else None
    flat           the index is a flat one: the URL is its page
    local          the index is a folder, which builders are given: it has no URL
    beside         the other indexes stand beside PyPI: what the packages are built with comes from there
    unisolated     packages that are compiled against the environment, and see nothing but that
    built_with     the file with what the others' builds get, each wheel by its hash; None without others
    hashed         every file is checked (`--require-hashes`); a git requirement can't be
    variants       the files that uv is given under plain names, as it takes none of an index for another machine
    """

    requirements: tuple[str, ...]
    packages: tuple[str, ...]
    group: str = "rest"
    torch_backend: str | None = None
    index: str | None = None
    url: str | None = None
    hashed: bool = True
    flat: bool = False
    local: bool = False
    beside: bool = False
    unisolated: tuple[str, ...] = ()
    built_with: str | None = None
    variants: tuple[VariantFile, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the run reads."""
        return self.requirements if self.built_with is None else (*self.requirements, self.built_with)

    @property
    def index_option(self) -> str:
        """uv's option for the index: a flat one is a page, beside which uv asks no index but for builds."""
        if self.flat:
            return "--find-links" if self.beside else "--no-index --find-links"
        return "--index" if self.beside else "--default-index"

    @property
    def source(self) -> bool:
        """Whether the packages are compiled, in the stage that `Compiling` describes."""
        return self.group == "source"


class LocalIndex(Struct, frozen=True):
    """An index of the spec's own that is a folder.

    path    below the folder that editors open, or absolute
    folder  the same, seen from the build context; None where that can be anywhere
    """

    name: str
    path: str
    folder: str | None

    @property
    def context(self) -> str:
        """The named build context with its files, and the stage that builders put it in the place of."""
        return f"index-{self.name}"


class Compiling(Struct, frozen=True):
    """The packages of a lock that are built, and the image of the stage that builds them. It may be there for the
    spec's project alone.

    apt          Debian packages of the stage: what compilers need, and the spec's `build-apt`
    env          the variables of builds; the spec's own come last
    wheels       runs of uv, beside those of the CUDA stack, for the lock's packages that builds see
    sees         builds see the environment; none does that compiles nothing
    """

    packages: tuple[str, ...]
    image: ImageReference
    apt: tuple[str, ...]
    env: Mapping[str, str]
    wheels: tuple[PipStep, ...]
    sees: bool


class OwnProject(Struct, frozen=True):
    """The spec's own project, which an image gets last, without dependencies.

    path       its folder, below the one that editors open
    folder     the same, seen from the build context; None where that can be anywhere
    compiled   it is built in the stage that compiles
    versioned  its version comes from git, or from a variable
    wheels     runs of uv for the lock's packages that its build needs, where it isn't compiled
    """

    name: str
    path: str
    folder: str | None
    compiled: bool
    versioned: bool
    wheels: tuple[PipStep, ...]


class OnBase(Struct, frozen=True):
    """The base of a target that has its Python and packages already.

    kind    "image" or "sif"
    python  the path of its Python
    prefix  the folder below which its installers put programs: "/usr/local"
    site    the folder of the packages that come on top, without a slash in front
    """

    kind: str
    python: str
    prefix: str
    site: str


class ImagePlan(Struct, frozen=True):
    """The image of a target, besides its environment.

    uv, micromamba  the images that bring the installers
    apt             Debian packages that it needs: the services', the init's and more, sorted
    spec_apt        the spec's own Debian packages besides, sorted
    toolkit         what it takes of NVIDIA's: cuda-compat and nvcc, as the spec asks for them
    snapshot        the day as of which Debian's packages are ("2026-11-01"); None for the newest
    shm             what /dev/shm may hold, in Docker's form
    repository      where it is pushed to, if the spec says so
    carries         its carried files, path below `CARRIED` -> text
    document        the whole `target.json`, with all packages: what images that envspec makes itself keep
    """

    base: ImageReference
    uv: ImageReference
    micromamba: ImageReference | None
    user: str
    apt: tuple[str, ...]
    spec_apt: tuple[str, ...]
    services: tuple[Service, ...]
    toolkit: tuple[Borrowed, ...]
    snapshot: str | None
    shm: str
    repository: str | None
    carries: Mapping[str, str]
    document: str

    @property
    def borrowed(self) -> tuple[Borrowed, ...]:
        """The files that the image takes from others: the services' programs, and NVIDIA's."""
        own = (Borrowed(service.name, service.image, service.copies) for service in self.services if service.image)
        return (*own, *self.toolkit)

    @property
    def debian(self) -> tuple[str, ...]:
        """All Debian packages that the image gets, sorted."""
        return tuple(sorted({*self.apt, *self.spec_apt}))

    @property
    def carried(self) -> Mapping[str, str]:
        """The files that an image keeps in `CARRIED`, by path below it."""
        return {**with_sums(self.carries), SLICE: self.document}


class RuntimePlan(Struct, frozen=True):
    """The machine, the Python and the variables of a target's environment.

    python_range  what the spec asks of Python beside the minor version, as a specifier
    build         the build of Python that the lock names for the image; None for conda's and for the base's own, and
                  where the lock names none
    build_table   the file with uv's table of that build
    base_python   the image uses the base's own Python
    on_base       what the lock comes on top of; None of a whole environment
    glibc         the floor that the lock was solved for
    env           the variables of the environment's processes, in order, without PATH; the spec's own come last
    """

    platform: str
    python: str
    python_range: str | None
    build: LockedPython | None
    build_table: str | None
    base_python: bool
    on_base: OnBase | None
    cuda: str | None
    driver_floor: str | None
    architectures: tuple[str, ...]
    glibc: str | None
    torch: str | None
    env: tuple[tuple[str, str], ...]

    @property
    def python_request(self) -> str:
        """The Python that uv looks for where the lock names no build."""
        return self.python if self.python_range is None else f"=={self.python}.*,{self.python_range}"

    @property
    def python_preference(self) -> str:
        """The Pythons that uv takes, in its own words."""
        if self.build is not None:
            return "only-managed"
        return "only-system" if self.base_python else "system"

    @property
    def is_cuda(self) -> bool:
        return self.cuda is not None

    @property
    def system(self) -> str:
        """The platform as Nix names it."""
        return {"linux-64": "x86_64-linux", "linux-aarch64": "aarch64-linux"}[self.platform]

    @property
    def oci_platform(self) -> str:
        """The platform as container tools name it."""
        return OCI_PLATFORMS[self.platform]


class SourcesPlan(Struct, frozen=True):
    """The sources of a target's packages.

    pip            the runs of uv that install the pip half, in the order of `LAYERS`
    explicit       the explicit file of the conda half, or None
    local_indexes  indexes that are folders
    files          the sources of the target's images: path below the build context -> text
    parts          those of the files that hold the slice's packages, which images keep beside `target.json`
    """

    pip: tuple[PipStep, ...]
    explicit: str | None
    compiling: Compiling | None
    project: OwnProject | None
    local_indexes: tuple[LocalIndex, ...]
    files: Mapping[str, str]
    parts: tuple[str, ...]

    @property
    def torch_backend(self) -> str | None:
        """uv's name for the lock's PyTorch index (`cu126`), or None."""
        return next((step.torch_backend for step in self.pip if step.torch_backend), None)

    @property
    def has_variants(self) -> bool:
        """Whether any file is a variant's (PEP 825)."""
        return any(step.variants for step in self.pip)

    @property
    def takes_netrc(self) -> bool:
        """Whether any package comes from an index that may want a login of a netrc."""
        return self.has_variants or any(step.url for step in self.pip)


class Plan(Struct, frozen=True):
    """One target, ready to print.

    place        the spec's folder, seen from the folder that editors open
    lock_digest  of the target's slice of the lock
    """

    spec: str
    target: str
    description: str
    place: str
    lock_digest: str
    fingerprint: str
    image: ImagePlan
    runtime: RuntimePlan
    sources: SourcesPlan
    kubernetes: KubernetesTable

    @property
    def brings_headers(self) -> bool:
        """Whether the image's Python has its headers beside it, as one of Debian's hasn't."""
        return self.runtime.build is not None or self.sources.explicit is not None

    @property
    def shares(self) -> bool:
        """Whether the build context is a repository's `recipes/`."""
        return self.place != "."

    @property
    def own(self) -> str:
        """The spec's folder, seen from the build context: a prefix of paths, empty where it's the context."""
        return f"{self.spec}/" if self.shares else ""

    @property
    def above(self) -> str:
        """The build context, for a reader of a file in the target's folder."""
        return "In recipes/, two folders above this one:" if self.shares else "In the folder above this one:"

    @property
    def carried_folder(self) -> str:
        """The folder of the carried files, below the build context."""
        return SHARED_FOLDER if self.shares else CARRIED_FOLDER

    def carried_file(self, name: str) -> str:
        """The path of a carried file below the build context."""
        return f"{self.carried_folder}/{name}"

    @property
    def slice(self) -> str:
        """The path of the target's `target.json` below the build context."""
        return f"{self.own}{self.target}/{SLICE}"

    @property
    def title(self) -> str:
        """The spec and the target in one word, for names of images and jobs."""
        return f"{self.spec}-{self.target}"

    @property
    def image_name(self) -> str:
        """The OCI image's name: the target as a tag of the spec's own, else the title in valid characters."""
        if self.image.repository:
            return f"{self.image.repository}:{self.target}"
        return re.sub(r"[^a-z0-9]+", lambda run: "." if run[0] == "." else "-", self.title).strip("-.") or "envspec"


class SpecPlan(Struct, frozen=True):
    """All targets of a spec that can have recipes, in the lock's order."""

    spec: str
    description: str
    targets: tuple[Plan, ...]
    slurm: SlurmTable = field(default_factory=SlurmTable)

    @property
    def is_cuda(self) -> bool:
        """Whether any of them has CUDA."""
        return any(plan.runtime.is_cuda for plan in self.targets)

    @property
    def shares(self) -> bool:
        """Whether the build context is a repository's `recipes/`."""
        return any(plan.shares for plan in self.targets)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(plan.target for plan in self.targets)


# The comment at the head of a recipe: its content, its lock, and its use.


MARK = "Exported by envspec. Not for editing: change the spec, then run `envspec export`."
"""The mark in the first lines of every recipe: envspec can replace such a file."""
HEAD = f"# {MARK}\n"
_OWNER = re.compile(
    r"(?:#!.*\n)?(?://|--|#) " + re.escape(MARK) + r"\n(?://|--|#) ([a-z0-9._-]+), targets? ([a-z0-9._-]+)"
)


def heading(plan: Plan | SpecPlan, usage: Iterable[str] = ()) -> list[str]:
    """Render the lines without comment signs. They are safe in any comment: names and versions, no user's text."""
    return [MARK, _what(plan), *usage]


def _what(plan: Plan | SpecPlan) -> str:
    if isinstance(plan, SpecPlan):
        return f"{plan.spec}, target{'s'[: len(plan.targets) - 1]} {', '.join(plan.names)}."
    cuda = f", CUDA {plan.runtime.cuda}" if plan.runtime.cuda else ""
    return f"{plan.spec}, target {plan.target}: Python {plan.runtime.python} on {plan.runtime.platform}{cuda}."


def owner(text: str) -> tuple[str, str] | None:
    """Read the spec and the (first) target of an exported recipe from its head. None without such a head."""
    match = _OWNER.match(text)
    return (match[1], match[2].rstrip(".")) if match else None


def hash_heading(plan: Plan | SpecPlan, usage: Iterable[str] = ()) -> list[str]:
    """Render the heading as `#` comments."""
    return [f"# {line}".rstrip() for line in heading(plan, usage)]


# An image's metadata, whoever makes it: variables, labels, what it starts and how its health is checked.


ENTRYPOINT = ("/usr/bin/tini", "--", f"{CARRIED}/entrypoint.sh")
"""The entry point of an image: an init that reaps and forwards signals, and the carried script under it."""


class HealthCheck(Struct, frozen=True):
    """A command, and its times in seconds."""

    command: tuple[str, ...]
    interval: int
    timeout: int
    start_period: int


HEALTH_CHECK = HealthCheck((f"{CARRIED}/healthcheck.sh",), interval=30, timeout=10, start_period=60)


def image_variables(plan: Plan) -> dict[str, str]:
    """Make the variables of an image's processes, in order. What a base says of PYTHONPATH would come before the lock's
    modules."""
    path = f"{ENVIRONMENT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = "CONDA_PREFIX" if plan.sources.explicit else "VIRTUAL_ENV"
    return {"PATH": path, own: ENVIRONMENT, "PYTHONPATH": "", **dict(plan.runtime.env)}


BASE_LABELS = "org.opencontainers.image.base."
"""The prefix of the labels that name an image's base."""


def recipe_labels(plan: Plan) -> dict[str, str]:
    """Make the labels that Dockerfiles give an image: none moves with a package or with what the spec asks for, and
    none would be wrong where a build argument names another base."""
    moving = ("envspec.lock.digest", "envspec.fingerprint")
    own = labels(plan).items()
    return {name: value for name, value in own if name.startswith("envspec.") and name not in moving}


def labels(plan: Plan) -> dict[str, str]:
    """Make the labels of an image that envspec makes itself: OCI's own keys, then envspec's."""
    values = {
        "org.opencontainers.image.title": plan.title,
        "org.opencontainers.image.description": " ".join(plan.description.split()),
        "org.opencontainers.image.version": plan.fingerprint.removeprefix("sha256:")[:12],
        f"{BASE_LABELS}name": plan.image.base.name.partition("@")[0],
        f"{BASE_LABELS}digest": plan.image.base.digest or "",
        "envspec.spec": plan.spec,
        "envspec.target": plan.target,
        "envspec.lock.digest": plan.lock_digest,
        "envspec.fingerprint": plan.fingerprint,
        "envspec.cuda": plan.runtime.cuda or "",
        "envspec.driver.floor": plan.runtime.driver_floor or "",
    }
    return {name: value for name, value in values.items() if value}
