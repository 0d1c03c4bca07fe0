"""What a checked document says in `[slurm]` and `[kubernetes]`."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from envspec.spec.checked import Checked
from envspec.spec.cluster import KubernetesTable, Serving, SlurmTable
from envspec.spec.positions import Path


def slurm_of(checked: Checked) -> SlurmTable:
    """Read `[slurm]`. Problems go to `checked`."""
    given = _given(
        checked,
        ("slurm",),
        (
            "account",
            "partition",
            "constraint",
            "cpus-per-gpu",
            "time",
            "requeue",
            "signal",
            "max-restarts",
            "min-nodes",
        ),
    )
    if (
        checked.sound("slurm", "min-nodes")
        and checked.given("slurm", "min-nodes")
        and not checked.given("slurm", "max-restarts")
    ):
        hint = "add for example: max-restarts = 3"
        checked.problem(
            ("slurm", "min-nodes"), "slurm.min-nodes needs max-restarts, with which torchrun is elastic", hint
        )
    return SlurmTable(
        **given,
        memory=checked.value("slurm", "mem"),
        environment=_words(checked, "slurm", "environment"),
        options=_words(checked, "slurm", "options"),
    )


def kubernetes_of(checked: Checked) -> KubernetesTable:
    """Read `[kubernetes]`. Problems go to `checked`."""
    given = _given(checked, ("kubernetes",), ("namespace", "nodes", "gpus", "volume", "pull-secret", "secret", "rdma"))
    labels = {str(path[-1]): value for path, value in checked.children("kubernetes", "node-selector")}
    return KubernetesTable(
        **given,
        program=_words(checked, "kubernetes", "program"),
        node_selector=MappingProxyType(labels),
        serve=_serving(checked),
    )


def _serving(checked: Checked) -> Serving | None:
    path = ("kubernetes", "serve")
    if not checked.given(*path):
        return None
    return Serving(
        _words(checked, *path, "program"),
        **_given(checked, path, ("port", "replicas", "health")),
    )


def _given(checked: Checked, table: Path, keys: Iterable[str]) -> dict[str, Any]:
    """The values that a table has, by the names of their fields."""
    found = {key.replace("-", "_"): checked.value(*table, key) for key in keys}
    return {name: value for name, value in found.items() if value is not None}


def _words(checked: Checked, *path: str) -> tuple[str, ...]:
    return tuple(str(word) for _, word in checked.children(*path))
