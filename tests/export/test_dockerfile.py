"""The Dockerfile: golden texts, what may stand in which layer, and readers that aren't envspec's.

ENVSPEC_UPDATE_GOLDEN=1 writes the golden texts anew. Digests are cut: what they are of has tests of its own.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from recipe_plans import ROOT, compiled, functions_of_builds, shipped, shipped_spec, text_in, with_values
from support.matrix import first_by_day

from envspec.export.apt_mirrors import arguments
from envspec.export.carried import OF_ALL, carried_files
from envspec.export.dockerfile import render
from envspec.export.plan import Compiling, ImageReference, PipStep, Plan, encode, labels

GOLDEN = Path(__file__).parent / "golden" / "dockerfile"
LINES = 60
"""Of a Dockerfile, its head and empty lines too."""
TARGETS = [
    ("cpu-py311", "cpu"),
    ("mm-v2.9", "cu126-volta"),
    ("hpc-v2.7", "cu126-ampere"),
    ("hpc-v2.7", "cu128-gh200"),
    ("mm-v2.1", "cu118"),
    ("team-v2.9", "cu128-ada"),
]
RUN = re.compile(r"^RUN (?:--mount=\S+ )*", re.MULTILINE)
STEP = re.compile(r"(?:build=[0-9a-f]{8} )?sh (?:/run/build|/layers)/build\.sh (\w+) ")


def text_of(plan: Plan) -> str:
    return text_in(render(plan), "Dockerfile")


def instructions(text: str) -> list[str]:
    """The instructions, lines joined, without comments."""
    joined = re.sub(r" \\\n\s*", " ", text)
    return [line for line in joined.splitlines() if line and not line.startswith("#")]


def final_stage(text: str) -> list[str]:
    lines = instructions(text)
    return lines[max(n for n, line in enumerate(lines) if line.startswith("FROM ")) :]


@pytest.mark.parametrize(("spec", "target"), TARGETS)
def test_golden(spec: str, target: str) -> None:
    path = GOLDEN / f"{spec}-{target}.Dockerfile"
    text = re.sub(
        r"[0-9a-f]{64}|(?<=image.version=\")[0-9a-f]{12}|(?<=-)[0-9a-f]{8}(?=\.txt)|(?<=build=)[0-9a-f]{8}",
        "…",
        text_of(shipped(spec, target)),
    )
    if os.environ.get("ENVSPEC_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("spec", "target"), TARGETS)
def test_a_shell_reads_every_run(spec: str, target: str) -> None:
    for line in instructions(text_of(shipped(spec, target))):
        if line.startswith("RUN "):
            script = RUN.sub("", line)
            subprocess.run(["sh", "-n", "-c", script], check=True)
            assert all(map(STEP.match, script.split(" && "))), script


@pytest.mark.parametrize(("spec", "target"), first_by_day(2, TARGETS))
def test_a_linter_has_nothing_to_say(spec: str, target: str, tmp_path: Path) -> None:
    hadolint = shutil.which("hadolint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if hadolint is None:
        pytest.skip("hadolint is missing")
    (tmp_path / "Dockerfile").write_text(text_of(shipped(spec, target)))
    ran = subprocess.run(
        [hadolint, "--no-color", "Dockerfile"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "")


def stage(text: str, name: str) -> list[str]:
    """The instructions of a stage."""
    lines = instructions(text)
    start = next(n for n, line in enumerate(lines) if line.endswith(f" AS {name}"))
    return lines[start : next(n for n, line in enumerate(lines) if n > start and line.startswith("FROM "))]


def stages(text: str) -> dict[str, list[str]]:
    """The instructions of each stage that has a name, and of the last."""
    names = re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE)
    return {**{name: stage(text, name) for name in names}, "": final_stage(text)}


SCRIPT = carried_files()["build.sh"]
"""What builds run."""


def test_what_the_image_gets_has_one_time_and_no_owner_of_the_build() -> None:
    found = stages(text_of(shipped("mm-v2.9", "cu126-volta")))
    made = [line for name in ("python", "stack", "compile", "rest", "carried") for line in found[name]]
    layered = [line for line in made if line.startswith("RUN ") and " apt " not in line]
    assert len(layered) == 6
    for line in layered:
        (used,) = re.findall(r"/layers/build\.sh (\w+) [^&]*$", line)
        assert last_line(used) in (
            'set_times "$1"',
            'if [ "$layer" != - ]; then set_times "$layer"; fi',
            'if [ "$layer" != - ]; then finish "$layer"; else set_times -; fi',
        )
    assert functions_of_builds("finish").endswith('    set_times "$1"\n}\n')
    for line in (line for line in found[""] if line.startswith("RUN ")):
        for used in re.findall(r"/build\.sh (\w+) ", line):
            assert last_line(used) in ("set_times -", 'make_user "$user"')
    assert functions_of_builds("make_user").endswith("    set_times -\n}\n")


def last_line(step: str) -> str:
    """The last line of what a step does."""
    (function,) = re.findall(rf"(?m)^    {step}\) (\w+) ", SCRIPT)
    return functions_of_builds(function).splitlines()[-2].strip()


def test_a_person_can_read_it() -> None:
    """Every target that ships, whatever its tools and services."""
    counts = {}
    for name in sorted(path.stem for path in (ROOT / "specs").glob("*.toml") if path.stem != "dev"):
        for of in shipped_spec(name).targets:
            lines = text_of(of).splitlines()
            assert [line for line in lines if len(line) > 120] == [], of.title
            counts[of.title] = len(lines)
    assert max(counts.values()) <= LINES, counts


@pytest.mark.parametrize("group", ["torch", "rest"])
def test_a_package_that_moves_makes_its_own_layer_new(group: str) -> None:
    """And what is compiled against it."""
    plan = shipped("mm-v2.9", "cu126-volta")
    files = {file for step in plan.sources.pip if step.group == group for file in step.files}
    read = {
        name: {word for line in lines if line.startswith("COPY ") for word in line.split()} & files
        for name, lines in stages(text_of(plan)).items()
    }
    made_by = {"torch": "stack"}.get(group, group)
    assert {name for name, own in read.items() if own} == {made_by} and read[made_by] == files
    # of what a stage makes comes last what moves most, and what the image keeps of them
    assert (
        stages(text_of(plan))["stack"][-1].startswith("RUN ") and " torch torch" in stages(text_of(plan))["stack"][-1]
    )
    assert "COPY --chmod=0755 envspec requirements cu126-volta/target.json /layers/" in stages(text_of(plan))["carried"]
    bumped = with_values(plan, files=dict.fromkeys(plan.sources.files, "x"), lock_digest="sha256:" + "1" * 64)
    assert text_of(bumped) == text_of(plan)


def test_a_tool_more_makes_its_own_layer_new() -> None:
    plan = shipped("mm-v2.9", "cu126-volta")
    before, after = (stages(text_of(with_values(plan, spec_apt=apt))) for apt in (("htop",), ("htop", "tmux")))
    assert [name for name in before if before[name] != after[name]] == [""]
    differing = [new for old, new in zip(before[""], after[""], strict=True) if old != new]
    assert len(differing) == 1 and " htop tmux" in differing[0] and " own " in differing[0]


def test_the_check_is_in_no_dockerfile() -> None:
    """A change of it leaves them as they are: it's copied, and SHA256SUMS says what it is."""
    plan = shipped("mm-v2.9", "cu126-volta")
    files = {path: text if path.endswith("bytecode.py") else f"{text}x" for path, text in plan.sources.files.items()}
    changed = {path: files[path] if path.startswith("envspec/") else text for path, text in plan.sources.files.items()}
    assert text_of(with_values(plan, files=changed)) == text_of(plan)


