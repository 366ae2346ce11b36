/* cube.c - calls of the cube core: memories, ranges, copies out, modes, cores. */
#include "cube.h"

/* ---- memories ---- */

KERNEL_CUBE(l1_overflow)
{
    BEGIN_CUBE();
    BRING(L1(half, 524288 - EITHER(8192, 8448)), x); // FAULT: cube-overflow
}

KERNEL_CUBE(l0a_overflow)
{
    UP_TO_L1();
    LOAD_A(A0 + 128 * F - EITHER(15, 16) * F, A1); // FAULT: cube-overflow
}

KERNEL_CUBE(l0b_overflow)
{
    UP_TO_L1();
    asc_copy_l12l0b(B0 + 120 * F, B1, 0, EITHER(9, 8), 1, 0); // FAULT: cube-overflow
}

KERNEL_CUBE(l0c_overflow)
{
    UP_TO_L0();
    MMAD(C0 + 32768 - EITHER(2048, 4096), W, W, W, 0, 1); // FAULT: cube-overflow
}

KERNEL_CUBE(bias_overflow)
{
    UP_TO_L1();
    asc_copy_l12bt(EITHER(512, 0), A1, 0, 1, 32, 0, 0); // FAULT: cube-overflow
}

KERNEL_CUBE(l0a_alignment)
{
    UP_TO_L1();
    LOAD_A(A0 + EITHER(128, 256), A1); // FAULT: cube-alignment
}

KERNEL_CUBE(l0c_alignment)
{
    UP_TO_L0();
    MMAD(C0 + EITHER(8, 16), W, W, W, 0, 1); // FAULT: cube-alignment
}

KERNEL_CUBE(l1_alignment)
{
    BEGIN_CUBE();
    BRING(A1 + EITHER(8, 16), x); // FAULT: cube-alignment
}

KERNEL_CUBE(l1_range)
{
    BEGIN_CUBE();
    BRING(EITHER((__cbuf__ half *)z, A1), x); // FAULT: cube-range
}

KERNEL_CUBE(l1_truncated)
{
    BEGIN_CUBE();
    asc_copy_gm2l1(A1, x, EITHER(1000, 1024)); // FAULT: copy-truncated
}

/* ---- ranges ---- */

#define LOAD_WITH(filter) asc_copy_l12l0a(A0, A1, W, W, 0, 0, 1, 1, filter, 1, 1, 1, 0, 0, 0, 0, W)

KERNEL_CUBE(limit_height)
{
    UP_TO_L0();
    MMAD(C0, EITHER(4096 + W, W), W, W, false, true); // FAULT: cube-limit
}

/* A pitch of a large vocabulary does not fit: the copy takes its low bits. */
KERNEL_CUBE(limit_pitch)
{
    BEGIN_CUBE();
    ND2NZ(A1, GMH(x), W, EITHER(65536 + W, W), W); // FAULT: cube-limit
}

KERNEL_CUBE(limit_columns_overlap)
{
    BEGIN_CUBE();
    ND2NZ(A1, GMH(x), W, W, EITHER(48, 64)); // FAULT: cube-limit
}

KERNEL_CUBE(limit_repeat)
{
    UP_TO_L1();
    asc_copy_l12l0b(B0, B1, 0, EITHER(256 + 16, 16), 1, 0); // FAULT: cube-limit
}

KERNEL_CUBE(limit_filter)
{
    UP_TO_L1();
    LOAD_WITH(EITHER(3, 1)); // FAULT: cube-limit
}

KERNEL_CUBE(limit_columns_out)
{
    UP_TO_L0C();
    COPY_OUT(z, EITHER(40, 48), W, W * 16, W, NoQuant, false, false); // FAULT: cube-limit
}

KERNEL_CUBE(limit_split)
{
    UP_TO_L0C();
    COPY_OUT(z, W, W, EITHER(W, W * 8), W, NoQuant, 1, EITHER(1, 0)); // FAULT: cube-limit
}

KERNEL_CUBE(limit_stride_out)
{
    UP_TO_L0C();
    COPY_OUT(z, W, 60, W, EITHER(60, 64), NoQuant, false, true); // FAULT: cube-limit
}

/* ---- copies out ---- */

KERNEL_CUBE(fix_quant_none)
{
    UP_TO_L0C();
    COPY_OUT(GMH(z), W, W, W, W, EITHER(NoQuant, F322F16), 0, 1); // FAULT: fix-quant
}

KERNEL_CUBE(fix_quant_other)
{
    UP_TO_L0C();
    __gm__ bfloat16_t *out = (__gm__ bfloat16_t *)z;
    COPY_OUT(out, W, W, W, W, EITHER(F322F16, F322BF16), 0, 1); // FAULT: fix-quant
}

KERNEL_CUBE(fix_params)
{
    asc_init();
    IMAGE(W);
    NEEDED(asc_set_l0c_copy_params(1, 0, 0);)
    BRING(A1, x);
    BRING(B1, y);
    FLAG(PIPE_MTE2, PIPE_MTE1);
    LOAD_A(A0, A1);
    LOAD_B(B0, B1);
    FLAG(PIPE_MTE1, PIPE_M);
    MULTIPLY(0, true);
    FLAG(PIPE_M, PIPE_FIX);
    OUT(z, 0); // FAULT: fix-params
}

/* Half of the rows of a tile: the next column begins behind all of them. */
KERNEL_CUBE(fix_stride)
{
    UP_TO_L0C();
    COPY_OUT(z, W, 32, W, EITHER(32, W), NoQuant, false, true); // FAULT: fix-stride
}

/* n stands before m. */
KERNEL_CUBE(fix_sides_swapped)
{
    UP_TO_L0();
    MMAD(C0, 32, W, W, false, true);
    FLAG(PIPE_M, PIPE_FIX);
    COPY_OUT(z, EITHER(32, W), EITHER(W, 32), W, 32, NoQuant, 0, 1); // FAULT: fix-shape
}

/* ---- modes, cores ---- */

KERNEL_CUBE(hf32_left_on)
{
    asc_init();
    asc_enable_hf32(); // FAULT: mode-left-on
    NEEDED(asc_set_fp32_mode();)
}

KERNEL_CUBE(atomic_out_left_on)
{
    UP_TO_L0C();
    asc_set_atomic_add_float(); // FAULT: atomic-left-on
    OUT(x, 0);
    NEEDED(asc_set_atomic_none();)
}

KERNEL_CUBE(vector_call_on_a_cube_core)
{
    asc_init();
    EITHER(asc_duplicate(A, 1.0f, TILE), (void)0); // FAULT: wrong-core
}

KERNEL_CUBE(vector_flag_on_a_cube_core)
{
    asc_init();
    EITHER(asc_sync_pipe(PIPE_V), asc_sync_pipe(PIPE_M)); // FAULT: wrong-core
}

KERNEL(cube_call_on_a_vector_core)
{
    asc_init();
    EITHER(BRING(A1, x), asc_copy_gm2ub_sync(A, x, BYTES)); // FAULT: wrong-core
}
