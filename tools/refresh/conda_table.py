"""The update of `data/conda_builds.toml`: what a commit of conda-forge's recipe of pytorch builds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from envspec.base.documents import Unreadable, read_yaml
from envspec.facts import toolkits
from envspec.packages.version_numbers import numbers
from tools.refresh.arch_lists import batch, shell
from tools.refresh.published import PLATFORMS, Row, UpstreamChanged, rows_of, with_rows, with_source

REPOSITORY = "conda-forge/pytorch-cpu-feedstock"

VARIANTS = ".ci_support"
"""The folder with a file for each build."""

SCRIPTS = ("recipe/build.sh", "recipe/bld.bat", "recipe/meta.yaml")

_GLIBC = "2.17"
"""The floor that a row without `glibc` has."""

_ARM = ("", "sbsa", "tegra")


def refreshed_builds(text: str, files: Mapping[str, str], revision: str) -> str:
    """Add to the table's text the builds of the recipe's release that it lacks. `files` are the recipe's, by path.

    Raises UpstreamChanged where a build has no row that is sure, or another one than it has: a row speaks for all
    builds of a release.
    """
    release = _release(files["recipe/meta.yaml"])
    source = f"feedstock-{revision[:8]}"
    rows = rows_of(text, "builds")
    known = {_key(row): row for row in rows}
    fresh = []
    for row in _rows(release, files, source):
        existing = known.get(_key(row))
        if existing is None:
            fresh.append(row)
        elif _fact(existing) != _fact(row):
            again = f"pytorch {release} for {row['platform']} was built again with {_fact(row)}"
            raise UpstreamChanged(f"{again}: the table has {_fact(existing)}")
    order = {platform: place for place, platform in enumerate(PLATFORMS)}
    every = sorted([*rows, *fresh], key=lambda row: (numbers(row["pytorch"]), order[row["platform"]], _build(row)))
    # the rows that were there keep their places among each other
    changed = rows if not fresh else every
    meaning = f"{REPOSITORY}@{revision}: .ci_support and TORCH_CUDA_ARCH_LIST of its scripts, read by tools.refresh"
    return with_source(with_rows(text, "builds", changed), source, meaning)


def _release(meta: str) -> str:
    match = re.search(r'(?m)^\{% set version = "([^"]+)" %\}$', meta)
    if match is None or not re.fullmatch(r"\d+\.\d+\.\d+", match[1]):
        raise UpstreamChanged(f"recipe/meta.yaml names no final release{f': {match[1]}' if match else ''}")
    return match[1]


def _rows(release: str, files: Mapping[str, str], source: str) -> Iterator[Row]:
    scripts = {"linux": shell("recipe/build.sh", files["recipe/build.sh"])}
    scripts["win"] = batch("recipe/bld.bat", files["recipe/bld.bat"])
    seen = set()
    for values in _variants(files):
        platform, cuda = values["target_platform"], values["cuda_compiler_version"]
        listed = scripts[platform.partition("-")[0]].of(values).split(";") if cuda != "None" else []
        if listed and toolkits.toolkit(cuda) is None:
            raise UpstreamChanged(f"pytorch {release} is built for CUDA {cuda}: toolkits.toml doesn't know it")
        arm, glibc = values["arm_variant_type"], values.get("c_stdlib_version", _GLIBC)
        facts = {
            "pytorch": release,
            "platform": platform,
            "cuda": cuda if listed else None,
            "arm-variant": arm if arm == "tegra" else None,
            "sm": " ".join(architecture.removesuffix("+PTX") for architecture in listed) or None,
            "ptx": " ".join(
                architecture.removesuffix("+PTX") for architecture in listed if architecture.endswith("+PTX")
            )
            or None,
            "glibc": glibc if platform.startswith("linux") and numbers(glibc) > numbers(_GLIBC) else None,
            "source": source,
        }
        row = {key: value for key, value in facts.items() if value is not None}
        if _key(row) not in seen:
            seen.add(_key(row))
            yield row


def _variants(files: Mapping[str, str]) -> Iterable[dict[str, str]]:
    """Read the variables of each build of a platform that the table has; those of release candidates are left out."""
    for path in sorted(files):
        if not path.startswith(f"{VARIANTS}/"):
            continue
        try:
            document: Any = read_yaml(files[path])
            values = {str(key): str(value[0]) for key, value in document.items() if isinstance(value, list) and value}
        except (Unreadable, AttributeError) as error:
            raise UpstreamChanged(f"{path} isn't a build's variables: {error}") from None
        if values.get("target_platform") not in PLATFORMS or values.get("is_rc") == "True":
            continue
        # conda-build sets OSTYPE nowhere: the shell does
        values = {"cuda_compiler_version": "None", "arm_variant_type": "", "OSTYPE": "linux-gnu", **values}
        if values["arm_variant_type"] not in _ARM:
            raise UpstreamChanged(f"{path}: the table has no words for arm_variant_type {values['arm_variant_type']}")
        yield values


def _build(row: Row) -> tuple[object, ...]:
    """Return the place of a build among those of a platform: by CUDA, the CPU's last."""
    return ("cuda" not in row, numbers(row.get("cuda", "0")), row.get("arm-variant", ""))


def _key(row: Row) -> tuple[object, ...]:
    return row["pytorch"], row["platform"], row.get("cuda"), row.get("arm-variant")


def _fact(row: Row) -> str:
    facts = {key: row[key] for key in ("sm", "ptx", "glibc") if key in row}
    return ", ".join(f"{key} {value}" for key, value in facts.items()) or "nothing"
