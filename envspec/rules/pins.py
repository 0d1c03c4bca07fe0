"""The rules on exact versions, for the pins of a resolver: on CPU targets, and on frameworks beside torch, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envspec.base.errors import Place
from envspec.base.finding import Finding, Severity
from envspec.facts import gpu_only, gpus, libraries, torch_builds
from envspec.facts.build_labels import cuda_in, label_of, maker_in_name, other_maker
from envspec.facts.compute_capability import can_translate, covers, sm_of
from envspec.facts.cuda_stack import TORCH, VERSIONED_BY_CUDA, cuda_major_in, holds_code_for_gpus, of_both_majors
from envspec.facts.frameworks import Framework, frameworks, wanted_drivers
from envspec.facts.libraries import LibraryWheel
from envspec.facts.neighbours import of_release as neighbours_of
from envspec.facts.reach import library_is_newer
from envspec.facts.toolkits import branch, is_windows
from envspec.facts.wheels import FAMILY
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.packages.version_numbers import numbers
from envspec.rules import nearest, neighbours, wheel_code
from envspec.rules.build import compiler, problems
from envspec.rules.case import CandidateBuild, Case, apply_acceptances, conda_builds_of, pip_builds
from envspec.rules.judge import case_of, locate
from envspec.rules.machine import for_servers
from envspec.rules.wanted import COMPANIONS, FamilyRequirement, parse, torch_of
from envspec.rules.wheel_code import WheelBuild
from envspec.spec.model import Located, Spec, Target
from envspec.spec.way import Way

# Rules for CPU targets: packages made for GPUs, which install there and do nothing or fail at import.

_NAMED = re.compile(r"[\w-]+-gpu|[\w-]+-cu(?:da)?\d\d\d?x?(?:-[\w-]+)?")
"""onnxruntime-gpu, nvidia-dali-cuda120, jax-cuda12-plugin."""


def _without_gpu(
    case: Case,
    pins: Mapping[str, str],
    needs: Mapping[str, Iterable[str]],
    origins: Mapping[str, neighbours.Origin],
    is_cuda: Callable[[str], bool],
) -> Iterator[Finding]:
    """Find the pins of a CPU target that are made for GPUs. torch and its companions for CUDA are judged apart.

    `needs` has the names that each pin requires; `is_cuda` says whether a name is one of CUDA's own packages.
    """
    if case.cuda is not None:
        return
    for name, version in sorted(pins.items()):
        if is_cuda(name):
            continue
        label = label_of(version, origins[name].file if name in origins else None)
        known = None if name in FAMILY else gpu_only.needs_gpu(name, version, case.platform)
        if known:
            yield _problem(f"{name} {version}", "CUDA", f": {known.what}", known.instead)
        elif other := (label and label.other) or maker_in_name(name, gpus=True):
            yield _problem(f"{name} {version}", other, "", _CPU_BUILD)
        elif name in FAMILY:
            continue
        elif _NAMED.fullmatch(name) or (label and label.cuda):
            yield _problem(f"{name} {version}", "CUDA", "", _INSTEAD)
        elif brought := sorted({other for other in needs.get(name, ()) if other in pins and is_cuda(other)}):
            listed = ", ".join(brought[:3]) + (f" and {len(brought) - 3} more" if len(brought) > 3 else "")
            message = f"{name} {version} requires {listed}, which has no use in a CPU target"
            hint = "drop the extra that adds this, if there is one, or list the package in the CUDA targets only"
            yield Finding("warning", "cuda-major-mixed", message, key="cuda", remedy=hint)


_CPU_BUILD = "leave out what asks for it, or take its CPU build if there is one"
_INSTEAD = "list the package in the CUDA targets only, or take its CPU build if there is one"


def _problem(name: str, made_for: str, what: str, instead: str) -> Finding:
    return Finding(
        "warning",
        "gpu-only",
        f"{name} is made for {made_for}, and this is a CPU target{what}",
        key="platform",
        remedy=instead,
    )


class PinnedVersions(Struct, frozen=True):
    """The exact pins of a target, each by its normalised name.

    versions       with the local part (`2.9.1+cu126`); a torch without one is PyPI's own wheel
    builds         the build strings of conda packages
    needs          the Requires-Dist lines of each wheel
    origins        the index and the file of each; without one, a pin counts as PyPI's wheel
    read           the code and libraries read in some wheels
    architectures  the compute capabilities of a variant's machine code and PTX
    order          pip's packages in the order of installation
    releases       gives the releases of a package on its index, each with the wheel that the target takes of it
    """

    versions: Mapping[str, str]
    builds: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, Iterable[str]] = field(default_factory=dict)
    origins: Mapping[str, neighbours.Origin] = field(default_factory=dict)
    read: Mapping[str, WheelBuild] = field(default_factory=dict)
    architectures: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    order: Sequence[str] = ()
    releases: neighbours.ReleaseWheels = neighbours.no_releases


def judge_pins(
    spec: Spec, target: Target, pinned: PinnedVersions, *, by_gpus_alone: bool = False
) -> tuple[Finding, ...]:
    """Judge exact pins by the facts. `judge` decides on the target alone (its driver, its CUDA against its GPUs), and
    `envspec.facts.corrections` knows wrong metadata. With `by_gpus_alone`, only the target's GPUs count."""
    case = case_of(spec, target)
    requirement = torch_of(spec, target)
    pins, builds, origins, read = pinned.versions, pinned.builds, pinned.origins, pinned.read
    origin = origins.get("torch", neighbours.Origin("pypi", ""))
    own_builds = {name for name, at in origins.items() if torch_builds.is_own_build(pins[name], at.index)}
    major = case.cuda.partition(".")[0] if case.cuda else None
    both = of_both_majors(pinned.needs, major) if major else {}
    right = {name for name, other in both.items() if wheel_code.not_beside(name, other, read) is None}
    # beside its counterpart a library for another CUDA isn't what runs; one of another CUDA alone is told as that
    run = {
        name: version for name, version in pins.items() if name not in right and not _is_foreign(name, version, major)
    }
    judged = [
        *_torch(case, pins, pinned.architectures.get("torch", ((), ())), read.get("torch"), origin),
        *_pytorch(case, pins, builds),
        *_triton_alone(case, pins),
        *_companions(case, pins, builds),
        *_cuda_majors(case, pins, pinned.needs, read),
        *_without_gpu(case, pins, _names(pinned.needs), origins, _is_dead_weight),
        *_libraries(case, pins),
        *wheel_code.overlap_problems(pinned.order, read, builds),
        *neighbours.problems(case, run, builds, origins, read, pinned.releases),
        *wheel_code.problems(case, run, read, own_builds),
        *wheel_code.of_sources(case, run, read),
        *(() if _has_cuda(spec.image.base) else wheel_code.missing_libraries(case, run, read, own_builds)),
        *_older_than_gpus(case, pins),
        *_old_drivers(case, pins),
        *_for_servers(case, pins, builds, origins, read),
    ]
    judged = [problem for problem in judged if not by_gpus_alone or problem.key == "gpus"]
    findings = [locate(spec, target, requirement, problem) for problem in judged]
    # a source that the spec allows is built for what the machine has
    built = {name for name, at in origins.items() if not at.file.endswith(".whl")} & spec.pip.allow_source
    if not by_gpus_alone:
        findings += framework_problems(case, pins, spec.pip_dependencies(target), own_builds | built, read)
    return apply_acceptances(findings, spec.pip_terms(target).accept)


