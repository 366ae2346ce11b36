/* fused_ce_tvd on the CPU: the passes over a row. */
#ifndef TG_FUSED_CE_TVD_CPU_H
#define TG_FUSED_CE_TVD_CPU_H

#include "rows/level.h"
#include "simd.h"

#define cetvd_sum_row TG_AT_LEVEL(cetvd_sum_row)
#define cetvd_distance TG_AT_LEVEL(cetvd_distance)
#define cetvd_write_row TG_AT_LEVEL(cetvd_write_row)

/* Two rows of logits of one type. */
typedef struct cetvd_row {
    el type;
    const char *student, *teacher;
    int64_t n;
    const char *next_student, *next_teacher; /* the rows to ask for; NULL: none */
} cetvd_row;

/* log_softmax of a row: (x - max) - log_sum. */
typedef struct cetvd_origin {
    float max;
    double log_sum;
} cetvd_origin;

typedef struct cetvd_distances {
    double tvd, sigma;
} cetvd_distances;

/* The gradient is p times one of these: where p is above q, below it, and where they agree. */
typedef struct cetvd_gradient {
    float lse, apart; /* of the student; less that of the teacher */
    float above, below, tie;
} cetvd_gradient;

cetvd_origin cetvd_sum_row(el type, const char *x, int64_t n);
cetvd_distances cetvd_distance(const cetvd_row *r, const cetvd_origin *student,
                               const cetvd_origin *teacher);
/* out may be the student's row. */
void cetvd_write_row(const cetvd_row *r, const cetvd_gradient *g, char *out);

#endif
