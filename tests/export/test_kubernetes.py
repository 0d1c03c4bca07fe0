"""The Kubernetes Job."""

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st
from recipe_plans import of_target, shipped, text_in

from envspec.export import dockerfile, slurm
from envspec.export.kubernetes import FILE, job_name, render
from envspec.export.plan import Plan

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
    assert REPOSITORY.fullmatch(replace(shipped("cpu-py311", "cpu"), spec=spec, target=target).image)


def test_the_image_is_the_one_that_the_dockerfile_names() -> None:
    plan = shipped("mm-v2.9", "cu128-hopper")
    (container,) = job(plan)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "mm-v2.9-cu128-hopper"
    assert f" -t {container['image']} ." in text_in(dockerfile.render(plan), dockerfile.FILE)
    assert f"dockerd://{container['image']}\n" in slurm.render(of_target("mm-v2.9", "cu128-hopper"))[slurm.PYXIS_JOB]
