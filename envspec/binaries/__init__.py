"""The CUDA code in a wheel or an environment, measured from its bytes.

    Window ──▶ scan ──▶ Module (one fat binary or one cubin) ──▶ Library ──▶ Inspection ──▶ coverage, report

The reader needs no other tool and unpacks nothing to disk: it decompresses members of a wheel as a stream, in windows
of a megabyte. It reads every byte, not the `.nv_fatbin` section alone, because real libraries keep fat binaries
elsewhere too: cuSPARSELt 0.6 has 2,494 of its 2,513 in `.rodata`, cuBLASLt 13.1 has 383 in `.cask_resource`. This also
makes it independent of the object format: it reads shared libraries, archives, Windows DLLs, `.cubin` and `.fatbin`
files all the same way.
"""
