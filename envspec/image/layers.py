"""The layers of a target's image, from the bottom: the content of each, and the key of its inputs.

A layer's key covers its content and nothing else, so that targets with the same packages have the same layers, and a
changed package changes one layer.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from envspec.base.errors import InputError
from envspec.binaries.wheel import paths_of_wheel
from envspec.export.apptainer import files_of_a_sif
from envspec.export.plan import CARRIED, ENVIRONMENT, GROUP, UID, WORKSPACE, Borrowed, Plan
from envspec.export.target_json import dumps
from envspec.facts.cuda_stack import TORCH, stack_of
from envspec.image.base import BaseFiles
from envspec.image.conda import LinkedPackages, history_entry
from envspec.image.layer import PROGRAM, LayerEntry, LayerPlan, folder_entry, text_entry
from envspec.image.python import ImagePython, activation_entries, environment_entries
from envspec.image.wheel import Scheme, wheel_entries
from envspec.install.collect import Paths
from envspec.install.model import identity
from envspec.lock.conda_files import file_key
from envspec.lock.model import LockedTarget, Pin
from envspec.lock.shared_paths import in_install_order, shared_paths

# The slice of the lock in an image: each layer of packages holds what the slice says of its own, so that a package
# that moves makes one layer new. The carried check puts the parts together (`envspec_check.lock.read_target`).


FOLDER = "packages"
"""The folder of the parts among the carried files."""
_KINDS = ("conda", "pip", "python")
"""The lists of a slice, which its layers share out."""


class SliceParts(Struct, frozen=True):
    """target.json without its layers' parts, and the text of each part, by the layer's name."""

    target: str
    of_layers: Mapping[str, str]

    @staticmethod
    def path(layer: str) -> str:
        """Give a part's path among the carried files."""
        return f"{FOLDER}/{layer}.json"


def split_slice(document: Mapping[str, Any], layer_of: Callable[[str, str], str]) -> SliceParts:
    """Split a `target.json` into the layers' parts. `layer_of` names the layer of a package, by its kind and its name.

    Beside the packages, the layer of torch gets what that torch is compiled for. No part has the slice's digest: a
    reader computes it from the joined parts. The spec's direct requirements stand in target.json, so that specs with
    the same packages have the same parts.
    """
    whole = {name: value for name, value in document.items() if name not in ("lock_digest", "code")}
    lock = {name: value for name, value in document["lock"].items() if name not in _KINDS}
    by_layer: dict[str, dict[str, Any]] = {}
    direct: list[list[str]] = []
    for kind in _KINDS:
        for row in document["lock"].get(kind, ()):
            layer = "python" if kind == "python" else layer_of(kind, row["name"])
            if row.get("direct"):
                direct.append([kind, row["name"]])
            own = {name: value for name, value in row.items() if name != "direct"}
            by_layer.setdefault(layer, {"lock": {}})["lock"].setdefault(kind, []).append(own)
    by_layer.get("torch", whole)["code"] = document["code"]
    parts = {layer: dumps(by_layer[layer]) for layer in sorted(by_layer)}
    names = [SliceParts.path(layer) for layer in parts]
    return SliceParts(dumps({**whole, "lock": lock, "parts": names, "direct": direct}), parts)


_PASSWD, _GROUP, _SHADOW = "etc/passwd", "etc/group", "etc/shadow"
_HOME = 0o700
_SKELETON = re.compile(r"etc/skel/([^/]+)")


class _Accounts(Struct, frozen=True):
    """The lines of the three lists, each split at its colons."""

    passwd: list[list[str]]
    group: list[list[str]]
    shadow: list[list[str]]


def system_entries(plan: Plan, base: BaseFiles) -> Iterator[LayerEntry]:
    """Give the entries of an image's user: the lists of accounts, its home, the workspace, and PATH for login shells.

    Raises InputError where the base has a user of that name with another number.
    """
    accounts = _with_user(_accounts(base), plan.image.user)
    for path, lines in ((_PASSWD, accounts.passwd), (_GROUP, accounts.group), (_SHADOW, accounts.shadow)):
        if lines:
            _, _, mode = base.modes.get(path, (0, 0, 0o644))
            yield text_entry(path, "".join(f"{':'.join(line)}\n" for line in lines), mode)
    home = f"home/{plan.image.user}"
    yield folder_entry(home, _HOME, UID)
    for path, content in base.files.items():
        if match := _SKELETON.fullmatch(path):
            yield text_entry(f"{home}/{match[1]}", content, owner=UID)
    yield folder_entry(WORKSPACE.strip("/"), owner=UID)
    # a login shell's profile sets PATH anew
    yield text_entry("etc/profile.d/envspec.sh", f"PATH={ENVIRONMENT}/bin:$PATH\n")


def _accounts(base: BaseFiles) -> _Accounts:
    return _Accounts(*(_lines(base.text(path)) for path in (_PASSWD, _GROUP, _SHADOW)))