def _old_drivers(case: Case, pins: Mapping[str, str]) -> Iterator[Finding]:
    """Find frameworks that want a newer driver than the target's."""
    major = case.cuda.partition(".")[0] if case.cuda else None
    for row in wanted_drivers() if case.driver and major else ():
        version = pins.get(row.package) or pins.get(f"{row.package}-cu{major}")
        fits = version is not None and SpecifierSet(row.versions).contains(version, prereleases=True)
        if fits and row.cuda == major and branch(str(case.driver)) < row.driver and not is_windows(str(case.driver)):
            message = f"{row.framework} {version} wants driver R{row.driver} or newer, and the target has {case.driver}"
            remedy = f"update the driver to R{row.driver}, or take an older {row.framework}"
            yield Finding("warning", "driver-too-old", message, key="driver", remedy=remedy)


def judge_build(case: Case, name: str, versions: Mapping[str, str], build: WheelBuild) -> Iterator[Finding]:
    """Judge a package built from source by its wheel. `versions` are the target's, with the built package's own."""
    origin, read = neighbours.Origin("", ""), {name: build}
    if name == "torch":
        yield from _torch(case, versions, ((), ()), build, origin)
        return
    beside = {package: versions[package] for package in (name, "torch", "pytorch") if package in versions}
    yield from neighbours.problems(case, beside, dict.fromkeys(beside.keys() - {name}, ""), {name: origin}, read)
    yield from wheel_code.problems(case, beside, read, {name})


