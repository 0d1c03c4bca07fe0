"""The variants of a release: `NAME-VERSION-variants.json` and a wheel's own `variant.json` (PEP 825).

Read as uv 0.13.8 reads them, and stricter: the file comes from an index, so its size, its depth and the number of its
properties are bounded, and every name in it has the form that the PEP gives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct, field

from envspec.base.documents import Unreadable, read_json

if TYPE_CHECKING:
    from zipfile import ZipFile

# The names of variant wheels (PEP 825): `torch-2.14.0-cp312-cp312-manylinux_2_28_x86_64-cu130.whl`.
#
# The label stands behind the tags. Without it the name is that of a plain wheel, which every tool reads.

MAX_LABEL = 64
"""Characters of a label. PEP 817 allows 16, PEP 825 any number; a file's name has 255."""

LABEL = re.compile(rf"[0-9a-z_.]{{1,{MAX_LABEL}}}")
VARIANTS_END = "-variants.json"
NULL = "null"
"""The label of the variant without properties, which every machine can have."""


class VariantName(NamedTuple):
    """plain  the file's name without the label
    label  the variant's label; None for a plain wheel
    """

    plain: str
    label: str | None


def read_name(file: str) -> VariantName:
    """Split the label from a wheel's file name. Any other name is plain."""
    stem = file.removesuffix(".whl")
    parts = stem.split("-")
    # with a build tag, which begins with a digit as no Python tag does, the tags stand one further on
    tagged = 6 if len(parts) > 2 and parts[2][:1].isdigit() else 5
    if stem == file or len(parts) != tagged + 1 or not LABEL.fullmatch(parts[-1]):
        return VariantName(file, None)
    return VariantName(f"{'-'.join(parts[:-1])}.whl", parts[-1])


def variants_file(wheel: str) -> str:
    """Give the name of the file beside a wheel that maps its release's labels to properties."""
    return f"{'-'.join(wheel.split('-')[:2])}{VARIANTS_END}"


def with_build(plain: str, build: str) -> str:
    """Give a plain wheel's name a build tag that differs from that of every other file, and ranks like its own."""
    name, version, *tags = plain.split("-")
    own = tags.pop(0) if len(tags) == 4 else "0"
    return "-".join((name, version, f"{own}v{build}", *tags))


MAX_BYTES = 1 << 20
"""Bytes of a file about variants."""
MAX_PROPERTIES = 256
"""Properties of one variant: a wheel for every GPU that NVIDIA ever made has some sixty."""
_MAX_VARIANTS = 1000
_MAX_VALUES = 1000
"""Values of a provider that lists them itself."""

_NAME = re.compile(r"[0-9a-z_]{1,64}")
_VALUE = re.compile(r"[0-9a-z_.]{1,64}")
_SCHEMA = re.compile(r"/v([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})\.json")
_MAJORS = ("0", "1")
"""The schema's versions that are known: 0 are the drafts, of which 1 is to be the last."""

SCHEMA = "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json"
"""The schema that envspec writes."""
NVIDIA, X86_64, AARCH64, ABI = "nvidia", "x86_64", "aarch64", "abi_dependency"


class Property(NamedTuple):
    """One property of a variant. Several values of one feature mean that any of them will do."""

    namespace: str
    feature: str
    value: str

    def __str__(self) -> str:
        return f"{self.namespace} :: {self.feature} :: {self.value}"


class Provider(Struct, frozen=True):
    """The plugin that names the values of a namespace that a machine supports.

    requires    the packages of a plugin, as they stand there
    plugin_api  where in them it is
    lists       the values that every machine supports, by feature, both in order: then there is no plugin
    """

    requires: tuple[str, ...] = ()
    plugin_api: str | None = None
    lists: tuple[tuple[str, tuple[str, ...]], ...] | None = None


class Variants(Struct, frozen=True):
    """The variants of one release.

    priorities  the namespaces, the most important first
    variants    label → properties
    """

    priorities: tuple[str, ...]
    variants: Mapping[str, tuple[Property, ...]]
    providers: Mapping[str, Provider] = field(default_factory=dict)


class WheelOfVariant(Struct, frozen=True):
    """A variant's wheel as a solution has it.

    label       its label
    properties  what its release says of the label
    priorities  the release's namespaces, the most important first; none where they haven't been read yet
    compatible  those of its properties that the target supports
    alone       of a target with several GPUs: capability → the label that a machine with this GPU alone would get
    """

    label: str
    properties: tuple[Property, ...] = ()
    priorities: tuple[str, ...] = ()
    compatible: frozenset[Property] = frozenset()
    alone: tuple[tuple[str, str], ...] = ()


class InvalidVariants(ValueError):
    """A file about variants that isn't one, with the reason, printable."""


def read_property(text: str) -> Property | None:
    """Read `nvidia :: sm_arch :: 90_real`; None for any other text."""
    parts = [part.strip(" ") for part in text.split("::")]
    if len(parts) != 3 or not (_NAME.fullmatch(parts[0]) and _NAME.fullmatch(parts[1]) and _VALUE.fullmatch(parts[2])):
        return None
    return Property(*parts)


