"""What a match spec says of a channel, a subdir, a build and a file is judged in the lock, whoever wrote the record."""

import pytest
from support.conda_archives import Archive, Channel, borrowed_python, data_package, python_module
from support.installs import PYTHON, SUBDIR
from support.machine import Machine

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

SPEC = f"""\
[env]
python = "{PYTHON}"
[conda]
channels = [{{}}]
dependencies = ["python", '{{}}']
[targets.here]
platform = "{SUBDIR}"
glibc = "2.17"
"""


@pytest.fixture
def channels(machine: Machine) -> dict[str, Channel]:
    own, other = Channel(machine.folder / "own"), Channel(machine.folder / "other")
    own.add(borrowed_python(SUBDIR), python_module("pip", "25.0"), *builds("own"))
    return {"own": own, "other": other.add(*builds("other"))}


def builds(text: str) -> list[Archive]:
    native = data_package("a", "1.0", f"{text} native", build="h_0", subdir=SUBDIR, noarch=None)
    return [native, data_package("a", "1.0", text, build="H_1"), data_package("a", "1.0", text, build="x_2")]


def spec_for(channels: dict[str, Channel], asked: str) -> str:
    return SPEC.format(", ".join(f'"{one.url}"' for one in channels.values()), asked)


def record(channels: dict[str, Channel], channel: str, build: str) -> tuple[str, str, str, str]:
    """The index, the build, the file and the hash of a record, as a lock has them."""
    pin = channels[channel].pin(next(one for one in builds(channel) if one.build == build))
    assert pin.artifact is not None
    file = pin.artifact
    line = f'file = "{file.file}", sha256 = "{file.sha256}", md5 = "{file.md5}", size = {file.size} '
    return pin.index, f'build = "{build}"', line, file.sha256


@pytest.mark.parametrize(
    ("asked", "right", "wrong"),
    [
        ("own::a", ("own", "x_2"), ("other", "x_2")),
        ("own/noarch::a", ("own", "x_2"), ("own", "h_0")),
        ("a[subdir=noarch]", ("own", "x_2"), ("own", "h_0")),
        ("a * h_*", ("own", "H_1"), ("own", "x_2")),
        ("a[build=h_0]", ("own", "h_0"), ("own", "x_2")),
        ("a[sha256={}]", ("own", "h_0"), ("own", "x_2")),
    ],
)
def test_a_record_that_breaks_a_term_is_told(
    machine: Machine, channels: dict[str, Channel], asked: str, right: tuple[str, str], wrong: tuple[str, str]
) -> None:
    index, build, file, digest = record(channels, *right)
    asked = asked.format(digest).replace("own/", f"{channels['own'].url}/").replace("own::", f"{channels['own'].url}::")
    machine.locked(spec=spec_for(channels, asked))
    lock = machine.locks / "demo/envspec.lock"
    text = lock.read_text()
    assert f'index = "{index}"' in text and build in text and file in text
    machine.envspec("check", "specs/demo.toml", status=0)
    other = record(channels, *wrong)
    start = text.index('name = "a"')
    head, own = text[:start], text[start:]
    own = own.replace(index, other[0], 1).replace(build, other[1], 1).replace(file, other[2], 1)
    lock.write_text(head + own)
    ran = machine.envspec("check", "specs/demo.toml", status=1)
    assert "[requirement-unmet]" in ran.out and "the spec requires" in ran.out


def test_what_rattler_chooses_without_looking_is_refused(machine: Machine, channels: dict[str, Channel]) -> None:
    """rattler chooses by no subdir: it takes the highest build."""
    machine.spec(spec_for(channels, f"a[subdir={SUBDIR}]"))
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert "but a is 1.0 x_2 of own/noarch" in ran.err
    machine.locked(spec=spec_for(channels, "a 1.0 h_0"))
