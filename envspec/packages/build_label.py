"""The torch and CUDA that a wheel was built for, by the local part of its version: `2.1.2+pt24cu118`,
`2.8+cu12torch2.5cxx11abiFALSE`."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from msgspec import Struct

_CUDA = re.compile(r"(?<![a-z])cu([1-4]\d)(\d{0,2})(?!\d)")
_CPU = re.compile(r"(?<![a-z])cpu(?![a-z])")
_TORCH = re.compile(r"(?<![a-z])(pt|torch)[._-]?(\d{1,4})(?:\.(\d{1,2}))?")
_ABI = re.compile(r"cxx11abi(true|false|1|0)")


class BuildLabel(Struct, frozen=True):
    """torch     the torch release without its patch ("2.4"), None where the label names none
    cuda      its CUDA, the major alone ("12") or with the minor ("11.8"); None where the label names none
    cpu       it is a CPU build
    cxx11abi  whether torch's C++ strings have their newer form (`_GLIBCXX_USE_CXX11_ABI`), None where it doesn't say
    """

    torch: str | None = None
    cuda: str | None = None
    cpu: bool = False
    cxx11abi: bool | None = None

    @property
    def cuda_major(self) -> str | None:
        return self.cuda.partition(".")[0] if self.cuda else None


def label_of(version: str, file: str | None = None) -> BuildLabel | None:
    """Read the label in a version's local part, or in a wheel's file name where the version has none (the METADATA of
    flash-attn's wheels leaves it out). None where neither says anything of torch, CUDA or a CPU."""
    local = version.partition("+")[2]
    if not local and file is not None:
        local = (unquote(file).split("-")[1:2] or [""])[0].partition("+")[2]
    return _read(local.lower())


@lru_cache(maxsize=1024)
def _read(local: str) -> BuildLabel | None:
    cuda, torch, abi = _CUDA.search(local), _TORCH.search(local), _ABI.search(local)
    label = BuildLabel(
        torch=_release(torch) if torch else None,
        cuda=_version_text(cuda[1], cuda[2]) if cuda else None,
        cpu=_CPU.search(local) is not None,
        cxx11abi=abi[1] in ("true", "1") if abi else None,
    )
    return label if label != BuildLabel() else None


def _version_text(major: str, minor: str) -> str:
    return f"{major}.{minor[0]}" if minor else major


def _release(match: re.Match[str]) -> str | None:
    """`2.4` of `pt24`, `pt2.4.1`, `torch2.4` and `torch240`.

    Without dots `pt` is followed by major and minor (PyG: pt21 is 2.1, pt210 is 2.10), `torch` by the patch as well
    (NATTEN: torch210 is 2.1.0, torch2100 is 2.10.0).
    """
    prefix, digits, minor = match.groups()
    if minor is not None:
        major = digits
    else:
        major, minor = digits[:1], digits[1:]
        if prefix == "torch" and len(minor) > 1:
            minor = minor[:-1]
    return f"{major}.{int(minor)}" if major in ("1", "2") and minor else None
