"""Specs that mean harm: whatever a spec puts into a recipe is refused, or stays text.

Every format's files are read back by readers that aren't envspec's: BuildKit's parser, a shell, Lua, Nix, and the
parsers of TOML, YAML and JSON. The values have to come back equal, and there may be nothing besides: each file is
compared with that of a harmless twin, the same spec with plain words in place of free text.

A new format needs its reader in READERS; without one its files fail here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import tomli
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recipe_plans import text_in
from support.examples import examples
from support.matrix import by_day
from test_apptainer import parse as apptainer_stages

from envspec.lock.judge import SoundLock
from envspec.cli.export.formats import FORMATS as LOCK_FORMATS
from envspec.errors import EnvspecError, InputError, SpecError
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Artifact, GitSource, Lock, LockedImage, LockedTarget, Pin
from envspec.lock.read import loads
from envspec.lock.toml_text import key, string
from envspec.recipes import folder
from envspec.recipes.make import make_spec_plan
from envspec.recipes.plan import CARRIED_FOLDER, REQUIREMENTS, Plan, SpecPlan
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
_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
presentable = hostile.map(lambda text: _REFUSED.sub("", text))
"""The same without what no spec may hold, so that it gets as far as the recipes."""
in_a_url = st.lists(st.sampled_from("\"$(id)'`;&|\\{}<>%![]^~a"), max_size=8).map("".join)
in_a_marker = presentable.map(lambda text: re.sub("[\"'\\\\]", "", text)[:50])


@dataclass(frozen=True)
class Words:
    """The free text of a spec."""

    description: str = "plain"
    env: tuple[tuple[str, str], ...] = ()
    unit: str = "samples/s"
    path: str = "simple"
    marker: str = "plain"

    def harmless(self) -> Words:
        """Plain words where there are any."""
        description = "plain" if self.description.split() else ""
        return Words(description, tuple((name, "plain") for name, _ in self.env))


@dataclass(frozen=True)
class Names:
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
    after: str = "2026-11-01"


FIELDS = tuple(Names.__dataclass_fields__)


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
services = ["jupyter", "ssh", {string(names.service)}]
user = {string(names.user)}
apt = [{string(names.apt)}]
[image.env]
{pairs}[smoke]
workload = {string(names.workload)}
[smoke.references.{key(names.reference)}]
value = 1
unit = {string(words.unit)}
"""


SHA = "a" * 64
YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
        return make_spec_plan(self.spec, SoundLock(self.lock))


def project(names: Names, words: Words) -> Project:
    spec = parse_spec(document(names, words), "hostile.toml", capability=lambda gpu: None)
    return Project(spec, lock_of(spec, words), words)


def must_be_clear(error: EnvspecError) -> None:
    """A refusal says something, and nothing in it can move a terminal."""
    assert error.message and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", error.message), error


# Readers. Each takes a file and its plan, of the target or of the spec, and gives what is compared with the harmless
# twin's; the values it finds it compares with the plan's at once.

Reader = Callable[[str, Plan], object]
SpecReader = Callable[[str, SpecPlan], object]


def _hashless(text: str) -> str:
    """Digests differ between the twins wherever a carried file does."""
    return re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b", "…", text)


def _unquoted(word: str) -> str:
    """A double-quoted word of a Dockerfile, by BuildKit's shell lexer: a backslash counts before `"`, `$` and itself,
    and a dollar or a quote without one would be syntax."""
    assert word[:1] == word[-1:] == '"' and len(word) > 1, word
    assert re.fullmatch(r'(?:[^"\\$]|\\.)*', word[1:-1], re.DOTALL), word
    return re.sub(r'\\([\\"$])', r"\1", word[1:-1])


