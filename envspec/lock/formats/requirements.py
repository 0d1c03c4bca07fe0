"""requirements.txt: the pip packages of one target as pip and uv install them, every file pinned by its hash.

Its readers have neither envspec nor the lock: the header has the command and the indexes that install the packages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.shared_paths import pip_order, waves

MARK = "# Rendered by envspec from "
"""The beginning of every rendered file's first line. A file that starts otherwise is the user's own."""

_PYPI = "pypi"
IGNORE_REQUIRES_PYTHON = "--ignore-requires-python"
"""pip's option to install what refuses the Python by its Requires-Python."""
_PYTORCH = "pytorch/"
_HEADINGS = {
    _PYPI: (),
    "url": ("\n# From the URL that stands there.",),
    "git": ("\n# From git, pinned to a commit: these have no hash.",),
}


def requirements_txt(lock: Lock, target: LockedTarget) -> str:
    """Return the text of `<target>/requirements.txt`. Packages that aren't on PyPI stand under the name of their
    index."""
    groups: dict[str, list[Pin]] = {}
    for pin in sorted((p for p in target.pins if p.kind == "pip"), key=lambda p: (p.name, p.version)):
        groups.setdefault(pin.index, []).append(pin)
    out = _header(lock, target, groups)
    for index in sorted(groups, key=_place):
        out += _HEADINGS.get(index, (f'\n# From the index "{index}".',))
        # a line of their own between packages: git merges two branches that bump neighbours
        out.extend("\n" + requirement(pin, " \\\n    ") for pin in groups[index])
    return "\n".join(out) + "\n"


def build_constraints(pins: Iterable[Pin]) -> str:
    """Return the text of uv's `--build-constraints` for sources: their builds' packages, each file by its hash."""
    wheels = {(wheel.name, wheel.version, wheel.sha256) for pin in pins for wheel in pin.built_with or ()}
    return "".join(f"{name}=={version} --hash=sha256:{sha256}\n" for name, version, sha256 in sorted(wheels))


def _place(index: str) -> tuple[int, str]:
    """Return a sort key: PyPI first, then the other indexes by name, packages that name their own source last."""
    return ({_PYPI: 0, "url": 2, "git": 3}.get(index, 1), index)


def _header(lock: Lock, target: LockedTarget, groups: Iterable[str]) -> list[str]:
    inputs = target.inputs
    cuda = f", CUDA {inputs.cuda}" if inputs.cuda else ""
    extra = sorted(index for index in groups if _place(index)[0] == 1)
    flat = {index for index, _ in inputs.find_links}
    past = f"{IGNORE_REQUIRES_PYTHON} " if target.is_past_requires_python else ""
    return [
        f"{MARK}../envspec.lock. Not for editing: run `envspec lock`.",
        f"# {lock.name}, target {target.name}: Python {inputs.python} on {inputs.platform}{cuda}.",
        "#",
        *_on_base(lock, target, _uv_options(extra, flat)),
        f"#   pip install --require-hashes --no-deps {past}{_pip_options(extra, flat)}-r requirements.txt",
        *_later_note(target, _uv_options(extra, flat), f"{past}{_pip_options(extra, flat)}"),
        *_git_note(groups, past),
        *_variant_note(target),
    ]


def _on_base(lock: Lock, target: LockedTarget, options: str) -> list[str]:
    """Return uv's command: `uv pip sync` would remove what a base has."""
    base = lock.inputs.base
    if base is None:
        return [f"#   uv pip sync {options}requirements.txt"]
    return [
        f"# These come on top of the {base.kind} {base.place}, in an environment that sees its packages",
        f"# (base-{target.inputs.platform}.toml): with pip or uv, only with --no-deps.",
        "#",
        f"#   uv pip install --require-hashes --no-deps {options}-r requirements.txt",
    ]


def _uv_options(extra: list[str], flat: Collection[str]) -> str:
    """Return uv's options for the indexes other than PyPI. uv knows PyTorch's own."""
    pytorch = [index for index in extra if index.startswith(_PYTORCH)]
    pages = [index for index in extra if index in flat]
    other_indexes = [index for index in extra if index not in {*pytorch, *pages}]
    options = [f"--torch-backend={index.removeprefix(_PYTORCH)}" for index in pytorch]
    options += [f'--find-links="URL of {index}"' for index in pages]
    options += [f"--index={index}=URL" for index in other_indexes]
    if other_indexes:
        # uv stops at the first index that knows a name. Here the hash decides which file it is, so it may look on.
        options.append("--index-strategy=unsafe-best-match")
    return "".join(f"{option} " for option in options)


def _pip_options(extra: list[str], flat: Collection[str]) -> str:
    return "".join(f'{"--find-links" if index in flat else "--extra-index-url"}="URL of {index}" ' for index in extra)


def _later_note(target: LockedTarget, uv: str, pip: str) -> list[str]:
    """Return how to install again what overwrites files of others: neither tool keeps a list's order."""
    later = waves(pip_order(target), {pin.name: pin.overwrites for pin in target.pins})[1:]
    if not later:
        return []
    again = [f"#   sed -nE '/^({'|'.join(sorted(names))})(==| @ )/,/--hash/p' requirements.txt" for names in later]
    return [
        "#",
        "# Some overwrite files of others, and tools install in an order of their own: install these again, in turn.",
        *(
            line
            for number, command in enumerate(again, start=1)
            for line in (
                f"{command} > again{number}.txt",
                f"#   uv pip install --require-hashes --no-deps --reinstall {uv}-r again{number}.txt",
                f"#   pip install --require-hashes --no-deps --force-reinstall {pip}-r again{number}.txt",
            )
        ),
    ]


def _git_note(groups: Iterable[str], past: str) -> list[str]:
    if "git" not in groups:
        return []
    return [
        "#",
        "# pip refuses a git requirement beside hashes. With pip, install it apart:",
        "#   grep -v ' @ git+' requirements.txt > hashed.txt     # and install that as above",
        f"#   grep ' @ git+' requirements.txt > git.txt && pip install --no-deps {past}-r git.txt",
    ]


def _variant_note(target: LockedTarget) -> list[str]:
    """Return what to know of variants, without their names: two branches may add some each."""
    if not any(pin.artifact is not None and pin.artifact.variant is not None for pin in target.pins):
        return []
    return [
        "#",
        "# Some of these are variant wheels (PEP 825), of which pip takes none from an index, and uv only with",
        "# --preview-features wheel-variants those that suit its machine. Both take all from an unpacked bundle, with",
        "# --find-links wheels. `envspec install` needs neither.",
    ]


def requirement(pin: Pin, then: str = " ") -> str:
    """Return the line of one package; `then` stands before its hash."""
    if pin.git:
        return f"{pin.name} @ git+{pin.git.address}"
    what = f"{pin.name} @ {pin.url}" if pin.url else f"{pin.name}=={pin.version}"
    return f"{what}{then}--hash=sha256:{pin.artifact.sha256}" if pin.artifact else what
