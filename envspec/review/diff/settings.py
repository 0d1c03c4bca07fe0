"""Changes of the spec's settings: usually the reason for all other changes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from envspec.base.texts import few
from envspec.lock.formats.foreign.side import Terms
from envspec.lock.formats.foreign.terms import GUARDS, HASHES
from envspec.lock.inputs import bare_address, normal_address, same_address
from envspec.lock.inventory import sentence
from envspec.lock.model import Lock, LockedCorrection, LockedPython, Pin, SpecInputs, TargetInputs
from envspec.packages.names import channel_name, conda_name, requirement_name
from envspec.packages.version_numbers import numbers, numbers_in
from envspec.review.diff.jump import jump
from envspec.review.diff.model import ImageChange
from envspec.review.diff.of_specs import moved_address
from envspec.review.diff.rows import Fact, PythonMove, Risk, differing
from envspec.spec.model import NewerFor
from envspec.spec.newer import is_weaker

_UNREAD = "wheels aren't read: what their METADATA leaves out isn't found"


def of_spec(old: SpecInputs, new: SpecInputs, addresses: Mapping[str, str]) -> Iterator[Fact]:
    """Yield the changes for all targets. `addresses` are those of the new side's indexes, by name, as far as known."""
    if old.exclude_newer != new.exclude_newer:
        message = _describe_change("exclude-newer", old.exclude_newer, new.exclude_newer)
        gone = new.exclude_newer is None
        more = ". Releases of any age get in from now on" if gone else ""
        risk: Risk = "medium" if gone else "low"
        yield Fact(risk, "exclude-newer-changed", f"{message}{more}", key=("env", "exclude-newer"))
    if old.image_python != new.image_python:
        pythons = (inputs.image_python or "locked" for inputs in (old, new))
        message = _describe_change("the Python of images", *pythons)
        yield Fact("medium", "image-python-changed", message, key=("image", "python"))
    came, went = _between(old.allow_source, new.allow_source)
    if came:
        message = f"{', '.join(came)} may be built from source from now on, which runs the code of the build"
        yield Fact("medium", "allow-source-added", message, key=("pip", "allow-source"))
    if went:
        yield Fact("low", "allow-source-removed", f"{', '.join(went)} may no longer be built from source")
    for name, was, now in differing(old.sources, new.sources):
        if now is None:
            message = f"{name} is no longer tied to the index {was}: any index may supply it"
            yield Fact("high", "source-removed", message, key=("pip", "sources", name))
        else:
            address = f" ({addresses[now]})" if now in addresses else ""
            instead = f", no longer from {was}" if was else "; before, the spec tied it to none"
            message = f"{name} comes from the index {now}{address} alone from now on{instead}"
            yield Fact("medium", "source-changed", message, key=("pip", "sources", name))
    yield from _channels(old.channels, new.channels)
    came, went = _between(old.without_corrections, new.without_corrections)
    for names in filter(None, (came, went)):
        listed = f"envspec's correction{'s' * (len(names) != 1)} {', '.join(names)}"
        if names is came:
            message = f"the spec switches off {listed}: versions may meet that don't work together"
            yield Fact("medium", "corrections-changed", message, key=("pip", "without-corrections"))
        else:
            yield Fact("low", "corrections-changed", f"the spec no longer switches off {listed}")


def _channels(old: Iterable[str], new: Iterable[str]) -> Iterator[Fact]:
    """Yield the channels that are elsewhere now under the name that the lock calls them by, and other channels, or
    another order of them."""
    before, after = ({channel_name(channel): channel for channel in side} for side in (old, new))
    for name in sorted(before.keys() & after.keys()):
        if not same_address(before[name], after[name]):
            addresses = f"{bare_address(before[name])} -> {bare_address(after[name])}"
            message = f"the channel {name} is at another address: {addresses}. Its files come from there now"
            yield Fact("high", "index-address-changed", message, key=("conda", "channels"))
    if [*before] != [*after]:
        sides = (_list(map(bare_address, side.values())) for side in (before, after))
        yield Fact("medium", "channels-changed", _describe_change("channels", *sides), key=("conda", "channels"))


