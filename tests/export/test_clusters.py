"""`[image] name`, `[slurm]` and `[kubernetes]`: from the spec's text to the recipes, so that nobody edits those."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli
import yaml
from recipe_plans import ROOT, parsed, text_in, with_values
from support.recipes import RENDERED, all_recipes

from envspec.export import apptainer, compose, devcontainer, dockerfile, edf, htcondor, kubernetes, slurm
from envspec.export.make import make_spec_plan
from envspec.export.plan import SpecPlan
from envspec.lock.model import SoundLock
from envspec.spec.parse import parse_spec

_TEXT = (ROOT / "tests" / "spec" / "valid" / "clusters.toml").read_text("utf-8")
IMAGE, _, TABLES = _TEXT.partition("[image]\n")[2].partition("\n\n")


@cache
def plan(name: str = "llm-v2.9", image: str = IMAGE, tables: str = TABLES, place: str = ".") -> SpecPlan:
    """The plan of a shipped spec that has this line in `[image]`, and these tables. `place`: where its recipes lie."""
    text = (ROOT / "specs" / f"{name}.toml").read_text("utf-8")
    table = text if "[image]\n" in text else f"{text}\n[image]\n"
    spec = parse_spec(table.replace("[image]\n", f"[image]\n{image}\n") + tables, f"{name}.toml")
    return make_spec_plan(spec, SoundLock.of(parsed(name)[1]), place)


def manifests(of: str) -> list[Any]:
    (target,) = (one for one in plan().targets if one.target == of)
    return list(yaml.safe_load_all(text_in(kubernetes.render(target), kubernetes.FILE)))


def test_sbatch_is_asked_for_what_the_spec_says() -> None:
    for text in slurm.render(plan()).values():
        options = [line.removeprefix("#SBATCH ") for line in text.split("\n") if line.startswith("#SBATCH")]
        assert options[3:] == [
            "--gpus-per-node=1", "--cpus-per-gpu=16", "--time=2-00:00:00", "--output=%x-%j.out",
            "--account=proj-vision", "--partition=a100,h100", "--constraint=(h100|h200)&ib", "--mem=500G",
            "--signal=B:USR1@300", "--requeue", "--open-mode=append", "--no-kill", "--qos=long", "--exclusive",
        ]  # fmt: skip


def test_torchrun_is_elastic_where_it_is_asked_to_be() -> None:
    for text in slurm.render(plan()).values():
        assert '--nnodes="2:$SLURM_JOB_NUM_NODES"' in text and "--max-restarts=0 --rdzv-backend=c10d" in text
        assert "--node-rank" not in text and "--kill-on-bad-exit=0" in text


def test_variables_of_the_spec_get_into_the_container() -> None:
    jobs = slurm.render(plan())
    assert re.search(r"\| HF_TOKEN \|[ \\\n]*WANDB_\*\)", jobs[slurm.APPTAINER_JOB])
    assert " HF_TOKEN 'WANDB_.*'\n" in jobs[slurm.PYXIS_JOB]


def test_the_jobs_are_good_shell() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is missing")
    for text in slurm.render(plan()).values():
        ran = subprocess.run(["shellcheck", "-"], input=text, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout


def test_the_image_has_one_name_everywhere() -> None:
    for target in plan().targets:
        name = f"registry.example:5000/vision/mm:{target.target}"
        assert f" -t {name} ." in text_in(dockerfile.render(target), dockerfile.FILE)
        job = text_in(kubernetes.render(target), kubernetes.FILE)
        assert f'image: "{name}"' in job and f"docker push {name}\n" in job
        assert f'image: "{name}"' in compose.render(plan())[compose.FILE]
        assert f"dockerd://{name}\n" in slurm.render(plan())[slurm.PYXIS_JOB]


def test_several_nodes_meet_by_a_headless_service() -> None:
    service, job = manifests("cu128-hopper")
    name = job["metadata"]["name"]
    assert service["metadata"]["name"] == job["spec"]["template"]["spec"]["subdomain"] == name
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert {key: job["spec"][key] for key in ("completions", "parallelism", "completionMode")} == {
        "completions": 4, "parallelism": 4, "completionMode": "Indexed",
    }  # fmt: skip
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        "sh", "/opt/envspec/warned.sh", "TERM",
        "torchrun", "--nnodes=4", "--nproc-per-node=8", "--node-rank=$(JOB_COMPLETION_INDEX)",
        f"--master-addr={name}-0.{name}", "--master-port=29500", "train.py", "--name", "a b",
    ]  # fmt: skip


def test_what_a_pod_asks_the_cluster_for() -> None:
    one = manifests("cu128-hopper")[1]
    assert one["metadata"]["namespace"] == "vision"
    pod = one["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "registry-login"}]
    assert pod["nodeSelector"] == {
        "kubernetes.io/arch": "amd64", "pool": "gpu", "node.kubernetes.io/instance-type": "p5.48xlarge",
    }  # fmt: skip
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["workspace"]["persistentVolumeClaim"] == {"claimName": "datasets"}
    (container,) = pod["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "tokens"}}]
    assert container["resources"] == {
        "requests": {"cpu": "16", "memory": "512Gi"},
        "limits": {"nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "1", "memory": "512Gi"},
    }
    assert container["imagePullPolicy"] == "IfNotPresent" and pod["terminationGracePeriodSeconds"] == 300
    assert [taint["key"] for taint in pod["tolerations"]] == ["nvidia.com/gpu", "dedicated", "example.com/gpu", "spot"]
    assert volumes["shm"]["emptyDir"]["sizeLimit"] == "32Gi"
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}


def test_a_job_has_a_deadline_and_counts_failures_of_its_own() -> None:
    _, job = manifests("cu128-hopper")
    assert job["spec"]["activeDeadlineSeconds"] == 86400
    # all pods fail with one
    assert job["spec"]["backoffLimit"] == 3 * 4
    rules = job["spec"]["podFailurePolicy"]["rules"]
    assert rules == [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]


def test_each_engine_gives_the_shared_memory_that_the_spec_asks_for() -> None:
    (of,) = (one for one in plan().targets if one.target == "cu128-hopper")
    assert "--shm-size 32g" in text_in(dockerfile.render(of), dockerfile.FILE)
    assert 'shm_size: "32gb"' in compose.render(plan())[compose.FILE]
    assert '"--shm-size=32g"' in "".join(devcontainer.render(of).values())


def test_ssh_has_the_port_that_the_spec_asks_for_and_the_host_another_where_its_own_sshd_is() -> None:
    (of,) = (one for one in plan().targets if one.target == "cu128-hopper")
    text = text_in(dockerfile.render(of), dockerfile.FILE)
    assert "-p 127.0.0.1:2222:22 " in text and "SSH_PORT=22" in text and "EXPOSE 8888 22 6006" in text
    assert '"127.0.0.1:2222:22"' in compose.render(plan())[compose.FILE]
    # Apptainer has the host's network
    text = text_in(apptainer.render(of), apptainer.FILE)
    assert "on port 2222" in text and "SSH_PORT" not in text


@pytest.mark.by_day(1)
@pytest.mark.parametrize("place", [".", "recipes/llm-v2.9"])
@RENDERED
def test_jobs_name_the_slices_that_they_are_for(place: str) -> None:
    """But for those in a repository's `recipes/`, which plain git merges."""
    spec, lock = parsed("llm-v2.9")
    made = make_spec_plan(spec, SoundLock.of(lock), place)
    named = [f"{of.target}={of.lock_digest}" for of in made.targets]
    assert all(re.fullmatch("[a-z0-9-]+=sha256:[0-9a-f]{64}", one) for one in named)
    for text in slurm.render(made).values():
        assert re.findall("^    (.*=sha256:.*)$", text, re.M) == ([] if made.shares else named)
    for of, own in zip(made.targets, named, strict=True):
        (container,) = yaml.safe_load(text_in(kubernetes.render(of), kubernetes.FILE))["spec"]["template"]["spec"][
            "containers"
        ]
        assert container.get("env", []) == ([] if made.shares else [{"name": "ENVSPEC_LOCK", "value": own}])
        submitted, engine = (text_in(kind.render(of), kind.FILE) for kind in (htcondor, edf))
        assert f'environment = "ENVSPEC_LOCK={"$(lock)" if made.shares else own}"\n' in submitted
        assert tomli.loads(engine)["env"].get("ENVSPEC_LOCK") == (None if made.shares else own)
        reads = re.search(r'^# condor_submit lock="\$\((.*?)\)" ', submitted, re.M)
        assert bool(reads) is made.shares
        if reads:
            ran = subprocess.run(["sh", "-c", reads[1]], cwd=all_recipes() / spec.name, capture_output=True, text=True)
            assert (ran.returncode, ran.stdout) == (0, f"{own}\n"), ran.stderr


