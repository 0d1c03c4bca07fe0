"""The forms of a spec's values: patterns, choices and examples, which the records' fields name."""

from __future__ import annotations

from msgspec.structs import replace

from envspec.base.reader.nodes import CONTROL, DATE, LINE, NAME, PLACE, URL, Array, Either, Names, Table, Text
from envspec.packages.names import PACKAGE
from envspec.packages.requirement import canonical_name
from envspec.spec import advice
from envspec.spec.times import utc_day

PYTHONS = tuple(f"3.{minor}" for minor in range(8, 16))
PLATFORMS = ("linux-64", "linux-aarch64", "osx-64", "osx-arm64", "win-64")
WORKLOADS = ("basic", "multimodal", "llm", "deit", "dynamic")
ACCEPTABLE = ("licence", "licence-unknown", "yanked")
"""The findings that a spec can accept. A vulnerability is ignored by its advisory."""

_VERSION = r"(?:0|[1-9][0-9]?)\.(?:0|[1-9][0-9]?)"

_NAME_SAYS = "a name of lower-case letters, digits, '.', '_' and '-', starting with a letter or digit, up to 100 long"
ENV_NAME = Text(
    doc="The environment's name, also the folder of its locks. The file's name without .toml if left out.",
    example="mm-v2.9",
    says=_NAME_SAYS,
    pattern=NAME,
    max_length=100,
    advice=advice.name,
)
TARGET_NAME = Text(
    doc="The target's name, also the folder of its lock.",
    example="cu128-hopper",
    says=_NAME_SAYS,
    # A folder of such a name would take the place of the lock, or of what recipes share.
    pattern=NAME,
    but=tuple(advice.RESERVED),
    max_length=100,
    advice=advice.target_name,
)
PROJECT_PART = Text(
    doc="The name of an extra or of a dependency group.",
    example="train",
    says="a name of letters, digits, '.', '_' and '-'",
    pattern=PACKAGE,
    read=canonical_name,
)
PACKAGE_NAME = Text(
    doc="A package's name.", example="deepspeed", says="a package's name", pattern=PACKAGE, read=canonical_name
)
# conda has names such as _libgcc_mutex
ANY_PACKAGE = replace(PACKAGE_NAME, pattern=f"_?{PACKAGE_NAME.pattern}")
REQUIREMENT = Text(
    doc="A requirement in the form of PEP 508.", example="torch==2.9.*", says="a requirement", pattern=LINE
)
REQUIREMENTS = Array(
    doc="What pip installs: PEP 508 requirements.",
    items=REQUIREMENT,
    example=("torch==2.9.*", "torchvision", "transformers>=4.57,<5"),
)
_MATCH_SPEC = Text(
    doc="A conda match spec: name, version, build.", example="ffmpeg 7.*", says="a match spec", pattern=LINE
)
MATCH_SPECS = Array(
    doc="What comes from conda's channels: match specs.", items=_MATCH_SPEC, example=("ffmpeg 7.*", "openssh")
)
TARGET_CONDA = Table(doc="Added for this target only.", keys={"dependencies": MATCH_SPECS})
CHANNEL = Text(
    doc="A channel's name.",
    example="conda-forge",
    says="a channel's name, or its http, https or file URL without credentials",
    # "/t/TOKEN/" in a channel's URL is conda's way of giving credentials.
    pattern=rf"(?!.*/t/)(?:[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*|{URL})",
    advice=advice.channel,
)
INDEX_NAME = Text(
    doc="The index's name.",
    example="internal",
    says="a free name of lower-case letters, digits, '.', '_' and '-'",
    pattern=rf"(?!(?:pypi|git|url)$|pytorch){NAME}",
    max_length=100,
    advice=advice.index_name,
)
INDEX_PLACE = Text(
    says="an http, https or file URL without credentials, or a folder relative to the spec",
    example="https://packages.example.org/simple",
    pattern=PLACE,
    secret=True,
    advice=advice.index_url,
)
CORRECTION = Text(
    doc="A correction's name.", example="torch-numpy-2", says="a correction's name", pattern="[a-z0-9][a-z0-9-]*"
)
UNTIL = Text(
    doc="The last day on which it counts, in UTC.",
    example="2026-12-31",
    says="a date",
    pattern=DATE,
    date=True,
    read=utc_day,
)


_FOR_READERS = "Why: for whoever reads the spec, and in every diff that adds or changes it."


