"""A RECORD has one digest, in the wheel and where it is installed; the check holds the second to the first."""

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envspec_check.checks.installed import other_records, record_digest as digest_of_installed
from envspec_check.environment import Installed

from envspec.prove.smoke.run.case import CONFIG, Folders, SmokeCase, record_digest, record_digests

SHA = "a" * 64
FILE = "alpha-1.0-py3-none-any.whl"
IN_THE_WHEEL = """alpha/__init__.py,sha256=A,3
alpha-1.0.data/purelib/more.py,sha256=B,3
alpha-1.0.data/scripts/run,sha256=C,3
alpha-1.0.dist-info/METADATA,sha256=D,3
alpha-1.0.dist-info/RECORD,,
"""
INSTALLED = """../../../bin/run,sha256=E,9
alpha-1.0.dist-info/INSTALLER,sha256=F,2
alpha-1.0.dist-info/METADATA,sha256=D,3
alpha-1.0.dist-info/RECORD,,
alpha-1.0.dist-info/direct_url.json,sha256=G,2
alpha-1.0.dist-info/uv_cache.json,sha256=H,2
alpha/__init__.py,sha256=A,3
alpha/__pycache__/__init__.cpython-311.pyc,,
more.py,sha256=B,3
"""


def kept_wheel(artifacts: Path, record: str = IN_THE_WHEEL) -> Path:
    """A wheel with that RECORD, where envspec's cache of files has it."""
    path = artifacts / SHA / FILE
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("alpha-1.0.dist-info/RECORD", record)
    return path


def there(record: str, installer: str = "uv") -> Installed:
    return Installed("alpha", "1.0", "", installer, SimpleNamespace(read_text=lambda name: record))


def config(digest: str | None) -> dict[str, Any]:
    lock = {"pip": [{"name": "alpha", "artifacts": [{"file": FILE, "sha256": SHA}]}, {"name": "beta"}]}
    return {"lock": lock, "records": {SHA: digest} if digest else {}}


def test_a_wheel_and_what_is_installed_of_it_have_one_digest(tmp_path: Path) -> None:
    digest = record_digest(kept_wheel(tmp_path))
    assert digest == digest_of_installed(INSTALLED)
    assert other_records(config(digest), [there(INSTALLED)]) == (1, [])


@pytest.mark.parametrize("old", ["__init__.py,sha256=A", "more.py,sha256=B,3\n"])
def test_another_build_is_told(tmp_path: Path, old: str) -> None:
    known = config(record_digest(kept_wheel(tmp_path)))
    count, told = other_records(known, [there(INSTALLED.replace(old, old[:-3]))])
    assert count == 1 and told == ["alpha 1.0 is another build than the locked wheel's: RECORD"]
    # what nobody saw, and what conda brought, isn't compared
    assert other_records(config(None), [there("")]) == other_records(known, [there("", "conda")]) == (0, [])


def test_what_is_no_wheel_has_no_digest(tmp_path: Path) -> None:
    (tmp_path / SHA).mkdir()
    assert record_digests(tmp_path, [(SHA, FILE)]) == {}
    (tmp_path / SHA / FILE).write_bytes(b"PK\x03\x04 cut short")
    assert record_digests(tmp_path, [(SHA, FILE)]) == {}


def test_the_check_is_told_of_wheels_that_were_seen(tmp_path: Path) -> None:
    kept_wheel(tmp_path / "artifacts")
    carried = {CONFIG: json.dumps(config(None)), "check/__main__.py": ""}
    case = SmokeCase("s", "t", "s.toml", "locks", "linux-64", None, "k", carried, wheels=((SHA, FILE), ("b" * 64, "b")))
    files = dict(Folders(tmp_path / "smoke", tmp_path / "results").carry_with_records(case).texts)
    assert json.loads(files[CONFIG])["records"] == {SHA: digest_of_installed(INSTALLED)}
    assert files["check/__main__.py"] == ""
