"""The spec's `[audit]` table, as `envspec.spec.schema` describes the others."""

from __future__ import annotations

from dataclasses import replace

from envspec.spec.nodes import CONTROL, Array, Names, Table, Text

_LICENCE = Text(
    doc="A licence: an SPDX identifier, or what a package says in its own words; `*` stands for anything.",
    example="BSD-3-Clause",
    says="a licence",
    pattern=rf"[^\s{CONTROL}](?:[^{CONTROL}]*[^\s{CONTROL}])?",
    max_length=200,
)


def audit_table(package_name: Text) -> Table:
    """Return `[audit]`; `package_name` describes what a package may be called."""
    return Table(
        doc="What `envspec audit` accepts. Nothing of it is locked.",
        keys={
            "allow-licences": Array(
                doc="The licences that packages may have; with this list, they may have no other.",
                items=_LICENCE,
                example=("MIT", "BSD-3-Clause", "Apache-2.0"),
                min_items=1,
                unique=True,
            ),
            "deny-licences": Array(
                doc="The licences that no package may have.",
                items=_LICENCE,
                example=("AGPL-*",),
                min_items=1,
                unique=True,
            ),
            "licences": Names(
                doc="The licences of packages, conda's too, whose metadata names no licence or a wrong one.",
                # conda has names such as _libgcc_mutex
                names=replace(package_name, pattern=f"_?{package_name.pattern}"),
                values=_LICENCE,
            ),
            "ignore": Names(
                doc="Advisories that don't concern this environment, each with the reason.",
                names=Text(
                    doc="The advisory's identifier, or one of its aliases.",
                    example="CVE-2024-34064",
                    says="an advisory's identifier",
                    pattern="[A-Za-z0-9][A-Za-z0-9._:-]*",
                    max_length=100,
                ),
                values=Text(
                    doc="Why the advisory doesn't concern this environment.",
                    example="no template here comes from outside",
                    says="a reason",
                    pattern=rf"[^{CONTROL}]*[^\s{CONTROL}][^{CONTROL}]*",
                ),
            ),
        },
    )
