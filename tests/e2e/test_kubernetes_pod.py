"""What kubelet does to the pod of an exported Job, without a cluster: its command, by the image's own entrypoint under
tini and with torch's torchrun, in a namespace of processes; SIGTERM to the first, and SIGKILL, which ends them all,
after the grace period.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from envspec_check.lock import read_target
from msgspec.structs import replace
from support.smoke_env import CONFIG, smoke_env as smoke_env
from support.warned import KINDS, TRAINS

sys.path.append(str(Path(__file__).parents[1] / "export"))
from recipe_plans import shipped, text_in

from envspec.export.carried import carried_files
from envspec.export.kubernetes import FILE, render
from envspec.export.plan import CARRIED, ENTRYPOINT
from envspec.spec.cluster import KubernetesTable

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.e2e]

GRACE = 8
STARTS = """
set -eu
mount -t tmpfs none /opt
mkdir "$1"
mount --bind "$2" "$1"
cd "$3"
shift 3
exec "$@"
"""


class Pod:
    """A pod's container, which has begun to train."""

    def __init__(self, prefix: Path, folder: Path, *words: str) -> None:
        carried = folder / "carried"
        for name, text in carried_files().items():
            (carried / name).parent.mkdir(parents=True, exist_ok=True)
            (carried / name).write_text(text, encoding="utf-8")
            (carried / name).chmod(0o755)
        (carried / "target.json").write_text(json.dumps(read_target(str(CONFIG))), encoding="utf-8")
        (folder / "train.py").write_text(TRAINS)
        asked = KubernetesTable(program=("train.py", str(folder), *words, "TERM"))
        job = yaml.safe_load(text_in(render(replace(shipped("cpu-py311", "cpu"), kubernetes=asked)), FILE))
        (container,) = job["spec"]["template"]["spec"]["containers"]
        argv = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        argv += ["sh", "-c", STARTS, "sh", CARRIED, str(carried), str(folder), *ENTRYPOINT, *container["args"]]
        env = {**os.environ, "ENVSPEC_PREFIX": str(prefix)}
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
        end = time.monotonic() + 120
        while not (folder / "ready-0").exists():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.2)
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.first = int(children[0])

    def terminate(self) -> int | None:
        """SIGTERM, then SIGKILL where it hasn't ended in the grace period. The status that it ended with by itself."""
        os.kill(self.first, signal.SIGTERM)
        try:
            return self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            os.kill(self.first, signal.SIGKILL)
            self.process.wait(10)
            return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_pod_under_sigterm(smoke_env: Path, tmp_path: Path, kind: str, when: str) -> None:
    for program in ("unshare", "tini"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    pod = Pod(smoke_env, tmp_path, kind, when)
    saves = kind != "neither" and when == "during"
    if when == "before":
        (tmp_path / "enough").touch()
        assert pod.process.wait(60) == 0, pod.log.read_text()
    else:
        assert pod.terminate() == (75 if saves else None), pod.log.read_text()
    assert (tmp_path / "ended-0").exists() is (saves or when == "before")
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in read(path)]
    assert left == []


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
