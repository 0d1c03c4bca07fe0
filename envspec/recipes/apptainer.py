"""Apptainer and SingularityCE definitions: one that fetches, and one that installs a bundle without a network.

Their `%files` are below the folder in which `apptainer build` is run, not the definition's own: it's the spec's folder.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator

from envspec.recipes import compat
from envspec.recipes.building import PRETENDED, PROJECT_BUILD, build_settings, project_install, project_wheel
from envspec.recipes.definition_text import definition, safe_text, section, stage_header, word
from envspec.recipes.heading import hash_heading
from envspec.recipes.plan import (
    CARRIED,
    CARRIED_FOLDER,
    ENVIRONMENT,
    PYTHON,
    SLICE,
    SUMS,
    WORKSPACE,
    ImageReference,
    OwnProject,
    PipStep,
    Plan,
)
from envspec.recipes.quote import shell

FILE = "apptainer.def"
OFFLINE_FILE = "apptainer-offline.def"
BUNDLE = "bundle.tar"
BASE = "base.sif"

_FROM = "/opt/requirements"
"""The folder of the requirements while the environment is made."""
_INIT = "tini"
"""The package of an OCI image's process 1; under Apptainer the host's own init reaps processes."""
_SETTINGS = "/mnt"
"""The bind point of a folder with the builder's own settings. A file can't be bound: it would have to exist in the
base.
"""
_UV_SETTINGS = f"{_SETTINGS}/uv.toml"
_CHANNEL_HOST = f"{_SETTINGS}/conda-channel-host"
_PYTORCH_INDEX = f"{_SETTINGS}/pytorch-index"
_CONDARC = f"{_SETTINGS}/condarc"
_NETRC = f"{_SETTINGS}/netrc"
_PROJECT = "/srv"
"""The bind point of the folder of the spec's project, which every base has."""
_VERSION = f"{_SETTINGS}/project-version"
_HOST_VARIABLE = "[$]{CONDA_CHANNEL_HOST}"
_EXPORTS = (
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("LC_ALL", "C.UTF-8"),
    ("UV_PYTHON_INSTALL_DIR", PYTHON),
    ("UV_LINK_MODE", "copy"),
    ("UV_NO_CACHE", "1"),
)


def render(plan: Plan) -> dict[str, str]:
    """Render `apptainer.def`, and `apptainer-offline.def` for a base image and a bundle beside it."""
    made = {FILE: _online(plan), OFFLINE_FILE: _offline(plan)}
    return {f"{plan.target}/{name}": definition(lines) for name, lines in made.items()}


def _above(plan: Plan) -> str:
    return f"In the folder above this one, recipes/{plan.spec}:"


def _online(plan: Plan) -> Iterator[str]:
    nv = " --nv" if plan.is_cuda else ""
    own = plan.project
    bound = f' --bind "{own.folder or "FOLDER"}:{_PROJECT}:ro"' if own else ""
    usage = [
        _above(plan),
        f"  apptainer build{bound} --notest {plan.title}.sif {plan.target}/{FILE}     (singularity: the same)",
        f"  apptainer test{nv} {plan.title}.sif     the smoke check{', on a machine with the GPU' if nv else ''}",
        f'  apptainer run{nv} --bind "$PWD:{WORKSPACE}" {plan.title}.sif python train.py',
        "",
        f"What is your own comes from a folder, by --bind FOLDER:{_SETTINGS}, and stays out of the image:",
        "  uv.toml         other indexes, mirrors and logins",
    ]
    if plan.torch_backend:
        usage.append(f"  pytorch-index   the URL of a mirror of the PyTorch index {plan.torch_backend}")
    if plan.explicit:
        usage.append("  conda-channel-host   the host of your conda channels; it must be there")
        usage.append("  condarc, netrc       settings and logins for channels that want them")
    if own and own.versioned:
        usage.append(f"  project-version   the version of {own.name}, where git would tell it")
    yield from hash_heading(plan, usage)
    yield ""
    yield from stage_header(plan.uv, "uv")
    for image, stage in _tools(plan):
        yield from stage_header(image, stage)
    if plan.compiling:
        yield from stage_header(plan.compiling.image, "compile")
        yield from section("files from uv", ["/uv /usr/local/bin/uv"])
        yield from _micromamba_files(plan)
        yield from section("files", [f"{CARRIED_FOLDER} {CARRIED}", *_requirements(plan)])
        yield from section("post", _compile(plan))
    yield from stage_header(plan.base, "final")
    if plan.compiling:
        yield from section("files from compile", [f"{ENVIRONMENT} {ENVIRONMENT}", f"{PYTHON} {PYTHON}"])
    else:
        yield from section("files from uv", ["/uv /usr/local/bin/uv"])
        yield from _micromamba_files(plan)
    for one in plan.borrowed:
        yield from section(f"files from {one.name}", [f"{there} {here}" for there, here in one.copies])
    yield from section("files", [*_carried(plan), *([] if plan.compiling else _requirements(plan))])
    yield from section("post", _post(plan))
    yield from _at_run_time(plan)


