"""Models whose parameters fully_shard() has spread over processes, which makes classes of its own; and words for attention."""
import copy

import pytest
import torch
import torch.distributed as dist

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402
import tiny  # noqa: E402


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
    assert {w for name, w in words.items() if name} == {"tigon"} and "last layer" in words[""]
    tigon.transformers.apply_to(model)
    assert tigon.transformers.status(model) == words
    assert tiny.loss_of(model, tiny.batch(plain)).item() == pytest.approx(expected, rel=1e-5)
    with pytest.warns(UserWarning, match="stay on Tigon"):
        tigon.transformers.undo(model)


def test_apply_to_behind(group):
    """The classes that fully_shard() made stay."""
    plain = tiny.make("llama").train()
    expected = tiny.loss_of(plain, tiny.batch(plain)).item()
    model = shard(copy.deepcopy(plain))
    assert "tigon" not in tigon.transformers.status(model).values()
    classes = [type(m) for m in model.model.layers]
    with pytest.warns(UserWarning, match="call apply_to"):
        tigon.transformers.apply_to(model)
    assert [type(m) for m in model.model.layers] == classes
    assert tiny.loss_of(model, tiny.batch(plain)).item() == pytest.approx(expected, rel=1e-5)


def test_words_for_attention():
    model = tiny.make("llama")
    assert tigon.transformers.status(model)["attention"] == "as it was: tigon was not asked for"
    assert tigon.transformers.status(tigon.transformers.apply_to(model))["attention"] == "tigon"
    model.set_attn_implementation("eager")
    model.config._attn_implementation = "flash_attention_2"
    assert tigon.transformers.status(model)["attention"] == "as it was: 'flash_attention_2' was asked for"
    if "deepseek_v4" not in tiny.ABSENT:
        assert "no masks" in tigon.transformers.status(tigon.transformers.apply_to(tiny.make("deepseek_v4")))["attention"]
