"""Compare this machine's driver and GPUs with what an image was locked for, before torch is imported.

Needs Python 3.8 or newer, and the smoke check beside it. Takes the path of a `target.json`, else the one beside this
file. Says in one line on stderr what is wrong and what to do. Only what the driver itself says stops a
start; what the lock knows from tables is a warning, once a node.

ENVSPEC_LOCK names the slices that a job was made for, as TARGET=DIGEST. An image of none of them isn't started.
`--locks PATH...` prints these words for the named files, `--manifest FILE` a Kubernetes manifest with those of the
target.json beside it; `--look` prints the GPUs, the driver's CUDA and the NVLinks, and judges nothing.
Exits with 0 when the image can work here or when nothing can tell, 1 when it can't, 2 when target.json can't be read.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

FOLDER = os.path.dirname(os.path.abspath(__file__))
# a folder in what is built, one file among recipes
sys.path[:0] = [os.path.join(FOLDER, name) for name in ("check", "envspec-check.pyz")]

from envspec_check.capability import covers  # noqa: E402
from envspec_check.lock import numbers, read_target  # noqa: E402
from envspec_check.nvml import Nvml, kernel_driver  # noqa: E402


class Gpu(NamedTuple):
    name: str
    capability: str


class Machine(NamedTuple):
    """The machine's hardware: the driver's version, None where there is none, and the GPUs.

    `nvml` says whether NVML answered: without it GPUs can't be seen, only the driver. `cuda` is the driver's own CUDA,
    up to which it compiles PTX; None where it didn't say. `links` counts the NVLinks that are up.
    """

    driver: str | None
    gpus: tuple[Gpu, ...]
    nvml: bool
    cuda: str | None = None
    links: int = 0


class Verdict(NamedTuple):
    """`stop` ends the start; `text` is one line, or empty."""

    stop: bool
    text: str


FINE = Verdict(False, "")


def judge(target: dict[str, Any], machine: Machine) -> Verdict:
    """Judge a machine for a target."""
    cuda = target.get("cuda")
    if not cuda:
        return FINE
    if machine.driver is None:
        return Verdict(
            False,
            f"no NVIDIA driver is visible, and this image is for CUDA {cuda}: start it with the GPUs"
            " (docker run --gpus all, apptainer exec --nv), on a machine that has them",
        )
    known = numbers(machine.driver)
    # with cuda-compat in the image, the driver's word isn't the last; which branches that serves, a table says
    compat, branches = "forward_branches" in target, target.get("forward_branches") or []
    if machine.cuda and numbers(machine.cuda)[0] < numbers(cuda)[0] and not compat:
        return Verdict(
            True,
            f"the driver {machine.driver} says that it runs CUDA {machine.cuda} at most, and this image is for CUDA"
            f" {cuda}: update the driver, or use a target of {target.get('spec')} with an older CUDA",
        )
    floor = target.get("driver_floor")
    if floor and known < numbers(floor) and known[0] not in branches:
        floor += f", or one that cuda-compat serves ({', '.join(map(str, branches)) or 'unknown'})" if compat else ""
        return Verdict(False, f"the driver is {machine.driver}, and CUDA {cuda} on this target's GPUs needs {floor}")
    if not machine.nvml:
        return Verdict(
            False,
            f"the driver {machine.driver} is loaded, but its libraries aren't visible: start with the GPUs"
            " (docker run --gpus all, apptainer exec --nv)",
        )
    if not machine.gpus:
        return Verdict(False, "no GPU is visible: give this job one (docker run --gpus all, sbatch --gpus 1)")
    return _judge_gpus(target, machine.gpus, machine.cuda)


def _judge_gpus(target: dict[str, Any], gpus: Sequence[Gpu], driver_cuda: str | None) -> Verdict:
    cuda = target.get("cuda")
    locked = target.get("architectures") or []
    code = target.get("code") or {"sm": locked, "ptx": []}
    # a driver compiles no PTX that is newer than its own CUDA
    newer = driver_cuda is not None and numbers(driver_cuda) < numbers(cuda or "0")
    flags = [*code["sm"], *("compute_" + architecture for architecture in ([] if newer else code["ptx"]))]
    without = [gpu for gpu in gpus if not covers(flags, gpu.capability, cuda)]
    if without:
        return Verdict(
            False,
            f"{_names(without)} can't run this image, by the lock's facts: its PyTorch has code for"
            f" {', '.join(code['sm'])}: use a target of {target.get('spec')} that is for it",
        )
    expected = " or ".join(target.get("gpus") or []) or "other GPUs"
    unlike = [gpu for gpu in gpus if locked and not covers(locked, gpu.capability, cuda)]
    text = f"this image was locked for {expected}, and here is {_names(unlike)}: torch runs on it, others may not"
    return Verdict(False, text) if unlike else FINE


def _names(gpus: Sequence[Gpu]) -> str:
    return ", ".join(sorted({f"{gpu.name} ({gpu.capability})" for gpu in gpus}))


def look(load: Callable[[], Any] = lambda: None, version_file: str = "/proc/driver/nvidia/version") -> Machine:
    """This machine, by NVML where its library is there, else by what the kernel module says of itself."""
    try:
        nvml = Nvml(load())
    except (OSError, AttributeError):
        return Machine(kernel_driver(version_file), (), False)
    try:
        gpus = tuple(Gpu(*gpu) for gpu in nvml.gpus())
        return Machine(nvml.driver() or kernel_driver(version_file), gpus, True, nvml.cuda(), nvml.links())
    finally:
        nvml.library.nvmlShutdown()


def describe(machine: Machine) -> str:
    """The machine as lines, a name in front of each; what isn't here is "none"."""
    lines = [
        *([f"GPU: {gpu.name} ({gpu.capability})" for gpu in machine.gpus] or ["GPU: none"]),
        f"driver: {machine.driver or 'none'}" + (f", CUDA {machine.cuda}" if machine.cuda else ""),
        f"NVLinks up: {machine.links or 'none'}",
    ]
    return "\n".join(lines) + "\n"


