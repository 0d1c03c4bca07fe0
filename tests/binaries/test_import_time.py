"""Which modules of a wheel import pkg_resources as they are imported."""

import io
import zipfile

import pytest
from support.packages import wheel as dist

from envspec.binaries import import_time
from envspec.binaries.import_time import ImportTime, imports_at_start, modules_importing_at_start
from envspec.binaries.wheel import open_wheel


def asked(members: dict[str, str | bytes]) -> ImportTime:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with open_wheel(buffer) as wheel:
        return modules_importing_at_start(wheel, "pkg_resources")


@pytest.mark.parametrize(
    "source",
    [
        "import pkg_resources",
        "import os, pkg_resources as p",
        "from pkg_resources import parse_version",
        "from pkg_resources._vendor.packaging import version",
        "class A:\n    import pkg_resources",
        "try:\n    import pkg_resources\nfinally:\n    pass",
        "try:\n    import pkg_resources\nexcept KeyError:\n    pass",
        "__import__('pkg_resources').declare_namespace(__name__)",
        "# -*- coding: latin-1 -*-\n'\xe9'\nimport pkg_resources",
        "x = '\\d'\nimport pkg_resources",
    ],
)
def test_an_import_that_nothing_holds_back(source: str) -> None:
    content = source.encode("latin-1")
    assert asked({"acme/__init__.py": content}) == ImportTime(("acme",))
    assert asked({"acme.py": content}) == ImportTime(("acme",))


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import pkg_resources\nexcept ImportError:\n    pkg_resources = None",
        "try:\n    import pkg_resources\nexcept (ValueError, ModuleNotFoundError):\n    pass",
        "try:\n    import pkg_resources\nexcept Exception:\n    pass",
        "try:\n    import pkg_resources\nexcept:\n    pass",
        "try:\n    import pkg_resources\nexcept errors.Missing:\n    pass",
        "try:\n    import importlib.metadata\nexcept ImportError:\n    import pkg_resources",
        "def f():\n    import pkg_resources",
        "class A:\n    def f(self):\n        import pkg_resources",
        "if TYPE_CHECKING:\n    import pkg_resources",
        "if sys.version_info < (3, 8):\n    import pkg_resources",
        "with contextlib.suppress(ImportError):\n    import pkg_resources",
        "from . import pkg_resources",
        "from .pkg_resources import x",
        "import pkg_resources_of_ours",
        "text = 'import pkg_resources'",
        "import pkg_resources (",
        "f(" * 300 + "pkg_resources" + ")" * 300,
    ],
)
def test_what_may_do_without_it_says_nothing(source: str) -> None:
    assert asked({"acme/__init__.py": source}) == ImportTime()


def test_only_what_starts_with_the_wheel_counts() -> None:
    members: dict[str, str | bytes] = {
        "acme/__init__.py": "from acme.util import files\nfrom .core import run",
        "acme/util/__init__.py": "",
        "acme/util/files.py": "import pkg_resources",
        "acme/core.py": "from ..outside import x",
        "acme/extra.py": "import pkg_resources",
        "acme/tests/test_it.py": "import pkg_resources",
        "tests/__init__.py": "import pkg_resources",
    }
    assert asked(members) == ImportTime(("acme.util.files",))
    members["acme-1.0.dist-info/entry_points.txt"] = "[console_scripts]\nacme = acme.extra:main\n"
    assert asked(members) == ImportTime(("acme.extra", "acme.util.files"))


def test_an_import_whose_failure_is_caught_further_up() -> None:
    top = "try:\n    from acme import files\nexcept ImportError:\n    files = None"
    assert asked({"acme/__init__.py": top, "acme/files.py": "import pkg_resources"}) == ImportTime()


def test_a_namespace_package_starts_at_its_first_init() -> None:
    members: dict[str, str | bytes] = {"cloud/acme/__init__.py": "import pkg_resources", "cloud/acme/x.py": ""}
    assert asked(members) == ImportTime(("cloud.acme",))


def test_the_wheel_that_brings_it_needs_no_other() -> None:
    assert asked({"pkg_resources/__init__.py": "", "setuptools/__init__.py": "import pkg_resources"}) == ImportTime()


def test_more_python_than_the_bounds_allow_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_time, "UNPACKED", 100)
    assert asked({"acme/__init__.py": "import pkg_resources" + "\n" * 200}) == ImportTime(complete=False)


def test_several_packages_are_asked_for_at_once() -> None:
    members = {
        "acme/__init__.py": "import acme.build, numpy",
        "acme/build.py": "import setuptools\ntry:\n    import six\nexcept ImportError:\n    pass",
        "acme/aside.py": "import yaml",
        **{f"acme/m{number}.py": "import torch" for number in range(30)},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with open_wheel(buffer) as wheel:
        found = imports_at_start(wheel, ("setuptools", "numpy", "six", "yaml", "torch", "acme"))
    assert {package: one.modules for package, one in found.items() if one.modules} == {
        "setuptools": ("acme.build",),
        "numpy": ("acme",),
    }


def test_what_lies_in_a_folder_of_vendored_packages_is_there() -> None:
    """As setuptools has its wheel and packaging."""
    files = {"tools/__init__.py": b"import packaging, six\n", "tools/_vendor/packaging/__init__.py": b""}
    with open_wheel(io.BytesIO(dist("tools", "1.0", files=files).content)) as opened:
        found = imports_at_start(opened, ("packaging", "six"))
    assert (found["packaging"].modules, found["six"].modules) == ((), ("tools",))


def test_what_compiles_extensions_starts_with_torch() -> None:
    files = {"torch/__init__.py": b"", "torch/utils/__init__.py": b""}
    files["torch/utils/cpp_extension.py"] = b"import setuptools\n"
    with open_wheel(io.BytesIO(dist("torch", "2.4.0", files=files).content)) as opened:
        assert imports_at_start(opened, ("setuptools",))["setuptools"].modules == ("torch.utils.cpp_extension",)
