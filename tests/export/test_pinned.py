"""What recipes pin beside packages: Debian as of a day, Python by its hash; and what they say that they don't pin."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from recipe_plans import ROOT, compiled, functions_of_builds, plan_with, shipped, with_image, with_values
from support.recipes import RENDERED, all_recipes

from envspec.base.errors import InputError
from envspec.export.carried import carried_files
from envspec.export.folder import render
from envspec.export.images import NO_SNAPSHOT, missing_pins
from envspec.export.plan import ImageReference

DIGEST = "sha256:" + "a" * 64
DEBIAN = """\
Types: deb
# http://snap.example/archive/{name}/20260811T000000Z
URIs: http://deb.example/{name}
Suites: trixie
"""
"""As the images of Debian say where they were taken from."""


def sources(folder: Path, words: str, text: str) -> tuple[str, str]:
    """What a RUN makes of a base's sources, and what it says."""
    (folder / "etc/sources.list.d").mkdir(parents=True)
    (folder / "etc/sources.list.d/debian.sources").write_text(text)
    (folder / "words").write_text(words)
    script = functions_of_builds("fail", "set_archives", "on_sources").replace(
        "/var/lib/apt/site", str(folder / "copy")
    )
    command = f"day=20261101T000000Z mirrors={folder}/words\n{script}\nset_archives"
    ran = subprocess.run(
        ["sh", "-euc", command.replace("/etc/apt", str(folder / "etc"))], capture_output=True, text=True
    )
    return (folder / "copy/sources.list.d/debian.sources").read_text(), ran.stderr


def test_the_archive_of_snapshots_is_the_bases_own(tmp_path: Path) -> None:
    both = DEBIAN.format(name="debian") + DEBIAN.format(name="debian-security")
    text, said = sources(tmp_path, "debian=http://mirror.example/deb", both)
    assert not said
    assert "\nURIs: http://snap.example/archive/debian/20261101T000000Z/\n" in text
    assert "\nURIs: http://snap.example/archive/debian-security/20261101T000000Z/\n" in text
    assert 'Check-Valid-Until "false"' in (tmp_path / "copy/own.conf").read_text()


def test_a_site_may_have_its_own(tmp_path: Path) -> None:
    text, _ = sources(tmp_path, "debian-snapshot=http://here.example/x", DEBIAN.format(name="debian"))
    assert "\nURIs: http://here.example/x/debian/20261101T000000Z/\n" in text


def test_a_base_that_names_none_ends_the_build(tmp_path: Path) -> None:
    text, said = sources(tmp_path, "", "URIs: http://deb.example/debian\n")
    assert "give debian-snapshot=URL in" in said and "2026" not in text


def test_recipes_hold_the_day() -> None:
    plan = plan_with("cpu-py311", with_image(snapshot="2026-11-01", apt=("less",)))
    for name, times in (("dockerfile", 2), ("apptainer", 1)):
        text = "".join(text for path, text in render(plan, name).items() if path.endswith(("Dockerfile", "tainer.def")))
        assert len(re.findall("--as-of 20261101T000000Z", text)) == times, "wherever apt installs"
    with pytest.raises(InputError, match="snapshots are Debian's"):
        plan_with("cpu-py311", with_image(snapshot="2026-11-01", base="ubuntu:24.04"))


