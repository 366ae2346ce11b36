/* wrong.c - each CASE but 0 must not compile. */
#include "c_api/asc_simd.h"

void wrong_types(float *f, half *h, int32_t *i, uint8_t *u8, bfloat16_t *b, uint32_t n);
void wrong_types(float *f, half *h, int32_t *i, uint8_t *u8, bfloat16_t *b, uint32_t n)
{
    (void)f, (void)h, (void)i, (void)u8, (void)b, (void)n;
#if CASE == 0
    asc_add(f, f, f, n);
    asc_mmad(f, h, h, 16, 16, 16, 0, false, false, true);
    asc_mmad(f, b, b, 16, 16, 16, 0, false, false, true);
    asc_mmad(f, f, f, 16, 16, 16, 0, false, false, true);
    asc_copy_gm2l1((void *)h, (void *)h, 1, 2, 3, 4);
    asc_copy_gm2l1(h, h, 1, 2, 3, 4);
    asc_copy_l0c2gm(b, f, 16, 16, 16, 16, 0, F322BF16, 0, false, true);
    asc_sync_block_arrive(PIPE_FIX, 0);
    asc_fill_value_config fill = {0};
    asc_copy_gm2l0a_sync(h, h, 0, 1, 1, 0);
    asc_copy_gm2l0b_sync(b, b, 0, 1, 1, 0);
    asc_copy_l12l0a_trans_sync(h, h, 0, 1, 1, 0, false, 0);
    asc_copy_l12l0b_trans_sync(f, f, 0, 1, 1, 0, false, 0);
    asc_copy_l12bt_sync(0, f, 64);
    asc_copy_l12fb_sync(f, f, 64);
    asc_fill_l0a_sync(h, (half)0.0f, fill);
    asc_fill_l0b_sync(f, 0, fill);
    asc_fill_l1_sync(b, 0, fill);
    asc_copy_l0c2l1_sync(h, f, 16, 16, 256, 16, 0, F322F16, 0, false, false);
    (void)(asc_get_l0c2gm_relu() + asc_get_l0c2gm_prequant() + asc_get_l0c2gm_unitflag());
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
#elif CASE == 11
    asc_mmad(h, h, h, 16, 16, 16, 0, false, false, true);
#elif CASE == 12
    asc_mmad(f, h, b, 16, 16, 16, 0, false, false, true);
#elif CASE == 13
    asc_copy_gm2l1_nd2nz(h, f, 1, 16, 16, 0, 16, 16, 1, 0);
#elif CASE == 14
    asc_copy_l12l0a(h, h, 0, 1, 1);
#elif CASE == 15
    asc_copy_l0c2gm(h, i, 16, 16, 16, 16, 0, F322F16, 0, false);
#elif CASE == 16
    asc_copy_l0c2gm(u8, b, 16, 16, 16, 16, 0, REQ8, 0, false, true);
#elif CASE == 17
    asc_sync_block_arrive(PIPE_S, 0);
#elif CASE == 18
    asc_mmad(f, h, h, 16, 16, 16, 0, false, true);
#endif
}
