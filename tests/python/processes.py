"""Processes of a test that reach each other by gloo."""
import contextlib
import os

import torch
import torch.distributed as dist


@contextlib.contextmanager
def gloo_group(rank, world, folder):
    """The body runs as one of `world` processes. Where it raises nothing the process ends here, with success."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=world)
    torch.set_num_threads(1)
    yield
    dist.barrier()
    dist.destroy_process_group()
    # The interpreter is not taken down: PyTorch has threads that nobody joins, and now and then (FSDP2, one run of 30 beside others) one is
    # destroyed there while it runs, which aborts the process after all is done: "terminate called without an active exception".
    os._exit(0)
