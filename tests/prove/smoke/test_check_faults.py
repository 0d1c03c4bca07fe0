"""Processes of checks that crash, hang, eat memory or leave silently: each is one failed check, and nothing stays."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from check_program import CONFIG, command, gone, program, run
from envspec_check.patience import Patience, processor_seconds
from support.matrix import first_by_day
from support.smoke_env import CHECK

BODIES = {
    "segfault": "print('reading at 0', flush=True)\n    ctypes.string_at(0)",
    "abort": "os.abort()",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "hang": "print('I wait', flush=True)\n    time.sleep(1000)",
    "silent": "os._exit(0)",
    "status": "sys.exit(3)",
    "error": "raise RuntimeError('the first line\\nthe second')",
    "memory": "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n    bytearray(1 << 31)",
    "fault": "raise interface.Fault('broken', 'mend it', details={'a': float('nan')})",
    "skip": "raise interface.Skip('not here')",
    "again": "ended = ctx.run_again('shout', 'hey')\n    return interface.failed('%d %s' % ended)",
    "again_hang": "ctx.run_again('host', timeout=0.01)",
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("kind", "reason", "words", "remedy"),
    first_by_day(
        2,
        [
            ("segfault", "it crashed (SIGSEGV)", "reading at 0", "gdb"),
            ("abort", "it aborted (SIGABRT)", "Fatal Python error: Aborted", "gdb"),
            ("killed", "it was killed (SIGKILL): most likely memory ran out", None, "memory"),
            ("hang", "it hadn't ended after 2 s, and was ended with all its processes", "I wait", "--timeout"),
            ("silent", "it ended without an answer", None, "exit"),
            ("status", "it ended with status 3, without an answer", None, "end of its output"),
            ("error", "RuntimeError: the first line", "Traceback (most recent call last)", None),
            ("memory", "MemoryError", "Traceback (most recent call last)", "memory"),
            ("fault", "broken", None, "mend it"),
            ("again", "7 HEY 0\n", None, None),
        ],
    ),
)
def test_a_bad_process_is_one_failed_check(
    tmp_path: Path, kind: str, reason: str, words: str | None, remedy: str | None
) -> None:
    code, report, said = run(tmp_path, BODIES[kind], "--timeout", "2" if kind == "hang" else "60")
    assert code == 1
    assert [one["status"] for one in report["checks"]] == ["pass", "fail", "pass"]
    bad = report["checks"][1]
    assert bad["reason"] == reason
    assert (remedy or "") in (bad["remedy"] or "")
    assert (words or "") in (bad["output"] or "")
    assert report["summary"]["headline"] == "2 passed, 1 failed, 0 skipped"
    assert said.endswith("2 passed, 1 failed, 0 skipped\n")
    assert report["figures"][0]["value"] is None and report["curves"] == {"c": [1.0, None]}


def test_a_program_with_a_thousand_open_files_runs_checks(tmp_path: Path) -> None:
    """`select.select` takes no descriptor above 1023, and a training program has that many files open."""
    path = program(tmp_path, "return interface.passed()")
    opened = "resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))\nopened = [os.dup(2) for _ in range(1100)]\n"
    path.write_text(path.read_text().replace("TABLE = {}", opened + "TABLE = {}"))
    done = subprocess.run(command(path), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "least", "most"),
    [
        ("time.sleep(60)", 1.0, 8),
        ("while 1: pass", 1.0, 11),
        ("while 1: sum(range(4 * 10**6)); time.sleep(.1)", 1.4, 11),
    ],
    ids=["stands still", "had its time", "gets on, slowly"],
)
def test_what_gets_on_has_its_limit_in_a_processor_s_time(does: str, least: float, most: float) -> None:
    """One that sleeps between its steps stands for one that shares the processor: the kernel's figures are alike."""
    with subprocess.Popen([sys.executable, "-c", f"import time\n{does}"]) as process:
        patience = Patience(process.pid, 1.0)
        while not patience.over():
            time.sleep(0.2)
        process.kill()
    assert least <= time.monotonic() - patience.began <= most


@pytest.mark.by_day(1)
@pytest.mark.parametrize("ends", [True, False])
def test_the_time_of_a_process_has_that_of_all_below_it(ends: bool) -> None:
    child = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)" + ("" if ends else "\ninput()")
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])\nprint(flush=True)\ninput()"
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() and (not ends or process.stdout.readline())
        assert 0.27 <= processor_seconds(process.pid) < 5  # /proc counts whole ticks, of user and system time each
        process.communicate(b"\n\n")


