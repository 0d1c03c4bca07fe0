"""uv's errors in envspec's words. The texts are what uv 0.13.8 printed, for these very situations."""

# ruff: noqa: E501 - recorded texts are left as they are

from __future__ import annotations

import re

import pytest

from envspec.base.errors import EnvspecError, IndexFailure, InputError, StorageError, ToolError, Unsatisfiable
from envspec.resolve.uv.errors import build_failure, cause, failure, machine_error, offline_failure

CONFLICT = """\
error: No solution found when resolving dependencies
  cause: Because all versions of gamma depend on beta<2 and all versions of alpha depend on beta>=2, we can conclude that all versions of alpha and all versions of gamma are incompatible.
         And because the-spec depends on alpha and gamma, we can conclude that your requirements are unsatisfiable.
"""
NOT_FOUND = """\
error: No solution found when resolving dependencies
  cause: Because nosuch was not found in the package registry and the-spec depends on nosuch, we can conclude that your requirements are unsatisfiable.
"""
SOURCE_ONLY = """\
error: No solution found when resolving dependencies
  cause: Because q==2.0 has no usable wheels and only the following versions of q are available:
             q<=1
             q==2.0
         we can conclude that q>1 cannot be used.
         And because the-spec depends on q>1, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `q` because building from source is disabled for all packages (i.e., with `--no-build`)
"""
OFFLINE = """\
error: No solution found when resolving dependencies
  cause: Because nosuch was not found in the cache and the-spec depends on nosuch, we can conclude that your requirements are unsatisfiable.

hint: Packages were unavailable because the network was disabled. When the network is disabled, registry packages may only be read from the cache.
"""
NEWER = """\
error: No solution found when resolving dependencies
  cause: Because there are no versions of p and the-spec depends on p, we can conclude that your requirements are unsatisfiable.

hint: `p` was filtered by `exclude-newer` to only include packages uploaded before 2020-01-01T00:00:00Z. The latest version satisfying the requirement is v1.0, published at 2024-01-01T00:00:00Z. Consider using `exclude-newer-package` to override the cutoff for this package.
"""
UNAUTHORISED = """\
error: No solution found when resolving dependencies
  cause: Because z was not found in the package registry and the-spec depends on z, we can conclude that your requirements are unsatisfiable.

hint: An index URL (http://bob:hunter2@127.0.0.1:43295/simple) could not be queried due to a lack of valid authentication credentials (401 Unauthorized)
"""
FORBIDDEN = (
    UNAUTHORISED.partition("hint: ")[0]
    + "hint: An index (http://127.0.0.1:38541/simple) returned a 403 Forbidden error.\n"
)
NO_METADATA = """\
error: No solution found when resolving dependencies
  cause: Because alpha==1.0 has invalid metadata and only alpha==1.0 is available, we can conclude that all versions of alpha cannot be used.
         And because the-spec depends on alpha, we can conclude that your requirements are unsatisfiable.

hint: Metadata for `alpha` (v1.0) could not be parsed:
        Metadata field Name not found
"""
DOWN = """\
error: Request failed after 3 retries in 5.3s
  cause: Failed to fetch: `http://bob:hunter2@127.0.0.1:9/simple/alpha/`
  cause: error sending request for url (http://127.0.0.1:9/simple/alpha/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
HASH = """\
error: Failed to download and build `s==1.0`
  cause: Hash mismatch for `s==1.0`

         Expected:
           sha256:0000

         Computed:
           sha256:1111
"""
BUILD = """\
error: Failed to build `t==1.0`
  cause: The build backend returned an error
  cause: Call to `backend.get_requires_for_build_wheel` failed (exit status: 1)

         [stderr]
         boom

hint: Build failures usually indicate a problem with the package or the build environment
"""
NO_GIT = """\
error: Failed to download and build `x @ git+file:///nonexistent/x`
  cause: Git operation failed
  cause: Git executable not found. Ensure that Git is installed and available.
"""
NO_REPOSITORY = """\
error: Failed to download and build `x @ git+file:///nonexistent/x`
  cause: Git operation failed
  cause: failed to fetch into: /home/dev/.cache/uv/git-v0/db/1
  cause: failed to find branch, tag, or commit `main`
"""
FULL = """\
error: Failed to write to the cache
  cause: No space left on device (os error 28)
"""

NO_WHEEL = """\
error: No solution found when resolving dependencies
  cause: Because tensorflow-io-gcs-filesystem<=0.32.0 has no wheels with a matching Python ABI tag (e.g., `cp312`) and only the following versions of tensorflow-io-gcs-filesystem are available:
             tensorflow-io-gcs-filesystem<=0.32.0
             tensorflow-io-gcs-filesystem>=0.33
         we can conclude that tensorflow-io-gcs-filesystem<0.33 cannot be used.
         And because the-spec depends on tensorflow-io-gcs-filesystem<0.33, we can conclude that your requirements are unsatisfiable.