def test_targets_with_equal_requirements_have_equal_layers() -> None:
    hopper, ampere = (stages(text_of(compiled("mm-v2.9", f"cu128-{gpu}"))) for gpu in ("hopper", "ampere"))
    # what is compiled is for their GPUs
    assert [name for name in hopper if hopper[name] != ampere[name]] == ["compile", "carried", ""]
    layers = [[line for line in one[""] if line.startswith(("RUN ", "COPY "))] for one in (hopper, ampere)]
    assert layers[0] == layers[1]


@pytest.mark.parametrize(("spec", "target"), TARGETS)
def test_a_build_without_arguments_knows_every_variable(spec: str, target: str) -> None:
    """`set -u` ends a script that reads one which is not set, unless it says itself what is missing."""
    text = text_of(shipped(spec, target))
    for name in re.findall(r"^ARG (\w+)$", text, re.MULTILINE):
        assert f'-z "${{{name}:-}}"' in SCRIPT


def test_every_install_checks_hashes_and_takes_nothing_else() -> None:
    installs = functions_of_builds("install_wheels")
    assert (
        '"$uv" pip install --quiet --python "${PYTHON:-/opt/env}" --no-deps $hashes --only-binary :all: "$@"\n'
        in installs
    )
    assert "    hashes=--require-hashes\n" in installs and installs.count("hashes=''") == installs.count(
        "--git) hashes=''"
    )
    assert '--build-constraints "$file" --require-build-hashes' in installs


