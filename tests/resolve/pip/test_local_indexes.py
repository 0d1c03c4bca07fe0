"""Indexes that are folders: a tree of pages, or a flat folder of files. uv and pip are asked what they take of the same
folders."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from pip._internal.index.collector import LinkCollector
from pip._internal.index.package_finder import PackageFinder
from pip._internal.models.search_scope import SearchScope
from pip._internal.models.selection_prefs import SelectionPreferences
from pip._internal.network.session import PipSession
from support.examples import examples
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, wheel
from uv import find_uv_bin

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
NUMBERS = itertools.count()


def flat(folder: Path, *dists: Dist) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for dist in dists:
        (folder / dist.file).write_bytes(dist.content)
    return folder


def tree(folder: Path, links: Mapping[str, str]) -> Path:
    for project, html in links.items():
        (folder / project).mkdir(parents=True, exist_ok=True)
        (folder / project / "index.html").write_text(f"<!DOCTYPE html><html><body>{html}</body></html>")
    return folder


def spec(machine: Machine, place: str, *names: str, key: str = "find-links") -> str:
    sources = ", ".join(f"{name} = 'own'" for name in names)
    said = f"{key} = {{ own = '{place}' }}\nsources = {{ {sources} }}"
    return machine.spec(cpu(names[0], extra=said, python=PYTHON))


APP, LIB = wheel("app", "1.0", "lib>=1"), wheel("lib", "1.5")


@pytest.mark.slow
def test_from_a_folder_to_an_environment(machine: Machine) -> None:
    flat(machine.folder / "specs" / "wheels", APP, LIB)
    path = spec(machine, "./wheels", "app", "lib")
    locked = machine.locked("--offline")
    assert {(pin.index, pin.artifact.sha256) for pin in locked.targets[0].pins if pin.artifact} == {
        ("own", APP.sha256), ("own", LIB.sha256)
    }  # fmt: skip
    assert str(machine.base) not in machine.lock_path().read_text()
    assert machine.envspec("check", path).status == 0
    assert machine.envspec("verify", path).status == 0
    machine.envspec("install", path, "--target", "cpu", "--prefix", "env", "--offline", status=0)
    program = "import app, lib; print(app.version, lib.version)"
    said = subprocess.run([machine.folder / "env/bin/python", "-I", "-c", program], capture_output=True, text=True)
    assert said.stdout.split() == ["1.0", "1.5"]
    assert not [*(machine.cache / "artifacts").glob("*/*.whl")], "files of a folder aren't copied"
    assert machine.envspec("bundle", path, "--target", "cpu", "-o", "b.tar", env={"UV_PYTHON_DOWNLOADS": ""}).err


def test_a_tree_by_its_url_and_the_newest_of_now(machine: Machine) -> None:
    """Nothing of a folder is kept: what is published there is seen at once."""
    files, pages = flat(machine.base / "tree" / "packages", APP, LIB), machine.base / "tree" / "simple"
    link = "<a href='../../packages/{0}#sha256={1}'>{0}</a>"
    tree(pages, {one.name: link.format(one.file, one.sha256) for one in (APP, LIB)})
    spec(machine, pages.as_uri(), "app", "lib", key="indexes")
    machine.locked("--offline")
    assert machine.versions("cpu") == {"app": "1.0", "lib": "1.5"}
    assert str(machine.base) not in machine.lock_path().read_text()
    flat(files, newer := wheel("lib", "1.6"))
    tree(pages, {"lib": link.format(newer.file, newer.sha256)})
    machine.locked("--upgrade", "--offline")
    assert machine.versions("cpu") == {"app": "1.0", "lib": "1.6"}


def test_the_default_index_may_be_a_folder(machine: Machine) -> None:
    flat(machine.base / "simple" / "app", wheel("app", "1.0"))
    tree(machine.base / "simple", {"app": f"<a href='{wheel('app', '1.0').file}'>app</a>"})
    machine.spec(cpu("app", python=PYTHON))
    machine.default = (machine.base / "simple").as_uri()
    machine.locked()
    assert machine.versions("cpu") == {"app": "1.0"}


@pytest.mark.parametrize(
    ("place", "key", "said"),
    [
        ("./absent", "find-links", "can't be read: No such file"),
        ("./absent", "indexes", "isn't a folder"),
        ("./empty", "find-links", "has no wheel and no source in it"),
        ("./wheels", "indexes", "is a flat index"),
    ],
)
def test_a_folder_that_is_none(machine: Machine, place: str, key: str, said: str) -> None:
    flat(machine.folder / "specs" / "wheels", APP, LIB)
    (machine.folder / "specs" / "empty").mkdir()
    ran = machine.envspec("lock", spec(machine, place, "app", "lib", key=key))
    assert ran.status != 0 and said in ran.err and ran.hint, ran.err


@pytest.mark.slow
def test_an_index_that_has_what_sources_does_not_name_is_told(machine: Machine, index: Index) -> None:
    """Of a package that the spec asks for, and of one that another leads to: both in one line, as both are needed."""
    index.add(wheel("top", "1.0", "lib>=1"))
    flat(machine.folder / "specs" / "own", APP, LIB)
    asked = cpu("app", "top", python=PYTHON, extra="find-links = { own = './own' }")
    ran = machine.envspec("lock", machine.spec(asked), status=1)
    line = 'sources = { app = "own", lib = "own" }'
    assert "app was not found" in ran.error and f"add to [pip]: {line}: own has it" in ran.hint, ran.err
    machine.locked(spec=asked.replace("[targets", f"{line}\n[targets"))
    assert machine.versions("cpu") == {"app": "1.0", "lib": "1.5", "top": "1.0"}


def test_a_simple_index_that_has_what_sources_does_not_name_is_told(machine: Machine, index: Index) -> None:
    alone = wheel("alone", "1.0")
    folder = flat(machine.folder / "specs" / "own", alone)
    tree(folder, {"alone": f"<a href='../{alone.file}#sha256={alone.sha256}'>{alone.file}</a>"})
    index.add(wheel("top", "1.0"))
    asked = cpu("alone", "top", python=PYTHON, extra="indexes = { own = './own' }")
    ran = machine.envspec("lock", machine.spec(asked), status=1)
    assert 'add to [pip]: sources = { alone = "own" }: own has it' in ran.hint, ran.err


def test_a_folder_that_pip_is_configured_with_is_no_index_and_told_as_such(machine: Machine, index: Index) -> None:
    folder = flat(machine.base / "wheels", APP)
    machine.variables |= {"PIP_FIND_LINKS": str(folder), "UV_FIND_LINKS": str(folder)}
    ran = machine.envspec("lock", machine.spec(cpu("app", python=PYTHON)))
    assert ran.status == 1 and "find-links of pip's and uv's own settings don't count" in ran.hint


@pytest.mark.slow
def test_a_file_that_changed_is_not_installed(machine: Machine) -> None:
    folder = flat(machine.folder / "specs" / "wheels", APP, LIB)
    path = spec(machine, "./wheels", "app", "lib")
    machine.locked()
    (folder / LIB.file).write_bytes(wheel("lib", "1.5", padding=9).content)
    ran = machine.envspec("install", path, "--target", "cpu", "--prefix", "env")
    assert ran.status == 3 and "the content has sha256" in ran.err
    assert machine.envspec("verify", path).status == 1


@pytest.mark.slow
def test_recipes_take_a_folder_as_a_build_context(machine: Machine) -> None:
    flat(machine.folder / "specs" / "wheels", APP, LIB)
    path = spec(machine, "./wheels", "app", "lib")
    machine.locked()
    assert machine.envspec("export", path, "--format", "all", "-o", "recipes/demo").status == 0
    text = (machine.folder / "recipes/demo/cpu/Dockerfile").read_text()
    assert "--build-context index-own=../specs/wheels" in text
    assert "FROM ${UV_IMAGE} AS index-own" in text and "--mount=type=bind,from=index-own" in text
    assert '--no-index --find-links "$INDEX_OWN"' in text
    assert 'index-own: "../../specs/wheels"' in (machine.folder / "recipes/demo/compose.yaml").read_text()
    definition = (machine.folder / "recipes/demo/cpu/apptainer.def").read_text()
    assert "export INDEX_OWN=/mnt/index-own\n" in definition and "../specs/wheels" in definition
    assert '--no-index --find-links "$INDEX_OWN"' in definition
    container = (machine.folder / ".devcontainer/demo-cpu/devcontainer.json").read_text()
    assert "--build-context=index-own=${localWorkspaceFolder}/specs/wheels" in container
    everything = [one for one in (machine.folder / "recipes").rglob("*") if one.is_file()]
    assert not [one for one in everything if str(machine.base).encode() in one.read_bytes()]


WHERE = ("beside", "below", "link", "page", "folder", "other name", "not normalised")
"""How a newer wheel lies in a flat folder, or not."""


def lay(folder: Path, name: str, where: str) -> None:
    """A project's 1.0 lies in the folder, its 2.0 as `where` says."""
    flat(folder, wheel(name, "1.0"))
    newer, away = wheel(name, "2.0"), folder.parent / "away"
    if where in ("beside", "other name"):
        flat(folder, newer)
    if where == "below":
        flat(folder / "below", newer)
    if where == "link":
        (folder / newer.file).symlink_to(flat(away, newer) / newer.file)
    if where == "folder":
        (folder / newer.file).mkdir()
    if where == "page":
        (folder / f"{name}.html").write_text(f"<a href='{(flat(away, newer) / newer.file).as_uri()}'>it</a>")
    if where == "other name":
        (folder / newer.file).rename(folder / f"{newer.file}.partial")
    if where == "not normalised":
        (folder / newer.file.replace(newer.name.replace("-", "_"), name.title())).write_bytes(newer.content)