def read_dockerfile(text: str, plan: Plan) -> object:
    from envspec.recipes.dockerfile import labels

    parser = pytest.importorskip("dockerfile")
    found: list[object] = []
    pairs: dict[str, dict[str, str]] = {"ENV": {}, "LABEL": {}}
    for command in parser.parse_string(text):
        assert not command.heredocs
        if command.cmd in pairs:
            names, values = command.value[::2], command.value[1::2]
            pairs[command.cmd] |= {name: _unquoted(value) for name, value in zip(names, values, strict=True)}
            found.append((command.cmd, names))
        elif command.cmd == "ARG":
            name, equals, value = command.value[0].partition("=")
            found.append(("ARG", name, bool(equals)))
            urls = [step.url for step in plan.pip if step.index and name.startswith("INDEX_")]
            assert not urls or _unquoted(value) in urls
        else:
            if command.cmd == "RUN":
                _shell_parses(command.value[0].rpartition("--mount")[2])
            found.append((command.cmd, command.flags, tuple(map(_hashless, command.value))))
    assert {name: pairs["ENV"].get(name) for name, _ in plan.env} == dict(plan.env)
    assert pairs["LABEL"] == labels(plan)
    return found


@cache
def _shell_parses(text: str) -> None:
    ran = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True)
    assert ran.returncode == 0, ran.stderr


def _exported(script: str, names: Mapping[str, str]) -> dict[str, str]:
    """The variables that a shell has after a script that must do nothing else."""
    ran = subprocess.run(
        ["sh", "-ec", f"{script}\nexec env -0"], capture_output=True, env={"PATH": os.defpath}, cwd="/", check=True
    )
    assert not ran.stderr
    found = dict(entry.split("=", 1) for entry in ran.stdout.decode().split("\0") if entry)
    return {name: value for name, value in found.items() if name in names}


def read_apptainer(text: str, plan: Plan) -> object:
    assert "{{" not in text
    assert text.isprintable() or set(text) - {"\n"} == {char for char in text if char != "\n"}
    found: list[object] = []
    for stage in apptainer_stages(text):
        kept: dict[str, object] = {}
        for name, body in stage.sections.items():
            if name == "environment":
                # a PATH or a shell's own variable would stop the shell that reads the rest
                env = {name: value for name, value in plan.env if name != "PATH"}
                assert _exported(body, env) == env
            elif name == "labels":
                kept[name] = tuple(line.split(maxsplit=1)[0] for line in body.splitlines() if line.strip())
            elif name == "help":
                kept[name] = str(body.count("\n"))
            else:
                kept[name] = re.sub(r"--default-index \S+", "--default-index …", _hashless(body))
                if name.partition(" ")[0] in ("post", "test", "runscript", "apprun"):
                    _shell_parses(body)
        found.append((stage.header, kept, "environment" in stage.sections))
    return found


LUA = """
local out = io.stdout
local function record(name)
  return function(...)
    out:write(name)
    for _, value in ipairs({...}) do
      out:write(" ", (tostring(value):gsub(".", function(c) return string.format("%02x", c:byte()) end)))
    end
    out:write("\\n")
    return "x"
  end
end
local box = {os = {getenv = function() return "h" end}, mode = function() return "load" end, ipairs = ipairs}
box.myModuleVersion = function() return os.getenv("TARGET") end
box.isFile = function() return true end
box.pathJoin = function(...) return table.concat({...}, "/") end
for _, name in ipairs({"whatis", "help", "setenv", "unsetenv", "prepend_path", "family", "LmodError"}) do
  box[name] = record(name)
end
assert(load(io.read("a"), "module", "t", box))()
"""


@cache
def _lua() -> str | None:
    return shutil.which("lua5.4") or shutil.which("lua")


def read_lmod(text: str, plan: SpecPlan) -> object:
    return [_loaded(text, of) for of in plan.targets]


