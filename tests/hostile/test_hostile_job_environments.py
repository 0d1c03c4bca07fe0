"""Jobs in an environment that somebody else made, as `sbatch --export` hands one on: no value of a variable runs."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from envspec.export.slurm import APPTAINER_JOB, PYXIS_JOB

ROOT = Path(__file__).resolve().parents[2]
JOBS = [
    *(ROOT / "recipes" / "mm-v2.9" / job for job in (APPTAINER_JOB, PYXIS_JOB)),
    *sorted((ROOT / "tests" / "prove" / "smoke" / "golden").glob("slurm-*.sh")),
]
SAYS = "#!/bin/sh\nfor word; do printf '<%s> ' \"$word\"; done\n"
KNOWS = "#!/bin/sh\ncase $* in *hostnames*) echo node-1 ;; *) echo 'NodeName=node-1 NodeAddr=10.0.0.7 x' ;; esac\n"
VALUES = (
    # in arithmetic bash evaluates the subscript of any variable that is set
    *(
        "HOME[$(touch TRACE)]",
        "SLURM_JOB_ID[`touch TRACE`]",
        "1+HOME[$(touch TRACE)]",
        "$(touch TRACE)",
        "; touch TRACE;",
    ),
    *("x\ntouch TRACE\n", "' ; touch TRACE ; '", '" ; touch TRACE ; "', "|touch TRACE", "-rf /", "--x=$(touch TRACE)"),
    *("9" * 400, "", "-1", "08", "0x10", "*", "x" * 100_000, "../../..", "\x1b]0;x\x07", "\udcff"),
)
NAMES = re.compile(r"\$\{?[!#]?([A-Z][A-Z0-9_]+)|\b((?:SLURM|ENVSPEC|APPTAINER)[A-Z_]*_[A-Z_]+)")
OWN = {"PATH", "BASH_REMATCH", "EXIT", "IFS", "HOME", "BASH_SOURCE"}
GIVEN = {
    "SLURM_JOB_ID": "123456", "SLURM_JOB_NODELIST": "node-1", "SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0",
    "SLURM_GPUS_ON_NODE": "2", "SLURM_CPUS_ON_NODE": "8", "SLURM_JOB_NAME": "x", "ENVSPEC_TARGET": "cu128-hopper",
}  # fmt: skip


def script_in(job: Path) -> str:
    """A recipe's job; of what a smoke run would do, the first batch script that it writes."""
    text = job.read_text(encoding="utf-8")
    return text.partition("0.sh <<'END'\n")[2].partition("\nEND\n")[0] or text


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_value_of_a_variable_runs(job: Path, tmp_path: Path) -> None:
    tools, here = tmp_path / "tools", tmp_path / "here"
    tools.mkdir()
    here.mkdir()
    for name, text in {"srun": SAYS, "apptainer": SAYS, "scontrol": KNOWS}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    for target in ("cu128-hopper", "cpu"):
        (here / f"mm-v2.9-{target}.sif").touch()
        (here / f"cpu-py311-{target}.sif").touch()
    script = script_in(job).replace("/results", str(here / "results"))
    assert script.startswith("#!/bin/bash\n")
    env = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(here), "SLURM_SUBMIT_DIR": str(here), **GIVEN}
    if "cpu-py311" in str(job):
        env["ENVSPEC_TARGET"] = "cpu"

    own = job.name in (APPTAINER_JOB, PYXIS_JOB)

    def run(**more: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["bash", "-s", "--", *(["train.py"] if own else [])], input=script.encode(), env={**env, **more}, cwd=here,
            capture_output=True, check=False, timeout=30,
        )  # fmt: skip

    assert not own or b"<train.py>" in run().stdout, "it comes to its end"
    names = sorted({one or other for one, other in NAMES.findall(script)} - OWN)
    assert len(names) > 5
    before = {*os.listdir(tmp_path)}
    for name in names:
        for value in VALUES:
            ran = run(**{name: value})
            assert not [*here.rglob("TRACE")], (name, value)
            assert ran.returncode >= 0 and {*os.listdir(tmp_path)} == before, (name, value, ran.stderr)
