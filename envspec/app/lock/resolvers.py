"""The resolvers of a spec, with this machine's network, caches and progress."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from envspec.app.observer import observer
from envspec.base.atomic import stage_file
from envspec.base.open_folder import locate
from envspec.base.places import config_file, home_of
from envspec.base.reader.document import decode, key_path, parse_toml
from envspec.base.reader.structure import Checked
from envspec.base.storage import storage_error
from envspec.configuration.user_config import FORMAT, load_user_config
from envspec.resolve.conda.setup import conda_resolver
from envspec.resolve.conda.solve import CondaResolver
from envspec.resolve.pip.build_environment import build_environments
from envspec.resolve.pip.setup import pip_resolver, publishers
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.model import Spec


@contextmanager
def resolvers_of(spec: Spec, *, offline: bool, refresh: bool = False, fresh: bool = True) -> Iterator[Resolvers]:
    """Give the resolvers of a spec, and a temporary scratch folder. `refresh` reads the live PyTorch index, `fresh`
    pages as they are now.

    A spec without conda packages has no conda resolver, and needs no py-rattler.
    """
    with (
        observer().resolution() as progress,
        pip_resolver(spec, os.environ, offline=offline, refresh=refresh, fresh=fresh, progress=progress) as pip,
    ):
        conda: CondaResolver | None = None
        if any(spec.conda_dependencies(target) for target in spec.targets):
            conda = conda_resolver(spec, os.environ, offline=offline, progress=progress)
        builds, published = partial(build_environments, pip), partial(publishers, pip)
        inspector = replace(pip.inspector, archives=conda.archives if conda else None)
        releases, behind = pip.releases, pip.is_behind
        yield Resolvers(pip, conda, inspector, builds, published, pip.findings, releases, behind, pip.stop)


def trust_index(env: Mapping[str, str], name: str, host: str) -> Path:
    """Write into envspec's configuration that the login of an index of this name may go to this host, and give the
    file. What else the file says stays as it is, and so do its permissions. Raises InputError for a file that isn't
    a configuration, StorageError for one that can't be read or written."""
    import tomlkit

    path = config_file(env, home_of(env))
    try:
        text = decode(path.read_bytes(), str(path)) if path.exists() else ""
        Checked(parse_toml(text, str(path)), FORMAT).raise_problems()
        config = load_user_config(env, str(home_of(env)))
        key = key_path(("trusted-indexes", name))
        config.refuse_other(key, config.trusted_indexes.get(name), host, "--trust-index")
        document = tomlkit.parse(text)
        document.setdefault("trusted-indexes", tomlkit.table())[name] = host
        own = path.resolve()
        with stage_file(locate(own.parent), own.name) as file:
            if text:
                os.fchmod(file.fileno(), own.stat().st_mode & 0o777)
            file.write(tomlkit.dumps(document).encode())
    except OSError as error:
        raise storage_error(error, path, option="ENVSPEC_CONFIG") from None
    return path
