#!/bin/sh
# Backends from outside: the template, built as a project of its own against an installed Tigon, both ways; and plug-ins that
# must be refused, with a message that says why.
#   plugin.sh PREFIX C_COMPILER PLUGIN_TEST
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=$1
cc=$2
tigon=$prefix/bin/tigon
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$1"
    exit 1
}

# As a vendor does it who has no tree: the folder is copied from where Tigon is installed.
cp -R "$prefix/share/tigon/template" "$work/acme"
cmake -S "$work/acme" -B "$work/acme/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/acme/build" >/dev/null
for plugin in libacme.so libacme_symbols.so; do
    echo "$plugin"
    "$3" acme "$work/acme/build/$plugin"
    "$tigon" check --backend "$work/acme/build/$plugin" >"$work/conformance" || { cat "$work/conformance"; fail "$plugin fails"; }
    tail -1 "$work/conformance"
done

# The conformance run finds a kernel that is wrong: here, in its eps.
sed -i "s/= args->eps,/= args->eps + 1e-3,/" "$work/acme/rms_norm.c"
cmake --build "$work/acme/build" >/dev/null
if "$tigon" check --backend "$work/acme/build/libacme.so" >"$work/conformance"; then
    fail "a wrong kernel passes"
fi
grep -q 'acme/rms_norm_forward' "$work/conformance" || fail "the wrong implementation is not named"

refused() { # NAME WORDS...: loading it fails, and the message has all the words
    name=$1
    shift
    "$cc" -shared -fPIC -I"$prefix/include" "$here/$name.c" -o "$work/$name.so"
    if message=$(TIGON_BACKEND_PATH=$work/$name.so "$tigon" info 2>&1); then
        fail "$name is not refused"
    fi
    for word in "$@"; do
        case $message in *"$word"*) ;; *) fail "$name: the message does not say \"$word\": $message" ;; esac
    done
    echo "$name: $(echo "$message" | grep '^wrong:')"
}
refused bad_abi TIGON_BACKEND_PATH bad_abi.so ABI
refused bad_symbol TIGON_BACKEND_PATH bad_symbol.so bad_rms_nrom_forward
refused no_entry TIGON_BACKEND_PATH no_entry.so tg_backend_entry
refused larger_table TIGON_BACKEND_PATH larger_table.so "newer Tigon"
if message=$(TIGON_BACKEND_PATH=$work/missing.so "$tigon" info 2>&1); then
    fail "a missing file is not refused"
fi
case $message in *"TIGON_BACKEND_PATH: $work/missing.so: cannot be loaded"*) ;; *) fail "the message is: $message" ;; esac

build() { # NAME
    "$cc" -shared -fPIC -I"$prefix/include" "$here/$1.c" -o "$work/lib$1.so"
}

# A smaller table is an older one's: what it lacks is absent.
build older_table
TIGON_BACKEND_PATH=$work/libolder_table.so "$tigon" list --resolve softmax_forward >"$work/list" 2>&1 ||
    fail "an older table is refused: $(cat "$work/list")"
grep -q older/softmax_forward "$work/list" || fail "the implementation of an older table is not there"

# It takes no case, which the table of implementations says.
TIGON_BACKEND_PATH=$work/libolder_table.so "$tigon" list --matrix softmax_forward >"$work/list" 2>&1 || fail "$(cat "$work/list")"
grep -q ' older  *older: -$' "$work/list" || fail "list --matrix has no dash for it: $(cat "$work/list")"

# open() may use the library, and fork.
build busy_open
for way in TIGON_BACKEND_PATH= --backend; do
    case $way in
    --backend) timeout 60 "$tigon" check --backend "$work/libbusy_open.so" >"$work/list" 2>&1 || true ;;
    *) timeout 60 env "$way$work/libbusy_open.so" "$tigon" info >"$work/list" 2>&1 || true ;;
    esac
    grep -q 'adds no implementations\|busy' "$work/list" && ! grep -q 'open() failed' "$work/list" ||
        fail "a plug-in that is busy in open() with $way: $(cat "$work/list")"
done

# The last line before a crash tells where it is.
build crash
if TIGON_BACKEND_PATH=$work/libcrash.so "$tigon" info >"$work/list" 2>&1; then
    fail "a crash is no failure"
fi
grep -q "^tigon: loading $work/libcrash.so\$" "$work/list" || fail "the log does not tell which file crashed: $(cat "$work/list")"

# A name without a slash: in the current folder, as README shows it.
(cd "$work" && TIGON_BACKEND_PATH=libolder_table.so "$tigon" list --resolve softmax_forward >list 2>&1) ||
    fail "a plug-in of the current folder is not found: $(cat "$work/list")"

# An implementation of an operator that this version lacks is skipped with one line; the rest of the plug-in works.
"$cc" -shared -fPIC -I"$prefix/include" "$here/newer_table.c" -o "$work/newer.so"
lines=$(TIGON_BACKEND_PATH=$work/newer.so "$tigon" list --resolve softmax_forward 2>&1 >"$work/list") || fail "$lines"
[ "$(echo "$lines" | grep -c operator_of_tomorrow)" -eq 1 ] || fail "no log line about the unknown operator: $lines"
grep -q newer/softmax_forward "$work/list" || fail "the known operator of the table is not there"
