"""The definition of a torch before 2.2: its triton looks for libcuda.so by `ldconfig -p` and links with what it finds.
The lines of the last %post run in a root of their own; the driver's library is a pretended one, where `--nv` binds it.
"""

import subprocess
from pathlib import Path

import pytest
from recipe_plans import shipped, text_in
from support.compiled import needs_compiler

from envspec.export.apptainer import FILE, render

LIBCUDA = "/opt/libcuda"
LIBS = ".singularity.d/libs"
ROOT = """
set -eu
mount -t tmpfs none "$1"
cd "$1"
for one in bin sbin lib lib32 lib64 usr; do
    [ ! -L "/$one" ] || { cp -P "/$one" .; continue; }
    [ ! -d "/$one" ] || { mkdir "$one"; mount --rbind "/$one" "$one"; }
done
mkdir etc
cp -r /etc/ld.so.* etc/
mkdir -p opt tmp .singularity.d dev proc
mount --rbind /dev dev
mount --rbind /proc proc
if [ -e "$2" ]; then mkdir .singularity.d/libs; cp "$2" .singularity.d/libs/; fi
exec chroot . sh -euc "$3"
"""
ASKS = f"""
ldconfig -p | grep -F 'libcuda.so ' | sed 's/.*=> //'
[ ! -e {LIBCUDA}/libcuda.so ] || echo 'int cuInit(int); int main() {{ return cuInit(0); }}' \
    | gcc -x c - -o /tmp/program -L{LIBCUDA} -lcuda
if [ -e /tmp/program ]; then LD_LIBRARY_PATH=/{LIBS} /tmp/program; echo runs; fi
"""


def lines(spec: str, target: str) -> list[str]:
    text = text_in(render(shipped(spec, target)), FILE).rpartition("%post\n")[2]
    return [line.strip() for line in text.splitlines() if LIBCUDA in line or "ldconfig" in line.split("#")[0].split()]


def test_an_older_torch_alone_needs_it() -> None:
    assert lines("mm-v2.1", "cu121") and lines("mm-v2.1", "cu118")
    assert not lines("mm-v2.9", "cu128-hopper") and not lines("cpu-py311", "cpu")


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("with_driver", [True, False])
def test_the_driver_s_library_is_found_where_nv_brings_it(tmp_path: Path, with_driver: bool) -> None:
    driver = tmp_path / "libcuda.so.1"
    if with_driver:
        made = tmp_path / "pretended.c"
        made.write_text("int cuInit(int flags) { return 0; }")
        words = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(made), "-o", str(driver)]
        subprocess.run(words, check=True)
    (tmp_path / "root").mkdir()
    script = "\n".join([*lines("mm-v2.1", "cu121"), ASKS])
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", ROOT, "sh", str(tmp_path / "root")]
    done = subprocess.run([*words, str(driver), script], capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr}")
    assert done.returncode == 0 or not with_driver, done.stderr
    assert done.stdout.split() == [f"{LIBCUDA}/libcuda.so", *(["runs"] if with_driver else [])], done.stderr
