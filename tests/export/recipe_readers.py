"""How each file of a recipe is read back, by readers that aren't envspec's: BuildKit's parser, a shell, Lua, and the
parsers of TOML, YAML and JSON.

A new format needs its reader in READERS; without one its files fail here.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import tomli
import yaml
from test_apptainer import parse as apptainer_stages

from envspec.export.plan import CARRIED_FOLDER, REQUIREMENTS, Plan, SpecPlan
from envspec.export.quote import definition_word as word

YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Readers. Each takes a file and its plan, of the target or of the spec, and gives what is compared with the harmless
# twin's; the values it finds it compares with the plan's at once.

Reader = Callable[[str, Plan], object]


SpecReader = Callable[[str, SpecPlan], object]


def _hashless(text: str) -> str:
    """Digests differ between the twins wherever a carried file does."""
    return re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b", "…", text)


def _unquoted(word: str) -> str:
    """A double-quoted word of a Dockerfile, by BuildKit's shell lexer: a backslash counts before `"`, `$` and itself,
    and a dollar or a quote without one would be syntax; or a plain one."""
    if re.fullmatch(r"[A-Za-z0-9_@%+=:,./*-]+", word):
        return word
    assert word[:1] == word[-1:] == '"' and len(word) > 1, word
    assert re.fullmatch(r'(?:[^"\\$]|\\.)*', word[1:-1], re.DOTALL), word
    return re.sub(r'\\([\\"$])', r"\1", word[1:-1])


def read_dockerfile(text: str, plan: Plan) -> object:
    from envspec.export.plan import recipe_labels

    parser = pytest.importorskip("dockerfile")
    found: list[object] = []
    pairs: dict[str, dict[str, str]] = {"ENV": {}, "LABEL": {}}
    of_stages: dict[str, dict[str, str]] = {}
    for command in parser.parse_string(text):
        assert not command.heredocs
        if command.cmd == "FROM":
            pairs["ENV"] = of_stages[command.value[-1]] = {}
        if command.cmd in pairs:
            names, values = command.value[::2], command.value[1::2]
            pairs[command.cmd] |= {name: _unquoted(value) for name, value in zip(names, values, strict=True)}
            found.append((command.cmd, names))
        elif command.cmd == "ARG":
            name, equals, value = command.value[0].partition("=")
            found.append(("ARG", name, bool(equals)))
            urls = [step.url for step in plan.sources.pip if step.index and name.startswith("INDEX_")]
            assert not urls or _unquoted(value) in urls
        else:
            if command.cmd == "RUN":
                _shell_parses(command.value[0].rpartition("--mount")[2])
            found.append((command.cmd, command.flags, tuple(map(_hashless, command.value))))
    assert {name: pairs["ENV"].get(name) for name, _ in plan.runtime.env} == dict(plan.runtime.env)
    assert pairs["LABEL"] == recipe_labels(plan)
    if plan.sources.compiling:
        assert plan.sources.compiling.env.items() <= of_stages["compile"].items()
    return found


@cache
def _shell_parses(text: str) -> None:
    ran = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True)
    assert ran.returncode == 0, ran.stderr


def _exported(script: str, names: Mapping[str, str]) -> dict[str, str]:
    """The variables of these names that a shell has after a script that must do nothing else."""
    return {name: value for name, value in _environment_after(script).items() if name in names}


@cache
def _environment_after(script: str) -> Mapping[str, str]:
    ran = subprocess.run(
        ["sh", "-ec", f"{script}\nexec env -0"], capture_output=True, env={"PATH": os.defpath}, cwd="/", check=True
    )
    assert not ran.stderr
    return dict(entry.split("=", 1) for entry in ran.stdout.decode().split("\0") if entry)


def _without_exports(body: str, env: Mapping[str, str]) -> str:
    """A script without the values of these variables, which say what they should to a shell, and one export a line:
    how many stand on one depends on the values."""
    texts = {name: f" {name}={word(value)}" for name, value in env.items()}
    assert _exported("".join(f"export{text}\n" for text in texts.values()), env) == env, body
    for name, text in texts.items():
        assert text in body, (name, body)
        body = body.replace(text, f" {name}=…")
    return re.sub(
        r"(?m)^    export((?: \w+=…)+)$", lambda line: line[1].replace(" ", "\n    export ").lstrip("\n"), body
    )


def read_apptainer(text: str, plan: Plan) -> object:
    assert "{{" not in text
    assert text.isprintable() or set(text) - {"\n"} == {char for char in text if char != "\n"}
    found: list[object] = []
    for stage in apptainer_stages(text):
        kept: dict[str, object] = {}
        for name, body in stage.sections.items():
            if name == "environment":
                # a PATH or a shell's own variable would stop the shell that reads the rest
                env = {name: value for name, value in plan.runtime.env if name != "PATH"}
                assert _exported(body, env) == env
            elif name == "labels":
                kept[name] = tuple(line.split(maxsplit=1)[0] for line in body.splitlines() if line.strip())
            elif name == "help":
                # how many lines the description takes depends on its length
                kept[name] = str(body.partition(": Python ")[2].count("\n"))
            else:
                if stage.header.get("stage") == "compile" and name == "post" and plan.sources.compiling:
                    body = _without_exports(body, plan.sources.compiling.env)
                kept[name] = re.sub(r"(?m)^    export INDEX_(\w+)=.*$", r"    export INDEX_\1=…", _hashless(body))
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
    from envspec.export.lmod import _ALSO_OUTSIDE

    lua = _lua()
    if lua is None:
        pytest.skip("no lua")
    ran = subprocess.run([lua, "-e", LUA], input=text.encode(), capture_output=True, env={"TARGET": plan.target})
    assert ran.returncode == 0, ran.stderr
    calls = [line.split(" ") for line in ran.stdout.decode().splitlines()]
    told = [(name, *(bytes.fromhex(value).decode() for value in values)) for name, *values in calls]
    values = {call[1]: call[2] for call in told if call[0] == "setenv"}
    assert all(values.get(name) == value for name, value in plan.runtime.env if name in _ALSO_OUTSIDE)
    assert ("whatis", f"Description: {plan.description or plan.spec}") in told
    return [(name, len(values)) for name, *values in told]


def read_kubernetes(text: str, plan: Plan) -> object:
    found = list(yaml.load_all(_hashless(text), YAML))
    for one in found:
        assert one["metadata"]["annotations"]["envspec/spec"] == plan.spec
    # the spec's own words come last, and Kubernetes reads `$$` as one dollar
    (container,) = found[-1]["spec"]["template"]["spec"]["containers"]
    program = plan.kubernetes.program
    own = container["args"][len(container["args"]) - len(program) :]
    assert [word.replace("$$", "$") for word in own] == [*program]
    container["args"] = container["args"][: len(container["args"]) - len(program)]
    return found


def read_devcontainer(text: str, plan: Plan) -> object:
    found = json.loads("\n".join(line for line in text.split("\n") if not line.startswith("//")))
    assert (found["name"], found["remoteUser"]) == (plan.title, plan.image.user)
    return found


def read_compose(text: str, plan: SpecPlan) -> object:
    (found,) = yaml.load_all(text, YAML)
    assert [*found["services"]] == [*plan.names]
    return found


def read_sbatch(text: str, plan: SpecPlan) -> object:
    _shell_parses(text)
    options = [line.removeprefix("#SBATCH ") for line in text.split("\n") if line.startswith("#SBATCH")]
    assert shlex.split(options[0]) == [f"--job-name={plan.spec}"]
    assert re.findall("^    (.*)=(sha256:.*)$", text, re.M) == [(of.target, of.lock_digest) for of in plan.targets]
    return _hashless(text)


def read_flake(text: str, plan: SpecPlan) -> object:
    """Read by Nix itself below, many at once, as starting it takes long."""
    return None


def read_plain(text: str, plan: Plan | SpecPlan) -> object:
    return text


def read_target_json(text: str, plan: Plan) -> object:
    found = json.loads(text)
    document = json.loads(plan.image.document)
    assert all(found[name] == document[name] for name in ("spec", "target", "workload"))
    assert found["lock"]["env"]["name"] == plan.spec and any(found["parts"].values())
    return _shape(found)


def read_requirements(text: str, plan: SpecPlan | None = None) -> object:
    """By the lines that pip sees: comments, requirements, and options of the requirement before. What the slice says of
    a package stands behind it."""
    joined = re.sub(r"\\\n", " ", text)
    assert joined.splitlines() == joined.split("\n")[:-1], "a line end that pip and people see differently"
    # a comment may name the lock's own inputs, and nothing else may differ
    lines = (line.partition("  # ") for line in joined.split("\n") if not line.startswith("#"))
    return [(_hashless(line), _shape(json.loads(row or "{}")), "#" in row) for line, _, row in lines]


def _shape(value: Any) -> Any:
    """Keys and lengths, without the texts."""
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    return [_shape(inner) for inner in value] if isinstance(value, list) else type(value)


def read_htcondor(text: str, plan: Plan) -> object:
    """A command a line, whose values hold names alone, beside HTCondor's own macros."""
    found = []
    for line in text.splitlines():
        name, equals, value = line.strip().partition(" = ")
        assert not equals or re.fullmatch(r"[a-z_]+", name), line
        # the digest is of the lock that the words are in
        found.append((name if equals else line, value.replace(plan.lock_digest, "sha256")))
    (image,) = (value for name, value in found if name == "image")
    assert image == f"{plan.title}.sif"
    return found


