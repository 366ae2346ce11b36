"""Every model type that tigon.transformers knows, tiny and with random weights (tiny.py), beside the same model as transformers made it."""
import pytest

transformers = pytest.importorskip("transformers")
import tiny  # noqa: E402


def test_the_types_of_liger_kernel():
    """Its table of patches names no type that is missing here."""
    patches = pytest.importorskip("liger_kernel.transformers.monkey_patch")
    known = {*tiny.TYPES, *tiny.ABSENT}
    assert not set(patches.MODEL_TYPE_TO_APPLY_LIGER_FN) - known
    assert len(known) == 68


def test_what_is_absent():
    """A type without a tiny model is one that the installed transformers has not."""
    assert not set(tiny.ABSENT) & set(transformers.CONFIG_MAPPING)
