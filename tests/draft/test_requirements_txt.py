"""requirements.txt and .in as the beginning of a spec."""

from pathlib import Path

import pytest
from support.drafts import draft as begin, settled

from envspec.draft.model import Draft
from envspec.draft.repository import read_draft

SHA = "0" * 64


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def draft(text: str, **others: str) -> Draft:
    """The draft of a requirements.txt beside these other files."""
    for name, other in {"requirements": text, **others}.items():
        Path(f"{name}.txt").write_text(other, encoding="utf-8")
    return read_draft(Path("requirements.txt"))


def notes(found: Draft) -> str:
    return "\n".join(map(str, found.notes))


def test_requirements_are_carried_over_as_they_are() -> None:
    found = draft("\ufeffeinops\nnumpy >= 1.26 , < 3  # both\nacme[fast]==1.*; python_version < '3.13'\n")
    assert found.pip == ("einops", "numpy>=1.26,<3", "acme[fast]==1.*; python_version < '3.13'")
    assert found.notes == ()


def test_other_files_are_read_once_each_and_constraints_ask_for_nothing() -> None:
    found = draft(
        "-r base.txt\n--constraint=bounds.txt\ntorch\n", base="numpy>1\n-r requirements.txt\n", bounds="scipy<2\n"
    )
    assert (found.pip, found.constraints) == (("numpy>1", "torch"), ("scipy<2",))


def test_two_lines_of_one_package_are_joined() -> None:
    found = draft("numpy<3\nnumpy[x]>1\nacme @ https://example.org/acme-1.zip\nacme\n")
    assert found.pip == ("numpy[x]<3,>1", "acme @ https://example.org/acme-1.zip")


def test_hashes_are_left_out_in_one_line() -> None:
    found = draft(f"a==1 \\\n  --hash=sha256:{SHA} \\\n  --hash=sha256:{SHA}\nb==1 --hash=sha256:{SHA}\n")
    assert found.pip == ("a==1", "b==1")
    assert notes(found) == "the hashes of 2 requirements are left out: the lock has its own"


@pytest.mark.parametrize(
    ("line", "cuda"),
    [
        ("--extra-index-url https://download.example.org/whl/cu126", ("12.6",)),
        ("-i https://download.example.org/whl/cpu/", ("cpu",)),
        ("torch==2.8.0+cu128", ("12.8",)),
        ("torch-scatter==2.1.2+pt28cu128", ("12.8",)),
        ("-f https://data.example.org/whl/torch-2.8.0+cu126.html", ("12.6",)),
        ("https://download.example.org/whl/cu118/torch-2.1.0%2Bcu118-cp311-cp311-linux_x86_64.whl", ("11.8",)),
    ],
)
def test_what_names_a_build_of_pytorch_says_the_cuda(line: str, cuda: tuple[str, ...]) -> None:
    found = draft(f"{line}\ntorch\n")
    assert settled(found).cuda == cuda
    assert all(not one.startswith("torch=") or "+" not in one for one in found.pip)


def test_indexes_get_names_and_lose_their_credentials() -> None:
    found = draft(
        "--extra-index-url https://me:hunter22@pkgs.example.org/simple\nacme --extra-index-url https://b.example.org\n"
    )
    assert dict(found.indexes) == {
        "pkgs.example.org": "https://pkgs.example.org/simple",
        "b.example.org": "https://b.example.org",
    }
    assert "hunter22" not in notes(found) and "credentials are left out" in notes(found)
    assert 'sources = { PKG = "b.example.org" }' in notes(found)


def test_what_has_no_name_gets_one_and_is_told() -> None:
    found = draft(
        "git+https://example.org/acme/thing.git@v1#subdirectory=py\n"
        "-e git+https://example.org/acme/other#egg=other\n"
        "https://example.org/acme/third/archive/main.zip\n"
    )
    assert found.pip == (
        "thing @ git+https://example.org/acme/thing.git@v1#subdirectory=py",
        "other @ git+https://example.org/acme/other#egg=other",
        "third @ https://example.org/acme/third/archive/main.zip",
    )
    assert "requirements.txt:1: " in notes(found) and "thing is a guess by its URL" in notes(found)


@pytest.mark.parametrize(
    "line",
    [
        "--pre", "--no-binary acme", "--only-binary=:all:", "--trusted-host example.org", "--no-index", "--what-else 1",
        "./folder", "local.whl", "a file.whl", "-e ../elsewhere", "acme @ file:///tmp/acme.whl", "acme==", "acme = 1",
        "-r https://example.org/more.txt", "-r ../../outside.txt", "-f ./wheels", "-c https://example.org/c.txt",
        "acme --global-option=x", "--index-url https://download.example.org/whl/rocm6.3",
    ],
)  # fmt: skip
def test_nothing_is_left_out_in_silence(line: str) -> None:
    found = draft(f"einops\n{line}\n")
    assert "einops" in found.pip
    assert "requirements.txt:2: " in notes(found)


