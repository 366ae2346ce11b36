/* asc_cube.h - the cube core: copies into L1, loads into L0A and L0B, mmad, copies out of L0C.
 * Included by asc_simd.h.
 *
 * L1 holds a matrix as columns of blocks of 32 B, L0A and L0B hold fractals of 16 rows of 32 B, L0C
 * fractals of 16 x 16 results; docs/npu-model.md says in which order. A call on a core of the other
 * kind does nothing on the chip, and the model says so. */
#ifndef ASC_CUBE_H
#define ASC_CUBE_H

/* An operand of each memory, as the model takes it; gcc names these functions where ascsim lint
 * finds another. */
#define ASC_NEEDS(name, qualifier)                           \
    static inline void *asc_needs_##name(qualifier void *at) \
    {                                                        \
        return (void *)(uintptr_t)at;                        \
    }
ASC_NEEDS(cbuf, __cbuf__)
ASC_NEEDS(ca, __ca__)
ASC_NEEDS(cb, __cb__)
ASC_NEEDS(cc, __cc__)
ASC_NEEDS(fbuf, __fbuf__)

/* dst and src of one type T, in two memories. */
#define ASC_BETWEEN(to, T, from) \
    void (*)(to ASC_C_##T *, from ASC_C_##T *) : ASC_TYPES(ASC_##T, ASC_##T)
#define ASC_BETWEEN_ALL(to, from)                                                            \
    ASC_BETWEEN(to, I8, from), ASC_BETWEEN(to, U8, from), ASC_BETWEEN(to, HALF, from),       \
        ASC_BETWEEN(to, BF16, from), ASC_BETWEEN(to, I32, from), ASC_BETWEEN(to, U32, from), \
        ASC_BETWEEN(to, FLOAT, from)
#define ASC_MOVED(to, from, d, s) _Generic(ASC_SIGNATURE2(d, s), ASC_BETWEEN_ALL(to, from))

/* ---- global memory to L1 ---- */

/* (dst, src, bytes), which drops what is beyond the last whole block of 32 B; with pointers to void
 * (dst, src, n_burst, len_burst, src_gap, dst_gap) in such blocks; with others (dst, src,
 * start_index, repeat, src_stride, dst_gap) in fractals of 512 B. */
#define asc_copy_gm2l1(...) ASC_PICK(ASC_GM2L1_, __VA_ARGS__)("asc_copy_gm2l1", __VA_ARGS__)
#define asc_copy_gm2l1_sync(...) ASC_SYNCED(ASC_GM2L1_3, "asc_copy_gm2l1_sync", __VA_ARGS__)
#define ASC_GM2L1_3(name, dst, src, size) \
    ASC_COPY_3(name, ASC_OP_copy_gm2l1, asc_needs_cbuf, asc_needs_gm, dst, src, size)
#define ASC_GM2L1_6(name, dst, src, a, b, c, d) \
    _Generic((dst), __cbuf__ void *: asc_issue_copy_blocks, default: asc_issue_fractals)(        \
        ASC_SITE(name), ASC_OP_copy_gm2l1, _Generic((dst), __cbuf__ void *                       \
                                                    : (unsigned)ASC_U8, default                  \
                                                    : (unsigned)sizeof *(dst)),                  \
        ASC_FOR_GM2L1(dst, src, asc_needs_cbuf(dst)), asc_needs_gm(src), a, b, c, d)
/* value, if the types are those of blocks or of fractals. */
#define ASC_FOR_GM2L1(dst, src, value)                                                       \
    ((void)_Generic(ASC_SIGNATURE2(dst, src), void (*)(__cbuf__ void *, __gm__ void *) : 0u, \
                    ASC_BETWEEN_ALL(__cbuf__, __gm__)),                                      \
     value)

/* Rows become columns of blocks: (dst, src, nd_num, n_value, d_value, src_nd_matrix_stride,
 * src_d_value, dst_nz_c0_stride, dst_nz_n_stride, dst_nz_matrix_stride): n_value rows of d_value
 * elements, src_d_value elements apart; in L1 the rows of a column are dst_nz_n_stride blocks
 * apart, its columns dst_nz_c0_stride blocks. */
#define asc_copy_gm2l1_nd2nz(...) ASC_ND2NZ("asc_copy_gm2l1_nd2nz", __VA_ARGS__)
#define asc_copy_gm2l1_nd2nz_sync(...) \
    ASC_SYNCED(ASC_ND2NZ, "asc_copy_gm2l1_nd2nz_sync", __VA_ARGS__)
#define ASC_ND2NZ(name, dst, src, nd_num, n, d, src_matrix, src_row, dst_c0, dst_n, dst_matrix) \
    asc_issue_nd2nz(ASC_SITE(name),                                                             \
                    _Generic(ASC_SIGNATURE2(dst, src), ASC_BETWEEN(__cbuf__, I16, __gm__),      \
                             ASC_BETWEEN_ALL(__cbuf__, __gm__)),                                \
                    asc_needs_cbuf(dst), asc_needs_gm(src), nd_num, n, d, src_matrix, src_row,  \
                    dst_c0, dst_n, dst_matrix)

/* Fractals as they lie: (dst, src, start_index, repeat, src_stride, dst_gap). */
#define asc_copy_gm2l0a(...) \
    ASC_GM2L0("asc_copy_gm2l0a", copy_gm2l0a, __ca__, asc_needs_ca, __VA_ARGS__)
#define asc_copy_gm2l0b(...) \
    ASC_GM2L0("asc_copy_gm2l0b", copy_gm2l0b, __cb__, asc_needs_cb, __VA_ARGS__)
#define ASC_GM2L0(name, op, space, needs, dst, src, index, repeat, stride, gap)           \
    asc_issue_fractals(ASC_SITE(name), ASC_OP_##op,                                       \
                       ASC_WITH(ASC_MOVED(space, __gm__, dst, src) & 15) | sizeof *(dst), \
                       needs(dst), asc_needs_gm(src), index, repeat, stride, gap)

/* ---- L1 to L0A, L0B, the bias table and the fixpipe buffer ---- */

/* Fractals: (dst, src, start_index, repeat, src_stride, dst_gap), stride from start to start, gap
 * from end to start. L0A also takes (dst, src, k_extension, m_extension, k_start, m_start,
 * stride_w, stride_h, filter_w, filter_h, dilation_w, dilation_h, filter_size_w, filter_size_h,
 * transpose, f_matrix_ctrl, channel_size) of the image that asc_set_l13d_fmatrix() says; the model
 * does so for filters of 1 x 1 alone, which make of columns of blocks the fractals of L0A. */
#define asc_copy_l12l0a(...) ASC_PICK_LOAD(ASC_L12L0A_, __VA_ARGS__)("asc_copy_l12l0a", __VA_ARGS__)
#define asc_copy_l12l0b(...) \
    ASC_L12L0("asc_copy_l12l0b", copy_l12l0b, __cb__, asc_needs_cb, __VA_ARGS__)
#define asc_copy_l12l0a_sync(...) ASC_SYNCED(ASC_L12L0A_6, "asc_copy_l12l0a_sync", __VA_ARGS__)
#define asc_copy_l12l0b_sync(...) ASC_SYNCED(ASC_L12L0B_6, "asc_copy_l12l0b_sync", __VA_ARGS__)
#define ASC_PICK_LOAD(prefix, ...) \
    ASC_PICK_LOAD_(prefix, __VA_ARGS__, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
#define ASC_PICK_LOAD_(prefix, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, \
                       a16, a17, n, ...)                                                         \
    prefix##n
#define ASC_L12L0(name, op, space, needs, dst, src, index, repeat, stride, gap)             \
    asc_issue_fractals(ASC_SITE(name), ASC_OP_##op,                                         \
                       ASC_WITH(ASC_MOVED(space, __cbuf__, dst, src) & 15) | sizeof *(dst), \
                       needs(dst), asc_needs_cbuf(src), index, repeat, stride, gap)
#define ASC_L12L0A_6(name, ...) ASC_L12L0(name, copy_l12l0a, __ca__, asc_needs_ca, __VA_ARGS__)
#define ASC_L12L0B_6(name, ...) ASC_L12L0(name, copy_l12l0b, __cb__, asc_needs_cb, __VA_ARGS__)
#define ASC_L12L0A_17(name, dst, src, k_ext, m_ext, k_start, m_start, sw, sh, fw, fh, dw, dh, fsw, \
                      fsh, transpose, ctrl, channels)                                              \
    asc_issue_load3d(ASC_SITE(name), ASC_MOVED(__ca__, __cbuf__, dst, src), asc_needs_ca(dst),     \
                     asc_needs_cbuf(src), k_ext, m_ext, k_start, m_start,                          \
                     (const int64_t[10]){sw, sh, fw, fh, dw, dh, fsw, fsh, transpose, ctrl},       \
                     channels)

