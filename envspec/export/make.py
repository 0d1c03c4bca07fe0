"""The Plan of a target and of a whole spec, computed once from spec and lock. Pure: the carried files are package data,
read at first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import InputError, Place
from envspec.export import compat, images, nvcc
from envspec.export.carried import carried_files, carried_names, carried_sources
from envspec.export.environment import (
    build_names,
    build_variables,
    environment,
    environment_on_base,
    is_compiled,
    own_project,
    refuse_unknown_gpus,
    torch_version,
)
from envspec.export.images import CODE_SERVER, reference
from envspec.export.pip_steps import Run, build_steps, local_indexes, pip_steps, project_steps, share_out, with_row
from envspec.export.plan import (
    BUILD_SCRIPT,
    CHECK,
    FETCH_VARIANTS,
    SLICE,
    Borrowed,
    Compiling,
    ImagePlan,
    PipStep,
    Plan,
    RuntimePlan,
    Service,
    SourcesPlan,
    SpecPlan,
)
from envspec.export.python_build import uv_table
from envspec.export.target_json import dumps, of_recipes, target_document
from envspec.lock.formats import conda_explicit
from envspec.lock.inputs import fingerprint
from envspec.lock.model import Lock, LockedTarget, SoundLock
from envspec.spec.model import Image, Spec

_NEEDS = {"jupyter": "jupyterlab", "tensorboard": "tensorboard"}
"""Service -> its package, which the lock must have. ssh comes from the image's apt, code-server from its own image."""


def missing_packages(spec: Spec, target: LockedTarget) -> tuple[tuple[str, str], ...]:
    """List the services of a spec whose package a target lacks, each with that package."""
    needed = ((name, _NEEDS[name]) for name in spec.image.services if name in _NEEDS)
    return tuple((name, package) for name, package in needed if target.pin(package) is None)


_ALWAYS = ("ca-certificates", "tini")
_FOR_TORCH = ("g++",)
"""The compiler packages for torch.compile at run time: Inductor's CPU kernels are C++, Triton's launchers C."""
_FABRIC = ("ibverbs-providers", "libibverbs1", "libnuma1", "librdmacm1")
"""The user-space libraries of InfiniBand and RoCE, which NCCL loads when it runs; without them it uses sockets, in
silence (nccl issues 1044 and 444)."""
PLATFORMS = ("linux-64", "linux-aarch64")
"""The platforms of images."""


# The users of Debian's base-passwd: none of them can become the one who works in an image.
_TAKEN = frozenset(
    {
        "_apt", "backup", "bin", "daemon", "games", "gnats", "irc", "list", "lp", "mail", "man", "news", "nobody",
        "proxy", "sshd", "sync", "sys", "uucp", "www-data",
    }
)  # fmt: skip


class _Runs(Struct, frozen=True):
    """The runs of uv of all targets, by target: of the environment, of what builds see beside it, and of what the build
    of the spec's project needs; and the files of conda's packages and of Python's builds. Targets share the files."""

    steps: Mapping[str, tuple[Run, ...]]
    seen: Mapping[str, tuple[Run, ...]]
    built: Mapping[str, tuple[Run, ...]]
    conda: Mapping[str, Mapping[str, str]]
    python: Mapping[str, Mapping[str, str]]
    has_variants: bool

    @staticmethod
    def of(spec: Spec, lock: SoundLock, targets: Sequence[LockedTarget]) -> _Runs:
        """Make them. Raises InputError for an index that the spec doesn't name."""
        project, names = spec.project, build_names(spec.project)
        compiled = is_compiled(project)
        builds = {target.name: lock.python(target) for target in targets}
        return _Runs(
            pip_steps(spec, targets),
            build_steps(
                spec,
                [target for target in targets if images.compiled_packages(spec, target)],
                names if compiled else (),
            ),
            {} if compiled or project is None else project_steps(spec, targets, names),
            share_out(
                "conda",
                {
                    target.name: [conda_explicit.with_rows(lock, target, with_row)]
                    for target in targets
                    if any(pin.kind == "conda" for pin in target.pins)
                },
            ),
            share_out("python", {name: [uv_table(build)] for name, build in builds.items() if build}, "json", head=""),
            any(pin.artifact and pin.artifact.variant for target in lock for pin in target.pins),
        )


def _suitable(lock: Lock) -> list[LockedTarget]:
    return [target for target in lock if target.inputs.platform in PLATFORMS]


