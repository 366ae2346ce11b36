#!/bin/sh
# Does what a document says, in order, in one shell, in a fresh copy of the tree that has been built:
#   - an sh block is run, and no command of it may fail;
#   - a c, cpp or cmake block becomes the file that its first line names: `/* program.c - ...`, `// program.cpp - ...`; with
#     ` - at its end:` it is added to that file;
#   - a python block is left to tests/python, which has PyTorch;
#   - a text block has been printed by the sh block before it, but for numbers and the processor's level.
# A block below a line `<!-- not run: REASON -->` is left out. The test prints which, and how many there are of each kind. A command
# that stands elsewhere is an error.
#   document.sh SOURCE_DIR BUILD_DIR DOCUMENT [--show]     --show: print what every block prints
# CMAKE_C_COMPILER_LAUNCHER: ccache, as the build itself has used it.
set -eu
source=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
document=$source/$3
show=${4:-}
for name in $(env | sed -n 's/^\(TIGON_[A-Z0-9_]*\)=.*/\1/p') ASCEND_UB_CAPACITY_BITS LD_LIBRARY_PATH PKG_CONFIG_PATH; do
    unset "$name"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/blocks" "$work/home" "$work/bin"

# Blocks into files 001.sh, 002.text, 003.c, ... in the document's order; 004.sh.not is left out.
awk -v folder="$work/blocks" -v name="$3" '
    function fail(what) { print name ":" FNR ": " what; failed = 1; exit }
    /^<!-- not run: .*[^ ].* -->$/ { print name ":" FNR ": " $0; left_out = ".not"; next }
    /^```/ && !file {
        kind = substr($0, 4)
        if (kind !~ /^(sh|c|cpp|cmake|python|text)$/) fail("a block of kind \"" kind "\", expected sh, c, cpp, cmake, python or text")
        if (kind == "python") left_out = ".not"
        file = sprintf("%s/%03d.%s%s", folder, ++n, kind, left_out)
        left_out = ""
        printf "" >file
        next
    }
    /^```/ { file = ""; next }
    left_out { fail("expected a block, below the comment that it is not run") }
    file { print >file; next }
    /^    (\$ |\.\/|build[a-z-]*\/|(make|cmake|ctest|tigon|ascsim|sh|gcc|cc) )/ { fail("a command outside of an sh block") }
    END { exit failed }' "$document"

# The copy, and what has been built of it: `cmake --preset release` finds nothing to do.
sh "$source/tests/common/copy_tree.sh" "$source" "$work/tigon"
ln -s "$build" "$work/tigon/build"
cat >"$work/bin/cmake" <<WRAPPER
#!/bin/sh
case "\$*" in "--preset release" | "--build --preset release"*) exit 0 ;; esac
exec $(command -v cmake) "\$@"
WRAPPER
chmod +x "$work/bin/cmake"

export CCACHE_BASEDIR="$work/tigon"

# Numbers, levels of processors, and how far apart columns are, may change.
plain() {
    sed -E 's/\.(v[234](bf16)?|neon|base)\b/.LEVEL/g; s/-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/#/g; s/[[:space:]]+/ /g; s/ $//' "$1"
}
compare() {
    plain "$1" | grep -vE '^( ?\.\.\.)?$' >"$work/expected" || true
    plain "$work/output" >"$work/found"
    while IFS= read -r line; do
        echo >>"$work/compared"
        grep -qxF -- "$line" "$work/found" && continue
        echo "the document shows what is not printed: $line" >&3
        [ -n "$show" ] || return 1
    done <"$work/expected"
}
place() {
    file=$(sed -nE '1s!^(/\*|//|#) ([A-Za-z_/.]+\.[a-z]+) - .*!\2!p' "$1")
    [ -n "$file" ] || { echo "its first line names no file" >&3; return 1; }
    mkdir -p "$(dirname "$file")"
    case $(head -1 "$1") in *" - at its end: "*) cat "$1" >>"$file" ;; *) cp "$1" "$file" ;; esac
}
run() {
    HOME=$work/home
    PATH=$work/bin:$PATH
    export HOME PATH
    cd "$work/tigon"
    for block in "$work"/blocks/*; do
        [ -e "$block" ] || continue # a page of prose
        echo "$block" >"$work/current"
        case $block in
        *.not) ;;
        *.sh) . "$block" >"$work/output" 2>&1 ;;
        *.text) compare "$block" ;;
        *) place "$block" ;;
        esac
        case $show$block in --show*.sh) echo "---- $(head -1 "$block")" >&3 && cat "$work/output" >&3 ;; esac
    done
}
exec 3>&1
: >"$work/compared"
set +e
(set -e; run)
status=$?
set -e
if [ "$status" -ne 0 ]; then
    echo "$3: this block fails:"
    cat "$(cat "$work/current")"
    echo "---- printed last:"
    cat "$work/output" 2>/dev/null
    exit 1
fi
count() { find "$work/blocks" -name "$1" | wc -l; }
echo "$3: $(count '*.sh') sh blocks run, $(count '*.not') blocks not; $(count '*.c') c, $(count '*.cpp') c++;" \
    "$(wc -l <"$work/compared") lines of text as shown"
