"""A small lock with everything that a report shows: pip and conda, a cycle, extras, unknown sizes, several CUDAs."""

import hashlib
from typing import Any

from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Artifact, GitSource, Lock, LockedTarget, Pin
from envspec.spec.model import Spec
from envspec.spec.parse import parse_spec

SPEC = """\
[env]
name = "sample"
description = "A sample"
python = "3.12"

[pip]
dependencies = ["app>=1", "torch==2.9.*"]

[conda]
channels = ["conda-forge"]

[targets.cpu]
platform = "linux-64"
conda.dependencies = ["ffmpeg"]

[targets.cu126-volta]
platform = "linux-64"
cuda = "12.6"
gpus = ["V100"]

[targets.cu128-hopper]
platform = "linux-64"
cuda = "12.8"
gpus = ["H100"]

[audit]
allow-licences = ["MIT", "BSD-*"]
deny-licences = ["GPL-*"]
"""
TORCH = {"cpu": "2.9.1+cpu", "cu126-volta": "2.9.1+cu126", "cu128-hopper": "2.9.1"}
FACTS = {"cpu": ((), None), "cu126-volta": (("sm_70",), "525.60.13"), "cu128-hopper": (("sm_90",), "525.60.13")}

HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror=alert(1)>'
"""What must stay text wherever it comes from."""


def pin(name: str, version: str, *dependencies: str, size: int | None = 1000, **fields: Any) -> Pin:
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    artifact = Artifact(file, hashlib.sha256(file.encode()).hexdigest(), size)
    given: dict[str, Any] = {"licence": "MIT", **fields}
    return Pin("pip", name, version, given.pop("index", "pypi"), artifact, dependencies, **given)


def pins(target: str) -> tuple[Pin, ...]:
    version = TORCH[target]
    index = f"pytorch/{version.partition('+')[2]}" if "+" in version else "pypi"
    size = None if "+" in version else 900_000_000
    found = [
        pin("app", "1.4", "lib[fast]<3,>=2", "torch>=2", direct=True, size=2_000_000),
        pin("fsspec", "2026.9.0", licence="BSD-3-Clause"),
        pin("lib", "2.5" if target == "cpu" else "2.6", 'speedup>=1; extra == "fast"', "ping", "fsspec"),
        pin("ping", "1.0", "pong", licence="GPL-3.0-only"),
        pin("pong", "1.0", "ping>=1", licence=None),
        Pin("pip", "speedup", "1.1", "git", None, licence="MIT", git=GitSource("https://example.org/s.git", "0" * 40)),
        pin("torch", version, "fsspec>=0.8", index=index, size=size, direct=True, licence="BSD-3-Clause"),
    ]
    if target == "cpu":
        for name, needs in (("ffmpeg", ("zlib >=1.2",)), ("zlib", ())):
            artifact = Artifact(f"{name}-1.0-h0.conda", hashlib.sha256(name.encode()).hexdigest(), 50_000, "0" * 32)
            given: dict[str, Any] = {"build": "h0", "licence": "LGPL-2.1-or-later", "direct": name == "ffmpeg"}
            found.append(Pin("conda", name, "1.0", "conda-forge/linux-64", artifact, needs, **given))
    if target == "cu126-volta":
        # the first cuDNN without code for Volta
        found.append(pin("nvidia-cudnn-cu12", "9.11.0.98", size=700_000_000))
    return tuple(sorted(found, key=lambda one: (one.kind, one.name)))


def spec(text: str = SPEC) -> Spec:
    return parse_spec(text, "specs/sample.toml")


def lock(of: Spec | None = None, extra: tuple[Pin, ...] = ()) -> Lock:
    """The lock of `spec()`, with `extra` in every target."""
    of = of or spec()
    targets = []
    for target in sorted(of.targets, key=lambda one: one.name):
        both = tuple(sorted((*pins(target.name), *extra), key=lambda one: (one.kind, one.name)))
        architectures, floor = FACTS[target.name]
        targets.append(LockedTarget(target.name, target_inputs(of, target), both, architectures, floor))
    return Lock(of.name, spec_inputs(of), tuple(targets))


def big(packages: int = 1000, targets: int = 12) -> tuple[Spec, Lock]:
    """A lock of many packages and targets, five edges a package; every seventh differs between targets."""
    heads = "\n".join(f'[targets.target-{number:02}]\nplatform = "linux-64"\n' for number in range(targets))
    whole = f'[env]\nname = "big"\npython = "3.12"\n[pip]\ndependencies = ["package-0000"]\n{heads}'
    of = parse_spec(whole, "specs/big.toml")
    locked = []
    for place, target in enumerate(sorted(of.targets, key=lambda one: one.name)):
        found = []
        for number in range(packages):
            needs = [f"package-{number + step:04}>=1" for step in (1, 2, 3, 5, 8) if number + step < packages]
            version = f"1.{number % 9}.{place % 4 if number % 7 == 0 else 0}"
            licence = ("MIT", "BSD-3-Clause", "Apache-2.0", None)[number % 4]
            name = f"package-{number:04}"
            found.append(pin(name, version, *needs, size=1000 * (number + 1), direct=number % 40 == 0, licence=licence))
        locked.append(LockedTarget(target.name, target_inputs(of, target), tuple(found)))
    return of, Lock(of.name, spec_inputs(of), tuple(locked))
