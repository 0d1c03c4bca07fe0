"""What has to happen, from what is there and what the lock says."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from envspec.install.environment import changes
from envspec.install.installed import CondaPackage, Dist, InstalledPackages
from envspec.install.model import Change, identity, shown_version
from envspec.lock.model import Artifact, GitSource, Pin

NOWHERE = Path("/nowhere")


def pip(name: str, version: str = "1.0", sha: str = "a", git: str | None = None) -> Pin:
    if git:
        return Pin("pip", name, version, "git", None, git=GitSource("https://host.example/x", git))
    return Pin("pip", name, version, "pypi", Artifact(f"{name}-{version}.whl", sha * 64))


def conda(name: str, version: str = "1.0", build: str = "0", sha: str = "a") -> Pin:
    return Pin("conda", name, version, "forge/noarch", Artifact(f"{name}.conda", sha * 64), build=build)


def there(*pins: Pin, faults: Mapping[str, str] | None = None) -> InstalledPackages:
    """A prefix in which these pins are installed."""
    told = faults or {}
    packages, dists = {}, {}
    for pin in pins:
        if pin.kind == "conda":
            sha = pin.artifact.sha256 if pin.artifact else None
            packages[pin.name] = CondaPackage(
                pin.name, pin.version, pin.build or "", sha, NOWHERE, told.get(pin.name, "")
            )
        else:
            dists[pin.name] = Dist(pin.name, pin.version, NOWHERE, told.get(pin.name, ""))
    return InstalledPackages(packages, dists)


def known(*pins: Pin) -> dict[str, str]:
    return {pin.name: identity(pin) for pin in pins if pin.kind == "pip"}


def test_nothing_to_do() -> None:
    pins = [pip("app"), conda("python", "3.12.1", "0_cpython")]
    assert changes(pins, there(*pins), known(*pins)) == ()


def test_an_empty_prefix_gets_everything() -> None:
    pins = [pip("app"), conda("python", "3.12.1", "0_cpython")]
    assert changes(pins, InstalledPackages({}, {}), {}) == (
        Change("install", "conda", "python", None, "3.12.1 0_cpython"),
        Change("install", "pip", "app", None, "1.0"),
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (pip("app"), pip("app", "2.0"), ("change", "1.0", "2.0")),
        (pip("app", "1.0"), pip("app", "1.0.0"), None),
        (pip("app", "1.0+cu126"), pip("app", "1.0+cpu", "b"), ("change", "1.0+cu126", "1.0+cpu")),
        (pip("app", sha="a"), pip("app", sha="b"), ("change", "1.0", "1.0")),
        (pip("app", "1.dev3", git="a" * 40), pip("app", "1", git="a" * 40), None),
        (pip("app", git="a" * 40), pip("app", git="b" * 40), ("change", "1.0", "1.0")),
        (conda("app"), conda("app", build="1"), ("change", "1.0 0", "1.0 1")),
        (conda("app", sha="a"), conda("app", sha="b"), ("change", "1.0 0", "1.0 0")),
    ],
    ids=["version", "spelling", "local-version", "file", "git-version", "commit", "build", "conda-file"],
)
def test_what_counts_as_changed(old: Pin, new: Pin, expected: tuple[str, str, str] | None) -> None:
    memory = known(old) if old.version != "1.0" or new.version != "1.0.0" else known(new)
    found = changes([new], there(old), memory)
    assert [(change.action, change.old, change.new) for change in found] == ([expected] if expected else [])


def test_damage_is_repaired_with_its_reason() -> None:
    pins = [pip("app"), conda("lib")]
    found = changes(pins, there(*pins, faults={"app": "app.py is missing", "lib": "lib.so is missing"}), known(*pins))
    assert [(c.action, c.name, c.reason) for c in found] == [
        ("repair", "lib", "lib.so is missing"),
        ("repair", "app", "app.py is missing"),
    ]


def test_a_pip_package_of_unknown_origin_is_installed_anew() -> None:
    """The version alone doesn't tell which file it was: an interrupted run leaves such."""
    found = changes([pip("app")], there(pip("app")), {})
    assert [(c.action, c.reason) for c in found] == [("repair", "its file is unknown")]


def test_what_the_lock_lacks_goes() -> None:
    found = changes([], there(pip("mine"), conda("old", "2.0", "1")), {})
    assert found == (Change("remove", "conda", "old", "2.0 1", None), Change("remove", "pip", "mine", "1.0", None))


def test_from_pip_to_conda() -> None:
    found = changes([conda("numpy")], there(pip("numpy")), known(pip("numpy")))
    assert [(c.action, c.kind) for c in found] == [("install", "conda"), ("remove", "pip")]


PINS = st.lists(
    st.builds(
        lambda kind, name, version, sha: (pip if kind == "pip" else conda)(name, version, sha=sha),
        st.sampled_from(["pip", "conda"]),
        st.sampled_from("abcdef"),
        st.sampled_from(["1.0", "2.0"]),
        st.sampled_from("01"),
    ),
    unique_by=lambda pin: (pin.kind, pin.name),
)


@given(PINS, PINS)
def test_done_is_done(old: Sequence[Pin], new: Sequence[Pin]) -> None:
    """Every change is named once, it ends in the lock's pins, and then nothing is left to do."""
    found = changes(new, there(*old), known(*old))
    result = {(p.kind, p.name): shown_version(p) for p in old}
    for change in found:
        key = change.kind, change.name
        assert result.get(key) == change.old
        if change.new is None:
            del result[key]
        else:
            result[key] = change.new
    assert result == {(pin.kind, pin.name): shown_version(pin) for pin in new}
    assert len({(change.kind, change.name) for change in found}) == len(found)
    assert changes(new, there(*new), known(*new)) == ()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child")
def test_uv_ends_with_whoever_started_it() -> None:
    code = (
        "import subprocess, time; from envspec.install.pip import _die_with_parent\n"
        "print(subprocess.Popen(['sleep', '60'], preexec_fn=_die_with_parent()).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = Path(f"/proc/{int(parent.stdout.readline())}/stat")
        assert child.exists()
        parent.kill()
    end = time.monotonic() + 10
    while child.exists() and " Z " not in child.read_text() and time.monotonic() < end:
        time.sleep(0.02)
    assert time.monotonic() < end