def of_exceptions(
    old: Iterable[NewerFor], new: Iterable[NewerFor], now: datetime, days: tuple[str | None, str | None]
) -> Iterator[Fact]:
    """Yield the exceptions of `exclude-newer` that came, changed and ended. `days` are those on which the two locks
    were made, where that is known: an exception ends between them by its `until`."""
    before, after = ({(exception.of_index, exception.name): exception for exception in side} for side in (old, new))
    for of_index, name in sorted({*before, *after}):
        was, current = before.get((of_index, name)), after.get((of_index, name))
        what = f"the index {name}" if of_index else name
        key = ("env", f"exclude-newer-{'index' if of_index else 'package'}", name)
        if current is None:
            yield Fact("low", "exception-ended", f"exclude-newer holds for {what} again")
        elif was is None:
            message = f"files of {what} may be {_terms(current)}, past exclude-newer"
            yield Fact("high", "exception-added", message, key=key)
        elif was != current:
            risk: Risk = "high" if is_weaker(current, was, now) else "low"
            message = f"files of {what} may be {_terms(current)}, past exclude-newer (was {_terms(was)})"
            yield Fact(risk, "exception-changed", message, key=key)
        elif current.until and days[0] and days[1] and days[0] <= current.until < days[1]:
            message = f"the exception of exclude-newer for {what} ended on {current.until}: remove it"
            yield Fact("low", "exception-ended", message)


def of_merge(base: Lock, side: Lock, revision: str, old: Lock, new: Lock) -> Iterator[Fact]:
    """Yield the packages that a side of a merge moved up from the common ancestor, and that are older in the new lock;
    not those that went back behind the old one too, which have rows of their own."""
    for target in new:
        sides = [lock.target(target.name) for lock in (base, side, old)]
        known = [{(pin.name, pin.kind): pin for pin in (locked.pins if locked else ())} for locked in sides]
        for pin in target.pins:
            was, merged, before = (pins.get((pin.name, pin.kind)) for pins in known)
            if merged and was != merged and _is_behind(pin, merged) and not (before and _is_behind(pin, before)):
                message = f"{pin.name} is {pin.version}, though {revision}, a side of the merge, has {merged.version}"
                yield Fact("high" if pin.direct else "medium", "merge-lost", message, (target.name,), pin.name)


def _is_behind(pin: Pin, other: Pin) -> bool:
    return jump(pin.kind, other.version, pin.version).down


def _terms(exception: NewerFor) -> str:
    until = f" until {exception.until}" if exception.until else ""
    return f"{f'as new as {exception.bound}' if exception.bound else 'of any date'}{until}, because {exception.reason}"


def _metadata(old: TargetInputs, new: TargetInputs) -> Iterator[Fact]:
    """Yield the metadata that the spec states of sources now: a person's word, which nothing proves."""
    before, after = ({metadata.title: metadata.dependencies for metadata in side.metadata} for side in (old, new))
    for title, was, now in differing(before, after):
        if now is None:
            yield Fact("low", "metadata-removed", f"the spec no longer states what {title} requires")
        elif was != now:
            text = f"the spec states that {title} requires {_list(now) or 'nothing'}"
            message = text if was is None else f"{text} (was {_list(was) or 'nothing'})"
            yield Fact("medium", "metadata-stated", message, key=("pip", "metadata"))


def of_target(old: TargetInputs, new: TargetInputs) -> Iterator[Fact]:
    """Yield the changes for one target, except CUDA and its GPUs, which `gpu_meaning` covers."""
    if old.platform != new.platform:
        yield Fact("high", "platform-changed", _describe_change("platform", old.platform, new.platform))
    if old.python != new.python:
        yield Fact("medium", "python-changed", _describe_change("Python", old.python, new.python))
    if old.glibc != new.glibc and old.platform == new.platform:
        raised = bool(old.glibc and new.glibc and numbers(new.glibc) > numbers(old.glibc))
        message = _describe_change("glibc", old.glibc, new.glibc) + (": older systems can't run this" if raised else "")
        yield Fact("medium" if raised else "low", "glibc-raised" if raised else "glibc-changed", message)
    yield from _machines(old, new)
    if old.inspect != new.inspect:
        if new.inspect:
            yield Fact("low", "inspect-changed", "wheels are read for what their METADATA leaves out")
        else:
            message = "wheels aren't read any more: what their METADATA leaves out isn't found"
            yield Fact("medium", "inspect-changed", message, key=("pip", "inspect"))
    yield from _requirements(old.requirements, new.requirements, requirement_name)
    yield from _requirements(old.conda_requirements, new.conda_requirements, conda_name, "conda's ")
    yield from _metadata(old, new)
    yield from _constraints(old.constraints, new.constraints)
    yield from _overrides(dict(old.overrides), dict(new.overrides))
    yield from _pages(dict(old.find_links), dict(new.find_links))
    yield from _moved_addresses(old, new)
    yield from _acceptance_changes(dict(old.accept), dict(new.accept))