@pytest.mark.slow
def test_a_check_on_a_busy_machine_goes_on_after_its_limit(tmp_path: Path) -> None:
    body = """until = time.monotonic() + 4
    while time.monotonic() < until:
        sum(range(4 * 10**6))
        time.sleep(.1)
    return interface.passed()"""
    code, report, _ = run(tmp_path, body, "--timeout", "2")
    assert code == 0 and [one["status"] for one in report["checks"]] == 3 * ["pass"], report["checks"][1]
    assert report["checks"][1]["seconds"] > 3.5


STUCK = """
runner.PATIENCE = 1.0
real, os.killpg, os.kill = os.killpg, lambda *_: None, lambda *_: None
runner.Host.close, close = lambda host: (setattr(os, "killpg", real), close(host)), runner.Host.close

@put
def bad(ctx):
    pathlib.Path({pids!r}).write_text(str(os.getpid()))
    print("I wait for a disk", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_process_that_can_not_be_killed_is_one_failed_check_by_a_stand_in_for_one_in_the_kernel(
    tmp_path: Path,
) -> None:
    pids = tmp_path / "pids"
    path = program(tmp_path, "")
    text = path.read_text()
    path.write_text(text.replace("@put\ndef after", STUCK.format(pids=str(pids)) + "\n@put\ndef after"))
    done = subprocess.run(command(path, "--timeout", "3"), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [one["status"] for one in report["checks"]] == ["pass", "fail", "pass"]
    bad = report["checks"][1]
    assert bad["reason"] == "it hadn't ended after 3 s, and can't be killed"
    assert bad["output"] == "I wait for a disk" and "dmesg" in bad["remedy"]
    assert gone(int(pids.read_text()))


@pytest.mark.slow
def test_a_host_that_gives_no_process_is_replaced(tmp_path: Path) -> None:
    once = tmp_path / "once"
    slow = f"""
runner.PATIENCE = 1.0
fork = os.fork

def slow_fork():
    if pathlib.Path({str(once)!r}).exists():
        return fork()
    pathlib.Path({str(once)!r}).touch()
    time.sleep(600)

os.fork = slow_fork
"""
    path = program(tmp_path, "")
    path.write_text(path.read_text().replace("TABLE = {}", "TABLE = {}\n" + slow))
    done = subprocess.run(command(path), capture_output=True, text=True, check=False, timeout=120)
    assert "Traceback" not in done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [one["status"] for one in report["checks"]] == ["fail", "pass"]
    assert report["checks"][0]["reason"] == "the process that checks are forked from gave no process for 1 s"


@pytest.mark.slow
def test_a_run_of_skips_alone_is_no_yes(tmp_path: Path) -> None:
    path = program(tmp_path, "raise interface.Skip('not here')")
    kept = path.read_text().replace("table=TABLE, program", "table={'operators.bad': TABLE['operators.bad']}, program")
    path.write_text(kept)
    done = subprocess.run(command(path), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["summary"]["verdict"] == "skip"
    assert done.stderr.endswith("0 passed, 0 failed, 1 skipped\n")


@pytest.mark.slow
def test_a_skip_is_no_pass(tmp_path: Path) -> None:
    code, report, _ = run(tmp_path, BODIES["skip"])
    assert code == 0
    assert report["checks"][1]["reason"] == "not here"
    assert report["summary"]["headline"] == "2 passed, 0 failed, 1 skipped"


LEAVES = """
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        time.sleep(600)
    pathlib.Path({pids!r}).write_text(str(child))
    time.sleep({seconds})
    return interface.passed()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "status"), first_by_day(1, [(0, "pass"), (600, "fail")]))
