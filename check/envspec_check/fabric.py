"""The fabric between nodes: the machine's InfiniBand, RoCE, EFA and Slingshot ports, and NCCL's choice by its log.

NCCL loads libibverbs, or a plugin on libfabric, when it starts. Where that fails it uses sockets, ten times slower, and
says so in its log alone.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from envspec_check.interface import Outcome, failed, passed, skipped

SYSFS = Path("/sys/class/infiniband")
DEVICES = Path("/dev/infiniband")
SOCKETS = ("tcp", "udp", "sockets", "net")
"""libfabric's providers that use sockets. Source: fi_provider(7)."""


def ports(sysfs: Path = SYSFS, dev: Path = Path("/dev")) -> Dict[str, str]:
    """Return the ports that are up, as NCCL names them, and their fabrics: "InfiniBand", "Ethernet" (RoCE), "EFA",
    whose link layer is unspecified, and "Slingshot", whose cards have device files of their own."""
    ports = {card.name: "Slingshot" for card in sorted(dev.glob("cxi[0-9]*"))}
    for port in sorted(sysfs.glob("*/ports/*")):
        if "ACTIVE" in content_of(port / "state"):
            layer = content_of(port / "link_layer") or "InfiniBand"
            ports["%s:%s" % (port.parent.parent.name, port.name)] = "EFA" if layer == "Unspecified" else layer
    return ports


def content_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def listen(folder: Path) -> None:
    """Let the NCCL of processes that start from here write into a folder what it chooses."""
    more = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": str(folder / "nccl-%h-%p.log")}
    os.environ.update(more)


def network_of(folder: Path) -> Optional[str]:
    """Read NCCL's network from its log: "IB", "Socket", a plugin's name, or "NAME over PROVIDER" where libfabric has
    only sockets. Before 2.6 the log had only the available networks. Sources: NCCL's src/init.cc and
    src/transport/net_*.cc, aws-ofi-nccl's src/nccl_ofi_net.cpp."""
    text = "\n".join(content_of(path) for path in sorted(folder.glob("nccl-*.log")))
    names: List[str] = re.findall(r"Using network (\S[^\n]*)", text)
    names = [name.strip() for name in names] or sorted(set(re.findall(r"NET/(IB|Socket) : Using", text)))[:1]
    for provider in re.findall(r"NET/OFI Selected [Pp]rovider is ([^\s,]+)", text):
        if provider.partition(";")[0] in SOCKETS:
            return "%s over %s" % (names[-1] if names else "libfabric", provider)
    return "Socket" if "Socket" in names else names[-1] if names else None


REMEDIES = {
    "InfiniBand": "install libibverbs1, ibverbs-providers and librdmacm1",
    "EFA": "pass the plugin aws-ofi-nccl and libfabric in (/opt/amazon)",
    "Slingshot": "pass the host's libfabric and the plugin aws-ofi-nccl in ([site.fabric] of envspec's configuration)",
}


def judge(
    config: Dict[str, Any],
    ports: Mapping[str, str],
    network: Optional[str],
    devices: Path = DEVICES,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """Judge NCCL's network by the ports that are up."""
    details = {"ports": dict(ports), "network": network}
    if not ports:
        return skipped("no port of InfiniBand, RoCE, EFA or Slingshot is up here", details=details)
    if network is None:
        return skipped("NCCL didn't say which network it uses", details=details)
    if network != "Socket" and " over " not in network:
        return passed(details=details)
    reason = "HCA seen (%s), NCCL on sockets" % ", ".join(ports)
    reason += "" if network == "Socket" else " (%s)" % network
    settings = [name for name in ("NCCL_IB_DISABLE", "NCCL_NET") if environ.get(name, "0") != "0"]
    if settings or config.get("fabric") == "none":
        return passed(
            reason="%s, as %s says" % (reason, settings[0] if settings else "the spec's fabric"), details=details
        )
    kinds = set(ports.values())
    if "Slingshot" in kinds and environ.get("SLURM_JOB_NUM_NODES", "1") == "1":
        # Slurm gives a job of one node no network to use. Source: HewlettPackard/shs-ccl-docs, README.md
        return passed(reason="%s: one node can't tell; a job of two nodes can" % reason, details=details)
    if "Slingshot" not in kinds and not list(devices.glob("uverbs*")):
        lent = "docker: --device /dev/infiniband --cap-add IPC_LOCK; for one node, sockets are enough"
        return passed(reason="%s: %s isn't here (%s)" % (reason, devices, lent), details=details)
    remedy = next((REMEDIES[kind] for kind in ("Slingshot", "EFA") if kind in kinds), REMEDIES["InfiniBand"])
    remedy += ', or fabric = "none" in the spec\'s [image]; ibv_devinfo, fi_info and NCCL_DEBUG=INFO say more'
    # cloud machines have cards of this kind for plain Ethernet
    if kinds == {"Ethernet"}:
        return passed(reason="%s; where RoCE is set up: %s" % (reason, remedy), details=details)
    return failed(reason, remedy, details=details)
