"""Rules for a machine, torch aside: chip, CUDA, GPUs and driver, by NVIDIA's three kinds of compatibility.

native                       the toolkit's own driver or a newer one
minor-version compatibility  any driver from the major's floor on; features that need a newer driver are missing, and
                             the driver compiles no PTX that is newer than its own CUDA
forward compatibility        older branches, for data-centre and workstation GPUs, with NVIDIA's cuda-compat package in
                             the image or the environment: `cuda-compat = true` brings it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envspec.base.finding import Finding
from envspec.facts import gpus, toolkits
from envspec.facts.compute_capability import order, sm_of
from envspec.facts.gpus import Gpu
from envspec.facts.toolkits import Toolkit
from envspec.packages.version_numbers import numbers
from envspec.rules.case import Case
from envspec.spec.way import Way

SERVERS_TOO = 13
"""The first CUDA major whose wheels for Arm servers run on Jetsons too. Sources: as of `first_jetpack`."""


def problems(case: Case) -> list[Finding]:
    """Find the conflicts between a target's chip, CUDA, driver and GPUs, torch aside."""
    if older_than_tables(case):
        return [*chip_problems(case)]
    return [*chip_problems(case), *toolkit_problems(case), *driver_problems(case)]


def driver_problems(case: Case) -> Iterator[Finding]:
    """Find the faults of a target's driver; without one, only those of its `cuda-compat`."""
    if case.cuda_compat:
        yield from _against_compat(case)
    if case.driver is None:
        return
    yield from (
        list(_against_gpus(case, case.driver))
        or list(_against_products(case, case.driver))
        or _of_systems(case, case.driver)
    )
    if case.cuda is not None:
        yield from _against_cuda(case, case.driver, case.cuda)


def find_lowest_driver(case: Case, cuda: str) -> str | None:
    """Find the oldest driver that runs this CUDA on the target's platform and all its GPUs: a version, or "R570"."""
    lowest = toolkits.driver_floor(cuda, toolkits.platform_of(case.driver, case.platform))
    known = gpus.capabilities()
    branch = max((known[c].first_driver or 0 for c in case.capabilities), default=0)
    if lowest is None or branch > toolkits.branch(lowest):
        return f"R{branch}" if branch else lowest
    return lowest


def _against_compat(case: Case) -> Iterator[Finding]:
    excluded = [gpu.name for gpu in case.gpus if not gpu.forward_compatible]
    if case.cuda is not None and not case.platform.startswith("linux"):
        message = f"forward compatibility exists on Linux only, and the target is for {case.platform}"
        yield Finding("error", "cuda-compat-impossible", message, key="cuda-compat", ways=(Way(cuda_compat=False),))
    elif excluded:
        yield Finding(
            "error",
            "cuda-compat-impossible",
            f"forward compatibility is for data-centre GPUs and RTX cards of workstations, and the target has"
            f" {', '.join(excluded[:3])}",
            key="cuda-compat",
            ways=(Way(cuda_compat=False),),
        )


def _against_gpus(case: Case, driver: str) -> Iterator[Finding]:
    branch = toolkits.branch(driver)
    for capability in case.capabilities:
        known = gpus.capabilities()[capability]
        name = f"{case.names(capability)} ({sm_of(capability)})"
        if known.first_driver and branch < known.first_driver:
            yield Finding(
                "error",
                "driver-too-old-for-gpu",
                f"driver {driver} doesn't support {name}: R{known.first_driver} is the first branch that does",
                key="driver",
                remedy=_update(case, case.cuda or known.first_cuda, f"R{known.first_driver}"),
            )
        elif known.last_driver and branch > known.last_driver:
            message = f"driver {driver} has dropped {known.architecture}: {name} needs R{known.last_driver} or older"
            remedy = f"stay on driver branch R{known.last_driver}"
            yield Finding("error", "driver-dropped-gpu", message, key="driver", remedy=remedy)


def _against_products(case: Case, driver: str) -> Iterator[Finding]:
    """Judge a driver by the releases that list each product; those of Windows count as their branch.

    It is an error for data-centre GPUs. Of others the lists lag: a GeForce RTX 4090 ran with 520.56.06.
    """
    for gpu in case.gpus:
        first = _first_for(gpu, driver)
        if first is not None:
            yield Finding(
                "error" if gpu.datacentre else "warning",
                "driver-too-old-for-gpu",
                f"driver {driver} isn't among those that list {gpu.name}: {first} is the first",
                key="driver",
                remedy=f"update the driver to {first} or newer",
            )