def test_only_git_goes_without_hashes() -> None:
    plan = shipped("mm-v2.1", "cu118")
    git = PipStep(("requirements/source-git.txt",), ("flash",), "source", hashed=False)
    changed = with_values(plan, pip=(*plan.sources.pip, git))
    for command in re.findall(r"build\.sh (?:install|compile) [^&]*", "&".join(instructions(text_of(changed)))):
        assert ("--git" in command) is ("source-git" in command or "+git=clip" in command)


def test_every_file_that_is_read_is_copied() -> None:
    """Builders look into what is copied, not all into what is mounted."""
    for spec, target in TARGETS:
        assert "type=bind,source=" not in text_of(shipped(spec, target))
        for lines in stages(text_of(shipped(spec, target))).values():
            copied = {word.rpartition("/")[2] for line in lines if line.startswith("COPY ") for word in line.split()}
            for line in (line for line in lines if line.startswith("RUN ")):
                for name in re.findall(r"build\.sh (?:install|compile) \S+ (\S+)", line):
                    assert any(re.fullmatch(rf"{re.escape(name)}(@.*)?\.txt", file) for file in copied)
                assert copied.issuperset(re.findall(r"[\w@-]+\.(?:txt|json)", line))
        _, *copies, checked = stage(text_of(shipped(spec, target)), "carried")
        assert copies == [
            f"COPY --chmod=0755 envspec requirements {target}/target.json /layers/",
        ]
        assert checked.startswith("RUN sh /layers/build.sh carried carried /opt/env/bin/python")
    assert f"set -- {' '.join(sorted(OF_ALL))} " in functions_of_builds("copy_carried")


@pytest.mark.slow
def test_in_a_repository_the_list_is_cut_down_to_what_the_image_carries(tmp_path: Path) -> None:
    """By the very script: the image's own list is that of `envspec image`, and each of its files is compared."""
    (plan,) = (one for one in shipped_spec("mm-v2.9").targets if one.target == "cpu")
    place, layers = tmp_path / "layers/carried/opt/envspec", tmp_path / "layers"
    command = ["sh", str(layers / "build.sh"), "carried", "carried", sys.executable]
    command += [Path(name).stem for name in plan.image.carries if name.startswith("services/")]

    def copy() -> None:
        shutil.rmtree(layers, ignore_errors=True)
        for path, text in plan.sources.files.items():
            name = path.removeprefix("_shared/").removeprefix("mm-v2.9/").removeprefix("cpu/")
            name = name.removeprefix("requirements/")
            (layers / name).parent.mkdir(parents=True, exist_ok=True)
            own = text.replace("/layers/", f"{layers}/") if name == "build.sh" else text
            (layers / name).write_bytes(encode(own))

    copy()
    subprocess.run(command, check=True)
    assert {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} == {
        *plan.image.carried,
        *(path.removeprefix("mm-v2.9/") for path in plan.sources.parts),
    }
    assert (place / "SHA256SUMS").read_text(encoding="utf-8") == plan.image.carried["SHA256SUMS"]
    assert (place / "check/__main__.py").exists() and not (place / "envspec-check.pyz").exists()
    assert (
        "services/ssh.sh" in plan.sources.files["_shared/SHA256SUMS"] and "ssh" not in plan.image.carried["SHA256SUMS"]
    )
    for name in ("envspec-check.pyz", "preflight.py"):
        copy()
        with (layers / name).open("ab") as file:
            file.write(b"changed")
        assert subprocess.run(command, capture_output=True).returncode == 1


def test_the_compiler_stays_out_of_the_image() -> None:
    text = text_of(compiled("mm-v2.1", "cu118"))
    assert 'ARG COMPILER_IMAGE="nvidia/cuda:11.8.0-devel-ubuntu22.04' in text
    final = "\n".join(final_stage(text))
    assert "build-essential" not in final and "CUDA_HOME" not in final
    assert "COPY --from=compile /layers/source /" in final and "source-" not in final
    assert "COMPILER_IMAGE" not in text_of(shipped("team-v2.9", "cu128-ada"))


def compile_stage(plan: Plan) -> list[str]:
    return stage(text_of(plan), "compile")


def compiling_of_mm_v21() -> Compiling:
    found = compiled("mm-v2.1", "cu118").sources.compiling
    assert found is not None
    return found


def test_builds_see_torch_and_what_it_needs() -> None:
    """uv builds in an environment of its own, where nothing of the lock is. Proved with uv in test_source_builds.py."""
    lines = compile_stage(compiled("mm-v2.1", "cu118"))
    seen, built = lines[-4], lines[-1]
    assert "build.sh install - build" in seen
    # the GPU stack is installed once
    assert "COPY --from=stack /layers/torch /" in lines and "torch.txt" not in "".join(lines)
    assert "sh /layers/build.sh compile source source=deepspeed" in built
    assert functions_of_builds("compile_sources").endswith(
        '    export PATH="/opt/env/bin:$PATH" PYTHONPATH="$packages"\n    install_wheels "$@"\n}\n'
    )
    # what was built for another torch or GPU has the same name
    assert "export UV_NO_CACHE=1\n" in functions_of_builds("install_wheels").partition("in source*)")[2]
    assert "target=/var/cache/uv" not in built
    assert any('TORCH_CUDA_ARCH_LIST="7.0;8.0"' in line for line in compile_stage(compiled("mm-v2.1", "cu118")))


