/* embedding: what its shapes do not say of the arguments. */
#include "core/services.h"

tg_status tg_check_embedding_forward(const tg_embedding_forward_args *args)
{
    return tg_expect_indices("embedding_forward", "indices", args->indices, args->weight->shape[0],
                             NULL);
}

tg_status tg_check_embedding_backward(const tg_embedding_backward_args *args)
{
    return tg_expect_indices("embedding_backward", "indices", args->indices,
                             args->dweight->shape[0], NULL);
}