def test_a_local_project_is_the_specs(here: Path) -> None:
    text = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["acme"]\n'
    (here / "pyproject.toml").write_text(text + '[project.optional-dependencies]\nx = ["fast"]\n')
    found = draft("-e .[x]\n")
    assert found.project == (".", ("x",)) and set(found.own) == {"acme", "fast"}


@pytest.mark.parametrize(
    "url",
    [
        "https://gitlab.example.org/api/v4/projects/1/packages/pypi/simple",
        "https://pkgs.example.org/acme/_packaging/feed/pypi/simple/",
        "https://acme-1.artifact.example.org/pypi/internal/simple/",
        "https://acme.example.org/artifactory/api/pypi/internal/simple",
        "https://pypi.acme.example.org/simple",
    ],
)
def test_a_private_index_is_never_taken_for_pypi(url: str) -> None:
    """Registries of one's own have "pypi" in their paths too: a package of theirs must not come from PyPI."""
    found = draft(f"--extra-index-url {url}\nacme\n")
    assert list(found.indexes.values()) == [url]
    assert "requirements.txt:1: " in notes(found)


@pytest.mark.parametrize("url", ["https://pypi.acme.example.org/simple", "https://mirror.example.org/pypi/simple"])
def test_a_mirror_of_pypi_is_told(url: str) -> None:
    found = draft(f"-i {url}\nacme\n")
    assert not found.indexes and f"requirements.txt:1: {url} is taken for a mirror of PyPI" in notes(found)


def test_pypi_itself_needs_no_word() -> None:
    assert draft("-i https://pypi.example/simple\n--extra-index-url https://pypi.example/simple/\nacme\n").notes == ()


def test_the_extras_of_an_egg_stay() -> None:
    url = "git+https://example.org/acme/thing.git@v1#egg=thing[fast]"
    assert draft(f"{url}\n").pip == (f"thing[fast] @ {url}",)
    assert "guess" not in notes(draft(f"{url}\n"))
    assert draft(f"-e {url}\n").pip == (f"thing[fast] @ {url}",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("./wheels/acme-1-py3-none-any.whl", "it's a file of one machine"),
        ("./none", "no such folder"),
        ("./old", "no pyproject.toml is there"),
    ],
)
def test_why_a_path_is_left_out(here: Path, line: str, why: str) -> None:
    (here / "old").mkdir()
    assert why in notes(draft(f"einops\n{line}\n"))


@pytest.mark.parametrize(
    ("page", "package"),
    [
        ("https://data.pyg.org/whl/torch-2.1.0+cu118.html", "torch-scatter"),
        ("https://download.openmmlab.com/mmcv/dist/cu118/torch2.1/index.html", "mmcv"),
        ("https://data.dgl.ai/wheels/torch-2.1/cu118/repo.html", "dgl"),
    ],
)
def test_a_known_page_is_the_source_of_its_packages(page: str, package: str) -> None:
    """What these pages have, PyPI has as source alone."""
    found = draft(f"einops\n{package}\n--find-links {page}\n")
    ((name, url),) = found.find_links.items()
    assert (url, found.sources) == (page, {package: name})


LAST = "six\n# why \\\nidna \\"
"""A file whose last line ends in a backslash, and a comment, which continues nothing."""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.in", LAST),
        ("other.txt", "-r list.txt\n"),
        ("other.txt", "-c list.txt\nsix\nidna"),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=open('requirements/list.txt').read())\n"),
        ("pyproject.toml", "[project]\nname = 'a'\ndynamic = ['dependencies']\n"
         "[tool.setuptools.dynamic]\ndependencies = { file = ['list.txt'] }\n"),
        ("cog.yaml", "build: { python_requirements: list.txt }\n"),
        ("environment.yml", "dependencies: [{ pip: ['-r list.txt'] }]\n"),
        ("environment.yml", "dependencies: [{ pip: ['six', 'idna \\'] }]\n"),
        ("Dockerfile", "FROM x\nRUN pip install -r list.txt\n"),
        ("Dockerfile", "FROM x\nRUN pip install six \\\n\n  # why \\\n idna \\"),
        ("Dockerfile", "FROM x\nRUN <<EOF\npip install six \\\n  idna\nEOF\n"),
        ("README.md", "```\npip install six \\\n  idna\n```\n"),
    ],
)  # fmt: skip
def test_the_last_line_ends_in_a_backslash(name: str, text: str, here: Path) -> None:
    """In every reader of such files, and where lines are continued otherwise."""
    (here / "requirements").mkdir()
    for path in ("list.txt", "requirements/list.txt"):
        (here / path).write_text(LAST, encoding="utf-8")
    found = begin(name, text)
    asked = found.pip if "-c" not in text else (*found.pip, *found.constraints)
    assert {one.partition("=")[0] for one in asked} == {"six", "idna"}, notes(found)
