#!/bin/sh
# Unpack the smoke check among the carried files of an image, hold them to their list, cut that down to those that are
# there, and give them their time.
#
#     carried.sh LAYER PYTHON
set -eu

cd "$1/opt/envspec"
"$2" -ISB -m zipfile -e envspec-check.pyz check
# the list is of all specs' files
sha256sum --check --quiet --ignore-missing SHA256SUMS
rm envspec-check.pyz
while read -r sum file; do
    if [ -f "$file" ]; then echo "$sum  $file"; fi
done <SHA256SUMS >own
mv own SHA256SUMS
sh "${0%/*}/times.sh" "$1"
