"""A site's settings at the command line: what commands do with them, and that no file of a project holds any."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from cli_project import SPEC, Envspec, Project
from support.index import Index
from support.machine import Machine, cpu
from support.network import WebProxy
from support.packages import wheel

from envspec.base.documents import read_toml
from envspec.configuration.settings import load_settings
from envspec.export.folder import render
from envspec.export.make import make_plan
from envspec.export.site_build import build_arguments, build_secrets
from envspec.lock.model import SoundLock
from envspec.lock.read import load
from envspec.prove.smoke.run.apptainer import Apptainer
from envspec.prove.smoke.run.case import Files, Folders, SiteBuilds, make_case
from envspec.spec.parse import load_spec

pytest_plugins = ["cli_fixtures"]

TARGET = "specs/demo.toml"
SITE = """
[mirrors]
"docker.io" = "https://hub.example/hub"
python = "https://mirror.example/python"
debian = "http://mirror.example/debian"
pytorch = "https://mirror.example/whl"
[site]
proxy = "http://robot:hunter2-Zq@proxy.example:3128"
[site.slurm]
account = "proj"
features = { V100 = "v100", hopper = "h100" }
drivers = { "550" = "d550" }
[site.fabric]
kind = "slingshot"
libraries = ["/opt/ofi/lib"]
binds = ["/usr/lib64/libcxi.so.1"]
"""


@pytest.fixture
def at_site(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    (tmp_path / "site.toml").write_text(SITE)
    monkeypatch.setenv("ENVSPEC_CONFIG", str(tmp_path / "site.toml"))
    for name in ("UV_PYTHON_DOWNLOADS", *(name for name in os.environ if name.lower().endswith("_proxy"))):
        monkeypatch.delenv(name, raising=False)
    project.spec()
    project.lock()
    return project


@pytest.mark.slow
def test_exported_files_are_the_same_and_the_commands_are_told(
    at_site: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    formats = [word for name in ("dockerfile", "apptainer", "slurm") for word in ("-f", name)]
    told = envspec("export", TARGET, *formats, "-o", "recipes/demo")
    assert told.code == 0 and "hunter2" not in told.err
    here = at_site.files()
    assert not [name for name, text in here.items() if b"mirror.example" in text or b"hub.example" in text]
    _, _, lines = told.err.partition("at this site, in recipes/demo:\n")
    docker, apptainer, *jobs = lines.splitlines()
    assert docker.startswith("  APT_MIRRORS=debian=http://mirror.example/debian UV_SETTINGS='python-install-mirror = ")
    assert " --build-arg BASE_IMAGE=hub.example/hub/library/debian:trixie-slim " in docker
    assert " --build-arg PYTORCH_INDEX=https://mirror.example/whl/cu126 " in docker
    # the value would show the password: whoever builds has it in the environment
    assert " --build-arg http_proxy --build-arg https_proxy " in docker
    assert docker.endswith(" -f cu126-volta/Dockerfile -t demo-cu126-volta ..")
    assert " -e 's,^From: debian:trixie-slim$,From: hub.example/hub/library/debian:trixie-slim,' " in apptainer
    assert apptainer.endswith("apptainer build --bind FOLDER:/mnt --notest demo-cu126-volta.sif FOLDER/apptainer.def")
    jobs = [job.strip() for job in jobs]
    assert jobs[0] == "ENVSPEC_TARGET=cpu SBATCH_ACCOUNT=proj sbatch job.sbatch"
    for index, begin in (
        (1, "ENVSPEC_TARGET=cu126-volta SBATCH_ACCOUNT=proj SBATCH_CONSTRAINT='v100&d550' "),
        (4, "ENVSPEC_TARGET=cu128-hopper SBATCH_ACCOUNT=proj SBATCH_CONSTRAINT='h100&d550' "),
    ):
        assert jobs[index].endswith(": on one node, without NCCL_NET")
        paths = "/opt/ofi/lib,/usr/lib64/libcxi.so.1"
        by_apptainer, by_pyxis = (shlex.split(job) for job in jobs[index + 1 : index + 3])
        assert shlex.split(begin) == by_apptainer[:3] == by_pyxis[:3]
        assert {"NCCL_NET=AWS Libfabric", "FI_CXI_RX_MATCH_MODE=hybrid"} <= set(by_apptainer) & set(by_pyxis)
        inside = [f"APPTAINER_BIND={paths}", "APPTAINERENV_LD_LIBRARY_PATH=/opt/ofi/lib", "sbatch", "job.sbatch"]
        assert by_apptainer[-4:] == inside
        mounts = ",".join(f"{path}:{path}" for path in paths.split(","))
        assert by_pyxis[-4:] == [
            f"ENVSPEC_MOUNTS={mounts}",
            "ENVSPEC_LIBRARIES=/opt/ofi/lib",
            "sbatch",
            "job-pyxis.sbatch",
        ]
    assert len(jobs) == 7
    assert envspec("check", TARGET).code == 0
    monkeypatch.setenv("ENVSPEC_CONFIG", os.devnull)
    told = envspec("export", TARGET, *formats, "-o", "recipes/demo")
    assert "at this site" not in told.err and at_site.files() == here


def test_compose_and_editors_take_the_site_from_the_environment(at_site: Project, envspec: Envspec) -> None:
    formats = [word for name in ("compose", "devcontainer") for word in ("-f", name)]
    told = envspec("export", TARGET, *formats, "-o", "recipes/demo")
    assert told.code == 0 and "hunter2" not in told.err
    assert not [name for name, text in at_site.files().items() if b"mirror.example" in text or b"hub.example" in text]
    compose, editor = told.err.partition("at this site, in recipes/demo:\n")[2].splitlines()
    assert compose.startswith("  APT_MIRRORS=debian=http://mirror.example/debian UV_SETTINGS='python-install-mirror = ")
    assert " BASE_IMAGE=hub.example/hub/library/debian:trixie-slim " in compose and "proxy" not in compose
    assert compose.endswith(" docker compose build cu126-volta")
    folder, _, file = editor.partition(" devcontainer up --workspace-folder ")[2].partition(" --config ")
    assert folder == "../.." and (at_site.folder / "recipes/demo" / file).is_file()


@pytest.mark.parametrize(
    ("spec", "arguments", "words"),
    [
        ("", ("--runner", "slurm"), ["--account=proj", "'--constraint=h100&d550'"]),
        ("[slurm]\naccount = 'own'\nconstraint = 'ib'\n", ("--runner", "slurm"), ["--account=own", "--constraint=ib"]),
        ("", ("--runner", "slurm", "--device", "cpu"), ["--account=proj"]),
        (
            "",
            ("--runner", "slurm", "--account", "mine"),
            ["--account=proj", "--constraint=h100&d550", "--account=mine"],
        ),
    ],
)
def test_a_smoke_job_goes_where_the_spec_or_the_site_says(
    at_site: Project, envspec: Envspec, spec: str, arguments: tuple[str, ...], words: list[str]
) -> None:
    at_site.spec(SPEC + spec)
    told = envspec("smoke", TARGET, "-t", "cu128-hopper", *arguments, "--dry-run", "-o", "out")
    (line,) = (line for line in told.out.splitlines() if line.startswith("sbatch "))
    kinds = ("--account", "--constraint", "--partition")
    assert [word.strip("'") for word in line.split() if word.strip("'").startswith(kinds)] == [
        word.strip("'") for word in words
    ]


@pytest.mark.parametrize("runner", ["docker", "apptainer"])
def test_a_smoke_image_is_built_from_the_sites_images(at_site: Project, envspec: Envspec, runner: str) -> None:
    told = envspec("smoke", TARGET, "-t", "cu128-hopper", "--runner", runner, "--dry-run", "-v", "-o", "out")
    assert told.code == 0 and "hunter2" not in told.out + told.err
    if runner == "docker":
        assert " --build-arg BASE_IMAGE=hub.example/hub/library/debian:trixie-slim " in told.out
        assert " --build-arg http_proxy --build-arg https_proxy " in told.out
        assert "/apt-mirrors --secret id=uv,src=" in told.out
    else:
        assert ":/mnt " in told.out and "/apt-mirrors (" in told.out and "/pytorch-index (" in told.out


def test_an_unknown_gpu_of_the_site_is_named_with_its_line(at_site: Project, envspec: Envspec, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('[site.slurm.features]\nH1000 = "x"\n')
    told = envspec("smoke", TARGET, "-t", "cu128-hopper", "--runner", "slurm", "--dry-run")
    assert told.code == 2 and "site.toml:2:1: [site.slurm] features names an unknown GPU: 'H1000'" in told.err


@pytest.mark.slow
def test_indexes_are_asked_through_the_sites_proxy(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"), uploaded="2026-01-01T00:00:00Z")
    machine.default = "http://pypi.invalid/simple"
    machine.spec("[env]\npython = '3.12'\n[pip]\ndependencies = ['alpha']\n[targets.cpu]\nplatform = 'linux-64'\n")
    with WebProxy(index, ("robot", "hunter2-Zq")) as proxy:
        path = machine.configure("")
        path.write_text(f'{path.read_text()}[site]\nproxy = "{proxy.url}"\nno-proxy = ["example.org"]\n')
        assert machine.locked().targets[0].pins[0].version == "1.0"
        assert machine.envspec("bundle", "specs/demo.toml", "-o", "demo.tar").status == 0
        assert any("/alpha" in url for url in proxy.asked) and any(url.endswith(".whl") for url in proxy.asked)
        # the caller's own variable wins, also one that says none
        caches = {name: str(machine.base / name) for name in ("UV_CACHE_DIR", "ENVSPEC_CACHE_DIR")}
        ran = machine.envspec("lock", "specs/demo.toml", "--upgrade", env={"http_proxy": "", **caches})
        assert ran.status == 3 and "hunter2" not in ran.out + ran.err


@pytest.mark.slow
def test_a_specs_own_indexes_have_their_mirrors_in_builds(machine: Machine, index: Index) -> None:
    """By an argument of the Dockerfile, and in the copy of the definition; neither file names the mirror."""
    index.add(wheel("alpha", "1.0"), wheel("acme", "1.0"), uploaded="2026-01-01T00:00:00Z")
    own = "indexes = { internal = 'https://packages.example.org/simple' }\nsources = { acme = 'internal' }\n"
    machine.spec(cpu("alpha", "acme", extra=own))
    machine.configure(f'internal = "{index.url_with("bob", "hunter2-Zq")}"')
    machine.locked()
    machine.variables["UV_PYTHON_DOWNLOADS"] = "automatic"
    told = machine.envspec("export", "specs/demo.toml", "-f", "dockerfile", "-f", "apptainer", "-o", "out", status=0)
    files = machine.files()
    assert not [name for name, text in files.items() if index.url.encode() in text or b"hunter2" in text]
    docker, apptainer = told.err.partition("at this site")[2].splitlines()[1:3]
    assert f" --build-arg INDEX_INTERNAL={index.url} " in docker
    edited = f"s, INDEX_INTERNAL=https://packages\\.example\\.org/simple$, INDEX_INTERNAL={index.url},"
    assert edited in apptainer and "hunter2" not in told.err
    edit = apptainer.partition("sed ")[2].partition(" cpu/apptainer.def")[0]
    words = ["sh", "-c", f"sed {edit} out/cpu/apptainer.def"]
    made = subprocess.run(words, cwd=machine.folder, capture_output=True, text=True, check=True).stdout
    assert f"INDEX_INTERNAL={index.url}\n" in made and "packages.example.org" not in made
    # smoke builds the very same
    spec = load_spec(machine.folder / "specs/demo.toml")
    lock = SoundLock.of(load(machine.locks / "demo/envspec.lock"))
    case = make_case(
        spec, lock, lock.targets[0], locks_dir="locks", programs={}, references={},
        recipe=render(make_plan(spec, lock, lock.targets[0]), "apptainer"),
    )  # fmt: skip
    site = SiteBuilds(load_settings(machine.environment(), machine.home))
    (recipe, *_) = Apptainer(Folders(machine.base, machine.base), site=site).prepare(case)
    assert isinstance(recipe, Files) and dict(recipe.texts)["cpu/apptainer.def"] == made


RECORDING = """#!/bin/sh
# stands for an engine: what its build is given, when it is given it
case "$*" in *" inspect "*) exit 1;; esac
{ printf '%s\\n' "$*"; printf 'netrc %s\\nuv %s\\n' "$ENVSPEC_NETRC" "$ENVSPEC_UV"
  for word in "$@"; do case "$word" in *:/mnt) ls -ln "${word%:/mnt}"; cat "${word%:/mnt}"/*;; esac; done; } >>RECORD
exit STATUS
"""


def test_a_mirror_of_pytorchs_with_a_login(machine: Machine) -> None:
    """Beside another default index, or none: the argument has no login, and uv's settings have it."""
    recipe = 'uv pip install --torch-backend cu126 "$@"'
    for default in ("", 'pypi = "https://mirror.example/simple"\n'):
        machine.configure(f'pytorch = "https://bob:hunter2-Zq@whl.example/whl"\n{default}')
        settings = load_settings({}, machine.home)
        text = build_secrets(recipe, settings, (), {})["uv.toml"]
        tables = {one.get("name", "default"): one["url"] for one in read_toml(text)["index"]}
        assert tables.pop("pytorch-mirror") == "https://bob:hunter2-Zq@whl.example/whl/cu126"
        assert tables == ({"default": "https://mirror.example/simple"} if default else {})
        assert build_arguments(recipe, settings)["PYTORCH_INDEX"] == "https://whl.example/whl/cu126"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runner", "where", "fails"),
    [
        ("podman", "configuration", False),
        ("podman", "netrc", True),
        ("apptainer", "variables", False),
        ("apptainer", "configuration", True),
    ],
)
def test_smokes_own_builds_log_in(machine: Machine, index: Index, runner: str, where: str, fails: bool) -> None:
    """Builds get the logins of the indexes that they ask, and nothing keeps or shows them."""
    index.add(wheel("alpha", "1.0"), wheel("acme", "1.0"), uploaded="2026-01-01T00:00:00Z")
    own = "indexes = { internal = 'https://packages.example.org/simple' }\nsources = { acme = 'internal' }\n"
    machine.spec(cpu("alpha", "acme", extra=own))
    machine.configure(f'internal = "{index.url}"')
    machine.locked()
    login = index.url_with("bob", "hunter2-Zq")
    if where == "configuration":
        machine.default = ""
        machine.configure(f'internal = "{login}"\npypi = "{login}"')
    elif where == "variables":
        machine.variables |= {"UV_INDEX_INTERNAL_USERNAME": "bob", "UV_INDEX_INTERNAL_PASSWORD": "hunter2-Zq"}
        machine.default = login
    else:
        (machine.home / ".netrc").write_text(
            "machine 127.0.0.1 login bob password hunter2-Zq\nmachine other.example login x password other-Zq\n"
        )
    programs = machine.base / "bin"
    programs.mkdir()
    record = machine.base / "record"
    text = RECORDING.replace("RECORD", str(record)).replace("STATUS", str(int(fails)))
    (programs / runner).write_text(text)
    (programs / runner).chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    option = ("--runner", "docker", "--engine", "podman") if runner == "podman" else ("--runner", runner)
    ran = machine.envspec("smoke", TARGET, "-t", "cpu", *option, "-o", "out", env=env)
    told = record.read_text()
    assert "machine 127.0.0.1 login bob password hunter2-Zq" in told and f'"{login}"' in told and "other-Zq" not in told
    if runner == "podman":
        assert "--secret id=netrc,env=ENVSPEC_NETRC" in told and "--secret id=uv,env=ENVSPEC_UV" in told
    else:
        assert re.search(r"-rw------- .* netrc\n", told) and re.search(r"-rw------- .* uv.toml\n", told)
    record.unlink()
    kept = [path for path in machine.base.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert {path.name for path in kept} <= {".netrc", "config.toml"} and "hunter2" not in ran.out + ran.err, kept
