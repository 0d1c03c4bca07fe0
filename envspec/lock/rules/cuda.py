"""The rules for builds: every CUDA package of a CUDA target belongs to the target's CUDA, and torch is a CPU build in
CPU targets only.

These rules read names, versions and dependencies alone, so they hold for releases that no table knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from envspec.base.finding import Finding
from envspec.facts.build_labels import label_of, maker_in_name, other_maker
from envspec.facts.cuda_stack import cuda_major_in, of_both_majors
from envspec.facts.torch_builds import cuda_of_variant, is_own_build, pypi_variant
from envspec.facts.wheels import FAMILY
from envspec.lock.conda_files import channel_of
from envspec.lock.model import Pin, TargetInputs, WheelVariant
from envspec.lock.rules.case import LockedCase
from envspec.lock.variant_build import built_version, cuda_of_wheel, is_for_cpu, machine_of, properties_of, versions_of
from envspec.packages.conda import BuildRecord, foreign_builds
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.variant_choice import of_namespace
from envspec.packages.variants import AARCH64, ABI, NULL, NVIDIA, X86_64, Property

# From CUDA 13 on NVIDIA's wheels carry no suffix; these have the toolkit's own version (PyPI, read 2026-11).
_TOOLKIT_VERSIONED = (
    "cuda-toolkit",
    "nvidia-cuda-runtime",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-cupti",
    "nvidia-nvtx",
    "nvidia-nvjitlink",
)

_CONDA_TORCH = ("pytorch", "libtorch")


def wrong_builds(case: LockedCase) -> Iterator[Finding]:
    """Yield the pins by which a CUDA target would fall back to the CPU without a warning."""
    yield from _wheels(case, case.pins("pip"), case.target.inputs.cuda)
    yield from _conda(case, case.target.inputs.cuda)


def _wheels(case: LockedCase, pins: Sequence[Pin], cuda: str | None) -> Iterator[Finding]:
    major = cuda.partition(".")[0] if cuda else None
    foreign = [(pin, own_major) for pin in pins if major and (own_major := cuda_major_of(pin)) not in (None, major)]
    mixed = of_both_majors({pin.name: pin.dependencies for pin in pins}, str(major)) if foreign else {}
    for pin, own_major in foreign:
        # of torch itself nobody may accept it
        accepted = pin.name not in FAMILY and case.target.inputs.accepts("cuda-major-mixed", pin.name)
        if not accepted and pin.name not in mixed:
            message = f"{pin.name} {pin.version} is for CUDA {own_major}, but the target asks for CUDA {cuda}"
            yield case.flaw("wrong-cuda", pin.name, message)
    for pin in pins:
        if pin.name == "torch" and pin.artifact is not None and pin.artifact.variant is not None:
            yield from _variant_of_torch(case, pin, cuda)
        elif pin.name == "torch":
            yield from _torch(case, pin, torch_cuda(pin, pins), cuda)
        elif cuda and pin.name in FAMILY and (other := other_maker(pin.version.partition("+")[2])):
            yield case.flaw("wrong-cuda", pin.name, _of_another_maker(f"{pin.name} {pin.version}", other, cuda))
        elif cuda and pin.name in FAMILY and pin.version.endswith("+cpu"):
            yield case.flaw("cpu-build", pin.name, f"{pin.name} {pin.version} from {pin.index} is a CPU build")


def _torch(case: LockedCase, torch: Pin, built: str | None, cuda: str | None) -> Iterator[Finding]:
    """Judge torch. `built` is the CUDA that the pin itself names; for PyPI's own wheel the tables decide, whatever the
    pin's dependencies say."""
    name = f"torch {torch.version} from {torch.index}"
    known = pypi_variant(torch.version, case.target.inputs.platform) if torch.index == "pypi" else None
    if built == cuda and known is not None:
        built = cuda_of_variant(known)
    if built == cuda:
        return
    if cuda and (other := other_maker(torch.version.partition("+")[2])):
        yield case.flaw("wrong-cuda", "torch", _of_another_maker(name, other, cuda))
        return
    if built is None and is_own_build(torch.version, torch.index) and not torch.version.endswith("+cpu"):
        # `lock` read its wheel, and no lock says what is in it
        return
    if built is None:
        yield case.flaw("cpu-build", "torch", f"{name} is a CPU build")
    else:
        required = f"CUDA {cuda}" if cuda else "none"
        yield case.flaw("wrong-cuda", "torch", f"{name} is built for CUDA {built}, but the target asks for {required}")


