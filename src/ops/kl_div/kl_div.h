/* What the rows of kl_div share. */
#ifndef TG_KL_DIV_H
#define TG_KL_DIV_H

#include "core/services.h"

/* The factor that a reduction gives to each element's term. */
static inline double kl_scale(int64_t reduction, int64_t rows, int64_t n)
{
    const double count = reduction == TG_MEAN        ? (double)rows * (double)n
                         : reduction == TG_BATCHMEAN ? (double)rows
                                                     : 1;
    return count > 0 ? 1 / count : 0;
}

#endif
