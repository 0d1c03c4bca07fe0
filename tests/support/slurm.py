"""A real Slurm of one node (controller, daemon, munge) on this machine, on loopback."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def slurm(folder: Path) -> Iterator[Path]:
    """The `slurm.conf` of a Slurm that runs: that of SLURM_CONF, else one started in `folder` and stopped at the end.

    Skips, by name, where `slurm-up` isn't there to start one.
    """
    given = os.environ.get("SLURM_CONF")
    if given and Path(given).is_file():
        yield Path(given)
        return
    beside = ROOT.parent / "shared" / "tools" / "slurm-up"
    program = shutil.which("slurm-up") or (str(beside) if beside.is_file() else None)
    if program is None:
        pytest.skip("no slurm-up")
    env = {**os.environ, "SLURM_UP_DIR": str(folder)}
    if _is_running():
        pytest.skip("another slurmctld runs here: name its configuration in SLURM_CONF")
    up = subprocess.run([program, str(folder)], env=env, capture_output=True, text=True, timeout=300, check=False)
    try:
        if up.returncode or "idle" not in up.stdout:
            pytest.skip(f"slurm-up started no Slurm: {up.stdout[-500:]}{up.stderr[-500:]}")
        yield folder / "slurm.conf"
    finally:
        subprocess.run([program, "--down"], env=env, capture_output=True, timeout=60, check=False)
        # it is told to end, and ends later: the next tests would take it for somebody's and skip
        for _ in range(300):
            if not _is_running():
                break
            time.sleep(0.1)


def _is_running() -> bool:
    # not one that ended, and that nobody has heard of
    alive = ["pgrep", "--exact", "--runstates", "RSDT", "slurmctld"]
    return subprocess.run(alive, capture_output=True, check=False).returncode == 0


@contextmanager
def two_nodes(folder: Path, gpu: bool = False) -> Iterator[Path]:
    """The `slurm.conf` of a Slurm of its own with two nodes, which are both this machine; stopped at the end.
    With `gpu`, Slurm believes that each has one.

    The nodes' addresses are loopback's; the machine's own name need not resolve. Jobs that still run at the end are
    cancelled. Skips, by name, without the daemons, a slurmd that can be several (Debian's can), or a munge that runs.
    """
    sbin = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    daemons = {name: shutil.which(name, path=sbin) for name in ("slurmctld", "slurmd")}
    for name, found in daemons.items():
        if found is None:
            pytest.skip(f"no {name}")
    if subprocess.run(["pgrep", "-x", "munged"], capture_output=True, check=False).returncode or os.getuid():
        pytest.skip("no munged runs, or this isn't root")
    host = socket.gethostname().partition(".")[0]
    # in this order: slurmctld refuses a name that an earlier line gave as a host's
    nodes = (host, "localhost")
    (folder / "ctld").mkdir(parents=True)
    # slurmd's sockets lie there: "<spool>/<node>/<node>_<job>.<step>" may have 107 characters
    spool = Path(tempfile.mkdtemp(prefix="slurm-"))
    for node in nodes:
        (spool / node).mkdir()
    control, *ports = free_ports(3)
    having = f"CPUs={os.cpu_count()}{' Gres=gpu:1' if gpu else ''}"
    (folder / "gres.conf").write_text("Name=gpu File=/dev/zero\n" if gpu else "")
    lines = [
        "ClusterName=two",
        *(["GresTypes=gpu"] if gpu else []),
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={control}",
        "AuthType=auth/munge",
        "SlurmUser=root",
        "SlurmdUser=root",
        f"StateSaveLocation={folder}/ctld",
        f"SlurmdSpoolDir={spool}/%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/%n.pid",
        f"SlurmctldLogFile={folder}/slurmctld.log",
        f"SlurmdLogFile={folder}/%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "ReturnToService=2",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        *(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {having} State=UNKNOWN"
            for node, port in zip(nodes, ports, strict=True)
        ),
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    ]
    conf = folder / "slurm.conf"
    conf.write_text("\n".join(lines) + "\n")
    env = {**os.environ, "SLURM_CONF": str(conf)}
    started = []
    try:
        for argv in (["slurmctld", "-D"], *(["slurmd", "-D", "-N", node] for node in nodes)):
            program = daemons[argv[0]]
            assert program is not None
            null = subprocess.DEVNULL
            command = [program, *argv[1:]]
            started.append(
                subprocess.Popen(command, env=env, start_new_session=True, stdin=null, stdout=null, stderr=null)
            )
        sinfo = ["timeout", "10", "sinfo", "-h", "-N", "-o", "%T"]
        deadline = time.monotonic() + 60
        while (told := subprocess.run(sinfo, env=env, capture_output=True, text=True, check=False)).stdout.split() != [
            "idle",
            "idle",
        ]:
            gone = [process.args for process in started if process.poll() is not None]
            if gone or time.monotonic() > deadline:
                pytest.skip(f"Slurm doesn't start two nodes here: {gone} {told.stdout}{told.stderr}")
            time.sleep(0.25)
        yield conf
    finally:
        cancel = ["timeout", "20", "scancel", "--full", "--signal=KILL", "--user=root"]
        subprocess.run(cancel, env=env, capture_output=True, check=False)
        for process in reversed(started):
            process.terminate()
            process.wait(30)
        shutil.rmtree(spool, ignore_errors=True)