def _machines(old: TargetInputs, new: TargetInputs) -> Iterator[Fact]:
    """Yield the changes of the spec's machines: a person's word, by which driver floors and builds are judged."""
    if old.driver != new.driver:
        message = _describe_change("the machines' driver", old.driver, new.driver)
        if not new.driver:
            yield Fact("medium", "driver-changed", f"{message}: no driver floor is held against it any more")
        elif old.driver and numbers_in(new.driver) > numbers_in(old.driver):
            yield Fact("medium", "driver-changed", f"{message}: do all of them have it?")
        else:
            yield Fact("low", "driver-changed", message)
    if old.cpu != new.cpu:
        message = _describe_change("the machines' oldest processors", old.cpu, new.cpu)
        # "x86-64-v2" < "x86-64-v3", "armv8.1-a" < "armv9-a"
        raised = new.cpu is not None and new.cpu > (old.cpu or "")
        more = ": builds may need what older ones lack" if raised else ""
        yield Fact("medium" if raised else "low", "cpu-changed", f"{message}{more}")


def _moved_addresses(old: TargetInputs, new: TargetInputs) -> Iterator[Fact]:
    """Yield the indexes and flat pages that are elsewhere now, as far as both locks have their addresses."""
    before, pages = dict(old.addresses), dict(new.find_links)
    for name, address in new.addresses:
        if name in before and not same_address(before[name], address):
            yield moved_address(name, before[name], address, flat=name in pages)


def of_new_target(new: TargetInputs, known_targets: Collection[TargetInputs]) -> Iterator[Fact]:
    """Yield a new target's settings that rest on a person's judgement, where no target of the old lock has them."""
    known = {fact for other in known_targets for fact in of_new_target(other, ())}
    for fact in (
        *((Fact("medium", "inspect-changed", _UNREAD, key=("pip", "inspect")),) if not new.inspect else ()),
        *_metadata(replace(new, metadata=()), new),
        *_overrides({}, dict(new.overrides)),
        *_acceptance_changes({}, dict(new.accept)),
    ):
        if fact not in known:
            yield fact


def _constraints(old: Iterable[str], new: Iterable[str]) -> Iterator[Fact]:
    came, went = _between(old, new)
    for text in came:
        yield Fact("low", "constraint-added", f"the spec bounds {text}")
    for text in went:
        yield Fact("low", "constraint-removed", f"the spec no longer bounds {text}")


def _because(was: str | None, now: str) -> str:
    """Return a decision's reason, and its former one."""
    return f"because {now}" if was is None else f"now because {now} (was {was})"


def _overrides(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Fact]:
    for text, was, now in differing(old, new):
        if now is None:
            yield Fact("low", "override-removed", f"{text} no longer overrides what packages require")
        else:
            yield Fact(
                "medium",
                "override-added" if was is None else "override-changed",
                f"{text} overrides what packages require, {_because(was, now)}",
                key=("pip", "overrides"),
            )


def _pages(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Fact]:
    for name, was, now in differing(old, new):
        if was is None:
            message = f"the flat page {name} is new: files may come from {now}"
        elif now is None:
            message = f"the flat page {name} ({was}) is no longer used"
        else:
            message = f"the flat page {name} is another one: {was} -> {now}"
        yield Fact("medium", "find-links-changed", message, key=("pip", "find-links", name))


def _acceptance_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Fact]:
    for code, was, now in differing(old, new):
        if now is None:
            yield Fact("low", "accept-removed", f"the finding {code} is no longer accepted")
        else:
            yield Fact(
                "medium",
                "accept-added" if was is None else "accept-changed",
                f"the finding {code} is accepted, {_because(was, now)}",
                key=("pip", "accept", *code.split(":")),
            )


def of_signatures(old: str | None, new: str | None) -> Iterator[Fact]:
    """Yield the change to another key that signs a lock, by the signature beside it. `check` and `verify --signed`
    judge signatures."""
    before, after = (_key_in(text.encode()) if text is not None else None for text in (old, new))
    if before and before != after:
        now = f"signed by {after}" if after else "not signed any more"
        yield Fact("medium", "signers-changed", f"the lock is {now}: {before} signed it before")
    elif after and after != before:
        yield Fact("low", "signer-added", f"the lock is signed by {after} now")
    elif old is not None and new is None:
        yield Fact("medium", "signers-changed", "the lock is not signed any more")


