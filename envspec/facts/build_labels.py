"""The labels of builds: what a wheel was built for, by the local part of its version or by its file name.

`2.1.2+pt24cu118` and `2.8+cu12torch2.5cxx11abiFALSE` say it in forms of their publishers' own. `FORMS` has them all, a
label is read from left to right, and what no form fits is left over as unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple
from urllib.parse import unquote

from msgspec import Struct

from envspec.facts import torch_builds
from envspec.facts.toolkits import cuda_releases
from envspec.packages.version_numbers import numbers

Subject = Literal["torch", "torch or newer", "cuda", "cpu", "rocm", "xpu", "hpu", "mps", "newer abi", "older abi", ""]

MAKERS = {"rocm": "AMD's ROCm", "xpu": "Intel's GPUs (XPU)", "hpu": "Intel's Gaudi", "mps": "Apple's GPUs (MPS)"}
"""The makers of hardware beside NVIDIA, by what forms say."""


class Form(NamedTuple):
    """One form of a part of a label.

    text       in lower case, with `#` for a number
    subject    the property of a build that it names; "" for none
    number     the form of the number: "dotted" (12.8), "joined" (128), "patched" (joined, and the last digit is the
               patch release), "major" (12), "digits", "hash" or "short hash"; "" without one
    publisher  the publisher whose wheels, build scripts or documentation have it
    """

    text: str
    subject: Subject
    number: str
    publisher: str


FORMS = (
    Form("cu#", "cuda", "joined", "PyTorch's indexes; PyG, MiroPsota's torch_packages_builder, Dao-AILab, vLLM"),
    Form("cu#", "cuda", "major", "Dao-AILab's flash-attn (setup.py, get_wheel_url), causal-conv1d, mamba-ssm"),
    Form("cu#", "cuda", "dotted", "nunchaku's releases; Astral's GPU indexes (pycuda 2026.1+cu12.8)"),
    Form("cu.#", "cuda", "dotted", "Astral's GPU indexes (megablocks 0.10.0+cu.12.8.torch.2.7)"),
    Form("cuda#", "cuda", "major", "JAX's page of releases up to 0.4.13 (jaxlib 0.4.13+cuda12.cudnn89)"),
    Form("cuda#", "cuda", "joined", "JAX's page of releases (jaxlib 0.1.75+cuda111)"),
    Form("cuda#", "cuda", "dotted", "NCCL's own version (2.21.5+cuda12.4)"),
    Form("torch#", "torch", "dotted", "Dao-AILab; mjun0812's flash-attention-prebuild-wheels; nunchaku"),
    Form("torch.#", "torch", "dotted", "Astral's GPU indexes (megablocks 0.10.0+cu.12.8.torch.2.7)"),
    Form("torch#", "torch", "joined", "NVIDIA's cosmos-dependencies (natten 0.21.6.dev5+cu130.torch210: torch 2.10)"),
    Form("torch#", "torch", "patched", "NATTEN's own index (natten 0.17.1+torch240cu124)"),
    Form("torch#andhigher", "torch or newer", "dotted", "woct0rdho's SageAttention (2.2.0+cu130torch2.10.0andhigher)"),
    Form("pt#", "torch", "joined", "PyG's flat pages (torch-scatter 2.1.2+pt210cu130: torch 2.10)"),
    Form("pt#", "torch", "dotted", "MiroPsota's torch_packages_builder (pytorch3d 0.7.8+pt2.10.0rocm7.1)"),
    Form("cpu", "cpu", "", "PyTorch's indexes; PyG; MiroPsota's torch_packages_builder"),
    Form("rocm#", "rocm", "dotted", "PyTorch's indexes; MiroPsota's torch_packages_builder; AMD's repositories"),
    Form("rocm#", "rocm", "joined", "Dao-AILab's flash-attn (setup.py, get_wheel_url); vLLM's index (rocm700)"),
    Form("rocm#", "rocm", "major", "JAX, in its packages' names"),
    Form("devrocm#", "rocm", "dotted", "AMD's TheRock, of its builds from branches"),
    Form("rocm", "rocm", "", "builds of ROCm's forks without a number"),
    Form("xpu", "xpu", "", "PyTorch's indexes; Intel's extension for PyTorch"),
    Form("hpu", "hpu", "", "Intel's Gaudi software"),
    Form("mps", "mps", "", "builds for Apple's GPUs"),
    Form("cxx11abitrue", "newer abi", "", "Dao-AILab's flash-attn (setup.py, get_wheel_url), causal-conv1d, mamba-ssm"),
    Form("cxx11abi1", "newer abi", "", "builds that write `_GLIBCXX_USE_CXX11_ABI` as it is set"),
    Form("cxx11.abi", "newer abi", "", "PyTorch's index cpu-cxx11-abi (torch 2.6.0+cpu.cxx11.abi)"),
    Form("cxx11abifalse", "older abi", "", "the same"),
    Form("cxx11abi0", "older abi", "", "builds that write `_GLIBCXX_USE_CXX11_ABI` as it is set"),
    Form("#", "", "hash", "Git's commits (bitsandbytes 0.44.1.dev0+9315692)"),
    Form("g#", "", "short hash", "setuptools-scm (vllm 1.0+g2d5be1dd5.d20260219.cpu)"),
    Form("git#", "", "short hash", "AMD's repositories (torch 2.7.1+rocm6.4.1.git2a215e4a); flash-attn-3"),
    Form("d#", "", "digits", "setuptools-scm: the day of a build with changes"),
    Form("post#", "", "digits", "woct0rdho's SageAttention: a build of one release again"),
    Form("cudnn#", "", "digits", "JAX's page of releases: the cuDNN that comes from elsewhere"),
    Form("sm#", "", "digits", "builds for one GPU: what is in the wheel counts"),
    Form("gb#", "", "digits", "builds for one GPU: what is in the wheel counts"),
    Form("nv#", "", "dotted", "NVIDIA's containers and Jetson (torch 2.7.0a0+79aa17489c.nv25.4)"),
    Form("ubuntu#", "", "digits", "builds for one distribution: the wheel's tag counts"),
    Form("ubuntu#", "", "dotted", "builds for one distribution: the wheel's tag counts"),
)  # fmt: skip


class BuildLabel(Struct, frozen=True):
    """torch     the torch releases without their patch ("2.4") that the label can mean; none where it names none
    or_newer  a newer torch will do, too
    cuda      its CUDA, the major alone ("12") or with the minor ("11.8"); None where the label names none
    cpu       it is a CPU build
    other     the hardware of another maker than NVIDIA ("AMD's ROCm 7.1")
    cxx11abi  whether torch's C++ strings have their newer form (`_GLIBCXX_USE_CXX11_ABI`), None where it doesn't say
    unread    the parts of the label that no form fits, as it has them
    """

    torch: tuple[str, ...] = ()
    or_newer: bool = False
    cuda: str | None = None
    cpu: bool = False
    other: str | None = None
    cxx11abi: bool | None = None
    unread: str = ""

    @property
    def cuda_major(self) -> str | None:
        return self.cuda.partition(".")[0] if self.cuda else None

    @property
    def maker(self) -> str | None:
        """The hardware that the build is for, if it isn't the CPU: "CUDA 12.8", "AMD's ROCm 7.1"."""
        return f"CUDA {self.cuda}" if self.cuda else self.other

    def fits_torch(self, torch: str) -> bool:
        """Return whether the label admits a torch, by its release without the patch."""
        least = min(self.torch, key=numbers, default=torch)
        return not self.torch or torch in self.torch or (self.or_newer and numbers(torch) >= numbers(least))