def make_spec_plan(spec: Spec, lock: SoundLock, place: str = ".") -> SpecPlan:
    """Make the plan of a spec's recipes, for every suitable target of its lock. `place` as in `Plan`.

    Raises InputError as `make_plan`, and where all targets are for other platforms than Linux.
    """
    admitted = _suitable(lock)
    runs = _Runs.of(spec, lock, admitted) if admitted else None
    plans = tuple(make_plan(spec, lock, target, place, runs) for target in admitted or lock.targets)
    return SpecPlan(spec.name, spec.description, plans, spec.slurm)


def make_plan(spec: Spec, lock: SoundLock, target: LockedTarget, place: str = ".", runs: _Runs | None = None) -> Plan:
    """Make the plan of a target's recipes. `place` is the spec's folder, seen from the one that editors open, and
    `runs` those of all targets, where they are made already.

    Raises InputError where no recipe is possible: a platform that isn't Linux, a base image without apt, a
    service whose package isn't locked, an index that the spec doesn't name.
    """
    inputs = target.inputs
    if inputs.platform not in PLATFORMS:
        message = f"images are for Linux, and the target {target.name} is for {inputs.platform}"
        hint = "choose other targets with --target, or use `envspec install` on the machine itself"
        raise InputError(message, hint=hint, place=Place(spec.path))
    if spec.image.user in _TAKEN:
        raise InputError(
            f'the user "{spec.image.user}" is one of Debian\'s own', hint='user = "dev"', place=Place(spec.path)
        )
    own_services = services(spec, lock, target)
    own_targets = [target if other.name == target.name else other for other in _suitable(lock)]
    runs = runs or _Runs.of(spec, lock, own_targets)
    steps, seen = runs.steps[target.name], runs.seen.get(target.name, ())
    built = runs.built.get(target.name, ())
    project = own_project(spec, target, place, tuple(step for step, _ in built))
    built = built if project else ()
    with_torch = [pin.name for pin in target.pins if any(other.name == "torch" for other in pin.built_with or ())]
    for name in (*(name for step, _ in steps for name in step.unisolated), *with_torch):
        refuse_unknown_gpus(name, target)
    scripts = (*([FETCH_VARIANTS] if runs.has_variants else []), *(service.script for service in own_services))
    carries = {
        name: carried_files()[name]
        for name in sorted(carried_names(scripts))
        if not spec.base or name.startswith((f"{CHECK}/", "warned.sh"))
    }
    conda = runs.conda.get(target.name, {})
    parts = {"conda": tuple(conda), "pip": tuple(path for step, _ in steps for path in step.requirements)}
    document = target_document(spec, lock, target)
    files = {
        f"{target.name}/{SLICE}": of_recipes(document, {kind: own for kind, own in parts.items() if own}),
        **{path: text for _, texts in (*steps, *seen, *built) for path, text in texts.items()},
        **conda,
    }
    of_base = spec.base is not None or spec.image.python == "base"
    base_python = of_base and target.pin("python", "conda") is None
    build = None if base_python else lock.python(target)
    tables = runs.python[target.name] if build is not None else {}
    files |= tables
    explicit = next(iter(conda), None)
    compiling = _compiling(spec, lock, target, tuple(step for step, _ in seen))
    base = images.base_reference(spec, lock, target)
    if base_python and compiling and compiling.image != base:
        message = f"{target.name} compiles packages in {compiling.image.name}, which hasn't the Python of {base.name}"
        hint = 'leave out python = "base": the image then brings the Python that the lock names'
        raise InputError(message, hint=hint, place=spec.places.get("image.python", Place(spec.path)))
    image = ImagePlan(
        base=base,
        uv=reference(lock, images.UV),
        micromamba=reference(lock, images.MICROMAMBA) if explicit else None,
        user=spec.image.user,
        apt=(own_apt := _apt(spec, target, own_services)),
        spec_apt=tuple(sorted({*spec.image.apt}.difference(own_apt))),
        services=own_services,
        toolkit=tuple(_toolkit(spec, lock, target)),
        snapshot=images.snapshot_of(spec),
        shm=spec.image.shm,
        repository=spec.image.name,
        carries=carries,
        document=dumps(document),
    )
    runtime = RuntimePlan(
        platform=inputs.platform,
        python=inputs.python,
        python_range=inputs.python_range,
        build=build,
        build_table=next(iter(tables), None),
        base_python=base_python,
        on_base=images.on_base(spec, lock, target),
        cuda=inputs.cuda,
        driver_floor=target.driver_floor,
        architectures=target.architectures,
        glibc=inputs.glibc,
        torch=torch_version(target),
        env=environment(spec, target) if spec.base is None else environment_on_base(spec, target),
    )
    sources = SourcesPlan(
        pip=tuple(step for step, _ in steps),
        explicit=explicit,
        compiling=compiling,
        project=project,
        local_indexes=tuple(local_indexes(spec, [step for step, _ in (*steps, *seen, *built)], target, place)),
        files=files,
        parts=(*parts["conda"], *parts["pip"]),
    )
    plan = Plan(
        spec=spec.name,
        target=target.name,
        description=spec.description,
        place=place,
        lock_digest=document["lock_digest"],
        fingerprint=fingerprint(lock.inputs, inputs),
        image=image,
        runtime=runtime,
        sources=sources,
        kubernetes=spec.kubernetes,
    )
    return _in_context(plan)


