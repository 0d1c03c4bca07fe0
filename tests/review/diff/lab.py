"""A small lab's spec and lock with real releases of torch, and the thirty-five changes that are made to them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct, field
from msgspec.structs import replace
from support.sound import sound_target

from envspec.facts import wheels
from envspec.facts.corrections import corrections
from envspec.facts.python_builds import python_builds
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Artifact, Lock, LockedPython, Pin
from envspec.packages.edges import Markers
from envspec.spec.parse import parse_spec

SPEC = "specs/lab.toml"
TARGETS = {
    "ampere": 'platform = "linux-64"\ncuda = "12.6"\ngpus = ["A100"]\n',
    "cpu": 'platform = "linux-64"\n',
    "hopper": 'platform = "linux-64"\ncuda = "12.8"\ngpus = ["H100"]\n',
}
PRIVATE = "https://packages.example.org/simple"


def wheel(name: str, version: str, *requires: str, index: str = "pypi", licence: str = "MIT", content: str = "") -> Pin:
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    digest = hashlib.sha256(f"{index}{file}{content}".encode()).hexdigest()
    return Pin("pip", name, version, index, Artifact(file, digest, 100_000), tuple(sorted(requires)), licence=licence)


def sdist(name: str, version: str, *requires: str) -> Pin:
    file = f"{name}-{version}.tar.gz"
    artifact = Artifact(file, hashlib.sha256(file.encode()).hexdigest(), 100_000)
    return Pin("pip", name, version, "pypi", artifact, requires, licence="MIT", built_with=())


def conda(name: str, version: str, build: str, *requires: str) -> Pin:
    file = f"{name}-{version}-{build}.conda"
    artifact = Artifact(file, hashlib.sha256(file.encode()).hexdigest(), 1000, hashlib.md5(file.encode()).hexdigest())
    return Pin("conda", name, version, "conda-forge/linux-64", artifact, requires, licence="MIT", build=build)


PLAIN = (
    wheel("certifi", "2025.8.3"),
    wheel("datasets", "4.1.1", "requests>=2.32.2", "numpy>=1.17", "pyarrow>=21.0.0", "fsspec"),
    wheel("filelock", "3.19.1"),
    wheel("fsspec", "2025.9.0"),
    wheel("idna", "3.10"),
    wheel("jinja2", "3.1.6", "markupsafe>=2.0"),
    wheel("markupsafe", "3.0.3"),
    wheel("mpmath", "1.3.0"),
    wheel("networkx", "3.5"),
    wheel("numpy", "2.2.6"),
    wheel("pillow", "11.3.0"),
    wheel("pyarrow", "21.0.0"),
    wheel("requests", "2.32.4", "certifi>=2017.4.17", "idna<4,>=2.5", "urllib3<3,>=1.21.1"),
    wheel("setuptools", "80.9.0"),
    wheel("sympy", "1.14.0", "mpmath<1.4,>=1.1.0"),
    wheel("tqdm", "4.67.1"),
    wheel("transformers", "4.57.0", "numpy>=1.17", "requests", "tqdm>=4.27", "pillow>=10"),
    wheel("typing-extensions", "4.15.0"),
    wheel("urllib3", "2.5.0"),
)
ASKED = ("torch==2.8.*", "transformers", "datasets", "numpy", "requests", "tqdm")


class Lab(Struct, frozen=True):
    """One revision: what the spec asks for, and the pins of all targets and of some.

    `tables` are further tables of the spec, `pip` further keys of `[pip]`, `env` of `[env]`.
    """

    asked: tuple[str, ...] = ASKED
    targets: Mapping[str, str] = field(default_factory=lambda: TARGETS)
    pins: tuple[Pin, ...] = PLAIN
    only: Mapping[str, tuple[Pin, ...]] = {}
    torch: str = "2.8.0"
    python: str = "3.12"
    patch: Mapping[str, str] = field(default_factory=lambda: {"3.12": "3.12.10", "3.13": "3.13.5"})
    env: str = ""
    pip: str = ""
    tables: str = ""

    def bump(self, *pins: Pin) -> Lab:
        """With these pins, new or in place of those of their names."""
        names = {pin.name for pin in pins}
        return replace(self, pins=(*(pin for pin in self.pins if pin.name not in names), *pins))

    def drop(self, *names: str) -> Lab:
        return replace(self, pins=tuple(pin for pin in self.pins if pin.name not in names))

    def ask(self, *asked: str) -> Lab:
        """Asking for these, in place of what was asked of the same packages."""
        names = {text.partition("=")[0].partition("<")[0].partition(">")[0].partition("[")[0] for text in asked}
        rest = (text for text in self.asked if text.partition("=")[0].partition("[")[0] not in names)
        return replace(self, asked=(*rest, *asked))

    @property
    def text(self) -> str:
        asked = "".join(f'  "{text}",\n' for text in sorted(self.asked))
        targets = "".join(f"[targets.{name}]\n{keys}" for name, keys in self.targets.items())
        return (
            f'[env]\nname = "lab"\npython = "{self.python}"\n{self.env}[pip]\ndependencies = [\n{asked}]\n'
            f"{self.pip}{self.tables}{targets}"
        )

    def lock(self) -> Lock:
        spec = parse_spec(self.text, SPEC)
        targets = []
        for target in sorted(spec.targets, key=lambda one: one.name):
            pins = (*self.pins, *self.only.get(target.name, ()), *torch_pins(self.torch, target.cuda, self.python))
            targets.append(sound_target(target.name, target_inputs(spec, target), pins))
        return Lock("lab", spec_inputs(spec), tuple(targets), pythons=(self._python(),))

    def _python(self) -> LockedPython:
        version = self.patch[self.python]
        built = next(one for one in python_builds() if (one.platform, one.version) == ("linux-64", version))
        return LockedPython("linux-64", version, built.build, built.file, built.sha256, 30_000_000)


def torch_pins(version: str, cuda: str | None, python: str) -> tuple[Pin, ...]:
    """torch as PyTorch's index has it for a CUDA, and the libraries that it requires on linux-64."""
    variant = f"cu{cuda.replace('.', '')}" if cuda else "cpu"
    tag = f"-cp{python.replace('.', '')}-"
    found = next(
        one
        for one in wheels.load(variant).files("torch")
        if one.version == f"{version}+{variant}" and tag in one.file and one.file.endswith("x86_64.whl")
    )
    markers = Markers("linux-64", python)
    requires = tuple(line for line in found.requires_dist if "extra ==" not in line.replace("'", '"'))
    requires += tuple(corrections().missing_requirements("torch", found.version, requires))
    pins = [wheel("torch", found.version, *requires, index=f"pytorch/{variant}", licence="BSD-3-Clause")]
    for line in requires:
        name, pinned, rest = line.partition(";")[0].partition("==")
        if pinned and markers.hold(line):
            pins.append(wheel(name.strip(), rest.strip(), licence="LicenseRef-NVIDIA-Proprietary"))
    return tuple(pins)