def _offline(plan: Plan) -> Iterator[str]:
    needs = [name for name in plan.apt if name not in (_INIT, "ca-certificates")]
    needs += [path for one in plan.borrowed for _, path in one.copies]
    python = "micromamba" if plan.explicit else f"Python {plan.python} with its module venv"
    beside = f"{plan.target}/"
    usage = [
        "For machines without internet. Beside this file lie:",
        f"  {BASE}        an image with {python}{''.join(f', {name}' for name in needs)}",
        f"  {BUNDLE}      envspec bundle SPEC --target {plan.target} -o {beside}{BUNDLE}",
    ]
    files = [f"{beside}{BUNDLE} /opt/{BUNDLE}", *_carried(plan)]
    compiling = []
    if plan.compiling and plan.compiling.packages:
        tools = [name for name in plan.compiling.apt if name != "ca-certificates"]
        tools += ["CUDA's compiler in /usr/local/cuda"] if "CUDA_HOME" in plan.compiling.env else []
        usage.append(f"{BASE} also needs {', '.join(tools)}.")
        compiling = [f"export {name}={word(value)}" for name, value in plan.compiling.env.items()]
    usage += [_above(plan), f"  apptainer build --notest {plan.title}.sif {beside}{OFFLINE_FILE}"]
    yield from hash_heading(plan, usage)
    yield ""
    yield from ("Bootstrap: localimage", f"From: {beside}{BASE}", "")
    yield from section("files", files)
    yield from section(
        "post",
        [
            "set -eu",
            "umask 022",
            *(f"export {name}={value}" for name, value in _EXPORTS),
            f"export SOURCE_DATE_EPOCH={plan.epoch}",
            "mkdir /opt/bundle",
            f"tar -xf /opt/{BUNDLE} -C /opt/bundle",
            *compiling,
            f"sh /opt/bundle/install.sh {ENVIRONMENT}",
            _bytecode(),
            f"rm -rf /opt/bundle /opt/{BUNDLE}",
            *_finish(),
        ],
    )
    yield from _at_run_time(plan)


def _carried(plan: Plan) -> list[str]:
    return [f"{CARRIED_FOLDER} {CARRIED}", f"{plan.slice} {CARRIED}/{SLICE}"]


def _installed_from(plan: Plan) -> Iterator[str]:
    if plan.explicit:
        yield plan.explicit
    yield from (file for step in plan.pip for file in step.files)


def _requirements(plan: Plan) -> list[str]:
    return [f"{file} {_at(file)}" for file in _installed_from(plan)]


def _at(file: str) -> str:
    return f"{_FROM}/{file.rpartition('/')[2]}"


def _tools(plan: Plan) -> Iterator[tuple[ImageReference, str]]:
    if plan.micromamba:
        yield plan.micromamba, "micromamba"
    for one in plan.borrowed:
        yield one.image, one.name


def _micromamba_files(plan: Plan) -> Iterator[str]:
    if plan.micromamba:
        yield from section("files from micromamba", ["/bin/micromamba /usr/local/bin/micromamba"])


def _compile(plan: Plan) -> Iterator[str]:
    compiling = plan.compiling
    assert compiling is not None
    yield from ("set -eu", "umask 022")
    yield from (f"export {name}={value}" for name, value in _EXPORTS)
    yield from (f"export {name}={word(value)}" for name, value in compiling.env.items())
    if compiling.image != plan.base:
        yield "# a Python of this stage would be missing in the image"
        yield "export UV_PYTHON_PREFERENCE=only-managed"
    yield from _apt(compiling.apt, _more_apt(plan))
    yield from _environment(plan)


def _more_apt(plan: Plan) -> Iterator[str]:
    """Install the other packages of a stage that compiles: the spec's, and the headers of Debian's own Python."""
    assert plan.compiling is not None
    install = "$apt install -y --no-install-recommends"
    if plan.compiling.spec_apt:
        yield "# this image may be of another distribution than the last stage's, with other names"
        yield f"for name in {' '.join(map(shell, plan.compiling.spec_apt))}; do"
        yield f'    ! apt-cache show "$name" >/dev/null 2>&1 || {install} "$name"'
        yield "done"
    if plan.compiling.image == plan.base and not plan.explicit:
        yield f"if [ -x /usr/bin/python{plan.python} ]; then {install} libpython{plan.python}-dev; fi"


