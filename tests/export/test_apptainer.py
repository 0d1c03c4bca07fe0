"""Apptainer definitions: their stages and sections, read as Apptainer reads them."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st
from recipe_plans import compiled, shipped, text_in, with_values

from envspec.base.places import OF_OTHER_PYTHONS
from envspec.export.apptainer import FILE, OFFLINE_FILE, render
from envspec.export.plan import ImageReference, Plan, labels, recipe_labels
from envspec.export.sif import environment_lines

HOSTILE = (
    "%post\nrm -rf /",
    "\n%post",
    "a\nBootstrap: docker",
    "{{ build }}",
    "{{{x}}}",
    "'\"$(id)`id`\\",
    "a\r\n %files",
)


@dataclass
class Stage:
    """A stage as the parsers of Apptainer and SingularityCE see it."""

    header: dict[str, str]
    sections: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> list[Stage]:
    """By the rules of deffile.go: a stage at each line that begins with `bootstrap:`, a section at each line whose
    first word begins with `%`."""
    starts = [match.start() for match in re.finditer(r"^bootstrap:", text, re.IGNORECASE | re.MULTILINE)]
    return [_stage(text[a:b]) for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def _stage(text: str) -> Stage:
    stage, name = Stage({}), None
    for line in text.split("\n"):
        words = line.split()
        if words and words[0].startswith("%"):
            name = line.strip().lstrip("%")
            assert name not in stage.sections
            stage.sections[name] = ""
        elif name is None:
            key, colon, value = line.partition("#")[0].partition(":")
            if colon:
                stage.header[key.strip().lower()] = value.strip()
        else:
            stage.sections[name] += line + "\n"
    return stage


def exported(script: str) -> dict[str, str]:
    """The variables that a script exports, as a shell sees them; PATH aside."""
    out = subprocess.run(
        ["sh", "-c", f"{script}\nenv -0"], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    pairs = [entry.partition("=") for entry in out.stdout.decode().split("\0") if entry]
    return {name: value for name, _, value in pairs if name not in ("PATH", "PWD", "OLDPWD", "SHLVL", "_")}


def sections(plan: Plan) -> Iterator[dict[str, str]]:
    for text in render(plan).values():
        yield parse(text)[-1].sections


def test_a_sif_answers_to_the_labels_of_an_image() -> None:
    """Whichever recipe it was made by. None moves with the lock: recipes would, too."""
    plan = shipped("mm-v2.9", "cu128-hopper")
    wanted = {
        name: value for name, value in labels(plan).items() if name.rpartition(".")[2] in ("title", "description")
    }
    wanted |= recipe_labels(plan)
    assert wanted["envspec.target"] == "cu128-hopper" and plan.lock_digest not in wanted.values()
    for found in sections(plan):
        lines = [line.strip().partition(" ") for line in found["labels"].splitlines() if line.strip()]
        assert {name: value for name, _, value in lines} == wanted


@pytest.mark.parametrize(
    ("spec", "target", "own"), [("mm-v2.9", "cpu", "VIRTUAL_ENV"), ("hpc-v2.7", "cu126-ampere", "CONDA_PREFIX")]
)
def test_the_active_environment_is_the_images(spec: str, target: str, own: str) -> None:
    for found in sections(shipped(spec, target)):
        names = {name: exported(found["environment"])[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX")}
        assert names == {"VIRTUAL_ENV": "", "CONDA_PREFIX": "", own: "/opt/env"}


def test_a_callers_python_and_compiler_stay_outside() -> None:
    of = shipped("mm-v2.9", "cu128-hopper")
    lines = [*environment_lines(of)]
    assert lines[0].endswith(" CONDA_PREFIX= LD_PRELOAD= CC=gcc CXX=g++")
    assert " CC=" not in next(iter(environment_lines(with_values(of, apt=(), spec_apt=()))))
    names = [*OF_OTHER_PYTHONS, "PYTHONNOUSERSITE"]
    shown = "".join(f'printf "%s " "${{{name}-unset}}"; ' for name in names)
    caller = dict.fromkeys(names, "/else")
    script, env = "\n".join([*lines, shown]), {"PATH": "/bin", **caller}
    ran = subprocess.run(["sh", "-euc", script], env=env, capture_output=True, text=True)
    assert ran.stdout.split(" ") == [*("" for _ in OF_OTHER_PYTHONS), "1", ""], ran.stderr


def test_its_files_are_those_of_the_build_context() -> None:
    """Apptainer looks for them where it is run. What says nothing of packages stays out of the image."""
    plan = shipped("mm-v2.9", "cpu")
    for stage in parse(text_in(render(plan), FILE)):
        for line in stage.sections.get("files", "").split("\n"):
            source = line.partition(" /layers")[0].strip()
            assert (
                not source
                or source in plan.sources.files
                or any(path.startswith(f"{source}/") for path in plan.sources.files)
            )
    compiled, final = parse(text_in(render(plan), FILE))[-2:]
    assert "cpu/target.json /layers/target.json\n" in compiled.sections["files"] and "files" not in final.sections
    assert final.sections["files from compile"].split()[4] == "/opt/envspec"
    assert exported(compiled.sections["post"].partition("    sh ")[0].partition("\n")[2])["REQUIREMENTS"] == (
        "/opt/envspec/requirements"
    )


def test_the_offline_definition_stands_on_a_bundle_and_asks_no_network() -> None:
    stage, final = parse(text_in(render(shipped("cpu-py311", "cpu")), OFFLINE_FILE))
    assert stage.header == {"bootstrap": "localimage", "from": "cpu/base.sif", "stage": "compile"}
    assert final.header == {"bootstrap": "localimage", "from": "cpu/base.sif", "stage": "final"}
    assert "cpu/bundle.tar /layers/bundle.tar" in stage.sections["files"]
    assert not re.search(r"build.sh apt|uv |http", stage.sections["post"] + final.sections["post"])
    assert "/opt/env/bin/python -I /layers/bytecode.py /opt/env/lib\n" in stage.sections["post"]
    assert "build-wheels" not in stage.sections["files"]
    assert final.sections["files from compile"].strip() == "/opt/env /opt/env", "neither the bundle nor its scratch"


@pytest.mark.parametrize(("spec", "target"), [("mm-v2.1", "cu118"), ("hpc-v2.7", "cu126-ampere"), ("cpu-py311", "cpu")])
def test_builds_write_below_their_own_root(spec: str, target: str) -> None:
    """/tmp is the machine's. A real build with one that can't be written is in tests/e2e/test_apptainer_image.py."""
    for text in render(shipped(spec, target)).values():
        posts = [stage.sections["post"] for stage in parse(text) if "post" in stage.sections]
        assert not any("/tmp" in post for post in posts)
        assert all("export TMPDIR=/layers" in post for post in posts if "build.sh apt" in post or "install" in post)
    online = parse(text_in(render(shipped(spec, target)), FILE))
    assert online[-1].sections["post"].endswith("rm -rf /layers /opt/tools\n\n")


def test_what_is_built_offline_comes_with_the_bundle() -> None:
    text = text_in(render(compiled("mm-v2.9", "cu128-hopper")), OFFLINE_FILE)
    (line,) = (line for line in text.splitlines() if "  build.sif " in line)
    assert "  build.sif       build-essential, CUDA's compiler in /usr/local/cuda" in line
    stage, final = parse(text)
    assert (stage.header["from"], final.header["from"]) == ("cu128-hopper/build.sif", "cu128-hopper/base.sif")
    assert "wheel" not in stage.sections["files"]
    before, found, _ = stage.sections["post"].partition("bundle/install.sh /opt/env")
    assert found
    assert "\n    export CUDA_HOME=/usr/local/cuda FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST=9.0\n" in before


def test_digests_pin_the_images() -> None:
    digest = "sha256:" + "a" * 64
    plan = with_values(shipped("cpu-py311", "cpu"), base=ImageReference("debian:bookworm-slim", digest))
    assert parse(text_in(render(plan), FILE))[-1].header["from"] == f"debian:bookworm-slim@{digest}"


@pytest.mark.parametrize("target", ["cpu", "cu128-hopper", "cu126-volta"])
def test_scripts_are_shell(target: str) -> None:
    for text in render(shipped("mm-v2.9", target)).values():
        for stage in parse(text):
            for name, body in stage.sections.items():
                if name.split()[0] in ("post", "environment", "runscript", "test", "apprun"):
                    subprocess.run(["dash", "-n"] if _has_dash() else ["sh", "-n"], input=body, text=True, check=True)


def _has_dash() -> bool:
    return subprocess.run(["sh", "-c", "command -v dash"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_begin_nothing(value: str) -> None:
    _is_inert(value)


@pytest.mark.slow
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_no_text_begins_anything(value: str) -> None:
    _is_inert(value, run=False)


def _is_inert(value: str, *, run: bool = True) -> None:
    plan = shipped("cpu-py311", "cpu")
    hostile = with_values(plan, env=(*plan.runtime.env, ("HOSTILE", value)), description=value)
    for calm, wild in zip(render(plan).values(), render(hostile).values(), strict=True):
        assert [(s.header, [*s.sections]) for s in parse(wild)] == [(s.header, [*s.sections]) for s in parse(calm)]
        assert "{{" not in wild
        environment = parse(wild)[-1].sections["environment"]
        if run:
            assert exported(environment)["HOSTILE"] == value
        else:
            # every line end that is inside the quotes reads back as it was
            word, *_ = shlex.split(environment.partition(" HOSTILE=")[2]) or [""]
            assert word == value
