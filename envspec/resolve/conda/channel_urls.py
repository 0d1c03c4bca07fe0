"""URLs of a lock's conda channels, for formats that give every file a URL. Needs no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envspec.base.errors import InputError, OutsideError
from envspec.base.settings import load_settings, split_credentials
from envspec.resolve.conda.channels import channel_addresses, load_conda_config
from envspec.spec.model import Spec


def channel_urls(names: Iterable[str], spec: Spec, env: Mapping[str, str]) -> dict[str, str]:
    """Find the URL of each channel, without credentials, by its name in the lock.

    The user's settings decide (`envspec.resolve.conda.channels`). Raises InputError for a broken configuration or a
    channel that the spec no longer has, OutsideError for one without a known address.
    """
    addresses = channel_addresses(spec.conda.channels, load_settings(env), load_conda_config(env))
    known = {address.name: address.address for address in addresses}
    found: dict[str, str] = {}
    for name in sorted(names):
        if name not in known:
            raise InputError(
                f'the lock has files from the channel "{name}", which the spec doesn\'t name',
                hint="add it to [conda] channels, or lock again",
            )
        found[name] = split_credentials(_url(known[name]))[0]
    return found


def _url(address: str) -> str:
    """Turn an address into a URL. A bare name is below rattler's default address."""
    if "://" in address:
        return address
    try:
        from rattler import Channel
    except ImportError:
        raise OutsideError(
            f'envspec doesn\'t know the address of the channel "{address}" on this machine',
            hint="set the address of channels: CONDA_CHANNEL_ALIAS=https://…",
        ) from None
    return str(Channel(address).base_url)
