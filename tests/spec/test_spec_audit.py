"""`[audit]`: read, and no part of what is locked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.spec.model import Audit
from envspec.spec.parse import load_spec

SPEC = Path(__file__).parent / "valid" / "audit.toml"


def test_it_is_read() -> None:
    assert load_spec(SPEC).audit == Audit(
        allow_licences=("MIT", "BSD-*", "NVIDIA Proprietary Software"),
        deny_licences=("AGPL-*",),
        licences={"old-package": "MIT"},
        ignore={
            "CVE-2024-34064": "no template here comes from outside",
            "PYSEC-2024-48": "a tool of development, never in an image",
        },
    )
    assert load_spec(SPEC.with_name("minimal.toml")).audit == Audit()


def test_it_makes_no_lock_stale() -> None:
    spec = load_spec(SPEC)
    bare = replace(spec, audit=Audit())
    assert spec_inputs(spec) == spec_inputs(bare)
    assert [target_inputs(spec, t) for t in spec.targets] == [target_inputs(bare, t) for t in bare.targets]
