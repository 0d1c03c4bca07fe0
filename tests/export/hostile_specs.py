"""Specs that mean harm: the texts, the specs around them, their locks, and the recipes beside a harmless twin's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

from hypothesis import HealthCheck, settings, strategies as st
from msgspec import Struct
from msgspec.structs import replace
from recipe_plans import with_values
from recipe_readers import read
from support.examples import examples

from envspec.base.errors import EnvspecError, InputError, SpecError
from envspec.export import folder
from envspec.export.make import make_spec_plan
from envspec.export.plan import Plan, SpecPlan
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Artifact, GitSource, Lock, LockedImage, LockedTarget, Pin, SoundLock
from envspec.lock.toml_text import key, string
from envspec.spec.model import Spec
from envspec.spec.parse import parse_spec

PIECES = (
    '"; rm -rf /', "$(touch owned)", "`touch owned`", "\\", "'", '"', "'''", '"""', "${HOME}", "$HOME", "''${x}",
    "$${x}", "$", "$$", "\\$", "\u2028", "\u2029", "\u0085", "\r", "\n", "\r\n", "\0", "\t", "\x0b", "\x0c",
    "\x1c", "\x1b[2J", "\u202e", "\u200f", "\ufeff", "%", "%%", "\n%post\n touch owned", "\n%s",
    "\nBootstrap: docker", "{{ x }}", "{{", "{", "}", "\nRUN touch owned", "\nFROM evil", "\nUSER root", "<<EOF",
    "\nEOF\n", "# escape=`\n", "--[[", "]]", "]=]", "*/", "//", "#", " #", "---\n", ": ", "- a", "&a *a",
    "!!python/object:x", "\n  x: y", "\n[targets.x]", "\\u0022", "\\n", "\\x41", "~", "!", "=", ";", "|", "&", ">",
    "<", "@", "*", "?", " ", "a b", "=b", ",", "é", "\U0001f600", "x" * 5000,
)  # fmt: skip


hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=6).map("".join)
"""Text with whatever means something somewhere."""


@dataclass(frozen=True)
class Words:
    """The free text of a spec."""

    description: str = "plain"
    env: tuple[tuple[str, str], ...] = ()
    unit: str = "samples/s"
    path: str = "simple"
    marker: str = "plain"
    program: str = "plain"

    def harmless(self) -> Words:
        """Plain words where there are any."""
        description = "plain" if self.description.split() else ""
        return Words(description, tuple((name, "plain") for name, _ in self.env))


class Names(Struct, frozen=True):
    """What a spec's own format guards: it says where what is hostile is refused."""

    name: str = "demo"
    target: str = "cu128"
    user: str = "dev"
    base: str = "debian:bookworm-slim"
    apt: str = "libgl1"
    index: str = "internal"
    package: str = "inner"
    reference: str = "training.samples_per_s"
    variable: str = "HF_HOME"
    driver: str = "570.26"
    gpu: str = "H100"
    channel: str = "conda-forge"
    service: str = "code-server"
    workload: str = "basic"
    repository: str = "registry.example/team/demo"
    account: str = "team"
    option: str = "--qos=long"
    variable_in: str = "HF_*"
    label: str = "pool"
    claim: str = "data"
    after: str = "2026-11-01"


