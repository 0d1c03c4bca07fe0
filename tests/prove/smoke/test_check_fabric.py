"""What the check says of fabrics between nodes. NCCL's logs are recorded on other machines, each with its source, but
for those marked `made`. The ports are stand-ins: no machine of the tests has one."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomli
from envspec_check import fabric
from envspec_check.fabric import judge, network_of, ports

from envspec.carried import multi_node

RECORDED = tomli.loads((Path(__file__).parent / "nccl_logs.toml").read_text(encoding="utf-8"))["logs"]
LOG = """node:7:7 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
node:7:7 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.7<0>
node:7:7 [0] NCCL INFO Using network {}
"""


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    for name, state, layer in (
        ("mlx5_0", "4: ACTIVE", "InfiniBand"),
        ("mlx5_1", "1: DOWN", "InfiniBand"),
        ("mlx5_2", "4: ACTIVE", "Ethernet"),
    ):
        port = tmp_path / "sys" / name / "ports" / "1"
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        (port / "link_layer").write_text(f"{layer}\n")
    return tmp_path / "sys"


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "uverbs0").touch()
    return tmp_path / "dev"


def test_ports_that_are_up_in_a_pretended_sysfs(sysfs: Path, tmp_path: Path) -> None:
    assert ports(sysfs, tmp_path / "dev") == {"mlx5_0:1": "InfiniBand", "mlx5_2:1": "Ethernet"}
    assert ports(tmp_path / "none", tmp_path / "dev") == {}
    (tmp_path / "sys/mlx5_1/ports/1/state").write_text("4: ACTIVE")
    (tmp_path / "sys/mlx5_1/ports/1/link_layer").write_text("Unspecified")
    (tmp_path / "dev").mkdir()
    for name in ("cxi0", "cxi1", "cxi_notes"):
        (tmp_path / "dev" / name).touch()
    found = ports(sysfs, tmp_path / "dev")
    assert found["mlx5_1:1"] == "EFA" and (found["cxi0"], found["cxi1"]) == ("Slingshot", "Slingshot")
    assert len(found) == 5


@pytest.mark.parametrize("log", RECORDED, ids=lambda log: log["source"].split()[0])
def test_what_nccl_chose_by_lines_of_public_logs(tmp_path: Path, log: dict[str, str]) -> None:
    (tmp_path / "nccl-node-1.log").write_text(log["lines"])
    assert network_of(tmp_path) == log.get("network")


def test_the_recorded_logs_are_of_each_fabric_and_most_are_real() -> None:
    assert {log["fabric"] for log in RECORDED} == {"InfiniBand", "Ethernet", "EFA", "Slingshot", "none"}
    assert sum("made" in log for log in RECORDED) <= 2


@pytest.mark.parametrize(("networks", "said"), [(["IB", "Socket"], "Socket"), ([], None)])
def test_one_rank_on_sockets_is_enough_as_all_wait_for_it(
    tmp_path: Path, networks: list[str], said: str | None
) -> None:
    for rank, network in enumerate(networks):
        (tmp_path / f"nccl-node-{rank}.log").write_text(LOG.format(network))
    assert network_of(tmp_path) == said


FULL = {"mlx5_0:1": "InfiniBand"}
ROCE = {"mlx5_2:1": "Ethernet"}
EFA = {"rdmap79s0:1": "EFA"}
CXI = {"cxi0": "Slingshot"}
TWO = {"SLURM_JOB_NUM_NODES": "2"}


@pytest.mark.parametrize(
    ("found", "network", "config", "environ", "status", "told"),
    [
        (FULL, "Socket", {}, {}, "fail", "HCA seen (mlx5_0:1), NCCL on sockets"),
        (FULL, "Socket", {"fabric": "infiniband"}, {"NCCL_IB_DISABLE": "0"}, "fail", "NCCL on sockets"),
        (FULL, "Socket", {}, {"NCCL_IB_DISABLE": "1"}, "pass", "as NCCL_IB_DISABLE says"),
        (FULL, "Socket", {"fabric": "none"}, {}, "pass", "as the spec's fabric says"),
        (FULL, "IB", {}, {}, "pass", ""),
        (FULL, None, {}, {}, "skip", "NCCL didn't say"),
        (ROCE, "Socket", {}, {}, "pass", "HCA seen (mlx5_2:1), NCCL on sockets; where RoCE is set up: install lib"),
        ({}, "Socket", {}, {}, "skip", "no port of InfiniBand, RoCE, EFA or Slingshot is up here"),
        (EFA, "Socket", {}, {}, "fail", "HCA seen (rdmap79s0:1), NCCL on sockets"),
        (EFA, "Libfabric over tcp", {}, {}, "fail", "NCCL on sockets (Libfabric over tcp)"),
        (EFA, "Libfabric", {}, {}, "pass", ""),
        (CXI, "Socket", {}, TWO, "fail", "HCA seen (cxi0), NCCL on sockets"),
        (CXI, "AWS Libfabric over tcp;ofi_rxm", {}, TWO, "fail", "NCCL on sockets"),
        (CXI, "Socket", {}, {}, "pass", "one node can't tell"),
        (CXI, None, {}, TWO, "skip", "NCCL didn't say"),
        (CXI, "AWS Libfabric", {}, TWO, "pass", ""),
    ],
)
def test_an_hca_and_nccl_on_sockets_with_pretended_ports(
    devices: Path,
    found: dict[str, str],
    network: str | None,
    config: dict[str, Any],
    environ: dict[str, str],
    status: str,
    told: str,
) -> None:
    outcome = judge(config, found, network, devices, environ)
    assert outcome.status == status and told in (outcome.reason or "")
    assert outcome.details == {"ports": found, "network": network}
    told_of = {"EFA": "aws-ofi-nccl", "Slingshot": "[site.fabric]", "InfiniBand": "ibverbs-providers"}
    assert status != "fail" or all(told_of[kind] in (outcome.remedy or "") for kind in found.values())


def test_a_container_without_the_devices_is_told_in_a_pretended_one(tmp_path: Path) -> None:
    outcome = judge({}, FULL, "Socket", tmp_path / "none", {})
    assert outcome.status == "pass" and "--device /dev/infiniband" in (outcome.reason or "")


def test_several_nodes_tell_it_with_pretended_ports(
    monkeypatch: pytest.MonkeyPatch, sysfs: Path, devices: Path, tmp_path: Path
) -> None:
    """What the check of several nodes makes of it: why it fails, and what it saw."""
    monkeypatch.setattr(fabric, "ports", lambda: ports(sysfs))
    monkeypatch.setattr(fabric, "judge", partial(judge, devices=devices, environ={}))
    (tmp_path / "nccl-node-0.log").write_text(LOG.format("Socket"))
    reason, more = multi_node.fabric({}, tmp_path)
    assert reason is not None and reason.startswith("HCA seen (mlx5_0:1, mlx5_2:1), NCCL on sockets: install ")
    assert more["network"] == "Socket" and more["told"] == reason
    monkeypatch.setattr(fabric, "ports", dict)
    assert multi_node.fabric({}, tmp_path)[0] is None
