"""Rules for the content of wheels: the GPUs and the CUDA that they are compiled for, and the paths of packages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.base.finding import Finding, Severity
from envspec.base.texts import few, without_unseen
from envspec.binaries.build_notes import BuildNotes
from envspec.binaries.device_code import CompiledLibrary, DeviceCode
from envspec.facts.build_labels import maker_in_name
from envspec.facts.compute_capability import (
    KINDS_OF_CODE,
    REST_UNREAD,
    can_translate,
    covers,
    read_capability,
    sm_of,
)
from envspec.facts.cuda_stack import is_for_gpus
from envspec.facts.gpu_only import least_capability
from envspec.facts.torch_builds import variant_of
from envspec.packages.version_numbers import code_order, numbers
from envspec.rules.build import compiles_ptx
from envspec.rules.case import CandidateBuild, Case

_LISTED = 3
"""The packages, or AMD's GPUs, that a message names before it counts the rest."""


class WheelBuild(Struct, frozen=True):
    """The readings of a wheel; None for a part that wasn't asked for. `paths` are those of its files that another
    package of the target has too, each with a mark of its content; `unread` is the reason why they aren't known.
    `by_content`: neither the wheel's name nor its METADATA speaks of GPUs, so it may well do without."""

    notes: BuildNotes | None = None
    code: DeviceCode | None = None
    paths: Mapping[str, str] | None = None
    unread: str | None = None
    by_content: bool = False

    @property
    def built_for(self) -> BuildNotes:
        """The CUDA that a wheel was built for, by its notes, or else by the CUDA libraries that it loads."""
        if self.notes is not None and self.notes != BuildNotes():
            return self.notes
        libraries = self.code.libraries if self.code else ()
        loading = [library for library in libraries if library.cuda]
        if self.by_content and len(loading) < len(libraries):
            return BuildNotes()  # what a part of it needs isn't what it is for
        majors = {major for library in loading for major in library.cuda}
        # several are there to choose from
        return BuildNotes(majors.pop(), member=loading[0].member) if len(majors) == 1 else BuildNotes()

    def runs_on(self, capabilities: Collection[str]) -> bool:
        """Return whether code was found for each of these capabilities."""
        libraries = self.code.libraries if self.code else ()
        return all(any(_runs(library, capability, self) for library in libraries) for capability in capabilities)

    def is_undecided(self, capabilities: Collection[str], major: str) -> bool:
        """Return whether the part read so far of a wheel for GPUs has no machine code for one of these capabilities. A
        wheel is for GPUs by its name, its METADATA or the content of that part."""
        if self.code is None or self.code.complete or (self.by_content and not self.code.libraries):
            return False
        libraries = _loadable_libraries(self.code, major)
        return not all(any(_has_sass(library, gpu, self) for library in libraries) for gpu in capabilities)

    @property
    def is_for_cpus(self) -> bool:
        """Return whether the whole of it was read, and nothing in it is compiled for a GPU or loads CUDA."""
        code = self.code
        # one without anything compiled, or any word of it, is no build of its code
        return bool(code and (code.listed or code.read) and code.complete and not code.libraries and not self.cuda)

    @property
    def cuda(self) -> str | None:
        return self.notes.cuda if self.notes else None


_LOADED = re.compile(r"\.py$|\.so(?:\.\d+)*$")
"""nixl-cu12 and nixl-cu13 share the headers of asio and three example programs."""


def not_beside(name: str, other: str, read: Mapping[str, WheelBuild]) -> str | None:
    """Give the reason why a library can't be in a target with its counterpart for another CUDA: both install a path
    that programs load. None where it can, or where a wheel wasn't read."""
    paths = (read[name].paths if name in read else None) or ()
    other_paths = set((read[other].paths if other in read else None) or ())
    shared = next((path for path in paths if path in other_paths and _LOADED.search(path)), None)
    return f": it and {other} both install {without_unseen(shared[-80:])}" if shared else None


