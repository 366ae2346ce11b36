/* What forward and backward of rms_norm on the CPU share. */
#ifndef TG_RMS_NORM_CPU_H
#define TG_RMS_NORM_CPU_H

#include "rows/columns.h"
#include "rows/rows.h"

SIMD_INLINE vf normalised(el e, int llama, vf x, vf r)
{
    return llama ? v_round(e, x * r) : x * r;
}

SIMD_INLINE vf2 normalised2(el e, int llama, vf2 x, vf r)
{
    const vf2 y = {x.a * r, x.b * r};
    return llama ? v_round2(e, y) : y;
}

#endif