Change = Callable[[Lab], tuple[Lab, Lab]]
INDEX = f'indexes = {{ internal = "{PRIVATE}" }}\n'
TIED = INDEX + 'sources = { tqdm = "internal" }\n'


def to(new: Callable[[Lab], Lab], old: Callable[[Lab], Lab] = lambda lab: lab) -> tuple[Lab, Lab]:
    """The lab before a change and after it."""
    before = old(Lab())
    return before, new(before)


def with_target(lab: Lab, **targets: str) -> Lab:
    return replace(lab, targets={**lab.targets, **targets})


HOPPER_13 = 'platform = "linux-64"\ncuda = "13.0"\ngpus = ["H100"]\n'
HOPPER_126 = TARGETS["hopper"].replace("12.8", "12.6")
BLACKWELL = 'platform = "linux-64"\ncuda = "12.8"\ngpus = ["B200"]\n'
EXTRA = (
    wheel("accelerate", "1.10.1", "psutil", "numpy>=1.17"),
    wheel("psutil", "7.1.0"),
    wheel(
        "transformers", "4.57.0", "numpy>=1.17", "requests", "tqdm>=4.27", "pillow>=10", 'accelerate; extra == "torch"'
    ),
)
A_MONTH = (
    *(wheel(name, "2025.10.5") for name in ("certifi",)),
    wheel("datasets", "4.3.0", "requests>=2.32.2", "numpy>=1.17", "pyarrow>=21.0.0", "fsspec", "httpx<1.0.0"),
    wheel("filelock", "3.20.0"),
    wheel("fsspec", "2025.10.0"),
    wheel("idna", "3.11"),
    wheel("markupsafe", "3.0.4"),
    wheel("networkx", "3.5.1"),
    wheel("pillow", "12.0.0"),
    wheel("pyarrow", "22.0.0"),
    wheel("requests", "2.32.5", "certifi>=2017.4.17", "idna<4,>=2.5", "urllib3<3,>=1.21.1"),
    wheel("transformers", "4.57.1", "numpy>=1.17", "requests", "tqdm>=4.27", "pillow>=10"),
    wheel("urllib3", "2.5.1"),
    wheel("httpx", "0.28.1", "anyio", "certifi", "httpcore==1.*", "idna"),
    wheel("httpcore", "1.0.9", "certifi", "h11>=0.16"),
    wheel("h11", "0.16.0"),
    wheel("anyio", "4.11.0", "idna>=2.8", "sniffio>=1.1"),
    wheel("sniffio", "1.3.1"),
)
SSL = (conda("openssl", "3.5.4", "h1_3"),)
CONDA = '[conda]\nchannels = ["conda-forge"]\ndependencies = ["openssl"]\n'

