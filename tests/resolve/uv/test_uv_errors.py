"""uv's errors in envspec's words. `errors/*.txt` is what uv 0.13.8 printed, for these very situations, and the `.told`
beside each is what envspec says of it."""

import re
from copy import copy
from pathlib import Path

import pytest
from support.golden import golden

from envspec.base.errors import EnvspecError, IndexFailure, ToolError
from envspec.resolve.uv.errors import build_failure, cause, failure, machine_error, offline_failure

ERRORS = Path(__file__).parent / "errors"


def said(name: str) -> str:
    return (ERRORS / f"{name}.txt").read_text(encoding="utf-8")


CONFLICT = said("conflict")


def told(stderr: str, *, offline: bool = False, status: int = 1) -> EnvspecError:
    return failure(status, stderr, label="cu128", offline=offline, index="https://bob:hunter2@mirror.example/simple")


@pytest.mark.parametrize("name", sorted(path.stem for path in ERRORS.glob("*.told")))
def test_wording(name: str) -> None:
    error = told(said(name))
    assert "\n" not in error.message
    hint = f"hint: {error.hint}\n" if error.hint is not None else ""
    text = f"{type(error).__name__}: {error.message}\n{hint}"
    assert text == golden(ERRORS / f"{name}.told", text)


@pytest.mark.parametrize("what", ["Python version", "platform"])
def test_a_missing_wheel_leads_where_it_is_the_cause(what: str) -> None:
    direct = f"  cause: Because p-q<2 has no wheels with a matching {what} tag and the-spec depends on p-q<2, "
    end = "we can conclude that your requirements are unsatisfiable.\n"
    message = told(CONFLICT.partition("  cause")[0] + direct + end).message
    assert message.startswith(
        f"cu128: p-q<2 has no wheel for this target's {what.split()[0]}. Because p-q<2 has no wheels "
    )
    aside = CONFLICT.replace("Because all", f"Because gamma==3 has no wheels with a matching {what} tag and all", 1)
    assert told(aside).message.startswith("cu128: Because gamma==3 has no wheels ")


@pytest.mark.parametrize(
    ("tags", "python"),
    [("`cp37m`, `cp38`, `cp310`, `cp311`", "3.11"), ("`cp313`, `cp314`", "3.13"), ("`cp27mu`", None), ("`abi3`", None)],
)
def test_a_python_that_a_release_has_wheels_for_is_a_way(tags: str, python: str | None) -> None:
    lists = "`cp37m`, `cp38`, `cp39`, `cp310`, `cp311`"
    assert [one.python for one in told(said("no-wheel").replace(lists, tags)).ways] == [python] * (python is not None)


def test_offline() -> None:
    error = told(said("offline"), offline=True)
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


@pytest.mark.parametrize("name", ["conflict", "source-only", "unauthorised", "down", "newer"])
def test_neither_credentials_nor_the_stand_in_nor_uvs_options_show(name: str) -> None:
    error = told(said(name))
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
        (
            "  swig -python -o a.cpp a.i\n  error: command 'swig' failed: No such file or directory\n"
            "error: Failed to build `/a`\n  cause: x\n\nhint: Build failures\n",
            "error: command 'swig' failed: No such file or directory",
        ),
    ],
)
def test_a_failed_build_is_told_by_what_ended_it(output: str, told: str) -> None:
    assert build_failure(output).startswith(told)


NO_MORE = "cpu: uv ran out of memory or threads, or reached the system's limit on them"


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (-9, "", NO_MORE),
        (-6, "", NO_MORE),
        (-6, "memory allocation of 64 bytes failed\n", NO_MORE),
        (1, "error: Cannot allocate memory (os error 12)\n", NO_MORE),
        (
            -6,
            "thread 'main2' panicked at locked_file.rs:210:34:\nOS can't spawn worker thread: Resource temporarily\n",
            NO_MORE,
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
        (CHAIN, "Failed to install cpython-3.12.14-linux-x86_64-gnu: dns error: Name or service not known"),
        ("error: Hash mismatch\n", "Hash mismatch"),
        ("killed\n", "killed"),
        ("", ""),
    ],
)
def test_the_first_link_and_the_last(said: str, told: str) -> None:
    assert cause(said) == told


@pytest.mark.parametrize("name", sorted(path.stem for path in ERRORS.glob("*.txt")))
def test_an_error_is_copied_whole(name: str) -> None:
    """Of one question of several targets each adds to its own error."""
    error = failure(1, (ERRORS / f"{name}.txt").read_text(), label="a", offline=False)
    own = copy(error)
    own.message = "b: another"
    assert type(own) is type(error) and own.args == error.args
    assert {**own.__dict__, "message": error.message} == error.__dict__