hint: You require CPython 3.12 (`cp312`), but we only found wheels for `tensorflow-io-gcs-filesystem` (v0.32.0) with the following Python ABI tags: `cp37m`, `cp38`, `cp39`, `cp310`, `cp311`
"""
FOLLOWS = """\
error: No solution found when resolving dependencies
  cause: Because requests==2.31.0 depends on urllib3>=1.21.1,<3 and the-spec depends on requests==2.31.0, we can conclude that the-spec depends on urllib3>=1.21.1,<3.
         And because the-spec depends on urllib3>=3, we can conclude that your requirements are unsatisfiable.
"""
VARIABLE = "error: Failed to parse environment variable `UV_HTTP_TIMEOUT` with invalid value `abc`: invalid digit found in string; value should be an integer number of seconds\n"
OPTION = """\
error: invalid value 'bar' for '--keyring-provider <KEYRING_PROVIDER>'
  [possible values: disabled, subprocess]

For more information, try '--help'.
"""
OWN_FILE = """\
error: Failed to parse: uv.toml
  cause: TOML parse error at line 1, column 14
           |
         1 | http-proxy = 3
           |              ^
         invalid type: integer `3`, expected a string
"""
NO_CACHE = """\
error: Failed to initialize cache at `/proc/x`
  cause: failed to create directory `/proc/x`: No such file or directory (os error 2)
