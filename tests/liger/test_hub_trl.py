"""TRL's trainers with model_init_kwargs={"use_kernels": True}, which take the kernel of Hugging Face's `kernels` from a local folder: each
beside the same run without. TIGON_HUB_KERNEL names the folder (hub.sh)."""
import os
from pathlib import Path

import pytest
import torch

kernels = pytest.importorskip("kernels")
trl = pytest.importorskip("trl")

from test_trl import assert_same, model, trained  # noqa: E402


@pytest.fixture(scope="module")
def kernel():
    return kernels.get_local_kernel(Path(os.environ["TIGON_HUB_KERNEL"]))


@pytest.mark.parametrize("name", ["SFT", "DPO", "KTO", "GRPO", "RLOO"])
def test_use_kernels(tmp_path, kernel, name):
    model().save_pretrained(tmp_path / "model")
    given = {"model": str(tmp_path / "model")}
    expected = trained(tmp_path, name, given)
    kernel.register()
    found = trained(tmp_path, name, given, model_init_kwargs={"use_kernels": True, "attn_implementation": "tigon"})
    assert_same(found, expected, model())
    x = torch.arange(2, 14).reshape(2, 6)
    with torch.profiler.profile() as profiler:
        found.model.train()(input_ids=x, labels=x).loss.backward()
    space = f"{kernel.__name__}::"
    ran = {e.name[len(space) :] for e in profiler.events() if e.name.startswith(space)}
    assert {"rms_norm_backward", "rope_backward", "flash_attention_backward"} <= ran
