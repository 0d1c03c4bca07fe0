"""Making the environment of a target in its default prefix, and what a program needs to run in it."""

from __future__ import annotations

from pathlib import Path

from envspec.environments.ready import Ready
from envspec.errors import InputError, Place
from envspec.lock.model import LockedTarget
from envspec.ownership import stranger, this_user
from envspec.recipes.environment import environment
from envspec.spec.model import Spec
from envspec.storage import storage_error


def make_folder(folder: Path, setting: str) -> None:
    """Make the folder of environments, for its user alone. Raises InputError for one that others may write to,
    StorageError."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        who = stranger(folder.stat(), this_user())
    except OSError as error:
        raise storage_error(error, folder, option=setting) from None
    if who:
        raise InputError(
            f"the environments can't be trusted: {who}",
            hint=f"see what is in the folder, then `chmod go-w {folder}`; or give {setting} a folder of your own",
            place=Place(str(folder)),
        )


_FIXED: tuple[str, ...] = ("ENVSPEC_SPEC", "ENVSPEC_TARGET", "PYTHONNOUSERSITE")


def ready_of(spec: Spec, target: LockedTarget, prefix: Path, said: str) -> Ready:
    """Describe the environment of a target that is complete in its prefix."""
    fixed, own = variables_of(spec, target)
    return Ready(
        prefix=str(prefix),
        spec=spec.name,
        target=target.name,
        said=said,
        conda=any(pin.kind == "conda" for pin in target.pins),
        scripts=any((prefix / "etc" / "conda" / "activate.d").glob("*.sh")),
        fixed=fixed,
        own=own,
    )


def variables_of(spec: Spec, target: LockedTarget) -> tuple[dict[str, str], dict[str, str]]:
    """Split what an image's processes get into what holds in any case, and what the user's own variables replace, as
    with `docker run --env`. What speaks to container engines is left out, and the user's language stays."""
    image = dict(environment(spec, target))
    fixed = {name: image[name] for name in _FIXED if name in image}
    own = {name: image[name] for name in ("TORCH_CUDA_ARCH_LIST", *spec.image.env) if name in image}
    return fixed, {name: value for name, value in own.items() if name not in fixed}
