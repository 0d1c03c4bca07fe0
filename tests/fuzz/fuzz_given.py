"""What users and repositories give: specs, locks, other tools' locks, requirements, reports. Their errors exit 2."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fuzz_guard import Parser

from envspec.base.errors import InputError, Place
from envspec.base.reader.document import decode
from envspec.base.reader.nodes import BadValue
from envspec.base.redact import has_credentials, redact, without_credentials
from envspec.base.texts import printable
from envspec.binaries.inspect import inspect
from envspec.draft.render import Heading, make_parseable, render
from envspec.draft.repository import read_draft
from envspec.draft.targets import CPU
from envspec.export.leftovers import removable
from envspec.export.plan import CARRIED_FOLDER, read_sums
from envspec.facts.gpus import capability_of, find, nearest
from envspec.image.base import BaseFiles
from envspec.image.holdings import WANTED, take_stock
from envspec.image.sif import open_sif
from envspec.lock.formats.foreign.read import oldest_python, sides
from envspec.lock.formats.foreign.shape import Malformed
from envspec.lock.formats.foreign.universal import holds
from envspec.lock.inventory import read_inventory
from envspec.lock.judge import judge
from envspec.lock.model import Lock
from envspec.lock.read import loads, text_of
from envspec.lock.slice import slice_digest, slice_of
from envspec.lock.write import dumps
from envspec.net.registry import image_address
from envspec.packages import licences, names
from envspec.packages.conda import BuildRecord, admits, compare, starts_with
from envspec.packages.requirement import canonical_name, parse_marker, parse_requirement
from envspec.packages.tags import marker_environment
from envspec.prove.smoke.report.compare import load_references
from envspec.prove.smoke.report.read import read_report, report_json
from envspec.prove.smoke.run.slurm import partition_of
from envspec.review.audit.model import PublishedRelease
from envspec.review.audit.osv import OsvDatabase
from envspec.review.git.merge import merge
from envspec.review.git.textconv import readable
from envspec.review.report.checked import from_json
from envspec.rules.judge import judge as judge_target
from envspec.spec.matrix import Lookups
from envspec.spec.model import ProjectParts
from envspec.spec.parse import parse_spec
from envspec.spec.project import parse_project
from envspec.spec.times import utc_time
from envspec.spec.values import match_spec, requirement

SEPARATOR = b"\n%%%%\n"
"""Between the parts of an input that is several texts."""

LINUX = marker_environment("linux-64", "3.12")


def parts(data: bytes, count: int) -> list[str]:
    """So many texts, of which the last ones may be empty."""
    found = data.split(SEPARATOR, count - 1)
    return [text(part) for part in [*found, *[b""] * (count - len(found))]]


def text(data: bytes) -> str:
    """As Python reads what others wrote: what isn't UTF-8 becomes halves of surrogate pairs."""
    return data.decode("utf-8", "surrogateescape")


def sound(data: bytes) -> str:
    """As envspec reads a spec: no text of it has halves of surrogate pairs."""
    return data.decode("utf-8", "replace")


def lines(read: Callable[[str], object], decoded: Callable[[bytes], str] = text) -> Callable[[bytes, Path], object]:
    """A parser of one line as a parser of a file of them; what one line is refused for leaves the next."""

    def each(data: bytes, folder: Path) -> object:
        last: object = None
        for line in decoded(data).split("\n"):
            try:
                last = read(line)
            except (ValueError, BadValue) as error:
                _documented(error)
        return last

    return each


def _documented(error: Exception) -> None:
    """A UnicodeError is a ValueError that nobody means."""
    if isinstance(error, UnicodeError):
        raise TypeError(f"undocumented: {error!r}") from error


def spec(data: bytes, folder: Path) -> object:
    parsed = parse_spec(decode(data, "specs/a.toml"), "specs/a.toml", Lookups(capability_of))
    for target in parsed.targets[:20]:
        judge_target(parsed, target)
    return parsed


def pyproject(data: bytes, folder: Path) -> object:
    wanted = ProjectParts(("train", "data"), ("dev", "type-check"))
    text = decode(data, "pyproject.toml")
    return parse_project(text, ".", wanted, "pyproject.toml", python="==3.12.*", tied=frozenset())


def lock(data: bytes, folder: Path) -> object:
    found = loads(text_of(data, Path("envspec.lock")), "envspec.lock")
    assert loads(dumps(found), "again") == found
    for target in found:
        slice_digest(slice_of(found, target))
    return judge(found), readable(found).encode()


def merged_lock(data: bytes, folder: Path) -> object:
    base, ours, theirs = (_lock_or_none(part) for part in parts(data, 3))
    if ours is None or theirs is None:
        return None
    found = merge(base, ours, theirs)
    return [str(conflict) for conflict in found.conflicts], dumps(found.lock)


def _lock_or_none(content: str) -> Lock | None:
    try:
        return loads(content, "envspec.lock")
    except InputError:
        return None


def one_requirement(line: str) -> object:
    canonical_name(line)
    names.requirement_name(line)
    return parse_requirement(names.normalise_requirement(line))


def marker(line: str) -> object:
    oldest_python(line)
    with suppress(Malformed):
        holds(line, LINUX)
    return parse_marker(line)