def of_allowed_signers(old: str | None, new: str | None, name: str) -> Iterator[Fact]:
    """Yield the keys that may sign locks from now on and those that no longer may, by two revisions of an
    allowed_signers file (ssh-keygen(1)) of that name."""
    lines = ([line.strip() for line in (text or "").splitlines()] for text in (old, new))
    before, after = ([_signer(line) for line in side if line and not line.startswith("#")] for side in lines)
    if old is not None and new is None:
        yield Fact("medium", "signers-allowed", f"{name} is gone: it said who may sign locks")
        return
    came, went = _between(before, after)
    for signer in came:
        yield Fact("medium", "signers-allowed", f"{name} lets {signer} sign locks from now on")
    for signer in went:
        yield Fact("low", "signers-refused", f"{name} no longer lets {signer} sign locks")


def _signer(line: str) -> str:
    """Show a line with the key's fingerprint in place of the key; one that isn't understood as it is."""
    words = line.split()
    for word in words:
        with suppress(ValueError):
            blob = base64.b64decode(word, validate=True)
            # of a public key the length of its kind stands first (RFC 4253, section 6.6)
            if len(blob) > 32 and blob[4:].startswith((b"ssh-", b"ecdsa-", b"sk-")):
                digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
                return line.replace(word, f"SHA256:{digest}")
    return line


def of_images(changes: Iterable[ImageChange]) -> Iterator[Fact]:
    """Yield the changes of the base images of recipes. A new digest changes the system below every package."""
    for change in changes:
        old, new = change.old, change.new
        if old is not None and new is not None:
            digests = f"{_short(old.digest)} -> {_short(new.digest)}"
            message = f"the image {new.name} has a new digest: {digests}"
            yield Fact("medium", "image-moved", message, key=("image", "base"))
        elif new is not None:
            yield Fact("low", "image-added", f"the image {new.name} is pinned: {_short(new.digest)}")
        elif old is not None:
            message = f"the image {old.name} is no longer pinned or used"
            yield Fact("medium", "image-removed", message, key=("image", "base"))


def of_bases(old: Lock, new: Lock) -> Iterator[Fact]:
    """Yield the changes below every package by another base, or another build of it: first the libraries that GPUs and
    most packages depend on."""
    if old.inputs.base != new.inputs.base:
        was, now = (str(lock.inputs.base) if lock.inputs.base else "none" for lock in (old, new))
        yield Fact("medium", "base-changed", f"the base: {was} -> {now}", key=("base",))
    for base in new.bases:
        before = next((other for other in old.bases if other.platform == base.platform), None)
        if before is None or before == base:
            continue
        sides = [lock.inventories.get(base.platform) for lock in (old, new)]
        difference = f"{_short(before.digest or before.sha256)} -> {_short(base.digest or base.sha256)}"
        if sides[0] and sides[1]:
            difference = sentence(sides[0], sides[1]) or difference
        yield Fact("medium", "base-moved", f"the base for {base.platform}: {difference}", key=("base",))


def of_corrections(old: Collection[LockedCorrection], new: Collection[LockedCorrection]) -> Iterator[Fact]:
    """Yield the new and the removed corrections by wheels: they bound the lock's packages."""
    for correction in sorted({*old} ^ {*new}):
        release = f"{correction.package} {correction.version}"
        if correction in new:
            yield Fact("low", "correction-added", f"{release} needs {correction.constraint}: {correction.reason}")
        else:
            yield Fact("low", "correction-removed", f"{release} no longer bounds {correction.constraint}")


def python_moves(old: Collection[LockedPython], new: Collection[LockedPython]) -> Iterator[PythonMove]:
    """Yield the builds of Python that came, went or are others now, by platform."""
    before, after = ({python.platform: python for python in side} for side in (old, new))
    return (PythonMove(*move) for move in differing(before, after))


def of_pythons(moves: Iterable[PythonMove], platforms: Collection[str], reworded: Collection[str]) -> Iterator[Fact]:
    """Yield the builds of Python that moved: all packages of a target run in them. A later patch is routine. Builds
    that came or went with their platform are in the row of its target; `platforms` are those of both sides, `reworded`
    those whose targets all ask for another minor version, which has rows of its own."""
    for move in moves:
        old, new = move.old, move.new
        if move.platform not in platforms and not (old and new):
            continue
        same = old is not None and new is not None and old.version == new.version
        words = (
            f"{python.version}{f' ({python.build}, {python.sha256[:12]})' if same else ''}" if python else "not locked"
            for python in (old, new)
        )
        risk: Risk = "medium"
        if old and new:
            was, now = ((numbers_in(python.version), python.build) for python in (old, new))
            later_minor = was[0][:2] != now[0][:2]
            # of another minor version the spec's own row has the risk
            risk = "high" if now < was or was == now else "low"
            if later_minor and risk == "low" and move.platform not in reworded:
                risk = "medium"
        yield Fact(risk, "python-build-moved", f"the Python that {move.platform} gets: {' -> '.join(words)}")