def test_conda_s_environment_is_what_builds_see() -> None:
    plan = shipped("hpc-v2.7", "cu126-ampere")
    source = PipStep(("requirements/source.txt",), ("flash",), "source")
    compiling = replace(compiling_of_mm_v21(), wheels=())
    lines = compile_stage(with_values(plan, pip=(*plan.sources.pip, source), compiling=compiling))
    assert "COPY --from=conda /layers/conda /" in lines and "build.sh python" not in "".join(lines)
    assert "sh /layers/build.sh compile " in lines[-1]


def test_the_stage_that_compiles_has_none_of_the_specs_packages() -> None:
    made = with_values(compiled("mm-v2.1", "cu118"), spec_apt=("libfoo1",), build=None, build_table=None)
    (line,) = (line for line in compile_stage(made) if "build.sh apt " in line)
    assert "libfoo1" not in line and " --headers 3.10 " in line
    assert "libfoo1" in "".join(final_stage(text_of(made)))


def test_a_bases_own_python_has_its_headers_where_kernels_are_compiled() -> None:
    own = with_values(shipped("cpu-py311", "cpu"), build=None, build_table=None, base_python=True)
    (line,) = (line for line in final_stage(text_of(own)) if " g++ " in line)
    assert " --headers 3.11 " in line and 'install -y --no-install-recommends "libpython$headers-dev"' in SCRIPT
    assert "sh /layers/build.sh python python 3.11 only-system\n" in text_of(own)
    for brings_them in (shipped("hpc-v2.7", "cu126-ampere"), shipped("cpu-py311", "cpu")):
        assert "--headers" not in "".join(final_stage(text_of(brings_them)))


def test_root_builds_on_bases_with_a_user_of_their_own() -> None:
    plan = compiled("mm-v2.1", "cu118")
    own = text_of(with_values(plan, base=ImageReference("registry.example/vendor/torch:25.09")))
    assert "# hadolint global ignore=DL3002\n" in own
    for image in ("${BASE_IMAGE} AS python", "${BASE_IMAGE}"):
        assert f"\nFROM {image}\nUSER 0\n" in own
    # Debian's and NVIDIA's images run as root
    assert "USER 0" not in text_of(plan) and "FROM ${COMPILER_IMAGE} AS compile" in text_of(plan)


def test_the_users_group_has_no_name_of_debians() -> None:
    """`groupadd --gid 1000 video` ends with 9."""
    assert "sh /run/build/build.sh own video\n" in text_of(with_values(shipped("cpu-py311", "cpu"), user="video"))
    assert "groupadd --gid 1000 envspec;" in SCRIPT


def test_digests_pin_the_images() -> None:
    digest = "sha256:" + "a" * 64
    plan = with_values(shipped("cpu-py311", "cpu"), base=ImageReference("debian:bookworm-slim", digest))
    text = text_of(plan)
    assert f'ARG BASE_IMAGE="debian:bookworm-slim@{digest}"' in text
    assert labels(plan)["org.opencontainers.image.base.digest"] == digest


def test_an_image_stays_on_one_line_however_long_its_name_is() -> None:
    image = ImageReference(f"registry.example/{'vendor/' * 12}cuda:12", "sha256:" + "a" * 64)
    text = text_of(with_values(shipped("cpu-py311", "cpu"), base=image))
    assert f'\nARG BASE_IMAGE="{image.pinned}"\n' in text and "BASE_IMAGE" in arguments(text)


def test_own_indexes_are_asked_alone() -> None:
    plan = shipped("cpu-py311", "cpu")
    url = "https://packages.example.org/$(x)"
    step = PipStep(("requirements/rest-own.txt",), ("acme",), index="own-index", url=url)
    text = text_of(with_values(plan, pip=(*plan.sources.pip, step)))
    assert 'ARG INDEX_OWN_INDEX="https://packages.example.org/\\$(x)"' in text
    assert 'build.sh install rest rest-own --default-index "$INDEX_OWN_INDEX"' in "\n".join(instructions(text))


def test_the_context_is_what_images_are_made_from() -> None:
    kept = ["*", "!envspec", "!requirements", "!*/target.json"]
    assert render(shipped("cpu-py311", "cpu"))[".dockerignore"].splitlines()[1:] == kept