CHANGES: Mapping[str, Callable[[], tuple[Lab, Lab]]] = {
    "01": lambda: to(
        lambda lab: lab.bump(wheel("requests", "2.32.5", "certifi>=2017.4.17", "idna<4,>=2.5", "urllib3<3,>=1.21.1"))
    ),
    "02": lambda: to(lambda lab: replace(lab.ask("torch==2.9.*"), torch="2.9.0")),
    "03": lambda: to(
        lambda lab: with_target(lab, hopper=TARGETS["hopper"]), lambda lab: with_target(lab, hopper=HOPPER_126)
    ),
    "03-down": lambda: to(lambda lab: with_target(lab, hopper=HOPPER_126)),
    "04": lambda: to(
        lambda lab: with_target(lab, hopper=HOPPER_13), lambda lab: replace(lab.ask("torch==2.9.*"), torch="2.9.0")
    ),
    "05-added": lambda: to(lambda lab: with_target(lab, blackwell=BLACKWELL)),
    "05-removed": lambda: to(
        lambda lab: replace(lab, targets={name: keys for name, keys in lab.targets.items() if name != "ampere"})
    ),
    "05-renamed": lambda: to(
        lambda lab: replace(
            lab, targets={"h100" if name == "hopper" else name: keys for name, keys in lab.targets.items()}
        )
    ),
    "06": lambda: to(lambda lab: with_target(lab, ampere=TARGETS["ampere"].replace('["A100"]', '["A100", "L40S"]'))),
    "07-patch": lambda: to(lambda lab: replace(lab, patch={"3.12": "3.12.11"})),
    "07-minor": lambda: to(lambda lab: replace(lab, python="3.13")),
    "08": lambda: to(lambda lab: replace(lab.bump(wheel("tqdm", "4.67.1", index="internal")), pip=TIED)),
    "08-host": lambda: to(
        lambda lab: replace(lab, pip=TIED.replace("packages.example.org", "other.example.net")),
        lambda lab: replace(lab.bump(wheel("tqdm", "4.67.1", index="internal")), pip=TIED),
    ),
    "09": lambda: to(
        lambda lab: lab.bump(sdist("tqdm", "4.67.2")), lambda lab: replace(lab, pip='allow-source = ["tqdm"]\n')
    ),
    "10": lambda: to(
        lambda lab: lab.bump(wheel("labtools", "1.2", "reqeusts"), wheel("reqeusts", "2.32.4")),
        lambda lab: lab.ask("labtools").bump(wheel("labtools", "1.0", "requests")),
    ),
    "12": lambda: to(lambda lab: lab.ask("numpy<2").bump(wheel("numpy", "1.26.4"))),
    "12-pulled": lambda: to(
        lambda lab: lab.ask("requests==2.32.1").bump(
            wheel("requests", "2.32.1", "certifi>=2017.4.17", "idna<4,>=2.5", "urllib3<3,>=1.21.1"),
            wheel("datasets", "2.19.2", "requests>=2.32.1", "numpy>=1.17", "pyarrow>=12.0.0", "fsspec"),
        )
    ),
    "14": lambda: to(lambda lab: lab.bump(wheel("tqdm", "4.67.2", licence="GPL-3.0-only"))),
    "15": lambda: to(
        lambda lab: replace(lab.ask("torch==2.2.*"), torch="2.2.2").bump(wheel("numpy", "1.26.4")),
        lambda lab: replace(lab, targets={"cpu": TARGETS["cpu"]}),
    ),
    "16": lambda: to(lambda lab: replace(lab, pip='accept = { driver-too-old = "the cluster is updated in May" }\n')),
    "16-audit": lambda: to(lambda lab: replace(lab, tables='[audit]\nignore = { CVE-2024-47081 = "no netrc here" }\n')),
    "17": lambda: to(
        lambda lab: replace(lab, env='exclude-newer = "2025-11-01"\n').bump(*A_MONTH),
        lambda lab: replace(lab, env='exclude-newer = "2025-10-01"\n'),
    ),
    "20": lambda: to(
        lambda lab: replace(lab, tables='[image]\nbase = "ubuntu:24.04"\nservices = ["ssh"]\napt = ["curl"]\n')
    ),
    "21": lambda: to(
        lambda lab: replace(lab, pip='allow-source = ["labtools"]\n'),
        lambda lab: lab.ask("labtools").bump(wheel("labtools", "1.0")),
    ),
    "22": lambda: to(
        lambda lab: lab.bump(conda("openssl", "3.5.4", "h1_4")), lambda lab: replace(lab, tables=CONDA).bump(*SSL)
    ),
    "23": lambda: to(
        lambda lab: lab.ask("transformers").drop("accelerate", "psutil"),
        lambda lab: lab.ask("transformers[torch]").bump(*EXTRA),
    ),
    "24": lambda: to(
        lambda lab: replace(
            with_target(lab, blackwell=BLACKWELL + '[targets.blackwell.pip]\ndependencies = ["einops"]\n'),
            only={"blackwell": (wheel("einops", "0.8.1"),)},
        ),
        lambda lab: with_target(lab, blackwell=BLACKWELL),
    ),
}
"""What is a pair of revisions, by number. The others need an index, git or `check`: test_thirty_five.py has these."""


