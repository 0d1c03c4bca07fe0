"""Reviews that are larger than a comment: 300 packages in 6 targets, by the Action's and GitLab's own scripts."""

import shutil
from pathlib import Path

import pytest
from git_ci import GITLAB, Runner
from git_project import Repository, pin
from support.sound import sound_target

from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Lock
from envspec.lock.store import LockFolder
from envspec.spec.parse import parse_spec

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("jq"), reason="jq isn't installed"),
]

SPECS = ("a", "b", "c")
TARGETS = tuple(f"target-{letter}" for letter in "uvwxyz")


def write(folder: Path, name: str, *, new: bool) -> None:
    """A spec and its lock: every target has 300 packages of versions of its own. With `new` each has moved but for
    one, whose file was replaced."""
    text = f'[env]\nname = "{name}"\npython = "3.12"\n[pip]\ndependencies = ["package0"]\n'
    text += "".join(f'[targets.{target}]\nplatform = "linux-64"\n' for target in TARGETS)
    spec = parse_spec(text, f"specs/{name}.toml")
    (folder / "specs").mkdir(exist_ok=True)
    (folder / "specs" / f"{name}.toml").write_text(text)
    requires = tuple(f"package{number}" for number in range(1, 300))
    targets = []
    replaced = pin(requires[-1], "1.0", content="evil" if new else "")
    for place, target in enumerate(spec.targets):
        version = f"{2 if new else 1}.{place % 3}"
        pins = [pin("package0", version, *requires), *(pin(one, version) for one in requires[:-1]), replaced]
        targets.append(sound_target(target.name, target_inputs(spec, target), pins))
    lock = Lock(name, spec_inputs(spec), tuple(sorted(targets, key=lambda one: one.name)))
    LockFolder(folder / "locks", name).write(lock)


def large(tmp_path: Path) -> Runner:
    repository = Repository(tmp_path / "origin")
    for new in (False, True):
        for name in SPECS:
            write(repository.folder, name, new=new)
        repository.commit(message="new" if new else "old")
        if not new:
            repository.git("switch", "-q", "-c", "topic")
    return Runner(repository, tmp_path)


def heads(text: str, limit: int) -> None:
    """Every section's head is there: the risk, what to do, the gravest line."""
    assert len(text) <= limit
    for name in SPECS:
        section = text.partition(f"### {name}: ")[2].partition("\n### ")[0]
        assert section.startswith("high risk: "), name
        head = section.partition("<details")[0]
        assert "Understand each 🔴 line before you merge." in head, name
        assert "package299: SAME VERSION, DIFFERENT FILE" in head, name
    assert text.count("<details") == text.count("</details>")


def test_the_comment_has_the_head_of_every_section(tmp_path: Path) -> None:
    job = large(tmp_path)
    found = job.review(FAIL_ON="high")
    assert (found["risk"], found["gate"]) == ("high", "1")
    heads(job.posted, 65_000)
    assert "too long for this comment" not in job.posted and "cut here" in job.posted
    heads(job.summary, 400_000)
    assert len(job.summary) > 1.5 * len(job.posted), "the summary has more room"


def test_gitlabs_note_has_the_head_of_every_section(tmp_path: Path) -> None:
    job = large(tmp_path)
    script = "\n".join(GITLAB["envspec-review"]["script"]).replace("850000", "12000")
    env = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": job.base, "CI_JOB_NAME": "review/a", "ENVSPEC_VERIFY": "false"}
    ran = job.bash(script, **env)
    assert ran.returncode == 0, ran.stderr
    heads((job.clone / "envspec-review.md").read_text(), 13_000)
