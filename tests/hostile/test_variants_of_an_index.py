"""What an index says of variants is data: nothing of it runs, is believed without a look, or takes long to read."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.growth import grows_linearly
from support.index import Index, endless
from support.machine import Machine
from support.variants import SCHEMA, about, cuda, release

from envspec.base.errors import LockError
from envspec.lock.read import loads
from envspec.packages.variant_choice import TargetMachine, choose
from envspec.packages.variant_markers import for_variant
from envspec.packages.variants import InvalidVariants, read_name, read_variants


def _read(text: str) -> object:
    try:
        return read_variants(text.encode())
    except InvalidVariants as refused:
        return refused


@pytest.mark.parametrize("unit", ["[", '{"a":', '"\\u001b", ', "\\", '{"variants":{"a":{"n":{"f":["1"]}}}},'])
def test_reading_a_file_takes_time_in_proportion(unit: str) -> None:
    assert grows_linearly(_read, lambda n: unit * n)


@pytest.mark.parametrize(
    "unit", ["(", "variant_label == 'a' or ", "not ", "'x' in variant_properties and (", "'", "variant_label", "::"]
)
def test_markers_take_time_in_proportion(unit: str) -> None:
    assert grows_linearly(lambda text: for_variant([f"a ; variant_label == {text}"], None), lambda n: unit * n)


@pytest.mark.parametrize("unit", ["-", "a-", "-null", "."])
def test_names_take_time_in_proportion(unit: str) -> None:
    assert grows_linearly(lambda text: read_name(f"a-1-{text}.whl"), lambda n: unit * n)


@pytest.mark.slow
def test_the_largest_file_is_chosen_from_at_once() -> None:
    """As many variants with as many properties as a file of 1 MiB holds."""
    values = [f"{number}_real" for number in range(50, 130)]
    variants = {f"v{number}": {"nvidia": {"sm_arch": values}} for number in range(900)}
    said = {"$schema": SCHEMA, "default-priorities": {"namespace": ["nvidia"]}, "variants": variants}
    provider = {"static-properties": {"sm_arch": values}}
    content = json.dumps({**said, "providers": {"nvidia": provider}}, separators=(",", ":")).encode()[: 1 << 20]
    began = time.process_time()
    try:
        read = read_variants(content)
        choose(read, read.variants, TargetMachine("linux-64", "3.12", "2.28", "12.8", capabilities=("9.0", "12.0")))
    except InvalidVariants:
        pass
    assert time.process_time() - began < 3


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[tuple[Machine, Index]]:
    with Index() as index:
        made = Machine(tmp_path, index.url)
        pip = '[pip]\ndependencies = ["lib"]'
        made.spec(f'[env]\nname = "demo"\npython = "3.12"\n{pip}\n[targets.cpu]\nplatform = "linux-64"\n')
        yield made, index
        made.close()


def test_no_provider_plugin_is_asked_for(machine: tuple[Machine, Index]) -> None:
    made, index = machine
    variants = {"null": {}, "a": {"evil": {"on": ["yes"]}}}
    providers = {"evil": {"requires": ["evil-provider"], "plugin-api": "evil:Plugin"}}
    index.add(*release("lib", "1.0", variants, namespaces=("evil",)))
    index.add(about("lib", "1.0", variants, ("evil",), providers))
    assert made.envspec("lock", "specs/demo.toml").status == 0
    assert index.paths("evil") == []
    assert 'variant = "null"' in (made.locks / "demo" / "envspec.lock").read_text()


def test_a_file_without_end_is_given_up(machine: tuple[Machine, Index]) -> None:
    made, index = machine
    index.add(*release("lib", "1.0", {"cu130": cuda("13.0")}))
    index.fail("variants.json$", endless)
    ran = made.envspec("lock", "specs/demo.toml")
    assert ran.status == 3 and "lib-1.0-variants.json" in ran.error, ran.err


@pytest.mark.slow
def test_another_hash_than_the_page_s_is_refused(machine: tuple[Machine, Index]) -> None:
    made, index = machine
    files = release("lib", "1.0", {"null": {}, "cu130": cuda("13.0")})
    index.add(*files)
    index.lie_about(files[-1], "e" * 64)
    ran = made.envspec("lock", "specs/demo.toml")
    assert ran.status == 3 and "another sha256 than its page says" in ran.error, ran.err


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("variant", '"CU130"'),
        ("variant", '"\\u001b[31m"'),
        ("variant", f'"{"a" * 65}"'),
        ("properties", '["nvidia :: sm_arch"]'),
        ("properties", '["nvidia :: sm_arch :: 90\\u001b"]'),
        ("priorities", '["Nvidia"]'),
        ("priorities", '["nvidia", 1]'),
    ],
)
def test_a_lock_with_other_characters_is_none(key: str, value: str) -> None:
    row = {
        "variant": '"cu130"',
        "properties": '["nvidia :: sm_arch :: 90_real"]',
        "priorities": '["nvidia"]',
        key: value,
    }
    inside = ", ".join(f"{name} = {text}" for name, text in row.items())
    text = (
        'lock-version = 5\n[env]\nname = "x"\n[targets.a]\nplatform = "linux-64"\npython = "3.12"\n'
        '[[pip]]\nname = "a"\nversion = "1"\nindex = "pypi"\n'
        f'artifacts = [{{ file = "a-1-py3-none-any-cu130.whl", sha256 = "{"0" * 64}", {inside} }}]\n'
    )
    with pytest.raises(LockError) as refused:
        loads(text, "x")
    assert str(refused.value).isprintable()