EDF: dict[str, type | tuple[type, ...]] = {
    "base_environment": (str, list),
    "image": str,
    "workdir": str,
    "entrypoint": bool,
    "writable": bool,
    "mounts": list,
    "env": dict,
    "annotations": dict,
}
"""The keys of an EDF and their types. Source: eth-cscs/cscs-docs@80abed13 docs/software/container-engine/edf.md."""


def read_edf(text: str, plan: Plan) -> dict[str, Any]:
    """By the engine's documented schema: mounts as SOURCE:DESTINATION[:FLAGS], variables and annotations as strings, no
    variable of the host but PWD."""
    found = tomli.loads(text)
    assert found.keys() <= EDF.keys() and all(isinstance(value, EDF[name]) for name, value in found.items())
    assert all(re.fullmatch(r"[^:]+:[^:]+(:[a-z+]+)?", one) for one in found["mounts"])
    assert all(isinstance(value, str) for value in found["env"].values())
    hooks = found.get("annotations", {}).get("com", {}).get("hooks", {})
    assert all(isinstance(value, str) for hook in hooks.values() for value in hook.values())
    assert set(re.findall(r"\$\{?(\w+)", re.sub(r"(?m)^#.*", "", text))) == {"PWD"}
    assert found["image"].replace("#", "/") == (plan.image_name if plan.image.repository else f"./{plan.title}.sqsh")
    assert bool(hooks) == plan.runtime.is_cuda
    if not plan.shares:
        assert found["env"].pop("ENVSPEC_LOCK") == f"{plan.target}={plan.lock_digest}"
    return found


OWN: tuple[tuple[str, Reader], ...] = (
    (r"Dockerfile", read_dockerfile),
    (r"apptainer(-offline)?\.def", read_apptainer),
    (r"devcontainer\.json", read_devcontainer),
    (r"job\.yaml", read_kubernetes),
    (r"job\.sub", read_htcondor),
    (r"environment\.toml", read_edf),
    (r"target\.json", read_target_json),
)
"""What a target's folders have."""


READERS: tuple[tuple[str, SpecReader], ...] = (
    (r"\.dockerignore", read_plain),
    (r"compose\.yaml", read_compose),
    (r"flake\.nix", read_flake),
    (r"environment\.nix", read_plain),
    (r"job(-pyxis)?\.sbatch", read_sbatch),
    (r"modulefile\.lua", read_lmod),
    (rf"{REQUIREMENTS}/[a-z-]+([+=][a-z0-9_+.=-]+)?(@[a-z0-9_.,-]+)?\.txt", read_requirements),
    # verbatim from the package: the same for every spec
    (rf"{CARRIED_FOLDER}/(SHA256SUMS|[a-z]+\.(py|sh)|services/[a-z-]+\.sh|envspec-check\.pyz)", read_plain),
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