def _torch(
    case: Case,
    pins: Mapping[str, str],
    architectures: tuple[tuple[str, ...], tuple[str, ...]],
    read: WheelBuild | None,
    origin: neighbours.Origin,
) -> Iterator[Finding]:
    version = pins.get("torch")
    if version is None:
        return
    public, _, local = version.partition("+")
    if other := other_maker(local):
        # in a CPU target `_without_gpu` tells it
        message = f"torch {version} is a build for {other}, and the target is for CUDA {case.cuda}"
        ways = (_from_pytorch("torch"),)
        yield from (Finding("error", "unsupported-build", message, key="torch", ways=ways),) if case.cuda else ()
        return
    candidate = wheel_code.of_torch(public, read, pins.get("triton")) if read else None
    if candidate is not None:
        yield wheel_code.torch_notice(version, candidate)
        wrong = _wrong_cuda(case, f"torch {version}", candidate.cuda, exact=True, on_index=_has_build(case, public))
        if wrong and torch_builds.is_own_build(version, origin.index):
            wrong = replace(wrong, bound=_for_this_cuda(case, public))
        yield from (wrong,) if wrong else _of_build(case, "pip", public, [candidate])
        return
    if case.cuda and torch_builds.is_own_build(version, origin.index):
        yield from _own_torch(case, version, read)
        return
    if torch_builds.release(public) is None:
        yield _newer(f"torch {public}")
        return
    variant = local or torch_builds.pypi_variant(public, case.platform) or "cpu"
    named = cuda_in(variant)
    if named is None:
        yield Finding("info", "torch-local-build", f"torch {version} isn't a build of PyTorch's own", key="torch")
        return
    cuda = None if named == "cpu" else named
    name = f"torch {version}" + ("" if local else f" (PyPI's own wheel, {variant})")
    wrong = _wrong_cuda(case, name, cuda, exact=True, on_index=_has_build(case, public))
    if wrong:
        yield wrong
        return
    candidates = pip_builds([public], cuda, case.platform)
    if any(architectures):
        candidates = [replace(build, sm=architectures[0], ptx=architectures[1]) for build in candidates]
    if not candidates:
        yield Finding("error", "no-build", f"{name} isn't one of the known builds for {case.platform}", key="torch")
    yield from _of_build(case, "pip", public, _with_triton(candidates, pins))


def _for_this_cuda(case: Case, public: str) -> str | None:
    """Bound a torch of an index of the spec's own, which may serve what PyPI does, to the releases that PyPI has for
    the target's CUDA; None where none is older."""
    variant = torch_builds.variant_of(case.cuda)
    for_variant = (
        release.version
        for release in torch_builds.releases()
        if torch_builds.pypi_variant(release.version, case.platform) == variant
    )
    older = [version for version in for_variant if Version(version) < Version(public)]
    return f"torch<={max(older, key=Version)}" if older else None


