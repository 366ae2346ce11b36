/* gemm.asc.h - the kernel of one type; see asc_each_type.h. */
#include "gemm_body.asc.h"

ASC_CUBE_KERNEL ASC_NAME(gemm)(ASC_PARAMS(GEMM))
{
    ASC_NAME(gemm_body)(ASC_NAMES(GEMM));
}
