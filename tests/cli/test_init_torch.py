"""The CUDA of a new spec whose files only lead to torch: by the resolver's answer, not by the newest torch."""

import pytest
from support.index import Index
from support.machine import Machine
from support.packages import wheel
from support.torch_packages import stand_ins

from envspec.spec.parse import load_spec


def written(machine: Machine, *words: str) -> str:
    ran = machine.envspec("init", "demo", "--from", "requirements.txt", "--force", "--gpu", "A100", *words)
    assert ran.status == 0, ran.err
    return (machine.folder / "specs/demo.toml").read_text()


@pytest.fixture
def led(machine: Machine, index: Index) -> Machine:
    (machine.folder / "requirements.txt").write_text("led\n")
    index.add(wheel("led", "1", "torch==2.4.0"), *stand_ins("cpu", "2.4.0"))
    return machine


def test_the_answer_names_the_torch(led: Machine) -> None:
    text = written(led)
    assert 'cuda = "12.1"  # the requirements lead to torch 2.4.0: torch 2.4.0 has its build on PyPI for it' in text
    assert load_spec(str(led.folder / "specs/demo.toml")).targets[0].cuda == "12.1"


def test_a_bare_name_beside_a_pinned_package_bounds_nothing(led: Machine) -> None:
    (led.folder / "requirements.txt").write_text("torch\nled==1\n")
    assert 'cuda = "12.1"  # the requirements lead to torch 2.4.0' in written(led)


def test_without_an_answer_the_facts_choose_and_say_so(led: Machine, index: Index) -> None:
    unknown = "by the facts alone, as it isn't known which torch the requirements lead to: "
    assert f"{unknown}--offline" in written(led, "--offline") and not index.paths("led")
    (led.folder / "requirements.txt").write_text("led\nabsent>1\n")
    assert f"{unknown}nothing satisfies the requirements" in written(led)
    assert "by the facts" not in written(led, "--cuda", "12.4"), "nothing was to be chosen"


def test_a_file_that_names_torch_asks_no_index(led: Machine, index: Index) -> None:
    (led.folder / "requirements.txt").write_text("led==1\ntorch==2.4.*\n")
    assert 'cuda = "12.1"  # torch 2.4.1 has its build on PyPI for it' in written(led) and not index.paths("")
