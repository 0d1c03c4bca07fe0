#!/bin/sh
# Make a layer's bytecode, and give its files their time.
#
#     finish.sh LAYER
set -eu

# Without site and without writing: what Python loads by itself it would compile by itself, with a time.
/opt/env/bin/python -ISB /layers/bytecode.py "/layers/$1/opt/env/lib" /opt/env/lib
sh "${0%/*}/times.sh" "/layers/$1"
