"""`[targets.*]` of a checked document, as targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envspec.base.errors import InputError
from envspec.base.reader.document import key_path
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import Checked
from envspec.base.texts import nearest, printable
from envspec.spec.matrix import Lookups, expand_matrix
from envspec.spec.model import Target
from envspec.spec.pip_terms import pip_terms
from envspec.spec.values import conda_dependencies, pip_dependencies

_KEYS = ("platform", "cuda", "gpus", "driver", "cpu", "cuda-compat", "glibc")


def targets(checked: Checked, lookups: Lookups) -> tuple[Target, ...]:
    """Return the targets: `[targets.*]` in the file's order, then the matrix's. Problems go to `checked`."""
    _check_gpus(checked, lookups)
    declared = [_read_target(checked, path, lookups) for path, _ in checked.children("targets")]
    if not checked.has("matrix"):
        return tuple(declared)
    return (*declared, *expand_matrix(checked, lookups, {target.name: target for target in declared}))


def _check_gpus(checked: Checked, lookups: Lookups) -> None:
    """Note each name that stands for no GPU, once, where it stands first."""
    lists = [(*path, "gpus") for path, _ in checked.children("targets")]
    lists += [path for path, _ in checked.children("matrix", "gpus")]
    named: dict[str, Path] = {}
    for path in lists:
        for place, name in checked.children(*path):
            named.setdefault(name, place)
    for name, place in named.items():
        if wrong := lookups.wrong_gpu(name):
            message, hint = wrong
            checked.problem(place, f"{key_path(place)}: {message}", hint)


def _read_target(checked: Checked, path: Path, lookups: Lookups) -> Target:
    platform = checked.value(*path, "platform")
    _check_target(checked, path, platform, lookups)
    return checked.record(
        Target,
        *path,
        name=str(path[-1]),
        platform=platform or "",
        pip=pip_dependencies(checked, *path, "pip", "dependencies"),
        conda=conda_dependencies(checked, *path, "conda", "dependencies"),
        terms=pip_terms(checked, *path, "pip"),
        place=checked.place(*path, at_key=True),
        places={key: checked.place(*path, key) for key in _KEYS if checked.has(*path, key)},
    )


def _check_target(checked: Checked, path: Path, platform: str | None, lookups: Lookups) -> None:
    for key in ("gpus", "driver", "cuda-compat"):
        if key == "gpus" and any(lookups.wrong_gpu(name) for _, name in checked.children(*path, key)):
            continue  # of an Intel or Apple GPU, a CUDA is no remedy
        if checked.has(*path, key) and not checked.has(*path, "cuda"):
            hint = f'add for example cuda = "12.8", or remove {key} for a CPU target'
            checked.problem((*path, key), f"{key_path(path)} has {key} but no cuda", hint, at_key=True)
    if checked.has(*path, "project") and not checked.has("env", "project"):
        hint = 'add to [env], for example: project = "."'
        checked.problem((*path, "project"), f"{key_path(path)} has project, and [env] has none", hint, at_key=True)
    if platform is None:
        return
    if checked.has(*path, "cuda") and platform.startswith("osx"):
        message = f"{key_path(path)}.cuda: there is no CUDA on {platform}"
        checked.problem((*path, "cuda"), message, "leave cuda out: Macs train on the CPU or on MPS")
    cpu = checked.value(*path, "cpu") if checked.has(*path, "cpu") else None
    arm = platform.endswith(("aarch64", "arm64"))
    if isinstance(cpu, str) and cpu.startswith("arm") != arm:
        hint = f'write for example cpu = "{"armv8.2-a" if arm else "x86-64-v3"}"'
        checked.problem((*path, "cpu"), f"{key_path(path)}.cpu: {cpu} isn't a processor of {platform}", hint)
    if checked.has(*path, "glibc") and not platform.startswith("linux"):
        checked.problem(
            (*path, "glibc"), f"{key_path(path)}.glibc: there is no glibc on {platform}", "leave the key out"
        )


def refuse_unknown_targets(names: Iterable[str], known: Sequence[str], whose: str) -> None:
    """Raise InputError, with a hint, for the first of `names` that isn't a target of `whose` (a spec's path, say)."""
    for name in names:
        if name not in known:
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else f"its targets: {', '.join(known)}"
            raise InputError(f"{whose} has no target {printable(name)}", hint=hint)