def of_torch(version: str, build: WheelBuild, triton: str | None) -> CandidateBuild | None:
    """Describe the build of a torch that no table has, by its wheel's content. None where that says too little."""
    library = next(iter(build.code.libraries), None) if build.code else None
    if library is None or build.cuda is None:
        return None
    variant = variant_of(build.cuda)
    return CandidateBuild(
        *(version, variant, build.cuda, library.sm, library.ptx, (), None, None, "binary", "pip"), triton=triton
    )


def torch_notice(version: str, build: CandidateBuild) -> Finding:
    """Report that the architectures of a torch are known from its wheel."""
    message = (
        f"envspec has no facts for torch {version}: its wheel says CUDA {build.cuda} and "
        f"{', '.join([*map(sm_of, build.sm), *(f'PTX of {capability}' for capability in build.ptx)])}"
    )
    return Finding("info", "torch-newer-than-tables", message, key="torch")


def problems(
    case: Case, pins: Mapping[str, str], read: Mapping[str, WheelBuild], own: Collection[str] = ()
) -> Iterator[Finding]:
    """Find the wheels without code for a GPU of the target, torch aside: missing code where all of a wheel was read,
    possibly missing code where a part was. `own` names the builds that aren't PyPI's."""
    major = case.cuda.partition(".")[0] if case.cuda else None
    for name, version in sorted(pins.items()):
        build = read.get(name)
        if name == "torch" or build is None or build.code is None or major is None:
            continue
        if name in own and is_for_gpus(name) and build.is_for_cpus:
            yield _cpu_build(name, version, case)
        findings = (
            *_of_another_maker(name, version, build.code, case),
            *_of_another_library(name, version, build.code, pins, major),
            *_of_another_version(name, version, build.code.versions, case.cuda or ""),
        )
        for finding in findings:
            # one that doesn't say that it is for GPUs may work without another library
            yield replace(finding, severity="warning", bound=None) if build.by_content and finding.bound else finding
        libraries = _loadable_libraries(build.code, major)
        for capability in case.capabilities:
            if libraries and not any(_runs(library, capability, build) for library in libraries):
                yield _problem(f"{name} {version}", libraries, build.code, capability, case)
            elif (
                libraries
                and build.code.complete
                and not any(_has_sass(library, capability, build) for library in libraries)
            ):
                yield _ptx_alone(f"{name} {version}", libraries, build, capability, case)


class _Brought(Struct, frozen=True):
    """brings  the packages of PyPI and conda-forge that bring a library
    ask     PyPI's package, `##` for the CUDA major
    label   the name of a library whose own major counts; None for CUDA's own, which has CUDA's number
    rarely  it serves several GPUs, or another engine: a wheel does without
    """

    brings: re.Pattern[str]
    ask: str
    label: str | None = None
    rarely: bool = False


_BROUGHT = {
    "cudart": _Brought(
        re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?|cuda-cudart|cudatoolkit"), "nvidia-cuda-runtime-cu##"
    ),
    "cublas": _Brought(re.compile(r"nvidia-cublas(?:-cu\d+)?|libcublas|cudatoolkit"), "nvidia-cublas-cu##"),
    "cudnn": _Brought(re.compile(r"nvidia-cudnn-cu\d+|(?:lib)?cudnn"), "nvidia-cudnn-cu##", "cuDNN"),
    "nccl": _Brought(re.compile(r"nvidia-nccl-cu\d+|nccl"), "nvidia-nccl-cu##", "NCCL", rarely=True),
    "nvinfer": _Brought(re.compile(r"tensorrt(?:-cu\d+)?(?:-libs)?"), "tensorrt-cu##", "TensorRT", rarely=True),
}


