"""tigon.transformers.profile(): the parts of a step are all that it is made of."""
import pytest
import torch

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402
from tigon.transformers import _profile  # noqa: E402

SIZES = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 512}


@pytest.fixture(params=["cpu"] + ["cuda"] * torch.cuda.is_available())
def model(request):
    torch.manual_seed(42)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).to(request.param).train()


def batch_of(model):
    ids = torch.randint(SIZES["vocab_size"], (2, 48), generator=torch.Generator().manual_seed(7)).to(model.device)
    return {"input_ids": ids, "labels": ids}


def names(found, group):
    return {r["name"] for r in found["rows"] if r["group"] == group}


@pytest.mark.parametrize("patched", [False, True])
def test_parts_add_up(model, patched):
    if patched:
        tigon.transformers.apply_to(model)
    found = tigon.transformers.profile(model, batch_of(model), torch.optim.AdamW(model.parameters()))
    assert set(found["groups"]) == set(_profile.GROUPS)
    assert sum(found["groups"].values()) == pytest.approx(found["step"], rel=0.05)
    assert found["groups"]["products"] > 0 and found["groups"]["attention"] > 0 and found["groups"]["optimizer"] > 0
    assert found["groups"]["gaps"] < found["step"]
    for row in found["rows"]:
        if row["group"] != "gaps":
            assert row["seconds"] == pytest.approx(row["forward"] + row["backward"] + row["optimizer"])
    assert all(p.grad is None for p in model.parameters())


def test_operators_are_named(model):
    tigon.transformers.apply_to(model)
    found = tigon.transformers.profile(model, batch_of(model), steps=2)
    calls = {r["name"]: r["calls"] for r in found["rows"]}
    assert {"rms_norm", "fused_add_rms_norm", "rope", "swiglu"} <= names(found, "operators")
    assert calls["rope"] == 2 * SIZES["num_hidden_layers"]
    assert names(found, "loss") == {"fused_linear_cross_entropy (tigon)"} and names(found, "attention") == {"flash_attention (tigon)"}
    assert found["groups"]["optimizer"] == 0


def test_unpatched_has_nothing_of_tigon(model):
    found = tigon.transformers.profile(model, batch_of(model), steps=1, warmup=1)
    assert not names(found, "operators")
    assert any("scaled_dot_product" in n for n in names(found, "attention"))


def test_table(model):
    text = str(tigon.transformers.profile(model, lambda m: m(**batch_of(m)).loss, steps=1, warmup=1))
    for words in ("one training step on", "products of matrices", "nothing computed"):
        assert words in text


def test_no_loss(model):
    with pytest.raises(ValueError, match="labels"):
        tigon.transformers.profile(model, {"input_ids": batch_of(model)["input_ids"]})


def test_union():
    assert _profile._union([(5, 6), (0, 2), (1, 3), (1, 2)]) == 4
    assert _profile._union([]) == 0
