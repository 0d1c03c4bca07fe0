"""What CUDA code a wheel or an environment really holds, measured from its bytes.

    Window ──▶ scan ──▶ Module (one fat binary or one cubin) ──▶ Library ──▶ Inspection ──▶ coverage, report

No other tool is needed and nothing is unpacked to disk: members of a wheel are decompressed as a stream, in windows of
a megabyte. Every byte is looked at, not the `.nv_fatbin` section alone, because real libraries keep fat binaries
elsewhere too: cuSPARSELt 0.6 has 2,494 of its 2,513 in `.rodata`, cuBLASLt 13.1 has 383 in `.cask_resource`. It makes
the reader independent of the object format as well: shared libraries, archives, Windows DLLs, `.cubin` and `.fatbin`
files are all read the same way.
"""
