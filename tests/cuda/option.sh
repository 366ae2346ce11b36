#!/bin/sh
# The library for NVIDIA GPUs is no part of a plain build, nor of a Python package, before
# TIGON_CUDA asks for it; without nvcc that is an error when CMake is run. nvcc is made up, and
# nothing is compiled.
#   option.sh SOURCE_DIR CMAKE C_COMPILER
set -eu
source=$1
cmake=$2
compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#!/bin/sh\nexit 1\n' >"$work/nvcc"
chmod +x "$work/nvcc"
configure() { # CMAKE'S OPTIONS...: as pip does
    "$cmake" -S "$source" -B "$work/build" -G "Unix Makefiles" -DCMAKE_C_COMPILER="$compiler" -DTIGON_TESTS=OFF -DTIGON_ASCEND=OFF \
        -DTIGON_ONEDNN=OFF -DSKBUILD=2 -DSKBUILD_PLATLIB_DIR="$work" -DTIGON_NVCC="$work/nvcc" "$@" >"$work/out" 2>&1
}
makes() { # 0 if that target makes the library
    "$cmake" --build "$work/build" --target "$1" -- -k -n >"$work/commands" 2>/dev/null || true
    grep -q 'nvcc.*-o .*libtigon_cuda\.so' "$work/commands"
}
packs() { grep -q libtigon_cuda "$work/build/bindings/python/cmake_install.cmake"; }
fail() {
    echo "$*"
    tail -5 "$work/out"
    exit 1
}
configure || fail "CMake fails"
package= # without the headers of Python there is none
grep -q "no Python package" "$work/out" || package=tigon_python_package
for target in all $package; do
    if makes "$target"; then fail "$target makes libtigon_cuda.so, which nobody asked for"; fi
done
makes tigon_cuda || fail "the target tigon_cuda does not make libtigon_cuda.so"
if [ -n "$package" ] && packs; then fail "a Python package has it"; fi
configure -DTIGON_CUDA=ON || fail "TIGON_CUDA=ON"
for target in all $package; do
    makes "$target" || fail "TIGON_CUDA=ON: $target does not make libtigon_cuda.so"
done
[ -z "$package" ] || packs || fail "TIGON_CUDA=ON: a Python package has none"
if configure -DTIGON_CUDA=ON -DTIGON_NVCC=OFF; then fail "TIGON_CUDA=ON without nvcc is no error"; fi
grep -q 'nvcc is not here' "$work/out" || fail "without nvcc: no word of it"
