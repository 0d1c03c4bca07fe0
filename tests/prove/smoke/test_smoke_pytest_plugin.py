"""The pytest plugin, driven by a pytest of its own. `envspec smoke` itself is faked here; test_shipped.py runs it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import tomli
from smoke_samples import BROKEN, checks, no_gpu, on_cpu

from envspec.prove.smoke.report.read import as_json
from envspec.prove.smoke.report.result import Results, Run
from envspec.pytest_plugin import Ran, SmokeTarget, Unproved, cases, prove, skip_reason

pytest_plugins = ["pytester"]

CPU = SmokeTarget("specs/cpu-py311.toml", "cpu-py311", "cpu")
ALLOWED = {
    f"envspec.{name}" for name in ("pytest_plugin", "base", "base.conflict", "base.errors", "base.texts", "base.redact")
}
OPTIONS = ("-p", "envspec.pytest_plugin", "--envspec-specs", "specs", "-p", "no:cacheprovider")


def answer(run: Run) -> str:
    return json.dumps({"schema": "envspec/smoke/1", **as_json(Results((run,)))})


GOOD = Run.from_report("cpu-py311", "cpu", "local", on_cpu(spec="cpu-py311", target="cpu"))
BAD = Run.from_report("cpu-py311", "cpu", "local", on_cpu(checks=(*checks(gpu=False), BROKEN)), log="runs/log.txt")
NONE = Run("cpu-py311", "cpu", "local", "error", reason="the environment couldn't be made")
SKIP = Run.from_report("cpu-py311", "cpu", "local", on_cpu(checks=(no_gpu("device.driver"),)))


@pytest.fixture
def project(pytester: pytest.Pytester, root: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A repository with two of the shipped specs, whose `envspec smoke` says what answer.json says."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # importing others' plugins takes longer than the tests
    for name in ("cpu-py311", "dev"):
        (pytester.path / "specs").mkdir(exist_ok=True)
        shutil.copy(root / "specs" / f"{name}.toml", pytester.path / "specs")
        shutil.copytree(root / "locks" / name, pytester.path / "locks" / name)
    pytester.makepyfile("def test_other(): pass")
    defaults = prove.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "ask", ask)
    monkeypatch.setitem(defaults, "serves", lambda case, words: "it has no torch" if case.spec == "dev" else None)
    return pytester


def ask(argv: Sequence[str]) -> Ran:
    """Where the tests' pytest runs: in the project."""
    Path("asked.txt").write_text(" ".join(argv))
    return 0, Path("answer.json").read_text(), ""


@pytest.mark.slow
def test_each_target_is_a_test(project: pytest.Pytester) -> None:
    """In a process, as it is started; the others are in this one."""
    told = project.runpytest_subprocess(*OPTIONS, "--collect-only", "-q")
    told.stdout.fnmatch_lines(
        ["specs/cpu-py311.toml::cpu", "specs/dev.toml::py311-linux-64", "specs/dev.toml::py311-linux-aarch64"]
    )
    told.stdout.no_fnmatch_line("*test_other*")


@pytest.mark.parametrize(
    ("options", "runners"),
    [((), ["local", "docker", "apptainer", "slurm"]), (("--envspec-runner", "slurm"), ["slurm"])],
    ids=["all", "one"],
)
def test_one_option_takes_every_spec_target_and_runner(
    project: pytest.Pytester, options: tuple[str, ...], runners: list[str]
) -> None:
    told = project.runpytest_inprocess("-p", "envspec.pytest_plugin", "--envspec", *options, "--collect-only", "-q")
    items = [line for line in told.outlines if line.startswith("specs/")]
    assert items[: len(runners)] == [f"specs/cpu-py311.toml::cpu[{runner}]" for runner in runners]
    assert len(items) == 3 * len(runners)


def test_a_runner_is_asked_for_by_name(project: pytest.Pytester) -> None:
    (project.path / "answer.json").write_text(answer(GOOD))
    options = ("--envspec", "--envspec-runner", "apptainer", "-k", "cpu")
    project.runpytest_inprocess("-p", "envspec.pytest_plugin", *options).assert_outcomes(passed=1, deselected=2)
    asked = (project.path / "asked.txt").read_text()
    assert asked.endswith("specs/cpu-py311.toml --target cpu --json --runner apptainer")