def test_what_a_check_starts_dies_with_it_in_whatever_session(tmp_path: Path, seconds: int, status: str) -> None:
    pids = tmp_path / "pids"
    _, report, _ = run(tmp_path, LEAVES.format(pids=str(pids), seconds=seconds), "--timeout", "3")
    assert report["checks"][1]["status"] == status
    assert gone(int(pids.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("number", first_by_day(1, [signal.SIGINT, signal.SIGTERM]))
def test_an_interrupted_run_writes_what_it_knows(tmp_path: Path, number: int) -> None:
    pids = tmp_path / "pids"
    path = program(tmp_path, LEAVES.format(pids=str(pids), seconds=600))
    with subprocess.Popen(command(path), stderr=subprocess.PIPE, text=True) as process:
        while not pids.exists() or not pids.read_text():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    report = json.loads((tmp_path / "report.json").read_text())
    assert [one["name"] for one in report["checks"]] == ["operators.before"]
    assert report["summary"]["headline"] == "interrupted: 1 passed, 0 failed, 0 skipped"
    assert gone(int(pids.read_text()))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_run_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    path = program(tmp_path, f"pathlib.Path({str(pids)!r}).write_text(str(os.getpid()))\n    time.sleep(600)")
    with subprocess.Popen(command(path), stderr=subprocess.DEVNULL) as process:
        while not pids.exists() or not pids.read_text():
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
    assert gone(int(pids.read_text()))


@pytest.mark.slow
def test_json_on_stdout_and_junit(tmp_path: Path) -> None:
    path = program(tmp_path, "")
    words = ["--config", str(CONFIG), "--json", "-", "--junit", str(tmp_path / "j.xml"), "--seed", "5"]
    done = subprocess.run([sys.executable, str(path), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["seed"] == 5
    assert (tmp_path / "j.xml").read_text().startswith("<?xml")


@pytest.mark.slow
def test_a_report_that_can_not_be_written_is_said(tmp_path: Path) -> None:
    path = program(tmp_path, "")
    words = ["--config", str(CONFIG), "--json", str(tmp_path / "none" / "x.json")]
    done = subprocess.run([sys.executable, str(path), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the report can't be written" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_where_torch_can_not_be_imported_one_check_says_so(tmp_path: Path) -> None:
    path = program(tmp_path, "")
    (tmp_path / "torch.py").write_text("raise ImportError('no such library')\n")
    text = path.read_text().replace("torch=False, ", "")
    path.write_text(text.replace("sys.path.insert(0, ", f"sys.path.insert(0, {str(tmp_path)!r})\nsys.path.insert(1, "))
    done = subprocess.run(command(path), capture_output=True, text=True, check=False)
    report = json.loads((tmp_path / "report.json").read_text())
    assert done.returncode == 1
    assert [one["status"] for one in report["checks"]] == ["fail", "skip"]
    assert report["checks"][0]["reason"] == "torch can't be imported: ImportError: no such library"
    assert "Traceback" in report["checks"][0]["output"]
    assert report["checks"][1]["reason"] == "torch can't be imported"
    assert report["torch"] is None


# Children that the check waited for long enough, and kills: what is told is why, not that they were killed. torch's
# DataLoader hears of every child that ends, and raises that a worker was killed. Its stand-in here does too, at once.
# tests/e2e/test_broken_environments.py has the real one.


BEGIN = """
import multiprocessing, os, signal, sys, time, types
from pathlib import Path
sys.path[:0] = [CHECK, FOLDER]
from envspec_check import interface, process
from envspec_check.checks import dataloader
from envspec_check.checks.stack import imports

def heard(*_):
    raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")

class Loader:
    def __init__(self, *_, **__):
        signal.signal(signal.SIGCHLD, heard)
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,)).start()
    def __iter__(self):
        raise RuntimeError("DataLoader timed out after 2 seconds")

kill = os.kill
os.kill = lambda *words: (kill(*words), time.sleep(0.1))
sys.modules["torch"] = torch = types.ModuleType("torch")
torch.manual_seed, torch.utils = id, types.SimpleNamespace(data=types.SimpleNamespace(DataLoader=Loader))
"""


def said(folder: Path, program: str) -> str:
    """What a program prints whose children all end by being killed."""
    text = f"CHECK, FOLDER = {str(CHECK)!r}, {str(folder)!r}\n{BEGIN}{program}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_a_worker_of_a_stand_in_for_the_data_loader_hangs(tmp_path: Path) -> None:
    program = """
ctx = interface.Context({}, "cpu", "basic", 1, True, 0, 6.0, Path(), "check")
try:
    dataloader.load_all(ctx, 8, 4)
except interface.Fault as fault:
    print(fault, multiprocessing.active_children())
"""
    assert said(tmp_path, program) == "a worker gave nothing for 2 s: it hangs []"


def test_an_import_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text("import time\ntime.sleep(60)\n")
    program = "signal.signal(signal.SIGCHLD, heard)\nimports.ONE = 0.2\nprint(imports.import_apart(['hanging'], 1))"
    assert said(tmp_path, program) == "{'hanging': \"hadn't ended after 0.2 s\"}"


@pytest.mark.parametrize(("end", "told"), [("process.give_up(pid)", "unheard"), ("os.kill(pid, 9)", "heard")])
def test_only_those_that_are_given_up_end_unheard(tmp_path: Path, end: str, told: str) -> None:
    program = f"""
signal.signal(signal.SIGCHLD, heard)
try:
    pid, _ = process.fork(lambda: time.sleep(60))
    {end}
    print("unheard")
except RuntimeError:
    print("heard")
assert signal.getsignal(signal.SIGCHLD) is heard
"""
    assert said(tmp_path, program) == told