def reason(example: str, doc: str = "Why.") -> Text:
    """Describe a reason in one line."""
    return Text(doc=doc, example=example, says="a reason in one line", pattern=LINE, max_length=300)


METADATA = Array(
    items=Table(
        doc="The dependencies of one package's sources.",
        required=("name", "dependencies"),
        keys={
            "name": PACKAGE_NAME,
            "version": Text(
                doc="The releases that it holds for: a version, or a specifier of PEP 440. Left out: all of them.",
                example="2.8.3",
                says="a version or a specifier",
                pattern=LINE,
            ),
            "dependencies": Array(
                doc="All that the package requires, as its METADATA would say it.",
                items=REQUIREMENT,
                example=("torch", "einops"),
            ),
        },
    ),
    example=({"name": "flash-attn", "version": "2.8.3", "dependencies": ["torch", "einops"]},),
)
BUILD_DEPENDENCIES = Names(
    names=PACKAGE_NAME,
    values=Array(
        doc="What the build of one package needs, its own [build-system] requires included.",
        items=REQUIREMENT,
        example=("torch", "ninja", "packaging", "setuptools", "wheel"),
    ),
)
OVERRIDES = Array(
    items=Table(
        doc="An override.",
        required=("requirement", "reason"),
        keys={"requirement": REQUIREMENT, "reason": reason("its tests pass with numpy 2", _FOR_READERS)},
    ),
    example=({"requirement": "numpy>=2", "reason": "its tests pass with numpy 2"},),
)
FIND_LINKS = Names(
    names=INDEX_NAME,
    values=replace(
        INDEX_PLACE,
        doc="The URL of its page, without credentials, which netrc, the keyring or uv hold; or its folder, relative to"
        " the spec.",
        example="https://packages.example.org/torch-2.8.0+cu128.html",
    ),
)
INDEXES = Names(
    names=INDEX_NAME,
    values=replace(
        INDEX_PLACE,
        doc="The URL of its simple index, without credentials, which netrc, the keyring or uv hold; or its folder,"
        " relative to the spec.",
    ),
)
SOURCES = Names(
    names=PACKAGE_NAME,
    values=Text(
        doc='The name of an index or flat index; "pypi" for what must come from PyPI instead of a named index.',
        example="internal",
    ),
)
ACCEPT = Names(
    names=Text(
        doc="The finding's code.",
        example="cuda-major-mixed",
        says="the code of a finding",
        pattern="[a-z0-9][a-z0-9-]*",
        max_length=100,
    ),
    values=Either(
        text=reason("it loads the libraries of its own CUDA", _FOR_READERS),
        table=Names(
            doc="The finding is taken of these packages alone, each with its reason.",
            names=replace(PACKAGE_NAME, doc="A package.", example="mlserver", says="the name of a package"),
            values=reason("its tests pass with Python 3.13", _FOR_READERS),
            not_empty=True,
        ),
    ),
)

