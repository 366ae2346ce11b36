#!/bin/sh
# Hugging Face's LlamaForCausalLM loads our checkpoints and agrees: held-out loss, and a course of training steps.
#   hf.sh LLAMA BUILD_DIR
# Needs torch and transformers: they are installed into BUILD_DIR/hf-venv. Where that fails, the test is skipped (77).
set -eu
llama=$(realpath "$1")
venv=$2/hf-venv
here=$(dirname "$(realpath "$0")")
skip() {
    echo "skipped: $1"
    exit 77
}
command -v python3 >/dev/null || skip "python3 is missing"
if ! "$venv/bin/python" -c 'import torch, transformers' 2>/dev/null; then
    echo "installing torch and transformers into $venv"
    python3 -m venv "$venv" || skip "python3 -m venv fails (Debian: apt-get install python3-venv)"
    "$venv/bin/pip" install --quiet torch==2.13.0 transformers ||
        skip "torch 2.13.0 and transformers cannot be installed here"
fi
exec "$venv/bin/python" "$here/hf.py" "$llama"
