"""What clusters' own programs say of exported manifests and submit descriptions: Kubernetes' schemas, which
kubernetes-validate carries, and HTCondor's own reading of a submit description, with its matchmaking against GPUs.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from uv import find_uv_bin

sys.path.append(str(Path(__file__).parents[1] / "export"))
from recipe_plans import shipped, shipped_spec, text_in, with_values
from test_clusters import plan

from envspec.export import htcondor, kubernetes

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.e2e]

OLDEST, NEWEST = "1.25.0", "1.37.0"
SHIPPED = ("cpu-py311", "deit-v2.6", "hpc-v2.7", "llm-v2.9", "mm-v2.1", "mm-v2.9", "team-v2.9")


def told(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_uv_bin(), *command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_takes_every_manifest(tmp_path: Path, version: str) -> None:
    """Indexed Job and headless Service, claim, Secret, RDMA, Deployment; and the shipped specs'."""
    plans = [*plan().targets, *(of for name in SHIPPED for of in shipped_spec(name).targets)]
    for number, of in enumerate(plans):
        for name, text in kubernetes.render(of).items():
            (tmp_path / f"{number}-{name.replace('/', '-')}").write_text(text)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text_in(kubernetes.render(plans[-1]), kubernetes.FILE).replace("backoffLimit", "backofLimit"))
    tool = ("tool", "run", "kubernetes-validate==1.37.0", "--strict", "--no-warn", "-k", version)
    ran = told(*tool, *map(str, sorted(tmp_path.glob("[0-9]*.yaml"))))
    assert ran.returncode == 0 and ran.stdout.count(" passed for resource ") >= len(plans), ran.stdout + ran.stderr
    assert told(*tool, str(wrong)).returncode == 1


MATCH = """
import json, sys, warnings
warnings.simplefilter("ignore")
import classad, htcondor
text, given, gpus = json.load(sys.stdin)
submit = htcondor.Submit(text)
for name, value in given.items():
    submit[name] = value
job = next(iter(submit.jobs(1)))
fits = []
for gpu in gpus:
    both = classad.ClassAd(str(job))
    both.update(gpu)  # RequireGPUs is a question about one GPU, with the job's own values beside
    fits.append(both.eval("RequireGPUs"))
kept = ("Environment", "ContainerImage", "Arguments", "Cmd", "RequestGPUs", "RequestCpus", "RequestMemory")
print(json.dumps([{name: job.eval(name) for name in kept}, str(job.lookup("Requirements")), fits]))
"""


def matched(text: str, given: dict[str, str], gpus: list[dict[str, object]]) -> tuple[dict[str, object], list[bool]]:
    ran = subprocess.run(
        [
            find_uv_bin(),
            "run",
            "--no-project",
            "--python",
            "3.11",
            "--with",
            "htcondor==24.12.24",
            "python",
            "-c",
            MATCH,
        ],
        input=json.dumps([text, given, gpus]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    job, requirements, fits = json.loads(ran.stdout)
    assert "countMatches(MY.RequireGPUs,TARGET.AvailableGPUs) >= RequestGPUs" in requirements
    assert '(TARGET.Arch == "X86_64")' in requirements
    return job, fits


H100, A100, L40S, B200 = 9.0, 8.0, 8.9, 10.0


@pytest.mark.parametrize(
    ("target", "capability", "runtime", "fits"),
    [
        ("cu128-hopper", H100, 12080, True),
        ("cu128-hopper", H100, 12000, True),
        ("cu128-hopper", H100, 11080, False),  # the driver is older than the lock's floor
        ("cu128-hopper", A100, 12080, False),
        ("cu128-hopper", B200, 12080, False),
        ("cu128-ampere", A100, 12080, True),
        ("cu128-ampere", L40S, 12080, True),
    ],
)
def test_htcondor_matches_the_gpus_of_the_lock(target: str, capability: float, runtime: int, fits: bool) -> None:
    text = text_in(htcondor.render(shipped("mm-v2.9", target)), htcondor.FILE)
    gpu: dict[str, object] = {"Capability": capability, "MaxSupportedVersion": runtime, "GlobalMemoryMB": 80_000}
    job, found = matched(text, {}, [gpu])
    assert found == [fits], job
    assert job["ContainerImage"] == f"mm-v2.9-{target}.sif" and job["RequestGPUs"] == 1


def test_htcondor_leaves_out_gpus_between_two_generations() -> None:
    of = with_values(shipped("mm-v2.9", "cu128-hopper"), architectures=("sm_70", "sm_90"))
    gpus: list[dict[str, object]] = [
        {"Capability": capability, "MaxSupportedVersion": 12080} for capability in (7.0, 7.5, 8.0, 8.9, 9.0, 10.0)
    ]
    _, found = matched(text_in(htcondor.render(of), htcondor.FILE), {}, gpus)
    assert found == [True, True, False, False, True, False]


def test_htcondor_takes_what_the_command_line_gives() -> None:
    text = text_in(htcondor.render(replace(shipped("mm-v2.9", "cu128-hopper"), place="recipes/mm-v2.9")), htcondor.FILE)
    assert matched(text, {}, [])[0]["Environment"] == "ENVSPEC_LOCK="
    given = {
        "image": "docker://r.example/mm:1",
        "command": "torchrun train.py",
        "gpus": "8",
        "cpus": "64",
        "memory": "1GB",
    }
    job, _ = matched(text, {**given, "lock": "cu128-hopper=sha256:1"}, [])
    assert job == {
        "Environment": "ENVSPEC_LOCK=cu128-hopper=sha256:1",
        "ContainerImage": "docker://r.example/mm:1", "Cmd": "/bin/sh", "RequestGPUs": 8, "RequestCpus": 64,
        "Arguments": "/opt/envspec/entrypoint.sh torchrun train.py", "RequestMemory": 1024,
    }  # fmt: skip
