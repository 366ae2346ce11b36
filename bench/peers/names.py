"""Names in the records, in the order of the tables' columns."""

MODES = ("forward", "backward", "full")
ALLOCATORS = ("kept", "default")  # "kept": what was allocated is kept for the next call
PEERS = ("eager", "compile", "liger", "quack")
OTHERS = {"onednn": "oneDNN's primitive, with weights in f32", "cudnn": "PyTorch's attention by cuDNN",
          "flash": "PyTorch's attention by FlashAttention", "flex": "PyTorch's flex_attention, compiled",
          "flex_eager": "flex_attention, eager", "varlen": "PyTorch's varlen_attn", "grouped_mm": "experts of transformers by grouped_mm",
          "grouped_mm_compile": "the same, compiled", "batched_mm": "experts of transformers by batched_mm"}  # in a table of their own