def _of_another_maker(name: str, other: str, cuda: str) -> str:
    return f"{name} is built for {other}, but the target asks for CUDA {cuda}"


def _variant_of_torch(case: LockedCase, torch: Pin, cuda: str | None) -> Iterator[Finding]:
    """Judge a torch whose variant is locked, by the CUDA of the variant's label and properties."""
    built = torch_cuda(torch, ())
    if built == cuda or (cuda and built and cuda.startswith(f"{built}.")):
        return
    label = torch.artifact.variant.label if torch.artifact and torch.artifact.variant else ""
    name = f"the variant {label} of torch {torch.version} from {torch.index}"
    if built is None:
        yield case.flaw("cpu-build", "torch", f"{name} is a CPU build")
    else:
        required = f"CUDA {cuda}" if cuda else "none"
        yield case.flaw("wrong-cuda", "torch", f"{name} is built for CUDA {built}, but the target asks for {required}")


def _conda(case: LockedCase, cuda: str | None) -> Iterator[Finding]:
    pins = case.pins("conda")
    if cuda is None:
        named = any(conda_name(text).startswith("cuda") for text in case.target.inputs.conda_requirements)
        for pin in pins if not named else ():
            if pin.name in ("cuda-version", "cudatoolkit"):
                yield case.flaw(
                    "wrong-cuda", pin.name, f"{pin.name} {pin.version} is a CUDA package, but the target has no CUDA"
                )
        return
    builds = {pin.name: build_of(pin) for pin in pins}
    for build in foreign_builds(builds.values(), cuda):
        message = f"{build} is for CUDA {build.cuda}, but the target asks for CUDA {cuda}"
        yield case.flaw("wrong-cuda", build.name, message)
    for name, build in builds.items():
        if other := other_maker(build.string):
            yield case.flaw("wrong-cuda", name, _of_another_maker(str(build), other, cuda))
    for name in _CONDA_TORCH:
        if name in builds and builds[name].for_cpu:
            yield case.flaw("cpu-build", name, f"{builds[name]} is a CPU build")


def build_of(pin: Pin) -> BuildRecord:
    """Return a conda pin as a build. A lock doesn't record the build number."""
    return BuildRecord(pin.name, pin.version, pin.build or "", 0, channel_of(pin)[1], pin.dependencies)


def torch_cuda(torch: Pin, pins: Iterable[Pin]) -> str | None:
    """Return the CUDA version that torch was built for, None for a CPU build: by its variant, its local version or
    the CUDA runtime that it pins."""
    if torch.artifact is not None and torch.artifact.variant is not None:
        return cuda_of_wheel(torch.artifact.variant)
    label = label_of(torch.version)
    if label and label.cuda and "." in label.cuda:
        return label.cuda
    if "+" in torch.version:
        return None
    by_name = {pin.name: pin for pin in pins}
    for dependency in torch.dependencies:
        name = requirement_name(dependency)
        if name in by_name and (name == "cuda-toolkit" or name.startswith("nvidia-cuda-runtime")):
            return ".".join(by_name[name].version.split(".")[:2])
    return None


def cuda_major_of(pin: Pin) -> str | None:
    """Give the CUDA major that a wheel belongs to, by its name or version; None where neither says it."""
    if named := cuda_major_in(pin.name):
        return named
    if pin.name in _TOOLKIT_VERSIONED:
        return pin.version.partition(".")[0]
    # of all others, `wrong_labels` judges what the local part says
    label = label_of(pin.version) if pin.name in FAMILY else None
    return label.cuda_major if label else None


# A variant suits its target: what it needs, the target's machines have. So does a wheel's own label ("+pt24cu118"):
# it names the torch and the CUDA that the target has.


