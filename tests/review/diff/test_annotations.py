"""Facts at lines: the gravest ten, each at the line that it is about."""

import json
from datetime import datetime, timezone
from pathlib import PurePosixPath

import pytest
from diff_samples import artifact, base, both, fields, in_target, reviewed, sha, target, version, wheel
from msgspec.structs import replace
from support.sound import sound_target

from envspec.app.annotate import AnnotatedFiles, annotate
from envspec.lock.formats.foreign.side import Side
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Lock
from envspec.lock.write import dumps
from envspec.review.annotations import code_quality, line_in, workflow_commands
from envspec.review.diff.judged import with_spec_changes
from envspec.review.diff.of_specs import of_specs
from envspec.review.diff.review import review
from envspec.review.diff.rows import Fact, Review
from envspec.review.diff.settings import of_exceptions
from envspec.spec.parse import parse_spec

LOCK = PurePosixPath("locks/demo/envspec.lock")
SPEC_PATH = PurePosixPath("specs/demo.toml")


def of(*facts: Fact) -> Review:
    return Review("demo", "old", "new", facts, (), (), (), (), ())


def test_the_forged_file_goes_before_many_of_another_kind() -> None:
    """And the eleventh is counted, where GitHub would drop it without a word."""
    old = base()
    many = tuple(wheel(f"lib-{n:02}", "2.0") for n in range(14))
    old = replace(old, targets=tuple(replace(one, pins=(*one.pins, *many)) for one in old.targets))
    back = both(*(version("1.0", pin.name) for pin in many), artifact("year", sha256=sha("evil")))
    found = review(Side("old", old), Side("new", back(old)))
    lines = workflow_commands(annotate(found, AnnotatedFiles()), LOCK).splitlines()
    assert len(lines) == 10
    assert "title=year 2026.1.0::SAME VERSION, DIFFERENT FILE" in lines[0]
    every = list(annotate(found, AnnotatedFiles()))
    assert lines[-1].endswith(f"(and {len(every) - 10} more in the comment)") and "more in" not in "".join(lines[:-1])
    assert code_quality(every, LOCK).count('"location"') == len(every), "GitLab takes all"


def test_a_title_says_what_moved_from_where_to_where() -> None:
    """On GitHub's page of a file nothing else does; GitLab's list has it in front."""
    old = base()
    change = both(version("1.0", "lib"))
    every = list(annotate(review(Side("old", old), Side("new", change(old))), AnnotatedFiles()))
    assert {one.title for one in every} == {"lib 2.5.1 -> 1.0"}
    assert all(
        line.partition("title=")[2].startswith("lib 2.5.1 -> 1.0::")
        for line in workflow_commands(every, LOCK).splitlines()
    )
    assert json.loads(code_quality(every, LOCK))[0]["description"].startswith("lib 2.5.1 -> 1.0: goes back")


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


LAB = """\
[env]
name = "demo"
python = "3.12"
exclude-newer = "7 days"
{env}
[pip]
dependencies = ["lib"]
{pip}
[targets.cpu]
platform = "linux-64"
{cpu}
[targets.hopper]
platform = "linux-64"
{hopper}
{tables}
"""


def revision(**parts: str) -> str:
    return LAB.format(**{key: parts.get(key, "") for key in ("env", "pip", "cpu", "hopper", "tables")})


def spec_review(old: str, new: str) -> Review:
    """A review of two revisions of a spec, whose locks have the same package."""
    before, after = (parse_spec(text, str(SPEC_PATH)) for text in (old, new))
    locks = []
    for one in (before, after):
        pins = [wheel("lib", "1.0")]
        targets = [sound_target(target.name, target_inputs(one, target), pins) for target in one.targets]
        locks.append(Lock("demo", spec_inputs(one), tuple(targets)))
    found = review(Side("old", locks[0]), Side("new", locks[1]))
    exceptions = of_exceptions(
        before.newer_for, after.newer_for, datetime(2026, 1, 1, tzinfo=timezone.utc), (None, None)
    )
    return with_spec_changes(found, (*of_specs(before, after), *exceptions))


