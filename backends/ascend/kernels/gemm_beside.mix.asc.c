/* gemm_beside.mix.asc.c - a product on the cube cores beside a loss of f32 logits on the vector cores. One needs nothing of the other, so
 * no core waits for another; each does what it does in gemm and in the loss's own kernel. */
#include "cross_entropy_ring.h"
#include "gemm.h"
#include "gemm_beside.args.h"
#include "softmax_jsd.h"

#define ASC_TEMPLATE "gemm_beside.asc.h"
#include "asc_each_type.h"
