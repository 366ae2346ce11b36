/* swiglu.asc.h - the two kernels of one type; see asc_each_type.h. */

#define ASC_FLAT ASC_NAME(swiglu_forward)
#define ASC_FLAT_ARGS SWIGLU_FORWARD
#define ASC_FLAT_READS ASC_READ(gate) ASC_READ(up)
#define ASC_FLAT_WRITES ASC_WRITE(y, gate32)
#define ASC_FLAT_TILE                                                      \
    swiglu_forward_tile(y32, gate32, up32, ASC_SCRATCH(h), ASC_SCRATCH(e), \
                        asc_f32(gate_multiplier), asc_f32(down_multiplier), n)
#include "asc_flat.asc.h"

#define ASC_FLAT ASC_NAME(swiglu_backward)
#define ASC_FLAT_ARGS SWIGLU_BACKWARD
#define ASC_FLAT_READS ASC_READ(dy) ASC_READ(gate) ASC_READ(up)
#define ASC_FLAT_WRITES ASC_WRITE(dgate, dy32) ASC_WRITE(dup, gate32)
#define ASC_FLAT_TILE                                                                        \
    swiglu_backward_tile(dgate32, dup32, dy32, gate32, up32, ASC_SCRATCH(h), ASC_SCRATCH(k), \
                         ASC_SCRATCH(e), asc_f32(gate_multiplier), asc_f32(down_multiplier), n)
#include "asc_flat.asc.h"
