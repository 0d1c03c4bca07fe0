"""This site's policy, and the variables that its configuration gives all processes. Most machines have neither, and
load no more than this."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.base.errors import EnvspecError
from envspec.base.places import LIBRARIES, config_paths, etc

if TYPE_CHECKING:
    from envspec.configuration.user_config import FabricSite
    from envspec.review.policy.model import Policy


def place() -> str:
    """Give the one place of a policy."""
    return etc("envspec", "policy.toml")


def site_policy() -> Policy | None:
    """The policy of this machine's site, None where it has none. Raises PolicyError for one that can't be taken at its
    word."""
    try:
        os.lstat(place())
    except (FileNotFoundError, NotADirectoryError):
        # to load what reads one takes longer than to see that
        return None
    except OSError:
        # it is told below why it can't be read
        pass

    from envspec.review.policy.schema import load_policy

    return load_policy(Path(place()))


def site_variables(env: Mapping[str, str], home: str) -> dict[str, str]:
    """Give the variables of the site's proxy and of its fabric that an environment lacks. Whoever needs the
    configuration tells what is wrong with it."""
    # to load what reads the files takes longer than to see that none names either
    if not any(map(_names_either, config_paths(env, home))):
        return {}
    from envspec.configuration.user_config import load_user_config

    with suppress(EnvspecError):
        site = load_user_config(env, home).site
        return {**site.variables(env), **fabric_variables(site.fabric, env)}
    return {}


def _names_either(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            text = file.read()
            return b"proxy" in text or b"fabric" in text
    except OSError:
        return False


def fabric_variables(site: FabricSite, env: Mapping[str, str]) -> dict[str, str]:
    """Give the variables of a site's fabric that an environment lacks; the site's own win over the table's, and an
    empty one takes the table's out. NCCL_NET needs a job of several nodes: Slurm gives one node no Slingshot to use.
    Source: HewlettPackard/shs-ccl-docs, ccl_env.sh."""
    if site.kind is None:
        return {}
    from envspec.facts.fabrics import fabrics

    known = fabrics()[site.kind]
    multi_node = env.get("SLURM_JOB_NUM_NODES", "1") != "1"
    given = {
        **({"NCCL_NET": known.net} if known.net and multi_node else {}),
        **known.variables,
        **site.variables,
        LIBRARIES: ":".join(site.libraries),
    }
    return {name: value for name, value in given.items() if value and name not in env}
