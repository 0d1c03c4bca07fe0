"""The checks of what is locked beside torch: which modules a package has, and what a failed import is told with."""

import sys
from pathlib import Path

import pytest
from envspec_check.checks.stack.imports import import_apart, modules_of, requests
from envspec_check.checks.stack.locked import describe
from envspec_check.failures import root_cause
from envspec_check.import_failures import import_remedy
from envspec_check.interface import Context
from support.smoke_env import run_check

LOCK = {
    "conda": [{"name": "pytorch-gpu", "version": "2.7", "direct": True, "provides": ["torch"]}],
    "pip": [
        {"name": "tqdm", "version": "4.1", "direct": True, "artifacts": [{"file": "tqdm-4.1-py3-none-any.whl"}]},
        {"name": "numpy", "version": "2.1"},
    ],
}
CONTEXT = Context({"target": "t", "lock": LOCK}, "cpu", "llm", 5, True, 0, 60.0, Path(), "check")


@pytest.mark.parametrize(
    ("files", "modules"),
    [
        (["tqdm/__init__.py", "tqdm/cli.py", "tqdm-4.1.dist-info/RECORD", "../../../bin/tqdm"], ["tqdm"]),
        (["typing_extensions.py", "_private.py", "__editable___x_finder.py"], ["typing_extensions"]),
        (["fast.cpython-311-x86_64-linux-gnu.so", "other.abi3.so", "plain.so"], ["fast", "other", "plain"]),
        (["google/protobuf/__init__.py", "google/protobuf/json/__init__.py"], ["google.protobuf"]),
        (["tests/__init__.py", "docs/conf.py", "x.data/purelib/y.py"], []),
        (["flax/__init__.py", "flaxlib_src/pyproject.toml", "flaxlib_src/src/flaxlib/__init__.py"], ["flax"]),
        (["share/jupyter/lab-extension/__init__.py", "nvidia/cublas/lib/libcublas.so.12"], []),
    ],
)
def test_the_modules_of_a_distribution(files: list[str], modules: list[str]) -> None:
    assert modules_of(files) == modules


def test_what_the_spec_asks_for() -> None:
    assert requests(LOCK) == {"torch": "pytorch-gpu", "tqdm": "tqdm"}


def test_a_package_is_told_with_its_wheel() -> None:
    assert describe(CONTEXT, "tqdm") == "tqdm 4.1 (tqdm-4.1-py3-none-any.whl)"
    assert describe(CONTEXT, "pytorch-gpu") == "pytorch-gpu 2.7"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory", "libgl1"),
        ("ImportError: libcudart.so.11.0: cannot open shared object file", "another CUDA than the target's (libcudart"),
        ("OSError: libc10_cuda.so: cannot open shared object file", "a torch with GPUs"),
        ("ImportError: libcuda.so.1: cannot open shared object file", "driver isn't passed in"),
        ("ImportError: libsndfile.so.1: cannot open shared object file", "libsndfile.so.1, as an apt package"),
        ("ImportError: /lib/libm.so.6: version `GLIBC_2.38' not found (required by x.so)", "glibc"),
        ("ImportError: libstdc++.so.6: version `GLIBCXX_3.4.32' not found", "GLIBCXX_3.4.32): unset LD_LIBRARY_PATH"),
        ("ImportError: x.so: undefined symbol: _ZN3c105ErrorC2ERKNSt7", "against another torch"),
        ("ImportError: undefined symbol: _ZTVNSt7__cxx1118basic_stringstreamI, version GLIBCXX_3.4", "another C++"),
        ("RuntimeError: operator torchvision::nms does not exist", "another torch or CUDA"),
        ("ImportError: numpy.core.multiarray failed to import", "numpy<2"),
        ("ModuleNotFoundError: No module named 'pkg_resources'", "setuptools<81"),
        ("ModuleNotFoundError: No module named 'einops'", "add what brings einops"),
        ("ValueError: no", None),
    ],
)  # fmt: skip
def test_the_likely_remedy_of_a_failed_import(text: str, remedy: str | None) -> None:
    found = import_remedy(text)
    assert found is None if remedy is None else remedy in (found or "")


def load_late() -> None:
    try:
        raise OSError("libGL.so.1: cannot open")
    except OSError as error:
        raise ModuleNotFoundError("Could not import module 'Llama'") from error


def test_an_error_is_told_with_what_it_began_with() -> None:
    with pytest.raises(ModuleNotFoundError) as found:
        load_late()
    told = "OSError: libGL.so.1: cannot open (ModuleNotFoundError: Could not import module 'Llama')"
    assert root_cause(found.value) == told
    assert root_cause(ValueError("no")) == "ValueError: no"


def test_a_module_that_crashes_or_raises_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    bodies = {
        "one_ends": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
        "one_raises": "1 / 0",
        "one_is": "",
    }
    for name, body in bodies.items():
        (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    wrong = import_apart(sorted(bodies), 2)
    assert wrong == {"one_ends": "crashed (SIGSEGV)", "one_raises": "ZeroDivisionError: division by zero"}
    assert "import one_is" in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.e2e
def test_what_is_locked_is_tried_and_what_is_not_is_skipped_by_name(smoke_env: Path, tmp_path: Path) -> None:
    done = run_check(smoke_env, tmp_path, "--quick", "--device", "cpu", "--only", "stack")
    assert done.status == 0 and done.failed == []
    assert done.check("stack.imports")["details"]["imported"] == ["functorch", "numpy", "torch", "torchgen"]
    assert done.check("stack.numpy")["status"] == "pass"
    assert done.check("stack.timm")["reason"] == "the target locks no timm"
