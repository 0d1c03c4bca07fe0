"""What is taken for installed, and what for damaged, from records and files laid out by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from envspec.install.installed import paths_of_others, read_packages, site_packages
from envspec.install.pip import uninstall

PYTHON = "3.12"


def dist(prefix: Path, name: str = "app", version: str = "1.0", python: str = PYTHON, **files: str) -> Path:
    """A pip package with `<name>.py`, a script, and what else is given by path; gives its dist-info folder."""
    site = site_packages(prefix, python)
    info = site / f"{name}-{version}.dist-info"
    contents = {f"{name}.py": "x = 1\n", f"../../../bin/{name}": "#!x\n", f"{info.name}/METADATA": "Name: x\n", **files}
    rows = []
    for path, text in contents.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        rows.append(f"{path},sha256=x,{len(text)}")
    (info / "RECORD").write_text("\n".join([*rows, f"{info.name}/RECORD,,", "__pycache__/gone.pyc,,"]) + "\n")
    return info


def conda(prefix: Path, name: str, files: Mapping[str, str], **fields: object) -> Path:
    """A conda package with these files; gives its record."""
    record = prefix / "conda-meta" / f"{name}-1.0-0.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    for path, text in files.items():
        (prefix / path).parent.mkdir(parents=True, exist_ok=True)
        (prefix / path).write_text(text)
        paths.append({"_path": path, "path_type": "hardlink", "size_in_bytes": len(text)})
    content = {
        "name": name,
        "version": "1.0",
        "build": "0",
        "sha256": "aa",
        "files": list(files),
        "paths_data": {"paths": paths},
        **fields,
    }
    record.write_text(json.dumps(content))
    return record


def test_nothing_is_there(tmp_path: Path) -> None:
    found = read_packages(tmp_path / "none", PYTHON)
    assert (found.conda, found.pip, found.debris) == ({}, {}, ())


def test_sound_packages(tmp_path: Path) -> None:
    info = dist(tmp_path, "Some_App", "1.0+cu126")
    conda(tmp_path, "openssl", {"lib/libssl.so": "elf"})
    found = read_packages(tmp_path, PYTHON)
    app = found.pip["some-app"]
    assert (app.version, app.folder, app.fault) == ("1.0+cu126", info, "")
    ssl = found.conda["openssl"]
    assert (ssl.version, ssl.build, ssl.sha256, ssl.fault) == ("1.0", "0", "aa", "")


@pytest.mark.parametrize("row", ["app.py", "app.py,sha256=x", "app.py,sha256=x,9x", "app.py,,,,"])
def test_a_row_of_record_with_fields_too_few_or_too_many(tmp_path: Path, row: str) -> None:
    info = dist(tmp_path)
    (info / "RECORD").write_text(f"{row}\n{info.name}/METADATA,,\n{info.name}/RECORD,,\n")
    assert read_packages(tmp_path, PYTHON).pip["app"].fault == ""


def test_an_empty_line_of_record_is_no_row(tmp_path: Path) -> None:
    info = dist(tmp_path)
    (info / "RECORD").write_text("\n,,\n" + (info / "RECORD").read_text())
    assert read_packages(tmp_path, PYTHON).pip["app"].fault == ""


def test_what_conda_installed_is_no_pip_package(tmp_path: Path) -> None:
    info = dist(tmp_path, "numpy")
    conda(tmp_path, "numpy", {str((info / "METADATA").relative_to(tmp_path)): "Name: numpy\n"})
    assert read_packages(tmp_path, PYTHON).pip == {}


@pytest.mark.parametrize("path", ["app.py", "../../../bin/app"])
def test_a_missing_file_is_damage(path: str, tmp_path: Path) -> None:
    info = dist(tmp_path)
    (info.parent / path).unlink()
    assert read_packages(tmp_path, PYTHON).pip["app"].fault == f"{path} is missing"


def test_a_file_of_another_size_is_damage(tmp_path: Path) -> None:
    (dist(tmp_path).parent / "app.py").write_text("")
    assert read_packages(tmp_path, PYTHON).pip["app"].fault == "app.py has 0 bytes instead of 6"


def test_compiled_files_come_and_go(tmp_path: Path) -> None:
    assert read_packages(tmp_path, PYTHON).pip == {}
    dist(tmp_path)  # its RECORD lists a .pyc that isn't there
    assert read_packages(tmp_path, PYTHON).pip["app"].fault == ""


@pytest.mark.parametrize("file", ["RECORD", "METADATA"])
def test_a_dist_info_that_no_installer_can_read_is_debris(file: str, tmp_path: Path) -> None:
    info = dist(tmp_path)
    (info / file).unlink()
    found = read_packages(tmp_path, PYTHON)
    assert (found.pip, found.debris) == ({}, (info,))


def test_two_versions_side_by_side_are_damage(tmp_path: Path) -> None:
    dist(tmp_path, version="1.0")
    dist(tmp_path, version="2.0")
    assert read_packages(tmp_path, PYTHON).pip["app"].fault == "version 1.0 is installed too"


def test_another_pythons_package_is_damage(tmp_path: Path) -> None:
    dist(tmp_path, "old", python="3.11")
    dist(tmp_path, "app", "1.0", python="3.13")
    dist(tmp_path, "app", "2.0")
    found = read_packages(tmp_path, PYTHON)
    assert found.pip["old"].fault == "its folder is lib/python3.11/site-packages"
    assert (found.pip["app"].version, found.pip["app"].fault) == ("2.0", "")


@pytest.mark.parametrize("content", ["", '{"name": ', "[]", '{"version": "1"}', '"x"'])
def test_a_broken_record_is_debris(content: str, tmp_path: Path) -> None:
    record = conda(tmp_path, "x", {})
    record.write_text(content)
    found = read_packages(tmp_path, PYTHON)
    assert (found.conda, found.debris) == ({}, (record,))


def test_damage_of_conda_packages(tmp_path: Path) -> None:
    conda(tmp_path, "gone", {"lib/a": "a"})
    conda(tmp_path, "cut", {"lib/b": "bbb"})
    (tmp_path / "lib/a").unlink()
    (tmp_path / "lib/b").write_text("")
    faults = {name: package.fault for name, package in read_packages(tmp_path, PYTHON).conda.items()}
    assert faults == {"gone": "lib/a is missing", "cut": "lib/b has 0 bytes instead of 3"}


def test_sizes_that_prove_nothing(tmp_path: Path) -> None:
    """A file that the prefix was written into, one that two packages have, and one that envspec writes over."""
    entry = {"_path": "bin/tool", "path_type": "hardlink", "size_in_bytes": 1, "prefix_placeholder": "/long"}
    conda(tmp_path, "tool", {"bin/tool": "#!/prefix"}, paths_data={"paths": [entry]})
    conda(tmp_path, "one", {"share/both": "one"})
    conda(tmp_path, "two", {"share/both": "other"})
    conda(tmp_path, "conda", {"bin/activate": "conda's"})
    (tmp_path / "bin/activate").unlink()
    found = read_packages(tmp_path, PYTHON, ["bin/activate"])
    assert [package.fault for package in found.conda.values()] == ["", "", "", ""]


def test_uninstall_removes_what_is_recorded_and_nothing_else(tmp_path: Path) -> None:
    info = dist(tmp_path, **{"app/deep/data.txt": "x", "../../../share/app/readme": "x"})
    dist(tmp_path, "other", **{"shared/other.py": "x"})
    cache = info.parent / "__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / f"app.cpython-{PYTHON.replace('.', '')}.pyc").write_text("x")
    (info.parent / "app" / "users.txt").write_text("mine")
    uninstall(read_packages(tmp_path, PYTHON).pip["app"], tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    site = f"lib/python{PYTHON}/site-packages"
    assert left == [
        "bin/other",
        f"{site}/app/users.txt",
        f"{site}/other-1.0.dist-info/METADATA",
        f"{site}/other-1.0.dist-info/RECORD",
        f"{site}/other.py",
        f"{site}/shared/other.py",
    ]
    assert not info.exists() and not cache.exists() and not (tmp_path / "share").exists()


def test_uninstall_stays_in_the_prefix(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    outside = tmp_path / "outside.txt"
    outside.write_text("x")
    info = dist(prefix)
    with (info / "RECORD").open("a") as record:
        record.write(f"../../../../outside.txt,,\n{outside},,\n")
    uninstall(read_packages(prefix, PYTHON).pip["app"], prefix)
    assert outside.exists() and not (info.parent / "app.py").exists()


def test_uninstall_can_be_done_again(tmp_path: Path) -> None:
    """An uninstall that was killed half-way has its RECORD still."""
    info = dist(tmp_path)
    (info.parent / "app.py").unlink()
    (tmp_path / "bin" / "app").unlink()
    uninstall(read_packages(tmp_path, PYTHON).pip["app"], tmp_path)
    assert not info.exists()


@pytest.mark.parametrize("by_pip", [True, False])
def test_what_conda_and_pip_both_have_is_pips_there(by_pip: bool, tmp_path: Path) -> None:
    """conda's ninja and PyPI's: pip comes last, so conda's record says nothing of that file."""
    conda(tmp_path, "ninja", {"bin/ninja": "of conda", "share/ninja": "x"})
    dist(tmp_path, "ninja", **{"../../../bin/ninja": "of pip, and longer"})
    if not by_pip:
        (tmp_path / "bin/ninja").write_text("of conda")
    found = read_packages(tmp_path, PYTHON, (), ["ninja"])
    assert found.conda["ninja"].fault == ""
    assert bool(found.pip["ninja"].fault) != by_pip
    uninstall(found.pip["ninja"], tmp_path, paths_of_others(found.pip["ninja"], found))
    # it was pip's, and is linked anew
    assert read_packages(tmp_path, PYTHON).conda["ninja"].fault == "bin/ninja is missing"
