"""This site's part in builds of recipes: its mirrors and its proxy. The recipes themselves name no host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envspec.base.settings import Settings
from envspec.export import apt_mirrors
from envspec.export.site_build import UV_SETTINGS, build_arguments, build_files, definition_here, proxy_variables

_BINDS = ("APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND", "SINGULARITY_BINDPATH")


@dataclass(frozen=True)
class SiteBuilds:
    """settings  the user's; None: builds get nothing
    env       the environment of builds, whose proxy they take over
    """

    settings: Settings | None = None
    env: Mapping[str, str] | None = None

    def files(self, recipe: str) -> tuple[tuple[str, str], ...]:
        """List the files that a build gets beside a recipe with this text, by name."""
        return tuple(sorted(build_files(recipe, self.settings).items())) if self.settings else ()

    def options(self, dockerfile: str, folder: Path) -> tuple[str, ...]:
        """List the options of a build of a Dockerfile; its files lie in `folder`. Variables go by name alone, as their
        values may hold a password.
        """
        if self.settings is None:
            return ()
        arguments = [f"{name}={value}" for name, value in build_arguments(dockerfile, self.settings).items()]
        secrets = {UV_SETTINGS: "uv", apt_mirrors.FILE: apt_mirrors.FILE}
        there = [name for name, _ in self.files(dockerfile) if name in secrets]
        return (
            *(word for one in (*arguments, *proxy_variables(self.env or {})) for word in ("--build-arg", one)),
            *(word for name in there for word in ("--secret", f"id={secrets[name]},src={folder / name}")),
        )

    def binds(self, place: str) -> bool:
        """Say whether the user binds a folder of their own there in every container."""
        given = (value for name, value in (self.env or {}).items() if name in _BINDS)
        return any(one.split(":")[1:2] == [place] for value in given for one in value.split(","))

    def definition(self, text: str) -> str:
        """Give a definition with the site's images."""
        return definition_here(text, self.settings) if self.settings else text
