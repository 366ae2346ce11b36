/* cube_order.c - the pipes of a cube core: missing flags and barriers, and the unit flag. */
#include "cube.h"

/* ---- between pipes ---- */

#define COPY_IN(l1) asc_copy_l0c2l1(l1, C0, W, W, W * 16, W, 0, F322F16, 0, false, false)

/* What was in L1 before. */
KERNEL_CUBE(stale_l1)
{
    BEGIN_CUBE();
    BRING(B1, y); // OTHER
    NEEDED(FLAG(PIPE_MTE2, PIPE_MTE1);)
    LOAD_B(B0, B1); // FAULT: missing-flag-raw
}

KERNEL_CUBE(l1_freed_early)
{
    UP_TO_L1();
    asc_sync_pipe(PIPE_MTE2);
    LOAD_B(B0, B1); // OTHER
    NEEDED(FLAG(PIPE_MTE1, PIPE_MTE2);)
    BRING(B1, x); // FAULT: missing-flag-war
}

KERNEL_CUBE(l0_read_early)
{
    UP_TO_L1();
    LOAD_A(A0, A1);
    FLAG(PIPE_MTE1, PIPE_M);
    LOAD_B(B0, B1); // OTHER
    NEEDED(FLAG(PIPE_MTE1, PIPE_M);)
    MULTIPLY(0, true); // FAULT: missing-flag-raw
}

KERNEL_CUBE(l0_freed_early)
{
    UP_TO_L0();
    asc_sync_pipe(PIPE_MTE1);
    MULTIPLY(0, true); // OTHER
    NEEDED(FLAG(PIPE_M, PIPE_MTE1);)
    LOAD_B(B0, B1); // FAULT: missing-flag-war
}

KERNEL_CUBE(l0c_read_early)
{
    UP_TO_L0();
    MULTIPLY(0, true); // OTHER
    NEEDED(FLAG(PIPE_M, PIPE_FIX);)
    OUT(z, 0); // FAULT: missing-flag-raw
}

KERNEL_CUBE(l0c_freed_early)
{
    UP_TO_L0C();
    OUT(z, 0); // OTHER
    NEEDED(FLAG(PIPE_FIX, PIPE_M);)
    MULTIPLY(0, true); // FAULT: missing-flag-war
}

KERNEL_CUBE(bias_read_early)
{
    UP_TO_L0();
    asc_copy_l12bt(0, A1, 0, 1, 8, 0, 0); // OTHER
    NEEDED(FLAG(PIPE_MTE1, PIPE_M);)
    MMAD(C0, W, W, W, true, false); // FAULT: missing-flag-raw
}

KERNEL_CUBE(scales_read_early)
{
    UP_TO_L0C();
    asc_set_l0c2gm_config(0, 0, false);
    asc_copy_l12fb((__fbuf__ void *)asc_get_phy_buf_addr(0), (__cbuf__ void *)A1, 512); // OTHER
    NEEDED(FLAG(PIPE_MTE1, PIPE_FIX);)
    COPY_OUT((__gm__ int8_t *)z, W, W, W, W, VQF322B8_PRE, 0, 1); // FAULT: missing-flag-raw
}

KERNEL_CUBE(out_and_in_again)
{
    UP_TO_L0C();
    OUT(x, 0); // OTHER
    NEEDED(FLAG(PIPE_FIX, PIPE_MTE2);)
    BRING(L1(half, 131072), x); // FAULT: missing-flag-raw
}

KERNEL_CUBE(results_to_l1_read_early)
{
    UP_TO_L0C();
    COPY_IN(L1(half, 131072)); // OTHER
    NEEDED(FLAG(PIPE_FIX, PIPE_MTE1);)
    asc_copy_l12l0b(B0 + 64 * F, L1(half, 131072), 0, 16, 1, 0); // FAULT: missing-flag-raw
}

/* ---- within a pipe ---- */

/* A tile of few fractals: its results are in flight when the next product wants them. */
KERNEL_CUBE(small_tile_accumulates)
{
    UP_TO_L0();
    asc_mmad(C0, A0, B0, 32, W, W, 0, false, false, true); // OTHER
    NEEDED(asc_sync_pipe(PIPE_M);)
    MMAD(C0, 32, W, W, false, false); // FAULT: missing-barrier-raw
}

KERNEL_CUBE(l0_overlap)
{
    UP_TO_L1();
    LOAD_A(A0, A1);                      // OTHER
    LOAD_A(A0 + EITHER(15, 16) * F, A1); // FAULT: missing-barrier-waw
}