_TAGS = {"linux-64": "manylinux_2_28_x86_64", "linux-aarch64": "manylinux_2_28_aarch64", "win-64": "win_amd64"}


def uv_lock(torch: str, platforms: Collection[str]) -> str:
    """A uv.lock with a torch of PyTorch's index, or without a local part of PyPI's, for some platforms."""
    local = torch.partition("+")[2]
    index = f"https://download.example.org/whl/{local}" if local else "https://mirror.example.org/pypi/simple"
    files = [f"torch-{torch}-cp312-cp312-{_TAGS[platform]}.whl" for platform in platforms]
    hashes = [hashlib.sha256(file.encode()).hexdigest() for file in files]
    wheels = "".join(
        f'    {{ url = "https://files.example.org/{file}", hash = "sha256:{digest}" }},\n'
        for file, digest in zip(files, hashes, strict=True)
    )
    return (
        'version = 1\nrevision = 3\nrequires-python = ">=3.12"\n\n[[package]]\nname = "lab"\nversion = "0.1.0"\n'
        'source = { virtual = "." }\ndependencies = [{ name = "torch" }]\n\n[[package]]\nname = "torch"\n'
        f'version = "{torch}"\nsource = {{ registry = "{index}" }}\nwheels = [\n{wheels}]\n'
    )