_FIRST_LISTED = 515
"""The branch with which the lists of products begin: an older driver may know what they leave out. Source: as of
`drivers` in gpus.toml, 515.43.04."""


def _of_systems(case: Case, driver: str) -> Iterator[Finding]:
    """Report the systems whose maker wants a later driver of the same branch than their GPUs."""
    for system in gpus.systems():
        early = toolkits.branch(driver) == toolkits.branch(system.driver) and not toolkits.reaches(
            driver, system.driver
        )
        if early and any(gpu.name == system.gpu for gpu in case.gpus):
            yield Finding(
                "info",
                "driver-too-old-for-gpu",
                f"NVIDIA's GPU Operator wants driver {system.driver} or newer for {system.name}, and this is {driver}",
                key="driver",
            )


def _first_for(gpu: Gpu, driver: str) -> str | None:
    """Give the first driver that knows a product, of the driver's own branch or else of the next one that does; None
    where it knows it."""
    branch = toolkits.branch(driver)
    if branch < _FIRST_LISTED:
        return None
    later = [version for version in gpu.drivers if toolkits.branch(version) >= branch]
    if not later or (toolkits.is_windows(driver) and toolkits.branch(later[0]) == branch):
        return None
    known = toolkits.branch(later[0]) == branch and toolkits.reaches(driver, later[0])
    return None if known else later[0]


def _update(case: Case, cuda: str | None, lower_bound: str) -> str:
    """Name what to update: a Jetson's driver comes with its JetPack."""
    jetpack = first_jetpack(case, cuda) if case.integrated and cuda else None
    return f"update it to JetPack {jetpack} or newer" if jetpack else f"update the driver to {lower_bound} or newer"


def _against_cuda(case: Case, driver: str, cuda: str) -> Iterator[Finding]:
    platform = toolkits.platform_of(driver, case.platform)
    toolkit = toolkits.toolkit(cuda)
    compatible = toolkit.compatible(platform) if toolkit else None
    if toolkit is None or compatible is None:
        return
    if toolkits.reaches(driver, compatible, integrated=case.integrated):
        native = toolkits.native_or_older(toolkit, platform)
        if native and not case.integrated and not toolkits.reaches(driver, native):
            own = native if native == toolkit.native(platform) else f"{native} or newer"
            yield Finding(
                "info",
                "driver-minor-version-compatibility",
                f"driver {driver} is older than CUDA {cuda}'s own ({own}): CUDA {cuda} runs by minor-version"
                " compatibility, without features that need a newer driver (the driver can't compile its PTX)",
                key="driver",
            )
        return
    if case.integrated:
        yield _old_jetpack(case, driver, toolkit)
        return
    forward = platform == case.platform and case.gpus and all(gpu.forward_compatible for gpu in case.gpus)
    if forward and toolkits.branch(driver) in toolkit.forward_branches:
        yield _forward(case, driver, toolkit, compatible)
    elif forward and platform.startswith("linux") and not toolkit.forward_branches:
        yield _unknown_forward(case, driver, toolkit, compatible)
    else:
        whose = " of Windows, as under WSL," if platform != case.platform else ""
        compat = ", and forward compatibility doesn't reach it either" if case.cuda_compat else ""
        yield Finding(
            "error",
            "driver-too-old",
            f"driver {driver}{whose} is too old for CUDA {cuda}: its minor-version-compatibility floor is"
            f" {compatible}{compat}",
            key="driver",
            remedy=f"update the driver to {compatible} or newer",
        )


def _forward(case: Case, driver: str, toolkit: Toolkit, compatible: str) -> Finding:
    below = f"driver {driver} is below {compatible}, the floor of CUDA {toolkit.version}"
    select = "" if all(gpu.datacentre for gpu in case.gpus) else " (of RTX cards, NVIDIA supports some)"
    if case.cuda_compat:
        message = f"{below}: it runs by forward compatibility{select}, with the cuda-compat that the recipes bring"
        return Finding("info", "driver-forward-compatibility", message, key="driver")
    return Finding(
        "error",
        "driver-forward-compatibility",
        f"{below}: these GPUs run it only by forward compatibility{select}, with NVIDIA's cuda-compat package",
        key="driver",
        remedy=f"update the driver to {compatible} or newer",
        ways=(Way(cuda_compat=True, note="the recipes bring NVIDIA's package"),),
    )


