"""A process that pretends to be another system: `python pretended.py PLATFORM COMMAND…`, each COMMAND a JSON list.

What POSIX alone has is hidden before envspec is imported, and so is what macOS lacks of Linux. Kernel, paths and Python
are the same underneath: this shows what envspec asks of its system, not what another one answers.
"""

import importlib
import json
import os
import pkgutil
import platform as system
import shutil
import signal
import ssl
import sys
import sysconfig

LINUX = ("sched_getaffinity", "posix_fallocate", "posix_fadvise", "memfd_create", "copy_file_range", "splice")
POSIX = (
    *("getuid", "geteuid", "getgid", "getegid", "getgroups", "fork", "forkpty", "killpg", "setsid", "getpgid", "uname"),
    *("statvfs", "fchmod", "fchown", "chown", "lchown", "mkfifo", "sysconf", "getloadavg", "openpty", "nice"),
    *("O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK"),
)
SIGNALS = (
    *("SIGHUP", "SIGKILL", "SIGALRM", "SIGPIPE", "SIGXFSZ", "SIGUSR1", "SIGUSR2", "SIGTTOU", "SIGTSTP", "SIGCHLD"),
    *("setitimer", "ITIMER_REAL", "alarm", "pthread_sigmask", "sigwait", "pause"),
)
MODULES = ("fcntl", "pwd", "grp", "resource", "termios", "pty", "tty", "syslog", "readline", "curses")
ELSEWHERE = (
    *("install", "install.environments", "prove.smoke", "image", "prove.link", "prove.compiles"),
    *("carried", "pytest_plugin", "__main__"),
)
"""The parts of envspec that belong to commands for Linux and macOS, or that no command loads."""


def pretend(platform: str) -> None:
    """Hide what this system has and that one hasn't. What the standard library chose by its system stays."""
    # these choose by the platform when they are imported
    for name in ("asyncio", "ctypes", "multiprocessing.connection", "subprocess", "tempfile", "uuid", "urllib.request"):
        importlib.import_module(name)
    for name in ("click", "filelock"):
        importlib.import_module(name)
    sysconfig.get_config_vars()
    # Windows' own: no certificates of its store, and room on its disks
    vars(ssl)["enum_certificates"] = lambda store: ()
    room = shutil.disk_usage(os.curdir)
    shutil.disk_usage = lambda path: room

    for name in (*LINUX, *(POSIX if platform == "win32" else ())):
        if hasattr(os, name):
            delattr(os, name)
    if platform == "win32":
        for name in SIGNALS:
            if hasattr(signal, name):
                delattr(signal, name)
        for name in MODULES:
            sys.modules[name] = None  # type: ignore[assignment]
    sys.platform = platform
    name, machine = {"darwin": ("Darwin", "arm64"), "win32": ("Windows", "AMD64")}[platform]
    system.system, system.machine = (lambda: name), (lambda: machine)
    if hasattr(os, "confstr"):
        os.confstr = lambda name: None  # there is no glibc


def is_within(name: str, parts: tuple[str, ...]) -> bool:
    """Say whether a module is one of some parts, or below one."""
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def import_everything(platform: str) -> list[str]:
    """Import every module that commands for all systems may load; give what went wrong."""
    import envspec

    wrong = []
    for module in pkgutil.walk_packages(envspec.__path__, "envspec."):
        name = module.name.partition(".")[2]
        words = tuple(f"cli.{part.rpartition('.')[2]}" for part in ELSEWHERE[:5])
        if (platform == "win32" and (is_within(name, ELSEWHERE) or name.startswith(words))) or is_within(
            name, ELSEWHERE[-3:]
        ):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:  # noqa: BLE001 - all of them are told
            wrong.append(f"{module.name}: {type(error).__name__}: {error}")
    return wrong


def main() -> None:
    """Import everything, then run the command lines; print each exit code and what went wrong as JSON lines."""
    platform, *commands = sys.argv[1:]
    pretend(platform)
    print(json.dumps(import_everything(platform)))  # noqa: T201
    from envspec.cli.main import run

    for command in commands:
        print(json.dumps(["status", run(json.loads(command))]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
