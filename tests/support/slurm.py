"""A real Slurm (controller, a daemon for each node, munge) on this machine, on loopback."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.ports import free_ports

_DEVICES = ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@contextmanager
def slurm(folder: Path, count: int = 1, gpus: Sequence[int] = (), absent: str = "") -> Iterator[Path]:
    """The `slurm.conf` of a Slurm of its own with one node or two, which are all this machine; stopped at the end, also
    where this process is killed. With `gpus` Slurm believes that the nodes have so many, of the type a100, and 32 CPUs
    on two sockets, and the features own and other; a job gets 10 MB for each CPU. `absent` describes further nodes, in
    slurm.conf's words, which never come up: jobs for them wait.

    The nodes' addresses are loopback's; the machine's own name need not resolve. Jobs that still run at the end are
    cancelled. Skips, by name, without the daemons, and where munge can't be started. Two nodes need a slurmd that can
    be several, as Debian's can.
    """
    sbin = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    daemons = {name: shutil.which(name, path=sbin) for name in ("slurmctld", "slurmd", "munged")}
    for name, found in daemons.items():
        if found is None:
            pytest.skip(f"no {name}")
    if os.getuid():
        pytest.skip("this isn't root")
    munge = subprocess.run(["service", "munge", "start"], capture_output=True, text=True, check=False)
    if subprocess.run(["pgrep", "-x", "munged"], capture_output=True, check=False).returncode:
        pytest.skip(f"munge doesn't start: {munge.stdout}{munge.stderr}")
    host = socket.gethostname().partition(".")[0]
    # in this order: slurmctld refuses a name that an earlier line gave as a host's
    nodes = (host, "localhost")[:count]
    (folder / "ctld").mkdir(parents=True)
    # slurmd's sockets lie there: "<spool>/<node>/<node>_<job>.<step>" may have 107 characters
    spool = Path(tempfile.mkdtemp(prefix="slurm-"))
    for node in nodes:
        (spool / node).mkdir()
    control, *ports = free_ports(1 + count)
    having = f"CPUs={os.cpu_count()}"
    if gpus:
        having = "CPUs=32 Sockets=2 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=1000 Feature=own,other"
    # any device will do: nobody opens it
    (folder / "gres.conf").write_text(
        "".join(
            f"NodeName={node} Name=gpu Type=a100 File={device} Cores={16 * (index % 2)}-{16 * (index % 2) + 15}\n"
            for node, have in zip(nodes, gpus, strict=False)
            for index, device in enumerate(_DEVICES[:have])
        )
    )
    gres = [f" Gres=gpu:a100:{have}" if have else "" for have in gpus] or [""] * count
    lines = [
        "ClusterName=tests",
        *(["GresTypes=gpu"] if gpus or absent else []),
        *(["SlurmdParameters=config_overrides"] if gpus else []),
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
        *(["SelectTypeParameters=CR_Core_Memory", "DefMemPerCPU=10"] if gpus else ["SelectTypeParameters=CR_Core"]),
        *(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {having}{own} State=UNKNOWN"
            for node, port, own in zip(nodes, ports, gres, strict=True)
        ),
        *([f"{absent} NodeAddr=127.0.0.1 Port=1"] if absent else []),
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    ]
    conf = folder / "slurm.conf"
    conf.write_text("\n".join(lines) + "\n")
    env = {**os.environ, "SLURM_CONF": str(conf)}
    started = []
    try:
        which = [["-N", node] for node in nodes] if count > 1 else [[]]
        for argv in (["slurmctld", "-D"], *(["slurmd", "-D", *named] for named in which)):
            program = daemons[argv[0]]
            assert program is not None
            null = subprocess.DEVNULL
            command = ["setpriv", "--pdeathsig", "TERM", program, *argv[1:]]
            started.append(
                subprocess.Popen(command, env=env, start_new_session=True, stdin=null, stdout=null, stderr=null)
            )
        sinfo = ["timeout", "10", "sinfo", "-h", "-N", "-n", ",".join(nodes), "-o", "%T"]
        deadline = time.monotonic() + 60
        wanted = ["idle"] * count
        while (told := subprocess.run(sinfo, env=env, capture_output=True, text=True)).stdout.split() != wanted:
            gone = [process.args for process in started if process.poll() is not None]
            if gone or time.monotonic() > deadline:
                logs = "".join(log.read_text()[-500:] for log in folder.glob("*.log"))
                pytest.fail(f"Slurm is installed and doesn't start: {gone} {told.stdout}{told.stderr}{logs}")
            time.sleep(0.25)
        yield conf
    finally:
        cancel = ["timeout", "20", "scancel", "--full", "--signal=KILL", "--user=root"]
        subprocess.run(cancel, env=env, capture_output=True, check=False)
        for process in reversed(started):
            process.terminate()
            process.wait(30)
        shutil.rmtree(spool, ignore_errors=True)
