"""`[matrix]`: the product of platforms, CUDA versions and lists of GPUs, less what is excluded, with names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Annotated

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.reader.document import show
from envspec.base.reader.nodes import Array, table_of
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import Checked
from envspec.spec import forms
from envspec.spec.advice import slug
from envspec.spec.model import Target


class Lookups(Struct, frozen=True):
    """The tables of GPUs and of builds of Python, as functions that a spec's reader is given.

    capability  from a GPU's name to its compute capability ("9.0"); None for an unknown one, which keeps its own name
    wrong_gpu   from a GPU's name to what is wrong with it and what to write instead; None for one that is right
    newest      from a range and a moment to the minor version of the newest Python before it; None where there is none
    """

    capability: Callable[[str], str | None] = lambda gpu: None
    wrong_gpu: Callable[[str], tuple[str, str] | None] = lambda gpu: None
    newest: Callable[[str, str | None], str | None] = lambda bound, before: None


NO_TABLES = Lookups()

MAX_COMBINATIONS = 1000
"""The most combinations of a matrix. Each is locked by itself, so a larger matrix is a mistake."""


class Exclude(Struct, frozen=True):
    """`exclude`: What to leave out.

    A field that is None (or empty, for `gpus`) matches everything; a `cuda` of "cpu" matches the CPU.
    """

    platform: Annotated[str | None, forms.PLATFORM] = None
    cuda: Annotated[str | None, forms.CUDA_OR_CPU] = None
    gpus: Annotated[tuple[str, ...], forms.GPUS] = ()


_PLATFORMS = Array(items=forms.PLATFORM, example=("linux-64",), min_items=1, unique=True)
_CUDAS = Array(items=forms.CUDA_OR_CPU, example=("12.6", "12.8"), min_items=1, unique=True)
_GPUS = Array(items=forms.GPUS, example=(("A100",), ("H100", "H200")), min_items=1, unique=True)
_EXCLUDES = Array(items=replace(table_of(Exclude), not_empty=True), example=({"cuda": "12.6", "gpus": ["H200"]},))


class Matrix(Struct, frozen=True):
    """Shorthand: every combination becomes a target, named like cu128-sm90.

    platforms  The platforms.
    cudas      The CUDA versions.
    gpus       Lists of GPUs; each list becomes targets of its own.
    excludes   Combinations to leave out: what matches all keys of an entry. With gpus, only those GPUs go.

    In `cudas`, "cpu" and "" both mean a CPU target.
    """

    platforms: Annotated[tuple[str, ...], _PLATFORMS] = field(name="platform")
    cudas: Annotated[tuple[str, ...], _CUDAS] = field(name="cuda", default=("cpu",))
    gpus: Annotated[tuple[tuple[str, ...], ...], _GPUS] = ()
    excludes: Annotated[tuple[Exclude, ...], _EXCLUDES] = field(name="exclude", default=())

    @property
    def size(self) -> int:
        """An upper bound of the number of combinations, without making them."""
        return len(self.platforms) * len(self.cudas) * max(1, len(self.gpus))


class Combination(Struct, frozen=True):
    """One target of a matrix. The indexes say which element of each axis it came from; `gpus_index` is None without
    GPUs."""

    platform: str
    cuda: str | None
    gpus: tuple[str, ...]
    platform_index: int
    cuda_index: int
    gpus_index: int | None


class Expansion(Struct, frozen=True):
    """The targets of a matrix. `unmatched` has the indexes of the excludes that match no combination."""

    combinations: tuple[Combination, ...]
    unmatched: tuple[int, ...]


def expand(matrix: Matrix) -> Expansion:
    """Expand a matrix, in the order platform, CUDA, GPUs.

    The CPU has no GPUs, so it gives one combination a platform. An exclude holds for the combinations that match all
    its keys. Without `gpus` it removes them; with `gpus` it removes those GPUs from them, and a combination only when
    none of its GPUs is left: `{ gpus = ["H200"] }` makes `["H100", "H200"]` a target for the H100. Case doesn't count
    in GPU names. Each exclude is matched against the whole product, so their order doesn't matter.
    """
    everything = tuple(_product(matrix))
    unmatched = tuple(
        index
        for index, exclude in enumerate(matrix.excludes)
        if not any(_matches(exclude, combination) for combination in everything)
    )
    left = (_without(combination, matrix.excludes) for combination in everything)
    return Expansion(tuple(combination for combination in left if combination is not None), unmatched)


def _product(matrix: Matrix) -> list[Combination]:
    combinations = []
    for (platform_index, platform), (cuda_index, cuda) in product(enumerate(matrix.platforms), enumerate(matrix.cudas)):
        if is_cpu(cuda) or not matrix.gpus:
            combinations.append(
                Combination(platform, None if is_cpu(cuda) else cuda, (), platform_index, cuda_index, None)
            )
            continue
        for gpus_index, gpus in enumerate(matrix.gpus):
            combinations.append(Combination(platform, cuda, gpus, platform_index, cuda_index, gpus_index))
    return combinations


def is_cpu(cuda: str) -> bool:
    """Return whether an element of the CUDA axis means the CPU."""
    return cuda in ("", "cpu")


def _matches(exclude: Exclude, combination: Combination) -> bool:
    cuda = combination.cuda or "cpu"
    return (
        exclude.platform in (None, combination.platform)
        and (exclude.cuda is None or (exclude.cuda or "cpu") == cuda)
        and (not exclude.gpus or any(_is_listed(gpu, exclude.gpus) for gpu in combination.gpus))
    )


def _is_listed(gpu: str, gpus: Sequence[str]) -> bool:
    return gpu.casefold() in {other.casefold() for other in gpus}


def _without(combination: Combination, excludes: Sequence[Exclude]) -> Combination | None:
    matching = [exclude for exclude in excludes if _matches(exclude, combination)]
    if any(not exclude.gpus for exclude in matching):
        return None
    gone = [gpu for exclude in matching for gpu in exclude.gpus]
    gpus = tuple(gpu for gpu in combination.gpus if not _is_listed(gpu, gone))
    if combination.gpus and not gpus:
        return None
    return Combination(
        combination.platform,
        combination.cuda,
        gpus,
        combination.platform_index,
        combination.cuda_index,
        combination.gpus_index,
    )


def target_name(combination: Combination, lookups: Lookups, *, with_platform: bool) -> str:
    """Name a combination: `cpu`, `cu128`, `cu128-sm90`, `cu128-sm80-sm90`; `with_platform` adds `-linux-aarch64`.

    Architectures stand in order of capability, each once; a GPU that no table knows gives its own name.
    """
    parts = ["cu" + combination.cuda.replace(".", "") if combination.cuda else "cpu"]
    parts += sorted({_architecture(gpu, lookups) for gpu in combination.gpus}, key=_order)
    return "-".join([*parts, combination.platform] if with_platform else parts)


def _architecture(gpu: str, lookups: Lookups) -> str:
    known = lookups.capability(gpu)
    if known is not None:
        return "sm" + known.replace(".", "")
    written = re.fullmatch(r"sm_?([0-9]{2,3})", gpu.casefold())
    return f"sm{written[1]}" if written else slug(gpu) or "gpu"


def _order(architecture: str) -> tuple[int, str]:
    match = re.fullmatch("sm([0-9]+)", architecture)
    return (int(match[1]), "") if match else (10_000, architecture)


def expand_matrix(checked: Checked, lookups: Lookups, taken: dict[str, Target]) -> list[Target]:
    """Return the targets that a matrix makes beside those `taken` already, by name. Problems go to `checked`."""
    if not checked.has("matrix", "platform") or not checked.sound_throughout("matrix"):
        return []
    matrix = checked.record(Matrix, "matrix")
    if matrix.gpus and all(map(is_cpu, matrix.cudas)):
        hint = 'add for example cuda = ["12.8"], or remove gpus for CPU targets'
        checked.problem(("matrix", "gpus"), "[matrix] has gpus but no cuda", hint, at_key=True)
        return []
    if matrix.size > MAX_COMBINATIONS:
        message = f"[matrix] has {matrix.size} combinations, more than {MAX_COMBINATIONS}"
        checked.problem(("matrix",), message, "split the spec")
        return []
    expansion = expand(matrix)
    for index in expansion.unmatched:
        hint = "an entry excludes what matches all its keys; check them, or remove the entry"
        checked.problem(("matrix", "exclude", index), f"matrix.exclude[{index}] matches no combination", hint)
    if not expansion.combinations:
        checked.problem(("matrix",), "[matrix] has no combination left", "remove an entry of exclude")
    made = []
    for combination in expansion.combinations:
        name = target_name(combination, lookups, with_platform=len(matrix.platforms) > 1)
        target = _from_combination(checked, combination, name)
        if _check_target(checked, combination, target, taken):
            taken[name] = target
            made.append(target)
    return made


def _from_combination(checked: Checked, combination: Combination, name: str) -> Target:
    places = {"platform": checked.place("matrix", "platform", combination.platform_index)}
    if combination.cuda is not None:
        places["cuda"] = checked.place("matrix", "cuda", combination.cuda_index)
    if combination.gpus_index is not None:
        places["gpus"] = checked.place("matrix", "gpus", combination.gpus_index)
    place = checked.place("matrix", at_key=True)
    return Target(name, combination.platform, combination.cuda, combination.gpus, place=place, places=places)


def _check_target(checked: Checked, combination: Combination, target: Target, taken: dict[str, Target]) -> bool:
    origin: Path = ("matrix", "platform", combination.platform_index)
    if combination.cuda is not None and combination.platform.startswith("osx"):
        hint = f'leave it out: exclude = [{{ platform = "{combination.platform}", cuda = "{combination.cuda}" }}]'
        checked.problem(origin, f"[matrix]: there is no CUDA on {combination.platform}", hint)
        return False
    if combination.gpus_index is not None:
        origin = ("matrix", "gpus", combination.gpus_index)
    elif combination.cuda is not None:
        origin = ("matrix", "cuda", combination.cuda_index)
    if not forms.TARGET_NAME.allows(target.name):
        hint = "write it as a table of its own, [targets.NAME]"
        checked.problem(origin, f"[matrix] makes a target with the bad name {show(target.name)}", hint)
        return False
    other = taken.get(target.name)
    if other is not None:
        if other.place == target.place:
            message = f"[matrix] makes the target {target.name!r} twice"
            hint = "GPUs of one architecture share a lock: put them in one list"
        else:
            message = f"[matrix] makes the target {target.name!r}, which line {other.place.line} already has"
            hint = "rename that one, or exclude this combination"
        checked.problem(origin, message, hint)
        return False
    return True
