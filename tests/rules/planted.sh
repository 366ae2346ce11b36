#!/bin/sh
# The rules find what they are for: a small tree that keeps them passes, and with each violation planted in it is told, with the
# file and the reason.
#   planted.sh COMPILER
set -eu
cc=$1
rules=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0

# A tree that keeps the rules, under $work/tree.
clean() {
    rm -rf "$work/tree"
    mkdir "$work/tree" && cd "$work/tree"
    mkdir -p include/tigon src/core src/simd src/ops/one src/ops/two backends/ascend/kernels/shared \
        backends/ascend/kernels/norms backends/ascend/kernels/softmax sim/src/model sim/src/check sim/src/execute \
        tools/tigon/share tools/tigon/bench
    echo 'typedef int tg_status;' >include/tigon/tigon.h
    echo 'int tg_log_line(void);' >src/core/core.h
    echo 'void *tg_workspace(void);' >src/core/services.h
    printf '#include "tigon/tigon.h"\n#include "core/core.h"\nint tg_log_line(void) { return 0; }\nvoid *tg_workspace(void) { return 0; }\n' >src/core/core.c
    printf 'static inline float v_add(float x)\n{\n    return x + 1;\n}\n' >src/simd/simd.h
    for family in one two; do
        printf '#include "simd/simd.h"\nstatic inline float row(float x)\n{\n    return v_add(x);\n}\n' >src/ops/$family/$family.h
        printf '#include "core/services.h"\n#include "ops/%s/%s.h"\nfloat %s_cpu(float x) { return row(x) + !tg_workspace(); }\n' $family $family $family \
            >src/ops/$family/${family}_cpu.c
        printf '#include "core/services.h"\nfloat %s_ref(float x) { return x + 1; }\n' $family >src/ops/$family/${family}_ref.c
    done
    printf '#include "tigon/tigon.h"\nint backend(void) { return 0; }\n' >backends/ascend/backend.c
    echo '#define TILE 64' >backends/ascend/kernels/shared/tile.h
    printf '#include "shared/tile.h"\n' | tee backends/ascend/kernels/norms/norm.h >backends/ascend/kernels/softmax/softmax.h
    printf '#include "norm.h"\n#include "shared/tile.h"\n' >backends/ascend/kernels/norms/norm.asc.c
    echo 'int sim_core(void);' >sim/src/model/model.h
    printf '#include "model/model.h"\nint sim_core(void) { return 0; }\n' >sim/src/model/model.c
    printf '#include "model/model.h"\nint sim_check(void) { return sim_core(); }\n' >sim/src/check/check.c
    echo 'int sim_launch(void);' >sim/src/execute/launch.h
    printf '#include "launch.h"\n#include "model/model.h"\nint sim_launch(void) { return sim_core(); }\n' >sim/src/execute/launch.c
    echo 'int bench(void);' >tools/tigon/bench/bench.h
    printf '#include "bench.h"\n#include "share/cli.h"\nint bench(void) { return cli(); }\n' >tools/tigon/bench/bench.c
    echo 'int cli(void);' >tools/tigon/share/cli.h
    printf '#include "cli.h"\nint cli(void) { return 0; }\n' >tools/tigon/share/cli.c
}
# compile_commands.json, as CMake writes it, and the objects.
build() {
    mkdir -p build
    flags="-Iinclude -Isrc -Isim/src -Itools/tigon -Ibackends/ascend/kernels -fvisibility=hidden -w"
    separator='['
    for file in $(find . -name '*.c'); do
        file=${file#./}
        object=build/$(echo "$file" | tr / _).o
        echo "$separator{\"directory\": \"$work/tree\", \"command\": \"$cc $flags -o $object -c $file\", \"file\": \"$file\"}"
        separator=,
        "$cc" $flags -o "$object" -c "$file"
    done >build/compile_commands.json
    echo ']' >>build/compile_commands.json
}
arrows() {
    build
    python3 "$rules/arrows.py" . build
}
headers() {
    python3 "$rules/headers.py" .
}
fail() {
    echo "FAILED: $1"
    cat "$work/out"
    exit 1
}
# planted RULE WORDS: what has been planted is found, in these words, and nothing else is.
planted() {
    if "$1" >"$work/out" 2>&1; then
        fail "not found: $2"
    fi
    grep -qF -- "$2" "$work/out" || fail "expected: $2"
    tail -1 "$work/out" | grep -q ' 1 violations$' || fail "more than one thing is said: $2"
    count=$((count + 1))
    clean
}

clean
arrows >"$work/out" 2>&1 || fail "the clean tree breaks a rule"
headers >"$work/out" 2>&1 || fail "the clean tree breaks a rule"

echo '#include "ops/two/two.h"' >src/ops/one/one_cpu_wide.c
planted arrows "src/ops/one/one_cpu_wide.c:1: includes src/ops/two/two.h: no arrow leads there"
echo '#include "ops/two/two.h"' >>src/ops/one/one.h # in a header, and so in whatever includes it
sed -i 's/float row/float other_row/' src/ops/two/two.h
sed -i 's/row(x)/other_row(x)/' src/ops/two/two_cpu.c
planted arrows "src/ops/one/one.h:6: includes src/ops/two/two.h"
printf 'float two_ref(float);\nfloat one(float x) { return two_ref(x); }\n' >src/ops/one/one.c # without an include
planted arrows "src/ops/one/one.c: calls two_ref() of src/ops/two/two_ref.c"
echo '#include "core/core.h"' >src/ops/one/one.c
planted arrows "src/ops/one/one.c:1: includes src/core/core.h"
echo '#include "simd/simd.h"' >>src/ops/one/one_ref.c
planted arrows "src/ops/one/one_ref.c:3: includes src/simd/simd.h"
echo '#include "ops/one/one.h"' >>src/core/core.c
planted arrows "src/core/core.c:5: includes src/ops/one/one.h"
echo '#include "core/services.h"' >>backends/ascend/backend.c
planted arrows "backends/ascend/backend.c:3: includes src/core/services.h"
echo '#include "softmax/softmax.h"' >>backends/ascend/kernels/norms/norm.h
planted arrows "backends/ascend/kernels/norms/norm.h:2: includes backends/ascend/kernels/softmax/softmax.h"
echo '#include "norms/norm.h"' >>backends/ascend/kernels/shared/tile.h
sed -i '1d' backends/ascend/kernels/norms/norm.h
planted arrows "backends/ascend/kernels/shared/tile.h:2: includes backends/ascend/kernels/norms/norm.h"
echo '#include "core/core.h"' >>include/tigon/tigon.h
planted arrows "include/tigon/tigon.h:2: includes src/core/core.h"
printf 'int backend(void);\nint f(void) { return backend(); }\n' >src/ops/one/one.c
planted arrows "src/ops/one/one.c: calls backend() of backends/ascend/backend.c"

printf '#include <stdlib.h>\nstatic inline void *room(void)\n{\n    return malloc(8);\n}\n' >>src/ops/one/one.h
sed -i 's/!tg_workspace()/!room()/' src/ops/one/one_cpu.c
planted arrows "src/ops/one/one_cpu.c: calls malloc(): a kernel neither allocates"
printf '#include <stdlib.h>\nvoid *one_kernel(void) { return calloc(8, 8); }\n' >src/ops/one/one_kernel_row.c
planted arrows "src/ops/one/one_kernel_row.c: calls calloc(): a kernel neither allocates"
printf '#include <stdio.h>\nint f(int x) { return printf("%%d", x); }\n' >src/ops/one/one.c
planted arrows "src/ops/one/one.c: calls printf(): the library never"

echo '#include "execute/launch.h"' >>sim/src/check/check.c
planted arrows "sim/src/check/check.c:3: includes sim/src/execute/launch.h"
printf 'int sim_launch(void);\nint f(void) { return sim_launch(); }\n' >sim/src/check/fault.c
planted arrows "sim/src/check/fault.c: calls sim_launch() of sim/src/execute/launch.c"
echo '#include "bench/bench.h"' >>tools/tigon/share/cli.h
planted arrows "tools/tigon/share/cli.h:2: includes tools/tigon/bench/bench.h"
printf 'int bench(void);\nint f(void) { return bench(); }\n' >tools/tigon/share/file.c
planted arrows "tools/tigon/share/file.c: calls bench() of tools/tigon/bench/bench.c"
mkdir -p backends/cuda/norms backends/cuda/rows && echo '#include "norms/one.cuh"' >backends/cuda/rows/rows.cuh
echo '#include "rows/rows.cuh"' >backends/cuda/norms/one.cuh
planted arrows "backends/cuda/rows/rows.cuh:1: includes backends/cuda/norms/one.cuh: no arrow leads there"
mkdir -p sim/src/new && echo 'int f(void) { return 0; }' >sim/src/new/new.c
planted arrows "sim/src/new/new.c: no line of arrows.txt says whom it may know"
mkdir rules && cp "$rules"/arrows.* rules
echo 'tools/tigon/share -> tools/tigon/bench' >>rules/arrows.txt
(rules=$work/tree/rules && planted arrows "arrows.txt has a circle: tools/tigon/share -> tools/tigon/bench -> tools/tigon/share")
count=$((count + 1))
clean

printf 'static float twice(float x)\n{\n    return 2 * x;\n}\n' >>src/ops/one/one.h
planted headers "src/ops/one/one.h:6: twice() is defined in a header and not inline"
printf '#define KERNEL static __attribute__((unused))\nKERNEL float twice(float x,\n                   float y)\n{\n    return x * y;\n}\n' >>src/ops/one/one.h
planted headers "src/ops/one/one.h:7: twice() is defined in a header and not inline"

# Pages that say of the tree what is not so: all at once, in a copy of it.
sh "$rules/../common/copy_tree.sh" "$rules/../.." "$work/pages"
cd "$work/pages"
printf '#!/bin/sh\necho "  --json"\n' >command
chmod +x command
cat >>docs/use.md <<'PAGE'
`src/no_such_file.c` is read where TIGON_NO_SUCH_THING is set; there are 7 operators. `tigon list --no-such-option`. `make test-long AREA=nowhere`.
On NVIDIA GPUs: `rms_norm`, `layer_norm`, `swiglu`, `geglu`, `rope`, `softmax`, `dyt`, `tvd`, `jsd`.
PAGE
echo 'no Python' >>README.md
echo '/* TIGON_NO_SUCH_SETTING */' >>include/tigon/status.h
mkdir src/unheard_of && echo 'int x;' >src/unheard_of/x.c
echo 'int x;' >backends/cuda/rows/unnamed.cuh
if python3 "$rules/claims.py" . ./command >"$work/claims" 2>&1; then
    echo "claims.py finds nothing"
    exit 1
fi
for said in 'use.md: `src/no_such_file.c`: the tree has no such file' 'use.md: TIGON_NO_SUCH_THING: no such setting' \
    'use.md: 7 operators: there are' 'use.md: tigon list --no-such-option: no such option' 'use.md: AREA=nowhere: no test is of that area' \
    'status.h: TIGON_NO_SUCH_SETTING: no such setting' 'tigon.1: tigon tune --mib: in the manual or in --help alone' 'use.md: a list of operators lacks adamw, ' \
    'README.md: "no Python" went stale once' 'architecture.md: the tree lacks src/unheard_of/' 'cuda/README.md: does not name unnamed.cuh'; do
    grep -qF "$said" "$work/claims" || { echo "claims.py does not say: $said"; exit 1; }
    count=$((count + 1))
done
echo "$count planted, all found"
