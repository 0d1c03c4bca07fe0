"""The files of conda, pixi and conda-lock in a review."""

import pytest
from diff_samples import base, sha
from foreign_reviews import FILES, Write, between, rows, write as write

from envspec.base.errors import InputError
from envspec.lock.formats.foreign.shape import channel_name, conda_file
from envspec.lock.write import dumps


def test_conda_lock_and_pixi_lock() -> None:
    for name in ("conda-lock.yml", "pixi.lock"):
        found = between(FILES / f"old.{name}", FILES / f"new.{name}")
        assert rows(found)["openssl"] == "1.1.1w -> 3.6.3; 1.1.1w -> 3.6.3"
        assert rows(found)["tzdata"] == "2023c -> 2026c"
        assert rows(found)["anyio"] == "4.9.0 -> 4.16.0"
    assert rows(between(FILES / "old.conda-lock.yml", FILES / "old.pixi.lock")) == {"ffmpeg": "new 4.3.2; new 4.4.2"}


EXPLICIT = """\
# platform: linux-64
@EXPLICIT
https://user:secret@channels.example.org/t/tk/conda-forge/linux-64/openssl-3.5.0-h1_0.conda#{md5}
https://channels.example.org/conda-forge/noarch/tzdata-2025b-h1_0.tar.bz2#sha256:{sha}
# pip lib @ https://files.example.org/simple/lib/lib-2.5.1-py3-none-any.whl#sha256={sha}
"""


def test_explicit_lists(write: Write) -> None:
    old = write("a.txt", EXPLICIT.format(md5="0" * 32, sha=sha("1")))
    assert not between(old, old)
    new = write("b.txt", EXPLICIT.format(md5="1" * 32, sha=sha("1")).replace("2025b", "2025c"))
    found = between(old, new)
    assert rows(found) == {"openssl": "3.5.0", "tzdata": "2025b -> 2025c"}
    assert [row.name for row, _ in found.shouted] == ["openssl"], "an MD5 tells it, too"


ENVIRONMENT = """\
name: x
channels: [conda-forge]
dependencies:
  - python=3.12
  - conda-forge::ffmpeg 7.*
  - openssl
  - pip
  - pip:
    - lib>=2,<3
    - app==1.4.2
"""


def test_environment_yml_against_a_lock(write: Write) -> None:
    """It names a part of what gets installed: only where the lock answers otherwise, something changed."""
    lock = write("envspec.lock", dumps(base()))
    found = between(write("environment.yml", ENVIRONMENT), lock)
    assert set(rows(found)) == {"python", "pip"}
    found = between(write("environment.yml", ENVIRONMENT.replace("<3", "<2.5").replace("7.*", "6.*")), lock)
    assert {name: rows(found)[name] for name in ("lib", "ffmpeg")} == {
        "lib": ">=2,<2.5 -> 2.5.1",
        "ffmpeg": "6.* -> 7.1.0",
    }


def test_an_exported_environment_is_whole(write: Write) -> None:
    exported = "name: x\ndependencies:\n  - ffmpeg=7.1.0=gpl_h1_0\n  - zlib=1.3=h0_0\n"
    found = between(
        write("environment.yml", exported),
        write("b.yml", exported.replace("  - zlib=1.3=h0_0\n", "").replace("7.1.0", "7.1.1")),
    )
    assert rows(found) == {"ffmpeg": "7.1.0 -> 7.1.1", "zlib": "1.3 removed"}


PIXI_5 = """\
version: 5
environments:
  default:
    packages:
      linux-64:
      - conda: https://channels.example.org/conda-forge/linux-64/openssl-3.5.0-h1_0.conda
  test:
    packages:
      linux-64:
      - conda: https://channels.example.org/conda-forge/linux-64/openssl-3.5.0-h1_0.conda
      - pypi: https://files.example.org/x/lib-2.5.1-py3-none-any.whl
      - pypi: ./here
packages:
- kind: conda
  name: openssl
  version: 3.5.0
  build: h1_0
  subdir: linux-64
  url: https://channels.example.org/conda-forge/linux-64/openssl-3.5.0-h1_0.conda
  sha256: "{sha}"
  depends: ["ca-certificates"]
  license: Apache-2.0
- kind: pypi
  name: lib
  version: 2.5.1
  url: https://files.example.org/x/lib-2.5.1-py3-none-any.whl
  sha256: "{sha}"
"""
"""By hand, after the format's description: nothing here writes this version any more."""


def test_pixi_lock_of_version_5(write: Write) -> None:
    text = PIXI_5.format(sha=sha("1"))
    found = between(
        write("a.lock", text),
        write("b.lock", text.replace("lib-2.5.1", "lib-2.5.2").replace("version: 2.5.1", "version: 2.5.2")),
    )
    assert rows(found) == {"lib": "2.5.1 -> 2.5.2"}
    assert found.rows[0].moves[0].targets == ("test/linux-64",)


def test_pixi_lock_with_several_environments_against_a_lock(write: Write) -> None:
    """The environment that is called like the target, else `default`, and the title says so."""
    lock, text = write("envspec.lock", dumps(base())), PIXI_5.format(sha=sha("1"))
    found = between(write("a.lock", text), lock)
    assert found.old_title.endswith("a.lock (its environment default)") and found.went == ("test/linux-64",)
    assert not found.came and rows(found)["openssl"] == "3.5.0"
    found = between(lock, write("b.lock", text.replace("  test:", "  hopper:")))
    assert found.new_title.endswith("b.lock (its environment default)") and not found.came and not found.went
    assert any(move.targets == ("cpu", "volta") for row in found.rows if row.name == "lib" for move in row.moves)
    with pytest.raises(InputError, match=r"several environments for linux-64: first, test") as caught:
        between(write("c.lock", text.replace("  default:", "  first:")), lock)
    assert "or cpu like the target" in str(caught.value.hint)


def test_names_of_conda_files() -> None:
    assert channel_name("https://x.example.org/t/token/conda-forge/linux-64/a-1-0.conda") == "conda-forge/linux-64"
    assert conda_file("py-opencv-4.1-h1_0.tar.bz2") == ("py-opencv", "4.1", "h1_0")
