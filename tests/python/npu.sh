#!/bin/sh
# test_npu.py with a stand-in for a card that runs kernels on the model.
#   npu.sh SOURCE_DIR BUILD_DIR LIBTIGON FOLDER_OF_THE_STAND_IN
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export NPU_STAND_IN="$2/tests/python" NPU_WITHOUT_KERNELS="$4" STAND_IN_MODEL="$2" STAND_IN_DEVICES=2
# The library looks for the kernels' file beside itself.
work=$2/tests/python/npu
mkdir -p "$work"
soname=$(readelf -d "$3" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
ln -sf "$3" "$work/$soname"
ln -sf "$4/libascendcl.so" "$4"/tigon_ascend_*kernels.o "$work"
export LD_LIBRARY_PATH="$work" STAND_IN_RECORD="$work/record"
exec "$here/pytest.sh" "$1" "$here/test_npu.py"
