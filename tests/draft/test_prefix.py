"""A running environment as the beginning of a spec: by its installers' records, without running its code."""

import json
from pathlib import Path

import pytest
from support.drafts import settled

from envspec.base.errors import InputError
from envspec.draft.prefix import read_prefix


def install(prefix: Path, name: str, version: str, *requires: str, **records: str) -> None:
    info = prefix / f"lib/python3.11/site-packages/{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n\n")
    for file, text in records.items():
        (info / file.replace("__", ".")).write_text(text)


def test_a_venv_by_what_nothing_else_requires(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    (tmp_path / "lib/python3.11/site-packages/evil.pth").write_text("import os; os._exit(7)\n")
    git = {"url": "https://git.example.org/clip.git", "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}
    install(tmp_path, "torch", "2.9.1+cu128", "numpy", "sympy", "optree; extra == 'opt'")
    install(tmp_path, "numpy", "2.4.6", REQUESTED="")
    install(tmp_path, "sympy", "1.14.0")
    install(tmp_path, "optree", "0.17")
    install(tmp_path, "pip", "25.0")
    install(tmp_path, "clip", "1.0", direct_url__json=json.dumps(git))
    install(tmp_path, "tqdm", "4.67")
    install(
        tmp_path, "mine", "0.1", "tqdm", direct_url__json='{"url": "file:///src/mine", "dir_info": {"editable": true}}'
    )
    install(tmp_path, "odd", "1", direct_url__json="[")
    found = read_prefix(tmp_path)
    assert (settled(found).python, settled(found).cuda) == ("3.11", ("12.8",))
    assert found.pip == (
        f"clip @ git+https://git.example.org/clip.git@{'a' * 40}", "numpy==2.4.6", "optree==0.17", "torch==2.9.1",
        "tqdm==4.67",
    )  # fmt: skip
    notes = "\n".join(map(str, found.notes))
    assert "mine 0.1 is left out: it is installed editable" in notes and "records can't be read" in notes


def test_a_conda_prefix_by_its_history(tmp_path: Path) -> None:
    meta = tmp_path / "conda-meta"
    meta.mkdir()
    (meta / "history").write_text(
        "==> 2026-01-01 00:00:00 <==\n# update specs: ['python=3.11', 'ffmpeg=7', \"numpy[version='>=1']\", 'gone']\n"
        "# remove specs: ['gone']\n"
    )
    for name, version in (("python", "3.11.9"), ("ffmpeg", "7.1"), ("cuda-version", "12.6")):
        url = f"https://channels.example.org/conda-forge/linux-64/{name}-{version}-0.conda"
        (meta / f"{name}-{version}-0.json").write_text(json.dumps({"name": name, "version": version, "url": url}))
    install(tmp_path, "ffmpeg", "7.1", INSTALLER="conda")
    install(tmp_path, "einops", "0.8.1", INSTALLER="pip\n")
    found = read_prefix(tmp_path)
    assert (settled(found).python, settled(found).cuda, found.channels) == ("3.11", ("12.6",), ("conda-forge",))
    assert found.conda == ("ffmpeg 7.*", "numpy >=1") and found.pip == ("einops==0.8.1",)


def test_a_folder_that_is_no_environment(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is no environment"):
        read_prefix(tmp_path)
