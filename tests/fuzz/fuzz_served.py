"""What indexes, channels, registries and other programs answer. Their errors exit 3."""

import io
import json
import zipfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import urllib3
from fuzz_given import lines, parts, text
from fuzz_guard import Parser

from envspec.artifacts.conda_archives import is_panic
from envspec.artifacts.metadata import MetadataCache, MetadataReader
from envspec.artifacts.sdist.source import _unpack
from envspec.artifacts.sdist.static_source import Content, facts_of, parse_requires, read_content
from envspec.artifacts.wheel_reader import Unread, WheelReader, WheelSays, WheelStore
from envspec.base.errors import EnvspecError
from envspec.binaries.elf import X86_64, MalformedElf, read_dynamic
from envspec.binaries.import_time import modules_importing_at_start
from envspec.binaries.wheel import open_wheel
from envspec.configuration.settings import split_credentials
from envspec.facts.build_labels import label_of
from envspec.image.base import FOR_IMAGES, read_layers
from envspec.image.layer import Descriptor
from envspec.image.manifest import MANIFEST, read_image
from envspec.net.fetch import Reply, Stream
from envspec.net.file_store import FileStore
from envspec.net.index_proxy import address
from envspec.net.index_proxy.pages import Upstream
from envspec.net.index_proxy.releases import ReleaseStore, by_version, releases_of
from envspec.net.index_proxy.shown import body_of, has_variants, representatives
from envspec.net.limits import LIMITS
from envspec.net.provenance import parse_provenance
from envspec.net.registry import Registries
from envspec.net.simple_page import parse_page, refuse_foreign_page
from envspec.packages.archive_entries import Bounds, source_fault, wheel_fault
from envspec.packages.metadata import Metadata, metadata_text, parse_metadata
from envspec.packages.variant_choice import TargetMachine, choose
from envspec.packages.variant_markers import for_variant
from envspec.packages.variants import InvalidVariants, WheelOfVariant, read_name, read_variants
from envspec.prove.link.model import WheelFacts
from envspec.prove.link.store import LinkStore
from envspec.resolve.conda.solve import unsatisfiable
from envspec.resolve.pip.edges import active_lines
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import FoundFile, read_pylock
from envspec.resolve.uv.errors import failure
from envspec.review.audit.learn import file_facts
from envspec.review.audit.model import PublishedRelease
from envspec.review.audit.osv import parse_answer
from envspec.review.audit.pypi import parse_release
from envspec.review.audit.store import load as load_store

BOUNDS = Bounds(LIMITS.archive_entries, LIMITS.unpacked_bytes, LIMITS.unpacked_ratio)
URL = "https://packages.example.org/simple/lib9/"


def page(data: bytes, folder: Path) -> object:
    """From the index to what uv gets of it."""
    rows = parse_page(data, URL)
    refuse_foreign_page(URL, data)
    files = by_version(rows, "lib9")
    store = ReleaseStore(folder)
    store.put("pypi", "lib9", releases_of(files))
    store.get("pypi", "lib9")
    for row in rows:
        file_facts(row)
        split_credentials(row["url"])
    upstream = Upstream(URL, allowed=frozenset({"lib9"}))
    varied = {
        version: representatives(several.wheels)
        for version, several in files.items()
        if has_variants(row["filename"] for row in several.wheels)
    }
    shown = body_of("lib9", files, upstream.sources("lib9"), varied)
    for row in json.loads(shown)["files"]:
        address.parse(row["url"].removeprefix("../../"))
    return shown


def variants(data: bytes, folder: Path) -> object:
    """From the file about a release's variants to the one that a target gets."""
    read = read_variants(data)
    versions = (("torch", "2.9"),)
    machine = TargetMachine("linux-64", "3.12", "2.28", "12.8", capabilities=("9.0", "12.0"), versions=versions)
    best = choose(read, read.variants, machine)
    if best.label is not None:
        wheel = WheelOfVariant(best.label, read.variants[best.label], read.priorities, best.compatible, best.alone)
        for_variant(['a ; variant_label == "b" or "nvidia" in variant_namespaces'], wheel)
        file = address.FileAddress("v", URL, "0" * 64, 1, "lib9-1-py3-none-any.whl", variant=wheel)
        assert address.parse(address.path_of(file))
    return best


def variant_marker(line: str) -> object:
    kept = for_variant([line], None)
    return for_variant(kept, WheelOfVariant("b"))


def metadata(data: bytes, folder: Path) -> object:
    """From METADATA to the edges that a lock has."""
    found = parse_metadata(data.decode("utf-8", "replace"))
    cache = MetadataCache(folder)
    cache.put("0" * 64, found)
    assert cache.get("0" * 64) == found
    return metadata_text(found), _edges(found)


def _edges(found: Metadata) -> object:
    return active_lines(Request("linux-64", "3.12", "2.28", (found.name,)), {found.name: found})