def missing_libraries(
    case: Case, pins: Mapping[str, str], read: Mapping[str, WheelBuild], own: Collection[str] = ()
) -> Iterator[Finding]:
    """Find the wheels that load CUDA's runtime, cuBLAS or cuDNN, which no package of the target brings: some can't be
    imported, and onnxruntime and ctranslate2 compute on the CPU. NCCL and TensorRT serve several GPUs and another
    engine: where one is missing, that is a note. A wheel that doesn't say that it is for GPUs may do without all. A
    build of one's `own` is linked against a toolkit of its maker's choice, and a Jetson's system has them.
    """
    if case.cuda is None or case.integrated:
        return
    major = case.cuda.partition(".")[0]
    brought = {library for library, source in _BROUGHT.items() if any(map(source.brings.fullmatch, pins))}
    if "torch" in pins and "cublas" not in brought:
        brought |= _BROUGHT.keys() - {"nvinfer"}  # its wheels held them all up to 2.0, and do for CUDA 11.8
    for name, build in sorted(read.items()):
        libraries = [
            compiled for compiled in (build.code.libraries if build.code else ()) if compiled.only in (None, major)
        ]
        loaded = {
            load.partition(".")[0]: load.partition(".")[2]
            for library in libraries
            for load in sorted(library.loads)
            if load.partition(".")[0] != "cudnn" or not _binds(library, "cudnn")
        }
        if (
            name not in pins
            or name in own
            or build.by_content
            or not any(major in library.cuda for library in libraries)
        ):
            continue
        for rarely in (False, True):
            lacking = [needed for needed in loaded if needed not in brought and _BROUGHT[needed].rarely is rarely]
            if lacking:
                yield _missing(
                    f"{name} {pins[name]}", {needed: loaded[needed] for needed in _BROUGHT if needed in lacking}, major
                )


def _missing(label: str, lacking: Mapping[str, str], major: str) -> Finding:
    listed = ", ".join(
        f"lib{library}.so.{own if _BROUGHT[library].label else major}" for library, own in lacking.items()
    )
    them = "it" if len(lacking) == 1 else "them"
    message = f"{label} loads {listed}, and no package of the target brings {them}"
    add = f"add {', '.join(_package_of(library, major, own) for library, own in lacking.items())} to [pip] dependencies"
    package = label.partition(" ")[0]
    if all(_BROUGHT[library].rarely for library in lacking):
        use = f"{add} if you use {' or '.join(str(_BROUGHT[library].label) for library in lacking)}"
        return Finding("info", "cuda-library-missing", message, key="cuda", remedy=use, package=package)
    remedy = f"{add}, unless the machines or the base image have the same"
    return Finding("warning", "cuda-library-missing", message, key="cuda", remedy=remedy, package=package)


def _package_of(library: str, major: str, own: str) -> str:
    name = _BROUGHT[library].ask.replace("##", major)
    if _BROUGHT[library].label:
        return f"{name}=={own}.*"
    # CUDA's own have had a package without its number since CUDA 13
    return name.rpartition("-cu")[0] if int(major) >= 13 else name


def _binds(module: CompiledLibrary, library: str) -> bool:
    """Return whether a module is named after a library: it binds it for those who ask, and the rest goes without it, as
    cupy does (cupy/cuda/cudnn.py in 13.6.0's wheel)."""
    return posixpath.basename(module.member).partition(".")[0] == library


def _of_another_maker(name: str, version: str, code: DeviceCode, case: Case) -> Iterator[Finding]:
    """Find a wheel with HIP code and nothing for CUDA: a build for AMD's GPUs. One with both is right for either."""
    amd = [library for library in code.libraries if library.hip is not None]
    if not amd or any(library.sm or library.ptx or library.cuda for library in code.libraries) or maker_in_name(name):
        return
    gpus = sorted({gpu for library in amd for gpu in library.hip or ()})
    listed = f" ({few(gpus, _LISTED)})" if gpus else ""
    message = (
        f"{name} {version} is built for AMD's GPUs{listed}, as {without_unseen(amd[0].member[-80:])} in its wheel says,"
        f" and the target has CUDA {case.cuda}: nothing in {'it' if code.complete else 'the part that was read'} is "
        "compiled for CUDA"
    )
    severity: Severity = "error" if code.complete else "warning"
    yield Finding(severity, "built-for-another", message, key="cuda", package=name)


