"""The thirty-five changes of thirty_five/expected.toml: each one's first three lines have what matters, and the risk is
that of a careful reviewer."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli
from lab import CHANGES, SPEC, Lab, uv_lock, wheel
from msgspec.structs import replace
from review_heads import head, lacking
from support import in_process, packages
from support.index import Index

from envspec.lock.formats.foreign.read import sides
from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Artifact, Pin
from envspec.lock.store import LockFolder
from envspec.review.diff.judged import with_flaws, with_spec_changes
from envspec.review.diff.markdown import markdown
from envspec.review.diff.of_specs import of_specs
from envspec.review.diff.review import review
from envspec.review.diff.rows import Review
from envspec.spec.parse import parse_spec

pytestmark = pytest.mark.nightly

EXPECTED: Mapping[str, Mapping[str, Any]] = tomli.loads(
    (Path(__file__).parent / "thirty_five" / "expected.toml").read_text(encoding="utf-8")
)


def compared(old: Lab, new: Lab) -> Review:
    """The review as `envspec diff SPEC` makes it."""
    before, after = parse_spec(old.text, SPEC), parse_spec(new.text, SPEC)
    after_side = Side("new", new.lock())
    found = with_flaws(review(Side("old", old.lock()), after_side), after_side, after)
    return with_spec_changes(found, of_specs(before, after))


def assert_told(name: str, risk: str, top: str) -> None:
    expected = EXPECTED[name]
    missing = lacking(expected["top"], top)
    assert (risk, missing) == (expected["risk"], []), top


@pytest.mark.parametrize("name", CHANGES)
def test_a_pair_of_revisions(name: str) -> None:
    found = compared(*CHANGES[name]())
    assert_told(name, found.risk, head(markdown(found)))


class Repository:
    """A repository with the lab's spec and lock, on which the command line runs."""

    def __init__(self, folder: Path, index: str | None = None) -> None:
        self.folder = folder
        (folder / "specs").mkdir(parents=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder.parent / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            **({"UV_DEFAULT_INDEX": index} if index else {}),
        }
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.folder, env=self.env, check=True, capture_output=True)

    def write(self, lab: Lab) -> None:
        (self.folder / SPEC).write_text(lab.text)
        LockFolder(self.folder / "locks", "lab").write(lab.lock())

    def commit(self, lab: Lab) -> None:
        self.write(lab)
        self.git("add", "-A")
        self.git("commit", "-qm", "change")

    def envspec(self, *arguments: str) -> in_process.Ended:
        return in_process.run(arguments, cwd=self.folder, env=self.env)

    def assert_told(self, name: str, *arguments: str) -> None:
        ran = self.envspec("diff", SPEC, "--format", "markdown", *arguments)
        risk = ran.out.partition(" risk")[0].rpartition(" ")[2]
        assert_told(name, risk, head(ran.out) + ran.err)


TQDM = packages.wheel("tqdm", "4.67.1")
OLDER = packages.wheel("requests", "2.32.1", "certifi>=2017.4.17", "idna<4,>=2.5", "urllib3<3,>=1.21.1")
REASON = "Yanked due to conflicts with CVE-2024-35195 mitigation"


def served(dist: packages.Dist, *requires: str) -> Pin:
    pin = wheel(dist.name, dist.version, *requires)
    return replace(pin, artifact=Artifact(dist.file, dist.sha256, len(dist.content)))


def test_a_yanked_release(tmp_path: Path) -> None:
    with Index() as index:
        index.add(OLDER, yanked=REASON)
        repository = Repository(tmp_path / "lab", index.url)
        repository.commit(Lab())
        back = served(OLDER, "certifi>=2017.4.17", "idna<4,>=2.5", "urllib3<3,>=1.21.1")
        older = wheel("datasets", "4.1.1", "requests>=2.30", "numpy>=1.17", "pyarrow>=21.0.0", "fsspec")
        repository.commit(Lab().bump(older))
        repository.write(Lab().bump(older, back).ask("requests==2.32.1"))
        repository.assert_told("11", "--verify")


def test_a_forged_hash(tmp_path: Path) -> None:
    with Index() as index:
        index.add(TQDM)
        repository = Repository(tmp_path / "lab", index.url)
        repository.commit(Lab().bump(served(TQDM)))
        forged = replace(served(TQDM), artifact=Artifact(TQDM.file, "0" * 64, len(TQDM.content)))
        repository.write(Lab().bump(forged))
        repository.assert_told("13", "--verify")


def test_a_rendered_file_edited_by_hand(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "lab")
    repository.commit(Lab())
    file = repository.folder / "locks" / "lab" / "cpu" / "requirements.txt"
    file.write_text(file.read_text().replace("requests==2.32.4", "requests==2.31.0"))
    ran = repository.envspec("check")
    assert ran.status == 1
    assert_told("18", "fails", "\n".join((ran.out + ran.err).splitlines()[:3]))


def test_a_spec_that_its_lock_does_not_answer(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "lab")
    repository.commit(Lab().ask("numpy<2.3"))
    (repository.folder / SPEC).write_text(Lab().ask("numpy<2.2").text)
    ran = repository.envspec("check")
    assert ran.status == 1
    assert_told("25", "fails", "\n".join((ran.out + ran.err).splitlines()[:4]))


def test_a_merge_of_two_branches(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "lab")
    repository.commit(Lab())
    repository.git("branch", "base")
    repository.git("switch", "-qc", "topic")
    repository.commit(Lab().bump(wheel("tqdm", "4.67.2")))
    repository.git("switch", "-q", "main")
    repository.commit(Lab().bump(wheel("numpy", "2.2.7")))
    repository.git("merge", "-q", "--no-edit", "topic")
    assert repository.envspec("check").status == 0
    repository.assert_told("19", "--from", "base")


@pytest.mark.parametrize(
    ("name", "old", "new", "platforms"),
    [
        ("26-up", "2.8.0+cu126", "2.8.0+cu128", ("linux-64", "win-64")),
        ("26-cpu", "2.8.0+cu128", "2.8.0+cpu", ("linux-64", "win-64")),
        ("26-pypi", "2.8.0+cu128", "2.8.0", ("linux-64", "linux-aarch64", "win-64")),
    ],
)
def test_a_uv_lock(name: str, old: str, new: str, platforms: tuple[str, ...], tmp_path: Path) -> None:
    files = []
    for side, version in (("old", old), ("new", new)):
        files.append(tmp_path / side / "uv.lock")
        files[-1].parent.mkdir()
        files[-1].write_text(uv_lock(version, platforms))
    found = review(*sides(files[0], files[1]))
    assert_told(name, found.risk, head(markdown(found)))