def _loaded(text: str, plan: Plan) -> object:
    """What the modulefile does under the name of a target."""
    from envspec.recipes.lmod import _ALSO_OUTSIDE

    lua = _lua()
    if lua is None:
        pytest.skip("no lua")
    ran = subprocess.run([lua, "-e", LUA], input=text.encode(), capture_output=True, env={"TARGET": plan.target})
    assert ran.returncode == 0, ran.stderr
    calls = [line.split(" ") for line in ran.stdout.decode().splitlines()]
    told = [(name, *(bytes.fromhex(value).decode() for value in values)) for name, *values in calls]
    values = {call[1]: call[2] for call in told if call[0] == "setenv"}
    assert all(values.get(name) == value for name, value in plan.env if name in _ALSO_OUTSIDE)
    assert ("whatis", f"Description: {plan.description or plan.spec}") in told
    return [(name, len(values)) for name, *values in told]


def read_kubernetes(text: str, plan: Plan) -> object:
    (found,) = yaml.load_all(_hashless(text), YAML)
    assert found["metadata"]["annotations"]["envspec/spec"] == plan.spec
    return found


def read_yaml(text: str) -> Any:
    return yaml.load(text, YAML)


def read_devcontainer(text: str, plan: Plan) -> object:
    found = json.loads("\n".join(line for line in text.split("\n") if not line.startswith("//")))
    assert (found["name"], found["remoteUser"]) == (plan.title, plan.user)
    return found


def read_compose(text: str, plan: SpecPlan) -> object:
    (found,) = yaml.load_all(text, YAML)
    assert [*found["services"]] == [*plan.names]
    return found


def read_sbatch(text: str, plan: SpecPlan) -> object:
    _shell_parses(text)
    options = [line.removeprefix("#SBATCH ") for line in text.split("\n") if line.startswith("#SBATCH")]
    assert shlex.split(options[0]) == [f"--job-name={plan.spec}"]
    return text


def read_flake(text: str, plan: SpecPlan) -> object:
    """Read by Nix itself below, many at once, as starting it takes long."""
    return None


def read_plain(text: str, plan: Plan | SpecPlan) -> object:
    return text


def read_target_json(text: str, plan: Plan) -> object:
    found = json.loads(text)
    assert (found["spec"], found["target"], found["workload"]) == (plan.spec, plan.target, plan.workload)
    assert (found["lock_digest"], found["lock"]["env"]["name"]) == (plan.lock_digest, plan.spec)
    return _shape(found)


def read_lock(text: str, plan: SpecPlan) -> object:
    found = loads(text, "envspec.lock")
    assert found.name == plan.spec and tomli.loads(text)["env"]["name"] == plan.spec
    return _shape(tomli.loads(text))


def read_requirements(text: str, plan: SpecPlan | None = None) -> object:
    """By the lines that pip sees: comments, requirements, and options of the requirement before."""
    joined = re.sub(r"\\\n", " ", text)
    assert joined.splitlines() == joined.split("\n")[:-1], "a line end that pip and people see differently"
    # a comment may name the lock's own inputs, and nothing else may differ
    return [_hashless(line) for line in joined.split("\n") if not line.startswith("#")]


def _shape(value: Any) -> Any:
    """Keys and lengths, without the texts."""
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    return [_shape(inner) for inner in value] if isinstance(value, list) else type(value)


OWN: tuple[tuple[str, Reader], ...] = (
    (r"Dockerfile", read_dockerfile),
    (r"apptainer(-offline)?\.def", read_apptainer),
    (r"devcontainer\.json", read_devcontainer),
    (r"job\.yaml", read_kubernetes),
    (r"target\.json", read_target_json),
)
"""What a target's folders have."""
READERS: tuple[tuple[str, SpecReader], ...] = (
    (r"\.dockerignore", read_plain),
    (r"compose\.yaml", read_compose),
    (r"flake\.nix", read_flake),
    (r"environment\.nix", read_plain),
    (r"envspec\.lock", read_lock),
    (r"job(-pyxis)?\.sbatch", read_sbatch),
    (r"modulefile\.lua", read_lmod),
    (rf"{REQUIREMENTS}/[a-z]+-[0-9a-f]{{8}}\.txt", read_requirements),
    # verbatim from the package: the same for every spec
    (rf"{CARRIED_FOLDER}/(SHA256SUMS|[a-z]+\.(py|sh)|services/[a-z-]+\.sh|check/[a-z_/]+\.py)", read_plain),
)
"""What the spec's folder has besides."""