def _own_torch(case: Case, version: str, read: WheelBuild | None) -> Iterator[Finding]:
    """Judge a torch of one's own whose wheel says no architectures: by the CUDA that the wheel notes, and where it
    wasn't read by the version's local part."""
    name = f"torch {version}"
    is_known = read is not None and (read.cuda or (read.code and read.code.complete))
    cuda = read.cuda if read and is_known else cuda_in(version.partition("+")[2])
    if (is_known or cuda) and (wrong := _wrong_cuda(case, name, None if cuda == "cpu" else cuda, exact=True)):
        yield wrong
        return
    message = f"{name} isn't a build of PyTorch's own"
    if cuda is None:
        message += ", and its wheel wasn't read: nothing says that it is for CUDA"
    yield Finding("info" if cuda else "warning", "torch-local-build", message, key="torch")


def _pytorch(case: Case, pins: Mapping[str, str], builds: Mapping[str, str]) -> Iterator[Finding]:
    version = pins.get("pytorch")
    if version is None:
        return
    string = builds.get("pytorch", "")
    match = re.match(r"cuda(\d+)(\d)|cpu", string)
    cuda = f"{match[1]}.{match[2]}" if match and match[1] else None
    if match:
        wrong = _wrong_cuda(case, f"pytorch {version} ({string})", cuda, exact=False)
        if wrong:
            yield wrong
            return
    candidates = [
        replace(b, cudnn=pins.get("cudnn"))
        for b in conda_builds_of([version], case.cuda, case.platform)
        if not match or b.cuda == cuda
    ]  # the asked minor admits older builds
    if not candidates:
        yield _newer(f"pytorch {version} {string}".rstrip())
    yield from _of_build(case, "conda", version, _with_triton(candidates[-1:], pins))


def _with_triton(builds: list[CandidateBuild], pins: Mapping[str, str]) -> list[CandidateBuild]:
    """Judge the compiler that is locked, which a build may leave open."""
    return [replace(build, triton=pins.get("triton", build.triton)) for build in builds]


def _triton_alone(case: Case, pins: Mapping[str, str]) -> Iterator[Finding]:
    """Judge a triton that the spec asks for without a torch, of which nothing else would say for which GPUs it is."""
    if case.cuda and "triton" in pins and TORCH.isdisjoint(pins):
        yield from compiler(pins["triton"], case)


def _of_build(
    case: Case, channel: Literal["pip", "conda"], version: str, builds: list[CandidateBuild]
) -> Iterator[Finding]:
    name = "torch" if channel == "pip" else "pytorch"
    requirement = FamilyRequirement(name, parse(f"=={version}"), Place(""), channel)
    machine = case if case.cuda else replace(case, gpus=())
    for build in builds:
        for problem in problems(build, machine):
            if problem.severity == "error" and problem.remedy is None:
                problem = replace(problem, ways=(*nearest.alternatives(requirement, [version], case), *problem.ways))
            yield problem


def _newer(name: str) -> Finding:
    message = f"envspec has no facts for {name}: it relies on the METADATA and doesn't check the architectures"
    return Finding("info", "torch-newer-than-tables", message, key="torch")


def _has_build(case: Case, public: str) -> bool:
    return bool(pip_builds([public], case.cuda, case.platform))


def _wrong_cuda(case: Case, name: str, cuda: str | None, *, exact: bool, on_index: bool = False) -> Finding | None:
    """Check that a build is for the target's CUDA. conda's builds also run with a higher minor: the major decides.
    `on_index` says that the PyTorch index has the release for this target."""
    ways = (_from_pytorch("torch"),) if on_index else ()
    if cuda == case.cuda or (not exact and cuda and case.cuda and cuda.split(".")[0] == case.cuda.split(".")[0]):
        return None
    if cuda is None:
        message = f"{name} is the CPU build, and the target is for CUDA {case.cuda}"
        return Finding("error", "cpu-build", message, key="cuda", ways=ways)
    if case.cuda is None:
        message = f"{name} is a build for CUDA {cuda}, and this is a CPU target"
        return Finding("error", "cuda-mismatch", message, key="torch", ways=ways)
    message = f"{name} is a build for CUDA {cuda}, and the target is for CUDA {case.cuda}"
    return Finding("error", "cuda-mismatch", message, key="cuda", ways=ways)


