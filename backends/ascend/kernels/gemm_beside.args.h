/* gemm_beside.args.h - what kernels are given that multiply while they compute a loss; see asc_args.h. */
#ifndef GEMM_BESIDE_ARGS_H
#define GEMM_BESIDE_ARGS_H

#include "cross_entropy.args.h"
#include "gemm.args.h"
#include "softmax_jsd.args.h"

/* Both lists, and how many blocks the loss has: vector cores behind them have nothing to do. */
#define GEMM_BESIDE_CROSS_ENTROPY(X) GEMM(X) CROSS_ENTROPY(X) X(I64, vector_blocks)
#define GEMM_BESIDE_SOFTMAX_JSD(X) GEMM(X) SOFTMAX_JSD(X) X(I64, vector_blocks)

#endif