LINKS = {
    "relative": "<a href='{0}'>{0}</a>",
    "dotted": "<a href='../{1}/{0}'>{0}</a>",
    "encoded": "<a href='%2e%2e/{1}/{0}'>{0}</a>",
    "whole": "<a href='{2}'>{0}</a>",
    "based": "<base href='{3}/'><a href='{0}'>x</a>",
    "of this python": "<a data-requires-python='&gt;=3' href='{0}'>{0}</a>",
    "yanked": "<a data-yanked='bad' href='{0}'>{0}</a>",
    "unlinked": "{0}",
    "other text": "<a href='{0}'>{1}</a>",
}
"""How a page of a tree links to a newer wheel."""


def by_uv(names: list[str], *options: str) -> dict[str, str]:
    command = [find_uv_bin(), "pip", "compile", "-", "--no-config", "--no-cache", "-q", "--no-header", "--no-annotate"]
    done = subprocess.run([*command, "--python", sys.executable, *options], input="\n".join(names), text=True,
                          capture_output=True, env={"PATH": os.defpath})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {line.partition("==")[0]: line.partition("==")[2] for line in done.stdout.split()}


def by_pip(names: list[str], links: list[str], urls: list[str]) -> dict[str, str]:
    collector = LinkCollector(PipSession(), SearchScope.create(links, urls, no_index=not urls))
    finder = PackageFinder.create(collector, SelectionPreferences(allow_yanked=False))
    best = {name: finder.find_best_candidate(name).best_candidate for name in names}
    return {name: str(one.version) for name, one in best.items() if one is not None}


