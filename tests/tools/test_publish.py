"""What a release publishes: the package page, an sdist whose tests run, conda-forge's recipe, envspec's own image."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import tomli
from packaging.requirements import Requirement
from support.git_repository import git
from support.machine import Machine
from support.oci import opened_builder, skip_without
from support.ssh import allow, make_key
from uv import find_uv_bin

from envspec import __version__
from envspec.packages.own_extras import MODULES

CONDA_NAMES = {"build": "python-build"}


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomli.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return found


def test_links_of_the_package_page_are_absolute(root: Path, project: dict[str, Any]) -> None:
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    (fragment,) = hook["fragments"]
    text = (root / fragment["path"]).read_text(encoding="utf-8")
    before = re.findall(r"\]\(([^)]+)\)", text)
    for one in hook["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    after = re.findall(r"\]\(([^)]+)\)", text)
    repository = project["project"]["urls"]["Repository"]
    assert len(after) == len(before) > 20
    assert all(link.startswith(("https://", "#")) for link in after)
    moved = [link for link in after if link not in before]
    assert moved and all(link.startswith(f"{repository}/") for link in moved)
    for link in moved:
        kind, version, path = link.removeprefix(f"{repository}/").split("/", 2)
        assert kind == ("raw" if path.endswith(".svg") else "blob") and version == "v$HFPR_VERSION"
        assert (root / path.partition("#")[0]).exists()
    assert all(url.startswith(repository) for url in project["project"]["urls"].values())


def test_the_conda_recipe_equals_pyproject(root: Path, project: dict[str, Any]) -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((root / "tools" / "publish" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == __version__
    assert f">={recipe['context']['python_min']}" == project["project"]["requires-python"]

    def listed(texts: list[str]) -> set[tuple[str, str]]:
        found = (text.partition(" ") for text in texts if not text.startswith(("python ", "pip")))
        return {(name, ",".join(sorted(bounds.split(",")))) for name, _, bounds in found}

    def asked(texts: list[str]) -> set[tuple[str, str]]:
        found = map(Requirement, texts)
        return {(CONDA_NAMES.get(one.name, one.name), ",".join(sorted(str(one.specifier).split(",")))) for one in found}

    assert listed(recipe["requirements"]["run"]) == asked(project["project"]["dependencies"])
    assert listed(recipe["requirements"]["host"]) == asked(project["build-system"]["requires"])


def test_a_release_of_another_repository_or_version_is_refused(root: Path) -> None:
    command = [sys.executable, "tools/publish/check_release.py"]
    ran = subprocess.run([*command, "v9.9", "https://example.org/o/r"], cwd=root, capture_output=True, text=True)
    assert ran.returncode == 1
    assert f"the tag is v9.9, and envspec/__init__.py says {__version__}" in ran.stderr
    assert "and this is https://example.org/o/r" in ran.stderr


@pytest.fixture(scope="module")
def dist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for project in (root, root / "check"):
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=project, check=True)
    return folder


@pytest.mark.slow
@pytest.mark.e2e
def test_a_signed_tag_of_a_dated_changelog_is_a_release(root: Path, tmp_path: Path, project: dict[str, Any]) -> None:
    """Rehearsed in a copy, with a throwaway key: the day in CHANGELOG.md, the tag, its signature, the check."""
    for name in ("CHANGELOG.md", "pyproject.toml", "envspec/__init__.py", "tools/publish"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy2
        copy(root / name, tmp_path / name)
    changes = tmp_path / "CHANGELOG.md"
    text = changes.read_text("utf-8")
    assert text.count("## [Unreleased]") == 1 and f"The first release, {__version__}." in text
    changes.write_text(text.replace("## [Unreleased]", f"## [{__version__}] - 2026-12-01"), "utf-8")
    ada = make_key(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "gpg.format", "ssh")
    git(tmp_path, "config", "user.signingKey", str(ada.path))
    git(tmp_path, "config", "gpg.ssh.allowedSignersFile", str(allow(tmp_path / "allowed", ada)))
    git(
        tmp_path,
        "add",
        *(name.name for name in tmp_path.iterdir() if not name.name.startswith((".", "ada", "allowed"))),
    )
    git(tmp_path, "commit", "-qm", "release")
    git(tmp_path, "tag", "-s", "-m", "release", f"v{__version__}")
    git(tmp_path, "verify-tag", f"v{__version__}")
    command = [sys.executable, "tools/publish/check_release.py", git(tmp_path, "describe", "--tags")]
    subprocess.run([*command, project["project"]["urls"]["Repository"]], cwd=tmp_path, check=True)


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.e2e
@pytest.mark.parametrize("extra", [*MODULES, ""])
def test_the_wheel_installs_in_a_fresh_home_with_each_extra(extra: str, dist: Path, machine: Machine) -> None:
    """tests/docs/test_page_blocks.py runs README.md with it."""
    (wheel,) = dist.glob("envspec-*-none-any.whl")
    env = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_"))}
    env |= {"HOME": str(machine.home), "PATH": os.defpath}
    prefix = machine.home / "v"

    def run(*words: str | Path) -> str:
        return subprocess.run(words, env=env, cwd=machine.folder, check=True, stdout=subprocess.PIPE, text=True).stdout

    run(find_uv_bin(), "venv", "--python", sys.executable, prefix)
    run(find_uv_bin(), "pip", "install", "--python", prefix, f"{wheel}[{extra}]" if extra else wheel)
    run(find_uv_bin(), "pip", "check", "--python", prefix)
    assert __version__ in run(prefix / "bin" / "envspec", "--version")
    run(prefix / "bin" / "envspec", "init", "demo", "--gpu", "H100", "--driver", "550.54.15")
    if extra:
        asks = f"from envspec.packages.own_extras import require_extra as r; r({extra!r}, 'a')"
        run(prefix / "bin" / "python", "-c", asks)


@pytest.mark.nightly
@pytest.mark.e2e
def test_the_tests_of_an_sdist_run(dist: Path, tmp_path: Path) -> None:
    archive = dist / f"envspec-{__version__}.tar.gz"
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    folder = tmp_path / f"envspec-{__version__}"
    some = [
        "tests/spec",
        "tests/docs",
        "tests/rules",
        "tests/test_hygiene.py",
        "tests/test_layout.py",
        "tests/test_package.py",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *some]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=900)
    assert ran.returncode == 0 and re.search(r"\b\d{3,} passed", ran.stdout), ran.stdout[-3000:]
    # all tests are there, also those that take longer
    told = subprocess.run(
        [*command[: -len(some)], "--collect-only", "-m", ""], cwd=folder, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout[-3000:]


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.e2e
def test_twine_finds_nothing(dist: Path) -> None:
    files = [str(path) for path in dist.iterdir()]
    command = [find_uv_bin(), "tool", "run", "twine==7.0.0", "check", "--strict", *files]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0 and ran.stdout.count("PASSED") == len(files) == 4, ran.stdout + ran.stderr


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.e2e
def test_rattler_build_renders_the_recipe(root: Path) -> None:
    """By its own library: channels aren't asked, so nothing is solved or built."""
    code = "import sys; from rattler_build import Stage0Recipe; print(*Stage0Recipe.from_file(sys.argv[1]).render())"
    command = [find_uv_bin(), "run", "--no-project", "--with", "py-rattler-build==0.73.0", "python", "-c", code]
    ran = subprocess.run(
        [*command, str(root / "tools" / "publish" / "recipe.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0 and f"package='envspec', version='{__version__}'" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.e2e
def test_the_image_of_envspec_itself(root: Path, tmp_path: Path) -> None:
    skip_without()
    with opened_builder(tmp_path, root, "tools/publish", "") as builder:
        builder.build("localhost/envspec")
        container = builder("from", "localhost/envspec").strip()
        for arguments in (
            ["--version"],
            ["gpus", "H100"],
            ["init", "demo", "--cuda", "cpu", "-o", "/project/demo.toml"],
        ):
            ran = builder.run(container, "envspec", *arguments)
            assert ran.returncode == 0, ran.stdout + ran.stderr
        told = builder(
            "inspect",
            "--type",
            "image",
            "--format",
            "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}",
            "localhost/envspec",
        )
        assert told.split() == ["1000:1000", "[envspec]"]
