"""The Plan of one target, computed once from its spec and lock. Pure: the files that every image carries are package
data, read when this module is first used."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from envspec.errors import InputError, Place
from envspec.lock import conda_explicit
from envspec.lock.inputs import fingerprint
from envspec.lock.judge import SoundLock
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.requirements import requirements_txt
from envspec.recipes import images
from envspec.recipes.environment import compile_environment, environment, torch_version
from envspec.recipes.images import reference
from envspec.recipes.pip_steps import build_steps, pip_steps
from envspec.recipes.plan import SUMS, Compiling, PipStep, Plan, Service
from envspec.recipes.services import services
from envspec.recipes.target_json import target_json
from envspec.spec.model import Spec

_ALWAYS = ("ca-certificates", "tini")
_FOR_TORCH = ("g++",)
"""torch.compile compiles when a program runs: Inductor's CPU kernels are C++, Triton's launchers C."""
_DIGEST = re.compile(r'^digest = "(sha256:[0-9a-f]{64})"$', re.MULTILINE)
PLATFORMS = ("linux-64", "linux-aarch64")
"""What images are made for."""


# The users of Debian's base-passwd: none of them can become the one who works in an image.
_TAKEN = frozenset(
    {
        "_apt", "backup", "bin", "daemon", "games", "gnats", "irc", "list", "lp", "mail", "man", "news", "nobody",
        "proxy", "sshd", "sync", "sys", "uucp", "www-data",
    }
)  # fmt: skip


def make_plan(spec: Spec, lock: SoundLock, target: LockedTarget, lock_text: str) -> Plan:
    """What the recipes of `target` print. `lock_text` is the text of the lock's own file.

    Raises InputError for what no recipe can be made of: a platform that isn't Linux, a base image without apt, a
    service whose package isn't locked, an index that the spec doesn't name.
    """
    inputs = target.inputs
    if inputs.platform not in PLATFORMS:
        raise InputError(
            f"images are for Linux, and the target {target.name} is for {inputs.platform}",
            hint="choose targets with --target; `envspec install` makes the environment itself",
            place=Place(spec.path),
        )
    if spec.image.user in _TAKEN:
        raise InputError(
            f'the user "{spec.image.user}" is one of Debian\'s own', hint='user = "dev"', place=Place(spec.path)
        )
    wanted = services(spec, lock, target)
    steps = pip_steps(spec, lock, target)
    seen = build_steps(spec, lock, target) if images.sources(target) else ()
    digest = _lock_digest(lock_text)
    files = {
        "envspec.lock": lock_text,
        "target.json": target_json(spec, lock, target, digest),
        **_static(tuple(service.script for service in wanted)),
        **{step.file: text for step, text in (*steps, *seen)},
    }
    if steps:
        files["requirements.txt"] = requirements_txt(lock, target)
    has_conda = any(pin.kind == "conda" for pin in target.pins)
    explicit = conda_explicit.file_name(inputs.platform) if has_conda else None
    if explicit:
        files[explicit] = conda_explicit.committed_explicit(lock, target)
    files[SUMS] = _sums(files)
    return Plan(
        spec=spec.name,
        target=target.name,
        description=spec.description,
        platform=inputs.platform,
        python=inputs.python,
        cuda=inputs.cuda,
        gpus=inputs.gpus,
        architectures=target.architectures,
        driver_floor=target.driver_floor,
        glibc=inputs.glibc,
        lock_digest=digest,
        fingerprint=fingerprint(lock.inputs, inputs),
        torch=torch_version(target),
        base=reference(lock, images.base_of(spec)),
        uv=reference(lock, images.UV),
        micromamba=reference(lock, images.MICROMAMBA) if has_conda else None,
        user=spec.image.user,
        env=environment(spec, target),
        apt=_apt(spec, target, wanted),
        services=wanted,
        compiling=_compiling(spec, lock, target, tuple(step for step, _ in seen)),
        has_pip=bool(steps),
        gpu_packages=tuple(sorted({name for step, _ in steps if step.gpu for name in step.packages})),
        torch_backend=next((step.torch_backend for step, _ in steps if step.torch_backend), None),
        indexes=tuple(sorted({step.index for step, _ in steps if step.index})),
        pip=tuple(step for step, _ in steps),
        explicit=explicit,
        workload=spec.smoke.workload,
        steps=spec.smoke.steps,
        files=dict(sorted(files.items())),
    )


def _apt(spec: Spec, target: LockedTarget, wanted: tuple[Service, ...]) -> tuple[str, ...]:
    torch = _FOR_TORCH if torch_version(target) else ()
    return tuple(sorted({*_ALWAYS, *torch, *spec.image.apt, *(name for service in wanted for name in service.apt)}))


def _compiling(spec: Spec, lock: Lock, target: LockedTarget, wheels: tuple[PipStep, ...]) -> Compiling | None:
    name = images.compiler(spec, target)
    if name is None:
        return None
    pins = images.sources(target)
    tools = {"build-essential", "ca-certificates", *(["git"] if any(pin.git for pin in pins) else [])}
    return Compiling(
        tuple(sorted(pin.name for pin in pins)),
        reference(lock, name),
        tuple(sorted(tools)),
        tuple(sorted(spec.image.apt)),
        compile_environment(target),
        wheels,
        _build_constraints(target),
    )


def _build_constraints(target: LockedTarget) -> tuple[str, ...]:
    """torch up to 2.1 takes `packaging` from pkg_resources (torch/utils/cpp_extension.py), where setuptools has had it
    up to 69."""
    found = re.match(r"(\d+)\.(\d+)", torch_version(target) or "")
    return ("setuptools<70",) if found and (int(found[1]), int(found[2])) < (2, 2) else ()


def _lock_digest(text: str) -> str:
    """The digest that stands in a lock's head; for a text without one, the digest of the text."""
    found = _DIGEST.search(text[:1000])
    return found[1] if found else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _sums(files: dict[str, str]) -> str:
    return "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {path}\n" for path, text in sorted(files.items()))


@cache
def _static(scripts: tuple[str, ...]) -> dict[str, str]:
    """The carried files that are the same for every spec: read from the package, written verbatim."""
    here = Path(__file__).parent
    names = ["bytecode.py", "preflight.py", "entrypoint.sh", "healthcheck.sh", *scripts]
    if scripts:
        names.append("services/common.sh")
    found = {name: (here / "data" / name).read_text(encoding="utf-8") for name in names}
    check = here.parent / "smoke" / "check.py"
    if check.is_file():
        found["check.py"] = check.read_text(encoding="utf-8")
    return found
