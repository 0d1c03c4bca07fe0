"""The scripts of Apptainer definitions' stages.

Whatever a build writes lies below its own root, and what isn't for the image is removed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from envspec.base.places import OF_OTHER_PYTHONS
from envspec.export import nvcc
from envspec.export.apt_mirrors import FILE as APT_MIRRORS, day_of
from envspec.export.building import (
    PRETENDED,
    build_settings,
    check_sums,
    project_install,
    project_wheel,
    unpack_check,
)
from envspec.export.pip_steps import fetch_words
from envspec.export.plan import (
    BUILD_SCRIPTS,
    CARRIED,
    CHECK,
    CHECK_ARCHIVE,
    ENVIRONMENT,
    FETCH_VARIANTS,
    PYTHON,
    REQUIREMENTS,
    SLICE,
    SUMS,
    WORKSPACE,
    ImageReference,
    OwnProject,
    PipStep,
    Plan,
)
from envspec.export.python_build import TABLE, version_in
from envspec.export.quote import comment, fill, one_line, shell
from envspec.packages.version_numbers import numbers_in

SIF_VARIABLES = ".singularity.d/env/91-envspec.sh"
"""The variables that a tree brings along, in a SIF or over one: after those of its own definition, 90-environment.sh
(Apptainer's SIF layout)."""
EMPTY_PYTHONS = (
    f'for name in {" ".join(name.removeprefix("PYTHON") for name in OF_OTHER_PYTHONS)}; do export "PYTHON$name="; done'
)
"""The line that empties a caller's variables for another Python."""
LIBCUDA = "/opt/libcuda"
"""The folder that has the driver's library by another name."""


def stage_header(image: ImageReference, name: str) -> Iterator[str]:
    yield from ("Bootstrap: docker", f"From: {one_line(image.pinned, 'a header')}", f"Stage: {name}", "")


def section(name: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"%{name}"
    yield from (f"    {line}" if line else "" for line in lines)
    yield ""


def word(text: str) -> str:
    """Quote a word of a shell script so that none of its lines begins a section or a stage, and without `{{`."""
    return re.sub(r"\{(?=\{)", "{''", shell(text).replace("\r", "\r''").replace("\n", "\n''"))


def export_variables(variables: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Set variables for all programs that follow, some on a line."""
    return (f"export {line}" for line in fill(f"{name}={word(value)}" for name, value in variables))


def safe_text(text: str) -> str:
    """Make a line of text safe for sections that are read verbatim."""
    return re.sub(r"\{(?=\{)", "{ ", comment(" ".join(text.split()))).lstrip("%# ")


def definition(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


_FROM = "/opt/requirements"
"""The folder of the requirements while the environment is made."""
SCRATCH = "/opt/scratch"
"""The folder of what builds write for a while. Below the root: /tmp is the machine's, where it fills memory, and others
may have put a file of any name."""
_BUILD = f"{SCRATCH}/build"
INIT = "tini"
"""The package of an OCI image's process 1; under Apptainer the host's own init reaps processes."""
SETTINGS = "/mnt"
"""The bind point of a folder with the builder's own settings. A file can't be bound: it would have to exist in the
base.
"""
_UV_SETTINGS = f"{SETTINGS}/uv.toml"
_CHANNEL_HOST = f"{SETTINGS}/conda-channel-host"
_PYTORCH_INDEX = f"{SETTINGS}/pytorch-index"
_WHEELS = f"{SETTINGS}/wheels"
_CONDARC = f"{SETTINGS}/condarc"
_NETRC = f"{SETTINGS}/netrc"
_USE_NETRC = f"if [ -s {_NETRC} ]; then export NETRC={_NETRC}; fi"
_APT_MIRRORS = f"{SETTINGS}/{APT_MIRRORS}"
PROJECT = "/srv"
"""The bind point of the folder of the spec's project, which every base has."""
_VERSION = f"{SETTINGS}/project-version"
_CACHE = f"{SETTINGS}/cache"
_HOST_VARIABLE = "[$]{CONDA_CHANNEL_HOST}"


def installation_files(plan: Plan) -> Iterator[str]:
    """Name the files that the environment is installed from."""
    if plan.explicit:
        yield plan.explicit
    if plan.build_table:
        yield plan.build_table
    yield from (file for step in plan.pip for file in step.files)


def at(plan: Plan, file: str) -> str:
    """Give the place of such a file in a stage: what the image keeps is where it stays."""
    return f"{f'{CARRIED}/{REQUIREMENTS}' if file in plan.parts else _FROM}/{file.rpartition('/')[2]}"


def _beginning(plan: Plan) -> Iterator[str]:
    yield f"set -eu; umask 022; mkdir -p {SCRATCH}"
    time = f"SOURCE_DATE_EPOCH={plan.epoch}"
    yield f"export TMPDIR={SCRATCH} LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive {time}"


def compile_post(plan: Plan) -> Iterator[str]:
    """Make the script of the stage that compiles, which makes the whole environment."""
    compiling = plan.compiling
    assert compiling is not None
    yield from _beginning(plan)
    if compiling.image != plan.base and plan.build is None:
        yield "# a Python of this stage would be missing in the image"
        yield "export UV_PYTHON_PREFERENCE=only-managed"
    own = compiling.image == plan.base
    yield from _apt(compiling.apt, _python_headers(plan), plan.snapshot if own else None)
    yield from _environment(plan)


def _build_env(plan: Plan) -> Iterator[str]:
    assert plan.compiling is not None
    yield from export_variables(plan.compiling.env.items())


def _python_headers(plan: Plan) -> Iterator[str]:
    """Install the headers of the base's own Python, if that is the environment's: kernels are compiled with them."""
    if not plan.brings_headers and (plan.compiling is None or plan.compiling.image == plan.base):
        install = "$apt install -y --no-install-recommends"
        yield f"if [ -x /usr/bin/python{plan.python} ]; then {install} libpython{plan.python}-dev; fi"


def final_post(plan: Plan) -> Iterator[str]:
    """Make the script of the last stage."""
    yield from _beginning(plan)
    yield from _apt(
        [name for name in plan.debian if name != INIT], _python_headers(plan) if plan.torch else (), plan.snapshot
    )
    if not plan.compiling:
        yield from _environment(plan)
        yield f"rm -f /usr/local/bin/uv{' /usr/local/bin/micromamba' if plan.micromamba else ''}"
    yield from unpack_check(CARRIED, f"{ENVIRONMENT}/bin/python")
    yield from nvcc.links(plan)
    yield from _libcuda(plan)
    yield from _finish()
    yield f"rm -rf {SCRATCH}"


def offline_post(plan: Plan, bundle: str) -> Iterator[str]:
    """Make the script of the stage that installs a bundle, which lies in `SCRATCH`."""
    yield from _beginning(plan)
    yield f"mkdir {SCRATCH}/bundle; tar -xf {SCRATCH}/{bundle} -C {SCRATCH}/bundle"
    if plan.compiling and plan.compiling.packages:
        yield from _build_env(plan)
    yield f"sh {SCRATCH}/bundle/install.sh {ENVIRONMENT}"
    yield _bytecode()


def bundled_post(plan: Plan) -> Iterator[str]:
    """Make the script of the stage that installs an unpacked bundle, which has all as wheels."""
    yield from _beginning(plan)
    yield f"sh {SCRATCH}/bundle/install.sh {ENVIRONMENT}"
    yield _bytecode()


def offline_final_post(plan: Plan) -> Iterator[str]:
    """Make the script of the last stage of one that installs a bundle."""
    yield "set -eu; umask 022"
    yield from unpack_check(CARRIED, f"{ENVIRONMENT}/bin/python")
    yield from nvcc.links(plan)
    yield from _libcuda(plan)
    yield from _finish()


def _libcuda(plan: Plan) -> Iterator[str]:
    """Make the lines by which the triton of torch before 2.2 finds the driver's library: in ldconfig's cache alone,
    where `--nv` doesn't bring it. The name in the cache is a link to where that puts the library."""
    if plan.is_cuda and plan.torch and numbers_in(plan.torch) < (2, 2):
        yield "# triton 2.1 looks for libcuda.so in ldconfig's cache alone, and --nv puts it into /.singularity.d/libs"
        yield f"mkdir {LIBCUDA}; echo 'int envspec;' | gcc -shared -x c - -o {LIBCUDA}/libcuda.so"
        conf, driver = "/etc/ld.so.conf.d/libcuda.conf", "/.singularity.d/libs/libcuda.so.1"
        yield f"echo {LIBCUDA} >{conf}; ldconfig; ln -sf {driver} {LIBCUDA}/libcuda.so"


def _apt(names: Iterable[str], more: Iterable[str] = (), snapshot: str | None = None) -> Iterator[str]:
    words = " ".join(map(shell, names))
    if not words:
        return
    yield f"day={day_of(snapshot)} mirrors={_APT_MIRRORS}; . {_BUILD}/mirrors.sh"
    yield "apt='apt-get -qq -o APT::Sandbox::User=root'; $apt update # in a user namespace apt can't be its own user"
    yield f"$apt install -y --no-install-recommends {words}"
    yield from more
    caches = "/var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/ldconfig/aux-cache"
    yield f"rm -rf {caches} $copy /var/log/apt /var/log/dpkg.log /var/log/alternatives.log"


def _environment(plan: Plan) -> Iterator[str]:
    """Make the whole environment, each file by its hash."""
    yield check_sums(CARRIED)
    yield f"mkdir -p {PYTHON}; export UV_PYTHON_INSTALL_DIR={PYTHON} UV_LINK_MODE=copy"
    yield from _settings()
    if plan.explicit:
        yield f"if [ ! -s {_CHANNEL_HOST} ]; then"
        yield f"    echo '{_CHANNEL_HOST} is missing: build with --bind FOLDER:{SETTINGS}' >&2"
        yield "    exit 1"
        yield "fi"
        edits = f"s|  # .*||; s|{_HOST_VARIABLE}|$(cat {_CHANNEL_HOST})|"
        yield f'sed "{edits}" {at(plan, plan.explicit)} >{SCRATCH}/explicit.txt'
        yield f"export MAMBA_ROOT_PREFIX={SCRATCH}/micromamba"
        yield _USE_NETRC
        yield f"if [ -s {_CONDARC} ]; then set -- --rc-file {_CONDARC}; else set -- --no-rc; fi"
        yield f'micromamba create --yes --quiet "$@" --prefix {ENVIRONMENT} --file {SCRATCH}/explicit.txt'
    else:
        yield from _python(plan)
        if plan.takes_netrc:
            yield _USE_NETRC
    for step in plan.pip:
        if not step.source:
            yield from _install(plan, step)
    if plan.compiling:
        yield from _build_env(plan)
        if plan.compiling.sees:
            yield "# builds see the environment, beside what they declare"
        yield from build_settings(plan, SCRATCH)
        for step in plan.pip:
            if step.source:
                yield from _install(plan, step)
        if plan.compiling.sees:
            yield "unset PYTHONPATH"
    if plan.project:
        yield from _own(plan.project, plan)
    yield _bytecode()
    yield f"rm -rf {_FROM}"


def _settings() -> Iterator[str]:
    kept = f"export UV_CACHE_DIR={_CACHE}/uv CONDA_PKGS_DIRS={_CACHE}/conda"
    yield f"if [ -d {_CACHE} ]; then {kept}; else export UV_NO_CACHE=1; fi"
    yield f"if [ -s {_UV_SETTINGS} ]; then export UV_CONFIG_FILE={_UV_SETTINGS}; fi"


def _python(plan: Plan) -> Iterator[str]:
    """Make the virtual environment, of the lock's build of Python where it names one: uv checks its hash."""
    if plan.build is None or plan.build_table is None:
        only = f"UV_PYTHON_PREFERENCE={plan.python_preference} " if plan.base_python else ""
        yield f"{only}uv venv --quiet --python {shell(plan.python_request)} {ENVIRONMENT}"
        return
    table = at(plan, plan.build_table)
    yield f"export {TABLE}={table} UV_PYTHON_PREFERENCE={plan.python_preference}"
    yield f"uv venv --quiet --python {version_in(table)} {ENVIRONMENT}"


def _own(project: OwnProject, plan: Plan) -> Iterator[str]:
    """Build and install the spec's project. Backends write into its folder, so it is copied; without what lies there of
    images and environments."""
    missing = f"{project.name}: no pyproject.toml in {PROJECT}: build with --bind FOLDER:{PROJECT}:ro"
    yield f"# {project.name} itself, last, without dependencies"
    yield f"if [ ! -f {PROJECT}/pyproject.toml ]; then"
    yield f"    echo {word(missing)} >&2"
    yield "    exit 1"
    yield "fi"
    if project.versioned:
        yield f'if [ -s {_VERSION} ]; then export {PRETENDED}="$(cat {_VERSION})"; fi'
    recipes = posixpath.relpath(plan.place, project.path) if project.folder else ".."
    left = ["./.venv", *([] if recipes.startswith("..") else [f"./{recipes}"])]
    excluded = " ".join(f"--exclude={word(path)}" for path in left)
    yield f"mkdir {SCRATCH}/project"
    yield f"tar -C {PROJECT} {excluded} -cf - . | tar -C {SCRATCH}/project -xf -"
    yield from project_wheel(plan, "uv", f"{SCRATCH}/project", SCRATCH)
    yield project_install(plan, "uv", SCRATCH)
    yield "unset PYTHONPATH DIST_EXTRA_CONFIG"


def local_index(name: str, *, flat: bool) -> str:
    """Give uv's word for an index that is a folder: it lies with the builder's own settings."""
    return f"{'' if flat else 'file://'}{SETTINGS}/index-{name}"


def _bytecode() -> str:
    return f"{ENVIRONMENT}/bin/python -I {CARRIED}/bytecode.py {ENVIRONMENT}/lib"


def _install(plan: Plan, step: PipStep, uv: str = f"uv pip install --python {ENVIRONMENT}") -> Iterator[str]:
    """Make one run of uv, which takes only the lock's files, each by its hash."""
    options = ["--quiet", "--no-deps", *(["--require-hashes"] if step.hashed else [])]
    # What a build needs is never built itself.
    options.append("--only-binary :all:")
    if step.source:
        options += [f"--no-binary {word(name)}" for name in step.packages]
        options += [f"--no-build-isolation-package {word(name)}" for name in step.unisolated]
    if step.built_with:
        options.append(f"--build-constraints {at(plan, step.built_with)} --require-build-hashes")
    place = step.url or (local_index(str(step.index), flat=step.flat) if step.local else None)
    index = [f"{step.index_option} {word(place)}"] if place else []
    if step.torch_backend:
        yield f"set -- --torch-backend={word(step.torch_backend)}"
        option = "--index" if step.beside else "--default-index"
        yield f'if [ -s {_PYTORCH_INDEX} ]; then set -- {option} "$(cat {_PYTORCH_INDEX})"; fi'
    if step.variants:
        yield from _variants(step, index)
    if step.torch_backend or step.variants:
        index.append('"$@"')
    files = (f"--requirements {at(plan, file)}" for file in step.requirements)
    yield f"{uv} {' '.join([*options, *index, *files])}"


def _variants(step: PipStep, index: Sequence[str]) -> Iterator[str]:
    """Fetch variants' wheels, and let uv see them: of an index it takes none that the machine doesn't have."""
    if step.torch_backend is None:
        yield "set --"
    words = fetch_words(step, f"{ENVIRONMENT}/bin/python", f"{CARRIED}/{FETCH_VARIANTS}", "$wheels", "uv", word)
    yield f"wheels={_WHEELS}"
    yield "if [ ! -d $wheels ]; then"
    yield f"    wheels={SCRATCH}/wheels"
    yield f'    {" ".join([*words, *index])} "$@"'
    yield "fi"
    yield 'set -- "$@" --find-links $wheels'


def _finish() -> Iterator[str]:
    yield f"mkdir -p {WORKSPACE} /etc/profile.d; chmod 1777 {WORKSPACE}; chmod -R a+rX {CARRIED}"
    yield "# a login shell's profile, as sshd's sessions have it, sets PATH anew"
    yield f"echo 'PATH={ENVIRONMENT}/bin:$PATH' >/etc/profile.d/envspec.sh"


def build_files(plan: Plan) -> list[str]:
    """List the scripts of builds as lines of `%files`."""
    return [f"{plan.carried_file(BUILD_SCRIPTS)} {_BUILD}"]


def carried_lines(plan: Plan) -> list[str]:
    """List what an image keeps as lines of `%files`: what it carries, its slice and its requirements."""
    parts = [f"{file} {at(plan, file)}" for file in plan.parts]
    return [*carried_files(plan), f"{plan.slice} {CARRIED}/{SLICE}", *parts]


def carried_files(plan: Plan) -> list[str]:
    """List what an image carries as lines of `%files`, by name: the smoke check as one file."""
    names = [SUMS, *(name for name in plan.carries if not name.startswith(f"{CHECK}/")), CHECK_ARCHIVE]
    return [f"{plan.carried_file(name)} {CARRIED}/{name}" for name in names]


def post_on_base(plan: Plan, python: str, uv: str) -> Iterator[str]:
    """Make the script that puts what the lock adds beside a base's packages, for its Python by uv's program."""
    yield from _beginning(plan)
    yield from unpack_check(CARRIED, python)
    yield from _settings()
    if plan.takes_netrc:
        yield _USE_NETRC
    for step in plan.pip:
        yield from _install(plan, step, f"{uv} pip install --break-system-packages --python {python}")
    yield f"rm -rf {uv} {SCRATCH}; chmod -R a+rX {CARRIED}"
