"""conda's configuration as doctor finds it: the files that conda reads, and those that can't be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from envspec.prove.doctor.examine import findings_about_conda
from envspec.prove.doctor.gather import gather_conda


@pytest.mark.parametrize(
    ("text", "channels", "priority"),
    [
        ("", None, None),
        ("channels: [conda-forge, 'defaults']", ("conda-forge", "defaults"), None),
        ('channels:\n- "conda-forge"  # first\n', ("conda-forge",), None),
        ("ssl_verify: true\nchannel_priority: Strict", None, "strict"),
        ("channel_priority: false", None, "false"),
        ("# channels:\n#  - x\n", None, None),
        ("custom_channels:\n  channels: [x]\n", None, None),
        ("channels: {a: b}\n", None, None),
    ],
)
def test_what_a_file_says(text: str, channels: tuple[str, ...] | None, priority: str | None, tmp_path: Path) -> None:
    path = tmp_path / ".condarc"
    path.write_text(text)
    found = gather_conda({"HOME": str(tmp_path)})
    assert found.channels.get(str(path)) == channels
    assert found.priority.get(str(path)) == priority
    assert not found.unread


def test_every_file_that_conda_reads_is_looked_at(tmp_path: Path) -> None:
    for name in ("xdg/conda", "home/.conda", "prefix"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / ".condarc").write_text("channels: [a]\n")
    (tmp_path / "mine").write_text("channels: [$MINE]\n")
    env = {"HOME": "home", "XDG_CONFIG_HOME": "xdg", "CONDA_PREFIX": "prefix", "CONDARC": "mine"}
    found = gather_conda({key: str(tmp_path / value) for key, value in env.items()})
    assert [Path(path).relative_to(tmp_path).as_posix() for path in found.channels] == [
        *("xdg/conda/.condarc", "home/.conda/.condarc", "prefix/.condarc", "mine")
    ]


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / ".condarc").write_text("channels: [\n")
    (finding,) = findings_about_conda(gather_conda({"HOME": str(tmp_path)}))
    assert finding.code == "condarc-unread" and str(tmp_path / ".condarc") in finding.message
