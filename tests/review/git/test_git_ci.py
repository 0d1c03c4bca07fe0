"""What other repositories use: pre-commit hook, GitHub Action, GitLab template. Their scripts are run for real."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import tomli
import yaml
from git_ci import ACTION, GITLAB, STEPS, UPDATE
from git_project import ROOT, SPEC
from support import in_process

from envspec.cli.main import COMMANDS

pytestmark = pytest.mark.e2e

INSTALLING = ("Python", "Name what is locked", "Cache", "Install envspec")
RUN = {name: step for name, step in STEPS.items() if "run" in step}


def test_the_hook() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert set(hook) == {"id", "name", "description", "entry", "language", "files", "pass_filenames"}
    assert (hook["id"], hook["language"], hook["pass_filenames"]) == ("envspec-check", "python", False)
    program, command = hook["entry"].split()
    assert program == "envspec" and command in COMMANDS
    for path, touched in (
        (SPEC, True),
        ("locks/demo/cpu/requirements.txt", True),
        ("recipes/demo/Dockerfile", True),
        ("below/specs/demo.toml", True),
        ("src/myspecs/x.toml", False),
    ):
        assert bool(re.search(hook["files"], path)) is touched


def test_the_action_is_a_composite_one() -> None:
    assert set(ACTION) == {"name", "description", "author", "branding", "inputs", "outputs", "runs"}
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS.values():
        if "uses" in step:
            # a tag can be moved to another commit, whose code would run with the job's token
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), step["uses"]
    for step in RUN.values():
        assert step["shell"] == "bash"
        # a value that somebody chose (a branch's name!) must not become part of a script
        assert "${{" not in step["run"]
        assert set(re.findall(r"\$\{?([A-Z_]+)", step["run"])) <= {
            *step.get("env", {}),
            *("RUNNER_TEMP", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_ACTION_PATH", "GITHUB_STEP_SUMMARY"),
            *("GITHUB_REPOSITORY", "GITHUB_REF", "GITHUB_SHA", "RUNNER_OS", "RUNNER_ARCH"),
        }
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    identifiers = {step.get("id") for step in STEPS.values()}
    assert set(re.findall(r"steps\.(\w+)\.", json.dumps(ACTION))) <= identifiers
    for step in RUN.values():
        for command in re.findall(r"^ *envspec (\w+) ", step["run"], re.MULTILINE):
            assert command in COMMANDS


def test_what_the_review_installs_is_what_envspec_needs() -> None:
    folder = ROOT / "docs" / "ci"
    project = tomli.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    spec = tomli.loads((folder / "specs" / "review.toml").read_text(encoding="utf-8"))
    wanted = (
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["conda"],
        *project["build-system"]["requires"],
    )
    assert sorted(spec["pip"]["dependencies"]) == sorted(wanted)
    targets = set(re.findall(r"target=([\w-]+) ;;", STEPS["Name what is locked"]["run"]))
    assert (
        targets == set(spec["targets"]) == {path.parent.name for path in folder.glob("locks/review/*/requirements.txt")}
    )


def test_what_the_review_installs_is_locked(tmp_path: Path) -> None:
    ran = in_process.run(("check", "docs/ci/specs/review.toml"), cwd=ROOT, env={"HOME": str(tmp_path)}, seconds=60)
    assert ran[0] == 0, ran


def test_the_gitlab_job() -> None:
    job, update = GITLAB.values()
    assert update["extends"] == "envspec-review" and set(update) == {"extends", "rules", "script", "artifacts"}
    assert update["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "schedule" && $ENVSPEC_UPDATE == "true"'}]
    assert set(job) == {"stage", "image", "rules", "variables", "cache", "before_script", "script", "artifacts"}
    assert all(isinstance(line, str) for line in (*job["before_script"], *job["script"]))
    assert job["rules"][0]["if"] == '$CI_PIPELINE_SOURCE == "merge_request_event"'
    # a variable that the job sets can't be set by whoever includes it
    assert not [name for name in job["variables"] if name.startswith("ENVSPEC_")]


def test_the_update_workflow() -> None:
    # YAML 1.1 reads the key `on` as true
    assert set(UPDATE) == {"name", True, "permissions", "concurrency", "jobs"}
    assert UPDATE["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert set(UPDATE[True]) == {"schedule", "workflow_dispatch"}, "nothing that a stranger can start"
    (job,) = UPDATE["jobs"].values()
    assert [step["uses"] for step in job["steps"] if "uses" in step][1] == "OWNER/envspec@COMMIT"
    assert re.fullmatch(r"actions/checkout@[0-9a-f]{40}", job["steps"][0]["uses"])
    assert job["steps"][1]["with"] == {"review": "false"}
    assert "${{" not in "".join(step.get("run", "") for step in job["steps"])


def test_without_a_review_the_action_only_installs() -> None:
    later = [step for step in ACTION["runs"]["steps"] if step["name"] not in INSTALLING]
    assert len(later) == len(ACTION["runs"]["steps"]) - len(INSTALLING)
    assert all(step["if"].startswith("inputs.review == 'true'") for step in later)


def test_renovate_finds_exact_requirements() -> None:
    recipe = json.loads((ROOT / "docs" / "ci" / "renovate.json").read_text(encoding="utf-8"))
    (manager,), (rule, rendered) = recipe["customManagers"], recipe["packageRules"]
    # Renovate's own managers find requirements.txt and Dockerfiles there
    assert rendered["enabled"] is False
    assert rendered["matchFileNames"] == rule["postUpgradeTasks"]["fileFilters"]
    # RE2, as Renovate has it, writes a group's name without P
    (pattern,) = (re.compile(one.replace("(?<", "(?P<")) for one in manager["matchStrings"])
    text = '["torch==2.9.1", \'transformers[sentencepiece] == 4.57.0 ; python_version > "3.9"\', "numpy>=2", "a==1.*"]'
    found = [(one["depName"], one["currentValue"]) for one in pattern.finditer(text)]
    assert found == [("torch", "==2.9.1"), ("transformers", "== 4.57.0")]
    (file,) = (re.compile(one.strip("/").replace("\\/", "/")) for one in manager["managerFilePatterns"])
    assert file.search("specs/a.toml") and file.search("models/specs/a.toml") and not file.search("specs/a.lock")


def gitlab_setup(**env: str) -> subprocess.CompletedProcess[str]:
    """Run what the job does before its script, but for what it would download: that is only said."""
    said = 'python() { echo python "$@"; }; git() { echo git "$@"; }'
    script = "\n".join((said, "set -e", *GITLAB["envspec-review"]["before_script"]))
    env = {"PATH": os.environ["PATH"], **env}
    return subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=False, timeout=30)


def test_the_gitlab_job_installs_nothing_that_isnt_named() -> None:
    ran = gitlab_setup()
    assert ran.returncode != 0 and "ENVSPEC_REPOSITORY: names the repository" in ran.stderr
    ran = gitlab_setup(ENVSPEC_REPOSITORY="https://example.org/envspec.git", ENVSPEC_COMMIT="main")
    assert ran.returncode != 0 and "must be a commit" in ran.stdout
    assert gitlab_setup(ENVSPEC_INSTALL="envspec==0.1.0").stdout == "python -I -m pip install --quiet envspec==0.1.0\n"


def test_the_gitlab_job_installs_with_hashes() -> None:
    ran = gitlab_setup(ENVSPEC_REPOSITORY="https://example.org/envspec.git", ENVSPEC_COMMIT="01" * 20)
    assert ran.returncode == 0
    first, second = [line for line in ran.stdout.splitlines() if line.startswith("python")]
    assert "--require-hashes" in first and "/docs/ci/locks/review/linux-" in first
    assert "--no-deps --no-build-isolation" in second
    assert f"fetch --quiet --depth=1 -- https://example.org/envspec.git {'01' * 20}" in ran.stdout
