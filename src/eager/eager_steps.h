/* src/eager/eager_steps.h - the passes behind eager.h, compiled once per ISA level. */
#ifndef TG_EAGER_STEPS_H
#define TG_EAGER_STEPS_H

#include "eager/eager.h"

/* One step over rows [begin, end); b is unused by unary steps. Operands broadcast as eager.h says.
 */
typedef struct eager_step {
    eager_op op;
    mat out, a, b;
    float scalar; /* the second operand where b has no data */
} eager_step;

typedef struct eager_steps {
    void (*map)(const eager_step *step, int64_t begin, int64_t end);
    void (*reduce)(const eager_step *step, int64_t begin, int64_t end); /* over columns */
    void (*sum_columns)(const eager_step *step, int64_t begin,
                        int64_t end); /* of columns [begin, end) */
} eager_steps;

#endif
