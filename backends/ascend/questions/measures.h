/* measures.h - the inputs and the measures that questions.inc names. */
#ifndef ASCEND_QUESTIONS_MEASURES_H
#define ASCEND_QUESTIONS_MEASURES_H

#include "questions.h"

enum { QUESTION_SIDE = 32 }; /* of a product of matrices */

void fill_ramp(const question *q, float *to), fill_value(const question *q, float *to),
    fill_square(const question *q, float *to), fill_nan(const question *q, float *to),
    fill_range(const question *q, float *to), fill_product(const question *q, float *to),
    fill_halfway(const question *q, float *to), fill_negative(const question *q, float *to),
    fill_order(const question *q, float *to), fill_fractions(const question *q, float *to);

/* Of B of fill_product(), which counts: c[i][j] = 32 j + i - 2 of the second identity of A, ... */
float question_product_b(int row, int k);

double measure_first(const question *q), measure_at(const question *q),
    measure_where(const question *q), measure_special(const question *q),
    measure_wrong(const question *q), measure_halfway(const question *q),
    measure_fraction(const question *q), measure_bits(const question *q),
    measure_ulp(const question *q), measure_second(const question *q),
    measure_step(const question *q), measure_step_down(const question *q),
    measure_rate(const question *q), measure_rate_down(const question *q),
    measure_ratio(const question *q), measure_more(const question *q);

#endif