def _of_another_library(
    name: str, version: str, code: DeviceCode, pins: Mapping[str, str], major: str
) -> Iterator[Finding]:
    """Find a wheel that loads another cuDNN, NCCL or TensorRT than the target's, whose library has its major in its
    name. Of TensorRT and NCCL that is a warning where only a part of the wheel loads them."""
    for library, brought in _BROUGHT.items():
        locked = {of for package, of in pins.items() if brought.label and brought.brings.fullmatch(package)}
        loading = [
            compiled
            for compiled in code.libraries
            if compiled.majors(library) and compiled.only in (None, major) and not _binds(compiled, library)
        ]
        required = sorted({needed for each in loading for needed in each.majors(library)}, key=int)
        if not locked or not required or {own_version.partition(".")[0] for own_version in locked} & {*required}:
            continue
        own, member = min(locked), without_unseen(loading[0].member[-80:])
        message = (
            f"{name} {version} loads {brought.label} {' or '.join(required)}, as {member} in its wheel says, and the"
            f" target has {brought.label} {own}"
        )
        finding = _another(name, version, message, int(required[-1]) < int(own.split(".")[0]))
        part = brought.rarely and len(loading) < len(code.libraries)
        yield replace(finding, severity="warning", bound=None) if part else finding


_EXACTLY = {"bitsandbytes": "0.50.0"}
"""Packages that load the library named for just torch's CUDA, and the release since which another minor will do.
Source: bitsandbytes/cextension.py in the wheels of 0.44.0 to 0.50.2 on PyPI, read 2026-11-24."""


def _of_another_version(name: str, version: str, versions: Sequence[str], cuda: str) -> Iterator[Finding]:
    """Find a wheel that chooses a library by the CUDA in its name, and has none for the target's."""
    exact = name in _EXACTLY and Version(version) < Version(_EXACTLY[name])
    if not versions or any(
        built_for == cuda if exact else built_for.split(".")[0] == cuda.split(".")[0] for built_for in versions
    ):
        return
    message = f"{name} {version} has libraries for CUDA {', '.join(versions)}, and none that it loads with CUDA {cuda}"
    yield _another(name, version, message, numbers(versions[-1]) < numbers(cuda))


def _another(name: str, version: str, message: str, outgrown: bool) -> Finding:
    bound = f"{name}{'>' if outgrown else '<'}{version.partition('+')[0]}"
    return Finding("error", "built-for-another", message, key="cuda", bound=bound, outgrown=outgrown)


def _cpu_build(name: str, version: str, case: Case) -> Finding:
    evidence = "nothing in its wheel is compiled for a GPU or loads CUDA"
    message = f"{name} {version} is a CPU build: {evidence}, and the target is for CUDA {case.cuda}"
    remedy = "`envspec inspect` says what a wheel holds"
    return Finding("error", "wheel-architecture", message, key="cuda", remedy=remedy)


def _loadable_libraries(code: DeviceCode, major: str) -> list[CompiledLibrary]:
    """Give the libraries with code that a target of this CUDA major loads."""
    compiled = [library for library in code.libraries if library.sm or library.ptx]
    return [library for library in compiled if library.only in (None, major)]


def _runs(library: CompiledLibrary, capability: str, build: WheelBuild) -> bool:
    return _has_sass(library, capability, build) or can_translate(library.ptx, capability)


def _has_sass(library: CompiledLibrary, capability: str, build: WheelBuild) -> bool:
    return covers(library.sm, capability, library.compiler or build.cuda)


