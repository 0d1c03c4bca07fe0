"""The targets of a new spec: the CUDA that suits their GPUs, and the Python that suits both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import Infeasible, together
from envspec.base.finding import Finding
from envspec.draft.claims import Agreement, candidates, may_hold, settle
from envspec.draft.model import Draft, NewTarget, Note
from envspec.facts import conda_builds, gpus as gpu_facts, released, torch_builds
from envspec.facts.wheels import FAMILY
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.python_range import parse_python
from envspec.packages.requirement import is_requirement
from envspec.packages.version_numbers import numbers
from envspec.rules.judge import Verdict, judge
from envspec.spec.forms import PYTHONS
from envspec.spec.model import Spec

CPU = NewTarget("cpu", "linux-64")
SpecOfDraft = Callable[[Draft, tuple[NewTarget, ...]], Spec]
"""Reads the spec of a draft with these targets."""
_CPU_ALONE = ("osx-64", "osx-arm64")


class Machines(Struct, frozen=True):
    """The user's words about the machines: none, or part of them."""

    platforms: tuple[str, ...] = ()
    cuda: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None
    glibc: str | None = None


class ChosenMachines(Struct, frozen=True):
    """The targets and the Python of a new spec. `why` has the reason of a choice by its key, python or cuda; `notes`
    have the targets of a file that are left out."""

    targets: tuple[NewTarget, ...]
    python: str
    why: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