def sdist_texts(data: bytes, folder: Path) -> object:
    """PKG-INFO, pyproject.toml and requires.txt of a source distribution."""
    info, project, requires = (part.encode("utf-8", "replace").decode() for part in parts(data, 3))
    texts = {"PKG-INFO": info, "pyproject.toml": project, "lib9.egg-info/requires.txt": requires}
    parse_requires(requires)
    facts = facts_of(Content(texts, [*texts, "src/lib9.c"]), "lib9", "1.0", len(data))
    return _edges(facts.metadata)


def sdist(data: bytes, folder: Path) -> object:
    """Its archive as it streams in, and as whoever builds it unpacks it."""
    archive = folder / "lib9-1.0.tar.gz"
    archive.write_bytes(data)
    for name in ("lib9-1.0.tar.gz", "lib9-1.0.zip", "lib9-1.0.tar"):
        source_fault(archive, BOUNDS, name)
        file = FoundFile(f"https://files.example.org/{name}", name, None)
        try:
            content = read_content(file, Stream(file.url, LIMITS.source_bytes, iter([data])))
        except EnvspecError as error:
            last: EnvspecError | None = error
        else:
            last = None
            facts_of(content, "lib9", "1.0", len(data))
    _unpack(archive, folder / "into", "lib9")
    if last is not None:
        raise last
    return None


class _Wheel:
    """An index that has one wheel, by ranges."""

    limits = LIMITS

    def __init__(self, content: bytes) -> None:
        self.content = content

    def range(self, url: str, start: int | None, length: int) -> Reply:
        start = max(0, len(self.content) - length) if start is None else start
        return Reply(206, self.content[start : start + length], len(self.content))

    def get(self, url: str, **more: object) -> Reply:
        return Reply(200, self.content, None) if not url.endswith(".metadata") else Reply(404, b"", None)


def wheel(data: bytes, folder: Path) -> object:
    """Its list of entries and its METADATA, by ranges; and what is looked through before anything unpacks it."""
    path = folder / "lib9-1.0-py3-none-any.whl"
    path.write_bytes(data)
    wheel_fault(path, BOUNDS)
    file = FoundFile(f"https://files.example.org/{path.name}", path.name, None)
    return MetadataReader(MetadataCache(folder), cast(Any, _Wheel(data))).read(file)


def wheel_content(data: bytes, folder: Path) -> object:
    """What it says of itself, by ranges, kept and read again."""
    file = FoundFile("https://files.example.org/lib9-1.0-py3-none-any.whl", "lib9-1.0-py3-none-any.whl", None)
    reader = WheelReader(WheelStore(folder), FileStore(folder, cast(Any, _Wheel(data))))
    says = reader.ask(file, "pypi", frozenset({"numpy", "pkg_resources", "notes"}))
    assert isinstance(says, Unread) or reader.ask(file, "pypi", frozenset({"notes"})) == says
    return says


def wheel_module(data: bytes, folder: Path) -> object:
    """A Python module of a wheel, as if it were its only one."""
    with io.BytesIO() as packed:
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("lib9/__init__.py", data)
        with open_wheel(packed) as opened:
            return modules_importing_at_start(opened, "pkg_resources")


def wheel_answers(data: bytes, folder: Path) -> object:
    """An entry of the cache."""
    store = WheelStore(folder)
    store.put("0" * 64, WheelSays())
    next(folder.rglob("*.json")).write_bytes(data)
    return store.get("0" * 64)


def elf(data: bytes, folder: Path) -> object:
    """A library of a wheel, as the loader reads it."""
    return read_dynamic(io.BytesIO(data), X86_64, lambda name: True)


def linked_answers(data: bytes, folder: Path) -> object:
    """An entry of the cache: facts of libraries."""
    store = LinkStore(folder)
    store.put("0" * 64, X86_64, WheelFacts())
    next(folder.rglob("*.json.z")).write_bytes(zlib.compress(data))
    return store.get("0" * 64, X86_64)


class _Pool:
    """A registry that answers with what an input has: a challenge, a token, a manifest, more headers."""

    def __init__(self, challenge: str, token: str, manifest: str, more: str) -> None:
        self.challenge, self.token, self.manifest, self.more = challenge, token, manifest, more

    def request(self, method: str, url: str, headers: dict[str, str], **settings: object) -> object:
        asked = "Authorization" in headers
        status = 200 if asked or "/manifests/" not in url or not self.challenge else 401
        body = self.manifest if "/manifests/" in url else self.token
        found = {"WWW-Authenticate": _header(self.challenge)} if status == 401 else {}
        for line in self.more.splitlines():
            name, colon, value = line.partition(":")
            if name == "status":
                status = int(value) if value.strip() in ("200", "401", "404", "429", "302", "307", "405") else status
            elif colon and name.isascii() and name.isprintable():
                found[name] = _header(value)
        content = b"" if method == "HEAD" else body.encode("utf-8", "surrogateescape")
        return urllib3.HTTPResponse(io.BytesIO(content), found, status, preload_content=False)


def _header(value: str) -> str:
    """As http.client has it: one line of Latin-1."""
    return " ".join(value.encode("utf-8", "surrogateescape").decode("latin-1").split())


