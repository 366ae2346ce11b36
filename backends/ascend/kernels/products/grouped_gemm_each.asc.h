/* grouped_gemm_each.asc.h - both kernels of one type; see asc_each_type.h. */
#include "grouped_gemm.asc.h"

#include "grouped_matrices.asc.h"
