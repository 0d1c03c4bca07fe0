"""What a site's settings mean for builds and jobs of recipes, which themselves name no host."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from envspec_check.lock import read_target
from recipe_plans import compiled, functions_of_builds, shipped, text_in
from support.index import Index
from support.packages import wheel
from support.recipes import RENDERED, ROOT, SPECS, all_recipes, recipe_plan, recipe_texts
from uv import find_uv_bin

from envspec.app.export.recipes import recipe_drift
from envspec.base.errors import InputError, Place
from envspec.configuration.settings import Settings
from envspec.configuration.user_config import SlurmSite
from envspec.export import apptainer, dockerfile
from envspec.export.carried import carried_files, check_files
from envspec.export.dockerfile_steps import NETRC_SECRET, install, uv_mounts
from envspec.export.folder import OF_A_SPEC, OF_A_TARGET, OWN, RECIPES, render_all
from envspec.export.leftovers import CONTAINERS, removable
from envspec.export.plan import CHECK_ARCHIVE, SHARED_FOLDER, SUMS, PipStep, decode, digest
from envspec.export.site_build import (
    build_arguments,
    build_files,
    constraint,
    definition_here,
    image_here,
    missing_features,
    proxy_variables,
    variables,
)
from envspec.export.template import command
from envspec.lock.model import SoundLock
from envspec.lock.read import load
from envspec.spec.cluster import SlurmTable
from envspec.spec.parse import load_spec

MIRRORS = {
    "docker.io": "https://user:hunter2@hub.example/hub",
    "pytorch": "https://user:hunter2@mirror.example/whl",
    "python": "https://mirror.example/python",
    "debian": "http://mirror.example/debian",
}
SITE = Settings(Path(), mirrors=MIRRORS, default_index="https://user:hunter2@mirror.example/simple")

SOURCES = """\
# deb http://deb.example/debian bookworm main
deb http://deb.example/debian bookworm main
deb [signed-by=/x.gpg] https://security.example/debian-security/ bookworm-security main
deb http://archive.example/ubuntu/ jammy main
deb https://developer.example/compute/cuda/repos/ubuntu2204/x86_64 /
"""
DEB822 = "Types: deb\nURIs: http://deb.example/debian\nSuites: bookworm\n"


def test_apts_sources_name_the_mirrors_in_a_copy_alone(tmp_path: Path) -> None:
    etc, copy = tmp_path / "etc", tmp_path / "copy"
    (etc / "sources.list.d").mkdir(parents=True)
    (etc / "sources.list").write_text(SOURCES)
    (etc / "sources.list.d" / "debian.sources").write_text(DEB822)
    given = tmp_path / "apt-mirrors"
    given.write_text("debian=http://m.example:8080/d%20b ubuntu=https://m.example/u")
    text = functions_of_builds("set_archives", "on_sources")
    text = text.replace("/etc/apt", str(etc)).replace("/var/lib/apt/site", str(copy))
    script = f"day=; mirrors={given}\n{text}\nset_archives"
    ran = subprocess.run(["sh", "-euc", f'{script}\necho "$APT_CONFIG"'], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{copy}/own.conf\n" and (copy / "own.conf").read_text() == f'Dir::Etc "{copy}";\n'
    assert (copy / "sources.list.d" / "debian.sources").read_text() == DEB822.replace(
        "http://deb.example/debian", "http://m.example:8080/d%20b"
    )
    changed = (copy / "sources.list").read_text().splitlines()
    assert changed[1:4] == [
        "deb http://m.example:8080/d%20b bookworm main",
        "deb [signed-by=/x.gpg] https://security.example/debian-security/ bookworm-security main",
        "deb https://m.example/u jammy main",
    ]
    assert changed[4] == SOURCES.splitlines()[4] and (etc / "sources.list").read_text() == SOURCES
    given.unlink()
    nothing = subprocess.run(["sh", "-euc", f"{script}\nenv"], capture_output=True, text=True, check=True, env={})
    assert "APT_CONFIG" not in nothing.stdout


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("debian:12", "hub.example/hub/library/debian:12"),
        ("astral/uv:1@sha256:" + "0" * 64, "hub.example/hub/astral/uv@sha256:" + "0" * 64),
        ("quay.io/a/b:1", "quay.io/a/b:1"),
    ],
)
def test_images_come_from_the_mirror_of_their_registry(name: str, here: str) -> None:
    assert image_here(name, MIRRORS) == here
    assert image_here(name, {"docker.io": ""}) == name


def test_a_builder_gets_the_sites_images_and_files_and_no_password() -> None:
    text = text_in(dockerfile.render(compiled("mm-v2.9", "cu128-hopper")), dockerfile.FILE)
    arguments = build_arguments(text, SITE)
    assert arguments == {
        "BASE_IMAGE": "hub.example/hub/library/debian:trixie-slim",
        "UV_IMAGE": "hub.example/hub/astral/uv:0.13.8",
        "COMPILER_IMAGE": "hub.example/hub/nvidia/cuda:12.8.1-devel-ubuntu22.04",
    }
    other = text_in(dockerfile.render(shipped("mm-v2.9", "cu126-volta")), dockerfile.FILE)
    assert build_arguments(other, SITE)["PYTORCH_INDEX"] == "https://mirror.example/whl/cu126"
    files = build_files(other, SITE)
    assert files["apt-mirrors"] == "debian=http://mirror.example/debian\n"
    assert 'python-install-mirror = "https://mirror.example/python"' in files["uv.toml"]
    assert "hunter2" not in f"{arguments}{files}" and build_files(other, Settings(Path())) == {}
    assert proxy_variables({"https_proxy": "http://u:hunter2@h", "NO_PROXY": "x", "all_proxy": "y"}) == (
        "https_proxy",
        "NO_PROXY",
    )


def test_a_definition_takes_the_sites_images() -> None:
    files = apptainer.render(compiled("mm-v2.9", "cu128-hopper"))
    here = definition_here(text_in(files, apptainer.FILE), SITE)
    assert "From: hub.example/hub/library/debian:trixie-slim\n" in here and "\nFrom: debian" not in here
    offline = text_in(files, apptainer.OFFLINE_FILE)
    assert definition_here(offline, SITE) == offline
    assert definition_here(here, Settings(Path())) == here


CLUSTER = SlurmSite(
    account="proj",
    features={"H100": "h100", "H200": "h200", "sm_80": "a100", "ada": "l40s"},
    drivers={"525": "d525", "550": "d550", "570.86.10": "d570"},
)


@pytest.mark.parametrize(
    ("architectures", "floor", "asked"),
    [
        (("sm_90",), "525.60.13", "(h100|h200)&(d550|d570)"),
        (("sm_80", "sm_90"), "560", "(a100|h100|h200)&d570"),
        (("sm_89",), "580.65.06", "l40s"),
        (("sm_80",), None, "a100"),
        (("sm_90",), None, "h100|h200"),
        (("sm_70",), "570.26", "d570"),
        (("sm_70",), "580", None),
        ((), "470", None),
    ],
)
def test_a_job_asks_for_nodes_by_the_names_that_the_site_gave(
    architectures: tuple[str, ...], floor: str | None, asked: str | None
) -> None:
    assert constraint(CLUSTER, architectures, floor) == asked


def test_what_the_site_named_nothing_for_is_told() -> None:
    assert missing_features(CLUSTER, ("sm_70", "sm_90"), "580") == (
        "features names no GPU of compute capability 7.0",
        "drivers names none from 580 on",
    )
    assert missing_features(CLUSTER, ("sm_90",), "525.60.13") == missing_features(SlurmSite(), ("sm_90",), "580") == ()
    assert missing_features(CLUSTER, (), None) == ()


def test_a_spec_wins_over_the_site() -> None:
    at_site = {"SBATCH_ACCOUNT": "proj", "SBATCH_CONSTRAINT": "a100"}
    assert variables(CLUSTER, SlurmTable(), ("sm_80",), None) == at_site
    asked = SlurmTable(account="own", constraint="ib", partition="x")
    assert variables(CLUSTER, asked, ("sm_80",), None) == {}
    assert variables(SlurmSite(partition="p"), SlurmTable(account="a"), (), None) == {"SBATCH_PARTITION": "p"}


def test_a_gpu_that_no_table_has_is_named_with_its_line() -> None:
    wrong = SlurmSite(features={"H1000": "x"}, places={"H1000": Place("config.toml", 7, 1)})
    with pytest.raises(InputError, match="names an unknown GPU: 'H1000'") as caught:
        constraint(wrong, ("sm_90",), None)
    assert str(caught.value).startswith("config.toml:7:1: ") and caught.value.hint


LINES = 10_000
"""Of the recipes in this repository: a reviewer and a checkout have to bear them."""


def written(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): decode(p.read_bytes()) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", SPECS)
@RENDERED
def test_those_in_the_repository_are_what_export_writes(name: str) -> None:
    """All of mm-v2.9, and a target or two of each other spec."""
    spec, lock = load_spec(ROOT / "specs" / f"{name}.toml"), load(ROOT / "locks" / name / "envspec.lock")
    assert recipe_drift(spec, SoundLock.of(lock), ROOT / "recipes" / name) == ((), "")
    there = {path.parent.name for path in (ROOT / "recipes" / name).glob("*/target.json")}
    wanted = {"mm-v2.9": len(lock.targets), "team-v2.9": 2}
    assert len(there) == wanted.get(name, 1)
    own = {f"{name}-{target}" for target in there}
    assert {path.name for path in (ROOT / CONTAINERS).glob(f"{name}-*")} <= own
    if name == "mm-v2.9":
        found = {f"../{SHARED_FOLDER}/{path}" for path in written(ROOT / "recipes" / SHARED_FOLDER)}
        found |= {f"../../{CONTAINERS}/{of}/devcontainer.json" for of in own} | {"../.dockerignore"}
        assert {*written(ROOT / "recipes" / name), *found} == {*recipe_texts(name)}


@pytest.mark.parametrize("name", SPECS)
@RENDERED
def test_every_target_of_every_spec_is_read(name: str) -> None:
    for of in recipe_plan(name).targets:
        target = all_recipes() / name / of.target / "target.json"
        assert read_target(str(target))["lock_digest"] == of.lock_digest


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", SPECS)
@RENDERED
def test_a_formats_row_names_its_files(name: str) -> None:
    assert sorted((*OF_A_SPEC, *OF_A_TARGET)) == sorted(RECIPES), "a format is a target's or a spec's"
    for of in recipe_plan(name).targets:
        own = {path for files in render_all(of).values() for path in files if path.startswith(f"{of.target}/")}
        assert {path.rpartition("/")[2] for path in own} <= OWN, "export wouldn't know them as its own"


@RENDERED
def test_no_file_is_stored_twice() -> None:
    seen: dict[str, str] = {}
    for path, text in sorted(written(all_recipes()).items()):
        if path.endswith("/__init__.py") or "/requirements/" in path:
            continue
        same = seen.setdefault(digest(text), path)
        assert same == path, f"{path} is the same file as {same}"


def test_they_are_not_too_many_lines() -> None:
    texts = {path: text for path, text in written(ROOT / "recipes").items() if not path.endswith(CHECK_ARCHIVE)}
    assert sum(text.count("\n") for text in texts.values()) <= LINES


@RENDERED
def test_a_line_of_the_check_is_in_one_file_and_a_line_of_the_sums() -> None:
    """Nothing but the sums names a file of it, and nothing names the sums."""
    texts = written(all_recipes())
    sums = f"{SHARED_FOLDER}/{SUMS}"
    naming: dict[str, list[str]] = {}
    for path, text in texts.items():
        for named in set(re.findall(r"\b[0-9a-f]{64}\b", text)):
            naming.setdefault(named, []).append(path)
    for text in check_files().values():
        assert set(naming[digest(text)]) == {sums}
    assert digest(texts[sums]) not in naming


@RENDERED
def test_every_development_container_is_of_a_spec() -> None:
    titles = {of.title for name in SPECS for of in recipe_plan(name).targets}
    assert {path.name for path in (ROOT / CONTAINERS).iterdir()} <= titles
    assert {path.name for path in (all_recipes().parent / CONTAINERS).iterdir()} == titles


def test_what_exports_wrote_can_be_removed() -> None:
    """A build of Python and of a source's environment too, and what earlier ones named by its content; whatever else
    lies there is the user's own."""
    folder = ROOT / "recipes" / "mm-v2.9"
    paths = sorted(f"requirements/{path.name}" for path in (folder / "requirements").iterdir())
    assert {"rest.txt", "built-with=deepspeed.txt", "python.json"} <= {path.split("/")[1] for path in paths}
    earlier, own = f"requirements/rest-{hashlib.sha256(b'a==1').hexdigest()[:8]}.txt", "requirements/own-00000000.txt"
    texts = {path: (folder / path).read_text() for path in paths} | {earlier: "a==1", own: "mine\n"}
    assert list(removable([*paths, earlier, own], {}, texts.get)) == [*paths, earlier]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("flat", [False, True], ids=["simple", "flat"])
