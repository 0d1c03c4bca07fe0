"""Facts at lines: the gravest ten, each at the line that it is about."""

from pathlib import PurePosixPath

import pytest
from diff_samples import artifact, base, both, fields, in_target, reviewed, sha, target, version, wheel
from msgspec.structs import replace

from envspec.app.annotate import AnnotatedFiles, annotate
from envspec.lock.write import dumps
from envspec.review.annotations import Annotation, code_quality, line_in, workflow_commands
from envspec.review.diff.model import Side
from envspec.review.diff.review import review
from envspec.review.diff.rows import Fact, Review

LOCK = PurePosixPath("locks/demo/envspec.lock")
SPEC_PATH = PurePosixPath("specs/demo.toml")
SPEC = """\
[env]
name = "demo"
python = "3.12"
exclude-newer = "7 days"

[env.exclude-newer-index]
internal = { reason = "ours" }

[pip]
dependencies = ["lib"]
allow-source = ["lib"]
accept = { yanked = "known", driver-too-old = "known" }

[pip.sources]
inner = "internal"
lib = "internal"

[targets.hopper]
platform = "linux-64"
cuda = "12.8"

[targets.hopper.pip]
overrides = ["a>=1"]
"""


def of(*facts: Fact) -> Review:
    return Review("demo", "old", "new", facts, (), (), (), (), ())


def only(found: Review, lock_text: str = "") -> Annotation:
    (one,) = annotate(found, AnnotatedFiles(lock_text, SPEC, SPEC_PATH))
    return one


def test_the_forged_file_goes_before_many_of_another_kind() -> None:
    """And the eleventh is counted, where GitHub would drop it without a word."""
    old = base()
    many = tuple(wheel(f"lib-{n:02}", "2.0") for n in range(14))
    old = replace(old, targets=tuple(replace(one, pins=(*one.pins, *many)) for one in old.targets))
    back = both(*(version("1.0", pin.name) for pin in many), artifact("year", sha256=sha("evil")))
    found = review(Side("old", old), Side("new", back(old)))
    lines = workflow_commands(annotate(found, AnnotatedFiles()), LOCK).splitlines()
    assert len(lines) == 10
    assert "title=year::SAME VERSION, DIFFERENT FILE" in lines[0]
    every = list(annotate(found, AnnotatedFiles()))
    assert lines[-1].endswith(f"(and {len(every) - 10} more in the comment)") and "more in" not in "".join(lines[:-1])
    assert code_quality(every, LOCK).count('"location"') == len(every), "GitLab takes all"


def test_ten_are_ten() -> None:
    found = of(*(Fact("high", f"code-{n}", str(n)) for n in range(10)))
    assert "more in the comment" not in workflow_commands(annotate(found, AnnotatedFiles()), LOCK)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (target("hopper", driver_floor="580.65.06"), "driver-floor = "),
        (target("hopper", cuda="13.0"), "cuda = "),
        (target("hopper", glibc="2.34"), "glibc = "),
        (target("hopper", python="3.13"), "python = "),
    ],
)
def test_a_targets_fact_is_at_the_targets_own_line(change: object, line: str) -> None:
    found = reviewed(change)  # type: ignore[arg-type]
    text = dumps(change(base()))  # type: ignore[operator]
    annotation = next(iter(annotate(found, AnnotatedFiles(text))))
    lines = text.splitlines()
    assert annotation.file is None and lines[annotation.line - 1].startswith(line)
    assert lines.index("[targets.hopper]") < annotation.line - 1 < lines.index("[targets.hopper]") + 9


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (Fact("medium", "allow-source-added", "x"), 'allow-source = ["lib"]'),
        (Fact("medium", "accept-added", "x"), "accept = { yanked"),
        (Fact("high", "exception-added", "x"), "[env.exclude-newer-index]"),
        (Fact("high", "source-changed", "x", package="lib"), 'lib = "internal"'),
        (Fact("medium", "override-added", "x", ("hopper",)), 'overrides = ["a>=1"]'),
        (Fact("medium", "channels-changed", "x"), None),
    ],
)
def test_what_the_spec_asks_for_is_at_the_specs_line(fact: Fact, line: str | None) -> None:
    annotation = only(of(fact), dumps(base()))
    if line is None:
        assert annotation.file is None, "where the spec has no such line, the lock"
    else:
        assert annotation.file == SPEC_PATH
        assert SPEC.splitlines()[annotation.line - 1].startswith(line)
    assert "file=specs/demo.toml," in workflow_commands([annotation], LOCK) or line is None


def test_a_packages_fact_is_at_its_version_in_the_lock() -> None:
    change = in_target("hopper", fields("lib", licence="GPL-3.0-only"))
    text = dumps(change(base()))
    annotation = next(iter(annotate(reviewed(change), AnnotatedFiles(text, SPEC, SPEC_PATH))))
    assert text.splitlines()[annotation.line - 1 : annotation.line + 1] == ["[[pip]]", 'name = "lib"']


UV = """\
[[package]]
name = "app"
version = "1.0"
dependencies = [
    { name = "torch" },
]

[[package]]
name = "torch"
version = "2.8.0"
source = { registry = "https://example.org" }

[[package]]
name = "torch"
version = "2.9.0+cu128"
"""


@pytest.mark.parametrize(
    ("text", "name", "version", "line"),
    [
        (UV, "torch", "2.9.0+cu128", 14),
        (UV, "torch", "2.8.0", 9),
        (UV, "torch", "", 5),
        ("a==1\ntorch-vision==2.8\nTorch==2.8.0 \\\n  --hash=sha256:1\n", "torch", "2.8.0", 3),
        ("ruamel.yaml==1.0\n", "ruamel-yaml", "1.0", 1),
        ("- conda: https://x/linux-64/numpy-base-2.1-h0_0.conda\n- conda: https://x/linux-64/numpy-2.1-h0_0.conda\n",
         "numpy", "2.1", 2),
        ("package:\n- name: numpy\n  version: 2.1\n- name: zlib\n  version: '1.3'\n", "zlib", "1.3", 4),
        ("torch==12.8.0\n", "torch", "2.8.0", 1),
        ("nothing\n", "torch", "2.8.0", None),
    ],
)  # fmt: skip
def test_the_block_in_another_tools_file(text: str, name: str, version: str, line: int | None) -> None:
    assert line_in(text, name, version) == line