def _from_pytorch(*names: str) -> Way:
    """Take packages of torch's family from where the target's CUDA leads, and no more from an index of the spec's."""
    return Way(sources=tuple((name, "pypi") for name in names))


def _companions(case: Case, pins: Mapping[str, str], builds: Mapping[str, str]) -> Iterator[Finding]:
    """Judge companions that are wheels, beside a torch of either kind. conda's companions require an exact pytorch."""
    torch, _, torch_local = pins.get("torch", pins.get("pytorch", "")).partition("+")
    for name in COMPANIONS:
        version = pins.get(name)
        fitting = torch_builds.companions(torch).get(name, ())
        if version is None or name in builds or not fitting:
            continue
        public, _, local = version.partition("+")
        made_for = torch_builds.torch_for(name, public)
        if public not in fitting and made_for:
            message = f"{name} {version} is made for torch {', '.join(made_for)}, not for torch {torch}"
            bound = f"{name}=={fitting[-1]}"
            yield Finding(
                "error",
                "companion-mismatch",
                message,
                key="torch",
                ways=(Way(line=bound, near=True),),
                bound=bound,
            )
        elif local and torch_local and cuda_in(local) not in (None, cuda_in(torch_local)):
            message = f"{name} {version} and torch {torch}+{torch_local} are builds for different CUDA versions"
            yield Finding("error", "cuda-mismatch", message, key="torch", ways=(_from_pytorch("torch", name),))
        elif name == "torchaudio" and made_for and "torch" in pins:
            yield from _torchaudio_cuda(case, public, local, torch, torch_local)


_TORCHAUDIO_COMPARES = "2.11.0"
"""Up to this release `import torchaudio` raises where its CUDA isn't torch's to the minor (`_check_cuda_version`, read
in the wheel); from 2.11.1 on, only the major counts (pytorch/audio#4226)."""


def _torchaudio_cuda(case: Case, version: str, local: str, torch: str, torch_local: str) -> Iterator[Finding]:
    """Check PyPI's torchaudio: it is built for the CUDA that PyPI's torch had then; newer torch may have another."""
    made_with = torch_builds.torch_for("torchaudio", version)[0]
    made_for = cuda_in(local or torch_builds.pypi_variant(made_with, case.platform) or "cpu")
    torch_cuda = cuda_in(torch_local or torch_builds.pypi_variant(torch, case.platform) or "cpu")
    if made_for in (None, "cpu") or torch_cuda in (None, "cpu"):
        return
    minors = torch_builds.order(version) <= torch_builds.order(_TORCHAUDIO_COMPARES)
    if made_for != torch_cuda if minors else made_for.split(".")[0] != torch_cuda.split(".")[0]:
        releases = torch_builds.companions(torch).get("torchaudio", ())
        newer = [release for release in releases if minors and numbers(release) > numbers(_TORCHAUDIO_COMPARES)][-1:]
        yield Finding(
            "error",
            "cuda-mismatch",
            f"torchaudio {version} is built for CUDA {made_for} and torch {torch} for CUDA {torch_cuda}: "
            "import torchaudio fails",
            key="torch",
            ways=(
                Way(cuda=made_for, near=True, note="for the target"),
                *(Way(line=f"torchaudio=={release}", near=True) for release in newer),
            ),
        )