def _ptx_alone(
    name: str, libraries: Sequence[CompiledLibrary], build: WheelBuild, capability: str, case: Case
) -> Finding:
    """Report a wheel whose every kernel is PTX for a GPU: a warning where a framework's list of architectures ends
    before the GPU's generation, and wrong where the driver is too old."""
    ptx = sorted(
        {text for library in libraries for text in library.ptx if can_translate((text,), capability)}, key=_order
    )
    message = f"{name} has no machine code for {sm_of(capability)} ({case.names(capability)}), only PTX of {ptx[-1]}"
    remedy = "take a release or a build that is compiled for this GPU; `envspec inspect` says what a wheel holds"
    if not compiles_ptx(case, build.cuda):
        message += f", and driver {case.driver} compiles none of CUDA {build.cuda}"
        newer = "if the machines can have it, update the driver; `envspec inspect` says what a wheel holds"
        return Finding("error", "ptx-newer-than-driver", message, key="gpus", remedy=newer)
    message += ": the driver compiles every kernel at its first use"
    if build.code is not None and build.code.listed and _order(ptx[-1])[0] < _order(capability)[0]:
        return Finding("warning", "ptx-only", message, key="gpus", remedy=remedy)
    return Finding("info", "ptx-only", message, key="gpus")


def _problem(name: str, libraries: Sequence[CompiledLibrary], code: DeviceCode, capability: str, case: Case) -> Finding:
    lacks = f"{sm_of(capability)} ({case.names(capability)})"
    listed = ", ".join([*_machine_code(libraries), *(f"PTX of {text}" for text in _ptx(libraries))])
    if code.complete:
        message = f"{name} has no code for {lacks}: its wheel's code for CUDA {case.cuda} is for {listed}"
        remedy = "take a release or a build that is compiled for this GPU; `envspec inspect` says what a wheel holds"
        return Finding("warning", "wheel-architecture", message, key="gpus", remedy=remedy)
    message = (
        f"{name} may have no code for {lacks}: what was read of its wheel's code for CUDA {case.cuda} is for {listed}, "
        "and the rest wasn't read"
    )
    remedy = "`envspec inspect` reads the whole wheel"
    # of a lock's own wheels the rest wasn't asked for: they were read for other GPUs
    return Finding("info" if code.read else "warning", "wheel-architecture", message, key="gpus", remedy=remedy)


def _machine_code(libraries: Iterable[CompiledLibrary]) -> list[str]:
    return sorted({text for library in libraries for text in library.sm}, key=_order)


def _ptx(libraries: Iterable[CompiledLibrary]) -> list[str]:
    return sorted({text for library in libraries for text in library.ptx}, key=_order)


# A wheel's code as a lock has it: the architectures of the libraries that its target loads, together.

_AS_LISTED = "listed"


def locked_code(build: WheelBuild, cuda: str) -> tuple[str, ...]:
    """Give the code of a wheel in a target of this CUDA as texts: "cuda_12.8" (or the major alone) that compiled it,
    where that is one, "sm_90" for machine code, "compute_90" for PTX, "listed" where its maker listed the
    architectures, and "rest-unread" of one that was read in part. Empty for a wheel without code."""
    libraries = _loadable_libraries(build.code, cuda.partition(".")[0]) if build.code else []
    if build.code is None or not libraries:
        return ()
    compilers = {build.cuda} if build.cuda else {library.compiler for library in libraries}
    return tuple(
        sorted(
            (
                *(f"cuda_{compiler}" for compiler in compilers if compiler and len(compilers) == 1),
                *map(sm_of, _machine_code(libraries)),
                *(f"compute_{read_capability(capability)}" for capability in _ptx(libraries)),
                *((_AS_LISTED,) if build.code.listed else ()),
                *(() if build.code.complete else (REST_UNREAD,)),
            ),
            key=code_order,
        )
    )


def build_of(code: Collection[str]) -> WheelBuild:
    """Read a build back from the texts of `locked_code`."""
    values: dict[str, list[str]] = {kind: [] for kind in KINDS_OF_CODE}
    for text in code:
        kind, _, value = text.partition("_")
        values.get(kind, []).append(value)
    sm, ptx = (tuple(map(_capability, values[kind])) for kind in ("sm", "compute"))
    cuda = next(iter(values["cuda"]), None)
    library = CompiledLibrary("", sm, ptx, cuda and cuda.partition(".")[0])
    notes = BuildNotes(cuda if cuda and "." in cuda else None)
    return WheelBuild(notes, DeviceCode((library,), listed=_AS_LISTED in code, complete=REST_UNREAD not in code))


