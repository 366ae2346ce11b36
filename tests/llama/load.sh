#!/bin/sh
# --load: a course begins with the sizes and parameters of a folder as Hugging Face has it, in one file or in several, in f32, bf16 or f16.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || {
    echo "skipped: python3, which cuts the files, is not there"
    exit 77
}
held_out() { # ARGUMENTS...: the held-out loss that a log tells
    rm -f log
    "$llama" $data --seq 48 --batch 2 --log log "$@" >out 2>err || fail "llama $*: $(cat err)"
    sed -n 's/.*"held_out":\([^}]*\)}/\1/p' log | tail -n 1
}
equal() { # A B WHAT
    [ -n "$1" ] && [ "$1" = "$2" ] || fail "$3: a held-out loss of $1, expected $2"
}
# cut FROM TO TYPE: the same folder in two files with an index, without our metadata, every tensor of another type
cut_up() {
    python3 - "$@" <<'PYTHON'
import array, json, os, struct, sys
source, target, kind = sys.argv[1:]
os.makedirs(target)
data = open(source + "/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, data = json.loads(data[8:8 + size]), data[8 + size:]
header.pop("__metadata__")
def convert(raw, was):
    if was == kind:
        return raw
    values = struct.unpack("<%df" % (len(raw) // 4), raw)
    return struct.pack("<%de" % len(values), *values)
names, index = sorted(header), {}
for k in range(2):
    file, entries, parts, at = "model-%05d-of-00002.safetensors" % (k + 1), {}, [], 0
    for name in names[k::2]:
        begin, end = header[name]["data_offsets"]
        raw = convert(data[begin:end], header[name]["dtype"])
        entries[name] = {"dtype": kind, "shape": header[name]["shape"], "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        parts.append(raw)
        index[name] = file
    text = json.dumps(entries).encode()
    open(target + "/" + file, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(parts))
json.dump({"metadata": {}, "weight_map": index}, open(target + "/model.safetensors.index.json", "w"))
open(target + "/config.json", "w").write(open(source + "/config.json").read())
PYTHON
}
sizes="--layers 2 --width 64 --heads 4 --kv-heads 2 --ff 96 --warmup 5"
for type in f32 bf16; do
    trained=$(held_out $sizes --untied --theta 5e5 --type $type --steps 12 --lr 1e-2 --out $type)
    equal "$(held_out --load $type --type $type --steps 0)" "$trained" "$type, one file"
    trained=$(held_out $sizes --qk-norm --head-dim 24 --type $type --steps 12 --lr 1e-2 --out qwen3-$type)
    grep -q '"model_type": "qwen3"' qwen3-$type/config.json || fail "$type: not a Qwen3"
    equal "$(held_out --load qwen3-$type --type $type --steps 0)" "$trained" "$type, Qwen3"
    equal "$(held_out --resume --eval-only --out qwen3-$type)" "$trained" "$type, Qwen3, resumed"
done
cut_up f32 two F32
equal "$(held_out --load two --steps 0)" "$(held_out --load f32 --steps 0)" "two files"
cut_up bf16 two16 BF16
equal "$(held_out --load two16 --type bf16 --steps 0)" "$(held_out --load bf16 --type bf16 --steps 0)" "two files of bf16"
cut_up f32 half F16
held_out --load half --steps 0 >half.loss
held_out --load f32 --steps 0 >f32.loss
paste half.loss f32.loss | awk '{ d = $1 - $2; exit !(d < 1e-3 && d > -1e-3 && $1 > 0) }' || fail "f16: $(cat half.loss f32.loss)"

# It goes on from there, and a resumed course has the same bits.
held_out --load two --steps 6 --lr 1e-3 --out whole >whole.loss
held_out --load two --steps 6 --lr 1e-3 --out halves --stop-after 3 >/dev/null
held_out --resume --out halves >halves.loss
equal "$(cat halves.loss)" "$(cat whole.loss)" "resumed"
paste whole.loss f32.loss | awk '{ exit !($1 < $2) }' || fail "six steps more do not help: $(cat whole.loss f32.loss)"

# Scaled frequencies are read, used, saved and read again, by the names of newer and of older files.
cp -r two scaled
sed -i 's/"rope_scaling": null/"rope_scaling": {"rope_type": "llama3", "factor": 32, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 32}/' \
    scaled/config.json
scaled=$(held_out --load scaled --steps 0 --out again)
[ "$scaled" != "$(cat f32.loss)" ] || fail "scaled frequencies change nothing"
equal "$(held_out --load again --steps 0)" "$scaled" "scaled, saved and loaded"
equal "$(held_out --load two --rope-factor 32 --rope-window 32 --steps 0)" "$scaled" "scaled by options"
cp -r scaled newer
sed -i 's/"rope_scaling"/"rope_parameters"/; s/"factor": 32/"rope_theta": 500000, "factor": 32/; s/"rope_theta": 500000,$//' newer/config.json
equal "$(held_out --load newer --steps 0)" "$scaled" "rope_parameters"

change() { # FOLDER SED: two, with another config.json
    cp -r two "$1"
    sed -i "$2" "$1/config.json"
}
change linear 's/"rope_scaling": null/"rope_scaling": {"type": "linear", "factor": 2}/'
refuses 'type: expected default or llama3' --load linear
change qwen 's/"model_type": "llama"/"model_type": "qwen2"/'
refuses 'model_type: expected llama, qwen3 or qwen3_moe' --load qwen
change windows 's/"model_type": "llama"/"model_type": "qwen3", "use_sliding_window": true/'
refuses 'use_sliding_window: expected false' --load windows
change wide 's/"head_dim": 16/"head_dim": 32/'
refuses 'expected [128,64]: num_attention_heads heads of head_dim, hidden_size' --load wide $data --steps 0
refuses 'expected [128,64]: intermediate_size, hidden_size' --load two $data --ff 128 --steps 0

# Folders of others as they are and as they should not be: those that are right have the held-out loss of `two`, others are refused with these words.
python3 "$source/tests/llama/folders.py" two odd >expected
whole=$(cat f32.loss)
while IFS='|' read -r folder words; do
    case $words in
    same) equal "$(held_out --load "odd/$folder" --steps 0)" "$whole" "$folder" ;;
    taken) [ -n "$(held_out --load "odd/$folder" --steps 0)" ] || fail "$folder: no held-out loss" ;;
    *) refuses "$words" --load "odd/$folder" $data --seq 48 --steps 0 ;;
    esac
done <expected
[ "$(wc -l <expected)" -gt 60 ] || fail "$(wc -l <expected) odd folders"
refuses "--out and --load are one folder" --load two --out ./two/ $data
rm two/model-00002-of-00002.safetensors
refuses 'model-00002-of-00002.safetensors: No such file' --load two $data --steps 0
refuses 'nowhere/config.json: No such file' --load nowhere
mkdir bare
cp two/config.json bare
refuses 'bare: holds neither model.safetensors nor model.safetensors.index.json' --load bare $data --steps 0
refuses '--load begins a course' --load two --resume --out whole
echo "folders of others are loaded: one file or two, f32, bf16 and f16, frequencies scaled or not"
