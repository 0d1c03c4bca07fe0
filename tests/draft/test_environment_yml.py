"""environment.yml: selectors as conda-lock reads them, exports, and few words."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from support.drafts import draft, notes
from support.examples import examples


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


SELECTORS = [None, "win", "linux", "linux64", "unix", "osx", "osx64", "arm64", "aarch64", "not win", "py<310"]
PLATFORMS = ["linux-64", "linux-aarch64", "osx-arm64", "win-64"]


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(SELECTORS), min_size=1, max_size=6),
    st.sampled_from([[], *([one] for one in PLATFORMS), PLATFORMS]),
)
@example(["win", None], [])
def test_a_selector_is_conda_locks(selectors: list[str | None], platforms: list[str]) -> None:
    """A match spec reaches all targets where it is for all platforms; else it's told by its line."""
    filtered = pytest.importorskip("conda_lock.src_parser.selectors").filter_platform_selectors
    lines = [f"  - p{n}" + (f"  # [{one}]" if one else "") for n, one in enumerate(selectors)]
    text = "\n".join(
        ["channels: [conda-forge]", f"platforms: {platforms}".replace("'", ""), "dependencies:", "  - zlib", *lines]
    )
    found = draft("environment.yml", text)
    for number, line in enumerate(lines):
        ours = f"p{number}" in found.conda
        theirs = [line in filtered(text, platform) for platform in platforms or ["linux-64"]]
        assert ours == all(theirs)
        assert ours or f"environment.yml:{number + 5}: p{number} is left out: " in notes(found)


def test_an_export_is_told_in_one_line() -> None:
    packages = [
        "_openmp_mutex=5.1=1_gnu",
        "ld_impl_linux-64=2.38=h1181459_1",
        "pytorch-mutex=1.0=cuda",
        *(f"a{n}=1.{n}=h0_0" for n in range(9)),
    ]
    found = draft(
        "environment.yml", "channels: [defaults]\ndependencies:\n" + "".join(f"  - {one}\n" for one in packages)
    )
    assert set(found.conda) == {f"a{n} ==1.{n}" for n in range(9)}
    assert (
        "without _openmp_mutex, ld_impl_linux-64, pytorch-mutex and all builds; `conda env export --from-history`"
        in notes(found)
    )
    assert len(notes(found).split("\n")) == 2, "and the channel"


def test_what_came_from_ended_channels_takes_two_lines() -> None:
    text = "channels: [pytorch, nvidia, defaults]\n"
    text += "dependencies: [python=3.10, pip, pytorch=2.3.1, torchvision, pytorch-cuda=12.1, cudatoolkit]\n"
    assert len(notes(draft("environment.yml", text)).split("\n")) == 2
