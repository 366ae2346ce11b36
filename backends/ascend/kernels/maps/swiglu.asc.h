/* swiglu.asc.h - the kernels of one type; see asc_each_type.h. */

#include "swiglu_forward.asc.h"

#define ASC_FLAT ASC_NAME(swiglu_backward)
#define ASC_FLAT_ARGS SWIGLU_BACKWARD
#define ASC_FLAT_READS ASC_READ(dy) ASC_READ(gate) ASC_READ(up)
#define ASC_FLAT_WRITES ASC_WRITE(dgate, dy32) ASC_WRITE(dup, gate32)
#define ASC_FLAT_TILE                                                                           \
    asc_silu_gradients(dgate32, dup32, (__ubuf__ float *)0, dy32, gate32, up32, ASC_SCRATCH(h), \
                       ASC_SCRATCH(k), ASC_SCRATCH(e), asc_f32(gate_multiplier),                \
                       asc_f32(down_multiplier), n)
#include "shared/asc_flat.asc.h"

#define ASC_FLAT ASC_NAME(swiglu_backward_y)
#define ASC_FLAT_ARGS SWIGLU_BACKWARD_Y
#define ASC_FLAT_READS ASC_READ(dy) ASC_READ(gate) ASC_READ(up)
#define ASC_FLAT_WRITES \
    ASC_WRITE(dgate, dy32) ASC_WRITE(dup, gate32) ASC_WRITE(y, ASC_SCRATCH(result))
#define ASC_FLAT_TILE                                                                           \
    asc_silu_gradients(dgate32, dup32, y32, dy32, gate32, up32, ASC_SCRATCH(h), ASC_SCRATCH(k), \
                       ASC_SCRATCH(e), asc_f32(gate_multiplier), asc_f32(down_multiplier), n)
#include "shared/asc_flat.asc.h"

#define ASC_FLAT ASC_NAME(swiglu_forward_limited)
#define ASC_FLAT_ARGS SWIGLU_FORWARD_LIMITED
#define ASC_FLAT_READS ASC_READ(gate) ASC_READ(up)
#define ASC_FLAT_WRITES ASC_WRITE(y, gate32)
#define ASC_FLAT_TILE \
    swiglu_limited_tile(y32, gate32, up32, ASC_SCRATCH(h), ASC_SCRATCH(e), SWIGLU_LIMITS_GIVEN, n)
#include "shared/asc_flat.asc.h"

#define SWIGLU_LIMITED_GRADIENTS(dgate, dup, y, gate, up)                                         \
    swiglu_limited_gradients(dgate, dup, y, dy32, gate, up, ASC_SCRATCH(h), ASC_SCRATCH(k),       \
                             ASC_SCRATCH(e), ASC_SCRATCH(c), ASC_SCRATCH(v), SWIGLU_LIMITS_GIVEN, \
                             n)

#define ASC_FLAT ASC_NAME(swiglu_backward_limited)
#define ASC_FLAT_ARGS SWIGLU_BACKWARD_LIMITED
#define ASC_FLAT_READS ASC_READ(dy) ASC_READ(gate) ASC_READ(up)
#define ASC_FLAT_WRITES ASC_WRITE(dgate, dy32) ASC_WRITE(dup, gate32)
#define ASC_FLAT_TILE SWIGLU_LIMITED_GRADIENTS(dgate32, dup32, (__ubuf__ float *)0, gate32, up32)
#include "shared/asc_flat.asc.h"

#define ASC_FLAT ASC_NAME(swiglu_backward_limited_y)
#define ASC_FLAT_ARGS SWIGLU_BACKWARD_LIMITED_Y
#define ASC_FLAT_READS ASC_READ(dy) ASC_READ(gate) ASC_READ(up)
#define ASC_FLAT_WRITES \
    ASC_WRITE(dgate, dy32) ASC_WRITE(dup, gate32) ASC_WRITE(y, ASC_SCRATCH(result))
#define ASC_FLAT_TILE SWIGLU_LIMITED_GRADIENTS(dgate32, dup32, y32, gate32, up32)
#include "shared/asc_flat.asc.h"

#define ASC_PAIRS(step) ASC_NAME(swiglu_forward_pairs##step)
#define ASC_PAIRS_ARGS SWIGLU_FORWARD_PAIRS
#define ASC_PAIRS_WRITES ASC_WRITE(y, first)
#define ASC_PAIRS_TILE \
    swiglu_limited_tile(y32, first, second, ASC_SCRATCH(h), ASC_SCRATCH(e), SWIGLU_LIMITS_GIVEN, n)
#include "shared/asc_pairs.asc.h"

#define ASC_PAIRS(step) ASC_NAME(swiglu_backward_pairs##step)
#define ASC_PAIRS_ARGS SWIGLU_BACKWARD_PAIRS
#define ASC_PAIRS_READS ASC_READ(dy)
#define ASC_PAIRS_WRITES ASC_WRITE(y, ASC_SCRATCH(result))
#define ASC_PAIRS_OUT
#define ASC_PAIRS_TILE SWIGLU_LIMITED_GRADIENTS(first, second, y ? y32 : 0, first, second)
#include "shared/asc_pairs.asc.h"

#include "shared/asc_halves.asc.h"

#define ASC_SHORT ASC_NAME(swiglu_forward_short)
#define ASC_SHORT_ARGS SWIGLU_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(gate)
#define ASC_SHORT_RESULTS ASC_WRITE(y)
#define ASC_SHORT_EACH (columns / 2)
#define ASC_SHORT_FIRST ASC_HALF_FIRST
#define ASC_SHORT_TILE                                                                  \
    asc_silu_product(ASC_SCRATCH(gate32), ASC_SCRATCH(gate32), ASC_SCRATCH(gate32) + n, \
                     ASC_SCRATCH(h), ASC_SCRATCH(e), asc_f32(gate_multiplier),          \
                     asc_f32(down_multiplier), (uint32_t)n);                            \
    ASC_HALF_OUT(y_at, ASC_SCRATCH(gate32))
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(swiglu_backward_short)
#define ASC_SHORT_ARGS SWIGLU_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(gate)
#define ASC_SHORT_WRITES ASC_WRITE(dgate, d32)
#define ASC_SHORT_VALUES ASC_READ(dy)
#define ASC_SHORT_EACH (columns / 2)
#define ASC_SHORT_FIRST ASC_HALF_FIRST
#define ASC_SHORT_TILE                                                                           \
    ASC_HALF_IN(ASC_SCRATCH(dy32), dy_at);                                                       \
    asc_silu_gradients(ASC_SCRATCH(d32), ASC_SCRATCH(d32) + n, (__ubuf__ float *)0,              \
                       ASC_SCRATCH(dy32), ASC_SCRATCH(gate32), ASC_SCRATCH(gate32) + n,          \
                       ASC_SCRATCH(h), ASC_SCRATCH(k), ASC_SCRATCH(e), asc_f32(gate_multiplier), \
                       asc_f32(down_multiplier), (uint32_t)n)
#include "shared/asc_short.asc.h"

#undef SWIGLU_LIMITED_GRADIENTS