INTERNAL = 'indexes = { internal = "https://a.example.org/simple" }'
PAGE = 'find-links = { extra = "https://a.example.org/x" }'
AT_THE_LINE = [
    ("pip", "", 'allow-source = ["lib"]', "allow-source"),
    ("pip", "", 'accept = { driver-too-old = "known" }', "accept"),
    ("pip", "", '[pip.accept]\nmajor-jump.lib = "known"', "major-jump"),
    ("env", "", '[env.exclude-newer-package]\nlib = { reason = "ours" }', "lib ="),
    ("pip", INTERNAL, f'{INTERNAL}\nsources = {{ lib = "internal" }}', "sources"),
    ("pip", f'{INTERNAL}\nsources = {{ lib = "internal" }}', INTERNAL, "[pip]"),
    ("pip", INTERNAL, INTERNAL.replace("a.ex", "b.ex"), "indexes"),
    ("pip", "", INTERNAL, "indexes"),
    ("pip", PAGE, PAGE.replace("a.ex", "b.ex"), "find-links"),
    ("hopper", f"[targets.hopper.pip]\n{PAGE}", f"[targets.hopper.pip]\n{PAGE}".replace("a.ex", "b.ex"), "find-links"),
    ("hopper", "", '[targets.hopper.pip]\noverrides = [{ requirement = "lib>=1", reason = "x" }]', "overrides"),
    ("pip", "", 'metadata = [{ name = "lib", dependencies = [] }]', "metadata"),
    ("pip", "", "inspect = false", "inspect"),
    ("pip", "", 'without-corrections = ["torch-numpy-2"]', "without-corrections"),
    ("pip", "", 'no-build-isolation = ["lib"]', "no-build-isolation"),
    ("pip", "", 'build-dependencies = { lib = ["lib"] }', "build-dependencies"),
    ("tables", "", '[conda]\nchannels = ["conda-forge"]', "channels"),
    ("tables", "", '[image]\nservices = ["ssh"]', "services"),
    ("tables", "[image]\nshm = '9g'", "[image]\nshm = '9g'\napt = ['curl']", "apt"),
    ("tables", "", '[audit.ignore]\nCVE-2026-1 = "no"', "CVE-2026-1"),
    ("tables", "", '[audit.accept]\nlib.yanked = "no"', "lib.yanked"),
    ("tables", '[audit]\ndeny-licences = ["GPL-*"]', "[audit]", "[audit]"),
    ("tables", '[audit]\nallow-licences = ["MIT"]', '[audit]\nallow-licences = ["*"]', "allow-licences"),
    ("tables", "", '[slurm]\noptions = ["--exclusive"]', "options"),
    ("tables", "", '[kubernetes]\nsecret = "keys"', "secret"),
    ("tables", "", '[base]\nimage = "nvcr.io/x:1"', "[base]"),
]


@pytest.mark.parametrize(("key", "old", "new", "line"), AT_THE_LINE)
def test_what_a_spec_asks_for_is_at_the_specs_line(key: str, old: str, new: str, line: str) -> None:
    text = revision(**{key: new})
    found = spec_review(revision(**{key: old}), text)
    (annotation,) = annotate(found, AnnotatedFiles("", text, SPEC_PATH))
    assert annotation.file == SPEC_PATH
    assert text.splitlines()[annotation.line - 1].startswith(line)
    assert "file=specs/demo.toml," in workflow_commands([annotation], LOCK)


def test_what_the_spec_has_no_line_of_is_in_the_lock() -> None:
    went = '[conda]\nchannels = ["conda-forge"]'
    found = spec_review(revision(tables=went), revision())
    text = dumps(base())
    (annotation,) = annotate(found, AnnotatedFiles(text, revision(), SPEC_PATH))
    assert annotation.file is None and text.splitlines()[annotation.line - 1] == "[targets.cpu]"


def test_a_packages_fact_is_at_its_version_in_the_lock() -> None:
    change = in_target("hopper", fields("lib", licence="GPL-3.0-only"))
    text = dumps(change(base()))
    annotation = next(iter(annotate(reviewed(change), AnnotatedFiles(text, revision(), SPEC_PATH))))
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
