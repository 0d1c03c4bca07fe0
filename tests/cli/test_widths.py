"""What is printed for people fits the terminal: no line is wider, and no name or number is broken or left out."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_project import Envspec, Told
from support.audit import Pypi, vulnerability
from support.packages import wheel
from test_audit import OLD as UPLOADED, PATH, pypi as pypi
from test_inspect import demo as demo

sys.path.append(str(Path(__file__).resolve().parents[1] / "prove" / "smoke"))

from smoke_samples import several

from envspec.cli.console import columns, out
from envspec.cli.main import COMMANDS as ALL
from envspec.cli.table import colour_word
from envspec.prove.smoke.report.words import WIDTH, lines
from tools.reference.commands import page_of

pytest_plugins = ["cli_fixtures"]

SPEC, OLD = "specs/mm-v2.9.toml", "locks/cpu-py311/envspec.lock"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("builds", "torch", "--torch", "2.9.1"),
    ("builds", "pytorch", "--torch", "2.9"),
    ("cache", "size"),
    ("check", "specs/cpu-py311.toml"),
    ("diff", OLD, "locks/mm-v2.9/envspec.lock"),
    ("doctor", SPEC, "--gpu", "A100", "--driver", "450.51.05"),
    ("explain", "driver-too-old"),
    ("facts",),
    ("gpus",),
    ("tree", SPEC, "--target", "cpu"),
    ("why", SPEC, "numpy"),
)
WIDTHS = (60, 80, 120, 200)


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Let the captured stdout say that it is a terminal, of this width and without colours."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))


def words(text: str) -> set[str]:
    """The words of an output, but those that name columns: a table that is a list has no line of them."""
    return {word for word in text.split() if not word.isupper() and word.strip("│├└─|`-")}


@pytest.mark.by_day(6)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(
    command: tuple[str, ...], envspec: Callable[..., Told], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setenv("ENVSPEC_CACHE_DIR", str(tmp_path))
    for kind in ("artifacts", "wheels"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "some").write_text("bytes")
    whole = envspec(*command).out
    assert whole.strip()
    for width in WIDTHS:
        on_a_terminal(monkeypatch, width)
        shown = envspec(*command).out
        # a name alone may be longer: it goes on a line of its own, and stays whole
        wide = [line for line in shown.splitlines() if len(line) > width and len(line.split()) > 1]
        assert wide == []
        assert words(shown) == words(whole)


def test_a_pipe_gets_a_line_a_row(envspec: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    rows = envspec("builds", "torch", "--torch", "2.9.1").out.splitlines()
    assert max(map(len, rows)) > 100 and all(row.startswith(("TORCH", "2.9.1")) for row in rows)


def test_columns_are_taken_in_and_rows_become_lists(
    envspec: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_terminal(monkeypatch, 100)
    wrapped = envspec("gpus", "H100", "V100").out.splitlines()
    assert wrapped[0].startswith("GPU ") and len(wrapped) == 3
    on_a_terminal(monkeypatch, 82)
    wrapped = envspec("gpus", "H100").out.splitlines()
    assert wrapped[0].startswith("GPU ") and len(wrapped) == 3
    on_a_terminal(monkeypatch, 60)
    listed = envspec("builds", "torch", "--torch", "2.9.1", "--cuda", "12.8", "--python", "3.12").out.splitlines()
    assert listed[0] == "2.9.1" and any(line.startswith("  CUDA ") for line in listed)


def test_a_tree_keeps_its_trunk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from envspec.cli.console import out

    on_a_terminal(monkeypatch, 60)
    out(f"├── {'word ' * 20}\n└── {'word ' * 20}")
    lines = capsys.readouterr().out.splitlines()
    assert [line[:8] for line in lines] == ["├── word", "│       ", "└── word", "        "]


SOME_WIDTHS = (60, 100, 200)


@pytest.mark.slow
def test_audit_outdated_link_and_inspect(
    pypi: Pypi, envspec: Envspec, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pypi.know("lib", "2.5", vulnerability("PYSEC-1", "CVE-1", fixed=("2.6",), text="Things go wrong. " * 9))
    pypi.add(wheel("lib", "2.6"), wheel("app", "1.5", "lib<2.6"), uploaded=UPLOADED)
    commands = (("audit", PATH), ("outdated", PATH), ("link", PATH), ("inspect", str(demo), "--gpu", "H100"))
    for command in commands:
        whole = envspec(*command).out
        assert whole.strip(), command
        for width in SOME_WIDTHS:
            with monkeypatch.context() as terminal:
                on_a_terminal(terminal, width)
                fits(envspec(*command).out, whole, width)


def test_smoke(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out("\n".join(lines(several(), columns() or WIDTH, colour_word)))
    whole = capsys.readouterr().out
    for width in SOME_WIDTHS:
        on_a_terminal(monkeypatch, width)
        out("\n".join(lines(several(), columns() or WIDTH, colour_word)))
        fits(capsys.readouterr().out, whole, width)


def fits(shown: str, whole: str, width: int) -> None:
    wide = [line for line in shown.splitlines() if len(line) > width and len(line.split()) > 1]
    assert wide == []
    assert words(shown) == words(whole)


@pytest.mark.parametrize("width", [72, 80, 120])
def test_help_fits_and_its_examples_stay_whole(envspec: Envspec, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name in ("", *ALL):
        told = envspec(*[name][: bool(name)], "--help").out
        assert [line for line in told.splitlines() if len(line) > width] == [], name
        shown = " ".join(told.replace(" \\\n", " ").split())
        page = page_of(name) if name else None
        for example in page.examples if page else ():
            assert all(" ".join(part.split()) in shown for part in example.split("   ")), (name, example)