def label_of(version: str, file: str | None = None) -> BuildLabel | None:
    """Read the label in a version's local part, or in a wheel's file name where the version has none (the METADATA of
    flash-attn's wheels leaves it out). None where neither says anything of torch, CUDA, another maker or a CPU, and
    nothing is left unread."""
    local, parts = version.partition("+")[2], unquote(file or "").split("-")
    if not local and file is not None:
        local = "".join(parts[1:2]).partition("+")[2]
    # an abi3 wheel is for other Pythons, too
    tags = [tag for tag in parts[-3:-1] if re.fullmatch(r"cp3\d+t?", tag)]
    python = f"3.{tags[0][3:].rstrip('t')}" if len(tags) == 2 else None
    return _read(re.sub(r"[-_]", ".", local.lower()), python) if local else None


def cuda_in(local: str) -> str | None:
    """Read the CUDA in the local part of a version of torch's family: "12.8", "cpu" for a CPU build, or None where it
    names neither, or another maker."""
    label = label_of(f"+{local}")
    if label is None or label.other or label.unread:
        return None
    return label.cuda or ("cpu" if label.cpu else None)


@lru_cache(maxsize=1024)
def _read(local: str, python: str | None) -> BuildLabel | None:
    numbers: dict[str, list[tuple[int, ...]]] = {}
    unread = _bare_cuda(local)
    for part, readings in _parts(local):
        if not readings and not re.fullmatch(r"[a-z]+|\d+", part):
            unread.append(part)
        # the first part of a kind counts: `torch2.10.0cu130` may end in a second number
        new = {form.subject: form for form, _ in readings if form.subject not in numbers}
        for form, number in readings:
            if form.subject in new:
                numbers.setdefault(form.subject, []).append(number)
    cuda = ".".join(map(str, numbers["cuda"][0][:2])) if "cuda" in numbers else None
    torch: Sequence[tuple[int, ...]] = numbers.get("torch") or numbers.get("torch or newer") or ()
    if len(torch) > 1:
        torch = _existing(torch, cuda, "cpu" in numbers, python)
    other = next(
        (_with_number(name, numbers[kind][0]) for kind, name in MAKERS.items() if kind in numbers),
        None,
    )
    label = BuildLabel(
        torch=tuple(dict.fromkeys(".".join(map(str, torch_version[:2])) for torch_version in torch)),
        or_newer="torch or newer" in numbers,
        cuda=cuda,
        cpu="cpu" in numbers,
        other=None if cuda else other,
        cxx11abi="newer abi" in numbers if {"newer abi", "older abi"} & numbers.keys() else None,
        unread=".".join(unread),
    )
    return label if label != BuildLabel() else None


