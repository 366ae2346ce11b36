"""TIGON_TRANSFORMERS=1 in the environment: install(), as tigon_liger.pth, beside the package, imports this at Python's start."""
from tigon.transformers._install import install

install()
