"""Strangers' repositories: the options that an error names are taken, and each repository is listed once."""

from pathlib import Path

import pytest
import tomli

from bench.strangers import __main__ as strangers


@pytest.mark.parametrize(
    ("hints", "taken"),
    [
        (["--prefer 'a b.txt', or --prefer c"], ["--prefer 'a b.txt'"]),
        (["run the same command with --allow-needed, or add to [pip]: allow-source"], ["--allow-needed"]),
        (["begin with a part of it: --from one, or --from two", "--python 3.11"], ["--from one", "--python 3.11"]),
        (["--cuda 12.6", "--cuda 12.6"], ["--cuda 12.6"]),
        (["use --refresh"], []),
    ],
)
def test_options_of_hints_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hints: list[str], taken: list[str]
) -> None:
    stranger = strangers.Stranger(tmp_path, 1, tmp_path / "log")
    answers = iter([*hints, ""])
    monkeypatch.setattr(stranger, "run", lambda *words: (2, "", f"error: no\nhint: {next(answers)}\n"))
    assert stranger.with_hints("init")[3] == taken


def test_the_repositories_are_all_listed() -> None:
    listed = tomli.loads((strangers.HERE / "repositories.toml").read_text("utf-8"))
    assert len(listed["repositories"]) == 44 and len(listed["old"]) == 20
    assert listed["outside"].keys() <= {*listed["repositories"], *listed["old"]}


def test_a_hints_line_is_added_to_the_spec_once(tmp_path: Path) -> None:
    spec = tmp_path / "it.toml"
    spec.write_text('[pip]\nallow-source = ["a"]\n', "utf-8")
    for line in ('allow-source = ["b"]', 'accept = { near-name = { x = "why" } }'):
        assert strangers.add_line(spec, "pip", line)
    assert not strangers.add_line(spec, "pip", 'allow-source = ["b", "a"]')
    pip = tomli.loads(spec.read_text("utf-8"))["pip"]
    assert pip == {"allow-source": ["a", "b"], "accept": {"near-name": {"x": "why"}}}


def test_the_line_or_the_day_that_a_hint_names_is_taken() -> None:
    line = strangers.line_of_hint
    assert line('error: no\nhint: exclude-newer = "2023-10-08" in [env]: the first') == (
        "env",
        'exclude-newer = "2023-10-08"',
    )
    known = "hint: move `exclude-newer` in [env] (envspec's facts begin here with torch 2.0.0, of 2023-03-31), or set a"
    assert line(known) == ("env", 'exclude-newer = "2023-04-01"')
    assert line('hint: if you know, add to [pip]: accept = { a = "why" }; or b') == ("pip", 'accept = { a = "why" }')
    assert line("hint: loosen one of these requirements") is None


def test_what_a_hint_says_is_added_and_the_import_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "check": (1, "", "error: no\nhint: envspec add specs/it.toml tensorboard\n"),
        "add": (0, "", ""),
        "run": (1, "", "note: made\nTraceback …\nModuleNotFoundError: No module named 'hydra'\n"),
    }
    ran: list[tuple[str, ...]] = []

    def run(*words: str) -> tuple[int, str, str]:
        ran.append(words)
        return said[words[0]]

    stranger = strangers.Stranger(tmp_path, 1, tmp_path / "logs" / "log")
    monkeypatch.setattr(stranger, "run", run)
    monkeypatch.setattr(strangers, "taken", lambda stranger, options: {"what": "locked", "options": options})
    row = strangers.imported(stranger, ["--cuda", "cpu"], {"modules": ["a.b", "c"], "folders": ["part"]})
    assert row == {
        "what": "locked", "options": ["--cuda", "cpu"], "added": ["tensorboard"],
        "imports": "not imported: No module named 'hydra'",
    }  # fmt: skip
    assert (
        ran[1] == ("add", "specs/it.toml", "tensorboard") and "import a.b, c" in ran[2][-1] and "'part'" in ran[2][-1]
    )
    said["check"] = (1, "it: lacking\n  cv2 is imported by 9 files (a.py), and no package brings it\n", "")
    row = strangers.imported(stranger, [], {"modules": ["a"], "by-hand": {"cv2": "opencv-python"}})
    assert ran[-2] == ("add", "specs/it.toml", "opencv-python") and row["by hand"] == ["opencv-python"]
    with pytest.raises(AssertionError):
        strangers.imported(stranger, [], {"modules": ["a"], "by-hand": {"torch": "torch"}})
    said["run"] = (0, "loaded\ntorch 2.13.0+cpu\n", "")
    assert strangers.imported(stranger, [], {"modules": ["a"]})["torch"] == "2.13.0+cpu"