def wrong_variants(case: LockedCase) -> Iterator[Finding]:
    """Yield variants that contradict themselves, that the target's machines don't support, and those for CPUs in a CUDA
    target, unless the spec accepts them.

    Only the index can judge namespaces whose values a release lists itself.
    """
    inputs = case.target.inputs
    for pin in case.target.pins:
        variant = pin.artifact.variant if pin.artifact else None
        if variant is None or pin.kind != "pip":
            continue
        name = f"the variant {variant.label} of {pin.name} {pin.version}"
        wrong = _contradiction(variant) or _unsupported_reason(case, variant)
        if wrong:
            yield case.flaw("wrong-variant", pin.name, f"{name} {wrong}")
        elif inputs.cuda is not None and _is_refused_cpu(pin, variant, inputs):
            yield case.flaw("cpu-variant", pin.name, f"{name} is for CPUs, and others of this release are for CUDA")


def _is_refused_cpu(pin: Pin, variant: WheelVariant, inputs: TargetInputs) -> bool:
    # of torch itself nobody may accept it
    return is_for_cpu(variant) and (pin.name in FAMILY or not inputs.accepts("cpu-variant", pin.name))


def _contradiction(variant: WheelVariant) -> str | None:
    properties = properties_of(variant)
    if len(set(variant.priorities)) < len(variant.priorities):
        return "has a namespace twice"
    if (variant.label == NULL) != (not properties):
        return f"has {'properties' if properties else 'none'}, and only {NULL} has none"
    unknown = {prop.namespace for prop in properties} - set(variant.priorities)
    if unknown:
        return f"has the namespace {min(unknown)}, which its priorities lack"
    order = sorted(set(properties), key=lambda prop: (variant.priorities.index(prop.namespace), prop))
    return None if list(properties) == order else "has its properties in another order than a lock has them"


def _unsupported_reason(case: LockedCase, variant: WheelVariant) -> str | None:
    needs: dict[tuple[str, str], list[str]] = {}
    for prop in properties_of(variant):
        needs.setdefault((prop.namespace, prop.feature), []).append(prop.value)
    machine = machine_of(case.target.inputs, versions_of(case.target.pins))
    for (namespace, feature), values in needs.items():
        if namespace not in (NVIDIA, X86_64, AARCH64, ABI):
            continue
        for alone in machine.each:
            known: Mapping[str, tuple[str, ...]] = dict(of_namespace(namespace, alone, [feature]))
            if not set(values) & set(known.get(feature, ())):
                needed = " or ".join(str(Property(namespace, feature, value)) for value in values)
                return f"needs {needed}, and the target has {alone.description}"
    return None


def wrong_labels(case: LockedCase) -> Iterator[Finding]:
    """Yield the wheels whose own label or name is of another torch, CUDA, maker's GPUs or C++ ABI, unless the spec
    accepts such wheels.

    The tables of `rules` may know more than labels. A lock isn't judged by them, since they grow after it was made.
    """
    inputs = case.target.inputs
    pins = [pin for pin in case.pins("pip") if not inputs.accepts("built-for-another", pin.name)]
    for pin in pins:
        maker = maker_in_name(pin.name) if inputs.cuda else None
        if maker and not inputs.accepts("other-vendor", pin.name):
            message = f"{pin.name} {pin.version} is made for {maker}, but the target is for CUDA {inputs.cuda}"
            yield case.flaw("built-for-another", pin.name, message)
    labels = [
        (pin, label, file)
        for pin in pins
        if pin.name not in FAMILY
        for file in (pin.artifact.file if pin.artifact else "",)
        if (label := label_of(built_version(pin), file)) is not None
    ]
    if not labels:
        return
    # the rules load the tables of GPUs, and few locks have such a wheel
    from envspec.rules.neighbours import label_mismatch, surroundings

    torch = case.target.pin("torch", "pip")
    other = torch or case.target.pin("pytorch", "conda")
    neighbours = surroundings(other.version if other else None, inputs.cuda, inputs.platform, wheel=torch is not None)
    for pin, label, file in labels:
        wrong = label_mismatch(pin.name, label, neighbours, file)
        if wrong:
            message = f"{pin.name} {pin.version} is built for {wrong} by its label, but the target has {neighbours}"
            yield case.flaw("built-for-another", pin.name, message)
