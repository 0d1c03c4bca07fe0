"""A stand-in for a build of python-build-standalone: as its Python, one that the machine or the image has already."""

import io
import tarfile

_SYSCONFIG = "# system configuration generated and used by the sysconfig module\nbuild_time_vars = {}\n"


def stand_in(python: str, program: str) -> bytes:
    """An archive of a CPython `python` ("3.12") that starts `program`, under its own name."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        texts = {
            f"bin/python{python}": f'#!/bin/bash\nexec -a "$0" {program} "$@"\n',
            f"lib/python{python}/_sysconfigdata__linux_x86_64-linux-gnu.py": _SYSCONFIG,
        }
        for name, text in texts.items():
            member = tarfile.TarInfo(f"python/{name}")
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()