class _Attempt(Struct, frozen=True):
    """Targets under one Python, and the rules' verdict on each."""

    python: str
    targets: tuple[NewTarget, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(dict.fromkeys(error for verdict in self.verdicts for error in verdict.errors))

    @property
    def of_python(self) -> str | None:
        """What speaks against the Python."""
        return next((error.message for error in self.errors if error.code.startswith("python-too")), None)

    @property
    def working(self) -> tuple[NewTarget, ...]:
        return tuple(target for target, verdict in zip(self.targets, self.verdicts, strict=True) if not verdict.errors)


def choose(
    draft: Draft,
    machines: Machines,
    pythons: Sequence[str],
    spec_of: SpecOfDraft,
    torch: tuple[str, str] | None = None,
) -> ChosenMachines:
    """Choose the targets, and the first of the Pythons that the rules find feasible with them.

    Where GPUs are named and no CUDA is, the rules choose among those that torch is built for. `spec_of` reads the spec
    of a draft with these targets. `torch` is a requirement on the torch that the files lead to without a word of it,
    with the sentence that says so. Raises Infeasible where nothing works, with what the rules say against the nearest.
    """
    platforms = machines.platforms or draft.platforms or _platforms_of(machines.gpus) or ("linux-64",)
    settled = settle(draft.claims, platforms[0])
    named = (machines.cuda,) if machines.cuda else tuple(version for version in settled.cuda if version != "cpu")
    if draft.targets:
        options = [tuple(_on_machine(target, machines, alone=len(draft.targets) == 1) for target in draft.targets)]
    elif machines.cuda == "cpu" or not (named or _wants_cuda(draft, settled) or machines.gpus or machines.driver):
        options = [_on(platforms, None, machines, draft)]
    else:
        cudas = named or candidates(settled.cuda_bounds, platforms[0], by_conda=_is_by_conda(draft))
        options = [_on(platforms, cuda, machines, draft) for cuda in cudas]
    torch = torch or torch_of_triton(draft)
    is_named = any(requirement_name(text) == "torch" for text in (*draft.pip, *draft.own) if is_requirement(text))
    part = "constraints" if is_named else "pip"
    judging = replace(draft, **{part: (*getattr(draft, part), torch[0])}) if torch else draft
    specs = [(targets, spec_of(judging, targets)) for targets in options]
    refused: list[_Attempt] = []
    for python in pythons:
        # an only one may be exact, as the spec has it
        attempts = [
            _attempt(spec if len(pythons) == 1 else with_python(spec, python), python, targets)
            for targets, spec in specs
        ]
        if working := [attempt for attempt in attempts if not attempt.errors]:
            # of what the files name the newest counts, which stands first
            best = (
                working[0]
                if named
                else max(
                    working, key=lambda attempt: _rank(_newest(attempt, draft), attempt.targets[0].cuda, platforms[0])
                )
            )
            why = _why(best, refused, machines, None if named else _newest(best, draft), settled.cuda_bounds)
            why = {key: f"{torch[1]}: {reason}" for key, reason in why.items()} if torch else why
            return ChosenMachines(best.targets, python, why, _unchosen(draft, best.targets, machines))
        refused += attempts
    nearest = min(refused, key=_distance)
    against = [error.text for error in nearest.errors]
    if nearest.working:
        left = (target.name for target in nearest.targets if target not in nearest.working)
        notes = tuple(Note(f"the environment {name} is left out: {'; '.join(against)}") for name in left)
        return ChosenMachines(nearest.working, nearest.python, notes=notes)
    raise together(Infeasible(error.text, hint=error.remedy) for error in nearest.errors)


def _unchosen(draft: Draft, targets: Sequence[NewTarget], machines: Machines) -> tuple[Note, ...]:
    """Tell of the CUDAs and the CPU builds that the files name besides those of the targets."""
    named = settle(draft.claims, targets[0].platform).cuda
    if draft.targets or machines.cuda:
        return ()
    notes = []
    if len(named) > 1:
        text = f"CUDA {', '.join(named)}: the target has {targets[0].cuda}; add targets for the others"
        notes.append(Note(text))
    if targets[0].cuda and any(bound.text == "cpu" for bound in draft.claims):
        notes.append(Note("CPU builds: add a target without cuda for these"))
    return tuple(notes)


def with_sources(draft: Draft, targets: Sequence[NewTarget]) -> Draft:
    """Return a draft with the sources whose markers hold on a target. A spec's are those of all its targets, which is
    told where a marker holds on some: no package of an index of one's own may come from PyPI."""
    sources, notes = dict(draft.sources), list[Note]()
    for name, index, marker in draft.sources_by_marker:
        holding = [target.name for target in targets if may_hold(marker, target.platform)]
        if holding:
            sources.setdefault(name, index)
        if holding and len(holding) < len(targets):
            text = f"{name} comes from {index} on all targets, not on {', '.join(holding)} alone ({marker})"
            notes.append(Note(f"{text}: a spec's sources hold for all"))
    return replace(draft, sources=sources, notes=(*draft.notes, *notes))


def _distance(attempt: _Attempt) -> tuple[int, int, bool, bool]:
    """Say how far an attempt is from one that works. One with a CUDA that torch has no build for says nothing of the
    machines."""
    errors = attempt.errors
    unbuilt = any(error.code == "no-build" for error in errors)
    return len(attempt.targets) - len(attempt.working), len(errors), not attempt.of_python, unbuilt


def _is_by_conda(draft: Draft) -> bool:
    """Return whether the files take torch from conda's packages alone."""
    names = {conda_name(text) for text in draft.conda}
    return bool(names & {"pytorch", "pytorch-gpu"}) and not any(requirement_name(t) == "torch" for t in draft.pip)


def _cudas_of_conda(version: str, platform: str) -> set[str | None]:
    """List the CUDAs that conda-forge built a release of pytorch for; others run with a newer one of their major, but
    no solver of conda prefers these."""
    return {build.cuda for build in conda_builds.builds(version, platform=platform)}


def _wants_cuda(draft: Draft, settled: Agreement) -> bool:
    """Return whether the files ask for a CUDA without naming one."""
    return bool(settled.cuda_bounds) or any(conda_name(text) == "pytorch-gpu" for text in draft.conda)


def bounds_torch(draft: Draft) -> bool:
    """Return whether the files bound torch, or a package that is made for one release of it. Beside a pinned package a
    bare name bounds nothing: vllm 0.6.3 has its own torch."""
    targets = (text for target in draft.targets for text in target.pip)
    by_pip = [text for text in (*draft.pip, *draft.own, *targets) if is_requirement(text)]
    names = {requirement_name(text) for text in by_pip}
    if _is_by_conda(draft) or not names & _FAMILY:
        return _is_by_conda(draft)
    bounds = [text for text in (*by_pip, *draft.constraints) if requirement_name(text) in _FAMILY & names]
    pins = [text for text in by_pip if "==" in text.partition(";")[0] and requirement_name(text) not in _FAMILY]
    return not pins or any(text.partition(";")[0].strip().lower() not in _FAMILY for text in bounds)


_FAMILY = frozenset(FAMILY)


def torch_of_triton(draft: Draft) -> tuple[str, str] | None:
    """Give the requirement for the torch that a pinned triton is made for, and a sentence that says so; None where the
    files ask for torch themselves, or pin no triton. CUDA and Python follow it as they follow a pinned torch."""
    texts_by_name = {
        requirement_name(text.rpartition("::")[2]): text for text in (*draft.pip, *draft.own, *draft.conda)
    }
    pin = texts_by_name.get("triton", "").partition(";")[0].partition("==")[2].strip()
    made_for = [release.version for release in torch_builds.releases() if release.triton == pin]
    if not made_for or texts_by_name.keys() & {*_FAMILY, "pytorch", "pytorch-gpu"}:
        return None
    span = made_for[0] if len(made_for) == 1 else f"{made_for[0]} to {made_for[-1]}"
    return f"torch>={made_for[0]},<={made_for[-1]}", f"triton {pin} is made for torch {span}"


def _attempt(spec: Spec, python: str, targets: tuple[NewTarget, ...]) -> _Attempt:
    return _Attempt(python, targets, tuple(judge(spec, target) for target in spec.targets))


def with_python(spec: Spec, python: str) -> Spec:
    """Return a spec with another Python, or a bound on it."""
    minor, bound = parse_python(python, PYTHONS) or (python, None)
    return replace(spec, python=minor, python_range=bound)


def _newest(attempt: _Attempt, draft: Draft) -> str | None:
    """Return the newest torch that works on the first target, can be locked for it and was released by the draft's day,
    where it has one; of files that don't ask for torch, the newest of that day."""
    day, verdict, target = draft.day, attempt.verdicts[0], attempt.targets[0]
    variant = torch_builds.variant_of(target.cuda)
    held = torch_builds.lockable(target.platform, variant, attempt.python[:4].rstrip("."))[::-1]
    if verdict.requirement is not None and verdict.requirement.channel == "conda":
        held = tuple(
            version for version in verdict.feasible if target.cuda in _cudas_of_conda(version, target.platform)
        )
    elif verdict.requirement is not None:
        held = tuple(release for release in verdict.feasible if release in held)
    elif day is None:
        return None
    return next((release for release in held if day is None or (released.date("torch", release) or day) < day), None)


def _why(
    best: _Attempt, refused: Sequence[_Attempt], machines: Machines, torch: str | None, bounds: Sequence[str]
) -> dict[str, str]:
    """Give the reasons of what was chosen. `torch` is the release that a CUDA was chosen for, within `bounds`."""
    reasons: dict[str, str] = {}
    if newer := next(filter(None, (attempt.of_python for attempt in refused)), None):
        reasons["python"] = newer
    cuda = best.targets[0].cuda
    if cuda and torch:
        requirement, platform = best.verdicts[0].requirement, best.targets[0].platform
        pypi = torch_builds.pypi_variant(torch, platform) == torch_builds.variant_of(cuda)
        builder = "its build on PyPI" if pypi else "a build"
        if requirement and requirement.channel == "conda":
            builder = "conda-forge's build"
        runs = f" and driver {machines.driver} runs" if machines.driver else ""
        says = "".join(f"the files: {bound}; " for bound in bounds)
        reasons["cuda"] = f"{says}torch {torch} has {builder} for it{runs}"
    return reasons


def on_machines(draft: Draft, machines: Machines) -> Draft:
    """Return a draft with the CUDA of its targets, or without these where the user names others, each noted."""
    if not (draft.targets and (machines.platforms or machines.cuda)):
        return replace(draft, targets=tuple(map(with_cuda, draft.targets)))
    asks = ((target.name, ", ".join((*target.pip, *target.conda))) for target in draft.targets)
    notes = [Note(f"the environment {name} is left out: {texts or 'it asks for nothing more'}") for name, texts in asks]
    return replace(draft, targets=(), notes=(*draft.notes, *notes))


def with_cuda(target: NewTarget) -> NewTarget:
    """Return a target of a file with the newest CUDA that its bounds allow; one for CPUs has no GPUs."""
    settled = settle(target.claims, target.platform)
    bounds = settled.cuda_bounds
    named = [version for version in settled.cuda if version != "cpu"]
    cuda = next(iter(named or (candidates(bounds, target.platform) if bounds else ())), None)
    return replace(target, cuda=cuda, gpus=target.gpus if cuda else ())


def _on_machine(target: NewTarget, machines: Machines, *, alone: bool) -> NewTarget:
    """Return a target of the file with the machines that the user names."""
    named = replace(target, glibc=machines.glibc or target.glibc)
    if named.cuda:
        named = replace(named, gpus=machines.gpus or named.gpus, driver=machines.driver)
    if not alone or target.name != "default":
        return named
    return replace(
        named, name="cpu" if not named.cuda else torch_builds.variant_of(named.cuda) + _architecture(named.gpus)
    )


_Rank = tuple[tuple[int, ...], bool, tuple[int, ...]]


def _rank(newest: str | None, cuda: str | None, platform: str) -> _Rank:
    """Return what makes one CUDA better than another: a newer torch, that release's build on PyPI, a newer CUDA."""
    is_default = newest is not None and torch_builds.pypi_variant(newest, platform) == torch_builds.variant_of(cuda)
    return tuple(numbers(newest)) if newest else (), is_default, tuple(numbers(cuda)) if cuda else ()


def _platforms_of(names: Sequence[str]) -> tuple[str, ...]:
    """List the platforms of GPUs that don't exist on linux-64."""
    elsewhere = (
        gpu.platform for name in names if not gpu_facts.on_platform(name, "linux-64") for gpu in gpu_facts.find(name)
    )
    return tuple(dict.fromkeys(filter(None, elsewhere)))


def _on(platforms: Sequence[str], cuda: str | None, machines: Machines, draft: Draft) -> tuple[NewTarget, ...]:
    targets = []
    for platform in platforms:
        # where the files name others for a platform, by a marker, those are its
        named = settle(draft.claims, platform).cuda if cuda and not machines.cuda else ()
        of_platform = None if platform in _CPU_ALONE else cuda if cuda in named or not named else named[0]
        of_platform = None if of_platform == "cpu" else of_platform
        base = "cpu" if of_platform is None else torch_builds.variant_of(of_platform) + _architecture(machines.gpus)
        name = base if len(platforms) == 1 else f"{base}-{platform}"
        with_gpu = of_platform is not None
        claims = [claim for claim in draft.claims if claim.about == "cuda" and claim.text == (of_platform or "cpu")]
        # one that holds without them needs none of the project's parts
        parts = () if any(not claim.part for claim in claims) else tuple(dict.fromkeys(claim.part for claim in claims))
        listed = [text for part in parts for text in draft.available.get(part, ()) if is_requirement(text)]
        targets.append(
            NewTarget(
                name,
                platform,
                of_platform,
                machines.gpus if with_gpu else (),
                machines.driver if with_gpu else None,
                machines.glibc if platform.startswith("linux-") else None,
                pip=() if draft.project else tuple(dict.fromkeys(listed)),
                parts=parts if draft.project else (),
            )
        )
    return tuple(targets)


def _architecture(names: Sequence[str]) -> str:
    """Return the architecture that all GPUs share, for a target's name."""
    architectures = {gpu.architecture.lower() for name in names for gpu in gpu_facts.find(name)}
    return f"-{next(iter(architectures)).replace(' ', '-')}" if len(architectures) == 1 else ""
