"""Every model type that tigon.transformers knows, tiny and with random weights (tiny.py), beside the same model as transformers made it."""
import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")
import tiny  # noqa: E402
import tigon.transformers  # noqa: E402

# A type: what its gradients may differ by, beside their largest, where rounding alone makes more than 2e-5 of it.
ROUNDED = {"gemma2": 2e-4, "gemma4": 1e-4, "gemma4_text": 1e-4, "qwen3_5": 1e-4, "qwen3_5_moe": 1e-4}


def test_the_types_of_liger_kernel():
    """Its table of patches names no type that is missing here."""
    patches = pytest.importorskip("liger_kernel.transformers.monkey_patch")
    known = {*tiny.TYPES, *tiny.ABSENT}
    assert not set(patches.MODEL_TYPE_TO_APPLY_LIGER_FN) - known
    assert len(known) == 68


def test_what_is_absent():
    """A type without a tiny model is one that the installed transformers has not."""
    assert not set(tiny.ABSENT) & set(transformers.CONFIG_MAPPING)


@pytest.fixture(params=tiny.TYPES)
def models(request):
    plain = tiny.make(request.param)
    return plain, tigon.transformers.apply_to(copy.deepcopy(plain))


def same(found, expected, tolerance):
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert (found[name] - value).abs().max() <= tolerance * max(1e-3, value.abs().max().item()), name


def test_loss_and_gradients(models):
    """In f32, of a whole batch and of one with padding; and the loss comes without logits, where there is a loss."""
    plain, ours = models
    tolerance = ROUNDED.get(plain.config.model_type, 2e-5)
    for padded in (False, True)[:1 if plain.config.model_type == "pixtral" else 2]:
        given = tiny.batch(plain, padded=padded)
        if tiny.has_loss(plain):
            same(tiny.loss_and_gradients(ours, given), tiny.loss_and_gradients(plain, given), tolerance)
            assert ours(**given).get("logits") is None
        elif not padded:
            same(tiny.loss_and_gradients(ours, given), tiny.loss_and_gradients(plain, given), tolerance)


def test_arguments_of_the_loss(models):
    plain, ours = models
    if not tiny.has_loss(plain):
        pytest.skip("it has no loss")
    given = tiny.batch(plain)
    labels = given["labels"]
    calls = ({"num_items_in_batch": torch.tensor(7)}, {"shift_labels": labels.roll(-2, 1)}, {"output_router_logits": True},
             {"logits_to_keep": 5, "labels": labels[:, -5:]})
    for more in calls:
        try:
            expected = tiny.loss_and_gradients(plain, {**given, **more})
        except (TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
            with pytest.raises(type(error)):
                tiny.loss_and_gradients(ours, {**given, **more})
            continue
        same(tiny.loss_and_gradients(ours, {**given, **more}), expected, ROUNDED.get(plain.config.model_type, 1e-4))


def test_undo(models):
    plain, ours = models
    tigon.transformers.undo(ours)
    assert [type(m) for m in ours.modules()] == [type(m) for m in plain.modules()]
    given = tiny.batch(plain)
    expected = tiny.loss_and_gradients(plain, given)
    assert all(torch.equal(value, expected[name]) for name, value in tiny.loss_and_gradients(ours, given).items())


FEW = ("llama", "qwen3", "gemma3", "gpt_oss", "qwen2_vl")


@pytest.mark.parametrize("model_type", FEW)
@pytest.mark.parametrize("how", ("deepcopy", "checkpointing", "save_pretrained", "LoRA before", "LoRA after"))
def test_with_others(how, model_type, tmp_path):
    peft = pytest.importorskip("peft") if how.startswith("LoRA") else None
    plain = tiny.make(model_type)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain))
    given = tiny.batch(plain)
    if how == "deepcopy":
        ours = copy.deepcopy(ours)
    elif how == "checkpointing":
        for model in (plain, ours):
            model.gradient_checkpointing_enable({"use_reentrant": False})
        given["use_cache"] = False
    elif how == "save_pretrained":
        ours.save_pretrained(tmp_path)
        ours = tigon.transformers.apply_to(type(plain).from_pretrained(tmp_path)).train()
    else:
        config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
        ours = tigon.transformers.undo(ours) if how == "LoRA before" else ours
        adapted = []
        for model in (ours, plain):
            torch.manual_seed(3)
            adapted.append(peft.get_peft_model(model, config).train())
        ours, plain = adapted
        if how == "LoRA before":
            tigon.transformers.apply_to(ours)
        assert "tigon" in tigon.transformers.status(ours).values()
        results = []
        for model in (ours, plain):
            loss = model(**given).loss
            loss.backward()
            results.append({"loss": loss.detach(), **{n: p.grad for n, p in model.named_parameters() if p.grad is not None}})
        return same(*results, 2e-5)
    same(tiny.loss_and_gradients(ours, given), tiny.loss_and_gradients(plain, given), 2e-5)
