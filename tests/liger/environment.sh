#!/bin/sh
# Makes what Liger-Kernel's tests need, once: a Python with its packages beside those of scripts/torch_python.sh, and the sources of a
# release with its tests.
#   environment.sh BUILD: BUILD/liger/venv/bin/python, BUILD/liger/liger_kernel-*, an older TRL in BUILD/liger/trl_before; prints the sources' folder
set -eu
version=0.8.5
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/liger"
work=$(cd "$1/liger" && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1

if ! cmp -s "$here/requirements.txt" "$work/requirements.txt"; then
    rm -rf "$work/venv" "$work/requirements.txt"
    torch=$(sh "$here/../../scripts/torch_python.sh" pytest)
    "$torch" -m venv "$work/venv"
    packages='import sysconfig; print(sysconfig.get_path("purelib"))'
    "$torch" -c "$packages" >"$("$work/venv/bin/python" -c "$packages")/torch.pth"
    "$work/venv/bin/pip" install -q -r "$here/requirements.txt" >&2
    # The last release of TRL that takes Liger's losses, beside the one of requirements.txt.
    rm -rf "$work/trl_before"
    "$work/venv/bin/pip" install -q --no-deps --target "$work/trl_before" trl==1.12.0 >&2
    cp "$here/requirements.txt" "$work/requirements.txt"
fi
sources=$work/liger_kernel-$version
if [ ! -d "$sources" ]; then
    "$work/venv/bin/pip" download -q -d "$work" --no-deps --no-build-isolation --no-binary :all: "liger-kernel==$version" >&2
    tar -xf "$work/liger_kernel-$version.tar.gz" -C "$work"
fi
echo "$sources"
