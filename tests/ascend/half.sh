#!/bin/sh
# The tile follows what the chip, and above it what ASCEND_UB_CAPACITY_BITS says of the buffer, up to what the chip has.
#   half.sh RECORD PROGRAM
set -eu
here=$(dirname "$0")
tile() {
    sh "$here/card.sh" "$1" "$2" run | sed -n 's/^tile \([0-9]*\),.*/\1/p' | head -1
}
full=$(tile "$@")
half=$(STAND_IN_UB=98304 tile "$@")
said=$(STAND_IN_UB=196608 ASCEND_UB_CAPACITY_BITS=786432 tile "$@")
more=$(ASCEND_UB_CAPACITY_BITS=8000000000 tile "$@")
reserved=$(TIGON_ASCEND_RESERVED_UBUF=1 tile "$@")
echo "tiles: $full, $half with half the buffer, $said when so told, $more when told of more than there is, $reserved with 8 KiB reserved"
[ "$reserved" -lt "$full" ] && [ $((reserved * 196352)) -ge $((full * 180000)) ]
[ "$more" -eq "$full" ]
[ "$half" -eq "$said" ] && [ $((half * 2)) -le $((full + full / 4)) ] && [ $((half * 2)) -ge $((full - full / 4)) ]
