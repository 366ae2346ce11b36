"""embedding under Liger-Kernel's names."""
from tigon.liger.ops._shared import Function, like, rows
from tigon.liger.ops._traced import ops


def embedding_forward(embeddings, indices):
    return ops.embedding_forward(embeddings, indices)


def embedding_backward(embeddings, indices, grad_output):
    return ops.embedding_backward(rows(grad_output), indices, dweight=like(embeddings))


class LigerEmbeddingFunction(Function):
    @staticmethod
    def forward(ctx, embeddings, indices):
        ctx.save_for_backward(embeddings, indices)
        return embedding_forward(embeddings, indices)

    @staticmethod
    def backward(ctx, grad_output):
        return embedding_backward(*ctx.saved_tensors, grad_output), None