def read(path: str, text: str, plan: SpecPlan) -> object:
    """What the reader of a file makes of it."""
    for of in plan.targets:
        for folder_of_it in (of.target, f".devcontainer/{of.title}"):
            if path.startswith(f"{folder_of_it}/"):
                (own,) = (reader for name, reader in OWN if re.fullmatch(name, path.removeprefix(f"{folder_of_it}/")))
                return own(text, of)
    found = [reader for pattern, reader in READERS if re.fullmatch(pattern, path)]
    assert len(found) == 1, f"no reader for {path}: add one to READERS"
    return found[0](text, plan)


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


def is_inert(plan: SpecPlan, twin: SpecPlan) -> None:
    """Whether each file of a plan reads back as its own values, and as the harmless twin's otherwise."""
    files, plain = files_of(plan), files_of(twin)
    # only what stands on several lines, or ends a C string, may be refused
    texts = (plan.description, *(value for of in plan.targets for _, value in of.env))
    refusable = any("\0" in text or text.splitlines() not in ([], [text]) for text in texts)
    assert files.keys() <= plain.keys() if refusable else files.keys() == plain.keys()
    for path, text in files.items():
        assert read(path, text, plan) == read(path, plain[path], twin), path


def locked_formats_are_inert(made: Project, twin: Project) -> None:
    """The same for the formats that a lock itself is written in."""
    for name, form in LOCK_FORMATS.items():
        for target, plain in zip(made.lock, twin.lock, strict=True):
            urls = {(pin.index, pin.artifact.file): "https://files.example/f" for pin in target.pins if pin.artifact}
            if form.needs_conda and not any(pin.kind == "conda" for pin in target.pins):
                continue
            one, other = form.render(made.lock, target, urls), form.render(twin.lock, plain, urls)
            if form.file(target).endswith(".txt"):
                assert read_requirements(one) == read_requirements(other), name
            elif form.file(target).endswith(".lock"):
                assert [line for line in one.split("\n") if not line.startswith("#")] == [
                    line for line in other.split("\n") if not line.startswith("#")
                ]
            else:
                parse: dict[str, Callable[[str], Any]] = {"toml": tomli.loads, "yml": read_yaml, "json": json.loads}
                load = parse[form.file(target).rpartition(".")[2]]
                assert _shape(load(one)) == _shape(load(other)), name


