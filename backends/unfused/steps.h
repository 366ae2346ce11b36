/* steps.h - the passes behind eager.h, compiled once for each level of processors. */
#ifndef UNFUSED_STEPS_H
#define UNFUSED_STEPS_H

#include "eager.h"

/* One step over rows [begin, end); b is unused by unary steps. Operands
 * broadcast as eager.h says. */
typedef struct eager_step {
    eager_op op;
    mat out, a, b;
    float scalar;   /* the second operand where b has no data */
    uint64_t shake; /* results move by a rounding each, as this key has it; 0: they do not */
} eager_step;

typedef void eager_pass(const eager_step *step, int64_t begin, int64_t end);

typedef struct eager_steps {
    eager_pass *map;
    eager_pass *reduce;      /* over columns */
    eager_pass *sum_columns; /* of columns [begin, end) */
} eager_steps;

#endif
