"""The code that a target's own compilers make for its GPUs: triton's ptxas, NVRTC and nvJitLink, which need no
driver."""