def _with_number(name: str, number: Sequence[int]) -> str:
    return f"{name} {'.'.join(map(str, number))}" if number else name


def _bare_cuda(local: str) -> list[str]:
    """Give a label that is the number of a toolkit alone: it may mean CUDA, and no publisher is known to write it."""
    return (
        [local]
        if re.fullmatch(r"\d\d\.\d", local) and local in {toolkit.version for toolkit in cuda_releases()}
        else []
    )


_Reading = tuple[Form, "tuple[int, ...]"]


def _parts(local: str) -> Iterator[tuple[str, list[_Reading]]]:
    """Cut a label into parts, each with the forms that fit its whole: none for what no form fits. A part begins where
    another ends, or where no letter stands before it."""
    at, begin, glued = 0, 0, False
    while at < len(local):
        readings: list[_Reading] = []
        end = at
        if local[at] != "." and (at == 0 or glued or not local[at - 1].isalpha()):
            for stop, reading in _fitting(local, at):
                readings = [reading] if stop > end else [*readings, reading] if stop == end else readings
                end = max(end, stop)
        if readings or local[at] == ".":
            if begin < at:
                yield local[begin:at], []
            if readings:
                yield local[at:end], readings
            at = begin = max(end, at + 1)
            glued = True
        else:
            at, glued = at + 1, False
    if begin < at:
        yield local[begin:at], []


def _fitting(local: str, at: int) -> Iterator[tuple[int, _Reading]]:
    for form, pattern in _patterns():
        match = pattern.match(local, at)
        number = _number(form, match["number"] if form.number else "") if match else None
        if match is not None and number is not None:
            yield match.end(), (form, number)


_WRITTEN = {
    "dotted": r"\d{1,2}(?:\.\d{1,2}){1,2}(?!\d)",
    "joined": r"\d{2,4}(?!\d)",
    "patched": r"\d{3,4}(?!\d)",
    "major": r"\d{1,2}(?!\d)",
    "digits": r"\d+",
    "hash": r"[0-9a-f]{7,40}?",
    "short hash": r"[0-9a-f]{4,40}?",
}
_BEGINNINGS = {form.text.partition("#")[0] + ("#" if "#" in form.text else "") for form in FORMS if form.subject}
_NEXT = rf"(?=\.|$|{'|'.join(re.escape(text).replace(chr(92) + '#', chr(92) + 'd') for text in sorted(_BEGINNINGS))})"
"""The text behind a part that isn't a number. The letters of a commit's hash may begin the next part."""


