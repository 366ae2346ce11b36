#!/bin/sh
# tigon profile --published: the calls of the document's table, and how far the model is from times that others have measured.
#   published.sh TIGON SOURCE_DIR
set -eu
tigon=$1
unset TIGON_SOC TIGON_DEVICE TIGON_IMPL ASCEND_UB_CAPACITY_BITS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=docs/results/model-kernels.md
"$tigon" profile --published --json >"$work/calls.json"
# Times follow the kernels; the calls and what is published of them do not.
python3 - "$work/calls.json" "$2/$page" <<'PYTHON'
import json, sys
calls = json.load(open(sys.argv[1]))["calls"]
rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in open(sys.argv[2]) if line.startswith("| ")]
rows = [row for row in rows if len(row) == 10 and row[0] != "published by"]
def cells(call):
    here = ("none for %s; " % call["lacked"] if call["lacked"] else "") + call["operator"]
    return [call["by"], call["of"], here, call["type"], "%.*f" % (2 if call["us"] < 10 else 1, call["us"])]
written = [row[:2] + row[3:6] for row in rows]
assert written == [cells(call) for call in calls], "build/tigon profile --published --update docs/results/model-kernels.md"
# Launches of next to nothing: within a microsecond or two.
small = [call for call in calls if call["by"] == "FlagGems" and call["us"] < 4]
assert len(small) >= 4, small
for call in small:
    assert abs(call["model_us_first"] - call["us"]) < 2, call
# Maps of one tensor that take CANN longer than its arithmetic: two in three to 15 %, none further off than 25 %.
streams = [call["model_us_first"] / call["us"] for call in calls if call["lacked"] and call["type"] == "f32"]
assert len(streams) == 8 and sum(abs(ratio - 1) < 0.15 for ratio in streams) > 5 and all(0.8 < ratio < 1.25 for ratio in streams), streams
PYTHON
