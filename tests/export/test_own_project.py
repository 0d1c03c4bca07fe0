"""The spec's own project in recipes: built with the lock's packages, installed last, its folder given by builders."""

import json

import pytest
from msgspec.structs import replace
from recipe_plans import parsed, text_in

from envspec.base.errors import InputError, Place
from envspec.export import apptainer, compose, devcontainer, dockerfile
from envspec.export.carried import carried_files
from envspec.export.make import make_plan, make_spec_plan
from envspec.export.plan import Plan, SpecPlan
from envspec.lock.model import LockedTarget, SoundLock
from envspec.spec.model import Located, Project, Spec

BUILD = carried_files()["build.sh"]


def with_project(name: str, *requires: str, folder: str = ".", own: str = "my-model") -> Spec:
    spec, _ = parsed(name)
    needs = tuple(Located(text, Place("pyproject.toml")) for text in requires)
    return replace(spec, project=Project(folder, "pyproject.toml", own, (), needs or None))


def target_of(name: str, target: str) -> LockedTarget:
    found = parsed(name)[1].target(target)
    assert found is not None
    return found


def plan(name: str, target: str, *requires: str, place: str = "recipes/x", folder: str = ".") -> Plan:
    spec = with_project(name, *requires, folder=folder)
    return make_plan(spec, SoundLock.of(parsed(name)[1]), target_of(name, target), place)


def spec_plan(name: str, *requires: str, place: str, folder: str = ".") -> SpecPlan:
    return make_spec_plan(with_project(name, *requires, folder=folder), SoundLock.of(parsed(name)[1]), place)


def final(text: str) -> str:
    return text[text.rindex("\nFROM ") :]


def test_it_is_built_in_a_stage_of_its_own_and_installed_last() -> None:
    made = plan("cpu-py311", "cpu", "setuptools>=77")
    text = text_in(dockerfile.render(made), "Dockerfile")
    assert "--build-context project=.. \\\n#     -f cpu-py311/cpu/Dockerfile" in text
    assert "COPY --from=project . /tmp/project\n" in text and "FROM python AS own\n" in text
    own = text.partition("AS own\n")[2].partition("\nFROM ")[0]
    assert "RUN sh /layers/build.sh project project my-model\n" in own and "PROJECT_VERSION" not in text
    assert '"$uv" build --quiet --wheel --no-build-isolation --no-config --offline' in BUILD
    assert made.sources.project is not None and [step.packages for step in made.sources.project.wheels] == [
        ("setuptools",)
    ]
    # after all packages, before what is carried
    last = final(text)
    assert last.index("/layers/rest") < last.index("COPY --from=own /layers/project /") < last.index("/layers/carried")
    assert "AS compile" not in text
    assert json.loads(made.sources.files[made.slice])["project"] == "my-model"


@pytest.mark.parametrize(("spec", "target"), [("cpu-py311", "cpu"), ("llm-v2.9", "cu128-hopper")])
def test_an_extension_of_torch_is_built_where_compilers_and_torch_are(spec: str, target: str) -> None:
    made = plan(spec, target, "numpy", "torch>=2.5", "ninja")
    text = text_in(dockerfile.render(made), "Dockerfile")
    stage = text.partition(" AS compile\n")[2].partition("\nFROM ")[0]
    assert (
        "build-essential" in stage and "COPY --from=stack /layers/torch /" in stage and "FROM compile AS own\n" in text
    )
    assert ("TORCH_CUDA_ARCH_LIST=9.0" in stage) == (target != "cpu")
    assert "sh /layers/build.sh project project my-model compiled\n" in text.partition("FROM compile AS own\n")[2]
    assert made.sources.compiling is not None and any(
        "numpy" in step.packages for step in made.sources.compiling.wheels
    )
    definition = text_in(apptainer.render(made), apptainer.FILE)
    steps = ("Stage: compile", "build.sh project - my-model compiled", "Stage: final")
    assert (places := [*map(definition.index, steps)]) == sorted(places)
    assert "build-wheels" not in text_in(apptainer.render(made), apptainer.OFFLINE_FILE), "the bundle has its wheel"


def test_nothing_is_compiled_for_gpus_that_nobody_named() -> None:
    target = replace(target_of("mm-v2.9", "cu126-volta"), architectures=())
    lock = SoundLock.of(parsed("mm-v2.9")[1])
    with pytest.raises(InputError, match="my-model is compiled for GPUs, and the target cu126-volta names none"):
        make_plan(with_project("mm-v2.9", "setuptools", "torch"), lock, target)
    make_plan(with_project("mm-v2.9", "setuptools"), lock, target)


def test_its_folder_is_seen_from_the_recipes() -> None:
    above = text_in(
        compose.render(spec_plan("cpu-py311", "setuptools", place="recipes/x", folder="a b")), "compose.yaml"
    )
    assert 'project: "${ENVSPEC_PROJECT:-../../a b}"' in above
    anywhere = text_in(compose.render(spec_plan("cpu-py311", "setuptools", place=".")), "compose.yaml")
    assert 'project: "${ENVSPEC_PROJECT:?the folder of my-model}"' in anywhere
    opened = text_in(devcontainer.render(plan("cpu-py311", "cpu", "setuptools", folder="a b")), "devcontainer.json")
    assert '"--build-context=project=${localWorkspaceFolder}/a b"' in opened
    definition = text_in(apptainer.render(plan("cpu-py311", "cpu", "setuptools")), apptainer.FILE)
    assert '--bind "..:/srv:ro"' in definition
    # images that lie beside the recipes are no part of the next one
    assert "build.sh project - my-model --exclude=./.venv --exclude=./recipes/x\n" in definition
    below = text_in(apptainer.render(plan("cpu-py311", "cpu", "setuptools", folder="a b")), apptainer.FILE)
    assert '--bind "../a b:/srv:ro"' in below and "--exclude=./recipes" not in below
    assert "--build-context project='../a b'" in text_in(
        dockerfile.render(plan("cpu-py311", "cpu", "setuptools", folder="a b")), "Dockerfile"
    )


def test_a_version_from_git_is_given() -> None:
    made = plan("cpu-py311", "cpu", "setuptools", "setuptools-scm>=8")
    text = text_in(dockerfile.render(made), "Dockerfile")
    assert '\nARG PROJECT_VERSION=""\n' in text and "--build-arg PROJECT_VERSION=1.2.3" in text
    assert 'SETUPTOOLS_SCM_PRETEND_VERSION="$PROJECT_VERSION"' in BUILD
    assert "  project-version " in text_in(apptainer.render(made), apptainer.FILE)


def test_what_is_nothing_to_build_changes_nothing() -> None:
    assert plan("cpu-py311", "cpu").sources.project is None
    spec, lock = parsed("cpu-py311")
    plain = make_plan(spec, SoundLock.of(lock), target_of("cpu-py311", "cpu"), "recipes/x")
    assert plan("cpu-py311", "cpu") == plain and "project" not in json.loads(plain.sources.files[plain.slice])


def test_a_package_of_its_name_is_refused() -> None:
    spec = with_project("cpu-py311", "setuptools", own="torch")
    with pytest.raises(InputError, match="torch is the spec's project, and the lock has a package of that name"):
        make_plan(spec, SoundLock.of(parsed("cpu-py311")[1]), target_of("cpu-py311", "cpu"))
