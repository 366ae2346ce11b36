"""tigon.transformers.install(): Trainer's use_liger_kernel=True on Tigon, in an environment without Liger-Kernel and in one with it."""
import copy
import importlib.metadata
import os
import subprocess
import sys
import warnings

import pytest
import torch

# Liger's sources are in the path of other tests here.
LIGER = [p for p in sys.path if "liger_kernel" in p]
sys.path[:] = [p for p in sys.path if p not in LIGER]

import transformers  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments  # noqa: E402

import tigon.transformers  # noqa: E402
from tigon.transformers import _install  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIZES = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.fixture
def installed():
    tigon.transformers.install()
    yield
    tigon.transformers.uninstall()


def llama(**more):
    torch.manual_seed(3)
    return LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2, max_position_embeddings=64, **more))


def examples(count=24):
    random = torch.Generator().manual_seed(5)
    rows = [torch.randint(1, 96, (int(n),), generator=random).tolist() for n in torch.randint(5, 30, (count,), generator=random)]
    return [{"input_ids": row, "labels": row} for row in rows]


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)

    def padded(name, value):
        return torch.tensor([row[name] + [value] * (longest - len(row[name])) for row in rows])

    ids = padded("input_ids", 0)
    return {"input_ids": ids, "labels": padded("labels", -100), "attention_mask": (ids != 0).long()}


def trained(tmp_path, model, **options):
    """The losses of 20 steps of Trainer, and the model."""
    given = {"max_steps": 20, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "learning_rate": 1e-3, "logging_steps": 1}
    arguments = TrainingArguments(str(tmp_path), use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, seed=1, **given, **options)
    trainer = Trainer(model, arguments, train_dataset=examples(), data_collator=collate)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], trainer.model


def assert_same(found, expected):
    losses, model = found
    assert len(losses) == 20
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected[0]), rtol=2e-4, atol=2e-4)
    for (name, parameter), other in zip(model.named_parameters(), expected[1].parameters()):
        assert (parameter - other).norm() <= 1e-3 * other.norm(), name


