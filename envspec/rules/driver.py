"""Rules for drivers against CUDA and GPUs, by NVIDIA's three kinds of compatibility.

native                       the toolkit's own driver or a newer one
minor-version compatibility  any driver from the major's floor on; features that need a newer driver are missing
forward compatibility        older data-centre branches, with NVIDIA's cuda-compat package on the machine; no wheel
                             holds it
"""

from __future__ import annotations

from collections.abc import Iterator

from envspec.facts import gpus, toolkits
from envspec.facts.compute_capability import sm_of
from envspec.packages.version_numbers import numbers
from envspec.rules.case import Case, Problem


def problems(case: Case) -> Iterator[Problem]:
    """Find what is wrong with a target's driver; nothing if the target names none."""
    if case.driver is None:
        return
    yield from _against_gpus(case, case.driver)
    if case.cuda is not None:
        yield from _against_cuda(case, case.driver, case.cuda)


def floor(case: Case, cuda: str) -> str | None:
    """Find the oldest driver that runs this CUDA on the target's platform and all its GPUs: a version, or "R570"."""
    lowest = toolkits.driver_floor(cuda, case.platform)
    known = gpus.capabilities()
    branch = max((known[c].first_driver or 0 for c in case.capabilities), default=0)
    if lowest is None or branch > numbers(lowest)[0]:
        return f"R{branch}" if branch else lowest
    return lowest


def _against_gpus(case: Case, driver: str) -> Iterator[Problem]:
    branch = numbers(driver)[0]
    for capability in case.capabilities:
        known = gpus.capabilities()[capability]
        name = f"{case.names(capability)} ({sm_of(capability)})"
        if known.first_driver and branch < known.first_driver:
            yield Problem(
                "error",
                "driver-too-old-for-gpu",
                "driver",
                f"driver {driver} doesn't support {name}: R{known.first_driver} is the first branch that does",
                f"update the driver to R{known.first_driver} or newer",
            )
        elif known.last_driver and branch > known.last_driver:
            yield Problem(
                "error",
                "driver-dropped-gpu",
                "driver",
                f"driver {driver} has dropped {known.architecture}: {name} needs R{known.last_driver} or older",
                f"stay on driver branch R{known.last_driver}",
            )


def _against_cuda(case: Case, driver: str, cuda: str) -> Iterator[Problem]:
    toolkit = toolkits.toolkit(cuda)
    compatible = toolkit.compatible(case.platform) if toolkit else None
    if toolkit is None or compatible is None:
        return
    native = toolkit.native(case.platform)
    if numbers(driver) >= numbers(compatible):
        if native and numbers(driver) < numbers(native):
            yield Problem(
                "info",
                "driver-minor-version-compatibility",
                "driver",
                f"driver {driver} is older than CUDA {cuda}'s own ({native}): CUDA {cuda} runs by minor-version"
                " compatibility, without features that need a newer driver (the driver can't compile its PTX)",
            )
        return
    branch = numbers(driver)[0]
    if branch in toolkit.forward_branches and case.gpus and all(gpu.datacentre for gpu in case.gpus):
        yield Problem(
            "error",
            "driver-forward-compatibility",
            "driver",
            f"driver {driver} is below {compatible}, the floor of CUDA {cuda}: these data-centre GPUs run it only by"
            " forward compatibility, with NVIDIA's cuda-compat package on every machine, which no environment installs",
            f"update the driver to {compatible} or newer; or install cuda-compat-{cuda.replace('.', '-')} on the"
            " machines and leave `driver` out of the target",
        )
        return
    yield Problem(
        "error",
        "driver-too-old",
        "driver",
        f"driver {driver} is too old for CUDA {cuda}: its minor-version-compatibility floor is {compatible}",
        f"update the driver to {compatible} or newer",
    )