def test_a_build_logs_in_at_the_specs_own_index_by_a_netrc(tmp_path: Path, *, flat: bool) -> None:
    """The command of the Dockerfile, run by a shell and uv. uv.toml's logins are of simple indexes alone."""
    acme = wheel("acme", "1.0")
    (tmp_path / "rest.txt").write_text(f"acme==1.0 --hash=sha256:{acme.sha256}\n")
    netrc = tmp_path / "netrc"
    with Index("html", credentials=("robot", "hunter2-Zq")) as index:
        index.add(acme)
        page = f"{index.url}/acme/" if flat else index.url
        step = PipStep(("requirements/rest.txt",), ("acme",), index="internal", url=page, flat=flat)
        script = carried_files()["build.sh"].replace("/run/secrets/netrc", str(netrc))
        (tmp_path / "build.sh").write_text(script.replace("else set_times -; fi", "fi"))
        line = command([*install(step, "-", at=str(tmp_path)), "--target", f"{tmp_path}/there"])
        env = {"INDEX_INTERNAL": page, "HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "UV_NO_CACHE": "1"}
        env |= {"UV": find_uv_bin(), "PYTHON": sys.executable, "REQUIREMENTS": str(tmp_path)}
        words = ["sh", "-euc", line]
        assert subprocess.run(words, env=env, capture_output=True, check=False).returncode != 0
        netrc.write_text("machine 127.0.0.1 login robot password hunter2-Zq\n")
        subprocess.run(words, env=env, check=True)
    assert (tmp_path / "there/acme-1.0.dist-info").is_dir() and NETRC_SECRET in uv_mounts([step])