@pytest.mark.parametrize(("runner", "needs"), [("docker", "docker or podman"), ("slurm", "sbatch")])
def test_a_runner_whose_program_is_missing_is_skipped_by_name(
    runner: str, needs: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (case,) = (one for one in cases([root / "specs" / "cpu-py311.toml"], [runner]))
    assert skip_reason(case) == f"--runner {runner} needs {needs}, which this machine doesn't have"


def test_pytest_finds_the_plugin_by_itself(root: Path) -> None:
    """Under the name that `-p` gives it: pytest takes a plugin of two names for two, and refuses the second."""
    entries = tomli.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["pytest11"]
    assert entries == {"envspec.pytest_plugin": "envspec.pytest_plugin"}


@pytest.mark.slow
def test_it_costs_a_run_that_has_no_use_for_it_little() -> None:
    code = "import sys, pytest; was = set(sys.modules); import envspec.pytest_plugin; print(*set(sys.modules) - was)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {name for name in loaded if name.partition(".")[0] in ("click", "rich", "tomli", "urllib3")}
    assert {name for name in loaded if name.startswith("envspec.")} <= ALLOWED


def test_paths_on_the_command_line_stay_asked_for(project: pytest.Pytester) -> None:
    told = project.runpytest_inprocess(*OPTIONS, ".", "--collect-only", "-q", "-k", "other or cpu")
    told.stdout.fnmatch_lines(["*::test_other"])
    told.stdout.fnmatch_lines(["specs/cpu-py311.toml::cpu"])


@pytest.mark.slow
def test_without_the_option_no_toml_file_is_a_test(project: pytest.Pytester) -> None:
    told = project.runpytest_inprocess("-p", "envspec.pytest_plugin", "specs", ".")
    told.assert_outcomes(passed=1)


def test_they_are_slow(project: pytest.Pytester) -> None:
    project.runpytest_inprocess(*OPTIONS, "-m", "not slow", "--strict-markers").assert_outcomes(deselected=3)


def test_a_pass_and_skips_with_their_reasons(project: pytest.Pytester) -> None:
    (project.path / "answer.json").write_text(answer(GOOD))
    told = project.runpytest_inprocess(*OPTIONS, "-rs", "--envspec-smoke", "--quick --device cpu", "--junit-xml=j.xml")
    told.assert_outcomes(passed=1, skipped=2)
    told.stdout.fnmatch_lines(["*dev-py311-linux-64: it has no torch*", "*dev-py311-linux-aarch64: it has no torch*"])
    asked = (project.path / "asked.txt").read_text()
    assert asked.endswith("specs/cpu-py311.toml --target cpu --json --quick --device cpu")
    (headline,) = ET.parse(project.path / "j.xml").getroot().iterfind(".//property[@name='headline']")
    assert headline.get("value") == GOOD.headline and "no GPU check ran" in GOOD.headline


def test_a_failure_reads_without_a_traceback(project: pytest.Pytester) -> None:
    (project.path / "answer.json").write_text(answer(BAD))
    told = project.runpytest_inprocess(*OPTIONS, "--junit-xml=j.xml")
    told.assert_outcomes(failed=1, skipped=2)
    told.stdout.fnmatch_lines(
        [
            "fail  cpu-py311 × cpu (local, 41 s)",
            "      fail: compile.eager: torch.compile needs a C compiler, and there is none",
            "        remedy: install gcc, or add it to the spec's image.apt",
            "        | RuntimeError: no C compiler was found",
        ]
    )
    told.stdout.no_fnmatch_line("*pytest_plugin.py*")
    failure = ET.parse(project.path / "j.xml").getroot().find(".//failure")
    assert failure is not None and failure.text and "remedy: install gcc" in failure.text


@pytest.mark.parametrize("run", [NONE], ids=["error"])
def test_no_answer_is_a_failure(project: pytest.Pytester, run: Run) -> None:
    (project.path / "answer.json").write_text(answer(run))
    told = project.runpytest_inprocess(*OPTIONS, "-k", "cpu")
    told.assert_outcomes(failed=1, deselected=2)
    told.stdout.fnmatch_lines(["*no answer: the environment couldn't be made"])


def test_a_run_of_skips_is_no_pass(project: pytest.Pytester) -> None:
    (project.path / "answer.json").write_text(answer(SKIP))
    project.runpytest_inprocess(*OPTIONS, "-k", "cpu").assert_outcomes(skipped=1, deselected=2)


def test_a_bad_spec_is_a_collection_error(project: pytest.Pytester) -> None:
    (project.path / "specs" / "bad.toml").write_text("[env]\nx = 1\n")
    told = project.runpytest_inprocess(*OPTIONS)
    told.assert_outcomes(errors=1)
    told.stdout.fnmatch_lines(["*bad.toml:2:1: *"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--envspec-specs", "none"), "*--envspec-specs: none doesn't exist"),
        (("--envspec-specs", "specs", "--envspec-smoke", "'"), "*--envspec-smoke: No closing quotation"),
    ],
    ids=["no spec", "no word"],
)
def test_misuse_is_told(project: pytest.Pytester, options: tuple[str, ...], told: str) -> None:
    done = project.runpytest_inprocess("-p", "envspec.pytest_plugin", *options)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([told])


@pytest.mark.parametrize("out", ["", "{}", '{"runs": []}', '{"runs": [{}]}', '{"runs": [{"report": 1}]}', "[" * 10**5])
def test_an_answer_that_is_none_is_a_failure(out: str) -> None:
    with pytest.raises(Unproved, match=r"no (usable )?answer for cpu-py311-cpu"):
        prove(CPU, serves=lambda case, words: None, ask=lambda argv: (3, out, "error: it broke"))


def test_a_claim_without_a_report_is_a_failure() -> None:
    claim = {**as_json(Results((GOOD,)))["runs"][0], "report": None}
    with pytest.raises(Unproved, match="can't be 'pass'"):
        prove(CPU, serves=lambda case, words: None, ask=lambda argv: (0, json.dumps({"runs": [claim]}), ""))


def test_what_passed_is_given() -> None:
    assert prove(CPU, serves=lambda case, words: None, ask=lambda argv: (0, answer(GOOD), "")) == GOOD
