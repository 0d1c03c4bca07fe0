"""What envspec and uv answer to a spec: packages, seconds, or the refusal."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envspec.facts.python_builds import newest_build
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.read import load
from envspec.net.index_proxy.server import IndexProxy
from envspec.packages.requirement import canonical_name
from envspec.packages.tags import MACOS
from envspec.resolve.pip.request import Request, request_for
from envspec.resolve.torch_index import choice as torch_index
from envspec.resolve.uv.program import find_uv
from envspec.spec.model import Spec
from stacks.flat_pages import Page

SECONDS = 900
"""The longest that either may take."""

_NOT_TOLD = ("wrote ", "still at work after ")
"""Lines that are no part of an answer: where the lock is, and what took long on this machine."""

_PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==([^\s;]+)")


@dataclass(frozen=True)
class Answer:
    """packages  name → version; none for a refusal
    seconds   of wall time
    told      what was said besides: notes, or the refusal
    """

    packages: dict[str, str]
    seconds: float
    told: str


def envspec_answer(
    spec: Path,
    caches: Path,
    locks: Path,
    more: Mapping[str, str] | None = None,
    page: Page | None = None,
    options: Sequence[str] = (),
) -> Answer:
    """Lock a spec of one target as its user would, with caches of its own. `more` adds to its variables; `page` stands
    for its flat index; `options` are those of `lock`."""
    if page is not None:
        config = locks / "config.toml"
        config.write_text(f"[mirrors]\n{page.mirror}\n", encoding="utf-8")
        more = {**(more or {}), "ENVSPEC_CONFIG": str(config)}
    command = [sys.executable, "-m", "envspec", "lock", str(spec), "--upgrade", "--locks-dir", str(locks), *options]
    environment = {**os.environ, "XDG_CACHE_HOME": str(caches), "NO_COLOR": "1", **(more or {})}
    ended, seconds = _timed(command, environment, locks)
    told = "\n".join(line for line in ended.stderr.strip().splitlines() if not line.startswith(_NOT_TOLD))
    if ended.returncode:
        return Answer({}, seconds, told)
    lock = load(locks / spec.parent.name / "envspec.lock")
    (target,) = lock.targets
    pins = {pin.name: pin.version for pin in target.pins}
    return Answer(pins, seconds, told)


def uv_answer(
    spec: Spec,
    caches: Path,
    folder: Path,
    proxy: IndexProxy,
    more: Mapping[str, str] | None = None,
    page: Page | None = None,
    besides: Sequence[str] = (),
) -> Answer:
    """Ask plain `uv pip compile` for the same: requirements, Python, platform, date, the torch family's index and the
    flat one. It builds what it needs from source, as it does for its users. `besides` are requirements more."""
    request = request_of(spec)
    index = torch_index.choose(request)
    source = folder / "requirements.in"
    source.write_text("\n".join((*request.requirements, *besides)) + "\n", encoding="utf-8")
    command = [
        find_uv(os.environ).executable, "pip", "compile", str(source), "--quiet", "--no-header", "--no-annotate",
        "--python-version", request.full_python, "--python-platform", request.uv_platform, "--no-config",
        *(("--exclude-newer", request.exclude_newer) if request.exclude_newer else ()),
        *(("--index", proxy.with_login(proxy.url(index.variant))) if index.variant else ()),
        *(("--find-links", page.url) if page else ()),
    ]  # fmt: skip
    constraints = (*index.constraints, *request.constraints)
    for option, lines in (("constraints", constraints), ("overrides", request.overrides)):
        if lines:
            bounds = folder / f"{option}.txt"
            bounds.write_text("\n".join(lines) + "\n", encoding="utf-8")
            command += [f"--{option}", str(bounds)]
    # like envspec's own uv: a Python that it fetches first is no part of the answer, but of its seconds
    kept = {"UV_CACHE_DIR": str(caches), "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1"}
    kept["MACOSX_DEPLOYMENT_TARGET"] = ".".join(map(str, MACOS))
    environment = {**os.environ, **kept, **(more or {})}
    ended, seconds = _timed(command, environment, folder)
    if ended.returncode:
        return Answer({}, seconds, ended.stderr.strip())
    pins = {canonical_name(name): version for name, version in _PIN.findall(ended.stdout)}
    return Answer(pins, seconds, ended.stderr.strip())


def torch_index_of(spec: Spec) -> str:
    """Name the PyTorch index of a spec's torch family; empty for PyPI."""
    return torch_index.choose(request_of(spec)).variant or ""


def request_of(spec: Spec) -> Request:
    """Give what the one target of a spec asks pip's half for, with the Python that a lock of it names."""
    (target,) = spec.targets
    shared, inputs = spec_inputs(spec), target_inputs(spec, target)
    build = newest_build(inputs.python, inputs.platform, shared.exclude_newer, inputs.python_range or "")
    python = build.version if build and not inputs.conda_requirements else None
    return request_for(shared, inputs.with_python(python, of_base=False))


def _timed(
    command: list[str], environment: dict[str, str], folder: Path
) -> tuple[subprocess.CompletedProcess[str], float]:
    start = time.perf_counter()
    try:
        ended = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        ended = subprocess.CompletedProcess(command, 124, "", f"no answer after {SECONDS} s")
    return ended, time.perf_counter() - start
