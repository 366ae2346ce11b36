"""Embedding as a module, of the name that it has in liger_kernel.transformers.experimental."""
import torch
from torch import nn

from tigon.liger import ops


class LigerEmbedding(nn.Module):
    """Where padding_idx is looked up the result is 0, and the row gets no gradient from there."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.weight = nn.Parameter(torch.randn(num_embeddings, embedding_dim))
        if padding_idx is not None:
            with torch.no_grad():
                self.weight[padding_idx] = 0

    def forward(self, indices):
        embedded = ops.LigerEmbeddingFunction.apply(self.weight, indices)
        if self.padding_idx is None:
            return embedded
        return embedded.masked_fill((indices == self.padding_idx).unsqueeze(-1), 0)