def document(names: Names, words: Words) -> str:
    """The spec's text."""
    env = {names.variable: "plain", **dict(words.env)}
    pairs = "".join(f"{key(name)} = {string(value)}\n" for name, value in env.items())
    # no text after the x makes it a version, which `!=` would compare otherwise than a text
    requirement = f'alpha; platform_release != "0-x{words.marker}"'
    return f"""\
[env]
name = {string(names.name)}
description = {string(words.description)}
python = "3.12"
exclude-newer = {string(names.after)}
[pip]
dependencies = [{string(requirement)}, "torch", "slow", "jupyterlab", "fetched @ git+https://git.example/x@main"]
allow-source = ["slow", "fetched"]
indexes = {{ {key(names.index)} = {string("https://index.example/" + words.path)} }}
sources = {{ {key(names.package)} = {string(names.index)} }}
[conda]
channels = [{string(names.channel)}]
[targets.{key(names.target)}]
platform = "linux-64"
cuda = "12.8"
gpus = [{string(names.gpu)}]
driver = {string(names.driver)}
[targets.conda]
platform = "linux-64"
[targets.conda.conda]
dependencies = ["ffmpeg 7.*"]
[image]
base = {string(names.base)}
name = {string(names.repository)}
services = ["jupyter", "ssh", {string(names.service)}]
user = {string(names.user)}
apt = [{string(names.apt)}]
build-apt = [{string(names.apt)}]
nvcc = true
[image.env]
{pairs}[image.build-env]
{pairs}[smoke]
workload = {string(names.workload)}
[smoke.references.{key(names.reference)}]
value = 1
unit = {string(words.unit)}
[slurm]
account = {string(names.account)}
partition = {string(names.account)}
constraint = {string(names.account)}
signal = "USR1@60"
environment = [{string(names.variable_in)}]
launch = "srun"
mpi = {string(names.account)}
options = [{string(names.option)}]
[kubernetes]
namespace = {string(names.claim)}
volume = {string(names.claim)}
secret = {string(names.claim)}
pull-secret = {string(names.claim)}
rdma = {string("rdma/" + names.label)}
tolerations = [{string(names.label)}]
program = ["train.py", {string(words.program)}]
node-selector = {{ {key(names.label)} = {string(names.label)} }}
"""


SHA = "a" * 64


def pip(name: str, file: str, index: str = "pypi", *requires: str) -> Pin:
    return Pin("pip", name, "1.0", index, Artifact(file, SHA, 10), requires, licence="MIT")


def lock_of(spec: Spec, words: Words) -> Lock:
    """A lock as resolving would give it, with a package of every kind."""
    index = next(iter(spec.pip.indexes))
    inner = next(iter(spec.pip.sources))
    pins = (
        pip("alpha", "alpha-1.0-py3-none-any.whl", "pypi", f'beta; platform_release != "0-x{words.marker}"'),
        Pin("pip", "fetched", "1.0", "git", None, git=GitSource("https://git.example/x", "c" * 40)),
        pip(inner, f"{inner.replace('-', '_')}-1.0-py3-none-any.whl", index),
        pip("jupyterlab", "jupyterlab-1.0-py3-none-any.whl"),
        pip("slow", "slow-1.0.tar.gz"),
        pip("torch", "torch-1.0-cp312-cp312-linux_x86_64.whl", "pytorch/cu128"),
    )
    ffmpeg = Pin(
        "conda", "ffmpeg", "7.1", "conda-forge/linux-64", Artifact("ffmpeg-7.1-h1.conda", SHA, 10, "b" * 32), build="h1"
    )
    targets = (
        LockedTarget(
            target.name,
            target_inputs(spec, target),
            tuple(sorted((*((ffmpeg,) if target.conda else ()), *pins), key=lambda pin: (pin.kind, pin.name))),
            ("sm_90",) if target.cuda else (),
            "525.60.13" if target.cuda else None,
        )
        for target in sorted(spec.targets, key=lambda target: target.name)
    )
    images = () if "@" in spec.image.base else (LockedImage(spec.image.base, f"sha256:{SHA}"),)
    return Lock(spec.name, spec_inputs(spec), tuple(targets), images)


@dataclass(frozen=True)
class Project:
    """A spec that parsed, its lock, and the words in it."""

    spec: Spec
    lock: Lock
    words: Words

    def plan(self) -> SpecPlan:
        return make_spec_plan(self.spec, SoundLock.of(self.lock))


def project(names: Names, words: Words) -> Project:
    spec = parse_spec(document(names, words), "hostile.toml")
    return Project(spec, lock_of(spec, words), words)