def versions(data: bytes, folder: Path) -> object:
    one, other, match = parts(data, 3)
    starts_with(one, other)
    names.normalise_match_spec(match)
    BuildRecord("a", one, other, 0, "linux-64", tuple(match.split("\n"))).admits("12.8")
    return compare(one, other), admits(match, one, other)


def foreign(name: str) -> Callable[[bytes, Path], object]:
    def read(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return sides(path, path)

    return read


def begun(name: str) -> Callable[[bytes, Path], object]:
    """A file of another tool as the beginning of a spec: whatever is in it, the text parses or an error says why."""

    def read(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        heading = Heading(str(folder / "specs" / "a.toml"), "a", "3.12", name)
        cpu = (CPU,)
        return make_parseable(
            lambda draft: render(draft, heading, cpu), read_draft(path), lambda text: parse_spec(text, heading.path)
        )

    return read


def device_code(data: bytes, folder: Path) -> object:
    path = folder / "a-1-py3-none-any.whl"
    path.write_bytes(data)
    return inspect(path)


def references(data: bytes, folder: Path) -> object:
    path = folder / "references.toml"
    path.write_bytes(data)
    return load_references(path).of("cpu")


def inventory(data: bytes, folder: Path) -> object:
    found = read_inventory(sound(data), Place("base.toml"))
    assert read_inventory(found.text, Place("base.toml")) == found
    return found.packages_besides(()), found.constraints_on(("numpy",)), found.cuda


def sif(data: bytes, folder: Path) -> object:
    path = folder / "a.sif"
    path.write_bytes(data)
    return open_sif(path)


def base_files(data: bytes, folder: Path) -> object:
    """What a base gives: parts, each a path with a file's content below it, or with where a link leads behind it. The
    inventory that is made of them can be read again."""
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    paths = set()
    for part in parts(data, 50):
        path, _, content = part.partition("\n")
        path, arrow, target = path.partition(" -> ")
        if WANTED.contents.fullmatch(path) and not arrow:
            files[path] = content.encode("utf-8", "surrogateescape")
        if WANTED.seen.fullmatch(path):
            paths.add(path)
            links |= {path: target} if arrow else {}
    found = take_stock(BaseFiles(files, {}, frozenset(paths), links), "./base", {"PATH": "/opt/venv/bin:/usr/bin"})
    assert read_inventory(found.text, Place("base.toml")) == found
    return found


def report(data: bytes, folder: Path) -> object:
    return report_json(read_report(data.decode("utf-8", "replace"), "report.json"))


def audit(data: bytes, folder: Path) -> object:
    return from_json(text(data), Place("audit.json"), "sha256:0", ())


def advisories(data: bytes, folder: Path) -> object:
    path = folder / "all.json"
    path.write_bytes(data)
    return OsvDatabase.read(path).ask(PublishedRelease("lib9", "1.0"))


def sums(data: bytes, folder: Path) -> object:
    content = text(data)
    known = read_sums(content)
    return list(removable([path for path, _ in known], {CARRIED_FOLDER: known}, lambda path: content))


def licence(line: str) -> object:
    return licences.identifier(line), licences.judge(line, len, max, min)


def gpu(line: str) -> object:
    return find(line), capability_of(line), nearest(line)


def anything(line: str) -> object:
    """What every message goes through."""
    return printable(line), redact(line), without_credentials(line), has_credentials(line)


GIVEN = (
    Parser("spec", spec, (2,)),
    Parser("pyproject", pyproject, (2,)),
    Parser("lock", lock, (2,)),
    Parser("merged-lock", merged_lock),
    Parser("requirement", lines(one_requirement)),
    Parser("marker", lines(marker)),
    Parser("dependency", lines(requirement, sound), (2,)),
    Parser("match-spec", lines(match_spec, sound), (2,)),
    Parser("time", lines(utc_time, sound)),
    Parser("versions", versions),
    Parser("licence", lines(licence)),
    Parser("gpu", lines(gpu)),
    Parser("any-text", lines(anything)),
    Parser("image", lines(image_address, sound), (2,)),
    Parser("partition", lines(partition_of), (2,)),
    *(
        Parser(f"foreign-{name.partition('.')[0]}-{name.rpartition('.')[2]}", foreign(name), (2,))
        for name in ("uv.lock", "poetry.lock", "pylock.toml", "pixi.lock", "conda-lock.yml", "environment.yml")
    ),
    Parser("foreign-requirements-txt", foreign("requirements.txt"), (2,)),
    *(
        Parser(f"begun-{name.partition('.')[0]}-{name.rpartition('.')[2]}", begun(name), (2,))
        for name in ("requirements.txt", "environment.yml", "pyproject.toml", "pixi.toml", "cog.yaml")
    ),
    Parser("begun-dockerfile", begun("Dockerfile"), (2,)),
    Parser("foreign-explicit-txt", foreign("explicit.txt"), (2,)),
    Parser("device-code", device_code, (2, 3)),
    Parser("references", references, (2,)),
    Parser("inventory", inventory, (2,)),
    Parser("sif", sif, (2,)),
    Parser("base-files", base_files, (2,)),
    Parser("smoke-report", report, (2,)),
    Parser("audit-report", audit, (2,)),
    Parser("advisories", advisories, (2,)),
    Parser("sha256sums", sums),
)
