"""The inventory of a base: read from layers in the shape of NVIDIA's, from prefixes, and compared."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support.base_image import layer, write_base
from support.documents import valid
from support.machine import Machine

from envspec.app.base import compare_bases, read_base
from envspec.base.errors import EnvspecError, InputError, Place
from envspec.base.texts import UNSEEN
from envspec.lock.inventory import Inventory, read_inventory

SITE = "usr/local/lib/python3.12/dist-packages"
TORCH = "2.9.0a0+50eac811a6.nv25.09"
VARIABLES = (
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "CUDA_VERSION=13.0.1.012",
    "PIP_CONSTRAINT=/etc/pip/constraint.txt",
    "HF_TOKEN=hf_aSecretOfSomebody",
    "SECRET_VERSION=hf_aSecretOfSomebody",
)


def record(name: str, version: str, folder: str = SITE) -> dict[str, str | bytes]:
    stem = name.replace("-", "_")
    return {
        f"{folder}/{stem}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    }


SYSTEM = {
    "usr/bin/python3.12": "an interpreter",
    "usr/lib/x86_64-linux-gnu/libc.so.6": b"\x7fELF GNU C Library (Ubuntu GLIBC 2.39) stable release version 2.39.\n",
    "usr/lib/x86_64-linux-gnu/libcudnn.so.9.13.0": "",
    "usr/lib/x86_64-linux-gnu/libcudnn.so.9": "",
    "usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.33": "",
    "usr/local/cuda-13.0/targets/x86_64-linux/lib/libcudart.so.13.0.88": "",
    "home/somebody/libcudart.so.12.0.0": "",
    "etc/pip/constraint.txt": "numpy==1.26.4\n# a comment \\\ntorch==2.9.0a0+50eac811a6.nv25.09 \\",
    **record("torch", TORCH),
    **record("numpy", "1.26.4"),
    **record("gone", "1.0"),
    **record("six", "1.16.0", "usr/lib/python3/dist-packages"),
}
UPPER = {
    f"{SITE}/.wh.gone-1.0.dist-info": "",
    f"{SITE}/.wh.numpy-1.26.4.dist-info": "",
    **record("numpy", "2.1.0"),
    **record("six", "1.17.0"),
    **record("elsewhere", "1.0", "opt/other/lib/python3.10/site-packages"),
}


def ngc(folder: Path, upper: Mapping[str, str | bytes] = UPPER, tag: str = "base") -> Path:
    """Make an image in the shape of NVIDIA's: Python in /usr, Debian's folders, a torch with a local version."""
    lower = layer(SYSTEM, {"usr/bin/python3": "python3.12"})
    return write_base(folder / tag, lower, layer(upper), Env=list(VARIABLES))


def test_an_image_in_the_shape_of_nvidias(tmp_path: Path) -> None:
    found = read_base(str(ngc(tmp_path)), "linux-64")
    assert (found.python, found.executable, found.platform) == ("3.12", "usr/bin/python3.12", "linux-64")
    assert found.digest and found.digest.startswith("sha256:")
    assert found.folders == (SITE, "usr/lib/python3/dist-packages")
    assert found.packages == {"torch": TORCH, "numpy": "2.1.0", "six": "1.17.0"}
    assert found.shadowed == {"six": "1.16.0"}
    assert found.glibc == "2.39"
    assert found.libraries == {"libcudnn": "9.13.0", "libstdc++": "6.0.33", "libcudart": "13.0.88"}
    assert found.constraints == ("numpy==1.26.4", f"torch=={TORCH}")


def test_no_secret_of_an_image_is_told(tmp_path: Path) -> None:
    text = read_base(str(ngc(tmp_path)), "linux-64").text
    assert 'CUDA_VERSION = "13.0.1.012"' in text
    assert "hf_aSecret" not in text and "HF_TOKEN" not in text


def test_a_virtual_environment_in_an_image(tmp_path: Path) -> None:
    """PATH leads to it, its program is a link to the system's, and it sees the system's packages where it says so."""
    site = "opt/venv/lib/python3.12/site-packages"
    files = {**SYSTEM, "opt/venv/pyvenv.cfg": "include-system-site-packages = true\n", **record("einops", "0.8", site)}
    lower = layer(files, {"usr/bin/python3": "python3.12", "opt/venv/bin/python3": "/usr/bin/python3"})
    base = write_base(tmp_path / "base", lower, Env=["PATH=/opt/venv/bin:/usr/bin"])
    found = read_base(str(base), "linux-64")
    assert found.executable == "opt/venv/bin/python3" and found.python == "3.12"
    assert found.folders[0] == site and {"einops", "torch"} <= {*found.packages}


def test_a_link_that_an_upper_layer_replaces(tmp_path: Path) -> None:
    lower = layer({**SYSTEM, "usr/bin/python3.11": ""}, {"usr/bin/python3": "python3.11"})
    base = write_base(tmp_path / "base", lower, layer({}, {"usr/bin/python3": "python3.12"}))
    assert read_base(str(base), "linux-64").python == "3.12"


def test_a_prefix_of_conda(tmp_path: Path) -> None:
    site = "lib/python3.11/site-packages"
    for path, text in {
        "bin/python3.11": "",
        "conda-meta/python-3.11.9-h955ad1f_0.json": "{}",
        "conda-meta/libcudnn-dev-9.3.0-h_1.json": "{}",
        "include/python3.11/patchlevel.h": '#define PY_VERSION      "3.11.9"\n',
        "lib/libnccl.so.2.27.3": "",
        **record("torch", "2.5.1", site),
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "bin/python3").symlink_to("python3.11")
    found = read_base(str(tmp_path), "linux-64")
    assert (found.python, found.packages, found.glibc) == ("3.11.9", {"torch": "2.5.1"}, None)
    assert found.conda == {"python": "3.11.9 h955ad1f_0", "libcudnn-dev": "9.3.0 h_1"}
    assert found.libraries == {"libnccl": "2.27.3"}


def test_what_another_tag_changes(tmp_path: Path) -> None:
    for name, upper in (("old", UPPER), ("new", {**UPPER, **record("einops", "0.8.1")})):
        (tmp_path / f"{name}.toml").write_text(read_base(str(ngc(tmp_path, upper, name)), "linux-64").text)
    told, found = compare_bases(tmp_path / "old.toml", tmp_path / "new.toml")
    assert told == "1 more"
    assert [(one.part, one.old, one.new) for one in found if one.part != "digest"] == [("packages", None, "0.8.1")]


@pytest.mark.parametrize(
    ("name", "said"),
    [("nothing", "doesn't exist"), ("empty", "has no Python"), ("a.txt", "this is no base"), ("a.sif", "isn't there")],
)
def test_what_is_no_base(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match=said):
        read_base(str(tmp_path / name), "linux-64")


def test_a_name_of_one_word_is_an_images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is asked of its registry: offline it can't be."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EnvspecError, match="debian"):
        read_base("debian", "linux-64", offline=True)


def test_a_file_that_is_no_sif(tmp_path: Path) -> None:
    for content in (b"", b"SIF_MAGIC", bytes(5000), b" " * 32 + b"SIF_MAGIC\x00" + b"\xff" * 5000):
        (tmp_path / "one.sif").write_bytes(content)
        with pytest.raises(InputError, match="no SIF with a squashfs in it"):
            read_base(str(tmp_path / "one.sif"), "linux-64")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no inventory-version"),
        ("inventory-version = 2\nsource = 'x'", "a newer envspec"),
        ("inventory-version = 1", "missing required field `source`"),
        ("inventory-version = 1\nsource = 1", r"Expected `str`.*\$\.source"),
        ("inventory-version = 1\nsource = ", "no inventory of a base"),
    ],
)
def test_a_file_that_is_no_inventory(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_inventory(text, Place("bases/a.toml"))


_TEXT = st.text(max_size=20)
_TABLE = st.dictionaries(st.text(min_size=1, max_size=8), _TEXT, max_size=3)

_PACKAGES = st.dictionaries(
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True),
    st.from_regex(r"[!-~]{1,20}", fullmatch=True),
    max_size=3,
)


@given(
    st.builds(
        Inventory,
        source=_TEXT,
        digest=st.none() | _TEXT,
        python=st.none() | _TEXT,
        folders=st.lists(_TEXT, max_size=3).map(tuple),
        libraries=_TABLE,
        constraints=st.lists(_TEXT, max_size=3).map(tuple),
        packages=_PACKAGES,
    )
)
def test_what_is_written_is_read(inventory: Inventory) -> None:
    """Whatever a base's files and variables say."""
    text = inventory.text
    assert read_inventory(text, Place("a.toml")) == inventory
    assert not UNSEEN.search(text.replace("\n", ""))


def test_the_commands(machine: Machine) -> None:
    upgraded = {path: text for path, text in UPPER.items() if "numpy-2.1" not in path}
    upgraded |= {**record("numpy", "2.2.0"), **record("einops", "0.8.1")}
    for name, upper in (("old", UPPER), ("new", upgraded)):
        ngc(machine.folder, upper, name)
        machine.envspec("base", "read", name, "--platform", "linux-64", "-o", f"{name}.toml", status=0)
    assert valid(machine.envspec("base", "read", "new", "--platform", "linux-64", "--json").out, "base")
    shown = machine.envspec("base", "diff", "old.toml", "new.toml", status=0).out
    assert shown.splitlines()[0] == "numpy 2.1.0 -> 2.2.0, 1 more"
    assert shown.splitlines()[2:] == ["packages:", "  einops  new: 0.8.1", "  numpy   2.1.0 -> 2.2.0"]
    assert len(valid(machine.envspec("base", "diff", "old.toml", "new.toml", "--json").out, "base")["differences"]) == 3
    ran = machine.envspec("base", "diff", "old.toml", "gone.toml", status=2)
    assert "gone.toml: the file isn't there" in ran.err
