"""The rules' one answer: the torch wanted, the releases that work, and whether a resolver must be told which."""

import pytest

from envspec.base.errors import Place
from envspec.rules.judge import Verdict, judge
from envspec.spec.model import CondaTable, Located, PipTable, Spec, Target

HERE = Place("specs/s.toml", 1, 1)


def judged(*pip: str, cuda: str | None = "12.8", gpus: tuple[str, ...] = (), conda: tuple[str, ...] = ()) -> Verdict:
    target = Target("t", "linux-64", cuda, gpus, glibc="2.28", place=HERE)
    table = PipTable(tuple(Located(text, HERE) for text in pip))
    matches = CondaTable(("conda-forge",), tuple(Located(text, HERE) for text in conda))
    return judge(Spec("specs/s.toml", "s", "3.12", (target,), pip=table, conda=matches), target)


def test_without_torch_there_is_nothing_to_choose() -> None:
    assert judged("numpy") == Verdict()


def test_the_torch_wanted_and_where_it_comes_from() -> None:
    by_pip, by_conda = judged("torch>=2.9").requirement, judged("torchvision", conda=("pytorch",)).requirement
    assert by_pip is not None and (by_pip.channel, by_pip.label) == ("pip", "torch>=2.9")
    assert by_conda is not None and (by_conda.channel, by_conda.label) == ("conda", "pytorch")


def test_torchvision_alone_wants_a_torch() -> None:
    found = judged("torchvision==0.24.1")
    assert found.requirement is not None and (found.requirement.name, found.requirement.channel) == ("torch", "pip")
    assert found.feasible == ("2.9.1",)


def test_no_build_for_newer_releases_narrows_nothing() -> None:
    """CUDA 11.8 ends with 2.7.1: the index says so by itself."""
    found = judged("torch", cuda="11.8")
    assert found.feasible[0] == "2.7.1"
    assert not found.narrowed


@pytest.mark.parametrize(
    ("channels", "line", "channel"),
    [
        (["pytorch", "nvidia", "conda-forge"], "pytorch 2.0.1.*", "pytorch"),
        (["conda-forge"], "pytorch::pytorch 2.0.1.*", "pytorch"),
        (["conda-forge", "pytorch"], "pytorch 2.9.*", None),
        (["conda-forge"], "pytorch 2.9.*", None),
        (["mirrored"], "pytorch", "mirrored"),
    ],
)
def test_a_torch_of_another_channel_isnt_judged_by_conda_forges(
    channels: list[str], line: str, channel: str | None
) -> None:
    target = Target("t", "linux-64", "12.8", glibc="2.28", place=HERE)
    conda = CondaTable(tuple(channels), (Located(line, HERE),))
    found = {one.code: one for one in judge(Spec("s.toml", "s", "3.10", (target,), conda=conda), target).findings}
    assert ("torch-channel-unknown" in found) == (channel is not None)
    if channel:
        assert f"comes from the channel {channel}," in found["torch-channel-unknown"].message
        assert "no-such-torch" not in found and found["torch-channel-unknown"].severity == "warning"
