#!/bin/sh
# The table of published and modelled times: the document has today's, and only the examples named
# here miss the aim.
#   validate.sh ASCSIM DOCUMENT
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$2" "$work/document.md"
"$1" validate --update "$work/document.md"
diff "$2" "$work/document.md" || {
    echo "$2 is not what the program has: ascsim validate --update $2 writes it"
    exit 1
}
sed -n '/^<!-- ascsim validate/,/^<!-- end/p' "$2" | awk -F'|' '
    function beyond(cell, aim) { sub(/%/, "", cell); return cell + 0 > aim || cell + 0 < -aim }
    NF > 8 && (beyond($7, 15) || (NF < 12 && beyond($10, 5))) { print $2 }
    /\| ladder [01] / && (beyond($10, 5) || beyond($13, 5) || beyond($16, 5)) { print $2 }' >"$work/missed"
printf ' cycle_simulator out \n pto_gemm 1536 \n' | diff - "$work/missed" || {
    echo "other examples miss 15 % of time or 5 % of vector time, or of the pipes that were fitted, than docs/npu-model.md tells of"
    exit 1
}