def _unknown_forward(case: Case, driver: str, toolkit: Toolkit, compatible: str) -> Finding:
    first, *_, last = toolkits.with_forward_compatibility()
    message = (
        f"driver {driver} is below {compatible}, the floor of CUDA {toolkit.version}, and envspec doesn't know which"
        f" older drivers run that by forward compatibility: its table has CUDA {first.version} to {last.version}"
    )
    update = f"update the driver to {compatible} or newer"
    if case.cuda_compat:
        return Finding("warning", "driver-forward-compatibility", message, key="driver", remedy=update)
    other = Way(cuda_compat=True, note="if NVIDIA's table of forward compatibility has this driver")
    return Finding("error", "driver-too-old", message, key="driver", remedy=update, ways=(other,))


def _old_jetpack(case: Case, driver: str, toolkit: Toolkit) -> Finding:
    jetpack = first_jetpack(case, toolkit.version)
    return Finding(
        "error",
        "driver-too-old",
        f"driver {driver} of this Jetson is too old for CUDA {toolkit.version}",
        key="driver",
        remedy=f"update it to JetPack {jetpack} or newer" if jetpack else None,
    )


def first_jetpack(case: Case, cuda: str) -> str | None:
    """Find the first JetPack that runs wheels for this CUDA on a target's Jetsons; None where none does.

    Sources: NVIDIA's blog on CUDA 13.0 (Thor takes what servers take, Orin not yet); nvidia-holoscan/holohub#1687 (Orin
    with JetPack 7.2 runs PyTorch 2.11.0+cu130).
    """
    if int(cuda.partition(".")[0]) < SERVERS_TOO:
        return None
    first = {"8.7": "7.2", "11.0": "7.0"}
    capabilities = {gpu.capability for gpu in case.gpus if gpu.integrated}
    return (
        max((first[capability] for capability in capabilities), default=None) if capabilities <= first.keys() else None
    )


# Rules for GPUs on one chip with the CPU: Jetson and DRIVE run what is made for Arm, from their JetPack's CUDA on.

_LAST_CUDA = {"5.3": "10.2", "6.2": "10.2", "7.2": "11.4"}
"""The CUDA of the last JetPack for Jetsons that JetPack 6 leaves out. Sources: meta-tegra's README, whose release of
JetPack 5.1.2 has CUDA 11.4 and Xavier, and that of 6.0 no Xavier; threedots.ovh, "CUDA on NVIDIA Jetson": 4.6, with
10.2, is the last for Nano and TX2."""


def instead(case: Case) -> str:
    """Advise on a Jetson for which PyTorch has no build of its own."""
    advice = "if NVIDIA's index has PyTorch's wheels for its JetPack, name it in [pip] indexes, and torch in sources"
    last = min(
        (_LAST_CUDA[capability] for capability in case.capabilities if capability in _LAST_CUDA),
        key=numbers,
        default=None,
    )
    if case.cuda is None or last is None or numbers(case.cuda) <= numbers(last):
        return advice
    names = case.names(next(capability for capability in case.capabilities if capability in _LAST_CUDA))
    return f"no JetPack for {names} comes with a CUDA newer than {last}; {advice}"


def is_before_servers(case: Case) -> bool:
    """Return whether a target is for Jetsons, and a CUDA of which they have wheels of their own alone."""
    modules = any(gpu.integrated for gpu in case.gpus)
    return modules and case.cuda is not None and int(case.cuda.partition(".")[0]) < SERVERS_TOO


def older_than_tables(case: Case) -> str | None:
    """Give the compute capability of a Jetson whose last JetPack has a CUDA older than the tables: envspec can lock
    only CPU builds for it."""
    return next(
        (
            capability
            for capability in case.capabilities
            if capability in _LAST_CUDA and not toolkits.toolkit(_LAST_CUDA[capability])
        ),
        None,
    )


_NAMED = 2
"""The number of wheels that a message names before it counts the rest."""


