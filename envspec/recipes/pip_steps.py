"""The pip half of a lock as runs of uv: one an index, so that each package comes from where the lock says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from envspec.errors import InputError, Place
from envspec.lock.graph import Graph
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.requirements import requirements_txt
from envspec.recipes.plan import PipStep
from envspec.spec.model import Spec

FOLDER = "requirements"
_PYTORCH = "pytorch/"
_GPU = re.compile(r"(torch|torchvision|torchaudio|triton|pytorch-triton|nvidia-(?!ml-py).*|cuda-.*)(-cu\d+)?")


def is_gpu_stack(name: str) -> bool:
    """Whether a package belongs to the CUDA stack, by its normalised name."""
    return _GPU.fullmatch(name) is not None


_BUILD_TOOLS = (
    "cffi", "cmake", "cython", "flit-core", "hatchling", "meson", "meson-python", "nanobind", "ninja", "numpy",
    "packaging", "poetry-core", "psutil", "pybind11", "scikit-build", "scikit-build-core", "setuptools",
    "setuptools-scm", "wheel",
)  # fmt: skip
"""What extensions of torch import when they are built, often without declaring it."""


def pip_steps(spec: Spec, lock: Lock, target: LockedTarget) -> tuple[tuple[PipStep, str], ...]:
    """The runs, in order, each with the text of its requirements file.

    Raises InputError for an index that the spec doesn't name any more.
    """
    return _steps(spec, lock, target, ((_rank(pin), pin) for pin in target.pins if pin.kind == "pip"))


def build_steps(spec: Spec, lock: Lock, target: LockedTarget) -> tuple[tuple[PipStep, str], ...]:
    """The runs that bring the wheels which builds see, beside the CUDA stack: what torch and the sources depend on, and
    build tools that the lock has. No others, or whatever moves in the lock would have everything compiled again."""
    pins = {pin.name: pin for pin in target.pins if pin.kind == "pip"}
    roots = ["torch", *_BUILD_TOOLS, *(pin.name for pin in pins.values() if not pin.is_wheel)]
    reached = {node.name for node in Graph.of(target, roots).outgoing if node.kind == "pip"}
    seen = (pin for name, pin in pins.items() if name in reached and _rank(pin) == 2)
    return _steps(spec, lock, target, ((3, pin) for pin in seen))


def _steps(
    spec: Spec, lock: Lock, target: LockedTarget, ranked: Iterable[tuple[int, Pin]]
) -> tuple[tuple[PipStep, str], ...]:
    groups: dict[tuple[int, str], list[Pin]] = {}
    for rank, pin in ranked:
        groups.setdefault((rank, "pypi" if pin.index == "url" else pin.index), []).append(pin)
    return tuple(_step(spec, lock, target, *key, groups[key]) for key in sorted(groups, key=_place))


def _rank(pin: Pin) -> int:
    """0 the CUDA stack, 1 what is compiled, 2 the rest; 3 is what builds see of the rest."""
    if not pin.is_wheel:
        return 1
    return 0 if is_gpu_stack(pin.name) else 2


def _place(key: tuple[int, str]) -> tuple[int, bool, str]:
    rank, index = key
    return rank, index != "pypi", index


def _step(spec: Spec, lock: Lock, target: LockedTarget, rank: int, index: str, pins: list[Pin]) -> tuple[PipStep, str]:
    name = "-".join(_words(rank, index))
    backend = index.removeprefix(_PYTORCH) if index.startswith(_PYTORCH) else None
    own = index if backend is None and index not in ("pypi", "git") else None
    if own and own not in spec.pip.indexes:
        raise InputError(
            f'the lock has files from the index "{own}", which the spec doesn\'t name',
            hint=f'add it to the spec, [pip] indexes = {{ {own} = "https://…" }}, or lock again',
            place=Place(spec.path),
        )
    step = PipStep(
        f"{FOLDER}/{name}.txt",
        tuple(sorted(pin.name for pin in pins)),
        backend,
        own,
        spec.pip.indexes[own] if own else None,
        hashed=index != "git",
        source=rank == 1,
        gpu=rank == 0,
    )
    return step, _without_header(requirements_txt(lock, replace(target, pins=tuple(pins))))


def _words(rank: int, index: str) -> Iterator[str]:
    yield ("gpu", "source", "rest", "build")[rank]
    if index != "pypi":
        yield index.removeprefix(_PYTORCH)


def _without_header(text: str) -> str:
    """Only the packages: what the file's head says of the whole lock would make its layer new with every version."""
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("#")) + "\n"
