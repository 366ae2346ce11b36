#!/bin/sh
# The model of many ranks: begins with what one rank was measured at, has a row for each number of ranks, and a slower network is never the better one.
#   scaling.sh LLAMA [MPIRUN]
. "$(dirname "$0")/common.sh"
if [ -z "${2:-}" ]; then
    echo "skipped: the build found no MPI (Debian: libopenmpi-dev)"
    exit 77
fi
mpi_anywhere
PATH=$(dirname "$2"):$PATH
python3 "$source/scripts/scaling.py" "$(dirname "$llama")" $toy --data corpus.txt --val held.txt >tables || fail "$(cat tables)"
awk -F '[|,]' '
    /^\| [0-9]+ \|/ { rows = rows " " $2 + 0; if (NF != 9) bad = 1; if ($2 == 1 && $4 + 0 != 1) bad = 1; if ($6 + 0 > $8 + 0) bad = 1 }
    END { exit bad || rows != " 1 2 4 8 16 32 64" }' tables || fail "$(cat tables)"
cat tables
