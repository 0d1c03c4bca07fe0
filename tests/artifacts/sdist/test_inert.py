"""Sources whose build runs no code of their own, and all that could bring code in."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from envspec.artifacts.sdist.inert import _SHADOWED, Setup, inert
from envspec.artifacts.sdist.static_source import facts_of, read_content
from envspec.base.documents import read_toml
from envspec.net.fetch import Stream
from envspec.resolve.uv.answer import FoundFile

ANTLR = """from setuptools import setup

v = '4.9.3'
setup(
    name='antlr4-python3-runtime',
    version=v,
    packages=['antlr4', 'antlr4.atn'],
    package_dir={'': 'src'},
    install_requires=["typing ; python_version<'3.5'"],
    extras_require={'fast': ['lark>=1'], ":sys_platform == 'win32'": 'colorama'},
    python_requires='>=3.5',
    entry_points={'console_scripts': ['pygrun=antlr4._pygrun:main']},
)
"""
NAMES = ["PKG-INFO", "README.txt", "setup.py", "setup.cfg", "src/antlr4/__init__.py", "src/antlr4/atn/__init__.py"]
CFG = "[egg_info]\ntag_build = \ntag_date = 0\n"
PROJECT = '[project]\nname = "lib"\nversion = "1"\n'


def judged(
    setup: str | None = ANTLR, cfg: str = CFG, project: str = "", names: tuple[str, ...] = (), entry_points: str = ""
) -> object:
    found = {"setup.cfg": cfg, "a.egg-info/entry_points.txt": entry_points}
    if setup is not None:
        found["setup.py"] = setup
    listed = [*(name for name in NAMES if name != "setup.py" or setup is not None), *names]
    return inert(found, listed, read_toml(project))


def test_antlr() -> None:
    requires = "typing ; python_version<'3.5'\n[fast]\nlark>=1\n[:sys_platform == 'win32']\ncolorama"
    assert judged() == Setup("antlr4-python3-runtime", "4.9.3", requires, ">=3.5")


@pytest.mark.parametrize(
    "setup",
    [
        "import os\n" + ANTLR,
        "print('x')\n" + ANTLR,
        ANTLR.replace("'4.9.3'", "open('v').read()"),
        ANTLR.replace("version=v,", "version=v, cmdclass={},"),
        ANTLR.replace("version=v,", "version=v, setup_requires=['evil'],"),
        ANTLR.replace("version=v,", "version=v, ext_modules=[],"),
        ANTLR.replace("version=v,", "**{'cmdclass': 1},"),
        ANTLR.replace("console_scripts", "distutils.commands"),
        ANTLR.replace("console_scripts", "egg_info.writers"),
        ANTLR.replace("version=v,", "version=__import__('os').name,"),
        ANTLR.replace("['antlr4', 'antlr4.atn']", "find_packages(where=print())"),
        ANTLR.replace("['antlr4', 'antlr4.atn']", "find_packages(where='../..')"),
        ANTLR.replace("['antlr4', 'antlr4.atn']", "find_packages('/usr/lib')"),
        ANTLR.replace("['antlr4', 'antlr4.atn']", "['antlr4', '../evil']"),
        ANTLR.replace("{'': 'src'}", "{'': '../..'}"),
        ANTLR.replace("version=v,", "version=v, data_files=[('../../../lib/python3.12/site-packages', ['evil.pth'])],"),
        ANTLR.replace("version=v,", "version=v, data_files=[('/etc/profile.d', ['evil.sh'])],"),
        ANTLR.replace("version=v,", "version=v, data_files=[('lib', ['a/../../x'])],"),
        ANTLR.replace("version=v,", "version=v, package_data={'antlr4': ['../../../evil.pth']},"),
        ANTLR.replace("version=v,", "version=v, py_modules=['../evil'],"),
        ANTLR.replace("version=v,", "version=v, scripts=['~/x'],"),
        ANTLR.replace("version=v,", "version=v, scripts=['C:\\\\x'],"),
        ANTLR.replace("version=v,", "version=v, scripts=['a\\\\..\\\\..\\\\x'],"),
        ANTLR.replace("from setuptools import setup", "from evil import setup"),
        ANTLR.replace("from setuptools import setup", "from .setuptools import setup"),
        ANTLR.replace("from setuptools import setup", "from setuptools import setup as v"),
        ANTLR.replace("from setuptools import setup", "from setuptools import *"),
        ANTLR + ANTLR,
        ANTLR.replace("v = ", "setup = v = "),
        "v = '1'\n",
        "setup(",
        "x = " + "(" * 5000,
        "# coding: utf-7\n# +AAo-import os\n" + ANTLR,
        "# coding: shift_jis\n" + ANTLR,
        "# coding: nonsense\n" + ANTLR,
        "# x\rimport os\n" + ANTLR,
    ],
)
def test_a_setup_py_that_runs(setup: str) -> None:
    assert judged(setup) is False


@pytest.mark.parametrize(
    ("cfg", "project", "names"),
    [
        ("[options]\nsetup_requires = evil\n", "", ()),
        ("[metadata]\nversion = attr: lib.version\n", "", ()),
        ("[global]\ncommand_packages = evil\n", "", ()),
        ("[build_py]\nx = 1\n", "", ()),
        ("[egg_info]\ntag_build = dev\n", "", ()),
        ("[egg_info]\negg_base = x\n", "", ()),
        ("[bdist_wheel]\nbdist-dir = /home/user\n", "", ()),
        ("[bdist_wheel]\nuniversal = 1\ndist_dir = x\n", "", ()),
        ("[DEFAULT]\nbdist_dir = ..\n[bdist_wheel]\nuniversal = 1\n", "", ()),
        ("[sdist]\ndist_dir = ..\n", "", ()),
        ("[ metadata ]\nname = x\n", "", ()),
        ("no section", "", ()),
        (CFG, "[build-system]\nrequires = ['setuptools', 'evil']\n", ()),
        (CFG, "[build-system]\nrequires = ['setuptools @ https://example.org/s.whl']\n", ()),
        (CFG, "[build-system]\nrequires = []\nbuild-backend = 'evil'\n", ()),
        (CFG, "[build-system]\nrequires = []\nbackend-path = ['.']\n", ()),
        (CFG, "[build-system]\nrequires = ['setuptools', 'setuptools-scm']\n", ()),
        (CFG, "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta:other'\n", ()),
        (CFG, PROJECT, ()),
        (CFG, "[tool.setuptools.cmdclass]\nsdist = 'evil.sdist'\n", ()),
        (CFG, "", ("platform.py",)),
        (CFG, "", ("wheel/__init__.py",)),
        (CFG, "", ("json.cpython-311-x86_64-linux-gnu.so",)),
        (CFG, "", ("Cython/__init__.py",)),
        (CFG, "", ("tomllib.py",)),
        (CFG, "", ("Setup.py",)),
        (CFG, "[tool.distutils.global]\ncommand-packages = 'evil'\n", ()),
    ],
)
def test_what_beside_a_setup_py_runs(cfg: str, project: str, names: tuple[str, ...]) -> None:
    assert judged(cfg=cfg, project=project, names=names) is False


def test_a_setup_cfg_of_plain_keys() -> None:
    cfg = "[bdist_wheel]\nuniversal = 1\n[sdist]\nformats = gztar\n[metadata]\nlicense_file = LICENSE\n"
    assert isinstance(judged(cfg=CFG + cfg), Setup)


@pytest.mark.slow
def test_nothing_that_a_backend_imports_may_lie_in_a_source() -> None:
    """Asked of the backends themselves, as far as they are installed here."""
    found: dict[str, str] = {}
    for name in ("setuptools", "wheel", "hatchling", "pathspec", "pluggy", "trove-classifiers", "packaging"):
        for path in distribution(name).files or ():
            if path.suffix == ".py":
                tree = ast.parse(Path(path.locate()).read_bytes())
                found |= {one: str(path) for node in ast.walk(tree) for one in _imported(node)}
    assert {one: where for one, where in found.items() if one.partition(".")[0] not in _SHADOWED} == {}


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names):
            return [one.name for one in names]
        case ast.ImportFrom(str(module), _, 0):
            return [module]
        case ast.Call(ast.Name("__import__") | ast.Attribute(_, "import_module"), [ast.Constant(str(name)), *_]):
            return [name]
    return []


def test_a_told_file_that_was_not_read_counts_as_code() -> None:
    """It was larger than what is kept."""
    assert judged(names=("b.egg-info/entry_points.txt",)) is False
    assert judged(project="tool = 3\n") is False


def archive(*more: tarfile.TarInfo, folder: str = "lib-1") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as made:
        texts = {
            "PKG-INFO": "Metadata-Version: 2.1\nName: lib\nVersion: 1\n",
            "pyproject.toml": f"[build-system]\nrequires = []\nbuild-backend = 'setuptools.build_meta'\n{PROJECT}",
        }
        for name, text in texts.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(text)
            made.addfile(entry, io.BytesIO(text.encode()))
        for entry in more:
            made.addfile(entry)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("path", "kind", "inert"),
    [
        ("lib-1/docs", tarfile.DIRTYPE, True),
        ("lib-1/setup.py", tarfile.SYMTYPE, False),
        ("lib-1/setup.py", tarfile.LNKTYPE, False),
        ("lib-1/./setup.py", tarfile.REGTYPE, False),
        ("lib-1//setup.py", tarfile.REGTYPE, False),
        ("lib-1/pyproject.toml", tarfile.REGTYPE, False),
        ("lib-1/PyProject.toml", tarfile.REGTYPE, False),
        ("lib-1/README", tarfile.REGTYPE, True),
        ("pyproject.toml", tarfile.REGTYPE, False),
        ("lib-2/README", tarfile.REGTYPE, False),
        ("LIB-1/README", tarfile.REGTYPE, False),
    ],
)
def test_names_that_do_not_say_what_lies_where(path: str, kind: bytes, inert: bool) -> None:
    """A setup.py by a link or another spelling runs as any other; of two files in one place, tools unpack either, and
    uv builds what has two top folders, or a file beside them, from where both lie."""
    entry = tarfile.TarInfo(path)
    entry.type, entry.linkname = kind, "lib-1/PKG-INFO" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    packed = archive(entry)
    stream = Stream("x", len(packed), iter([packed]))
    content = read_content(FoundFile("https://example.org/lib-1.tar.gz", "lib-1.tar.gz", "0" * 64, len(packed)), stream)
    assert bool(facts_of(content, "lib", "1", len(packed)).inert) is inert


def test_entry_points_that_a_build_loads() -> None:
    assert judged(entry_points="[console_scripts]\na = a:main\n")
    assert judged(entry_points="[egg_info.writers]\na = a:main\n") is False
    assert judged(entry_points="[hatch]\na = a:main\n") is False
    for place in ("b.DIST-INFO/entry_points.txt", "b.Egg-Info/entry_points.txt"):
        assert judged(names=(place,)) is False, "importlib.metadata reads it too, and it wasn't read"


@pytest.mark.parametrize("backend", ["setuptools.build_meta", "flit_core.buildapi", "hatchling.build"])
def test_tables_alone(backend: str) -> None:
    tool = {"setuptools": "setuptools", "flit_core": "flit_core>=3", "hatchling": "hatchling"}[
        backend.partition(".")[0]
    ]
    system = f"[build-system]\nrequires = ['{tool}']\nbuild-backend = '{backend}'\n"
    assert judged(None, "", system + PROJECT) is True
    for more in (
        "dynamic = ['version']\n",
        "[project.entry-points.'distutils.setup_keywords']\na = 'a:b'\n",
        "[tool.hatch.build.hooks.custom]\n",
        "[tool.hatch.metadata.hooks.vcs]\n",
        "[[tool.hatch.envs.x.hooks]]\n",
        "[tool.setuptools]\ncmdclass = { x = 'y' }\n",
        "[[tool.setuptools.ext-modules]]\nname = 'a'\n",
        "[tool.setuptools.package-dir]\nlib = '../..'\n",
        "[tool.setuptools.package-data]\nlib = ['../../../evil.pth']\n",
        "[tool.setuptools.data-files]\n'../../lib/python3.12/site-packages' = ['evil.pth']\n",
        "[tool.setuptools]\npy-modules = ['/opt/x']\n",
        "[tool.flit.metadata]\nmodule = 'lib'\n",
        "[tool.poetry]\nbuild = 'build.py'\n",
        "[tool.poetry.build]\nscript = 'build.py'\n",
    ):
        assert judged(None, "", system + PROJECT + more) is False, more
    for plugin in ("hatch-vcs", "setuptools-scm", "poetry-dynamic-versioning", "lib", "numpy"):
        assert judged(None, "", system.replace("= [", f"= ['{plugin}', ") + PROJECT) is False, plugin
    assert judged(None, "", f"{system}backend-path = ['.']\n{PROJECT}") is False
    assert judged(None, "", system + PROJECT, ("hatch_build.py",)) is False
    assert judged(None, "", system + PROJECT.replace('version = "1"\n', "")) is False


@pytest.mark.slow
def test_setuptools_reads_the_same(tmp_path: Path) -> None:
    """The judge is setuptools: what it writes of the same setup.py is what was read of it."""
    (tmp_path / "src" / "antlr4" / "atn").mkdir(parents=True)
    for name in ("src/antlr4/__init__.py", "src/antlr4/atn/__init__.py"):
        (tmp_path / name).touch()
    (tmp_path / "setup.py").write_text(ANTLR)
    subprocess.run([sys.executable, "setup.py", "-q", "egg_info"], cwd=tmp_path, check=True, capture_output=True)
    (info,) = (tmp_path / "src").glob("*.egg-info")
    setup = judged()
    assert isinstance(setup, Setup)

    def sections(text: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {"": set()}
        now = ""
        for line in text.replace(" ", "").replace('"', "'").splitlines():
            if line.startswith("["):
                now = line
            elif line:
                found.setdefault(now, set()).add(line)
        return found

    theirs, ours = sections((info / "requires.txt").read_text()), sections(setup.requires)
    # setuptools gives a marker a section of its own
    assert theirs.pop("[:python_version<'3.5']") == {"typing"}
    ours[""].remove("typing;python_version<'3.5'")
    assert ours == theirs


def test_a_top_folder_may_have_capitals() -> None:
    """PyYAML-6.0/ of its own name: only another spelling beside it would be a second folder."""
    packed = archive(folder="Lib-1")
    stream = Stream("x", len(packed), iter([packed]))
    file = FoundFile("https://example.org/Lib-1.tar.gz", "Lib-1.tar.gz", "0" * 64, len(packed))
    assert facts_of(read_content(file, stream), "lib", "1", len(packed)).inert