@cache
def _patterns() -> tuple[tuple[Form, re.Pattern[str]], ...]:
    def pattern(form: Form) -> re.Pattern[str]:
        number = f"(?P<number>{_WRITTEN[form.number]})" if form.number else ""
        ends = "" if form.number and form.subject and form.text.endswith("#") else _NEXT
        return re.compile(re.escape(form.text).replace(r"\#", number) + ends)

    return tuple((form, pattern(form)) for form in FORMS)


def _number(form: Form, digits: str) -> tuple[int, ...] | None:
    """Read a number as a form has it. None for one that can't be meant: CUDA 1.28, torch 24.0."""
    if form.number == "dotted":
        version = tuple(map(int, digits.split(".")))
    elif form.number == "major":
        version = (int(digits),)
        return version if form.subject == "rocm" or (len(digits) == 2 and 10 <= version[0] < 50) else None
    elif form.number == "patched":
        version = (int(digits[0]), int(digits[1:-1]), int(digits[-1]))
    elif form.number == "joined" and form.subject == "torch":
        version = (int(digits[0]), int(digits[1:]))
    elif form.number == "joined":
        # CUDA 9.2 is cu92, ROCm 7.1 is rocm71: a major of two digits begins with those of 10 to 49
        wide = 2 if digits[0] in ("1234" if form.subject == "cuda" else "1") else 1
        version = (int(digits[:wide]), *map(int, digits[wide:]))
    else:
        return ()
    if form.subject.startswith("torch") and not (0 < version[0] < 6 and version[1] < 100):
        return None
    return version if len(version) > 1 else None


def _existing(
    torches: Sequence[tuple[int, ...]], cuda: str | None, cpu: bool, python: str | None
) -> Sequence[tuple[int, ...]]:
    """Leave of the torch releases that a label can mean those with a build for its CUDA, or for its major, and its
    file's Python: `cu130.torch210` is torch 2.10, for 2.1.0 had no CUDA 13. Else those newer than the tables, or all.
    """
    for own in dict.fromkeys((cuda, cuda and cuda.partition(".")[0])):
        if built := [release for release in torches if _is_built(release, own, cpu, python)]:
            return built
    newest = torch_builds.order(torch_builds.newest().version)
    return [release for release in torches if release > newest[: len(release)]] or torches


def _is_built(torch: tuple[int, ...], cuda: str | None, cpu: bool, python: str | None) -> bool:
    return any(
        torch == torch_builds.order(build.version)[: len(torch)]
        and (build.cuda is None if cpu and not cuda else cuda is None or f"{build.cuda}.".startswith(f"{cuda}."))
        and (python is None or python in build.pythons)
        for build in torch_builds.builds()
        if build.trust != "planned"
    )


# Packages for another maker's hardware, by their names: jax-rocm7-plugin, tensorflow-rocm, pytorch-triton-xpu,
# jax-oneapi-plugin; libtpu, which jax[tpu] brings.

_NAMED = {
    "AMD's GPUs": re.compile(
        r"(?:[\w-]+-)?rocm\d*(?:-[\w-]+)?|onnxruntime-migraphx|amd-torch(?:vision)?-device-[\w-]+"
    ),
    "Intel's GPUs": re.compile(r"[\w-]+-(?:xpu|oneapi(?:-[\w-]+)?)"),
    "Google's TPUs": re.compile(r"libtpu(?:-nightly)?"),
}


def maker_in_name(name: str, *, gpus: bool = False) -> str | None:
    """Give the hardware of another maker than NVIDIA that a package (normalised name) is made for by its name; with
    `gpus`, GPUs alone."""
    named = next((maker for maker, names in _NAMED.items() if names.fullmatch(name)), None)
    return None if gpus and named and "GPU" not in named else named


def other_maker(text: str) -> str | None:
    """Give the hardware of another maker than NVIDIA that a local version ("rocm6.4") or a conda build string
    ("rocm72_py312_0") names."""
    label = label_of(f"0+{text}")
    return label.other if label else None