def test_what_is_not_pinned_is_told() -> None:
    plan = shipped("cpu-py311", "cpu")
    images = [f"the image {plan.image.base.name} has no digest", f"the image {plan.image.uv.name} has no digest"]
    assert list(missing_pins([plan, plan], ["dockerfile", "apptainer"])) == [*images, NO_SNAPSHOT]
    assert missing_pins([plan], ["slurm", "compose"]) == ()
    assert missing_pins([plan], ["nix"]) == ("nixpkgs is the newest of its branch, until `nix flake lock` pins it",)
    base, uv = (ImageReference(one.name, DIGEST) for one in (plan.image.base, plan.image.uv))
    whole = with_values(plan, base=base, uv=uv, snapshot="2026-11-01")
    assert missing_pins([whole], ["dockerfile"]) == ()
    assert missing_pins([with_values(whole, build=None)], ["dockerfile"]) == ("the lock names no build of Python 3.11",)
    assert missing_pins([with_values(whole, build=None, base_python=True)], ["dockerfile"]) == ()
    made = with_values(compiled("mm-v2.1", "cu118"), base=base, uv=uv, snapshot="2026-11-01")
    assert [line.partition(", where")[0] for line in missing_pins([made], ["dockerfile"])] == [
        "the image nvidia/cuda:11.8.0-devel-ubuntu22.04 has no digest",
        "packages of apt in nvidia/cuda:11.8.0-devel-ubuntu22.04",
    ]
    older = with_values(made, pip=tuple(replace(step, built_with=None) for step in made.sources.pip))
    assert "the lock names no wheels to build clip, deepspeed with" in missing_pins([older], ["dockerfile"])
    inside = with_values(older, pip=tuple(replace(step, unisolated=step.packages) for step in older.sources.pip))
    assert missing_pins([inside], ["dockerfile"]) == missing_pins([made], ["dockerfile"])


def test_the_lock_names_the_build_that_uv_checks(tmp_path: Path) -> None:
    plan = shipped("cpu-py311", "cpu")
    assert plan.runtime.build is not None and plan.runtime.build_table is not None
    table = plan.sources.files[plan.runtime.build_table]
    assert f'"sha256": "{plan.runtime.build.sha256}"' in table and f"%2B{plan.runtime.build.build}-x86_64" in table
    stage = render(plan, "dockerfile")["cpu/Dockerfile"].partition(" AS python\n")[2].partition("\nFROM ")[0]
    assert "sh /layers/build.sh python python python.json" in stage
    (tmp_path / "python.json").write_text(table)
    (tmp_path / "build.sh").write_text(carried_files()["build.sh"])
    (tmp_path / "uv").write_text('#!/bin/sh\necho "$UV_PYTHON_DOWNLOADS_JSON_URL $UV_PYTHON_PREFERENCE $*"\n')
    (tmp_path / "uv").chmod(0o755)
    words = ["sh", str(tmp_path / "build.sh"), "python", "-", "python.json"]
    said = subprocess.check_output(words, env={**os.environ, "UV": str(tmp_path / "uv")}, text=True)
    assert said == f"{tmp_path}/python.json only-managed venv --quiet --python {plan.runtime.build.version} /opt/env\n"
    assert plan.runtime.build.version not in stage


def test_a_bases_own_python_is_taken_alone() -> None:
    plan = plan_with("cpu-py311", with_image(python="base"))
    assert plan.runtime.build is None and plan.runtime.build_table is None
    text = render(plan, "dockerfile")["cpu/Dockerfile"]
    assert "sh /layers/build.sh python python 3.11 only-system\n" in text
    (definition,) = (text for path, text in render(plan, "apptainer").items() if path.endswith("/apptainer.def"))
    assert "sh /layers/build.sh python - 3.11 only-system\n" in definition
    with pytest.raises(InputError, match="hasn't the Python of debian:trixie-slim"):
        plan_with("mm-v2.1", with_image(python="base", build_env={"A": "1"}))


@RENDERED
def test_pages_call_recipes_pinned_by_digest_only_where_they_are() -> None:
    recipes = [path.read_text("utf-8") for path in all_recipes().glob("*/*/Dockerfile")]
    assert recipes
    pinned = all("@sha256:" in line for text in recipes for line in re.findall("^ARG .*_IMAGE=.*$", text, re.M))
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]
    said = [page.name for page in pages if re.search("digest-pinned|pinned by digest", page.read_text("utf-8"))]
    assert pinned or said == []