def must_be_clear(error: EnvspecError) -> None:
    """A refusal says something, and nothing in it can move a terminal."""
    assert error.message and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", error.message), error


def files_of(plan: SpecPlan) -> dict[str, str]:
    """Every file of every format that the plan admits. What is refused is refused in clear words."""
    renders = [partial(folder.render, of, name) for of in plan.targets for name in folder.OF_A_TARGET]
    renders += [partial(folder.render_spec, plan, name) for name in folder.OF_A_SPEC]
    found: dict[str, str] = {}
    for render in renders:
        try:
            found |= render()
        except InputError as error:
            must_be_clear(error)
    return found


def values_of(plan: SpecPlan) -> dict[str, object]:
    """What the reader of each file of a plan makes of it, and whether its values are the plan's."""
    return {path: read(path, text, plan) for path, text in files_of(plan).items()}


def is_inert(plan: SpecPlan, twin: Mapping[str, object]) -> None:
    """Whether each file of a plan reads back as its own values, and as the harmless twin's otherwise."""
    values = values_of(plan)
    # only what stands on several lines, or ends a C string, may be refused
    texts = (plan.description, *(value for of in plan.targets for _, value in of.runtime.env))
    refusable = any("\0" in text or text.splitlines() not in ([], [text]) for text in texts)
    assert values.keys() <= twin.keys() if refusable else values.keys() == twin.keys()
    for path, value in values.items():
        assert value == twin[path], path


variables = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    # what a shell keeps for itself or refuses to set: no text does harm there that its name doesn't
    lambda name: (
        name.upper() not in ("PATH", "IFS", "PWD", "OLDPWD", "PPID", "_", "OPTIND", "LINENO", "PS1", "PS2", "PS4")
    )
)


odd_names = st.builds(
    Names,
    name=st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,6}[a-z0-9])?", fullmatch=True),
    target=st.from_regex(r"[a-b0-9]([a-z0-9._-]{0,6}[a-z0-9])?", fullmatch=True),
    user=st.from_regex(r"[a-z_][a-z0-9_-]{0,8}", fullmatch=True),
    base=st.from_regex(
        r"([a-z0-9]{1,4}(:[0-9]{1,4})?/)?[a-z0-9]{1,6}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,6})?", fullmatch=True
    ),
    apt=st.from_regex(r"[a-z0-9][a-z0-9+.-]{0,6}", fullmatch=True),
    index=st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,6}[a-z0-9])?", fullmatch=True),
    reference=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,8}", fullmatch=True),
    variable=variables,
)


SLOWLY = settings(
    max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


QUICKLY = settings(SLOWLY, max_examples=examples(20, night=400))


def whole(names: Names, words: Words) -> None:
    """From the spec's text to every file."""
    try:
        made = project(names, words)
    except SpecError as error:
        must_be_clear(error)
        return
    assert made.spec.description == words.description.strip() or made.spec.description == words.description
    assert dict(made.spec.image.env) == dict(made.spec.image.build_env) == {names.variable: "plain", **dict(words.env)}
    try:
        plan = made.plan()
    except InputError as error:
        must_be_clear(error)
        return
    if words == words.harmless():
        values_of(plan)  # the plan is its own twin
    else:
        is_inert(plan, values_of(project(names, words.harmless()).plan()))


@cache
def harmless_plan() -> SpecPlan:
    return project(Names(), Words()).plan()


def with_words(plan: SpecPlan, description: str, value: str | None = None) -> SpecPlan:
    """A plan with a description, and with a value of the spec's variable, if one is given."""

    def changed(of: Plan) -> Plan:
        assert of.sources.compiling is not None
        given = {"HF_HOME": value} if value is not None else {}
        compiling = replace(of.sources.compiling, env={**of.sources.compiling.env, **given})
        env = tuple((name, given.get(name, old)) for name, old in of.runtime.env)
        return with_values(of, description=description, env=env, compiling=compiling)

    return replace(plan, description=description, targets=tuple(map(changed, plan.targets)))
