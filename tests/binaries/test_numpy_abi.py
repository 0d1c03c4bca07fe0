"""For which NumPy extension modules were compiled, from real ELF files that a C compiler makes here."""

import io
import shutil
import subprocess
import zipfile
from typing import Literal

import pytest

from envspec.binaries import build_notes as module
from envspec.binaries.build_notes import NumpyAbi, numpy_abi
from envspec.binaries.wheel import UnreadableWheel, open_wheel

# What import_array of NumPy's headers leaves in a module (1.26.4 and 2.1.0), and what pybind11 and Cython leave.
SAYS = {
    "numpy1": ("numpy.core._multiarray_umath", "module compiled against API version 0x%x but this version of numpy is"),
    "numpy2": ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath", "module compiled against ABI"),
    "pybind11": ("numpy.core.multiarray", "_ARRAY_API"),
    "cimport": ("numpy.core.multiarray failed to import",),
    "plain": ("PyInit_x",),
}  # fmt: skip


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A shared library for each kind."""
    if not shutil.which("cc"):
        pytest.skip("cc isn't installed")
    folder = tmp_path_factory.mktemp("modules")
    made = {}
    for kind, texts in SAYS.items():
        lines = [f'const char *text{number}(void) {{ return "{text}"; }}' for number, text in enumerate(texts)]
        (folder / f"{kind}.c").write_text("\n".join(lines))
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(folder / f"{kind}.so"), str(folder / f"{kind}.c")]
        subprocess.run(command, check=True)
        made[kind] = (folder / f"{kind}.so").read_bytes()
    return made


def packed(members: dict[str, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer


def asked(members: dict[str, bytes]) -> NumpyAbi:
    with open_wheel(packed(members)) as wheel:
        return numpy_abi(wheel)


@pytest.mark.parametrize(
    ("kind", "expected"), [("numpy1", 1), ("numpy2", 2), ("pybind11", None), ("cimport", None), ("plain", None)]
)
@pytest.mark.parametrize("suffix", [".cpython-312-x86_64-linux-gnu.so", ".abi3.so", ".so.1400", ".cp312-win_amd64.pyd"])
def test_a_module_of_each_kind(
    modules: dict[str, bytes], kind: str, expected: Literal[1, 2] | None, suffix: str
) -> None:
    found = asked({f"acme/_m{suffix}": modules[kind], "acme/__init__.py": b""})
    assert found == NumpyAbi(expected, f"acme/_m{suffix}" if expected else None)


def test_one_module_that_works_with_both_speaks_for_the_wheel(modules: dict[str, bytes]) -> None:
    """matplotlib 3.9 has modules by pybind11 beside its own; nothing is said of NumPy 1 unless all agree."""
    assert asked({"a/a.so": modules["numpy1"], "a/b.so": modules["numpy2"]}).built_for == 2
    assert asked({"a/a.so": modules["numpy1"], "a/b.so": modules["pybind11"]}).built_for == 1
    assert asked({"a/a.so": modules["numpy1"], "a/b.so": modules["numpy1"]}).built_for == 1


@pytest.mark.parametrize("name", ["a/tests/_m.so", "a.libs/libm.so.1", "test/_m.so", "a/data.bin"])
def test_what_isnt_an_extension_of_the_package_says_nothing(modules: dict[str, bytes], name: str) -> None:
    assert asked({name: modules["numpy1"]}) == NumpyAbi()


def test_a_wheel_beyond_the_bounds_says_nothing(modules: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNPACKED", 4096)
    assert asked({"a/a.so": modules["plain"] + bytes(1 << 20)}) == NumpyAbi(complete=False)
    monkeypatch.setattr(module, "PACKED", 64)
    assert asked({"a/a.so": modules["numpy1"]}) == NumpyAbi(complete=False)


def test_a_damaged_wheel_is_named(modules: dict[str, bytes]) -> None:
    content = packed({"a/a.so": modules["plain"] * 4}).getvalue()
    broken = content[:200] + bytes(400) + content[600:]
    with pytest.raises(UnreadableWheel, match="damaged"), open_wheel(io.BytesIO(broken)) as wheel:
        numpy_abi(wheel)
    with pytest.raises(UnreadableWheel, match="damaged"), open_wheel(io.BytesIO(content[:-40])):
        pass
