#!/bin/sh
# --pack: documents of a window apart. The same bits on any number of threads and whether the course was stopped or not, the same course however
# its windows are cut into micro-batches, of files, of a token that ends documents, and of both. What packed.c shows is the loss.
. "$(dirname "$0")/common.sh"
files="--data corpus.txt held.txt --eval-windows 8 --quiet"
for how in "$files --pack" "$data --pack --end-of-document 10"; do
    "$llama" $toy $how --steps 12 --type bf16 --out whole --log whole.log --eval-every 6 --threads 2 || fail "$how"
    "$llama" $toy $how --steps 12 --type bf16 --out parts --log parts.log --eval-every 6 --threads 1 --stop-after 5 || fail "$how: first part"
    "$llama" --resume --quiet --out parts --log parts.log --threads 2 || fail "$how: last part"
    course whole.log | grep loss >whole.steps
    course parts.log | grep loss | awk '!seen[$0]++' >parts.steps
    same whole.steps parts.steps "$how: stopped and resumed"
    for file in model optimizer-000012; do
        same whole/$file.safetensors parts/$file.safetensors "$how: $file.safetensors differs"
    done
    rm -r whole parts
done
# Windows have not as many targets as each other: a step's loss is the mean of them all.
"$llama" $toy $data --pack --end-of-document 10 --steps 10 --batch 4 --log whole.log
"$llama" $toy $data --pack --end-of-document 10 --steps 10 --batch 1 --accumulate 4 --log parts.log
numbers whole.log >whole.steps
numbers parts.log >parts.steps
paste whole.steps parts.steps | awk '
    { d = $2 - $5; n = $3 - $6; if (d * d > 1e-8 || n * n > 1e-6) { print; bad = 1 } } END { exit bad || NR != 10 }' ||
    fail "four micro-batches are not one batch"
# Other documents are another course, also where the bytes are the same.
split -a 4 -b 70 corpus.txt piece-
for how in corpus.txt "piece-*"; do
    name=${how%[.-]*}
    "$llama" $toy --quiet --val held.txt --data $how --pack --steps 3 --out $name --log $name.log
    "$llama" $toy --quiet --val held.txt --data $how --steps 3 --log $name-across.log
    numbers $name.log >$name.steps
    numbers $name-across.log >$name-across.steps
done
same corpus-across.steps piece-across.steps "files that are one text"
cmp -s corpus.steps piece.steps && fail "files of one text are one document"
refuses "was trained on other data" --resume --quiet --out corpus --data piece-* --steps 4
# A token file tells its documents by a token alone.
python3 - <<'P'
import struct, random
random.seed(1)
tokens = [random.randrange(1, 200) if random.random() > 0.05 else 0 for _ in range(4000)]
with open("some.bin", "wb") as f:
    f.write(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253) + struct.pack(f"<{len(tokens)}H", *tokens))
P
"$llama" $toy --quiet --tokens some.bin --pack --end-of-document 0 --steps 3 || fail "a token file"
refuses "--pack needs --end-of-document" $toy --tokens some.bin --pack --steps 1
refuses "--end-of-document goes with --pack" $toy $data --end-of-document 10 --steps 1
refuses "is not below the vocabulary" $toy $data --pack --end-of-document 256 --steps 1
echo "packed: $(tail -n 1 whole.steps)"
