#!/bin/sh
# The checker on the best processor that QEMU emulates, of level v3: on a machine that has no more than v2 this is the only
# run of AVX2, and then of all operators; on others it is what a processor without AVX-512 sees, oneDNN included.
set -eu
tigon=$1
level=$("$tigon" info --json | sed -n 's/.*"cpu_level": "\([^"]*\)".*/\1/p')
qemu=$(command -v qemu-x86_64) || { echo "qemu-x86_64 is missing (Debian: qemu-user); this processor has level $level"; exit 77; }
emulated=$("$qemu" -cpu max "$tigon" info --json | sed -n 's/.*"cpu_level": "\([^"]*\)".*/\1/p')
[ "$emulated" = v3 ] || { echo "this QEMU emulates level $emulated, expected v3"; exit 77; }
operators="gemm swiglu_forward"
[ "$level" != v2 ] || operators=
echo "level v3, emulated: ${operators:-all operators}"
TIGON_STRICT=1 exec "$qemu" -cpu max "$tigon" check --quick --strict $operators
