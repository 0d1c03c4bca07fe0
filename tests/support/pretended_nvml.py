"""A libnvidia-ml.so.1 that is none: NVML's functions over GPUs that a variable names, for what asks NVML by itself.

PRETENDED_GPUS="NVIDIA H100 80GB HBM3,9,0,1;NVIDIA A100-SXM4-40GB,8,0,0"     name, capability, MIG
PRETENDED_START=3             seconds that the first start takes, as a driver does without persistence mode
PRETENDED_LOG=FILE            a line for each process that starts it
"""

import os
import subprocess
from pathlib import Path

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[4096], *rows[16];
static unsigned count, started;

int nvmlInitWithFlags(unsigned flags) {
    if (started++) return 0;
    const char *given = getenv("PRETENDED_GPUS"), *log = getenv("PRETENDED_LOG"), *slow = getenv("PRETENDED_START");
    if (log) { FILE *file = fopen(log, "a"); fprintf(file, "%d\n", getpid()); fclose(file); }
    if (slow) sleep(atoi(slow));
    strncpy(text, given ? given : "", sizeof text - 1);
    for (char *one = strtok(text, ";"); one && count < 16; one = strtok(NULL, ";")) rows[count++] = one;
    return 0;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int status) { return "pretended"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { snprintf(out, size, "580.82.07"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) { *out = rows[index]; return index >= count; }
static const char *field(const char *row, int number) {
    while (number--) row = strchr(row, ',') + 1;
    return row;
}
int nvmlDeviceGetName(void *row, char *out, unsigned size) {
    snprintf(out, size, "%.*s", (int)strcspn(row, ","), (char *)row);
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *row, int *major, int *minor) {
    *major = atoi(field(row, 1)), *minor = atoi(field(row, 2));
    return 0;
}
int nvmlDeviceGetMigMode(void *row, unsigned *now, unsigned *later) { *now = *later = atoi(field(row, 3)); return 0; }
int nvmlDeviceGetMemoryInfo(void *row, unsigned long long *out) { out[0] = out[1] = 80ULL << 30, out[2] = 0; return 0; }
int nvmlDeviceGetUtilizationRates(void *row, unsigned *out) { return 3; }
int nvmlDeviceGetTemperature(void *row, int sensor, unsigned *out) { *out = 41; return 0; }
"""
"""What isn't here NVML doesn't have, as an older driver's."""


def environment(folder: Path, *gpus: str, **more: str) -> dict[str, str]:
    """This process's variables with such a library, made in a folder. GPUs are "NAME,MAJOR,MINOR,MIG"."""
    made = folder / "libnvidia-ml.so.1"
    if not made.exists():
        words = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(made)]
        subprocess.run(words, input=SOURCE, text=True, check=True)
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "PRETENDED_GPUS": ";".join(gpus), **more}
