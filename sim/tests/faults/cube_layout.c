/* cube_layout.c - what lies in the cube core's memories: types, layouts, what nothing has
 * written. */
#include "cube.h"

/* ---- types ---- */

KERNEL_CUBE(type_product)
{
    UP_TO_L0();
    __ca__ EITHER(bfloat16_t, half) *a = (void *)A0;
    __cb__ EITHER(bfloat16_t, half) *b = (void *)B0;
    asc_mmad(C0, a, b, W, W, W, 0, false, false, true); // FAULT: cube-type
}

KERNEL_CUBE(type_load)
{
    BEGIN_CUBE();
    asc_copy_gm2l1_nd2nz(EITHER(L1(float, 0), A1), EITHER(x, GMH(x)), 1, W, 32, 0, 32, W, 1, 0);
    FLAG(PIPE_MTE2, PIPE_MTE1);
    asc_copy_l12l0b(B0, A1, 0, 8, 1, 0); // FAULT: cube-type
}

/* ---- layouts ---- */

/* Columns of blocks are no rows of fractals. */
KERNEL_CUBE(layout_a_as_it_lies)
{
    UP_TO_L1();
    EITHER(asc_copy_l12l0a(A0, A1, 0, 16, 1, 0), LOAD_A(A0, A1));
    LOAD_B(B0, B1);
    FLAG(PIPE_MTE1, PIPE_M);
    MULTIPLY(0, true); // FAULT: cube-layout
}

/* A [k][m]: without its transposition. */
KERNEL_CUBE(layout_a_not_transposed)
{
    UP_TO_L1();
    EITHER(asc_copy_l12l0a(A0, A1, 0, 16, 1, 0), asc_copy_l12l0a_trans(A0, A1, 0, 16, 1, 0, 0, 0));
    LOAD_B(B0, B1);
    FLAG(PIPE_MTE1, PIPE_M);
    MULTIPLY(0, true); // FAULT: cube-layout
}

/* B [k][n]: a row of L0B is one k of all n, which lie a column apart. */
KERNEL_CUBE(layout_b_order)
{
    UP_TO_L1();
    LOAD_A(A0, A1);
    for (int k = 0; k < 4; k++)
        asc_copy_l12l0b_trans(B0 + k * 4 * F, B1, EITHER(4 * k, k), 4, EITHER(1, 4), 0, false, 0);
    FLAG(PIPE_MTE1, PIPE_M);
    MULTIPLY(0, true); // FAULT: cube-layout
}

/* The same k again: the start index was forgotten. */
KERNEL_CUBE(layout_b_index)
{
    UP_TO_L1();
    LOAD_A(A0, A1);
    for (int k = 0; k < 4; k++)
        asc_copy_l12l0b(B0 + k * 4 * F, B1, EITHER(0, 4 * k), 4, 1, 0);
    FLAG(PIPE_MTE1, PIPE_M);
    MULTIPLY(0, true); // FAULT: cube-layout
}

/* Rows of fractals in L0A are as long as what was loaded. */
KERNEL_CUBE(layout_of_another_depth)
{
    UP_TO_L0();
    MMAD(C0, W, EITHER(32, W), W, 0, 1); // FAULT: cube-layout
}

/* A product of one row reads it as it lies. */
KERNEL_CUBE(layout_of_one_row)
{
    UP_TO_L0();
    MMAD(C0, EITHER(1, 2), W, W, 0, 1); // FAULT: cube-layout
}

KERNEL_CUBE(fractal_across_columns)
{
    BEGIN_CUBE();
    ND2NZ(B1, GMH(y), 40, W, EITHER(40, 48));
    FLAG(PIPE_MTE2, PIPE_MTE1);
    asc_copy_l12l0b(B0, B1, 0, 3, 1, 0); // FAULT: cube-fractal
}

KERNEL_CUBE(tile_of_another_shape)
{
    UP_TO_L0();
    MULTIPLY(0, true);
    MMAD(C0, EITHER(32, W), W, W, false, false); // FAULT: cube-tile
}

/* ---- what nothing has written ---- */

KERNEL_CUBE(unwritten_l1)
{
    BEGIN_CUBE();
    BRING(A1, x);
    FLAG(PIPE_MTE2, PIPE_MTE1);
    asc_copy_l12l0b(B0, EITHER(B1, A1), 0, 16, 1, 0); // FAULT: cube-unwritten
}

KERNEL_CUBE(unwritten_l0b)
{
    UP_TO_L1();
    LOAD_A(A0, A1);
    NEEDED(LOAD_B(B0, B1);)
    FLAG(PIPE_MTE1, PIPE_M);
    MULTIPLY(0, true); // FAULT: cube-unwritten
}

KERNEL_CUBE(unwritten_accumulator)
{
    UP_TO_L0();
    MULTIPLY(0, EITHER(false, true)); // FAULT: cube-unwritten
}

/* Rows that were never brought are nothing, and a product of more rows than there are reads
 * them. */
KERNEL_CUBE(unwritten_rows)
{
    BEGIN_CUBE();
    BRING(A1, x);
    ND2NZ(B1, GMH(y), 40, W, 48);
    FLAG(PIPE_MTE2, PIPE_MTE1);
    LOAD_A(A0, A1);
    asc_copy_l12l0b(B0, B1, 0, 12, 1, 0);
    FLAG(PIPE_MTE1, PIPE_M);
    MMAD(C0, W, W, EITHER(48, 40), 0, 1); // FAULT: cube-unwritten
}

KERNEL_CUBE(unwritten_bias)
{
    UP_TO_L1();
    LOAD_A(A0, A1);
    LOAD_B(B0, B1);
    NEEDED(asc_copy_l12bt(0, A1, 0, 1, 8, 0, 0);)
    FLAG(PIPE_MTE1, PIPE_M);
    MMAD(C0, W, W, W, true, false); // FAULT: cube-unwritten
}

KERNEL_CUBE(unwritten_gm)
{
    BEGIN_CUBE();
    BRING(A1, EITHER(z, x)); // FAULT: gm-unwritten
}
