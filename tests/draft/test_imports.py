"""What sources import, by their syntax: at the start, guarded, or aside; their own modules left out."""

from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from envspec.draft.imports import Import, is_brought, packages_of, read_imports
from envspec.packages.requirement import canonical_name


def sources(root: Path, **texts: str) -> dict[str, Import]:
    for name, text in texts.items():
        path = root / (name if name.endswith(".py") else f"{name.replace('__', '/')}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return {one.module: one for one in read_imports(root)}


def test_a_module_of_torch_that_imports_a_package_imports_it(tmp_path: Path) -> None:
    """As apple/ml-mdm's trainer: no METADATA of torch's asks for tensorboard."""
    found = sources(tmp_path, log="from torch.utils.tensorboard import SummaryWriter\n")
    assert found.keys() == {"tensorboard", "torch"}


def test_kinds_of_imports(tmp_path: Path) -> None:
    found = sources(
        tmp_path,
        train="import torch.nn, os\nif True:\n    import yaml\ntry:\n    import flash_attn\nexcept ImportError: ...\n",
        pkg__model="def f():\n    from peft import x\nif TYPE_CHECKING:\n    import typed\nfrom . import torchless\n",
        tests__test_a="import pytest\nimport torch\n",
        broken="import (\n",
        venv__lib="import hidden\n",
    )
    assert found == {
        "flash_attn": Import("flash_attn", guarded=("train.py",)),
        "peft": Import("peft", guarded=("pkg/model.py",)),
        "pytest": Import("pytest", aside=("tests/test_a.py",)),
        "torch": Import("torch", files=("train.py",), aside=("tests/test_a.py",)),
        "yaml": Import("yaml", files=("train.py",)),
    }


@pytest.mark.parametrize(
    ("own", "text"),
    [
        ("helper", "import helper"),
        ("src__mine", "from mine import a"),
        ("scripts__beside", "import beside"),
        ("tools__interface", "from tools.interface import b"),
        ("pkg/__init__.py", "import pkg"),
    ],
)
def test_a_repositorys_own_modules_are_no_packages(tmp_path: Path, own: str, text: str) -> None:
    assert sources(tmp_path, **{own: "", "scripts__run": text}) == {}


def test_a_folder_gives_way_to_a_package_of_its_name(tmp_path: Path) -> None:
    assert set(sources(tmp_path, transformers__convert="", run="import transformers")) == {"transformers"}


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (["part/dataset/transform.py", "part/dataset/kitti.py"], "from dataset.transform import Crop"),
        (["app/__init__.py", "app/plugin/blocks/layer.py", "app/run.py"], "from blocks.layer import Layer"),
        (["det/ops_custom/__init__.py", "seg/train.py"], "import ops_custom"),
        (["v1/space/torch/layers.py", "v1/hub.py"], "from space.torch.layers import Layer"),
    ],
)
def test_a_parts_own_modules_are_no_packages(tmp_path: Path, files: list[str], text: str) -> None:
    """Programs of a part begin in its folder, or put it on Python's path."""
    assert sources(tmp_path, **dict.fromkeys(files[:-1], ""), **{files[-1]: text}) == {}


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (["pkg/__init__.py", "pkg/datasets/__init__.py", "pkg/datasets/coco/read.py"], "import datasets"),
        (["pkg/models/__init__.py", "pkg/models/rfdetr/__init__.py", "pkg/models/rfdetr/a/wrap.py"], "import rfdetr"),
        (["examples/monarch/run.py", "pkg/remote.py"], "import monarch"),
        (["det/timm/__init__.py", "seg/train.py"], "import timm"),
    ],
)
def test_a_package_is_not_taken_for_a_parts_module(tmp_path: Path, files: list[str], text: str) -> None:
    assert len(sources(tmp_path, **dict.fromkeys(files[:-1], ""), **{files[-1]: text})) == 1


def test_modules_of_other_names_are_those_of_installed_packages() -> None:
    installed = packages_distributions()
    named_otherwise = [one for one in installed if packages_of(one) != (canonical_name(one),)]
    assert {"yaml", "dateutil"} & set(named_otherwise)
    for module in named_otherwise:
        assert set(map(canonical_name, installed[module])) & set(packages_of(module)), module


@pytest.mark.parametrize("name", ["torch", "pytorch", "pytorch-cpu", "pytorch-gpu"])
def test_torch_is_brought_under_each_of_its_names(name: str) -> None:
    assert is_brought("torch", {name})
