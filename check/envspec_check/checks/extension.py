"""compile.extension: where an image has nvcc, it compiles a kernel for this GPU, and torch's tensors go through it."""

from __future__ import annotations

import ctypes
import os
import shutil
from typing import Optional

from envspec_check.interface import Context, Fault, Outcome, check, failed, passed, run_program, skipped

KERNEL = """
__global__ void scale_and_add(const float *x, float *y, float by, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) y[at] = by * x[at] + y[at];
}
extern "C" int run(const float *x, float *y, float by, int count) {
    scale_and_add<<<(count + 255) / 256, 256>>>(x, y, by, count);
    return (int)cudaDeviceSynchronize();
}
"""


def nvcc() -> Optional[str]:
    """Return the compiler of CUDA_HOME, else the first in PATH."""
    own = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "nvcc")
    return own if os.access(own, os.X_OK) else shutil.which("nvcc")


def build(ctx: Context, compiler: str, architecture: str) -> str:
    """Compile the kernel into a library. Raises Fault with the compiler's words."""
    source, library = ctx.scratch / "kernel.cu", str(ctx.scratch / "kernel.so")
    source.write_text(KERNEL)
    late = Fault("nvcc hadn't ended after %g s" % (ctx.timeout * 0.6))
    command = [compiler, "-shared", "-Xcompiler", "-fPIC", "-arch=" + architecture, "-o", library, str(source)]
    ended = run_program(command, dict(os.environ), str(ctx.scratch), ctx.timeout * 0.6, late)
    print(ended.output)
    if ended.code:
        remedy = "the end of the output has nvcc's own words; it takes no g++ that is newer than its CUDA knows"
        raise Fault("nvcc compiles no kernel for %s: it ended with status %d" % (architecture, ended.code), remedy)
    return library


@check("compile.extension", needs="gpu")
def compile_extension(ctx: Context) -> Outcome:
    """A kernel that nvcc compiles here computes on torch's tensors what torch does."""
    compiler = nvcc()
    if compiler is None:
        return skipped("there is no nvcc: images have it by nvcc = true in [image]")
    torch = ctx.torch
    architecture = "sm_%d%d" % torch.cuda.get_device_capability()
    library = ctypes.CDLL(build(ctx, compiler, architecture))
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    right = (2.0 * x.double() + y.double()).float()
    torch.cuda.synchronize()
    pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, y))
    code = library.run(*pointers, ctypes.c_float(2.0), ctypes.c_int(len(x)))
    details = {"nvcc": compiler, "architecture": architecture, "error": code}
    if code or not torch.allclose(y, right, rtol=1e-6, atol=1e-6):
        fault = "ended with CUDA's error %d" % code if code else "gives other numbers than torch"
        remedy = "compare nvcc --version with the driver's CUDA"
        return failed("a kernel that nvcc compiled here " + fault, remedy, details=details)
    return passed(details=details)