def _post(plan: Plan) -> Iterator[str]:
    yield from ("set -eu", "umask 022")
    yield from (f"export {name}={value}" for name, value in _EXPORTS)
    yield f"export SOURCE_DATE_EPOCH={plan.epoch}"
    yield from _apt([name for name in plan.apt if name != _INIT])
    if not plan.compiling:
        yield from _environment(plan)
        yield f"rm -f /usr/local/bin/uv{' /usr/local/bin/micromamba' if plan.micromamba else ''}"
    yield from _finish()


def _apt(names: Iterable[str], more: Iterable[str] = ()) -> Iterator[str]:
    words = " ".join(map(shell, names))
    if not words:
        return
    yield "# in a user namespace apt can't become its own user"
    yield "apt='apt-get -qq -o APT::Sandbox::User=root'"
    yield "$apt update"
    yield f"$apt install -y --no-install-recommends {words}"
    yield from more
    yield "rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/ldconfig/aux-cache"
    yield "rm -rf /var/log/apt /var/log/dpkg.log /var/log/alternatives.log"


def _environment(plan: Plan) -> Iterator[str]:
    """Make the whole environment, each file by its hash."""
    yield f"(cd {CARRIED} && sha256sum --check --quiet {SUMS})"
    sums = " ".join(f"'{_digest(plan, file)}  {_at(file)}'" for file in _installed_from(plan))
    yield f"printf '%s\\n' {sums} | sha256sum --check --quiet"
    yield f"mkdir -p {PYTHON}"
    yield f"if [ -s {_UV_SETTINGS} ]; then export UV_CONFIG_FILE={_UV_SETTINGS}; fi"
    if plan.explicit:
        yield f"if [ ! -s {_CHANNEL_HOST} ]; then"
        yield f"    echo '{_CHANNEL_HOST} is missing: build with --bind FOLDER:{_SETTINGS}' >&2"
        yield "    exit 1"
        yield "fi"
        yield f'sed "s|{_HOST_VARIABLE}|$(cat {_CHANNEL_HOST})|" {_at(plan.explicit)} >/tmp/explicit.txt'
        yield "export MAMBA_ROOT_PREFIX=/tmp/micromamba"
        yield f"if [ -s {_NETRC} ]; then export NETRC={_NETRC}; fi"
        yield f"if [ -s {_CONDARC} ]; then set -- --rc-file {_CONDARC}; else set -- --no-rc; fi"
        yield f'micromamba create --yes --quiet "$@" --prefix {ENVIRONMENT} --file /tmp/explicit.txt'
        yield "rm -rf /tmp/micromamba /tmp/explicit.txt"
    else:
        yield f"uv venv --quiet --python {plan.python} {ENVIRONMENT}"
    for step in plan.pip:
        if not step.source:
            yield from _install(step)
    if plan.compiling:
        yield "# builds see the environment, beside what they declare"
        yield from build_settings(plan)
        for step in plan.pip:
            if step.source:
                yield from _install(step)
        yield "unset PYTHONPATH"
    if plan.project:
        yield from _own(plan.project, plan)
    yield _bytecode()
    yield f"rm -rf {_FROM}"


def _own(project: OwnProject, plan: Plan) -> Iterator[str]:
    """Build and install the spec's project. Backends write into its folder, so it is copied; without what lies there of
    images and environments."""
    missing = f"{project.name}: no pyproject.toml in {_PROJECT}: build with --bind FOLDER:{_PROJECT}:ro"
    yield f"# {project.name} itself, last, without dependencies"
    yield f"if [ ! -f {_PROJECT}/pyproject.toml ]; then"
    yield f"    echo {word(missing)} >&2"
    yield "    exit 1"
    yield "fi"
    if project.versioned:
        yield f'if [ -s {_VERSION} ]; then export {PRETENDED}="$(cat {_VERSION})"; fi'
    recipes = posixpath.relpath(plan.place, project.path) if project.folder else ".."
    left = ["./.venv", *([] if recipes.startswith("..") else [f"./{recipes}"])]
    excluded = " ".join(f"--exclude={word(path)}" for path in left)
    yield "mkdir /tmp/project"
    yield f"tar -C {_PROJECT} {excluded} -cf - . | tar -C /tmp/project -xf -"
    yield from project_wheel(plan, "uv", "/tmp/project")
    yield project_install(plan, "uv")
    yield f"rm -rf /tmp/project {PROJECT_BUILD}"
    yield "unset PYTHONPATH DIST_EXTRA_CONFIG"


