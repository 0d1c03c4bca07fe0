"""`envspec export` in conda's formats: the URLs of the user's own channels, and pip's half as pip takes it."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cli_project import Envspec, Project, served, without_settings
from msgspec.structs import replace
from support.index import Index
from support.packages import wheel

from envspec.lock.model import Artifact, Pin
from envspec.resolve.uv.program import find_uv

pytest_plugins = ["cli_fixtures"]

APP, LIB, TORCH = wheel("app", "1.4", "lib>=2", "numpy"), wheel("lib", "2.5"), wheel("torch", "2.9.1+cpu")
NUMPY = wheel("numpy", "2.3.1")
ALIAS = "https://conda.example.org/mirror"

SPEC = """\
[env]
name = "demo"
python = "3.12"
[pip]
dependencies = ["app"]
[conda]
channels = ["conda-forge"]
dependencies = ["numpy"]
[targets.a]
platform = "linux-64"
[targets.b]
platform = "linux-aarch64"
"""


def conda(name: str, version: str, index: str = "conda-forge/noarch") -> Pin:
    file = Artifact(f"{name}-{version}-h1_0.conda", hashlib.sha256(name.encode()).hexdigest(), 1000, "b" * 32)
    return Pin(
        "conda", name, version, index, file, (), True, "MIT", build="h1_0", provides=("numpy",) * (name == "numpy")
    )


PINS = (
    conda("numpy", "2.3.1"),
    conda("zlib", "1.3", "conda-forge/linux-64"),
    served(APP, "lib>=2", "numpy"),
    served(LIB),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Index) -> Path:
    """A user whose PyPI is the loopback index, and who has configured nothing of conda's but where channels are."""
    without_settings(monkeypatch, tmp_path / "home", "CONDA")
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", ALIAS)
    index.add(APP, LIB)
    return tmp_path / "home"


def locked(project: Project, pins: tuple[Pin, ...] = PINS, spec: str = SPEC) -> None:
    """A spec that asks for these pins, and its lock; a conda package is of each target's own platform."""
    asked = {
        kind: [pin.name for pin in pins if pin.kind == kind and not any(pin.name in p.dependencies for p in pins)]
        for kind in ("pip", "conda")
    }
    project.spec(spec.replace('["app"]', str(asked["pip"])).replace('["numpy"]', str(asked["conda"])))
    platforms = {"a": "linux-64" if '"linux-64"' in spec else "osx-arm64", "b": "linux-aarch64"}
    project.lock(lambda target: tuple(replace(p, index=p.index.replace("linux-64", platforms[target])) for p in pins))


def export(envspec: Envspec, name: str, *arguments: str, target: str = "a") -> tuple[int, str, str]:
    return envspec("export", "specs/demo.toml", "--target", target, "--format", name, *arguments)


def conda_urls(text: str) -> set[str]:
    return set(re.findall(r"https?://[^\s\"#]*\.conda", text))


EXPECTED = {f"{ALIAS}/conda-forge/linux-64/zlib-1.3-h1_0.conda", f"{ALIAS}/conda-forge/noarch/numpy-2.3.1-h1_0.conda"}


@pytest.mark.parametrize("name", ["conda-lock", "conda-explicit"])
def test_every_package_has_its_url(name: str, project: Project, home: Path, envspec: Envspec, index: Index) -> None:
    locked(project)
    code, out, err = export(envspec, name)
    assert (code, err) == (0, "")
    assert conda_urls(out) == EXPECTED
    for dist in (APP, LIB):
        assert f"/{dist.file}" in out
        assert dist.sha256 in out


def test_the_names_of_the_files(project: Project, home: Path, envspec: Envspec, tmp_path: Path) -> None:
    locked(project)
    out = tmp_path / "out"
    formats = [option for name in ("conda-lock", "conda-explicit", "conda-env") for option in ("-f", name)]
    assert envspec("export", "specs/demo.toml", *formats, "-o", str(out)).code == 0
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == {
        *(f"{target}/{name}" for target in "ab" for name in ("conda-lock.yml", "environment.yml")),
        "a/conda-linux-64.lock",
        "b/conda-linux-aarch64.lock",
    }


def test_a_mirror_of_the_channel(project: Project, home: Path, envspec: Envspec) -> None:
    locked(project)
    config = home / ".config" / "envspec" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[mirrors]\nconda-forge = "https://user:secret@own.example.org/forge/"\n')
    code, out, _ = export(envspec, "conda-explicit")
    assert code == 0
    assert conda_urls(out) == {url.replace(f"{ALIAS}/conda-forge", "https://own.example.org/forge") for url in EXPECTED}
    assert "secret" not in out


def test_a_channel_by_url(project: Project, home: Path, envspec: Envspec) -> None:
    spec = SPEC.replace('["conda-forge"]', '["https://conda.example.org/own/tools", "conda-forge"]')
    locked(project, (conda("acme", "1", "tools/noarch"), conda("numpy", "2.3.1")), spec)
    committed = (project.folder / "locks/demo/a/conda-linux-64.lock").read_text()
    code, out, _ = export(envspec, "conda-explicit")
    assert code == 0
    own = "https://conda.example.org/own/tools/noarch/acme-1-h1_0.conda"
    assert conda_urls(out) == {own, f"{ALIAS}/conda-forge/noarch/numpy-2.3.1-h1_0.conda"}
    assert own in committed and ALIAS not in committed