def _cuda_majors(
    case: Case, pins: Mapping[str, str], needs: Mapping[str, Iterable[str]], read: Mapping[str, WheelBuild]
) -> Iterator[Finding]:
    """Judge whether every CUDA package belongs to the target's CUDA major. In a CPU target they are only dead weight;
    there `cpu_target` reports the package that requires them, if it is known."""
    target_major = case.cuda.split(".")[0] if case.cuda else None
    foreign = {
        name: major
        for name, version in sorted(pins.items())
        if (major := _cuda_major(name, version)) is not None and major != target_major
    }
    if not foreign:
        return
    brought = {other for name, requires in _names(needs).items() if name in pins for other in requires}
    both = of_both_majors(needs, target_major) if target_major else {}
    for name, major in foreign.items():
        if target_major is None and (name in brought or not _is_dead_weight(name)):
            continue
        wrong = wheel_code.not_beside(name, both[name], read) if name in both else ""
        if wrong is None:
            continue
        place = f"the target is for CUDA {case.cuda}" if case.cuda else "this is a CPU target"
        message = f"{name} {pins[name]} belongs to CUDA {major}, and {place}{wrong}"
        hint = f"`envspec why` shows what requires {name}"
        cudas = torch_builds.lockable_cudas(case.platform, python=case.python) if case.cuda else ()
        ways = tuple(Way(cuda=cuda) for cuda in cudas if cuda.partition(".")[0] == major)[:1]
        bound = f"{name}=={target_major}.*" if target_major and name in VERSIONED_BY_CUDA else f"{name}<0"
        severity: Severity = "error" if case.cuda else "warning"
        outgrown = target_major is not None and int(major) < int(target_major)
        finding = Finding(
            severity, "cuda-major-mixed", message, key="cuda", remedy=hint, bound=bound, outgrown=outgrown
        )
        yield replace(finding, ways=ways)


