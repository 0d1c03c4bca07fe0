"""A Python that says it is of another version, for tools that ask an interpreter and run nothing in it."""

import sys
from pathlib import Path

_TEXT = """\
#!{real} -I
import subprocess, sys
ran = subprocess.run([{real!r}, *sys.argv[1:]], capture_output=True, text=True)
for own, said in {said}:
    ran.stdout = ran.stdout.replace(own, said)
sys.stderr.write(ran.stderr)
sys.stdout.write(ran.stdout)
raise SystemExit(ran.returncode)
"""


def pretended_python(folder: Path, version: str) -> Path:
    """Write a program that answers as this interpreter, by the name of another version ("3.10"); gives its path."""
    path = folder / f"python{version}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        own = sys.version_info[:2]
        said = [(".".join(map(str, own)), version), ("".join(map(str, own)), version.replace(".", ""))]
        path.write_text(_TEXT.format(real=sys.executable, said=said), "utf-8")
        path.chmod(0o755)
    return path