def test_without_settings_rattler_says_where_channels_are(
    project: Project, home: Path, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    rattler = pytest.importorskip("rattler", reason="py-rattler isn't installed: the extra `conda` brings it")
    monkeypatch.delenv("CONDA_CHANNEL_ALIAS")
    locked(project)
    code, out, _ = export(envspec, "conda-explicit")
    assert code == 0
    base = str(rattler.Channel("conda-forge").base_url).rstrip("/")
    assert conda_urls(out) == {url.replace(f"{ALIAS}/conda-forge", base) for url in EXPECTED}


def test_a_channel_that_is_gone_from_the_spec(project: Project, home: Path, envspec: Envspec) -> None:
    locked(project, (conda("acme", "1", "gone/noarch"),))
    assert export(envspec, "conda-explicit") == (
        2,
        "",
        "error: locks/demo/envspec.lock: what the lock pins can't be right for its spec:\n"
        "  a, b: acme is from the channel gone, which the spec doesn't name  [wrong-index]\n"
        "hint: run `envspec lock specs/demo.toml`, which solves again what fails; if none of you changed the lock, find"
        " out who did\n",
    )


def test_a_target_without_conda_packages(project: Project, home: Path, envspec: Envspec) -> None:
    locked(project, (served(LIB),))
    assert export(envspec, "conda-env") == (
        2,
        "",
        "error: conda-env needs conda packages, and the target a has none\n"
        "hint: choose targets with --target, or use --format requirements or --format pylock\n",
    )


def test_a_package_without_md5(project: Project, home: Path, envspec: Envspec) -> None:
    pin = conda("acme-tool", "1")
    assert pin.artifact
    locked(project, (replace(pin, artifact=replace(pin.artifact, md5=None)),))
    code, out, err = export(envspec, "conda-lock")
    assert (code, out) == (2, "")
    assert err.startswith("error: conda-lock.yml needs MD5 digests, and the channel has none for acme-tool\n")
    assert export(envspec, "conda-explicit")[1].endswith(f".conda#sha256:{pin.artifact.sha256}\n")


def test_an_environment_asks_no_index(project: Project, home: Path, envspec: Envspec, index: Index) -> None:
    locked(project)
    index.asked.clear()
    code, out, err = export(envspec, "conda-env")
    assert (code, err) == (0, "")
    assert index.paths("/simple/") == []
    read = yaml.safe_load(out)
    assert read["name"] == "demo-a"
    assert read["channels"] == ["conda-forge", "nodefaults"]
    assert read["dependencies"] == [
        "conda-forge::numpy=2.3.1=h1_0",
        "conda-forge::zlib=1.3=h1_0",
        {"pip": [f"app==1.4 --hash=sha256:{APP.sha256}", f"lib==2.5 --hash=sha256:{LIB.sha256}"]},
    ]


def test_check_sees_a_changed_conda_file(project: Project, home: Path, envspec: Envspec) -> None:
    locked(project)
    assert envspec("check", "specs/demo.toml").code == 0
    for name in ("conda-lock.yml", "conda-linux-64.lock"):
        path = project.folder / "locks/demo/a" / name
        before = path.read_text()
        path.write_text(before.replace("zlib-1.3", "zlib-1.2"))
        told = envspec("check", "specs/demo.toml")
        assert told.code == 1
        assert f"a/{name}" in told.out
        path.unlink()
        assert f"a/{name}" in envspec("check", "specs/demo.toml").out
        path.write_text(before)
    assert envspec("check", "specs/demo.toml").code == 0


def test_files_of_another_platform_go(project: Project, home: Path) -> None:
    locked(project)
    locked(project, spec=SPEC.replace('"linux-64"', '"osx-arm64"'))
    assert {path.name for path in (project.folder / "locks/demo/a").iterdir()} == {
        "conda-lock.yml",
        "conda-osx-arm64.lock",
        "requirements.txt",
    }


@pytest.mark.slow
@pytest.mark.e2e
def test_pip_takes_the_pip_list_as_conda_hands_it_over(
    project: Project, home: Path, envspec: Envspec, index: Index, tmp_path: Path
) -> None:
    """conda and micromamba write the list into a file in the environment's folder and run `pip install -U -r` on it:
    hashes are checked, and what conda installed stays."""
    index.add(NUMPY, wheel("numpy", "2.4.0"))
    locked(project)
    code, out, _ = export(envspec, "conda-env")
    assert code == 0
    (pip,) = (one["pip"] for one in yaml.safe_load(out)["dependencies"] if isinstance(one, dict))
    folder = tmp_path / "environment"
    uv = find_uv(os.environ).executable
    python = ["--python", str(folder / "bin" / "python")]
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    # stands for what conda installed
    subprocess.run([uv, "pip", "install", "--quiet", *python, "numpy==2.3.1"], check=True)
    requirements = tmp_path / "condaenv.requirements.txt"

    def install(lines: list[str]) -> subprocess.CompletedProcess[str]:
        requirements.write_text("\n".join(lines))
        command = [sys.executable, "-m", "pip", *python, "install", "-U", "-r", str(requirements), "--exists-action=b"]
        return subprocess.run(
            command, env={**os.environ, "PIP_INDEX_URL": index.url}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False,
        )  # fmt: skip

    wrong = [line.replace(LIB.sha256, "0" * 64) for line in pip]
    refused = install(wrong)
    assert refused.returncode == 1
    assert "DO NOT MATCH THE HASHES" in refused.stdout
    done = install(pip)
    assert done.returncode == 0, done.stdout
    listed = subprocess.run([uv, "pip", "freeze", *python], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert listed.split() == ["app==1.4", "lib==2.5", "numpy==2.3.1"]