@pytest.mark.slow
@RENDERED
def test_a_job_of_a_repository_reads_the_slices_beside_it(tmp_path: Path) -> None:
    folder = all_recipes() / "llm-v2.9"
    spec, lock = parsed("llm-v2.9")
    made = make_spec_plan(spec, SoundLock.of(lock), ".")
    named = [f"{of.target}={of.lock_digest}" for of in made.targets]
    for job in (slurm.APPTAINER_JOB, slurm.PYXIS_JOB):
        part = re.search(r"^\[\[ -v ENVSPEC_LOCK.*?^export ENVSPEC_LOCK", (folder / job).read_text(), re.M | re.S)
        assert part is not None
        script = f'set -euo pipefail\nhere=$1\n{part[0]}\nenv | sed -n "s/^ENVSPEC_LOCK=//p"'
        for place, env, told in ((folder, {}, named), (folder, {"ENVSPEC_LOCK": "x=y"}, ["x=y"]), (tmp_path, {}, [])):
            words = ["bash", "-c", script, "bash", str(place)]
            ran = subprocess.run(words, env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True)
            assert (ran.returncode, ran.stderr, ran.stdout.split()) == (0, "", told)


@pytest.mark.slow
@RENDERED
def test_a_manifest_of_a_repository_gets_its_slice_as_its_head_says(tmp_path: Path) -> None:
    """By the very words of the head, up to kubectl; all else in the manifest stays. kubectl reads the answer."""
    of = plan(place="recipes/llm-v2.9").targets[-1]
    text = text_in(kubernetes.render(of), kubernetes.FILE)
    shutil.copytree(all_recipes() / "_shared", tmp_path / "_shared")
    shutil.copytree(all_recipes() / of.spec, tmp_path / of.spec)
    (tmp_path / of.spec / of.target / kubernetes.FILE).write_text(text)
    line = next(line for line in text.split("\n") if " kubectl apply " in line).removeprefix("# ")
    first, applied = line.split(" | ")
    assert applied == "kubectl apply -f -"
    ran = subprocess.run(
        ["sh", "-c", first], cwd=tmp_path / of.spec, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    documents = list(yaml.safe_load_all(ran.stdout))
    (container,) = documents[-1]["spec"]["template"]["spec"]["containers"]
    assert container.pop("env") == [{"name": "ENVSPEC_LOCK", "value": f"{of.target}={of.lock_digest}"}]
    assert documents == list(yaml.safe_load_all(text)) and len(documents) == 2
    if shutil.which("kubectl"):
        words = ["kubectl", "label", "--local", "-f", "-", "-o", "name", "a=b"]
        read = subprocess.run(words, input=ran.stdout, capture_output=True, text=True)
        assert read.stdout.split()[0].startswith("service/"), read.stderr


def test_kubernetes_puts_no_value_into_a_word_of_the_spec() -> None:
    tables = '[kubernetes]\nprogram = ["a", "$(HOME) $$x"]\n'
    text = text_in(kubernetes.render(plan("cpu-py311", tables=tables).targets[0]), kubernetes.FILE)
    (container,) = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    assert container["args"][3:] == ["torchrun", "--standalone", "--nproc-per-node=1", "a", "$$(HOME) $$$$x"]


def nodes(architectures: tuple[str, ...], driver_floor: str | None) -> Callable[[dict[str, str]], bool]:
    """Whether a Job of a lock with these may run on a node with these labels."""
    (of,) = (one for one in plan().targets if one.target == "cu128-hopper")
    changed = with_values(of, architectures=architectures, driver_floor=driver_floor)
    pod = [*yaml.safe_load_all(text_in(kubernetes.render(changed), kubernetes.FILE))][1]["spec"]["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    def holds(term: Any, labels: dict[str, str]) -> bool:
        value = labels.get(term["key"].removeprefix("nvidia.com/"))
        of_value = {"In": lambda: value in term["values"], "Gt": lambda: int(str(value)) > int(term["values"][0])}
        return (
            value is None if term["operator"] == "DoesNotExist" else value is not None and of_value[term["operator"]]()
        )

    return lambda labels: any(all(holds(one, labels) for one in term["matchExpressions"]) for term in terms)


@pytest.mark.parametrize(
    ("major", "minor", "driver", "fits"),
    [
        ("9", "0", "525", True),
        ("9", "0", "524", False),
        ("9", "0", None, True),
        ("8", "9", "550", True),
        ("8", "6", "550", True),
        ("8", "0", "550", False),
        ("7", "5", None, False),
        ("10", "0", "580", False),
        (None, None, "470", True),
    ],
)
def test_the_nodes_that_a_lock_runs_on(major: str | None, minor: str | None, driver: str | None, fits: bool) -> None:
    """The labels are those of NVIDIA's GPU feature discovery. A node without them is taken."""
    said = {"gpu.compute.major": major, "gpu.compute.minor": minor, "cuda.driver-version.major": driver}
    labels = {name: value for name, value in said.items() if value is not None}
    assert nodes(("sm_86", "sm_90"), "525.60.13")(labels) is fits
