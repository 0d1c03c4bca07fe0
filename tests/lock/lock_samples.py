"""A small lock that has one of everything, made by hand."""

import hashlib

from msgspec.structs import replace

from envspec.lock.model import (
    Artifact,
    BuildPin,
    GitSource,
    Lock,
    LockedPython,
    LockedTarget,
    Pin,
    Publisher,
    SpecInputs,
    TargetInputs,
)

HOST = "https://mirror.example.org"
"""A host that tests put into committed files, too."""


def urls(target: LockedTarget) -> dict[tuple[str, str], str]:
    return {
        (pin.index, pin.artifact.file): f"{HOST}/{pin.index}/{pin.artifact.file}" for pin in target.pins if pin.artifact
    }


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def artifact(file: str, size: int | None = 1000, index: str = "pypi") -> Artifact:
    return Artifact(file, sha(f"{index} {file}"), size)


def wheel(
    name: str,
    version: str,
    *dependencies: str,
    index: str = "pypi",
    tag: str = "py3-none-any",
    direct: bool = False,
    licence: str | None = "MIT",
) -> Pin:
    file = f"{name.replace('-', '_')}-{version}-{tag}.whl"
    return Pin("pip", name, version, index, artifact(file, index=index), dependencies, direct, licence)


def conda(name: str, version: str, *depends: str, direct: bool = False, provides: tuple[str, ...] = ()) -> Pin:
    file = Artifact(f"{name}-{version}-h123_0.conda", sha(name), 2000, hashlib.md5(name.encode()).hexdigest())
    return Pin(
        "conda",
        name,
        version,
        "conda-forge/linux-64",
        file,
        depends,
        direct,
        "BSD-3-Clause",
        build="h123_0",
        provides=provides,
    )


def build_pin(name: str, version: str) -> BuildPin:
    return BuildPin(name, version, f"{name}-{version}-py3-none-any.whl", sha(name), 500)


LINUX = "manylinux_2_28_x86_64"


def cpu_pins(*, direct_clip: bool = True) -> tuple[Pin, ...]:
    commit = "0123456789abcdef0123456789abcdef01234567"
    clip = Pin(
        "pip",
        "clip",
        "1.0",
        "git",
        None,
        ("ftfy",),
        direct_clip,
        "MIT",
        git=GitSource("https://git.example.org/clip.git", commit, "python"),
    )
    ftfy_url = "https://files.example.org/ftfy-6.3.1-py3-none-any.whl"
    ftfy = Pin("pip", "ftfy", "6.3.1", "url", artifact("ftfy-6.3.1-py3-none-any.whl"), (), True, url=ftfy_url)
    return (
        conda("ffmpeg", "7.1", "__glibc >=2.17", "libstdcxx >=13", direct=True),
        conda("libstdcxx", "13.2.0"),
        conda("numpy", "2.3.1", provides=("numpy",), direct=True),
        clip,
        Pin(
            *(
                "pip",
                "deepspeed",
                "0.18.0",
                "pypi",
                artifact("deepspeed-0.18.0.tar.gz"),
                ("torch",),
                True,
                "Apache-2.0",
            ),
            publisher=Publisher("GitHub", "deepspeedai/DeepSpeed", "release.yml", "pypi"),
            built_with=tuple(
                build_pin(name, version) for name, version in (("setuptools", "80.9.0"), ("wheel", "0.46"))
            ),
        ),
        wheel("fsspec", "2026.1.0", 'aiohttp>=3; extra == "http"'),
        ftfy,
        wheel(
            "torch",
            "2.9.1+cpu",
            "fsspec>=0.8",
            'numpy; python_version >= "3.8"',
            index="pytorch/cpu",
            tag=f"cp312-cp312-{LINUX}",
            direct=True,
        ),
    )


def cuda_pins(variant: str) -> tuple[Pin, ...]:
    nvidia = f"nvidia-cublas-{variant[:4]}"
    version = f"2.9.1+{variant}"
    return (
        wheel("fsspec", "2026.1.0", 'aiohttp>=3; extra == "http"'),
        replace(
            wheel("numpy", "2.3.1", tag=f"cp312-cp312-{LINUX}", licence="BSD-3-Clause"), requires_python="<3.15,>=3.11"
        ),
        wheel(nvidia, "12.8.4.1", tag=f"py3-none-{LINUX}", licence="NVIDIA Proprietary Software"),
        wheel(
            "torch",
            version,
            "fsspec>=0.8",
            'numpy; python_version >= "3.8"',
            f'{nvidia}==12.8.4.1; platform_system == "Linux"',
            index=f"pytorch/{variant}",
            tag=f"cp312-cp312-{LINUX}",
            direct=True,
        ),
    )


def inputs(*requirements: str, cuda: str | None = None, gpus: tuple[str, ...] = ()) -> TargetInputs:
    return TargetInputs("linux-64", "3.12", "2.28", cuda, gpus, None, tuple(sorted(requirements)))


def sample_lock() -> Lock:
    cpu = TargetInputs(
        "linux-64",
        "3.12",
        "2.28",
        requirements=(
            "clip @ git+https://git.example.org/clip.git@v1",
            "deepspeed",
            "ftfy @ https://files.example.org/ftfy-6.3.1-py3-none-any.whl",
            "torch==2.9.*",
        ),
        conda_requirements=("ffmpeg 7.*", "numpy"),
    )
    return Lock(
        "sample",
        SpecInputs("2026-11-01T00:00:00Z", ("deepspeed",), {"acme-models": "internal"}, ("conda-forge",)),
        (
            LockedTarget("cpu", cpu, cpu_pins()),
            LockedTarget(
                "cu126-volta",
                inputs("torch==2.9.*", cuda="12.6", gpus=("V100",)),
                cuda_pins("cu126"),
                ("sm_70",),
                "525.60.13",
            ),
            LockedTarget(
                "cu128.hopper",
                inputs("torch==2.9.*", "numpy>=2", cuda="12.8", gpus=("H100", "H200")),
                cuda_pins("cu128"),
                ("sm_90",),
                "525.60.13",
            ),
        ),
        pythons=(
            LockedPython(
                "linux-64",
                "3.12.12",
                "20260114",
                "cpython-3.12.12+20260114-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz",
                sha("python"),
                30000,
            ),
        ),
    )