def _capability(number: str) -> str:
    architecture = read_capability(number)
    return f"{architecture.capability}{architecture.feature}"


def of_sources(case: Case, pins: Mapping[str, str], read: Mapping[str, WheelBuild]) -> Iterator[Finding]:
    """Find the packages built from source whose makers wrote no kernels for a GPU of the target, whatever architectures
    the build is asked for. Code read in a wheel counts before this."""
    for name, version in sorted(pins.items()):
        least = None if case.cuda is None or (name in read and read[name].code) else least_capability(name, version)
        for capability in case.capabilities if least else ():
            if _order(capability) < _order(str(least)):
                lacks = f"{sm_of(capability)} ({case.names(capability)})"
                message = f"{name} {version} has no code for {lacks}: its kernels are for {least} and newer"
                remedy = "list it in the targets of newer GPUs only"
                yield Finding("warning", "wheel-architecture", message, key="gpus", remedy=remedy, package=name)


def _order(text: str) -> tuple[int, int, str]:
    major, _, minor = text.rstrip("af").partition(".")
    return int(major), int(minor), text


# Rules for packages that have one path with different content: the content of the one that is installed last stays.

_ASIDE = ("test", "tests", "testing", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts")
"""Folders that wheels carry by mistake, and are imported by none."""


def conda_owner(name: str) -> str:
    """Give the name under which a conda package's paths stand beside those of wheels."""
    return f"{name} from conda"


def overlap_problems(
    order: Sequence[str], read: Mapping[str, WheelBuild], conda: Collection[str] = ()
) -> Iterator[Finding]:
    """Find the files that wheels overwrite of each other and of conda's packages, as far as these were read; an unread
    package counts by its name. `order` is that of installation; `conda` names conda's packages, which come before."""
    first = {name: conda_owner(name) for name in sorted(conda)}
    for name in sorted(name for name in {*order} & {*conda} if (read.get(first[name]) or WheelBuild()).paths is None):
        message = f"{name} is from conda and from pip: of a path that both have, as of a program {name}, pip's stays"
        yield Finding("info", "shared-path", message, key="platform")
    order = [*first.values(), *order]
    unread = {name: read[name].unread for name in sorted(order) if name in read and read[name].unread}
    if unread:
        why = next(iter(unread.values()))
        message = f"the paths of {few([*unread], _LISTED)} aren't compared with other packages': {why}"
        yield Finding("info", "not-inspected", message, key="platform")
    together: dict[tuple[str, ...], list[str]] = {}
    owners: dict[str, list[tuple[str, str]]] = {}
    for name in order:
        for path, content in ((read[name].paths if name in read else None) or {}).items():
            owners.setdefault(path, []).append((name, content))
    for path, pairs in sorted(owners.items()):
        # of a path that conda's packages alone have, rattler decides
        if len({content for _, content in pairs}) > 1 and pairs[-1][0] not in first.values():
            together.setdefault(tuple(name for name, _ in pairs), []).append(path)
    for names, paths in sorted(together.items()):
        modules = [path for path in paths if _is_module(path)]
        shown = without_unseen(posixpath.normpath(f"lib/python/site-packages/{(modules or paths)[0]}")[-80:])
        shown = shown.removeprefix("lib/python/site-packages/")
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        are = "is" if len(paths) == 1 else "are"
        message = f"{shown}{more} {are} in {' and '.join(sorted(names))}, with different content: {names[-1]}'s stays"
        if modules:
            keep = "keep one of them: an override leaves the other out where a package requires it"
            yield Finding("warning", "same-modules", message, key="platform", remedy=keep)
        else:
            yield Finding("info", "shared-path", message, key="platform")


def _is_module(path: str) -> bool:
    """Return whether a path from site-packages is a module that programs import."""
    return path.endswith((".py", ".so")) and not path.startswith("..") and path.partition("/")[0] not in _ASIDE