/* Squares, transposed on the way: (dst, src, index, repeat, src_stride, dst_gap,
 * enable_addr_decrement, dst_frac_gap). */
#define asc_copy_l12l0a_trans(...) \
    ASC_TRANSPOSED("asc_copy_l12l0a_trans", copy_l12l0a_trans, __ca__, asc_needs_ca, __VA_ARGS__)
#define asc_copy_l12l0b_trans(...) \
    ASC_TRANSPOSED("asc_copy_l12l0b_trans", copy_l12l0b_trans, __cb__, asc_needs_cb, __VA_ARGS__)
#define ASC_TRANSPOSED(name, op, space, needs, dst, src, index, repeat, stride, gap, decrement,  \
                       frac_gap)                                                                 \
    asc_issue_transposed(ASC_SITE(name), ASC_OP_##op, ASC_MOVED(space, __cbuf__, dst, src),      \
                         needs(dst), asc_needs_cbuf(src), index, repeat, stride, gap, decrement, \
                         frac_gap)

/* dst of the bias table is a number: an address in it. (dst, src, bytes) or (dst, src,
 * conv_control, n_burst, len_burst, src_gap, dst_gap) in blocks of 32 B; conv_control: halves
 * become floats. */
#define asc_copy_l12bt(...) ASC_PICK(ASC_L12BT_, __VA_ARGS__)("asc_copy_l12bt", __VA_ARGS__)
#define ASC_L12BT_3(name, dst, src, size) \
    asc_issue_bias(ASC_SITE(name), dst, asc_needs_cbuf(src), 0, 1, (size) / 32, 0, 0)
