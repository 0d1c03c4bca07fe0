"""The spec's `[audit]` table, as `envspec.spec.schema` describes the others."""

from __future__ import annotations

from dataclasses import replace

from envspec.base.reader.nodes import CONTROL, Array, Either, Names, Table, Text
from envspec.base.reader.patterns import NAME
from envspec.spec.newer_schema import UNTIL

_LICENCE = Text(
    doc="A licence: an SPDX identifier, or what a package says in its own words; `*` stands for anything.",
    example="BSD-3-Clause",
    says="a licence",
    pattern=rf"[^\s{CONTROL}](?:[^{CONTROL}]*[^\s{CONTROL}])?",
    max_length=200,
)


ACCEPTABLE = ("licence", "licence-unknown", "yanked", "young", "source")
"""The findings that a spec can accept. A vulnerability is ignored by its advisory, and a replaced file never."""


def _waiver(doc: str, example: str) -> Either:
    reason = Text(doc=doc, example=example, says="a reason", pattern=rf"[^{CONTROL}]*[^\s{CONTROL}][^{CONTROL}]*")
    return Either(
        text=reason,
        table=Table(
            doc=f"{doc} With its end, or for some targets.",
            required=("reason",),
            keys={
                "reason": reason,
                "until": UNTIL,
                "targets": Array(
                    doc="The targets for which it counts; all of them, if left out.",
                    items=Text(doc="A target of this spec.", example="cpu", says="a target's name", pattern=NAME),
                    example=("cpu",),
                    min_items=1,
                    unique=True,
                ),
            },
        ),
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
                doc="Advisories that don't concern this environment, each with the reason, and its end.",
                names=Text(
                    doc="The advisory's identifier, or one of its aliases.",
                    example="CVE-2024-34064",
                    says="an advisory's identifier",
                    pattern="[A-Za-z0-9][A-Za-z0-9._:-]*",
                    max_length=100,
                ),
                values=_waiver(
                    "Why the advisory doesn't concern this environment.", "no template here comes from outside"
                ),
            ),
            "accept": Names(
                doc="Other findings that are taken knowingly: by package and code, each with the reason.",
                names=replace(package_name, pattern=f"_?{package_name.pattern}"),
                values=Names(
                    doc="The findings of a package, by code.",
                    names=Text(
                        doc="The finding's code.",
                        example="yanked",
                        says="the code of a finding that can be accepted",
                        choices=ACCEPTABLE,
                    ),
                    values=_waiver("Why the finding is taken.", "yanked for its documentation alone"),
                ),
            ),
        },
    )
