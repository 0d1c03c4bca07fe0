"""A stranger's requirements.txt or environment.yml can't write the spec that it begins, nor have other files read."""

import os
from pathlib import Path

import pytest

from envspec.cli.main import run
from envspec.spec.parse import load_spec


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("hunter22-is-the-password\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


def begun(name: str, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """All that `init` writes: the spec and both streams."""
    Path(name).write_text(text, encoding="utf-8")
    status = run(["init", "demo", "--from", name])
    told = capsys.readouterr()
    assert status == 0, told.err
    return Path("specs/demo.toml").read_text(encoding="utf-8") + told.out + told.err


@pytest.mark.parametrize(
    "line", ["-r ../secret.txt", "-c ../secret.txt", "-r link.txt", "-r {outside}", "-r sub/../../secret.txt"]
)
def test_a_file_outside_the_folder(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("link.txt").symlink_to("../secret.txt")
    text = begun("requirements.txt", f"einops\n{line.format(outside=tmp_path / 'secret.txt')}\n", capsys)
    assert "hunter22" not in text and "isn't read" in text


def test_a_project_outside_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\ndescription = "hunter22"\ndependencies = ["b"]\n')
    text = begun("requirements.txt", "einops\n-e ..\n", capsys)
    assert "hunter22" not in text and "isn't read" in text and "project =" not in text


@pytest.mark.parametrize(
    "text",
    [
        'dependencies: [numpy]\nvariables: {A: "x\\n[targets.evil]\\nplatform = \\"win-64\\""}\n',
        'dependencies: [numpy]\n"prefix\\n[targets.evil]\\nplatform = \\"win-64\\" #": x\n',
        'dependencies: [numpy, "a\\"]\\n[targets.evil]\\nplatform = \\"win-64\\" #"]\n',
        'dependencies: [numpy]\nchannels: ["x\\"]\\n[targets.evil]\\nplatform = \\"win-64\\" #"]\n',
        "dependencies: [numpy]\nvariables: {\"A\\n[targets.evil]\": 'x'}\n",
    ],
)
def test_values_that_end_their_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    begun("environment.yml", text, capsys)
    assert [target.name for target in load_spec("specs/demo.toml").targets] == ["cpu"]


def test_an_index_whose_password_is_in_its_url(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--extra-index-url https://me:hunter22-is-the-password@pkgs.example.org/simple"
    git = "git+https://hunter22-is-the-password@example.org/acme/thing.git"
    assert "hunter22" not in begun("requirements.txt", f"einops\n{line}\n{git}\nthing2 @ {git}\n", capsys)


def test_files_that_name_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.txt").write_text("-r requirements.txt\n-r b.txt\nnumpy\n", encoding="utf-8")
    assert '"numpy"' in begun("requirements.txt", "-r b.txt\n-r ./b.txt\neinops\n", capsys)


WITH_A_SECRET = {
    "requirements.txt": "hunter22\n",
    "requirements/base.txt": "hunter22\n",
    "environment.yml": "dependencies: [hunter22]\n",
    "pyproject.toml": '[project]\nname = "a"\nversion = "1"\ndependencies = ["hunter22"]\n',
    "setup.py": "from setuptools import setup\nsetup(install_requires=['hunter22'])\n",
    "setup.cfg": "[options]\ninstall_requires = hunter22\n",
    "Dockerfile": "FROM x\nRUN pip install hunter22\n",
    "cog.yaml": "build: {python_packages: [hunter22]}\n",
    "pixi.toml": "[pypi-dependencies]\nhunter22 = '*'\n",
    "mine.py": "import hunter22\n",
}


@pytest.mark.parametrize("name", WITH_A_SECRET)
def test_a_file_that_is_a_link_out_of_the_folder(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its name, and with a repository."""
    (tmp_path / "outside").write_text(WITH_A_SECRET[name])
    Path("requirements-gpu.txt").write_text("einops\n")
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).symlink_to(tmp_path / "outside")
    for source in (".", name):
        status = run(["init", "demo", "--from", source])
        told = capsys.readouterr()
        spec = Path("specs/demo.toml")
        written = spec.read_text() if spec.exists() else ""
        assert status == (0 if source == "." else 2) and "hunter22" not in written + told.out + told.err, told.err
        assert "a symbolic link leads from here out of" in told.err or name == "mine.py", told.err
        spec.unlink(missing_ok=True)


def test_names_without_end_and_pipes_in_a_repository(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(f"import {'a' * 300}.b\nimport b.{'c' * 300}\n")
    os.mkfifo("requirements-dev.txt")
    os.mkfifo("pipe.py")
    Path("requirements.txt").write_text("einops\n")
    assert run(["init", "demo", "--from", "."]) == 0, capsys.readouterr().err
