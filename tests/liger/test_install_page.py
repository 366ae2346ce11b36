"""The python blocks of docs/transformers.md, each with a model and data made here, but for those that a comment before them says are not run."""
import os
import re
import sys

import pytest
import torch

sys.path[:] = [p for p in sys.path if "liger_kernel" not in p]  # Liger's sources are in the path of other tests here

import torch.distributed as dist  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

import tigon.transformers  # noqa: E402

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/transformers.md")
SIZES = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.fixture
def alone(monkeypatch):
    """The only process of a group."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    yield
    tigon.transformers.uninstall()
    if dist.is_initialized():
        dist.destroy_process_group()


def test_page(tmp_path, monkeypatch, alone):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
    LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained("model")
    ids = torch.randint(96, (8, 12))
    names = {
        "path": "model",
        "data": [{"input_ids": row.tolist(), "labels": row.tolist()} for row in ids],
        "batch": {"input_ids": ids[:2], "labels": ids[:2]},
    }
    with open(PAGE, encoding="utf-8") as file:
        found = re.findall(r"^(<!-- not run: [^\n]+ -->\n)?```python\n(.*?)^```", file.read(), flags=re.S | re.M)
    blocks = [block for not_run, block in found if not not_run]
    assert len(blocks) == 7
    for block in blocks:
        exec(block, names)
        assert "tigon" in tigon.transformers.status(names["model"]).values()