variables = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    # what a shell keeps for itself or refuses to set: no text does harm there that its name doesn't
    lambda name: (
        name.upper() not in ("PATH", "IFS", "PWD", "OLDPWD", "PPID", "_", "OPTIND", "LINENO", "PS1", "PS2", "PS4")
    )
)
harmful_words = st.builds(
    Words,
    description=presentable,
    env=st.dictionaries(variables, presentable, max_size=3).map(lambda found: tuple(found.items())),
    unit=presentable,
    path=in_a_url,
    marker=in_a_marker,
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
QUICKLY = settings(SLOWLY, max_examples=examples(40))


def whole(names: Names, words: Words) -> None:
    """From the spec's text to every file."""
    try:
        made = project(names, words)
    except SpecError as error:
        must_be_clear(error)
        return
    twin = project(names, words.harmless())
    assert made.spec.description == words.description.strip() or made.spec.description == words.description
    assert dict(made.spec.image.env) == {names.variable: "plain", **dict(words.env)}
    try:
        plan = made.plan()
    except InputError as error:
        must_be_clear(error)
        return
    is_inert(plan, twin.plan())


@QUICKLY
@given(harmful_words)
def test_text_stays_text(words: Words) -> None:
    whole(Names(), words)


@QUICKLY
@given(in_a_url, in_a_marker)
def test_formats_of_a_lock_hold_text_as_text(path: str, marker: str) -> None:
    words = Words(path=path, marker=marker)
    try:
        made = project(Names(), words)
    except SpecError as error:
        must_be_clear(error)
        return
    locked_formats_are_inert(made, project(Names(), words.harmless()))


@pytest.mark.nightly
@pytest.mark.slow
@settings(SLOWLY, max_examples=500)
@given(odd_names, harmful_words)
def test_text_stays_text_thousands(names: Names, words: Words) -> None:
    whole(names, words)


@QUICKLY
@given(odd_names)
def test_odd_names_are_names(names: Names) -> None:
    whole(names, Words())


@cache
def harmless_plan() -> SpecPlan:
    return project(Names(), Words()).plan()


def with_words(plan: SpecPlan, description: str, value: str | None = None) -> SpecPlan:
    """A plan with a description, and with a value of the spec's variable, if one is given."""

    def changed(of: Plan) -> Plan:
        env = tuple((name, value if name == "HF_HOME" and value is not None else old) for name, old in of.env)
        return replace(of, description=description, env=env)

    return replace(plan, description=description, targets=tuple(map(changed, plan.targets)))


def changed_plan(description: str, value: str) -> None:
    """Texts that no spec lets through: the second wall."""
    plan = harmless_plan()
    is_inert(with_words(plan, description, value), with_words(plan, "plain" if description.split() else ""))


@QUICKLY
@given(hostile, hostile)
def test_what_a_spec_refuses_stays_text_too(description: str, value: str) -> None:
    changed_plan(description, value)


@pytest.mark.nightly
@pytest.mark.slow
@SLOWLY
@given(hostile, hostile)
def test_what_a_spec_refuses_stays_text_too_thousands(description: str, value: str) -> None:
    changed_plan(description, value)


@pytest.mark.parametrize("piece", by_day(PIECES, lambda piece: PIECES.index(piece) % 3 == 0), ids=lambda piece: ascii(piece[:12]))
def test_each_piece_by_itself(piece: str) -> None:
    changed_plan(piece, piece)


@pytest.mark.parametrize("field", by_day(FIELDS, lambda field: field not in ("gpu", "apt", "base", "reference", "workload")))
def test_what_is_hostile_in_a_name_is_refused(field: str) -> None:
    """Every piece alone, before and behind the name. What a spec lets through is looked at as a whole."""
    plain = getattr(Names(), field)
    through = []
    for piece in PIECES:
        for value in (piece, plain + piece, piece + plain):
            names = replace(Names(), **{field: value})
            try:
                project(names, Words())
            except SpecError as error:
                must_be_clear(error)
            else:
                through.append(names)
    for names in through[::3] if len(through) > len(PIECES) else through:
        whole(names, Words())


NIX = """
files: map (file:
  let
    flake = import file;
    nixpkgs.legacyPackages.x86_64-linux = { mkShell = made: made; writeShellScript = name: text: text; };
    out = flake.outputs { self = { }; inherit nixpkgs; };
  in {
    names = builtins.attrNames flake;
    inherit (flake) description;
    inputs = builtins.toJSON flake.inputs;
    outputs = builtins.attrNames out;
    targets = builtins.attrNames out.devShells.x86_64-linux;
    hook = out.devShells.x86_64-linux.default.shellHook;
    shell = builtins.attrNames out.devShells.x86_64-linux.default;
  }) files
"""


def flakes_are_inert(tmp: Path, words: list[tuple[str, str]]) -> None:
    plans: list[SpecPlan] = []
    for description, value in words:
        plan = with_words(harmless_plan(), description, value)
        try:
            text = folder.render_spec(plan, "nix")["flake.nix"]
        except InputError as error:
            must_be_clear(error)
            continue
        (tmp / f"{len(plans)}.nix").write_bytes(text.encode())
        plans.append(plan)
    files = " ".join(f"{tmp}/{number}.nix" for number in range(len(plans)))
    ran = subprocess.run(
        ["nix-instantiate", "--eval", "--strict", "--json", "-E", f"({NIX}) [ {files} ]"],
        capture_output=True,
        env={**os.environ, "HOME": str(tmp), "NIX_STATE_DIR": str(tmp / "state"), "NIX_STORE_DIR": str(tmp / "store")},
    )
    assert ran.returncode == 0, ran.stderr.decode()
    found = json.loads(ran.stdout)
    for one, plan in zip(found, plans, strict=True):
        assert one["description"] == (plan.description or plan.spec)
        known = dict(plan.targets[-1].env)
        kept = {name: value for name, value in known.items() if f"export {name}=" in one["hook"]}
        assert _exported(one["hook"], kept) == {name: known[name] for name in kept}
        # nothing but what a harmless one has
        kinds = ("names", "inputs", "outputs", "targets", "shell")
        assert [one[name] for name in kinds] == [found[0][name] for name in kinds]


nix_missing = pytest.mark.skipif(shutil.which("nix-instantiate") is None, reason="no nix-instantiate")


@nix_missing
def test_nix_reads_every_piece(tmp_path: Path) -> None:
    flakes_are_inert(tmp_path, [("plain", "plain"), *((piece, piece) for piece in PIECES)])


@pytest.mark.nightly
@nix_missing
@pytest.mark.slow
@settings(SLOWLY, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(hostile, hostile), min_size=1, max_size=60))
def test_nix_reads_thousands(tmp_path_factory: pytest.TempPathFactory, words: list[tuple[str, str]]) -> None:
    flakes_are_inert(tmp_path_factory.mktemp("flakes"), [("plain", "plain"), *words])


