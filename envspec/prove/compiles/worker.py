"""A program: compile one fixed kernel for each architecture with one compiler, which may crash.

    python -I worker.py

It reads `{"compiler": "nvrtc", "files": [PATH, …], "architectures": ["sm_90", …], "folder": DIR}` from stdin, writes a
cubin for each architecture into the folder, and prints `{"release": "12.8", "errors": {"sm_103": "…"}}`. Only the
standard library: what it loads is a wheel's, and it must have nothing of envspec to change.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from typing import Any

Made = tuple[str | None, dict[str, str]]
"""The compiler's release, and its errors by architecture."""

SOURCE = b"""
extern "C" __global__ void scale(float *values, float factor, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) values[at] *= factor;
}
"""

PTX = """.version 6.4
.target %s
.address_size 64
.visible .entry scale(.param .u64 values, .param .f32 factor)
{
    .reg .b64 %%address;
    .reg .b32 %%at;
    .reg .f32 %%value, %%by;
    ld.param.u64 %%address, [values];
    ld.param.f32 %%by, [factor];
    mov.u32 %%at, %%tid.x;
    mad.wide.u32 %%address, %%at, 4, %%address;
    ld.global.f32 %%value, [%%address];
    mul.f32 %%value, %%value, %%by;
    st.global.f32 [%%address], %%value;
    ret;
}
"""


def ptx_for(architecture: str) -> str:
    """Return the kernel in PTX that is no newer than the GPU: compilers of CUDA 13 have left 7.0 behind."""
    return PTX % ("sm_75" if int(re.sub("[^0-9]", "", architecture)) >= 75 else "sm_70")


def ptxas(files: list[str], architectures: list[str], folder: str) -> Made:
    program = files[0]
    banner = subprocess.run([program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
    release = re.search(r"release (\d+\.\d+)", banner)
    errors: dict[str, str] = {}
    for architecture in architectures:
        source = os.path.join(folder, architecture + ".ptx")
        with open(source, "w") as file:
            file.write(ptx_for(architecture))
        words = [program, "-arch=" + architecture, source, "-o", os.path.join(folder, architecture + ".cubin")]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            errors[architecture] = done.stdout.decode("utf-8", "replace").strip() or f"status {done.returncode}"
    return release and release.group(1), errors


def text_of(size_of: Any, read: Any, *handle: Any) -> bytes:
    """Return a text that the library gives in two steps: its length, then the text."""
    size = ctypes.c_size_t()
    if size_of(*handle, ctypes.byref(size)) or not size.value:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    return buffer.raw if not read(*handle, buffer) else b""


def nvrtc(files: list[str], architectures: list[str], folder: str) -> Made:
    for part in files[1:]:
        ctypes.CDLL(part, mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(files[0])
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    errors: dict[str, str] = {}
    for architecture in architectures:
        program = ctypes.c_void_p()
        library.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"scale.cu", 0, None, None)
        words = (ctypes.c_char_p * 1)(b"--gpu-architecture=" + architecture.encode())
        status = library.nvrtcCompileProgram(program, 1, words)
        if status:
            log = text_of(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program)
            errors[architecture] = log.rstrip(b"\0\n").decode("utf-8", "replace") or f"NVRTC's error {status}"
        else:
            code = text_of(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program)
            write(folder, architecture, code)
        library.nvrtcDestroyProgram(ctypes.byref(program))
    return f"{major.value}.{minor.value}", errors


PTX_INPUT = 2


def nvjitlink(files: list[str], architectures: list[str], folder: str) -> Made:
    library = ctypes.CDLL(files[0])
    release: str | None = None

    def find_function(name: str) -> Any:
        """Find a function of nvJitLink in its newest version: symbols' names end in the release ("…_12_8")."""
        nonlocal release
        for major in (14, 13, 12):
            for minor in range(9, -1, -1):
                symbol = getattr(library, f"__nvJitLink{name}_{major}_{minor}", None)
                if symbol is not None:
                    release = f"{major}.{minor}"
                    return symbol
        return getattr(library, "nvJitLink" + name)

    create, add, complete, destroy = map(find_function, ("Create", "AddData", "Complete", "Destroy"))
    errors: dict[str, str] = {}
    for architecture in architectures:
        handle, ptx = ctypes.c_void_p(), ptx_for(architecture).encode() + b"\0"
        words = (ctypes.c_char_p * 1)(b"-arch=" + architecture.encode())
        status = create(ctypes.byref(handle), ctypes.c_uint32(1), words)
        if status:
            # without a handle there is no log either
            errors[architecture] = f"nvJitLink's error {status}: it doesn't take -arch={architecture}"
            continue
        status = add(handle, PTX_INPUT, ptx, ctypes.c_size_t(len(ptx)), b"scale.ptx") or complete(handle)
        if status:
            log = text_of(find_function("GetErrorLogSize"), find_function("GetErrorLog"), handle)
            errors[architecture] = log.rstrip(b"\0\n").decode("utf-8", "replace") or f"nvJitLink's error {status}"
        else:
            write(
                folder,
                architecture,
                text_of(find_function("GetLinkedCubinSize"), find_function("GetLinkedCubin"), handle),
            )
        destroy(ctypes.byref(handle))
    return release, errors


def write(folder: str, architecture: str, code: bytes) -> None:
    with open(os.path.join(folder, architecture + ".cubin"), "wb") as file:
        file.write(code)


if __name__ == "__main__":
    request = json.load(sys.stdin)
    made = {"ptxas": ptxas, "nvrtc": nvrtc, "nvjitlink": nvjitlink}[request["compiler"]]
    release, errors = made(request["files"], request["architectures"], request["folder"])
    json.dump({"release": release, "errors": errors}, sys.stdout)
