"""What programs do with a patched model beside training it: each beside the same with the model as transformers made it."""
import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402
import tiny  # noqa: E402


def agree(found, expected, tolerance=2e-5):
    assert found.keys() == expected.keys()
    for name, e in expected.items():
        torch.testing.assert_close(found[name], e, rtol=1e-4, atol=tolerance * e.abs().max().item() + 1e-9, msg=lambda words: f"{name}: {words}")


PROMPTS = {
    "PROMPT_TUNING": lambda peft: peft.PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"),
    "P_TUNING": lambda peft: peft.PromptEncoderConfig(num_virtual_tokens=4, encoder_hidden_size=16, task_type="CAUSAL_LM"),
    "PREFIX_TUNING": lambda peft: peft.PrefixTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"),
    "CPT": lambda peft: peft.CPTConfig(cpt_token_ids=[5, 6, 7, 8], cpt_mask=[1] * 4, cpt_tokens_type_mask=[1, 2, 3, 4], task_type="CAUSAL_LM",
                                       opt_weighted_loss_type="decay", opt_loss_decay_factor=0.9),
}


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("method", PROMPTS)
def test_prompts(method, order):
    """CPT computes the loss itself, from logits."""
    peft = pytest.importorskip("peft")
    base = tiny.make("llama")
    outcomes = []
    for patched in (True, False):
        model = copy.deepcopy(base)
        if patched and order == "before":
            tigon.transformers.apply_to(model)
        torch.manual_seed(3)
        model = peft.get_peft_model(model, PROMPTS[method](peft))
        if patched and order == "after":
            tigon.transformers.apply_to(model)
        outcomes.append(tiny.loss_and_gradients(model.train(), {**tiny.batch(base), "attention_mask": torch.ones(2, tiny.LENGTH)}))
    agree(*outcomes)
    assert len(outcomes[0]) > 1


def test_logits_that_are_read():
    """Of a frozen model that is given embeddings, beside its loss: where they are changed in place, they stay so."""
    base = tiny.make("gemma2").requires_grad_(False)
    given = tiny.batch(base)
    embedded = base.get_input_embeddings()(given.pop("input_ids"))
    outcomes = []
    for model in (tigon.transformers.apply_to(copy.deepcopy(base)), base):
        x = embedded.clone().requires_grad_()
        out = model(inputs_embeds=x, **given)
        with torch.no_grad():
            sure = out.logits.max()
        out.logits.mul_(2)
        loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), given["labels"].flatten()) + out.loss
        loss.backward()
        outcomes.append({"sure": sure, "loss": loss.detach(), "gradient": x.grad})
    agree(*outcomes)


def test_logits_that_a_model_sets():
    """Chameleon has those of its pieces of images be as small as they can."""
    pieces = {"embed_dim": 8, "num_embeddings": 16, "base_channels": 32, "channel_multiplier": [1], "num_res_blocks": 1, "latent_channels": 8,
              "resolution": 16, "attn_type": "none"}
    names = {"<image>": tiny.IMAGE, "IMGIMGAA<racm3:break>": tiny.IMAGE + 1, "IMGIMGBBZ": tiny.IMAGE + 2}
    made = transformers.ChameleonConfig(**tiny.TEXT, vocabulary_map=names, vq_config=pieces)
    torch.manual_seed(42)
    plain = transformers.ChameleonForConditionalGeneration(made).train()
    ids = tiny.batch(tiny.make("llama"))["input_ids"]
    given = {"input_ids": ids, "labels": ids}
    agree(*(tiny.loss_and_gradients(model, given) for model in (tigon.transformers.apply_to(copy.deepcopy(plain)), plain)))


READERS = {
    "deepseek_v32": {**tiny.ROUTED, **tiny.LATENT, "head_dim": 8, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 6},
    "doge": {"keep_window_size": 6},
}


@pytest.mark.parametrize("kind", READERS)
def test_attention_that_computes_with_its_mask(kind):
    """It is given transformers' own, and status() says so."""
    torch.manual_seed(42)
    made = transformers.AutoConfig.for_model(kind, **{**tiny.TEXT, **READERS[kind]})
    plain = transformers.AutoModelForCausalLM.from_config(made).train()
    model = tigon.transformers.apply_to(copy.deepcopy(plain))
    assert "computes with its mask" in tigon.transformers.status(model)["attention"]
    for padded in (False, True):
        given = tiny.batch(plain, padded=padded)
        agree(tiny.loss_and_gradients(model, given), tiny.loss_and_gradients(plain, given))
    plain.set_attn_implementation("tigon")
    for padded in (False, True):
        with pytest.raises((ValueError, RuntimeError), match="computes with its mask: take another attn_implementation|must match the size"):
            plain(**tiny.batch(plain, padded=padded))