def words(target: dict[str, Any]) -> str:
    """The words of ENVSPEC_LOCK for a slice."""
    return f"{target.get('target')}={target.get('lock_digest')}"


def with_slice(manifest: str) -> str:
    """A manifest whose containers compare their image with the slice beside it; the file itself names none, for git."""
    own = json.dumps(words(read_target(os.path.join(os.path.dirname(manifest), "target.json"))))
    with open(manifest, encoding="utf-8") as file:
        text = file.read()
    asks = f"env: [{{ name: ENVSPEC_LOCK, value: {own} }}]"
    return re.sub("^( +)image: .*$", lambda match: f"{match[0]}\n{match[1]}{asks}", text, flags=re.MULTILINE)


def main(arguments: Sequence[str], look: Callable[[], Machine] = look) -> int:
    if list(arguments) == ["--look"]:
        sys.stdout.write(describe(look()))
        return 0
    *named, path = arguments or [os.path.join(FOLDER, "target.json")]
    try:
        if named == ["--manifest"]:
            sys.stdout.write(with_slice(path))
            return 0
        if named:
            slices = [read_target(file) for file in (*named[1:], path)]
            sys.stdout.write(" ".join(map(words, slices)) + "\n")
            return 0
        target = read_target(path)
        if not isinstance(target, dict):
            raise ValueError("it holds no table")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"envspec: {path} can't be read ({error}); ENVSPEC_SKIP_PREFLIGHT=1 starts without it\n")
        return 2
    expected = os.environ.get("ENVSPEC_LOCK", "").split()
    if expected and words(target) not in expected:
        sys.stderr.write(
            "envspec: error: this image is of another lock than the job: make the image anew, or export the job anew"
            " (an empty ENVSPEC_LOCK takes any image)\n"
        )
        return 1
    if not target.get("cuda"):
        return 0
    verdict = judge(target, look())
    if not verdict.text or (not verdict.stop and os.environ.get("SLURM_LOCALID", "0") != "0"):
        return 0
    kind, how = ("error", " (ENVSPEC_SKIP_PREFLIGHT=1 starts anyway)") if verdict.stop else ("warning", "")
    sys.stderr.write(f"envspec: {kind}: {' '.join(verdict.text.split())}{how}\n")
    return int(verdict.stop)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
