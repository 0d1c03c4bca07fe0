#!/bin/sh
# Make links in a folder.
#
#     links.sh FOLDER NAME TARGET [NAME TARGET]...
set -eu

began=$(date +%s)
folder=$1 && shift
mkdir -p "$folder"
while [ $# -gt 0 ]; do
    ln -sfn "$2" "$folder/$1"
    shift 2
done
sh "${0%/*}/times.sh" / "$began"