def test_every_registered_format_was_read() -> None:
    """The plans above admit each format at least once, so none escapes its reader."""
    plan = harmless_plan()
    seen = {name for of in plan.targets for name in folder.admitted(of)} | set(folder.admitted_spec(plan))
    assert seen == set(folder.FORMATS)


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("buildah") is None, reason="no buildah")
def test_a_real_builder_reads_every_piece(tmp_path: Path) -> None:
    """The ENV and LABEL lines that the Dockerfile has, in one that needs no base image."""
    values: dict[str, str] = {}
    for number, text in enumerate((*PIECES, *(f"a{piece}{other}b" for piece in PIECES for other in ("\\", '"', "$")))):
        plan = harmless_plan().targets[0]
        try:
            folder.render(replace(plan, env=(("A", text),)), "dockerfile")
        except InputError:
            continue
        values[f"V{number}"] = text
    env = tuple(values.items())
    rendered = folder.render(replace(harmless_plan().targets[0], env=env), "dockerfile")
    lines = text_in(rendered, "Dockerfile").split("\nENV ")[-1]
    kept = f"FROM scratch\nENV {lines.partition(chr(10) + 'LABEL ')[0]}\n"
    (tmp_path / "Dockerfile").write_bytes(kept.encode())
    places = ["--root", str(tmp_path / "store"), "--runroot", str(tmp_path / "run"), "--storage-driver", "vfs"]
    build = ["buildah", *places, "bud", "--isolation", "chroot", "--quiet", "-t", "hostile", str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True)
    inspect = ["buildah", *places, "inspect", "--type", "image", "hostile"]
    told = json.loads(subprocess.run(inspect, check=True, capture_output=True).stdout)["OCIv1"]["config"]["Env"]
    found = dict(entry.split("=", 1) for entry in told)
    assert found.keys() == {*values, "PATH", "CONDA_PREFIX"}
    assert {name: found[name] for name in values} == values
