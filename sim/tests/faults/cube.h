/* cube.h - the steps of a product of 64 x 64 x 64 halves on a cube core, for kernels with one of
 * them wrong. A and B lie as they are stored, A [m][k], B [n][k]. */
#ifndef PLANTED_CUBE_H
#define PLANTED_CUBE_H

#include "planted.h"

enum { W = 64, F = 256 }; /* a side of the tiles; halves of a fractal */

#define L1(T, offset) ((__cbuf__ T *)asc_get_phy_buf_addr(offset))
#define A1 L1(half, 0)
#define B1 L1(half, 65536)
#define A0 ((__ca__ half *)asc_get_phy_buf_addr(0))
#define B0 ((__cb__ half *)asc_get_phy_buf_addr(0))
#define C0 ((__cc__ float *)asc_get_phy_buf_addr(0))
#define GMH(at) ((__gm__ half *)(at))

#define FLAG(from, to)                    \
    asc_sync_notify(from, to, EVENT_ID0); \
    asc_sync_wait(from, to, EVENT_ID0)
#define BRING(l1, gm) asc_copy_gm2l1_nd2nz(l1, GMH(gm), 1, W, W, 0, W, W, 1, 0)
#define IMAGE(rows)                                       \
    do {                                                  \
        asc_l13d_fmatrix_config asc_how = {0};            \
        asc_how.l1_height = 1, asc_how.l1_width = (rows); \
        asc_set_l13d_fmatrix(asc_how);                    \
    } while (0)
#define LOAD_A(l0a, l1) \
    asc_copy_l12l0a(l0a, l1, W, W, 0, 0, 1, 1, 1, 1, 1, 1, false, false, false, false, W)
#define LOAD_B(l0b, l1) asc_copy_l12l0b(l0b, l1, 0, 16, 1, 0)
#define MULTIPLY(flag, init) asc_mmad(C0, A0, B0, W, W, W, flag, false, false, init)
#define MMAD(c, m, k, n, bias, init) asc_mmad(c, A0, B0, m, k, n, 0, false, bias, init)
#define ND2NZ(l1, gm, rows, pitch, c0) asc_copy_gm2l1_nd2nz(l1, gm, 1, rows, W, 0, pitch, c0, 1, 0)
#define COPY_OUT(gm, n, m, dst_stride, src_stride, quant, split, rows) \
    asc_copy_l0c2gm(gm, C0, n, m, dst_stride, src_stride, 0, quant, 0, split, rows)
#define OUT(gm, flag) \
    asc_copy_l0c2gm((__gm__ float *)(gm), C0, W, W, W, W, flag, NoQuant, 0, false, true)
#define OUT_TO_L1(l1, flag) asc_copy_l0c2l1(l1, C0, W, W, W * 16, W, flag, F322F16, 0, false, false)

/* Everything up to A and B in L1, in L0; to the product in L0C, and ready for FIX. */
#define BEGIN_CUBE() \
    asc_init();      \
    IMAGE(W);        \
    asc_set_l0c_copy_params(1, 0, 0)
#define UP_TO_L1() \
    BEGIN_CUBE();  \
    BRING(A1, x);  \
    BRING(B1, y);  \
    FLAG(PIPE_MTE2, PIPE_MTE1)
#define UP_TO_L0()  \
    UP_TO_L1();     \
    LOAD_A(A0, A1); \
    LOAD_B(B0, B1); \
    FLAG(PIPE_MTE1, PIPE_M)
#define UP_TO_L0C()    \
    UP_TO_L0();        \
    MULTIPLY(0, true); \
    FLAG(PIPE_M, PIPE_FIX)

#endif
