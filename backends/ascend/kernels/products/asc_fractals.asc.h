/* asc_fractals.asc.h - operands of a product on a cube core, of one type: rows of global memory to
 * L1, and from there to L0A and L0B. See asc_each_type.h. In L1 an operand is columns of blocks;
 * one that is transposed on its way to L0 comes in bands of 16 rows if it is of f32, each such a
 * matrix of its own. */

/* Elements of a block of 32 B, and of a fractal of 16 such. */
#define ASC_BLOCK (32 / (int64_t)sizeof(ASC_T))
#define ASC_FRACTAL (512 / (int64_t)sizeof(ASC_T))

/* Rows of `columns` elements to L1 as columns of blocks, `high` blocks each. The instruction counts
 * up to 65535 elements from row to row; other rows go one by one. */
static inline __aicore__ void ASC_NAME(asc_bring_rows)(__cbuf__ ASC_T *to, __gm__ ASC_T *from,
                                                       int64_t rows, int64_t columns,
                                                       int64_t stride, int64_t high)
{
    if (rows > 1 && stride > 0 && stride <= 65535) {
        asc_copy_gm2l1_nd2nz(to, from, 1, rows, columns, 0, stride, high, 1, 0);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        asc_copy_gm2l1_nd2nz(to + r * ASC_BLOCK, from + r * stride, 1, 1, columns, 0, 1, high, 1,
                             0);
}

/* `depth` elements along k of the left operand, m1 fractals high, to rows of fractals; turned: its
 * rows in L1 run along m. */
static inline __aicore__ void ASC_NAME(asc_load_a)(__ca__ ASC_T *to, __cbuf__ ASC_T *from,
                                                   int64_t turned, int64_t m1, int64_t depth)
{
    const int64_t k1 = (depth + ASC_BLOCK - 1) / ASC_BLOCK;
    if (!turned) {
#if ASC_AVOID_WIDE_CHANNELS /* more than the 63 channels that a page lets an image have */
        for (int64_t i = 0; i < k1; i++)
            asc_copy_l12l0a(to + i * ASC_FRACTAL, from, i * m1, m1, 1, k1 - 1);
#else
        asc_l13d_fmatrix_config image;
        image.config = 0;
        image.l1_height = 1;
        image.l1_width = (uint16_t)(m1 * 16);
        asc_set_l13d_fmatrix(image);
        asc_copy_l12l0a(to, from, k1 * ASC_BLOCK, m1 * 16, 0, 0, 1, 1, 1, 1, 1, 1, false, false,
                        false, false, k1 * ASC_BLOCK);
#endif
        return;
    }
#if ASC_16BIT
    asc_copy_l12l0a_trans(to, from, 0, m1 * k1, 1, 0, false, 0);
#else
    const int64_t squares = (k1 + 1) / 2;
    for (int64_t i = 0; i < squares; i++)
        asc_copy_l12l0a_trans(to + i * 2 * ASC_FRACTAL, from + i * 2 * m1 * ASC_FRACTAL, 0, m1, 1,
                              2 * squares - 1, false, 0);
#endif
}

/* The same of the right operand, n1 fractals wide, to columns of fractals; turned: its rows
 * in L1 run along n. */
static inline __aicore__ void ASC_NAME(asc_load_b)(__cb__ ASC_T *to, __cbuf__ ASC_T *from,
                                                   int64_t turned, int64_t n1, int64_t depth)
{
    const int64_t k1 = (depth + ASC_BLOCK - 1) / ASC_BLOCK;
    if (!turned) {
        asc_copy_l12l0b(to, from, 0, n1 * k1, 1, 0);
        return;
    }
#if ASC_16BIT
    for (int64_t i = 0; i < k1; i++)
        asc_copy_l12l0b_trans(to + i * n1 * ASC_FRACTAL, from, i, n1, k1, 0, false, 0);
#else
    for (int64_t i = 0; i < (k1 + 1) / 2; i++)
        asc_copy_l12l0b_trans(to + i * 2 * n1 * ASC_FRACTAL, from + i * 2 * n1 * ASC_FRACTAL, 0, n1,
                              1, 0, false, n1 - 1);
#endif
}