def read_variants(content: bytes) -> Variants:
    """Read a file about variants. Raises InvalidVariants."""
    if len(content) > MAX_BYTES:
        raise InvalidVariants(f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        document = read_json(content)
    except Unreadable as error:
        raise InvalidVariants(f"it isn't JSON: {error.reason}") from None
    table = _table(document, "the file")
    _check_schema(table.get("$schema"))
    priorities = _names(_table(table.get("default-priorities"), "default-priorities").get("namespace"))
    rows = _table(table.get("variants"), "variants")
    if len(rows) > _MAX_VARIANTS:
        raise InvalidVariants(f"it has more than {_MAX_VARIANTS} variants")
    variants = {label: _variant(label, row, priorities) for label, row in rows.items()}
    providers = table.get("providers")
    return Variants(priorities, variants, {} if providers is None else _providers(providers, priorities))


def of_wheel(archive: ZipFile) -> Variants | None:
    """Read a wheel's statement of its variant; None for a plain one. Raises InvalidVariants and zipfile's errors."""
    named = [file for file in archive.infolist() if PurePosixPath(file.filename).match("*.dist-info/variant.json")]
    if not named:
        return None
    with archive.open(named[0]) as member:
        content = member.read(MAX_BYTES + 1)
    try:
        return read_variants(content)
    except InvalidVariants as error:
        raise InvalidVariants(f"{ascii(named[0].filename[:200])[1:-1]}: {error}") from None


def combine(wheels: Iterable[Variants]) -> Variants:
    """Put together what the wheels of a release say, each of its own variant. Raises InvalidVariants where they
    contradict one another (PEP 825: of two lists of namespaces one begins with the other)."""
    priorities: tuple[str, ...] = ()
    variants: dict[str, tuple[Property, ...]] = {}
    providers: dict[str, Provider] = {}
    for wheel in wheels:
        shorter, longer = sorted((priorities, wheel.priorities), key=len)
        if longer[: len(shorter)] != shorter:
            raise InvalidVariants("the release's wheels have their namespaces in different orders")
        priorities = longer
        for name, provider in wheel.providers.items():
            if providers.setdefault(name, provider) != provider:
                raise InvalidVariants(f"the release's wheels name different providers of {name}")
        variants |= wheel.variants
    return Variants(priorities, variants, providers)


def _check_schema(schema: Any) -> None:
    if type(schema) is not str:
        raise InvalidVariants("it names no schema")
    version = _SCHEMA.search(_path_of(schema))
    if version is None or version[1] not in _MAJORS:
        raise InvalidVariants(f"its schema {_excerpt(schema)} is none that envspec knows")


def _path_of(url: str) -> str:
    """Give the path of a URL, empty where it isn't one."""
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def _variant(label: str, table: Any, priorities: tuple[str, ...]) -> tuple[Property, ...]:
    if not LABEL.fullmatch(label):
        raise InvalidVariants(f"{_excerpt(label)} isn't a label")
    properties: list[Property] = []
    for namespace, features in _table(table, f"the variant {label}").items():
        if namespace not in priorities:
            raise InvalidVariants(f"{label} has the namespace {_excerpt(namespace)}, which default-priorities lacks")
        for feature, values in _table(features, f"{label}'s {namespace}").items():
            _match(_NAME, feature, "a feature")
            if values == []:
                raise InvalidVariants(f"{label} has no value of {feature}")
            for value in _texts(values, f"{label}'s {feature}"):
                properties.append(Property(namespace, feature, _match(_VALUE, value, "a value")))
                if len(properties) > MAX_PROPERTIES:
                    raise InvalidVariants(f"{label} has more than {MAX_PROPERTIES} properties")
    if (label == NULL) != (not properties):
        raise InvalidVariants(f"{label} has {'properties' if properties else 'none'}, and only {NULL} has none")
    return in_order(properties, priorities)


def in_order(properties: list[Property], priorities: tuple[str, ...]) -> tuple[Property, ...]:
    """Sort properties as a lock holds them: the namespaces by their priority, the rest by name."""
    return tuple(
        sorted(
            set(properties),
            key=lambda variant_property: (priorities.index(variant_property.namespace), variant_property),
        )
    )


def _providers(value: Any, priorities: tuple[str, ...]) -> dict[str, Provider]:
    table = _table(value, "providers")
    if {*table, ABI} != {*priorities, ABI}:
        # as uv has it; what depends on other packages' versions has no provider
        raise InvalidVariants("its providers aren't those of default-priorities")
    return {name: _provider(name, row) for name, row in table.items()}


def _provider(name: str, table: Any) -> Provider:
    row = _table(table, f"the provider of {name}")
    lists, api = row.get("static-properties"), row.get("plugin-api")
    if lists is None:
        if api is not None and type(api) is not str:
            raise InvalidVariants(f"the plugin-api of {name} isn't a text")
        return Provider(tuple(_texts(row.get("requires", []), f"what {name} requires")), api)
    values = {
        _match(_NAME, feature, "a feature"): tuple(_match(_VALUE, value, "a value") for value in _texts(texts, feature))
        for feature, texts in _table(lists, f"the properties of {name}").items()
    }
    order = _texts(
        row.get("feature-order", sorted(values) if len(values) < 2 else None), f"the feature-order of {name}"
    )
    if sorted(order) != sorted(values) or sum(map(len, values.values())) > _MAX_VALUES:
        raise InvalidVariants(f"the feature-order of {name} isn't that of its features, or they have too many values")
    return Provider(lists=tuple((feature, values[feature]) for feature in order))


def _names(value: Any) -> tuple[str, ...]:
    names = [_match(_NAME, name, "a namespace") for name in _texts(value, "default-priorities")]
    if not names or len(set(names)) < len(names):
        raise InvalidVariants("default-priorities has no namespace, or one twice")
    return tuple(names)


def _table(value: Any, what: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise InvalidVariants(f"{what} isn't a table")
    return value


def _texts(value: Any, what: str) -> list[str]:
    if type(value) is not list or len(value) > _MAX_VALUES or any(type(text) is not str for text in value):
        raise InvalidVariants(f"{what} isn't a list of texts")
    return value


def _match(pattern: re.Pattern[str], text: str, what: str) -> str:
    if not pattern.fullmatch(text):
        raise InvalidVariants(f"{_excerpt(text)} isn't {what}")
    return text


def _excerpt(text: str) -> str:
    return ascii(text[:40])