def chip_problems(case: Case) -> Iterator[Finding]:
    """Find the conflicts between a target's platform and the CPUs that its GPUs share a chip or a board with, and
    between its CUDA and its Jetsons, torch aside."""
    if case.cuda is None:
        return
    if old := older_than_tables(case):
        first = toolkits.cuda_releases()[0].version
        yield Finding(
            "error",
            # of a CUDA that no table has, the table would say it again once the GPUs are left out
            "jetson" if toolkits.toolkit(case.cuda) else "no-such-cuda",
            f"the last JetPack for {case.names(old)} comes with CUDA {_LAST_CUDA[old]}, and envspec knows none before"
            f" {first}",
            key="cuda",
            ways=(Way(cpu=True),),
        )
        return
    for integrated, shared in ((True, "a chip"), (False, "a module")):
        of_kind = [gpu for gpu in case.gpus if gpu.integrated is integrated]
        elsewhere = list(dict.fromkeys(gpu.name for gpu in of_kind if gpu.platform not in (None, case.platform)))
        if elsewhere:
            share = f"share{'s' if len(elsewhere) == 1 else ''} {shared} with an Arm CPU"
            message = f"{', '.join(elsewhere)} {share}, and the target is for {case.platform}"
            ways = (Way(platform="linux-aarch64"),)
            yield Finding("error", "jetson" if integrated else "gpu-platform", message, key="gpus", ways=ways)
        elif integrated and of_kind and (jetpack := first_jetpack(case, case.cuda)):
            names = ", ".join(dict.fromkeys(gpu.name for gpu in of_kind))
            message = f"{names} runs CUDA {case.cuda} with JetPack {jetpack} or newer"
            yield Finding("info", "jetpack", message, key="gpus")


def for_servers(case: Case, wheels: Sequence[str]) -> Iterator[Finding]:
    """Find the wheels for CUDA on Arm servers that a target's Jetsons can't run, by name and version: before CUDA 13,
    they run none of these."""
    modules = [gpu for gpu in case.gpus if gpu.integrated]
    if not wheels or not is_before_servers(case) or case.platform != "linux-aarch64":
        return
    jetpack = first_jetpack(case, f"{SERVERS_TOO}.0")
    listed = ", ".join(wheels[:_NAMED]) + (f" and {len(wheels) - _NAMED} more" if len(wheels) > _NAMED else "")
    are = "are wheels" if len(wheels) > 1 else "is a wheel"
    names = ", ".join(dict.fromkeys(gpu.name for gpu in modules))
    newer = (Way(cuda=f"{SERVERS_TOO}.0", note=f"if the machines have JetPack {jetpack}"),) if jetpack else ()
    message = f"{listed} {are} for Arm servers, and {names} runs none of those before CUDA {SERVERS_TOO}"
    remedy = "if an index has wheels that are built for its JetPack, name it in [pip] indexes"
    yield Finding("error", "jetson", message, key="gpus", remedy=remedy, ways=newer)


# Rules for a CUDA toolkit against GPUs: it is too old to support one, or so new that it has dropped it.


def toolkit_problems(case: Case) -> Iterator[Finding]:
    """Find the conflicts between a target's CUDA and its GPUs, torch aside."""
    if case.cuda is None:
        return
    toolkit = toolkits.toolkit(case.cuda)
    if toolkit is None:
        yield _unknown_cuda(case.cuda)
        return
    for capability in case.capabilities:
        if toolkit.reaches(capability):
            continue
        name = f"{case.names(capability)} ({sm_of(capability)})"
        known = gpus.capabilities()[capability]
        if order(capability) < order(toolkit.first_capability):
            last = f"; CUDA {known.last_cuda} is the last that supports it" if known.last_cuda else ""
            message = f"CUDA {case.cuda} has dropped {known.architecture}: {name}{last}"
            yield Finding("error", "cuda-dropped-gpu", message, key="cuda")
        else:
            first = f"; CUDA {known.first_cuda} is the first that does" if known.first_cuda else ""
            yield Finding(
                "error", "cuda-too-old-for-gpu", f"CUDA {case.cuda} doesn't support {name}{first}", key="cuda"
            )


def _unknown_cuda(cuda: str) -> Finding:
    known = [toolkit.version for toolkit in toolkits.cuda_releases()]
    if numbers(cuda) > numbers(known[-1]):
        message = f"CUDA {cuda} is newer than any that envspec knows (up to {known[-1]})"
        return Finding("info", "cuda-newer-than-tables", message, key="cuda")
    near = min(known, key=lambda v: abs(_linear(v) - _linear(cuda)))
    ways = (Way(cuda=near, near=True),)
    return Finding("error", "no-such-cuda", toolkits.why_unknown(cuda), key="cuda", ways=ways)


def _linear(version: str) -> int:
    major, minor = numbers(version)[:2]
    return major * 20 + minor
