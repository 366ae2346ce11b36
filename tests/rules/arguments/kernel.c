/* A kernel that uses what its list has; with a macro, what it lacks, or as what it is not. */
#include "maps/swiglu.args.h"
#include "shared/asc_common.h"

#define ASC_T float

ASC_KERNEL kernel(ASC_PARAMS(SWIGLU_FORWARD))
{
#if defined(OTHER_NAME)
    const int64_t multiplier = asc_f32(multiplier_of_gate) > 0;
#elif defined(TENSOR_FOR_NUMBER)
    const int64_t multiplier = asc_f32(gate) > 0;
#elif defined(OTHER_BUFFER)
    const int64_t multiplier = (int64_t)ASC_UB(float, gate16_at, 0);
#else
    const int64_t multiplier = asc_f32(gate_multiplier) > 0;
#endif
    asc_init();
    asc_copy_gm2ub_align(ASC_UB(float, gate_at, 0), gate + multiplier * gate_stride, 32);
}