def _in_context(plan: Plan) -> Plan:
    """Place the files of a plan below its build context, and the carried ones beside them."""
    own, runtime, sources = plan.own, plan.runtime, plan.sources

    def place(step: PipStep) -> PipStep:
        requirements = tuple(own + file for file in step.requirements)
        return replace(step, requirements=requirements, built_with=step.built_with and own + step.built_with)

    every = carried_files()
    own_carried = {name: every[name] for name in (*plan.image.carries, BUILD_SCRIPT)}
    carried = carried_sources(every if plan.shares else own_carried)
    files = {own + path: text for path, text in sources.files.items()}
    files |= {plan.carried_file(path): text for path, text in carried.items()}
    project, compiling = sources.project, sources.compiling
    sources = SourcesPlan(
        pip=tuple(map(place, sources.pip)),
        explicit=sources.explicit and own + sources.explicit,
        compiling=compiling and replace(compiling, wheels=tuple(map(place, compiling.wheels))),
        project=project and replace(project, wheels=tuple(map(place, project.wheels))),
        local_indexes=sources.local_indexes,
        files=dict(sorted(files.items())),
        parts=tuple(own + path for path in sources.parts),
    )
    runtime = replace(runtime, build_table=runtime.build_table and own + runtime.build_table)
    return replace(plan, runtime=runtime, sources=sources)


def _toolkit(spec: Spec, lock: Lock, target: LockedTarget) -> Iterator[Borrowed]:
    cuda = target.inputs.cuda
    if cuda and compat.is_wanted(spec, target):
        yield compat.borrow(cuda, reference(lock, images.compat_image(cuda)))
    if cuda and nvcc.is_wanted(spec, target):
        images.refuse_old_headers(cuda, spec, target)
        yield nvcc.borrow(cuda, target.inputs.platform, reference(lock, images.devel(cuda, spec, target)))


def _apt(spec: Spec, target: LockedTarget, services: tuple[Service, ...]) -> tuple[str, ...]:
    torch = _FOR_TORCH if torch_version(target) else ()
    fabric = _FABRIC if target.inputs.cuda and spec.image.fabric == "infiniband" else ()
    return tuple(sorted({*_ALWAYS, *torch, *fabric, *(name for service in services for name in service.apt)}))


def _compiling(spec: Spec, lock: Lock, target: LockedTarget, wheels: tuple[PipStep, ...]) -> Compiling | None:
    name = images.compiler(spec, target)
    if name is None:
        return None
    pins, sees = images.sources(target), bool(images.compiled_packages(spec, target))
    tools = {"build-essential", "ca-certificates", *(["git"] if any(pin.git for pin in pins) else [])}
    return Compiling(
        tuple(sorted(pin.name for pin in pins)),
        reference(lock, name),
        tuple(sorted({*tools, *spec.image.build_apt})),
        {**build_variables(target), **spec.image.build_env} if sees else {},
        wheels,
        sees,
    )


def services(spec: Spec, lock: Lock, target: LockedTarget) -> tuple[Service, ...]:
    """List the services of the spec, in its order. Raises InputError for a service whose package isn't in the lock."""
    for name, package in missing_packages(spec, target):
        message = f'the service "{name}" needs {package}, and the lock of {lock.name} has none for {target.name}'
        hint = f"add {package} to [pip] dependencies, then envspec lock {spec.path}"
        raise InputError(message, hint=hint, place=spec.places.get("image.services", Place(spec.path)))
    known = {
        "jupyter": Service("jupyter", 8888, "services/jupyter.sh"),
        "ssh": Service(
            "ssh",
            spec.image.ssh_port,
            "services/ssh.sh",
            apt=("openssh-server",),
            # the host's own sshd has 22
            published=Image().ssh_port if spec.image.ssh_port < 1024 else None,
        ),
        "code-server": Service(
            "code-server",
            8080,
            "services/code-server.sh",
            image=reference(lock, CODE_SERVER),
            copies=(("/usr/lib/code-server", "/usr/lib/code-server"),),
        ),
        "tensorboard": Service("tensorboard", 6006, "services/tensorboard.sh"),
    }
    return tuple(known[name] for name in spec.image.services)
