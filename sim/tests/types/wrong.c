/* wrong.c - each CASE but 0 must not compile. */
#include "c_api/asc_simd.h"

void wrong_types(float *f, half *h, int32_t *i, uint8_t *u8, bfloat16_t *b, uint32_t n);
void wrong_types(float *f, half *h, int32_t *i, uint8_t *u8, bfloat16_t *b, uint32_t n)
{
    (void)f, (void)h, (void)i, (void)u8, (void)b, (void)n;
#if CASE == 0
    asc_add(f, f, f, n);
#elif CASE == 1
    asc_add(f, f, h, n);
#elif CASE == 2
    asc_add(b, b, b, n);
#elif CASE == 3
    asc_exp(i, i, n);
#elif CASE == 4
    asc_half2float(h, f, n);
#elif CASE == 5
    asc_add(f, f, f, 1, 2, n);
#elif CASE == 6
    asc_lt(u8, i, i, 1, 1, 1, 1, 8, 8, 8);
#elif CASE == 7
    asc_copy_gm2ub_align(f, h, n);
#elif CASE == 8
    asc_sync_pipe(PIPE_S);
#elif CASE == 9
    asc_duplicate(u8, 1, n);
#elif CASE == 10
    asc_sync_notify((pipe_t)n, PIPE_V, EVENT_ID0);
#endif
}
