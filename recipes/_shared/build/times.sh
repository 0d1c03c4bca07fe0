#!/bin/sh
# Give files one time, whenever they are built: the first that all archives can write.
#
#     times.sh FOLDER         all files of a layer
#     times.sh / BEGAN        what was written below the root since then, mounts aside
set -eu

if [ $# = 1 ]; then
    exec find "$1" -exec touch -h -d @315532800 {} +
fi
exec find "$1" -xdev \( -type l -o -writable \) -newermt "@$2" -exec touch -h -d @315532800 {} +
