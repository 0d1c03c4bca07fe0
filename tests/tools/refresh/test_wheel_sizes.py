"""Sizes of the PyTorch indexes' wheels, which their pages don't say: asked of whoever serves them, by one byte each."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.index import Index, status
from support.packages import wheel

from tools.refresh import __main__ as program
from tools.refresh.torch_table import files_without_size, with_sizes

TORCH, OTHER = wheel("torch", "2.0.0"), wheel("torch", "2.1.0")


def table(*rows: str) -> str:
    return '{\n "projects": {"torch": {"2.0.0": {"files": [\n' + ",\n".join(rows) + "\n ]}}}\n}\n"


def row(file: str, sha256: str, more: str = "") -> str:
    return f'  {{"file": "{file}", "sha256": "{sha256}", "metadata": 0{more}}}'


def test_only_what_lacks_one_gets_one() -> None:
    a, b, c = "a" * 64, "b" * 64, "c" * 64
    text = table(
        row("x.whl", a, ', "upload_time": "2026-01-01T00:00:00Z"'), row("x.whl", b), row("y.whl", c, ', "size": 7')
    )
    assert files_without_size(text) == (("x.whl", a), ("x.whl", b))
    sized = json.loads(with_sizes(text, {("x.whl", a): 5, ("y.whl", c): 9}))["projects"]["torch"]["2.0.0"]["files"]
    assert [one.get("size") for one in sized] == [5, None, 7]


def test_every_shipped_table_is_read() -> None:
    for path in (program.TABLE.parent / "wheels").glob("*.json"):
        text = path.read_text("utf-8")
        files = [f for p in json.loads(text)["projects"].values() for r in p.values() for f in r["files"]]
        assert len(files_without_size(text)) == sum("size" not in one for one in files) > 0


def test_an_index_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    (data / "wheels").mkdir(parents=True)
    path = data / "wheels" / "cu126.json"
    path.write_text(table(row(TORCH.file, TORCH.sha256), row(OTHER.file, "e" * 64)), "utf-8")
    monkeypatch.setattr(program, "TABLE", data / "torch.toml")
    monkeypatch.setenv("ENVSPEC_CACHE_DIR", str(tmp_path / "cache"))
    with Index(form="html") as index:
        index.add(TORCH, OTHER)
        monkeypatch.setattr(program, "index_address", lambda *_: index.url)
        ran = CliRunner().invoke(program.command, ["sizes", "cu126", "--write"], standalone_mode=False)
        assert ran.return_value == 0, ran.output
        found = json.loads(path.read_text("utf-8"))["projects"]["torch"]["2.0.0"]["files"]
        assert [one.get("size") for one in found] == [len(TORCH.content), None], "another hash is another file"
        path.write_text(table(row(TORCH.file, TORCH.sha256)), "utf-8")
        index.fail("/files/", status(404))
        ran = CliRunner().invoke(program.command, ["sizes", "cu126", "--write"], standalone_mode=False)
        assert ran.return_value == 0 and "size" not in path.read_text("utf-8")