#define ASC_L12BT_7(name, dst, src, convert, n_burst, len_burst, src_gap, dst_gap)                 \
    asc_issue_bias(ASC_SITE(name), dst, asc_needs_cbuf(src), convert, n_burst, len_burst, src_gap, \
                   dst_gap)
#define asc_copy_l12fb(...) ASC_COPY(copy_l12fb, asc_needs_fbuf, asc_needs_cbuf, __VA_ARGS__)

typedef union asc_fill_value_config {
    uint64_t config;
    struct {
        uint64_t repeat : 15, reserved1 : 1, blk_num : 15, reserved2 : 1, dst_gap : 15,
            reserved3 : 17;
    };
} asc_fill_value_config;
typedef union asc_l13d_fmatrix_config {
    uint64_t config;
    struct {
        uint16_t l1_height, l1_width;
        uint8_t padding_left_size, padding_right_size, padding_top_size, padding_bottom_size;
    };
} asc_l13d_fmatrix_config;
typedef union asc_load3d_v2_config {
    uint64_t config;
    struct {
        uint64_t rpt_stride : 16, rpt_time : 8, rpt_mode : 1, reserved2 : 39;
    };
} asc_load3d_v2_config;

/* (dst, value, config): fractals of 512 B in L0A and L0B, blocks of 32 B in L1. */
#define ASC_FILL_TYPE(space, d) \
    _Generic((d), space half *: ASC_HALF, space bfloat16_t *: ASC_BF16, space float *: ASC_FLOAT, \
             space int16_t *: ASC_I16, space uint16_t *: ASC_U16, space int32_t *: ASC_I32,     \
             space uint32_t *: ASC_U32)