def _names(needs: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return {name: [requirement_name(line) for line in lines] for name, lines in needs.items()}


def _cuda_major(name: str, version: str) -> str | None:
    """Read the CUDA major of a package from its name, or from its version if that is the toolkit's; else None."""
    if named := cuda_major_in(name):
        return named
    return version.split(".")[0] if name in VERSIONED_BY_CUDA else None


def _is_foreign(name: str, version: str, target_major: str | None) -> bool:
    """Return whether a package is another CUDA major's than the target's, by its name or version: that says it all."""
    return target_major is not None and _cuda_major(name, version) not in (None, target_major)


def _is_dead_weight(name: str) -> bool:
    """Return whether a package of CUDA's does nothing in a CPU target. Of others that name a CUDA (nvidia-dali-cuda120,
    jax-cuda12-plugin) `cpu_target` says what to do."""
    return name in VERSIONED_BY_CUDA or re.fullmatch(r"[\w-]+-cu(?:da)?\d\dx?", name) is not None


def _for_servers(
    case: Case,
    pins: Mapping[str, str],
    builds: Mapping[str, str],
    origins: Mapping[str, neighbours.Origin],
    read: Mapping[str, WheelBuild],
) -> Iterator[Finding]:
    """Give a Jetson's rule the wheels for CUDA of the indexes that are made for servers; a torch has rules of its own,
    and decides what its libraries are for."""
    if "torch" in pins:
        return
    servers = [
        f"{name} {version}"
        for name, version in sorted(pins.items())
        if name not in builds and (name not in origins or origins[name].index == "pypi")
        if _cuda_major(name, version) or (name in read and read[name].built_for.cuda)
        if not (name in read and read[name].runs_on(case.capabilities))
    ]
    yield from for_servers(case, servers)


def _libraries(case: Case, pins: Mapping[str, str]) -> Iterator[Finding]:
    """Judge cuDNN and NCCL, which have architecture lists of their own and drop GPUs at other times than torch."""
    for name, version in sorted(pins.items()):
        if not re.fullmatch(r"nvidia-(cudnn|nccl)-cu\d\d", name):
            continue
        library = libraries.library(name, version, case.platform)
        for capability in case.capabilities if library else ():
            if library is None or covers(library.sm, capability, case.cuda):
                continue
            if can_translate(library.ptx, capability):
                if "cudnn" in name:
                    yield _ptx_of_cudnn(f"{name} {version}", library, capability, case)
                continue
            first, dropped = _first_without(library, capability, case)
            nccl, beyond = "nccl" in name, library_is_newer(name, version, case.platform)
            seen = f"as far as {library.version} tells, the newest that envspec knows"
            by_torch = "torch" in pins or "pytorch" in pins
            older = Way(line=f"{name}<{first}")
            yield Finding(
                "warning" if nccl or (beyond and not dropped) else "error",
                "library-architecture",
                (
                    f"{name} {version} has no code for {sm_of(capability)} ({case.names(capability)})"
                    + (f", {f'which {first} dropped' if dropped else seen}" if beyond else "")
                    + ("; torch uses it only with several GPUs" if nccl else "")
                ),
                key="gpus",
                ways=() if nccl or by_torch else (older,),
                bound=f"{name}<{first}",
            )


def _ptx_of_cudnn(name: str, library: LibraryWheel, capability: str, case: Case) -> Finding:
    """Warn of a cuDNN of before a GPU: its support matrix leaves the GPU out, and what PTX it has may not be all."""
    message = (
        f"{name} has no machine code for {sm_of(capability)} ({case.names(capability)}), only PTX of {library.ptx[-1]}"
        ", and NVIDIA doesn't support it there"
    )
    # tensorflow 2.16.1 fixes its cuDNN: what requires one knows which
    remedy = f"take a newer release of what requires {name.partition(' ')[0]}: `envspec why` shows it"
    return Finding("warning", "library-architecture", message, key="gpus", remedy=remedy)


def _has_cuda(image: str) -> bool:
    return re.search(r"cuda|nvidia|nvcr", image) is not None


def _older_than_gpus(case: Case, pins: Mapping[str, str]) -> Iterator[Finding]:
    """Judge CUDA's own libraries by the first CUDA with machine code for a GPU's generation, where no torch decides
    their version: tensorflow[and-cuda] brings the CUDA that it was made with, whatever the target's."""
    if case.cuda is None or not TORCH.isdisjoint(pins):
        return
    major = case.cuda.partition(".")[0]
    name = next((package for package in ("nvidia-cublas", f"nvidia-cublas-cu{major}") if package in pins), None)
    beside = next(
        (package for package in ("nvidia-cuda-runtime", f"nvidia-cuda-runtime-cu{major}") if package in pins), name
    )
    if name is None or beside is None:
        return
    cuda = ".".join(pins[beside].split(".")[:2])
    for capability in case.capabilities:
        kin = [
            row.first_cuda
            for name, row in gpus.capabilities().items()
            if name.split(".")[0] == capability.split(".")[0]
        ]
        first = min((cuda for cuda in kin if cuda), key=numbers, default=None)
        if first and numbers(cuda) < numbers(first):
            message = (
                f"{name} {pins[name]} is of CUDA {cuda}, and {sm_of(capability)} ({case.names(capability)}) came with "
                f"CUDA {first}: what requires it is older than the GPU"
            )
            yield Finding(
                "warning",
                "library-architecture",
                message,
                key="gpus",
                remedy=f"`envspec why` shows what requires {name}",
            )


def _first_without(library: LibraryWheel, capability: str, case: Case) -> tuple[str, bool]:
    """Find the first of the releases up to this one that all lack code for a capability, and whether one had it."""
    older = [
        row for row in libraries.of(library.package, case.platform) if numbers(row.version) <= numbers(library.version)
    ]
    lacking = takewhile(
        lambda row: not covers(row.sm, capability, case.cuda) and not can_translate(row.ptx, capability), older[::-1]
    )
    without = [row.version for row in lacking]
    return without[-1], len(without) < len(older)


# Rules for frameworks beside torch: in a CUDA target, one without its CUDA backend computes on the CPU, in silence.

_OF_A_VENDOR = re.compile(r"(?:(?:cuda|rocm)\d*|oneapi|tpu)(?:[-_]\w+)*")
"""Extras that bring a backend, in place of which the target's stands: cuda13, cuda12-local, rocm7_local, oneapi."""


def framework_problems(
    case: Case,
    pins: Mapping[str, str],
    requirements: Iterable[Located],
    own_builds: Collection[str] = (),
    read: Mapping[str, WheelBuild] = MappingProxyType({}),
) -> Iterator[Finding]:
    """Find the frameworks of a CUDA target that would compute on the CPU, and the pins made for another vendor's GPUs.

    One that the spec asks for (in `requirements`) is an error where nothing else of the target has CUDA either, and a
    warning beside torch or another framework, where it often serves another purpose: kohya-ss has tensorflow for
    tensorboard alone. One that another package brings is a note, and so is one that the spec asks for as a CPU build
    (`jax[cpu]`, `tensorflow-cpu`). `own_builds` names the builds that aren't PyPI's: their own labels count. `read`
    shows the wheels that are for CPUs on this platform alone, as tensorflow's for aarch64 is.
    """
    if case.cuda is None:
        return
    major = case.cuda.partition(".")[0]
    direct = {requirement_name(requirement.text): requirement for requirement in requirements}
    here = [row for row in frameworks() if row.package in pins and row.package not in own_builds]
    without = [row for row in here if not row.backends_for(major) & pins.keys()]
    partly = len(without) < len(here) or not pins.keys().isdisjoint(TORCH)
    for row in without:
        line = direct.get(row.package)
        severity: Severity = (
            "info"
            if line is None or _is_for_cpus(line.text)
            else "warning"
            if partly and row.backends and row.what is None
            else "error"
        )
        yield _without_backend(row, pins[row.package], major, severity, line)
    reported = {*own_builds, *(row.package for row in without)}
    for name in sorted(name for name in pins.keys() & read.keys() - reported if read[name].is_for_cpus):
        # of a release in the table of neighbours it is known what its wheel loads
        if holds_code_for_gpus(name) and not neighbours_of(name, pins[name], case.platform):
            alone = pins.keys().isdisjoint(TORCH)
            yield _of_cpu_wheel(name, pins[name], "error" if alone else "warning", case, direct.get(name))
    for name, version in sorted(pins.items()):
        if vendor := maker_in_name(name):
            message = f"{name} {version} is made for {vendor}, and the target is for CUDA {case.cuda}"
            yield Finding("error", "other-vendor", message, package=name, ways=(Way(without=(name,)),))


def _is_for_cpus(line: str) -> bool:
    requirement = parse_requirement(line)
    return "cpu" in requirement.extras or requirement.name.endswith("-cpu")


def _of_cpu_wheel(name: str, version: str, severity: Severity, case: Case, line: Located | None) -> Finding:
    message = (
        f"{name} {version} computes on the CPU: nothing in its wheel for {case.platform} is compiled for a GPU or "
        "loads CUDA"
    )
    if line is None:
        return Finding("info", "no-cuda-backend", message, package=name)
    return Finding(severity, "no-cuda-backend", message, line.place, package=name)


def _without_backend(row: Framework, version: str, major: str, severity: Severity, line: Located | None) -> Finding:
    needed = " or ".join(sorted(row.backends_for(major)))
    message = (
        f"{row.package} {version} {row.what or 'computes on the CPU'}: {needed}, which brings CUDA {major}, isn't there"
        if needed
        else f"{row.package} {version} has nothing for CUDA"
    )
    finding = Finding(severity, "no-cuda-backend", message, line.place if line else None, package=row.package)
    if line is None or severity == "info":
        return finding
    if row.ask is None:
        return replace(finding, remedy=row.otherwise)
    return replace(finding, ways=(_change_of(row.ask.replace("##", major), line.text),))


def _change_of(ask: str, line: str) -> Way:
    """Write what brings the backend: with the bounds and the marker of the spec's own requirement where it is of the
    same package; another package, which has other releases, takes its place."""
    change, requirement = parse_requirement(ask), parse_requirement(line)
    if canonical_name(change.name) != canonical_name(requirement.name):
        return Way(more=(ask,), without=(canonical_name(requirement.name),))
    change.extras |= {extra for extra in requirement.extras if not _OF_A_VENDOR.fullmatch(extra)}
    change.specifier, change.marker = requirement.specifier, requirement.marker
    return Way(line=str(change))
