"""What the tools answer to a case: envspec and uv as tests/stacks asks them, pip by its report, rattler's solver."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli
from stacks.answers import Answer, envspec_answer, request_of, uv_answer
from stacks.flat_pages import Page, flat_page
from stacks.recording import RecordedPyPI, Recording
from support.recorded import unpack

from bench.lab.cases import Case
from envspec.facts.minimum import architectures
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import LockedTarget
from envspec.lock.read import load
from envspec.net.index_proxy.server import IndexProxy, open_proxy
from envspec.packages.requirement import canonical_name
from envspec.resolve.conda.request import CondaRequest, conda_request_for, virtual_packages
from envspec.resolve.conda.solve import base_constraints
from envspec.resolve.torch_index import choice as torch_index
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec

NEEDED, _OFFERED = "--allow-needed", ("--allow-needed",)
PIP_SECONDS = 120
"""The longest that pip may take: it backtracks for hours where uv says no at once."""


@dataclass
class Bench:
    """A case on the bench: its spec in a folder of its own, its flat page, its index and the caches of all cases."""

    case: Case
    folder: Path
    caches: Path
    proxy: IndexProxy
    page: Page | None
    more: Mapping[str, str]

    @property
    def spec_path(self) -> Path:
        return self.folder / self.case.name / "spec.toml"

    @cached_property
    def spec(self) -> Spec:
        self.spec_path.parent.mkdir(exist_ok=True)
        self.spec_path.write_text(self.case.text, encoding="utf-8")
        return load_spec(str(self.spec_path))

    @property
    def locked(self) -> LockedTarget:
        """The target as it was locked."""
        (target,) = load(self.folder / self.case.name / "envspec.lock").targets
        return target

    def ours(self, *options: str) -> Answer:
        """Lock the case; sources are let be built where only they stand in the way, as uv builds them."""
        _ = self.spec
        found = envspec_answer(self.spec_path, self.caches / "envspec", self.folder, self.more, self.page, options)
        offered = not options and any(one in found.told for one in _OFFERED)
        return self.ours(NEEDED) if offered and not found.packages else found

    def uvs(self, besides: Sequence[str] = ()) -> Answer:
        """Ask uv, with requirements more."""
        return uv_answer(self.spec, self.caches / "uv", self.folder, self.proxy, self.more, self.page, besides)

    def pips(self) -> Answer | str:
        """Ask pip, by a Python of the same minor version; or say why it isn't asked."""
        request = request_of(self.spec)
        if request.platform != "linux-64" or request.overrides or self.page:
            return "has no overrides, no other machine's markers, no flat page here"
        if any(pin.artifact is None or not pin.artifact.file.endswith(".whl") for pin in self.locked.pins):
            return "isn't let build sources, which the answer has"
        if (python := python_of(request.python)) is None:
            return f"no Python {request.python} here"
        index, report = torch_index.choose(request), self.folder / "report.json"
        (self.folder / "pip.txt").write_text(
            "\n".join((*index.constraints, *request.constraints, "")), encoding="utf-8"
        )
        glibc = int((request.glibc or "2.28").split(".")[1])
        tags = (*(f"manylinux_2_{minor}_x86_64" for minor in range(glibc, 4, -1)), "manylinux2014_x86_64",
                "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64")  # fmt: skip
        command = [
            sys.executable, "-m", "pip", "--python", python, "install", "--dry-run", "--ignore-installed", "--quiet",
            "--report", str(report), "--use-feature=fast-deps", "--only-binary", ":all:", "--constraint", "pip.txt",
            "--python-version", request.full_python, *(f"--platform={tag}" for tag in tags),
            *(("--uploaded-prior-to", request.exclude_newer) if request.exclude_newer else ()),
            *(("--extra-index-url", self.proxy.with_login(self.proxy.url(index.variant))) if index.variant else ()),
            *request.requirements,
        ]  # fmt: skip
        mine = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_CACHE_DIR": str(self.caches / "pip")}
        mine |= {"PIP_INDEX_URL": url} if (url := self.more.get("UV_DEFAULT_INDEX")) else {}
        try:
            ended = subprocess.run(
                command, cwd=self.folder, env={**os.environ, **mine}, capture_output=True, text=True, check=False,
                timeout=PIP_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no answer after {PIP_SECONDS} s"
        if ended.returncode:
            return Answer({}, 0, ended.stderr.strip())
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
        named = (one["metadata"] for one in installed)
        return Answer({canonical_name(one["name"]): one["version"] for one in named}, 0, "")

    def rattlers(self, besides: Sequence[str] = ()) -> Answer:
        """Ask rattler for the conda half: the match specs, the target's virtual packages and its CUDA as a bound.
        `besides` are match specs more."""
        spec = self.spec
        (target,) = spec.targets
        request = conda_request_for(spec_inputs(spec), target_inputs(spec, target), architectures(target.gpus))
        records = asyncio.run(solved(channel_of(self.caches), request, besides))
        return Answer({one.name.normalized: f"{one.version}={one.build}" for one in records}, 0, "")


def channel_of(caches: Path) -> str:
    """Give the address of the recorded channel: conda's own isn't asked, so that both see the same records."""
    folder = caches / "recorded"
    if not folder.exists():
        folder.mkdir(parents=True)
        unpack(folder)
    return (folder / "conda-forge").as_uri()


async def solved(channel: str, request: CondaRequest, besides: Sequence[str]) -> Any:
    """Solve by rattler, as a user would who knows conda-forge: nothing else of envspec is asked."""
    import rattler
    from rattler.package import BuildString

    packages = [
        rattler.GenericVirtualPackage(rattler.PackageName(name), rattler.Version(version), BuildString(build))
        for name, version, build in virtual_packages(request)
    ]
    return await rattler.solve(
        [channel],
        [rattler.MatchSpec(text) for text in (*request.solved_specs, *besides)],
        gateway=rattler.Gateway(),
        platforms=[request.platform, "noarch"],  # type: ignore[list-item]
        virtual_packages=packages,
        constraints=[rattler.MatchSpec(text) for text in base_constraints(request.cuda, request.names)],
    )


def python_of(minor: str) -> str | None:
    """Find a Python of a minor version: pyenv's, or the one on PATH; each is asked for its version."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = sorted(root.glob(f"{minor}.*/bin/python"))
    return str(found[-1]) if found else None


@contextmanager
def on_the_bench(case: Case, folder: Path, caches: Path, recording: Recording | None = None) -> Iterator[Bench]:
    """Set a case up: on the real index, or on a recording."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        proxy = stack.enter_context(open_proxy())
        page = stack.enter_context(flat_page(case.project)) if case.project else None
        more: dict[str, str] = {}
        if tomli.loads(case.text).get("conda"):
            config = folder / "conda.toml"
            config.write_text(f'[mirrors]\nconda-forge = "{channel_of(caches)}"\n', encoding="utf-8")
            more["ENVSPEC_CONFIG"] = str(config)
        if recording is not None:
            more["UV_DEFAULT_INDEX"] = stack.enter_context(RecordedPyPI(recording=recording)).url
        yield Bench(case, folder, caches, proxy, page, more)
