"""The smoke check as one file among recipes: a zipapp that every Python makes and runs alike, and builds unpack."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import pytest
from hypothesis import given, settings, strategies as st
from recipe_plans import ROOT, shipped, shipped_spec
from support.examples import examples
from support.matrix import first_by_day

from envspec.base.errors import ToolError
from envspec.export.carried import carried_files, carried_sources, check_digest, check_files, differing_entries
from envspec.export.folder import render
from envspec.export.plan import BUILD_SCRIPT, CHECK, CHECK_ARCHIVE, SUMS, decode, digest, encode, read_sums
from envspec.install.interpreter import find_interpreter

PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
CONFIG = ROOT / "recipes" / "cpu-py311" / "cpu" / "target.json"


def archive() -> bytes:
    return encode(carried_sources(carried_files())[CHECK_ARCHIVE])


def python_of(version: str) -> str:
    try:
        return str(find_interpreter(version, os.environ))
    except ToolError as error:
        pytest.skip(str(error))


def test_it_is_stored_sorted_and_of_one_time_and_mode() -> None:
    with ZipFile(io.BytesIO(archive())) as opened:
        entries = opened.infolist()
        texts = {f"{CHECK}/{one.filename}": opened.read(one).decode() for one in entries}
    assert texts == check_files()
    assert [one.filename for one in entries] == sorted(one.filename for one in entries)
    assert {(one.compress_type, one.date_time, one.external_attr, one.create_system, one.extra) for one in entries} == {
        (ZIP_STORED, (1980, 1, 1, 0, 0, 0), 0o100644 << 16, 3, b"")
    }


@pytest.mark.slow
@pytest.mark.parametrize("version", first_by_day(1, PYTHONS))
def test_every_python_makes_the_same_bytes(version: str, tmp_path: Path) -> None:
    """By the very code, which needs the standard library alone."""
    source = (ROOT / "envspec" / "export" / "carried.py").read_text()
    body = source[source.index("def _pack(") : source.index("\n\n\ndef differing_entries")]
    program = (
        "from __future__ import annotations\n"
        "import io, json, sys\nfrom zipfile import ZipFile, ZipInfo\n"
        "encode = str.encode\ndecode = lambda content: content.decode('utf-8', 'surrogateescape')\n"
        f"{body}\n"
        "packed = _pack([tuple(one) for one in json.load(sys.stdin)])\n"
        "sys.stdout.buffer.write(packed.encode('utf-8', 'surrogateescape'))\n"
    )
    files = [(path.removeprefix(f"{CHECK}/"), text) for path, text in check_files().items()]
    words = [python_of(version), "-I", "-c", program]
    made = subprocess.run(words, input=json.dumps(files).encode(), capture_output=True, check=True)
    assert made.stdout == archive()


@pytest.mark.slow
@pytest.mark.parametrize("version", first_by_day(1, PYTHONS))
def test_it_runs_as_it_is_under_every_python(version: str, tmp_path: Path) -> None:
    """And knows its own digest, which is that of the folder."""
    (tmp_path / CHECK_ARCHIVE).write_bytes(archive())
    words = [python_of(version), "-I", CHECK_ARCHIVE, "--config", str(CONFIG), "--only", "static", "--json", "-"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["complete"] and report["check_digest"] == check_digest(check_files())


@pytest.mark.by_day(1)
@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_processes_of_every_kind_start_from_it(way: str, tmp_path: Path) -> None:
    (tmp_path / CHECK_ARCHIVE).write_bytes(archive())
    program = (
        "import multiprocessing, sys\nsys.path.insert(0, sys.argv[1])\n"
        "from envspec_check.environment import check_digest\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context(sys.argv[2]).Pool(1) as pool:\n"
        "        print(pool.apply(check_digest))\n"
    )
    (tmp_path / "program.py").write_text(program)
    words = [sys.executable, "-I", "program.py", str(tmp_path / CHECK_ARCHIVE), way]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == check_digest(check_files())


@pytest.mark.parametrize(("spec", "target"), [("cpu-py311", "cpu"), ("mm-v2.9", "cu128-hopper")])
def test_the_list_is_of_the_archive_and_of_the_files_in_it(spec: str, target: str) -> None:
    plan = shipped(spec, target)
    listed = dict(read_sums(plan.sources.files[plan.carried_file(SUMS)]))
    assert listed[CHECK_ARCHIVE] == digest(plan.sources.files[plan.carried_file(CHECK_ARCHIVE)])
    assert all(listed[path] == digest(text) for path, text in check_files().items())
    assert not any(path.startswith(plan.carried_file(f"{CHECK}/")) for path in plan.sources.files)


def test_a_dockerfile_of_one_target_comes_with_few_files() -> None:
    assert len(render(shipped("cpu-py311", "cpu"), "dockerfile")) <= 15


def changed(text: bytes = b"print()\n", name: str = "envspec_check/report.py") -> bytes:
    files = {path.removeprefix(f"{CHECK}/"): text.encode() for path, text in check_files().items()}
    made = io.BytesIO()
    with ZipFile(made, "w") as opened:
        for path, content in sorted({**files, name: text}.items()):
            opened.writestr(ZipInfo(path), content)
    return made.getvalue()


def test_a_changed_file_in_it_is_named() -> None:
    whole = archive().decode(errors="surrogateescape")
    for name in ("envspec_check/report.py", "envspec_check/more.py"):
        assert differing_entries(whole, changed(name=name).decode(errors="surrogateescape")) == (name,)
    assert differing_entries(whole, whole) == ()
    assert len(differing_entries(whole, "no zip")) == len(check_files())


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6), st.integers(0, 400))
def test_a_damaged_archive_is_only_another_one(changes: list[tuple[int, int]], end: int) -> None:
    made = io.BytesIO()
    with ZipFile(made, "w") as opened:
        opened.writestr(ZipInfo("one.py"), b"one = 1\n")
        opened.writestr(ZipInfo("two.py"), b"two = 2\n")
    content = bytearray(made.getvalue())
    for place, value in changes:
        content[place % len(content)] = value
    names = differing_entries(decode(made.getvalue()), decode(bytes(content[:end])))
    assert names == tuple(sorted(set(names)))


@pytest.mark.slow
def test_the_builds_commands_unpack_it_and_refuse_another_one(tmp_path: Path) -> None:
    plan = shipped_spec("mm-v2.9").targets[0]
    for number, content in enumerate((archive(), changed())):
        place = tmp_path / str(number)
        place.mkdir()
        for name, text in plan.image.carried.items():
            if not name.startswith(f"{CHECK}/"):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text, encoding="utf-8")
        shutil.copy(ROOT / "LICENSE", place / "requirements")
        (place / SUMS).write_text(plan.sources.files[plan.carried_file(SUMS)], encoding="utf-8")
        (place / CHECK_ARCHIVE).write_bytes(content)
        (tmp_path / BUILD_SCRIPT).write_text(carried_files()[BUILD_SCRIPT])
        words = ["sh", str(tmp_path / BUILD_SCRIPT), "sealed", str(place), sys.executable]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if number:
            assert done.returncode and f"{CHECK_ARCHIVE}: FAILED" in done.stdout
        else:
            assert done.returncode == 0, done.stderr
            assert (place / SUMS).read_text() == plan.image.carried[SUMS]
            there = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
            assert there - {"requirements"} == set(plan.image.carried)