KERNEL_CUBE(fill_and_load)
{
    UP_TO_L1();
    asc_fill_value_config how = {0};
    how.repeat = 1, how.blk_num = 32;
    asc_fill_l0b(B0, (half)0.0f, how); // OTHER
    NEEDED(asc_sync_pipe(PIPE_MTE1);)
    LOAD_B(B0, B1); // FAULT: missing-barrier-waw
}

KERNEL_CUBE(two_packets_in_one_place)
{
    BEGIN_CUBE();
    BRING(A1, x);                         // OTHER
    BRING(A1 + EITHER(W * 60, W * W), y); // FAULT: missing-barrier-waw
}

KERNEL_CUBE(out_twice)
{
    UP_TO_L0C();
    OUT(z, 0);                   // OTHER
    OUT(z + EITHER(W, 4096), 0); // FAULT: missing-barrier-waw
}

/* ---- flags ---- */

KERNEL_CUBE(flag_of_m_left_over)
{
    UP_TO_L0C();
    OUT(z, 0);
    asc_sync_notify(PIPE_FIX, PIPE_M, EVENT_ID1); // FAULT: flag-left-over
    NEEDED(asc_sync_wait(PIPE_FIX, PIPE_M, EVENT_ID1);)
}

KERNEL_CUBE(backward_flag_not_primed)
{
    BEGIN_CUBE();
    NEEDED(asc_sync_notify(PIPE_MTE1, PIPE_MTE2, EVENT_ID2);)
    asc_sync_wait(PIPE_MTE1, PIPE_MTE2, EVENT_ID2); // FAULT: wait-without-set
    BRING(A1, x);
}

/* ---- the unit flag ---- */

KERNEL_CUBE(unit_flag_of_one)
{
    UP_TO_L0();
    MULTIPLY(EITHER(1, 0), true); // FAULT: unit-flag-mode
}

KERNEL_CUBE(unit_flag_never_set)
{
    UP_TO_L0();
    asc_set_mmad_direction_n();
    MULTIPLY(EITHER(2, 3), true);
    OUT(z, 3); // FAULT: unit-flag-stuck
    asc_set_mmad_direction_m();
}

KERNEL_CUBE(unit_flag_of_one_side)
{
    UP_TO_L0();
    asc_set_mmad_direction_n();
    MULTIPLY(EITHER(0, 3), true);
    OUT(z, 3); // FAULT: unit-flag-stuck
    asc_set_mmad_direction_m();
}

KERNEL_CUBE(unit_flag_not_cleared)
{
    UP_TO_L0();
    asc_set_mmad_direction_n();
    MULTIPLY(3, true); // OTHER
    OUT(z, EITHER(2, 3));
    MULTIPLY(3, true); // FAULT: unit-flag-stuck
    NEEDED(OUT(z + 4096, 3);)
    asc_set_mmad_direction_m();
}

KERNEL_CUBE(unit_flag_left_set)
{
    UP_TO_L0();
    asc_set_mmad_direction_n();
    MULTIPLY(3, true); // FAULT: unit-flag-left-over
    FLAG(PIPE_M, PIPE_FIX);
    OUT(z, EITHER(0, 3));
    asc_set_mmad_direction_m();
}

KERNEL_CUBE(unit_flag_of_fewer_columns)
{
    UP_TO_L0();
    asc_set_mmad_direction_n();
    MULTIPLY(3, true); // FAULT: unit-flag-left-over
    asc_copy_l0c2gm(z, C0, EITHER(48, W), W, W, W, 3, NoQuant, 0, false, true);
    asc_set_mmad_direction_m();
}

/* It is no flag between MTE1 and M. */
KERNEL_CUBE(unit_flag_orders_no_loads)
{
    UP_TO_L0();
    asc_set_mmad_direction_n();
    asc_sync_pipe(PIPE_MTE1);
    MULTIPLY(3, true); // OTHER
    NEEDED(FLAG(PIPE_M, PIPE_MTE1);)
    LOAD_A(A0, A1); // FAULT: missing-flag-war
    OUT(z, 3);
    asc_set_mmad_direction_m();
}

KERNEL_CUBE(unit_flag_direction)
{
    UP_TO_L0();
    NEEDED(asc_set_mmad_direction_n();)
    MULTIPLY(3, true);
    OUT(z, 3); // FAULT: unit-flag-direction
    asc_set_mmad_direction_m();
}

KERNEL_CUBE(unit_flag_direction_to_l1)
{
    UP_TO_L0();
    __cbuf__ half *to = L1(half, 131072);
    EITHER(asc_set_mmad_direction_n, asc_set_mmad_direction_m)();
    MULTIPLY(3, true);
    OUT_TO_L1(to, 3); // FAULT: unit-flag-direction
    asc_set_mmad_direction_m();
}
