/* gemm_beside.mix.asc.c - a product on the cube cores beside a loss of f32 logits on the vector
 * cores. One needs nothing of the other, so no core waits for another; each does what it does in
 * gemm and in the loss's own kernel. As many vector cores take part as are ready with the loss when
 * the product is: more of them would take memory's rate from the product while it needs it. */
#include "gemm.h"
#include "gemm_beside.args.h"
#include "losses/cross_entropy_ring.h"
#include "losses/softmax_jsd.h"

/* The first block of the loss that a vector core does, one of `cores`; those that take no part
 * begin behind all. One of each cube core comes first: they do not share its way to memory then. */
static inline __aicore__ int64_t gemm_beside_first(int64_t cores)
{
    const int64_t core = asc_get_sub_block_id() * asc_get_block_num() + asc_get_block_idx();
    return core < cores ? core : INT64_MAX;
}

#define ASC_TEMPLATE "products/gemm_beside.asc.h"
#include "shared/asc_each_type.h"