"""


def told(stderr: str, *, offline: bool = False, status: int = 1) -> EnvspecError:
    return failure(status, stderr, label="cu128", offline=offline, index="https://bob:hunter2@mirror.example/simple")


@pytest.mark.parametrize(
    ("stderr", "kind", "message", "hint"),
    [
        (
            CONFLICT,
            Unsatisfiable,
            "cu128: Because all versions of gamma depend on beta<2 and all versions of alpha depend on beta>=2, we can conclude that all versions "
            "of alpha and all versions of gamma are incompatible. And because the spec asks for alpha and gamma: no versions satisfy this target.",
            "loosen one of these requirements, or leave out the target",
        ),
        (
            NOT_FOUND,
            Unsatisfiable,
            "cu128: Because nosuch was not found in the package registry and the spec asks for nosuch: no versions satisfy this target.",
            "check the name's spelling; a package from another index needs an entry in [pip] sources",
        ),
        (
            SOURCE_ONLY,
            Unsatisfiable,
            "cu128: Because q==2.0 has no usable wheels and only the following versions of q are available: q<=1, q==2.0; we can conclude that q>1 "
            "cannot be used. And because the spec asks for q>1: no versions satisfy this target.",
            'building from source runs the package\'s code; if you trust it, add to [pip]: allow-source = ["q"]',
        ),
        (
            NEWER,
            Unsatisfiable,
            "cu128: Because there are no versions of p and the spec asks for p: no versions satisfy this target.",
            "`p` was filtered by `exclude-newer` to only include packages uploaded before 2020-01-01T00:00:00Z. The latest version satisfying the "
            "requirement is v1.0, published at 2024-01-01T00:00:00Z. Move `exclude-newer` in [env] to a later date to admit it.",
        ),
        (
            UNAUTHORISED,
            IndexFailure,
            "cu128: http://127.0.0.1:43295/simple needs credentials (HTTP 401)",
            "put credentials in ~/.netrc or in the index's URL in your own settings, or set UV_INDEX_<NAME>_USERNAME and UV_INDEX_<NAME>_PASSWORD",
        ),
        (
            FORBIDDEN,
            IndexFailure,
            "cu128: http://127.0.0.1:38541/simple needs credentials (HTTP 403)",
            "put credentials in ~/.netrc or in the index's URL in your own settings, or set UV_INDEX_<NAME>_USERNAME and UV_INDEX_<NAME>_PASSWORD",
        ),
        (
            NO_METADATA,
            IndexFailure,
            "cu128: the index at https://mirror.example/simple serves something that isn't METADATA as that of alpha 1.0",
            "check whether a proxy or a login page answers in its place, then run the same command again",
        ),
        (
            DOWN,
            IndexFailure,
            "cu128: Request failed after 3 retries in 5.3s: Failed to fetch: `http://127.0.0.1:9/simple/alpha/`: error sending request for url "
            "(http://127.0.0.1:9/simple/alpha/): client error (Connect): tcp connect error: Connection refused (os error 111)",
            "check the address and the network, then run the same command again: it keeps what it has fetched",
        ),
        (
            HASH,
            IndexFailure,
            "cu128: Failed to download and build `s==1.0`: Hash mismatch for `s==1.0` Expected: sha256:0000 Computed: sha256:1111",
            "don't install from this index until whoever runs it has found the cause",
        ),
        (
            BUILD,
            ToolError,
            "cu128: Failed to build `t==1.0`: The build backend returned an error: Call to `backend.get_requires_for_build_wheel` failed "
            "(exit status: 1) [stderr] boom",
            "install the build tools that the package's README names, or choose a release that has a wheel",
        ),
        (
            NO_GIT,
            ToolError,
            "cu128: Failed to download and build `x @ git+file:///nonexistent/x`: Git operation failed: Git executable not found. Ensure that Git "
            "is installed and available.",
            "install git, or ask for a release instead",
        ),
        (
            NO_REPOSITORY,
            IndexFailure,
            "cu128: Failed to download and build `x @ git+file:///nonexistent/x`: Git operation failed: failed to fetch into: "
            "/home/dev/.cache/uv/git-v0/db/1: failed to find branch, tag, or commit `main`",
            "check the repository's address, the revision and your access",
        ),
        (
            FULL,
            StorageError,
            "cu128: Failed to write to the cache: No space left on device (os error 28)",
            "free some space, or point UV_CACHE_DIR and ENVSPEC_CACHE_DIR to a writable folder",
        ),
        (
            NO_WHEEL,
            Unsatisfiable,
            "cu128: tensorflow-io-gcs-filesystem<=0.32.0 has no wheel for this target's Python (cp312). Because tensorflow-io-gcs-filesystem<=0.32.0 has "
            "no wheels with a matching Python ABI tag (e.g., `cp312`) and only the following versions of tensorflow-io-gcs-filesystem are available: "
            "tensorflow-io-gcs-filesystem<=0.32.0, tensorflow-io-gcs-filesystem>=0.33; we can conclude that tensorflow-io-gcs-filesystem<0.33 cannot be "
            "used. And because the spec asks for tensorflow-io-gcs-filesystem<0.33: no versions satisfy this target.",
            "You require CPython 3.12 (`cp312`), but we only found wheels for `tensorflow-io-gcs-filesystem` (v0.32.0) with the following Python ABI "
            "tags: `cp37m`, `cp38`, `cp39`, `cp310`, `cp311`",
        ),
        (
            FOLLOWS,
            Unsatisfiable,
            "cu128: Because requests==2.31.0 depends on urllib3>=1.21.1,<3 and the spec asks for requests==2.31.0, so the target needs "
            "urllib3>=1.21.1,<3. And because the spec asks for urllib3>=3: no versions satisfy this target.",
            "loosen one of these requirements, or leave out the target",
        ),
        (
            VARIABLE,
            InputError,
            "cu128: uv rejects one of your settings: Failed to parse environment variable `UV_HTTP_TIMEOUT` with invalid value `abc`: invalid digit found "
            "in string; value should be an integer number of seconds",
            "correct the variable UV_HTTP_TIMEOUT, or unset it",
        ),
        (
            OPTION,
            InputError,
            "cu128: uv rejects one of your settings: invalid value 'bar' for '--keyring-provider <KEYRING_PROVIDER>' [possible values: disabled, "
            "subprocess]",
            "correct the variable UV_KEYRING_PROVIDER, or unset it",
        ),
        (
            OWN_FILE,
            InputError,
            "cu128: uv rejects one of your settings: Failed to parse: uv.toml: TOML parse error at line 1, column 14 | 1 | http-proxy = 3 | ^ invalid "
            "type: integer `3`, expected a string",
            "correct it in your own uv.toml",
        ),
        (
            NO_CACHE,
            StorageError,
            "cu128: Failed to initialize cache at `/proc/x`: failed to create directory `/proc/x`: No such file or directory (os error 2)",
            "free some space, or point UV_CACHE_DIR and ENVSPEC_CACHE_DIR to a writable folder",
        ),
        ("", ToolError, "cu128: uv stopped with status 1: no message", None),
        ("error: the sky fell\n\nhint: run", ToolError, "cu128: uv stopped with status 1: the sky fell", "run"),
    ],
)
def test_wording(stderr: str, kind: type[EnvspecError], message: str, hint: str | None) -> None:
    error = told(stderr)
    assert (type(error), error.message, error.hint) == (kind, message, hint)
    assert "\n" not in error.message


@pytest.mark.parametrize("what", ["Python version", "platform"])
def test_a_missing_wheel_leads_where_it_is_the_cause(what: str) -> None:
    direct = f"  cause: Because p-q<2 has no wheels with a matching {what} tag and the-spec depends on p-q<2, we can conclude that your requirements are unsatisfiable.\n"
    message = told(CONFLICT.partition("  cause")[0] + direct).message
    assert message.startswith(
        f"cu128: p-q<2 has no wheel for this target's {what.split()[0]}. Because p-q<2 has no wheels "
    )
    aside = CONFLICT.replace("Because all", f"Because gamma==3 has no wheels with a matching {what} tag and all", 1)
    assert told(aside).message.startswith("cu128: Because gamma==3 has no wheels ")


def test_offline() -> None:
    error = told(OFFLINE, offline=True)
    assert isinstance(error, IndexFailure)
    assert error.hint == "run without --offline once, so that the cache holds what this spec needs"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://host/simple/alpha/", "alpha"),
        ("https://host/files/alpha-1.0-py3-none-any.whl.metadata", "alpha-1.0-py3-none-any.whl"),
    ],
)
def test_what_stands_in_the_way_offline_is_not_told(url: str, name: str) -> None:
    text = f"error: Failed to fetch: `{url}`\n  cause: error sending request for url ({url})\n  cause: tunnel error\n"
    error = offline_failure(told(text, offline=True), "cu128")
    assert (error.message, error.exit_code) == (f"cu128: not in the cache: {name}", 3)
    assert error.hint == "run without --offline once, so that the cache holds what this spec needs"
    assert offline_failure(told(CONFLICT), "cu128").message == told(CONFLICT).message


def test_warnings_of_uv_are_left_out() -> None:
    assert told("warning: the index is slow\n" + CONFLICT).message == told(CONFLICT).message


@pytest.mark.parametrize("stderr", [CONFLICT, SOURCE_ONLY, UNAUTHORISED, DOWN, NEWER])
def test_neither_credentials_nor_the_stand_in_nor_uvs_options_show(stderr: str) -> None:
    error = told(stderr)
    text = f"{error.message} {error.hint}"
    assert re.search(r"hunter2|bob|the-spec| --[a-z]", text) is None


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (
            "  File x\nModuleNotFoundError: No module named 'torch'\nerror: Failed to build `/a`\n",
            "ModuleNotFoundError",
        ),
        (
            "error: Multiple top-level packages discovered\n\nhelp\nerror: Failed to build `/a`\n  cause: x\n",
            "error: Mult",
        ),
        ("a.cu(3): warning\nerror: command 'gcc' failed\na\nb\nc\n", "a | b | c"),
    ],
)
def test_a_failed_build_is_told_by_what_ended_it(output: str, told: str) -> None:
    assert build_failure(output).startswith(told)


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (-9, "", "cpu: uv ran out of memory or threads, or reached the system's limit on them"),
        (-6, "", "cpu: uv ran out of memory or threads, or reached the system's limit on them"),
        (
            -6,
            "memory allocation of 64 bytes failed\n",
            "cpu: uv ran out of memory or threads, or reached the system's limit on them",
        ),
        (
            1,
            "error: Cannot allocate memory (os error 12)\n",
            "cpu: uv ran out of memory or threads, or reached the system's limit on them",
        ),
        (
            -6,
            "thread 'main2' panicked at locked_file.rs:210:34:\nOS can't spawn worker thread: Resource temporarily\n",
            "cpu: uv ran out of memory or threads, or reached the system's limit on them",
        ),
        (-6, "thread panicked: no such arm\n", "cpu: uv was ended by SIGABRT: thread panicked: no such arm"),
        (-15, "", "cpu: uv was ended by SIGTERM"),
        (-11, "", "cpu: uv was ended by SIGSEGV"),
        (-40, "", "cpu: uv was ended by signal 40"),
    ],
)
def test_a_uv_that_the_system_ended(status: int, said: str, message: str) -> None:
    error = failure(status, said, label="cpu", offline=False)
    assert isinstance(error, ToolError) and error.message == message and error.hint
    named = machine_error(status, said, "the build of app")
    assert named is not None and named.message.startswith("the build of app ")


# uv's chain of causes in one line.


CHAIN = """\
warning: slow
error: Failed to install cpython-3.12.14-linux-x86_64-gnu
  cause: Request failed after 3 retries
  cause: Failed to download https://mirror.example.org/20260814/cpython-3.12.14.tar.gz
  cause: error sending request
  cause: dns error:
         Name or service not known
"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            CHAIN,
            "Failed to install cpython-3.12.14-linux-x86_64-gnu: dns error: Name or service not known",
        ),
        ("error: Hash mismatch\n", "Hash mismatch"),
        ("killed\n", "killed"),
        ("", ""),
    ],
)
def test_the_first_link_and_the_last(said: str, told: str) -> None:
    assert cause(said) == told
