/* gemm_beside.args.h - what kernels are given that multiply while they compute a
 * loss; see asc_args.h. */
#ifndef GEMM_BESIDE_ARGS_H
#define GEMM_BESIDE_ARGS_H

#include "gemm.args.h"
#include "losses/cross_entropy.args.h"
#include "losses/softmax_jsd.args.h"

/* Both lists; how many blocks the loss has, and how many vector cores share them. */
#define GEMM_BESIDE_CROSS_ENTROPY(X) \
    GEMM(X) CROSS_ENTROPY(X) X(I64, vector_blocks) X(I64, vector_cores)
#define GEMM_BESIDE_SOFTMAX_JSD(X) GEMM(X) SOFTMAX_JSD(X) X(I64, vector_blocks) X(I64, vector_cores)

#endif