def by_envspec(machine: Machine, names: list[str], place: str, key: str) -> dict[str, str]:
    sources = ", ".join(f"{name} = 'own'" for name in names)
    extra = f"{key} = {{ own = {json.dumps(place)} }}\nsources = {{ {sources} }}"
    shutil.rmtree(machine.locks, ignore_errors=True)
    machine.locked(spec=cpu(*names, extra=extra, python=PYTHON))
    return machine.versions("cpu")


few = settings(
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    phases=[Phase.generate],
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # pip leaves pages open
@few
@given(places=st.lists(st.sampled_from(WHERE), min_size=6, max_size=6, unique=True))
def test_of_a_flat_folder_it_is_uvs_choice_and_pips(places: list[str], machine: Machine) -> None:
    folder = machine.base / f"flat-{next(NUMBERS)}" / "wheels"
    names = [f"ab{number}" for number in range(len(places))]
    for name, where in zip(names, places, strict=True):
        lay(folder, name, where)
    uvs = by_uv(names, "--no-index", "--find-links", str(folder))
    assert by_envspec(machine, names, folder.as_uri(), "find-links") == uvs, places
    pips = by_pip(names, [str(folder)], [])
    # pip takes a folder for the wheel that it is named like, until it opens it, and follows links of pages
    same = {
        name: where in ("folder", "page") or pips[name] == uvs[name] for name, where in zip(names, places, strict=True)
    }
    assert all(same.values()), (places, pips, uvs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # pip leaves pages open
@few
@given(links=st.lists(st.sampled_from(sorted(LINKS)), min_size=6, max_size=6, unique=True))
def test_of_a_tree_it_is_uvs_choice_and_pips(links: list[str], machine: Machine) -> None:
    root = machine.base / f"tree-{next(NUMBERS)}"
    names = [f"ab{number}" for number in range(len(links))]
    for name, link in zip(names, links, strict=True):
        older, newer = wheel(name, "1.0"), wheel(name, "2.0")
        own = flat(root / name, older, newer).as_uri()
        html = LINKS[link].format(newer.file, name, f"{own}/{newer.file}", own)
        tree(root, {name: html if link == "based" else f"<a href='{older.file}'>x</a>{html}"})
    uvs = by_uv(names, "--default-index", root.as_uri())
    assert by_envspec(machine, names, root.as_uri(), "indexes") == uvs == by_pip(names, [], [root.as_uri()]), links
