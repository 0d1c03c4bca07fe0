"""The fabric between nodes: the machine's InfiniBand and RoCE ports, and NCCL's choice by its log.

NCCL loads libibverbs when it starts. Where that fails it uses sockets, ten times slower, and says so in its log alone.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from envspec_check.interface import Outcome, failed, passed, skipped

SYSFS = Path("/sys/class/infiniband")
DEVICES = Path("/dev/infiniband")


def ports(sysfs: Path = SYSFS) -> Dict[str, str]:
    """The ports that are up, as NCCL names them, and their link layers: "InfiniBand" or "Ethernet"."""
    found = {}
    for port in sorted(sysfs.glob("*/ports/*")):
        if "ACTIVE" in content_of(port / "state"):
            found["%s:%s" % (port.parent.parent.name, port.name)] = content_of(port / "link_layer") or "InfiniBand"
    return found


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
    """What NCCL wrote that it uses: "IB", "Socket" or a plugin's name. Source: NCCL's src/init.cc, from 2.4 on."""
    logs = [content_of(path) for path in sorted(folder.glob("nccl-*.log"))]
    names: List[str] = [name for log in logs for name in re.findall(r"Using network (\S[^\n]*)", log)]
    return "Socket" if "Socket" in names else names[-1].strip() if names else None


def judge(
    config: Dict[str, Any],
    found: Mapping[str, str],
    network: Optional[str],
    devices: Path = DEVICES,
    environ: Mapping[str, str] = os.environ,
) -> Outcome:
    """Whether NCCL uses the ports that are up."""
    details = {"ports": dict(found), "network": network}
    if not found:
        return skipped("no InfiniBand or RoCE port is up here", details=details)
    if network is None:
        return skipped("NCCL didn't say which network it uses", details=details)
    if network != "Socket":
        return passed(details=details)
    told = "HCA seen (%s), NCCL on sockets" % ", ".join(found)
    asked = [name for name in ("NCCL_IB_DISABLE", "NCCL_NET") if environ.get(name, "0") != "0"]
    if asked or config.get("fabric") == "none":
        return passed(reason="%s, as %s says" % (told, asked[0] if asked else "the spec's fabric"), details=details)
    if not list(devices.glob("uverbs*")):
        lent = "docker: --device /dev/infiniband --cap-add IPC_LOCK; for one node, sockets are enough"
        return passed(reason="%s: %s isn't here (%s)" % (told, devices, lent), details=details)
    remedy = 'install libibverbs1, ibverbs-providers and librdmacm1, or fabric = "none" in the spec\'s [image]'
    remedy += "; ibv_devinfo and NCCL_DEBUG=INFO say more"
    # cloud machines have cards of this kind for plain Ethernet
    if "InfiniBand" not in found.values():
        return passed(reason="%s; where RoCE is set up: %s" % (told, remedy), details=details)
    return failed(told, remedy, details=details)
