"""The spec's `[image]` and `[base]` tables, as `envspec.spec.schema` describes the others."""

from __future__ import annotations

from msgspec.structs import replace

from envspec.base.reader.nodes import LINE, PACKAGE, Array, Boolean, Integer, Names, Table, Text
from envspec.spec import advice
from envspec.spec.model import Image

SERVICES = ("jupyter", "ssh", "code-server", "tensorboard")
SERVICE_ALIASES = {"vscode": "code-server", "sshd": "ssh"}
"""Names by which people look for a service, and the service."""
FABRICS = ("infiniband", "none")
PYTHONS = ("locked", "base")

# The reference grammar of the `distribution` project: [host[:port]/]path[:tag][@digest].
_HOST_PART = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_IMAGE_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = (
    rf"(?:(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?/)?"
    rf"{_IMAGE_PART}(?:/{_IMAGE_PART})*"
)
_IMAGE = (
    rf"{_REPOSITORY}"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[+._-][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,})?"
)

_VARIABLE = Text(
    doc="The variable's name.",
    example="HF_HOME",
    says="a variable's name: letters, digits and '_', but not PATH, CONDA_PREFIX, VIRTUAL_ENV, ENVSPEC_*",
    # By those an image finds its own environment.
    pattern="(?!(?:PATH|CONDA_PREFIX|VIRTUAL_ENV)$|ENVSPEC_)[A-Za-z_][A-Za-z0-9_]*",
    advice=advice.variable,
)
_BUILD_VARIABLE = replace(
    _VARIABLE,
    example="DS_BUILD_FUSED_ADAM",
    says="a variable's name: letters, digits and '_', but not PATH, CONDA_PREFIX, VIRTUAL_ENV, PYTHONPATH, ENVSPEC_*"
    " or UV_*",
    # By those the stage finds its own environment, and uv the lock's files.
    pattern="(?!(?:PATH|CONDA_PREFIX|VIRTUAL_ENV|PYTHONPATH)$|ENVSPEC_|UV_)[A-Za-z_][A-Za-z0-9_]*",
)
_DEBIAN = Text(
    doc="A Debian package.",
    example="libgl1",
    says="a Debian package's name",
    pattern="[a-z0-9][a-z0-9+.-]*",
    advice=advice.apt,
)

IMAGE_TABLE = Table(
    doc="What the recipes put around the environment.",
    keys={
        "base": Text(
            doc="The base image.",
            example="debian:trixie-slim",
            says="an image reference [host/]name[:tag][@digest]",
            pattern=_IMAGE,
            max_length=512,
            default=Image().base,
            advice=advice.image,
        ),
        "name": Text(
            doc="Where the images are pushed to, in the recipes; each target is a tag of it.",
            example="registry.example/vision/mm",
            says="an image's name [host/]name without a tag and digest",
            pattern=_REPOSITORY,
            max_length=255,
        ),
        "services": Array(
            doc="Services that the image can start.",
            items=Text(doc="A service.", example="jupyter", choices=(*SERVICES, *SERVICE_ALIASES)),
            example=("jupyter", "ssh"),
            unique=True,
        ),
        "user": Text(
            doc="The user that the image runs as.",
            example="dev",
            says="a user's name other than root: lower-case letters, digits, '_' and '-', up to 32 long",
            pattern=r"(?!root$)[a-z_][a-z0-9_-]{0,31}",
            default=Image().user,
            advice=advice.user,
        ),
        "env": Names(
            doc="Environment variables of the image.",
            names=_VARIABLE,
            values=Text(doc="Its value.", example="/workspace/.cache/hf", secret=True),
        ),
        "apt": Array(
            doc="Debian packages to install.",
            items=_DEBIAN,
            example=("libgl1",),
            unique=True,
        ),
        "build-apt": Array(
            doc="Debian packages of the stage that compiles: headers and tools. The image doesn't get them.",
            items=_DEBIAN,
            example=("libaio-dev",),
            unique=True,
        ),
        "build-env": Names(
            doc="Environment variables of the stage that compiles, beside those that envspec sets there.",
            names=_BUILD_VARIABLE,
            values=Text(doc="Its value.", example="1", secret=True),
        ),
        "fabric": Text(
            doc="What joins the nodes: with infiniband, RoCE included, CUDA images have the libraries without which"
            " NCCL uses sockets.",
            example="none",
            choices=FABRICS,
            default=Image().fabric,
        ),
        "python": Text(
            doc="The Python of images: the build that the lock names, or the base image's own, which must be of the"
            " spec's version.",
            example="base",
            choices=PYTHONS,
            default=Image().python,
        ),
        "snapshot": Text(
            doc="The day as of which Debian's packages are: as its archive of snapshots has them.",
            example="2026-11-01",
            says="a day such as 2026-11-01",
            pattern=r"20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])",
            date=True,
        ),
        "shm": Text(
            doc="What /dev/shm may hold, in Docker's form: DataLoader workers and NCCL share memory there.",
            example="32g",
            says="an amount of memory like 32g",
            pattern="[1-9][0-9]{0,6}[mg]",
            default=Image().shm,
        ),
        "ssh-port": Integer(
            doc="Where sshd listens in a container. A port below 1024 is published at the host's 2222; Docker 20.10 and"
            " newer let a user who isn't root have it.",
            example=22,
            minimum=1,
            maximum=65535,
            default=Image().ssh_port,
        ),
        "nvcc": Boolean(
            doc="Whether CUDA images have NVIDIA's compiler and headers, for what compiles kernels when it runs.",
            example=True,
            default=Image().nvcc,
        ),
    },
)

BASES = ("image", "sif", "prefix", "module")
"""The keys of `[base]` that say what it is: one of them."""

_FOLDER = Text(
    doc="The prefix of a centre's module or of another environment on this machine, which has a Python: its folder.",
    example="/opt/pytorch-2.9",
    says="a folder's absolute path, in one line",
    pattern=rf"/(?!/){LINE}",
    max_length=1000,
)

_MODULE = r"(?!\S*\.\.)[A-Za-z0-9][A-Za-z0-9._+-]*(?:/[A-Za-z0-9._+-]+)*"
"""No path: `module load` runs the file of one."""

BASE_TABLE = Table(
    doc="What is there already: a vendor's image, a centre's SIF, prefix or module. Its packages stay, and the lock"
    " holds what comes on top.",
    keys={
        "image": Text(
            doc="An image in a registry, such as one of NVIDIA's; the lock has its digest.",
            example="nvcr.io/nvidia/pytorch:25.09-py3",
            says="an image reference [host/]name[:tag][@digest]",
            pattern=_IMAGE,
            max_length=512,
            advice=advice.image,
        ),
        "sif": replace(
            _FOLDER,
            doc="A SIF on this machine, relative to the spec's file.",
            example="bases/pytorch.sif",
            says="the path of a FILE.sif, in one line",
            pattern=rf"(?!-){LINE}(?<=\.sif)",
        ),
        "prefix": _FOLDER,
        "module": Text(
            doc="A module of this machine's, or several, as `module load` has them (Lmod, Environment Modules).",
            example="pytorch/2.9",
            says="names of modules with spaces between: NAME or NAME/VERSION",
            pattern=rf"{_MODULE}(?: {_MODULE})*",
            max_length=300,
        ),
        "replace": Names(
            doc="Packages of the base that the lock may replace, each with the reason.",
            names=Text(doc="A package's name.", example="numpy", says="a package's name", pattern=PACKAGE),
            values=Text(
                doc="Why.",
                example="transformers needs numpy 2",
                says="a reason in one line",
                pattern=LINE,
                max_length=300,
            ),
        ),
    },
)
