/* gemm_beside.mix.asc.c - a product on the cube cores beside a loss of f32 logits on the vector
 * cores. One needs nothing of the other, so no core waits for another; each does what it does in
 * gemm and in the loss's own kernel. As many vector cores take part as are ready with the loss when
 * the product is: more of them would take memory's rate from the product while it needs it. */
#include "gemm.h"
#include "gemm_beside.args.h"
#include "losses/cross_entropy_ring.h"
#include "losses/softmax_jsd.h"

#define ASC_TEMPLATE "products/gemm_beside.asc.h"
#include "shared/asc_each_type.h"