def _lines(text: str) -> list[list[str]]:
    # the C library ends a line at no other character
    return [line.split(":") for line in text.split("\n") if line]


def _with_user(accounts: _Accounts, user: str) -> _Accounts:
    number = str(UID)
    old = {line[0] for line in accounts.passwd if len(line) > 2 and line[2] == number}
    taken = next((line for line in accounts.passwd if line[0] == user and len(line) > 2 and user not in old), None)
    if taken:
        message = f'the base image has a user "{user}" with the number {taken[2]}, and the image\'s has {number}'
        raise InputError(message, hint="give the spec's [image] user another name")
    # of a user of this number the base's own group goes with it, as userdel has it
    groups = [line for line in accounts.group if not (line[0] in old and line[2:3] == [number])]
    for line in groups:
        line[3:4] = [",".join(name for name in line[3].split(",") if name not in old)] if len(line) > 3 else []
    if all(line[2:3] != [number] for line in groups):
        groups.append([GROUP, "x", number, ""])
    passwd = [line for line in accounts.passwd if line[0] not in old]
    passwd.append([user, "x", number, number, "", f"/home/{user}", "/bin/bash"])
    shadow = [line for line in accounts.shadow if line[0] not in old]
    if shadow:
        # no password, and none ever
        shadow.append([user, "!", "", "", "", "", "", "", ""])
    return _Accounts(passwd, groups, shadow)


PACKAGES = ("python", "nvidia", "torch", "rest")
"""The layers of packages."""
FORM = 2
"""Raised where the same inputs get other layers than before."""


class LayerInputs(Struct, frozen=True, dict=True):
    """The inputs of a target's layers.

    base     what the base brings
    python   None where conda brings it
    carried  the carried files, by path
    parts    what the slice of the lock says of each layer's packages, as text, by the layer's name
    build    the files of the build of Python that the image brings
    wheels   the wheels of the lock, by index and file name
    conda    the conda packages, None without any
    project  the wheel of the spec's project, None without one
    borrowed what the image takes from others, each with its entries
    built    the wheels that were built here of what the lock has as source, by package, each with the key of what it is
             built from
    gone     the base's paths that what is replaced takes with it
    """

    plan: Plan
    target: LockedTarget
    base: BaseFiles
    python: ImagePython | None
    carried: Mapping[str, str]
    parts: Mapping[str, str]
    wheels: Paths
    conda: LinkedPackages | None = None
    build: Sequence[LayerEntry] = ()
    project: Path | None = None
    built: Mapping[str, tuple[Path, str]] = field(default_factory=dict)
    borrowed: Sequence[tuple[Borrowed, Callable[[], Iterable[LayerEntry]]]] = ()
    gone: tuple[str, ...] = ()

    @cached_property
    def scheme(self) -> Scheme:
        base = self.plan.runtime.on_base
        return Scheme(base.prefix if base else ENVIRONMENT, self.plan.runtime.python, on_base=base)


def layer_of(kind: str, name: str) -> str:
    """Name the layer of a package."""
    if (kind, name) == ("conda", "python"):
        return "python"
    return "torch" if name in TORCH else stack_of(name) or "rest"


def layer_plans(inputs: LayerInputs) -> tuple[LayerPlan, ...]:
    """List the layers of a target's image, from the bottom; none of them is empty. Raises InputError."""
    files = tuple(_runtime_entry(path, text) for path, text in inputs.carried.items())
    if inputs.plan.runtime.on_base:
        # OCI's whiteouts count for the layers below: image-spec, layer.md
        whiteouts = [text_entry("{}/.wh.{}".format(*posixpath.split(path)), "") for path in inputs.gone]
        first = [_layer("replaced", inputs.gone, lambda: whiteouts)] if whiteouts else []
        last = _layer("carried", [_content(entry) for entry in files], lambda: files)
        return (*first, *package_layers(inputs), last)
    of_a_sif = (text_entry(path, text, PROGRAM) for path, text in files_of_a_sif(inputs.plan).items())
    runtime_entries = (*files, *activation_entries(inputs.plan, inputs.scheme), *of_a_sif)
    system = tuple(system_entries(inputs.plan, inputs.base))
    own = partial(project_entries, inputs.project, inputs.plan, inputs.scheme)
    layers = [
        _layer("system", [_content(entry) for entry in system], lambda: system),
        *(
            _layer(borrowed.name, [borrowed.image.digest, borrowed.copies, borrowed.links], entries)
            for borrowed, entries in inputs.borrowed
        ),
        *package_layers(inputs),
        *([_layer("project", _file_digest(inputs.project), own)] if inputs.project else []),
        _layer("carried", [_content(entry) for entry in runtime_entries], lambda: runtime_entries),
    ]
    return tuple(layers)


