"""Bytecode for images: of everything, without times, and never twice."""

import importlib.util
import marshal
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "envspec" / "carried" / "bytecode.py"


def compile_all(folder: Path, *place: str) -> None:
    subprocess.run([sys.executable, "-ISB", str(SCRIPT), str(folder), *place], check=True)


def cached(path: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(path)))


def test_it_is_unchecked_and_the_same_every_time(tmp_path: Path) -> None:
    folders = [tmp_path / "a" / "pkg", tmp_path / "b" / "pkg"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "module.py").write_text("def answer(x):\n    return x in {'a', 'b', 'c', 'd', 'e', 'f'}\n")
    compile_all(tmp_path / "a")
    compiled = cached(folders[0] / "module.py")
    flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
    assert flags == 0b01, "hash-based, and the source isn't looked at (PEP 552)"
    first = compiled.read_bytes()
    compiled.unlink()
    compile_all(tmp_path / "a")
    assert compiled.read_bytes() == first


def test_what_has_bytecode_is_left_alone(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("x = 1\n")
    cached(module).parent.mkdir()
    cached(module).write_bytes(b"as it is")
    compile_all(tmp_path)
    assert cached(module).read_bytes() == b"as it is"


def test_what_does_not_compile_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "template.py").write_text("import {{ name }}\n")
    (tmp_path / "nul.py").write_bytes(b"x = '\0'\n")
    (tmp_path / "good.py").write_text("x = 1\n")
    compile_all(tmp_path)
    assert cached(tmp_path / "good.py").exists() and not cached(tmp_path / "template.py").exists()


def test_a_layer_tells_where_its_files_will_be(tmp_path: Path) -> None:
    module = tmp_path / "layer" / "lib" / "module.py"
    module.parent.mkdir(parents=True)
    module.write_text("x = 1\n")
    compile_all(tmp_path / "layer" / "lib", "/opt/env/lib")
    assert marshal.loads(cached(module).read_bytes()[16:]).co_filename == "/opt/env/lib/module.py"