PLATFORM = Text(
    doc="The platform, by conda's name for it.", example="linux-64", choices=PLATFORMS, advice=advice.platform
)
CUDA = Text(
    doc="The CUDA version of the builds to lock. Left out: a CPU target.",
    example="12.8",
    says="a CUDA version X.Y",
    pattern=_VERSION,
    advice=advice.cuda,
)
CUDA_OR_CPU = Text(
    doc="A CUDA version, or 'cpu' for targets without CUDA.",
    example="12.8",
    says="a CUDA version X.Y or 'cpu'",
    pattern=rf"(?:cpu)?|{_VERSION}",
    advice=advice.cuda,
)
GPU = Text(
    doc="A GPU: a product ('H100'), an architecture ('hopper') or a compute capability ('sm_90').",
    example="H100",
    says="a GPU's name",
    pattern=rf"[^\s{CONTROL}](?:[^{CONTROL}]*[^\s{CONTROL}])?",
    max_length=100,
)
GPUS = Array(doc="The GPUs that the target is for.", items=GPU, example=("H100", "H200"), min_items=1, unique=True)
DRIVER = Text(example="550.54.15", says="a driver version like 550.54.15", pattern=r"[0-9]{1,4}(?:\.[0-9]{1,4}){1,2}")
CPU = Text(
    example="x86-64-v3",
    says="x86-64-v1 to x86-64-v4, or an Arm architecture from armv8-a to armv9.6-a",
    pattern=r"x86-64-v[1-4]|armv8(?:\.[1-9])?-a|armv9(?:\.[1-6])?-a",
)
GLIBC = Text(example="2.28", says="a glibc version from 2.17 to 2.49", pattern=r"2\.(?:1[7-9]|[2-4][0-9])")
FIGURE = Text(
    doc="The figure's name.",
    example="samples_per_s",
    says="a figure's name of letters, digits, '.', '_', ':', '/' and '-'",
    pattern="[A-Za-z0-9][A-Za-z0-9._:/-]*",
    max_length=100,
)
LICENCE = Text(
    doc="A licence: an SPDX identifier, or what a package says in its own words; `*` stands for anything.",
    example="BSD-3-Clause",
    says="a licence",
    pattern=rf"[^\s{CONTROL}](?:[^{CONTROL}]*[^\s{CONTROL}])?",
    max_length=200,
)
ADVISORY = Text(
    doc="The advisory's identifier, or one of its aliases.",
    example="CVE-2024-34064",
    says="an advisory's identifier",
    pattern="[A-Za-z0-9][A-Za-z0-9._:-]*",
    max_length=100,
)
CODE = Text(
    doc="The finding's code.", example="yanked", says="the code of a finding that can be accepted", choices=ACCEPTABLE
)
OWN_TARGETS = Array(
    items=Text(doc="A target of this spec.", example="cpu", says="a target's name", pattern=NAME),
    example=("cpu",),
    min_items=1,
    unique=True,
    ordered=False,
)
WAIVER_REASON = Text(
    example="yanked for its documentation alone", says="a reason", pattern=rf"[^{CONTROL}]*[^\s{CONTROL}][^{CONTROL}]*"
)


SERVICES = ("jupyter", "ssh", "code-server", "tensorboard")
SERVICE_ALIASES = {"vscode": "code-server", "sshd": "ssh"}
"""Names by which people look for a service, and the service."""

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
DEBIAN = Text(
    doc="A Debian package.",
    example="libgl1",
    says="a Debian package's name",
    pattern="[a-z0-9][a-z0-9+.-]*",
    advice=advice.apt,
)

IMAGE = Text(
    example="debian:trixie-slim",
    says="an image reference [host/]name[:tag][@digest]",
    pattern=_IMAGE,
    max_length=512,
    advice=advice.image,
)
IMAGE_NAME = Text(
    example="registry.example/vision/mm",
    says="an image's name [host/]name without a tag and digest",
    pattern=_REPOSITORY,
    max_length=255,
)
SERVICE = Text(doc="A service.", example="jupyter", choices=(*SERVICES, *SERVICE_ALIASES))
USER = Text(
    example="dev",
    says="a user's name other than root: lower-case letters, digits, '_' and '-', up to 32 long",
    pattern=r"(?!root$)[a-z_][a-z0-9_-]{0,31}",
    advice=advice.user,
)
ENV = Names(names=_VARIABLE, values=Text(doc="Its value.", example="/workspace/.cache/hf", secret=True))
BUILD_ENV = Names(names=_BUILD_VARIABLE, values=Text(doc="Its value.", example="1", secret=True))
DAY = Text(
    example="2026-11-01",
    says="a day such as 2026-11-01",
    pattern=r"20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])",
    date=True,
    read=utc_day,
)
SHARED_MEMORY = Text(example="32g", says="an amount of memory like 32g", pattern="[1-9][0-9]{0,6}[mg]")

BASES = ("image", "sif", "prefix", "module")
"""The keys of `[base]` that say what it is: one of them."""

FOLDER = Text(
    example="/opt/pytorch-2.9",
    says="a folder's absolute path, in one line",
    pattern=rf"/(?!/){LINE}",
    max_length=1000,
)
SIF = Text(
    example="bases/pytorch.sif",
    says="the path of a FILE.sif, in one line",
    pattern=rf"(?!-){LINE}(?<=\.sif)",
    max_length=1000,
)
_MODULE = r"(?!\S*\.\.)[A-Za-z0-9][A-Za-z0-9._+-]*(?:/[A-Za-z0-9._+-]+)*"
"""No path: `module load` runs the file of one."""
MODULES = Text(
    example="pytorch/2.9",
    says="names of modules with spaces between: NAME or NAME/VERSION",
    pattern=rf"{_MODULE}(?: {_MODULE})*",
    max_length=300,
)