def package_layers(inputs: LayerInputs) -> Iterable[LayerPlan]:
    """List the layers of packages, from the bottom."""
    owners = _owners_of_paths(inputs)
    for name in PACKAGES:
        pins = [pin for pin in in_install_order(inputs.target) if layer_of(pin.kind, pin.name) == name]
        part = [_runtime_entry(SliceParts.path(name), inputs.parts[name])] if name in inputs.parts else []
        key: list[Any] = [
            inputs.scheme.prefix,
            inputs.plan.runtime.python,
            *([inputs.scheme.site, inputs.scheme.script_head] if inputs.plan.runtime.on_base else []),
            *sorted(_identity(pin, inputs.built) for pin in pins),
        ]
        key += [_content(entry) for entry in part]
        key += sorted(map(list, owners[name].items())) if name in owners else []
        has_python = name == "python" and inputs.plan.runtime.on_base is None
        if has_python:
            key += [inputs.python.key if inputs.python else "conda", bool(inputs.plan.sources.explicit)]
        if pins or has_python:
            yield _layer(name, key, partial(_packages, inputs, pins, part, owners.get(name, {}), has_python=has_python))


def _owners_of_paths(inputs: LayerInputs) -> Mapping[str, Mapping[str, str]]:
    """Give, by layer, the owner of each path at which packages have different content. The owner is empty, and the
    layer leaves the path out, where the package that is installed last is in a layer below."""
    site, root = inputs.scheme.site, inputs.scheme.root
    layers: dict[str, int] = {}
    contents: list[tuple[str, Mapping[str, str]]] = []
    for pin in in_install_order(inputs.target):
        owner = f"{pin.kind} {pin.name}"
        layers[owner] = PACKAGES.index(layer_of(pin.kind, pin.name))
        if pin.kind == "pip":
            paths = paths_of_wheel(_wheel_of(pin, inputs.wheels, inputs.built))
            contents.append((owner, {posixpath.normpath(f"{site}/{path}"): content for path, content in paths.items()}))
        elif inputs.conda:
            files = inputs.conda.records[pin.name][1]["files"]
            contents.append((owner, {f"{root}/{path}": pin.name for path in files}))
    owners: dict[str, dict[str, str]] = {}
    for shared in shared_paths(contents):
        for owner in shared.owners if shared.differs else ():
            is_above = layers[owner] > layers[shared.owners[-1]]
            owners.setdefault(PACKAGES[layers[owner]], {})[shared.path] = "" if is_above else owner
    return owners


def _packages(
    inputs: LayerInputs, pins: Sequence[Pin], part: Sequence[LayerEntry], owners: Mapping[str, str], *, has_python: bool
) -> Iterable[LayerEntry]:
    yield from part
    if has_python and inputs.python:
        yield from inputs.build
        yield from environment_entries(inputs.plan, inputs.python, inputs.scheme)
    if has_python and inputs.conda:
        yield history_entry(inputs.scheme.root)
    entries = package_entries(pins, inputs.scheme, inputs.wheels, inputs.conda, inputs.built)
    yield from (entry for entry in entries if owners.get(entry.path) != "")


def package_entries(
    pins: Iterable[Pin],
    scheme: Scheme,
    wheels: Paths,
    conda: LinkedPackages | None,
    built: Mapping[str, tuple[Path, str]],
) -> Iterable[LayerEntry]:
    """Give the entries of packages, in the order of installation; the arguments are those of `LayerInputs`."""
    chosen = tuple(pins)
    if conda:
        yield from conda.entries([pin for pin in chosen if pin.kind == "conda"], scheme.root)
    for pin in chosen:
        if pin.kind == "pip":
            yield from wheel_entries(_wheel_of(pin, wheels, built), pin, scheme)


def _wheel_of(pin: Pin, wheels: Paths, built: Mapping[str, tuple[Path, str]]) -> Path:
    path, _ = built.get(pin.name) or (wheels[file_key(pin)], "")
    return path


def project_entries(wheel: Path | None, plan: Plan, scheme: Scheme) -> Iterable[LayerEntry]:
    """Give the files of the wheel of the spec's own project."""
    assert wheel is not None and plan.sources.project is not None
    return wheel_entries(wheel, Pin("pip", plan.sources.project.name, "0", "own", None), scheme)


def _runtime_entry(path: str, text: str) -> LayerEntry:
    return text_entry(f"{CARRIED.strip('/')}/{path}", text, PROGRAM)


def _layer(name: str, key: Any, entries: Callable[[], Iterable[LayerEntry]]) -> LayerPlan:
    text = json.dumps([FORM, name, key], sort_keys=True, separators=(",", ":"))
    return LayerPlan(name, f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", entries)


def _identity(pin: Pin, built: Mapping[str, tuple[Path, str]]) -> list[str]:
    key = built[pin.name][1] if pin.kind == "pip" and pin.name in built else None
    return [pin.kind, pin.name, pin.version, identity(pin, key), pin.url or ""]


def _content(entry: LayerEntry) -> list[Any]:
    digest = ""
    if entry.content is not None:
        with entry.content() as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    return [entry.path, entry.mode, entry.owner, entry.link, digest]


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _digest(file)


def _digest(file: Any) -> str:
    return hashlib.sha256(file.read()).hexdigest()
