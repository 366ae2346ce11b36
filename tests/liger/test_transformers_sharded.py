"""Models whose parameters fully_shard() has spread over processes, which makes classes of its own; and words for attention."""
import contextlib
import copy
import os
import sys

import pytest
import torch
import torch.distributed as dist

transformers = pytest.importorskip("transformers")
import tigon.torch  # noqa: E402
import tigon.transformers  # noqa: E402
import tiny  # noqa: E402

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "python"))
from processes import gloo_group  # noqa: E402


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def shard(model):
    from torch.distributed.fsdp import fully_shard

    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    return model


def test_apply_to_before(group):
    plain = tiny.make("llama").train()
    expected = tiny.loss_of(plain, tiny.batch(plain)).item()
    model = shard(tigon.transformers.apply_to(copy.deepcopy(plain)))
    words = tigon.transformers.status(model)
    assert set(words.values()) == {"tigon"}
    tigon.transformers.apply_to(model)
    assert tigon.transformers.status(model) == words
    assert tiny.loss_of(model, tiny.batch(plain)).item() == pytest.approx(expected, rel=1e-5)


def test_behind(group):
    """There and back on a model that fully_shard() has gone over: its classes stay in front."""
    plain = tiny.make("llama").train()
    given = tiny.batch(plain)
    expected = tiny.loss_and_gradients(plain, given)
    model = shard(copy.deepcopy(plain))
    assert "tigon" not in tigon.transformers.status(model).values()
    for change, words in ((tigon.transformers.apply_to, True), (tigon.transformers.undo, False), (tigon.transformers.apply_to, True)):
        change(model)
        said = {w for name, w in tigon.transformers.status(model).items() if name != "attention"}
        assert said == {"tigon"} if words else "tigon" not in said
        assert all("FSDPModule" in [c.__name__ for c in type(m).__mro__] for m in (model, *model.model.layers))
        found = tiny.loss_and_gradients(model, given)
        for name, e in expected.items():
            f = found[name].full_tensor() if hasattr(found[name], "full_tensor") else found[name]
            torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-6)


def test_words_for_attention():
    model = tiny.make("llama")
    assert tigon.transformers.status(model)["attention"] == "as it was: tigon was not asked for"
    assert tigon.transformers.status(tigon.transformers.apply_to(model))["attention"] == "tigon"
    model.set_attn_implementation("eager")
    model.config._attn_implementation = "flash_attention_2"
    assert tigon.transformers.status(model)["attention"] == "as it was: 'flash_attention_2' was asked for"
    if "deepseek_v4" not in tiny.ABSENT:
        assert "no masks" in tigon.transformers.status(tigon.transformers.apply_to(tiny.make("deepseek_v4")))["attention"]


@contextlib.contextmanager
def counting():
    """Calls of the operator that is last layer and loss."""
    calls, own = [], tigon.torch.fused_linear_cross_entropy
    tigon.torch.fused_linear_cross_entropy = lambda *args, **options: calls.append(1) or own(*args, **options)
    yield calls
    tigon.torch.fused_linear_cross_entropy = own


def compare(rank, way, kind):
    """The mean of the gradients of two processes, with a batch each, beside that of the model as transformers made it."""
    plain = tiny.make(kind)
    batches = [tiny.batch(plain, seed=seed) for seed in (7, 8)]
    both = [tiny.loss_and_gradients(plain, given) for given in batches]
    patched = tigon.transformers.apply_to(copy.deepcopy(plain))
    # Gemma 3 registers its buffers in the order of a set, another in each process, and DDP would exchange them.
    model = shard(patched) if way == "fsdp2" else torch.nn.parallel.DistributedDataParallel(patched, broadcast_buffers=False)
    for _ in range(2):  # the second with buckets, and with what the first has gathered
        model.zero_grad()
        with counting() as calls:
            out = model(**batches[rank])
        out.loss.backward()
        assert out.logits is None and len(calls) == 1
        torch.testing.assert_close(out.loss.detach(), both[rank]["loss"], rtol=1e-5, atol=0, msg=lambda words: f"{kind}: {words}")
    for name, p in patched.named_parameters():
        found = p.grad.full_tensor() if way == "fsdp2" else p.grad
        expected = (both[0][name] + both[1][name]) / 2
        atol = 1e-5 * expected.abs().max().item() + 1e-9
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=atol, msg=lambda words: f"{kind}, {name}: {words}")


def spread(rank, way, folder):
    with gloo_group(rank, 2, folder):
        for kind in ("llama", "qwen3", "gemma3_text"):  # the last with the head's weight as the embedding's
            compare(rank, way, kind)


@pytest.mark.parametrize("way", ["fsdp2", "ddp"])
def test_two_processes(tmp_path, way):
    torch.multiprocessing.spawn(spread, (way, str(tmp_path)), nprocs=2)