def registry(data: bytes, folder: Path) -> object:
    pool = _Pool(*parts(data, 4))
    return Registries(lambda url: cast(Any, pool), {}, {"HOME": str(folder)}).digest("registry.example.org/a/b:1")


def image_manifest(data: bytes, folder: Path) -> object:
    """An image's manifest and, after a line of three hyphens, its configuration, whose digest is made to fit."""
    manifest, _, config = data.partition(b"\n---\n")
    blob = Descriptor("", f"sha256:{sha256(config).hexdigest()}", len(config))
    named = manifest.replace(b"CONFIG", blob.digest.encode()).replace(b"112358", str(len(config)).encode())
    top = Descriptor(MANIFEST, f"sha256:{sha256(named).hexdigest()}", len(named))
    found = read_image(top, lambda one: named if one.digest == top.digest else config, "linux/amd64", "an image")
    return found.diff_ids, found.annotations


def base_layer(data: bytes, folder: Path) -> object:
    """A base's layer, a plain tar, with the digests that it has."""
    digest = f"sha256:{sha256(data).hexdigest()}"
    one = Descriptor("application/vnd.oci.image.layer.v1.tar", digest, len(data))
    found = read_layers([(one, digest)], lambda blob: io.BytesIO(data), "a base", FOR_IMAGES)
    return found.packages(), found.paths


def release(data: bytes, folder: Path) -> object:
    return parse_release(
        data, PublishedRelease("lib9", "1.0"), "https://packages.example.org/pypi/lib9/1.0/json", "2026-11-01"
    )


def reports(data: bytes, folder: Path) -> object:
    return parse_answer(data, 2, "https://osv.example.org/v1/querybatch")


def stored(data: bytes, folder: Path) -> object:
    """What `audit` keeps, `--offline` reads, and whatever lies in the cache otherwise."""
    (folder / "audit.json").write_bytes(data)
    cached = folder / "metadata-v2" / "00"
    cached.mkdir(parents=True)
    (cached / f"{'0' * 62}.json").write_bytes(data)
    pages = folder / "releases-v2" / "pypi"
    pages.mkdir(parents=True)
    (pages / "lib9.jsonl").write_bytes(data)
    MetadataCache(folder).get("0" * 64)
    ReleaseStore(folder).get("pypi", "lib9")
    return load_store(folder / "audit.json")


def uv_error(data: bytes, folder: Path) -> object:
    said = text(data)
    return [
        str(failure(status, said, label="cpu", offline=offline, index=index))
        for status in (1, 2)
        for offline in (False, True)
        for index in (None, "https://u:p@packages.example.org/simple")
    ]


def conda_record(data: bytes, folder: Path) -> object:
    """A record of repodata, from rattler's own reader of the page to the pin."""
    from rattler import Channel, SparseRepoData
    from rattler.exceptions import InvalidPackageNameError, IoError

    from envspec.resolve.conda.request import best_of_each, build_of, pins_of_records

    path = folder / "repodata.json"
    path.write_bytes(data)
    channel = Channel("https://packages.example.org/conda-forge")
    try:
        loaded = SparseRepoData(channel, "linux-64", path)
        records = [record for name in loaded.package_names() for record in loaded.load_records(name)]
    except (OSError, ValueError, IoError, InvalidPackageNameError):
        # rattler's own to refuse, in its gateway: `conda_failure` tells it
        return None
    except BaseException as error:
        if is_panic(error):
            return None
        raise
    best_of_each(records, "3.12")
    base = "https://packages.example.org/conda-forge"
    return pins_of_records({build_of(record): record for record in records}, {base: "conda-forge"}, ["lib9"])


SERVED = (
    Parser("page", page, (3,)),
    Parser("variants", variants, refuses=(InvalidVariants,)),
    Parser("variant-name", lines(read_name)),
    Parser("variant-marker", lines(variant_marker)),
    Parser("metadata", metadata, (3,), (ValueError,)),
    Parser("sdist-texts", sdist_texts, (3,)),
    Parser("sdist", sdist, (3,)),
    Parser("wheel", wheel, (3,)),
    Parser("wheel-content", wheel_content),
    Parser("wheel-module", wheel_module),
    Parser("wheel-answers", wheel_answers),
    Parser("elf", elf, refuses=(MalformedElf,)),
    Parser("linked-answers", linked_answers),
    Parser("build-label", lines(lambda line: label_of(line, line))),
    Parser("registry", registry, (3,)),
    Parser("image-manifest", image_manifest, (2,)),
    Parser("base-layer", base_layer, (2,)),
    Parser("release-json", release, (3,)),
    Parser("malware-reports", reports, (3,)),
    Parser("stored-answers", stored, (3,)),
    Parser("provenance", lambda data, folder: parse_provenance(data, URL).claimed, (3,)),
    Parser("proxy-address", lines(address.parse)),
    Parser("uv-error", uv_error),
    Parser("uv-answer", lambda data, folder: read_pylock(text(data)), (3,)),
    Parser("conda-conflict", lambda data, folder: str(unsatisfiable(text(data), "cpu"))),
    Parser("conda-record", conda_record, (3,)),
)
