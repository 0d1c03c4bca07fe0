"""What is said of a release's variants, where an index has the file about them and where it doesn't.

uv 0.13.8 passes over a release whose file is missing, and gives up where the page names it and it isn't there:
`tests/resolve/uv/test_variants_like_uv.py`. PEP 825 lets a tool read the wheels.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from support.index import Index, status
from support.packages import Dist, wheel
from support.variants import PROVIDERS, Properties, about, cuda, document, variant_wheel

from envspec.net.fetch import Fetcher
from envspec.net.variant_reader import MAX_WHEELS, VariantReader, about_variants
from envspec.packages.variants import InvalidVariants, Variants, read_variants

VARIANTS: Mapping[str, Properties] = {"null": {}, "cu126": cuda("12.6", 70, 90), "cu130": cuda("13.0", 90)}
WHEELS = [variant_wheel("lib", "1.0", label, properties) for label, properties in VARIANTS.items()]


def said(*dists: Dist, index: Index | None = None) -> Variants:
    """What a reader finds of these files."""
    with index or Index() as index:
        index.add(*dists)
        rows: list[dict[str, Any]] = [
            {"filename": one.file, "url": index.file_url(one), "hashes": {"sha256": one.sha256}} for one in dists
        ]
        wheels = [row for row in rows if row["filename"].endswith(".whl")]
        reader = VariantReader(Fetcher(credentials={}, env={"UV_HTTP_RETRIES": "0"}))
        found = reader.of_release(wheels, about_variants(rows))
        before = len(index.asked)
        assert reader.of_release(wheels, about_variants(rows)) == found and len(index.asked) <= before + len(WHEELS)
        return found


def test_the_wheels_say_what_the_file_says() -> None:
    file = about("lib", "1.0", VARIANTS)
    with_file, without = said(*WHEELS, file), said(*WHEELS)
    assert without == with_file == read_variants(file.content)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_that_the_page_names_and_that_is_not_there(ranges: bool) -> None:
    index = Index(ranges=ranges)
    index.fail("variants.json$", status(404))
    assert said(*WHEELS, about("lib", "1.0", VARIANTS), index=index) == said(*WHEELS)


def test_only_a_part_of_a_large_wheel_is_read() -> None:
    large = wheel(
        "lib", "1.0", padding=8 << 20, files={"lib-1.0.dist-info/variant.json": document({"cu130": VARIANTS["cu130"]})}
    )
    dist = Dist("lib", "1.0", "lib-1.0-py3-none-any-cu130.whl", large.content, large.metadata)
    with Index() as index:
        index.add(dist)
        row = {"filename": dist.file, "url": index.file_url(dist), "hashes": {"sha256": dist.sha256}}
        found = VariantReader(Fetcher(credentials={}, env={})).of_release([row], {})
        assert set(found.variants) == {"cu130"} and all(one.range for one in index.asked), index.asked


def _other(label: str, content: bytes | None, name: str = "lib") -> Dist:
    """A wheel whose `variant.json` is this text; without one for None."""
    files = {} if content is None else {f"{name}-1.0.dist-info/variant.json": content}
    made = wheel(name, "1.0", files=files)
    return Dist(name, "1.0", f"{name}-1.0-py3-none-any-{label}.whl", made.content, made.metadata)


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (_other("x", None), "doesn't say of x alone what it needs"),
        (_other("x", document({"y": cuda("13.0")})), "doesn't say of x alone"),
        (_other("x", document({"x": cuda("13.0"), "y": cuda("12.6")})), "doesn't say of x alone"),
        (_other("x", b"{"), "variant.json: it isn't JSON"),
        (_other("x", document({"x": {"x86_64": {"level": ["v2"]}}}, ("x86_64",))), "in different orders"),
        (
            _other("x", document({"x": cuda("13.0")}, providers={"nvidia": {"requires": ["evil"]}})),
            "different providers",
        ),
        (Dist("lib", "1.0", "lib-1.0-py3-none-any-x.whl", b"no archive", None), "isn't a wheel"),
    ],
)
def test_wheels_that_do_not_say_it_are_refused_by_name(odd: Dist, reason: str) -> None:
    with pytest.raises(InvalidVariants, match=reason) as refused:
        said(*WHEELS, odd)
    assert str(refused.value).isprintable()


def test_the_longer_list_of_namespaces_counts() -> None:
    more = _other("v2", document({"v2": {"x86_64": {"level": ["v2"]}}}, ("nvidia", "x86_64")))
    found = said(*WHEELS, more)
    assert found.priorities == ("nvidia", "x86_64") and set(found.providers) == {"nvidia", "x86_64"} <= set(PROVIDERS)


def test_a_release_with_too_many_wheels_to_read_is_refused() -> None:
    several = [variant_wheel("lib", "1.0", f"a{n}", cuda("12.6", 90)) for n in range(MAX_WHEELS + 1)]
    with pytest.raises(InvalidVariants, match="more than 32 variants"):
        said(*several)
