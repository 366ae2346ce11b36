/* slices.h - a vocabulary in slices, one of them of a single class. */
#include <math.h>

#include "../common/test.h"

enum { VOCAB = 40, SLICES = 3 };
static const int64_t bounds[SLICES + 1] = {0, 13, 14, VOCAB};

static inline void near_to(const char *impl, const char *what, const float *got,
                           const float *expected, int n, float tolerance)
{
    for (int i = 0; i < n; i++)
        EXPECT(fabsf(got[i] - expected[i]) <= tolerance * (1 + fabsf(expected[i])),
               "%s: %s[%d] is %g, expected %g", impl, what, i, (double)got[i], (double)expected[i]);
}

static inline void fill(float *data, int n, double scale)
{
    static uint32_t state = 1;
    for (int i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(scale * ((double)(state >> 8) / (1 << 23) - 1));
    }
}
