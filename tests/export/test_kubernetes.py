"""The Kubernetes Job."""

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st
from msgspec.structs import replace
from recipe_plans import of_target, shipped, text_in

from envspec.export import dockerfile, slurm
from envspec.export.carried import carried_files
from envspec.export.kubernetes import FILE, job_name, render
from envspec.export.plan import CARRIED, Plan
from envspec.spec.cluster import KubernetesTable

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")


def job(plan: Plan) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(text_in(render(plan), FILE))
    return loaded


def test_it_runs_without_privileges_on_a_read_only_root() -> None:
    pod = job(shipped("mm-v2.9", "cpu"))["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] == 1000
    container = pod["containers"][0]["securityContext"]
    assert container["readOnlyRootFilesystem"] is True and container["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("title", ["mm-v2.9-cu128", "A", "a..b__c", "x" * 300, "-", "9"])
def test_names_that_kubernetes_takes(title: str) -> None:
    assert LABEL.fullmatch(job_name(title.lower())) and len(job_name(title)) <= 52


@given(
    st.from_regex(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*", fullmatch=True),
    st.from_regex("[a-z0-9][a-z0-9_-]*", fullmatch=True),
)
def test_images_have_names_that_engines_take(spec: str, target: str) -> None:
    assert REPOSITORY.fullmatch(replace(shipped("cpu-py311", "cpu"), spec=spec, target=target).image_name)


def test_the_image_is_the_one_that_the_dockerfile_names() -> None:
    plan = shipped("mm-v2.9", "cu128-hopper")
    (container,) = job(plan)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "mm-v2.9-cu128-hopper"
    assert f" -t {container['image']} ." in text_in(dockerfile.render(plan), dockerfile.FILE)
    assert f"dockerd://{container['image']}\n" in slurm.render(of_target("mm-v2.9", "cu128-hopper"))[slurm.PYXIS_JOB]


# has a rank, unlike its parent; ends by SIGTERM itself, as torchrun does
_TORCHRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
LOCAL_RANK=0 setsid bash "$@" &
wait $!
"""
_ENDS = {
    "polls": """
echo $$ >ready
until [[ -e $ENVSPEC_CHECKPOINT || -e enough ]]; do sleep 0.1; done
[[ -e enough ]] || echo 7 >"$ENVSPEC_CHECKPOINT"
[[ ! -e late ]] || sleep 60
""",
    "handles": """
trap 'echo 7 >"$ENVSPEC_CHECKPOINT"; [[ -e late ]] || exit 0' TERM
echo $$ >ready
until [[ -e enough ]]; do sleep 0.1; done
""",
    "neither": "echo $$ >ready\nuntil [[ -e enough ]]; do sleep 0.1; done\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", _ENDS)
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_pods_command_as_processes_without_a_cluster_under_sigterm_and_a_grace_period(
    tmp_path: Path, kind: str, when: str
) -> None:
    """What kubelet does: SIGTERM to the first process alone, and SIGKILL to all of them after the grace period."""
    asked = KubernetesTable(program=("train.sh",))
    (container,) = job(replace(shipped("cpu-py311", "cpu"), kubernetes=asked))["spec"]["template"]["spec"]["containers"]
    (tmp_path / "torchrun").write_text(_TORCHRUN)
    (tmp_path / "torchrun").chmod(0o755)
    (tmp_path / "warned.sh").write_text(carried_files()["warned.sh"])
    (tmp_path / "train.sh").write_text(_ENDS[kind])
    if when == "after":
        (tmp_path / "late").touch()
    command = [word.replace(CARRIED, str(tmp_path)) for word in container["args"]]
    pod = subprocess.Popen(command, cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, start_new_session=True)
    ended = None
    try:
        for _ in range(200):
            if (tmp_path / "ready").exists():
                break
            time.sleep(0.05)
        if when == "before":
            (tmp_path / "enough").touch()
        else:
            pod.send_signal(signal.SIGTERM)
            if kind == "neither" and when == "during":
                time.sleep(2)
                (tmp_path / "enough").touch()
        try:
            ended = pod.wait(4 if when == "after" else 30)
        except subprocess.TimeoutExpired:
            pod.kill()
            pod.wait()
    finally:
        # the program has a session of its own
        ready = tmp_path / "ready"
        for number in ready.read_text().split() if ready.exists() else ():
            with suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGKILL)
    saved = when == "during" and kind != "neither"
    assert ended == (None if when == "after" else 75 if saved else 0)


def test_a_taint_is_written_as_kubernetes_has_it() -> None:
    taints = ("dedicated=a-100:NoSchedule", "example.com/gpu:NoExecute", "spot", "empty=")
    asked = KubernetesTable(tolerations=taints)
    pod = job(replace(shipped("cpu-py311", "cpu"), kubernetes=asked))["spec"]["template"]["spec"]
    assert pod["tolerations"] == [
        {"key": "dedicated", "operator": "Equal", "value": "a-100", "effect": "NoSchedule"},
        {"key": "example.com/gpu", "operator": "Exists", "effect": "NoExecute"},
        {"key": "spot", "operator": "Exists"},
        {"key": "empty", "operator": "Equal", "value": ""},
    ]