def _short(digest: str) -> str:
    return digest[: 12 + len("sha256:") * digest.startswith("sha256:")]


def _requirements(
    old: Iterable[str], new: Iterable[str], name_of: Callable[[str], str], kind: str = ""
) -> Iterator[Fact]:
    came, went = _between(old, new)
    before, after = _by_name(went, name_of), _by_name(came, name_of)
    for name in sorted({*before, *after}):
        if name not in before:
            yield Fact("low", "requirement-added", f"the spec asks for {kind}{after[name]}")
        elif name not in after:
            yield Fact("low", "requirement-removed", f"the spec no longer asks for {kind}{before[name]}")
        else:
            message = f"the spec asks for {kind}{after[name]} (was {before[name]})"
            yield Fact("low", "requirement-changed", message)


def _by_name(requirements: Iterable[str], name_of: Callable[[str], str]) -> dict[str, str]:
    """Join the texts of a package that is asked for several times, under different markers."""
    texts: dict[str, str] = {}
    for text in requirements:
        name = name_of(text)
        texts[name] = f"{texts[name]} and {text}" if name in texts else text
    return texts


def _between(old: Iterable[str], new: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the new and the removed texts, sorted."""
    before, after = set(old), set(new)
    return sorted(after - before), sorted(before - after)


def _list(values: Iterable[str]) -> str | None:
    return ", ".join(values) or None


def _describe_change(what: str, old: str | None, new: str | None) -> str:
    return f"{what} {old or 'not set'} -> {new or 'not set'}"


def _key_in(content: bytes) -> str | None:
    """Name the key that a signature claims to be by (`SHA256:…`), unchecked: it holds its public key (OpenSSH,
    PROTOCOL.sshsig). None for what can't be read."""
    with suppress(ValueError):
        blob = base64.b64decode(b"".join(content.split(b"\n")[1:-2]), validate=True)
        length = int.from_bytes(blob[10:14], "big")
        if blob.startswith(b"SSHSIG") and 0 < length <= len(blob) - 14:
            digest = hashlib.sha256(blob[14 : 14 + length]).digest()
            return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
    return None


def of_terms(old: Terms, new: Terms) -> Iterator[Fact]:
    """Yield the changes between the terms of two files of one format."""
    before, after = (_addresses_by_name(side) for side in (old, new))
    for name in sorted({*before, *after}):
        was, now = before.get(name, {}), after.get(name, {})
        came, went = ([now[key] for key in now.keys() - was.keys()], [was[key] for key in was.keys() - now.keys()])
        if came and was:
            moved = f"{', '.join(sorted(went or was.values()))} -> {', '.join(sorted(came))}"
            message = f"{name} is at another address: {moved}. Its files come from there now"
            yield Fact("high", "index-address-changed", message)
        elif came and name.startswith("--"):
            yield Fact("high", "index-added", f"{name} is new: files may come from {', '.join(sorted(came))}")
        elif went and name.startswith("--"):
            yield Fact("medium", "index-removed", f"{name} is gone: {', '.join(sorted(went))}")
    for name, before_value, value in differing(dict(old.guards), dict(new.guards)):
        if value is None:
            yield Fact("medium", "options-changed", f"{name} {before_value}".rstrip() + " is gone from the file")
        else:
            # a later day is how time goes by
            routine = name == "exclude-newer" or (before_value is None and name in (*GUARDS, HASHES))
            change = f"{name} {value}".rstrip() + (" is new" if before_value is None else f" (was {before_value})")
            yield Fact("low" if routine else "medium", "options-changed", f"the file's options: {change}")
    loosened, tightened = _between(old.loose, new.loose)
    for option in loosened:
        yield Fact("medium", "options-changed", f"the file has {option} from now on, which checks less")
    for option in tightened:
        yield Fact("low", "options-changed", f"the file no longer has {option}")
    # of hashes of which none stayed the package's row tells
    more = [name for name, was in old.hashes.items() if was and was < new.hashes.get(name, frozenset())]
    if more:
        message = f"{few(more)}: more files of the same version are accepted. See that the index publishes them"
        yield Fact("medium", "hashes-added", message)


def _addresses_by_name(terms: Terms) -> dict[str, dict[str, str]]:
    """Give the addresses of each name, as messages show them, by their one spelling."""
    addresses: dict[str, dict[str, str]] = {}
    for name, address in terms.addresses:
        addresses.setdefault(name, {})[normal_address(address)] = bare_address(address)
    return addresses
