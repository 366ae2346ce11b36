#!/bin/sh
# The tree as a clone has it, without what is built in it.
#   copy_tree.sh SOURCE_DIR TARGET_DIR [FOLDER...]     FOLDER: left out as well
set -eu
source=$1
target=$2
shift 2
excluded=
for folder; do
    excluded="$excluded --exclude=./$folder"
done
mkdir -p "$target"
tar -C "$source" --exclude='./build*' --exclude=./.git --exclude=./out --exclude=./shared $excluded -cf - . |
    tar -C "$target" -xf -
