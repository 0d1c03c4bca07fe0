"""The proxy's URLs. Each one says all that the proxy needs to serve it, as uv may keep a page in its cache for longer
than the proxy lives.

    /<root>/<project>/                                  a page
    /<root>/f/<key>/<scheme>/<host>/<path>              a wheel; `.metadata` behind it gives its METADATA
    /<root>/n/<key>/<scheme>/<host>/<path>/<stand-in>   a source that may not be built, shown as a wheel
    /<root>/a/<key>/<scheme>/<host>/<path>/<stand-in>   a source that may be built, shown as a wheel
    /<root>/v/<key>/<variant>/<scheme>/<host>/<path>/<stand-in>   a variant's wheel, shown as a plain one

The root decides which corrections METADATA is shown with. The key is `<sha256>.<size>`, with "-" for a sha256 that the
page doesn't say. `.y` follows it for a yanked file, `.r` and its Requires-Python in base64 where the files of its
release differ in that; then `.p` and the address of the file's attestations (PEP 740) in base64, where the page has
one; then `.m` if METADATA lies beside the file, and the sha256 of the METADATA if the page has it.
The variant is what the index says of the wheel's label, as far as a lock holds it, or why it can't be read.
"""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.redact import hide_token, show_token
from envspec.packages.variants import Property, WheelOfVariant, read_name

WHEEL, REFUSED, ALLOWED, VARIANT = "f", "n", "a", "v"
"""The kinds of files: a wheel, the stand-in for a source that may not be built, and for one that may; the wheel of a
variant."""
_FAULT = "fault."
_SIDECAR = ".m"
_PROVENANCE = ".p"
_PYTHON = ".r"
_YANKED = ".y"
_NO_HASH = "-"


class FileAddress(Struct, frozen=True):
    """The file behind a URL of the proxy.

    kind      WHEEL, REFUSED, ALLOWED or VARIANT
    url       its address on the index, without credentials
    sha256    empty if the index doesn't say it
    size      in bytes, None if the index doesn't say
    stand_in  the file name of the wheel that a source or a variant is shown as; None for a wheel
    sidecar   the index says that the METADATA lies beside it (PEP 658)
    metadata_sha256  the hash of that METADATA on its page
    provenance  the address of the file's attestations (PEP 740); None where the page names none
    variant   the index's data on the variant
    yanked    its publisher withdrew it
    requires_python  what its page says of it, where that isn't the same for all files of its release
    fault     why nothing is known of the variant
    """

    kind: str
    url: str
    sha256: str
    size: int | None
    stand_in: str | None = None
    sidecar: bool = False
    metadata_sha256: str | None = None
    provenance: str | None = None
    variant: WheelOfVariant | None = None
    fault: str | None = None
    yanked: bool = False
    requires_python: str | None = None

    @property
    def file(self) -> str:
        """The file's name."""
        return unquote(urlsplit(self.url).path).rsplit("/", 1)[-1]


def path_of(file: FileAddress) -> str:
    """Make the path of the proxy's URL for a file, from the kind on, which stands behind the root.

    Pages have thousands of files, so this parses no more of a URL than it must.
    """
    url, size, python = file.url, file.size, file.requires_python
    if "#" in url:
        url = url.partition("#")[0]
    scheme, _, rest = url.partition("://")
    mark = query = ""
    if "?" in rest:
        rest, mark, query = rest.partition("?")
    host, slash, path = rest.partition("/")
    if "@" in host:
        host = host.rpartition("@")[2]
    # what the proxy says ends up in uv's cache
    path = hide_token(host, path)
    stub_part = f"/{file.stand_in}" if file.stand_in else ""
    sidecar_part = f"{_SIDECAR}{file.metadata_sha256 or ''}" if file.sidecar else ""
    provenance = _PROVENANCE + _encode(file.provenance) if file.provenance else ""
    attributes = f"{_YANKED if file.yanked else ''}{_PYTHON + _encode(python) if python else ''}"
    key = f"{file.sha256 or _NO_HASH}.{'' if size is None else size}{attributes}{provenance}{sidecar_part}"
    about = f"{variant_text(file.variant, file.fault)}/" if file.kind == VARIANT else ""
    return f"{file.kind}/{key}/{about}{scheme}/{host}{slash}{path}{stub_part}{mark}{query}"


def variant_text(variant: WheelOfVariant | None, fault: str | None = None) -> str:
    """Write a variant, without its label, or why it can't be read, as a part of a path: no character of its names means
    anything there."""
    if fault:
        return _FAULT + base64.urlsafe_b64encode(fault[:300].encode()).decode()
    variant = variant or WheelOfVariant("")
    properties = (f"{':'.join(prop)}{'*' * (prop in variant.compatible)}" for prop in variant.properties)
    alone = ";".join(map("=".join, variant.alone))
    return f"{','.join(variant.priorities)}!{';'.join(properties)}!{alone}"


def parse(path: str) -> FileAddress | None:
    """Read the file back from a path of `path_of`, without the root. None for anything else."""
    path, _, query = path.partition("?")
    kind, *rest = path.split("/", 5 if path.startswith(f"{VARIANT}/") else 4)
    variant_part = rest.pop(1) if kind == VARIANT and len(rest) == 5 else ""
    if kind not in (WHEEL, REFUSED, ALLOWED, VARIANT) or len(rest) != 4:
        return None
    key, scheme, host, below = rest
    front, sidecar, metadata_sha256 = key.partition(_SIDECAR)
    front, _, provenance = front.partition(_PROVENANCE)
    front, _, python = front.partition(_PYTHON)
    front, yanked, _ = front.partition(_YANKED)
    sha256, _, size = front.partition(".")
    if scheme not in ("http", "https", "file"):
        return None
    stand_in = None
    if kind != WHEEL:
        below, _, stand_in = below.rpartition("/")
    url = f"{scheme}://{host}/{show_token(host, below)}" + (f"?{query}" if query else "")
    length = int(size) if size.isdecimal() else None
    sha256 = "" if sha256 == _NO_HASH else sha256
    address = FileAddress(
        kind,
        url,
        sha256,
        length,
        stand_in,
        bool(sidecar),
        metadata_sha256 or None,
        _decode(provenance),
        yanked=bool(yanked),
        requires_python=_decode(python),
    )
    if kind != VARIANT:
        return address
    if variant_part.startswith(_FAULT):
        return replace(
            address, fault=base64.urlsafe_b64decode(variant_part.removeprefix(_FAULT)).decode("utf-8", "replace")
        )
    return replace(address, variant=_variant(variant_part, address.file.removesuffix(".metadata")))


def _variant(part: str, file: str) -> WheelOfVariant:
    front, listed, last, *_ = (*part.split("!"), "", "")
    properties = {
        Property(*parts): text.endswith("*")
        for text in listed.split(";")
        if len(parts := text.rstrip("*").split(":")) == 3
    }
    compatible = frozenset(prop for prop, fits in properties.items() if fits)
    priorities = tuple(filter(None, front.split(",")))
    alone = tuple((name, label) for name, _, label in (text.partition("=") for text in last.split(";")) if label)
    return WheelOfVariant(read_name(file).label or "", tuple(properties), priorities, compatible, alone)


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(encoded: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode() or None
    except ValueError:
        return None