#define ASC_FILL_BITS(value)             \
    _Generic((value), half               \
             : asc_bits_half, bfloat16_t \
             : asc_bits_bf16, default    \
             : asc_bits_u32)(value)
#define asc_fill_l0a(...) ASC_FILL("asc_fill_l0a", fill_l0a, __ca__, asc_needs_ca, __VA_ARGS__)
#define asc_fill_l0b(...) ASC_FILL("asc_fill_l0b", fill_l0b, __cb__, asc_needs_cb, __VA_ARGS__)
#define asc_fill_l1(...) ASC_FILL("asc_fill_l1", fill_l1, __cbuf__, asc_needs_cbuf, __VA_ARGS__)
#define ASC_FILL(name, op, space, needs, dst, value, how)                              \
    asc_issue_fill(ASC_SITE(name), ASC_OP_##op, ASC_FILL_TYPE(space, dst), needs(dst), \
                   ASC_FILL_BITS(value), (how).config)

/* ---- mmad ---- */

/* (c, a, b, left_height m, n_dim k, right_width n, unit_flag, k_direction_align, c_matrix_source,
 * c_matrix_init_val): c = a b, plus what c holds, or plus the bias table (source), or plus nothing
 * (init). */
#define ASC_MULTIPLIED(C, A, B)                                          \
    void (*)(__cc__ ASC_C_##C *, __ca__ ASC_C_##A *, __cb__ ASC_C_##B *) \
        : ASC_TYPES(ASC_##C, ASC_##A)
#define ASC_MMAD_TYPES(c, a, b)                                                      \
    _Generic(ASC_SIGNATURE3(c, a, b), ASC_MULTIPLIED(FLOAT, HALF, HALF),             \
             ASC_MULTIPLIED(FLOAT, BF16, BF16), ASC_MULTIPLIED(FLOAT, FLOAT, FLOAT), \
             ASC_MULTIPLIED(I32, I8, I8))
#define ASC_MMAD(name, c, a, b, m, k, n, unit_flag, k_align, source, init)                    \
    asc_issue_mmad(ASC_SITE(name), ASC_MMAD_TYPES(c, a, b), asc_needs_cc(c), asc_needs_ca(a), \
                   asc_needs_cb(b), m, k, n, unit_flag, k_align, source, init)
#define asc_mmad(...) ASC_MMAD("asc_mmad", __VA_ARGS__)
#define asc_mmad_sync(...) ASC_SYNCED(ASC_MMAD, "asc_mmad_sync", __VA_ARGS__)

/* ---- L0C to global memory and to L1 ---- */

typedef enum QuantMode_t {
    NoQuant,
    F322F16,
    F322BF16,
    DEQF16,
    VDEQF16,
    QF322B8_PRE,
    VQF322B8_PRE,
    REQ8,
    VREQ8
} QuantMode_t;

/* (dst, src, n_size, m_size, dst_stride, src_stride, unit_flag_mode, quant_pre, relu_pre,
 * channel_split, nz2nd_en) */
#define ASC_FIXED(space, D, S) \
    void (*)(space ASC_C_##D *, __cc__ ASC_C_##S *) : ASC_TYPES(ASC_##D, ASC_##S)
#define ASC_FIXED_BOTH(space)                                                                  \
    ASC_FIXED(space, HALF, FLOAT), ASC_FIXED(space, BF16, FLOAT), ASC_FIXED(space, I8, FLOAT), \
        ASC_FIXED(space, HALF, I32), ASC_FIXED(space, I8, I32)
#define ASC_FIXED_TO_GM(d, s)                                                               \
    _Generic(ASC_SIGNATURE2(d, s), ASC_FIXED_BOTH(__gm__), ASC_FIXED(__gm__, FLOAT, FLOAT), \
             ASC_FIXED(__gm__, U8, FLOAT), ASC_FIXED(__gm__, I32, I32))
#define ASC_FIXED_TO_L1(d, s) \
    _Generic(ASC_SIGNATURE2(d, s), ASC_FIXED_BOTH(__cbuf__), ASC_FIXED(__cbuf__, U8, I32))
#define ASC_FIX(name, op, types, needs, dst, src, n, m, dst_stride, src_stride, unit_flag, quant, \
                relu, split, nz2nd)                                                               \
    asc_issue_fix(ASC_SITE(name), ASC_OP_##op, types(dst, src), needs(dst), asc_needs_cc(src), n, \
                  m, dst_stride, src_stride, unit_flag, quant, relu, split, nz2nd)
#define ASC_L0C2GM(name, ...) ASC_FIX(name, copy_l0c2gm, ASC_FIXED_TO_GM, asc_needs_gm, __VA_ARGS__)
#define ASC_L0C2L1(name, ...) \
    ASC_FIX(name, copy_l0c2l1, ASC_FIXED_TO_L1, asc_needs_cbuf, __VA_ARGS__)
#define asc_copy_l0c2gm(...) ASC_L0C2GM("asc_copy_l0c2gm", __VA_ARGS__)
#define asc_copy_l0c2gm_sync(...) ASC_SYNCED(ASC_L0C2GM, "asc_copy_l0c2gm_sync", __VA_ARGS__)
#define asc_copy_l0c2l1(...) ASC_L0C2L1("asc_copy_l0c2l1", __VA_ARGS__)

/* ---- with a barrier of all pipes behind them ---- */

#define asc_copy_gm2l0a_sync(...) \
    ASC_SYNCED(ASC_GM2L0, "asc_copy_gm2l0a_sync", copy_gm2l0a, __ca__, asc_needs_ca, __VA_ARGS__)
#define asc_copy_gm2l0b_sync(...) \
    ASC_SYNCED(ASC_GM2L0, "asc_copy_gm2l0b_sync", copy_gm2l0b, __cb__, asc_needs_cb, __VA_ARGS__)
#define asc_copy_l12l0a_trans_sync(...)                                                 \
    ASC_SYNCED(ASC_TRANSPOSED, "asc_copy_l12l0a_trans_sync", copy_l12l0a_trans, __ca__, \
               asc_needs_ca, __VA_ARGS__)
#define asc_copy_l12l0b_trans_sync(...)                                                 \
    ASC_SYNCED(ASC_TRANSPOSED, "asc_copy_l12l0b_trans_sync", copy_l12l0b_trans, __cb__, \
               asc_needs_cb, __VA_ARGS__)
#define asc_copy_l12bt_sync(...) ASC_SYNCED(ASC_L12BT_3, "asc_copy_l12bt_sync", __VA_ARGS__)
#define asc_copy_l12fb_sync(...) \
    ASC_COPY_SYNC(copy_l12fb, asc_needs_fbuf, asc_needs_cbuf, __VA_ARGS__)
#define asc_fill_l0a_sync(...) \
    ASC_SYNCED(ASC_FILL, "asc_fill_l0a_sync", fill_l0a, __ca__, asc_needs_ca, __VA_ARGS__)
#define asc_fill_l0b_sync(...) \
    ASC_SYNCED(ASC_FILL, "asc_fill_l0b_sync", fill_l0b, __cb__, asc_needs_cb, __VA_ARGS__)
#define asc_fill_l1_sync(...) \
    ASC_SYNCED(ASC_FILL, "asc_fill_l1_sync", fill_l1, __cbuf__, asc_needs_cbuf, __VA_ARGS__)
#define asc_copy_l0c2l1_sync(...) ASC_SYNCED(ASC_L0C2L1, "asc_copy_l0c2l1_sync", __VA_ARGS__)

/* ---- registers ---- */

#define asc_set_l0c_copy_params(nd_num, src_nd_stride, dst_nd_stride)                   \
    asc_issue_set_cube(ASC_SITE("asc_set_l0c_copy_params"), ASC_CUBE_ND,                \
                       (uint16_t)(nd_num) | (uint64_t)(uint16_t)(src_nd_stride) << 16 | \
                           (uint64_t)(uint16_t)(dst_nd_stride) << 32)
/* The bits of a float are the scale. */
#define asc_set_l0c_copy_prequant(scale) \
    asc_issue_set_cube(ASC_SITE("asc_set_l0c_copy_prequant"), ASC_CUBE_QUANT, scale)
#define asc_set_l0c2gm_config(relu_pre, quant_pre, enable_unit_flag)        \
    asc_issue_set_cube(ASC_SITE("asc_set_l0c2gm_config"), ASC_CUBE_CONFIG,  \
                       (uint64_t)(relu_pre) | (uint64_t)(quant_pre) << 16 | \
                           (uint64_t)(enable_unit_flag) << 63)
#define ASC_L0C2GM_CONFIG(name) asc_issue_get_cube(ASC_SITE(name), ASC_CUBE_CONFIG)
#define asc_get_l0c2gm_relu() (ASC_L0C2GM_CONFIG("asc_get_l0c2gm_relu") & 0xffff)
#define asc_get_l0c2gm_prequant() (ASC_L0C2GM_CONFIG("asc_get_l0c2gm_prequant") >> 16 & 0xffff)
#define asc_get_l0c2gm_unitflag() (ASC_L0C2GM_CONFIG("asc_get_l0c2gm_unitflag") >> 63)
#define asc_set_l0c2gm_lrelu_alpha(alpha)                                      \
    asc_issue_set_cube(ASC_SITE("asc_set_l0c2gm_lrelu_alpha"), ASC_CUBE_ALPHA, \
                       asc_bits_float((float)(alpha)))
#define asc_set_l13d_fmatrix(how) \
    asc_issue_set_cube(ASC_SITE("asc_set_l13d_fmatrix"), ASC_CUBE_IMAGE, (how).config)
#define asc_set_l13d_padding(value) \
    asc_issue_set_cube(ASC_SITE("asc_set_l13d_padding"), ASC_CUBE_PADDING, ASC_FILL_BITS(value))
#define asc_set_l13d_rpt(how) \
    asc_issue_set_cube(ASC_SITE("asc_set_l13d_rpt"), ASC_CUBE_REPEAT, (how).config)
/* Products of floats rounded to 11 bits of fraction each, to nearest even or (trans 1) to zero. */
#define asc_enable_hf32() asc_issue_set_ctrl_bit(ASC_SITE("asc_enable_hf32"), 46, 1)
#define asc_set_fp32_mode() asc_issue_set_ctrl_bit(ASC_SITE("asc_set_fp32_mode"), 46, 0)
#define asc_enable_hf32_trans(to_zero) \
    asc_issue_set_ctrl_bit(ASC_SITE("asc_enable_hf32_trans"), 47, (to_zero) != 0)
#define asc_set_mmad_direction_m() \
    asc_issue_set_ctrl_bit(ASC_SITE("asc_set_mmad_direction_m"), 51, 0)
#define asc_set_mmad_direction_n() \
    asc_issue_set_ctrl_bit(ASC_SITE("asc_set_mmad_direction_n"), 51, 1)

#endif
