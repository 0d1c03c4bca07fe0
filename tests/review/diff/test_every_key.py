"""Each key that the format of specs knows makes a row where it comes: `No lock changed` hides none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

import pytest
from diff_samples import wheel
from support.sound import sound_target

from envspec.base.reader.nodes import Array, Either, Names, Node, Table
from envspec.lock.formats.foreign.side import Side
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Lock
from envspec.review.diff.judged import with_spec_changes
from envspec.review.diff.of_specs import of_specs
from envspec.review.diff.review import review
from envspec.review.diff.rows import Review
from envspec.review.diff.settings import of_exceptions
from envspec.spec.model import Spec
from envspec.spec.parse import parse_spec
from envspec.spec.schema import FORMAT

Value = Any
BASE: Value = {
    "env": {"name": "demo", "python": "3.12"},
    "pip": {"dependencies": ["lib"]},
    "targets": {"cpu": {"platform": "linux-64"}, "other": {"platform": "linux-64", "cuda": "12.8"}},
}
AROUND: Mapping[str, Value] = {
    "env.exclude-newer-package": {"env": {"exclude-newer": "7 days"}},
    "env.exclude-newer-index": {
        "env": {"exclude-newer": "7 days"},
        "pip": {"indexes": {"internal": "https://a.example.org"}},
    },
    "pip.sources": {"pip": {"indexes": {"internal": "https://a.example.org"}}},
    "conda.dependencies": {"conda": {"channels": ["conda-forge"]}},
    "targets.NAME.conda": {"conda": {"channels": ["conda-forge"]}},
    "targets.NAME.gpus": {"targets": {"cu128-hopper": {"cuda": "12.8"}}},
    "targets.NAME.driver": {"targets": {"cu128-hopper": {"cuda": "12.8"}}},
    "targets.NAME.cuda-compat": {"targets": {"cu128-hopper": {"cuda": "12.8"}}},
    "base.replace": {"base": {"image": "nvcr.io/nvidia/pytorch:26.01-py3"}},
    "slurm.mpi": {"slurm": {"launch": "srun"}},
    "slurm.min-nodes": {"slurm": {"max-restarts": 3}},
}
"""What a key needs around it in both revisions."""

OTHER = {
    "image.base": "debian:bookworm-slim",
    "image.user": "somebody",
    "smoke.steps": 51,
    "targets.NAME.glibc": "2.31",
}
"""Values where the example is what counts without the key."""

ELSEWHERE = {
    "env.name": "another name is another lock",
    "env.project.extras": "the lock has what they ask for",
    "env.project.groups": "the lock has what they ask for",
    "targets.NAME.project": "the lock has what they ask for",
    "matrix": "the lock has the targets that it makes",
    "base": "there is one of image, sif, prefix and module: test_a_base",
}


def example(node: Node) -> Value:
    if isinstance(node, Array):
        return [list(one) if isinstance(one, tuple) else one for one in node.example]
    if isinstance(node, Table):
        return {key: example(node.keys[key]) for key in node.required}
    if isinstance(node, Names):
        return {node.names.example: example(node.values)}
    return node.text.example if isinstance(node, Either) else node.example


def keys(node: Node, path: tuple[str, ...]) -> Iterator[tuple[str, Value, Value]]:
    """Each key below a node: its path, and the node's value without it and with it."""
    if isinstance(node, Either):
        yield from keys(node.table, path)
    elif isinstance(node, Names):
        own = node.names.example
        yield ".".join(path), {}, example(node)
        for below, old, new in keys(node.values, (*path, "NAME")):
            if old:
                yield below, {own: old}, {own: new}
    elif isinstance(node, Array) and isinstance(node.items, Table):
        yield ".".join(path), [], example(node)
    elif isinstance(node, Table):
        needed = example(node)
        for key, child in node.keys.items():
            rest = {name: value for name, value in needed.items() if name != key}
            for below, old, new in keys(child, (*path, key)):
                if old is not None or key not in node.required:
                    yield below, rest if old is None else {**rest, key: old}, {**rest, key: new}
    else:
        yield ".".join(path), None, OTHER.get(".".join(path), example(node))


def matching(path: str, table: Mapping[str, Value]) -> Value | None:
    return next((value for key, value in table.items() if f"{path}.".startswith(f"{key}.")), None)


CASES = [
    (path, old, new)
    for top, node in FORMAT.keys.items()
    for path, old, new in keys(node, (top,))
    if matching(path, ELSEWHERE) is None or path == "base.replace"
]


def merged(one: Value, other: Value) -> Value:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return other
    return {**one, **{key: merged(one[key], value) if key in one else value for key, value in other.items()}}