def _digest(plan: Plan, file: str) -> str:
    return hashlib.sha256(plan.files[file].encode()).hexdigest()


def _bytecode() -> str:
    return f"{ENVIRONMENT}/bin/python -I {CARRIED}/bytecode.py {ENVIRONMENT}/lib"


def _install(step: PipStep) -> Iterator[str]:
    """Make one run of uv, which takes only the lock's files, each by its hash."""
    options = ["--quiet", "--no-deps", *(["--require-hashes"] if step.hashed else [])]
    # What a build needs is never built itself.
    options.append("--only-binary :all:")
    if step.source:
        options += [f"--no-binary {word(name)}" for name in step.packages]
        options += [f"--no-build-isolation-package {word(name)}" for name in step.unisolated]
    if step.built_with:
        options.append(f"--build-constraints {_at(step.built_with)} --require-build-hashes")
    if step.url:
        options.append(f"{step.index_option} {word(step.url)}")
    if step.torch_backend:
        yield f"set -- --torch-backend={word(step.torch_backend)}"
        yield f'if [ -s {_PYTORCH_INDEX} ]; then set -- --default-index "$(cat {_PYTORCH_INDEX})"; fi'
        options.append('"$@"')
    variables = "".join(f"{name}={word(text)} " for name, text in step.variables)
    yield f"{variables}uv pip install --python {ENVIRONMENT} {' '.join(options)} --requirements {_at(step.file)}"


def _finish() -> Iterator[str]:
    yield f"mkdir -p {WORKSPACE}"
    yield f"chmod 1777 {WORKSPACE}"
    yield f"chmod -R a+rX {CARRIED}"
    yield "# a login shell's profile, as sshd's sessions have it, sets PATH anew"
    yield "mkdir -p /etc/profile.d"
    yield f"echo 'PATH={ENVIRONMENT}/bin:$PATH' >/etc/profile.d/envspec.sh"


def _at_run_time(plan: Plan) -> Iterator[str]:
    entrypoint = f"sh {CARRIED}/entrypoint.sh"
    own, other = ("CONDA_PREFIX", "VIRTUAL_ENV") if plan.explicit else ("VIRTUAL_ENV", "CONDA_PREFIX")
    exports = [
        f'export PATH="{ENVIRONMENT}/bin:$PATH"',
        f"export {own}={ENVIRONMENT}",
        "# what the caller has active comes in unless it is set here; an unset isn't heeded",
        f"export {other}=",
        *(f"export {name}={word(value)}" for name, value in plan.env),
        *(compat.choice(plan.driver_floor) if plan.compat else ()),
    ]
    yield from section("environment", exports)
    yield from section("labels", [f"{name} {safe_text(value)}" for name, value in _labels(plan)])
    yield from section("help", _help(plan))
    yield from section("runscript", [f'exec {entrypoint} "$@"'])
    yield from section("test", [f"exec {entrypoint} smoke --quick"])
    for app in ("smoke", *(service.name for service in plan.services)):
        yield from section(f"apprun {app}", [f'exec {entrypoint} {app} "$@"'])


def _labels(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "org.opencontainers.image.title", plan.title
    yield "org.opencontainers.image.description", plan.description or plan.title
    yield "envspec.spec", plan.spec
    yield "envspec.target", plan.target
    yield "envspec.lock", plan.lock_digest
    yield "envspec.fingerprint", plan.fingerprint


def _help(plan: Plan) -> Iterator[str]:
    nv = " --nv" if plan.is_cuda else ""
    cuda = f", CUDA {plan.cuda}" if plan.cuda else ""
    yield safe_text(plan.description or plan.title)
    yield f"{plan.title}: Python {plan.python}{cuda}, on {plan.platform}."
    yield ""
    yield f'  apptainer run{nv} --bind "$PWD:{WORKSPACE}" IMAGE python train.py'
    yield f"  apptainer test{nv} IMAGE                  the smoke check, short"
    yield f"  apptainer run{nv} --app smoke IMAGE       the smoke check"
    for service in plan.services:
        yield f"  apptainer run{nv} --app {service.name} IMAGE     on port {service.port}"
    yield ""
    yield "run looks at the driver first and activates conda's packages; exec does neither."
    yield "APPTAINERENV_NAME=VALUE sets a variable otherwise than the image."
    yield f"The target's slice of the lock is {CARRIED}/{SLICE}. ENVSPEC_SKIP_PREFLIGHT=1 skips the look at the driver."