CONFIGS = [
    None,
    {"rope": False, "swiglu": True},
    {"fused_linear_cross_entropy": False, "cross_entropy": True},
    {"rms_norm": True, "mlp": False, "attention": False},
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_trainer(tmp_path, installed, config):
    expected = trained(tmp_path, llama())
    found = trained(tmp_path, llama(), use_liger_kernel=True, liger_kernel_config=config)
    ran = tigon.transformers.status(found[1])
    assert "tigon" in ran.values() and "tigon" not in tigon.transformers.status(expected[1]).values()
    assert (ran["model.layers.0.mlp"] == "tigon") == (not config or config.get("mlp", True))
    assert_same(found, expected)


def test_trainer_of_adapters(tmp_path, installed):
    peft = pytest.importorskip("peft")

    def adapted():
        torch.manual_seed(4)
        return peft.get_peft_model(llama(), peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = trained(tmp_path, adapted(), use_liger_kernel=True)
    assert "tigon" in tigon.transformers.status(found[1]).values()
    assert_same(found, trained(tmp_path, adapted()))


def test_without(tmp_path):
    """Before install() and after uninstall() Trainer says that Liger is missing."""
    for _ in range(2):
        assert not transformers.utils.is_liger_kernel_available()
        with pytest.raises(ImportError, match="liger"):
            trained(tmp_path, llama(), use_liger_kernel=True)
        tigon.transformers.install()
        assert transformers.utils.is_liger_kernel_available()
        assert importlib.metadata.version("liger_kernel") == importlib.metadata.version("liger-kernel") == _install.VERSION
        tigon.transformers.uninstall()


@pytest.mark.parametrize(
    "config, words",
    [
        ({"swglu": True}, "liger_kernel_config has 'swglu', expected one of "),
        ({"swiglu": True, "geglu": False}, "swiglu and geglu are one option, mlp, and differ"),
        ({"cross_entropy": True, "fused_linear_cross_entropy": True}, "cannot both be asked for"),
    ],
)
def test_wrong_options(tmp_path, installed, config, words):
    with pytest.raises((TypeError, ValueError), match=words):
        trained(tmp_path, llama(), use_liger_kernel=True, liger_kernel_config=config)


def test_options_of_other_models(installed):
    model = llama()
    _install.apply_for_trainer(model, layer_norm=True, geglu=False)
    assert tigon.transformers.status(model)["model.layers.0.mlp"] != "tigon"


class Nothing(transformers.PreTrainedModel):
    """A model of a type that nobody knows, with nothing that Tigon has."""

    config_class = transformers.PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(3, 3)


def test_unknown_model(installed):
    with pytest.warns(UserWarning, match="the model is as transformers made it"):
        _install.apply_for_trainer(Nothing(transformers.PretrainedConfig()))


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("items", [None, 7, torch.tensor(9)])
def test_cross_entropy(installed, items, shifted):
    """The option cross_entropy beside transformers' loss: values and gradients."""
    from transformers.loss.loss_utils import ForCausalLMLoss

    logits = torch.randn(2, 9, 33, requires_grad=True)
    labels = torch.randint(33, (2, 9)).masked_fill(torch.rand(2, 9) < 0.3, -100)
    more = {"shift_labels": labels} if shifted else {}
    results = []
    for function in (_install._loss, ForCausalLMLoss):
        loss = function(logits, labels, 33, num_items_in_batch=items, **more)
        results.append((loss, *torch.autograd.grad(loss, logits)))
    torch.testing.assert_close(*results)
    assert _install._loss(logits, torch.full_like(labels, -100), 33).isnan()


def test_names(installed):
    """What TRL imports from Liger."""
    from liger_kernel.chunked_loss import LigerFusedLinearDPOLoss, LigerFusedLinearGRPOLoss, LigerFusedLinearJSDLoss, LigerFusedLinearKTOLoss
    from liger_kernel.transformers import AutoLigerKernelForCausalLM, LigerRMSNorm

    names = LigerFusedLinearDPOLoss, LigerFusedLinearGRPOLoss, LigerFusedLinearJSDLoss, LigerFusedLinearKTOLoss
    assert all(name.__module__.startswith("tigon.liger.") for name in (*names, LigerRMSNorm))
    assert AutoLigerKernelForCausalLM is tigon.transformers.AutoTigonModelForCausalLM
    for name in ("ops", "megatron", "transformers.monkey_patch"):
        with pytest.raises(ImportError):
            importlib.import_module(f"liger_kernel.{name}")


PROGRAM = """
import sys
lazy = "torch" not in sys.modules and "transformers" not in sys.modules
import transformers
from transformers.utils import is_liger_kernel_available
from transformers.integrations.liger import apply_liger_kernel
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=96, hidden_size=64, intermediate_size=112, num_hidden_layers=1, num_attention_heads=4))
apply_liger_kernel(model, None)
import liger_kernel, tigon.transformers
print(lazy, type(model.lm_head).__module__.partition(".")[0], "tigon" in tigon.transformers.status(model).values(),
      getattr(liger_kernel, "__file__", None) is not None)
"""


def python(program, *paths, **variables):
    path = os.pathsep.join([os.path.dirname(os.path.dirname(tigon.__file__)), *paths])
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.parametrize("with_liger", [False, True])
def test_at_start(with_liger):
    """TIGON_TRANSFORMERS=1, and the line of tigon_liger.pth, which Python runs as it starts."""
    if with_liger and not LIGER:
        pytest.skip("Liger-Kernel is not in the path")
    with open(os.path.join(ROOT, "bindings/python/tigon_liger.pth")) as file:
        start = file.read()
    assert python(start + PROGRAM, *LIGER * with_liger, TIGON_TRANSFORMERS="1") == ["True", "torch", "True", str(with_liger)]
    assert python(start + "\nimport sys; print('tigon' in sys.modules)", TIGON_TRANSFORMERS="0") == ["False"]


def test_copies(installed):
    """A model that Trainer patched is copied and saved as any."""
    model = llama()
    _install.apply_for_trainer(model, cross_entropy=True)
    x = torch.randint(96, (1, 8))
    torch.testing.assert_close(copy.deepcopy(model)(x, labels=x).loss, llama()(x, labels=x).loss)