def toml(value: Value) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml(one)}' for key, one in value.items())} }}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def revision(document: Value) -> tuple[Spec, Side]:
    spec = parse_spec("".join(f"{key} = {toml(value)}\n" for key, value in document.items()), "specs/demo.toml")
    targets = [sound_target(one.name, target_inputs(spec, one), [wheel("lib", "1.0")]) for one in spec.targets]
    return spec, Side("", Lock(spec.name, spec_inputs(spec), tuple(sorted(targets, key=lambda one: one.name))))


def reviewed(old: Value, new: Value) -> Review:
    (before, was), (after, now) = revision(old), revision(new)
    exceptions = of_exceptions(before.newer_for, after.newer_for, datetime.now(timezone.utc), (None, None))
    return with_spec_changes(review(was, now), (*of_specs(before, after), *exceptions))


@pytest.mark.parametrize(("path", "old", "new"), CASES, ids=[path for path, *_ in CASES])
def test_a_key_that_comes_or_goes_is_a_row(path: str, old: Value, new: Value) -> None:
    top = path.partition(".")[0]
    around = merged(BASE, matching(path, AROUND) or {})
    without = merged(around, {top: old} if old is not None else {})
    with_it = merged(around, {top: new})
    for before, after in ((without, with_it), (with_it, without)):
        found = reviewed(before, after)
        assert found.settings or found.gpu, "a reviewer reads of it"


SAFEGUARDS: list[tuple[str, Value, Value]] = [
    ("exclude-newer goes", {"env": {"exclude-newer": "2026-01-01"}}, {}),
    ("exclude-newer of an age goes", {"env": {"exclude-newer": "7 days"}}, {}),
    ("a shorter age", {"env": {"exclude-newer": "2 weeks"}}, {"env": {"exclude-newer": "7 days"}}),
    (
        "an exception",
        {"env": {"exclude-newer": "7 days"}},
        {"env": {"exclude-newer": "7 days", "exclude-newer-package": {"lib": {"reason": "x"}}}},
    ),
    (
        "a source that goes",
        {"pip": {"indexes": {"i": "https://a.example.org"}, "sources": {"lib": "i"}}},
        {"pip": {"indexes": {"i": "https://a.example.org"}}},
    ),
    ("a correction off", {}, {"pip": {"without-corrections": ["torch-numpy-2"]}}),
    ("wheels unread", {}, {"pip": {"inspect": False}}),
    ("a source allowed", {}, {"pip": {"allow-source": ["lib"]}}),
    ("a finding accepted", {}, {"pip": {"accept": {"major-jump": "x"}}}),
    ("builds without isolation", {}, {"pip": {"no-build-isolation": ["lib"]}}),
    ("a target's builds without isolation", {}, {"targets": {"cpu": {"pip": {"no-build-isolation": ["lib"]}}}}),
    ("a licence allowed", {"audit": {"allow-licences": ["MIT"]}}, {}),
    ("a licence no longer denied", {"audit": {"deny-licences": ["AGPL-*"]}}, {}),
    ("a vulnerability ignored", {}, {"audit": {"ignore": {"CVE-2026-1": "x"}}}),
    ("a yank accepted", {}, {"audit": {"accept": {"lib": {"yanked": "x"}}}}),
    (
        "another driver said of the machines",
        {"targets": {"other": {"driver": "550.54.15"}}},
        {"targets": {"other": {"driver": "580.65.06"}}},
    ),
    ("no driver said any more", {"targets": {"other": {"driver": "550.54.15"}}}, {}),
    ("newer processors said of the machines", {}, {"targets": {"cpu": {"cpu": "x86-64-v4"}}}),
    ("no figures expected", {"smoke": {"references": {"training.samples_per_s": {"value": 1.0}}}}, {}),
    ("another project", {"env": {"project": "."}}, {"env": {"project": "other"}}),
]


@pytest.mark.parametrize(("old", "new"), [case[1:] for case in SAFEGUARDS], ids=[case[0] for case in SAFEGUARDS])
def test_a_safeguard_taken_away_is_medium_at_least(old: Value, new: Value) -> None:
    assert reviewed(merged(BASE, old), merged(BASE, new)).risk != "low"


@pytest.mark.parametrize(
    ("kind", "place"), [("image", "a:1"), ("sif", "a.sif"), ("prefix", "/opt/a"), ("module", "a/1")]
)
def test_a_base(kind: str, place: str) -> None:
    assert reviewed(BASE, merged(BASE, {"base": {kind: place}})).risk == "medium"
