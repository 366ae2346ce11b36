/* other_readings.h - makes of a question's kernel (backends/ascend/questions) one that runs as if
 * the chip were otherwise than documented: OTHER_<id> is defined for the question's. */
#include "c_api/asc_simd.h"

#define OTHER_UB(T, at) ((__ubuf__ T *)asc_get_phy_buf_addr(at))
#define OTHER_AND_THEN asc_sync_pipe(PIPE_V)
#define OTHER_ALIGN_IN(...) \
    ASC_ALIGN(copy_gm2ub_align, ASC_MOVED_IN, asc_needs_ubuf, asc_needs_gm, __VA_ARGS__)
#define OTHER_ALIGN_OUT(...) \
    ASC_ALIGN(copy_ub2gm_align, ASC_MOVED_OUT, asc_needs_gm, asc_needs_ubuf, __VA_ARGS__)
#define OTHER_ADD(...) ASC_BINARY(add, ASC_ARITH2, __VA_ARGS__)
#define OTHER_MMAD(...) ASC_MMAD("asc_mmad", __VA_ARGS__)
#define OTHER_L0C2GM(...) ASC_L0C2GM("asc_copy_l0c2gm", __VA_ARGS__)
#define OTHER_INIT asc_issue_init(ASC_SITE("asc_init"))

/* ---- copies ---- */
#if defined OTHER_gap_in
#undef asc_copy_gm2ub_align
#define asc_copy_gm2ub_align(d, s, n, bytes, l, r, sg, dg) \
    OTHER_ALIGN_IN(d, s, n, bytes, l, r, (sg)*32, dg)
#elif defined OTHER_gap_out
#undef asc_copy_ub2gm_align
#define asc_copy_ub2gm_align(d, s, n, bytes, l, r, sg, dg) \
    OTHER_ALIGN_OUT(d, s, n, bytes, l, r, sg, (dg)*32)
#elif defined OTHER_gap_ub
#undef asc_copy_gm2ub_align
#define asc_copy_gm2ub_align(d, s, n, bytes, l, r, sg, dg) \
    OTHER_ALIGN_IN(d, s, n, bytes, l, r, sg, 2 * (dg))
#elif defined OTHER_ub_end
#undef asc_copy_gm2ub
#define asc_copy_gm2ub(d, s, bytes) \
    ASC_COPY(copy_gm2ub, asc_needs_ubuf, asc_needs_gm, d, (s) + 8, bytes)

/* ---- the scalar unit ---- */
#elif defined OTHER_dcci_single
#undef asc_dcci_single /* it cannot be found */
#elif defined OTHER_scalar_store
#undef asc_init
#define asc_init() (OTHER_INIT, out = in)
#elif defined OTHER_stale_line
#undef asc_init
#define asc_init() (OTHER_INIT, in = in + 1)

/* ---- vectors ---- */
#elif defined OTHER_stride_zero
#undef asc_add
#define asc_add(d, a, b, ...) OTHER_ADD(d, a, b, 8)
#elif defined OTHER_half_overflow
#undef asc_init
#define asc_init() (OTHER_INIT, asc_set_ctrl((int64_t)1 << 48))
#elif defined OTHER_bf16_infinity
#undef asc_float2bfloat16_rn
#define asc_float2bfloat16_rn(d, s, n)               \
    (asc_min_scalar(s, s, 3e38f, n), OTHER_AND_THEN, \
     ASC_CONVERT(float2bfloat16_rn, BF16, FLOAT, ASC_NEAREST, d, s, n))
#elif defined OTHER_nan_max
#undef asc_max
#define asc_max(d, a, b, n) asc_add_scalar(d, b, 0.0f, n)
#elif defined OTHER_exp_subnormal
#undef asc_exp
#define asc_exp(d, s, n) asc_duplicate(d, 1e-39f, n)
#elif defined OTHER_exp_error
#undef asc_exp
#define asc_exp(d, s, n) \
    (ASC_UNARY(exp, ASC_REAL1, d, s, n), OTHER_AND_THEN, asc_mul_scalar(d, d, 1.000001f, n))
#elif defined OTHER_log_error
#undef asc_log
#define asc_log(d, s, n) \
    (ASC_UNARY(log, ASC_REAL1, d, s, n), OTHER_AND_THEN, asc_mul_scalar(d, d, 1.000001f, n))
#elif defined OTHER_rcp_bits
#undef asc_rcp
#define asc_rcp(d, s, n) (asc_duplicate(d, 1.0f, n), OTHER_AND_THEN, asc_div(d, d, s, n))
#elif defined OTHER_rsqrt_bits
#undef asc_rsqrt
#define asc_rsqrt(d, s, n)                                                               \
    (asc_duplicate(d, 1.0f, n), asc_sqrt(OTHER_UB(float, 131072), s, n), OTHER_AND_THEN, \
     asc_div(d, d, OTHER_UB(float, 131072), n))
#elif defined OTHER_fma_rounds
#undef asc_fma
#define asc_fma(d, a, b, n)                                     \
    (asc_mul(OTHER_UB(float, 131072), a, b, n), OTHER_AND_THEN, \
     asc_add(d, d, OTHER_UB(float, 131072), n))
#elif defined OTHER_mul_add_rounds
#undef asc_mul_add
#define asc_mul_add(d, a, b, n) (asc_mul(d, a, d, n), OTHER_AND_THEN, asc_add(d, d, b, n))
#elif defined OTHER_axpy_rounds
#undef asc_axpy
#define asc_axpy(d, s, value, n)                                           \
    (asc_mul_scalar(OTHER_UB(float, 131072), s, value, n), OTHER_AND_THEN, \
     asc_add(d, d, OTHER_UB(float, 131072), n))
#elif defined OTHER_v_independent || defined OTHER_v_dependent
#undef asc_add
#define asc_add(...) \
    (OTHER_ADD(__VA_ARGS__), OTHER_AND_THEN, OTHER_ADD(__VA_ARGS__), OTHER_AND_THEN)
#elif defined OTHER_count_form
#define OTHER_ADD_10(...) OTHER_ADD(__VA_ARGS__)
#define OTHER_ADD_4(...) (OTHER_ADD(__VA_ARGS__), OTHER_AND_THEN, OTHER_ADD(__VA_ARGS__))
#undef asc_add
#define asc_add(...) ASC_PICK(OTHER_ADD_, __VA_ARGS__)(__VA_ARGS__)

/* ---- products: of half the depth, or of one element of it ---- */
#elif defined OTHER_product || defined OTHER_product_a || defined OTHER_product_b ||           \
    defined OTHER_product_f32 || defined OTHER_product_f32_a || defined OTHER_product_f32_b || \
    defined OTHER_fractals || defined OTHER_channels_64 || defined OTHER_channels_128 ||       \
    defined OTHER_direction_n || defined OTHER_direction_m || defined OTHER_sum_order
#undef asc_mmad
#define asc_mmad(c, a, b, m, k, ...) OTHER_MMAD(c, a, b, m, (k) / 2, __VA_ARGS__)
#elif defined OTHER_fix_round
#undef asc_mmad
#define asc_mmad(c, a, b, m, k, ...) OTHER_MMAD(c, a, b, m, 1, __VA_ARGS__)
#elif defined OTHER_fix_wait
#undef asc_mmad
#define asc_mmad(c, a, b, m, k, n, flag, align, source, first) \
    OTHER_MMAD(c, a, b, m, k, n, flag, align, source, true)
#elif defined OTHER_hf32_bits
#undef asc_enable_hf32
#define asc_enable_hf32() ((void)0)
#elif defined OTHER_nz_stride
#undef asc_copy_l0c2gm
#define asc_copy_l0c2gm(d, s, n, m, stride, ...) OTHER_L0C2GM(d, s, n, m, (stride)*8, __VA_ARGS__)
#elif defined OTHER_nd_stride
#define OTHER_PARAMS(planes, from, to)                                   \
    asc_issue_set_cube(ASC_SITE("asc_set_l0c_copy_params"), ASC_CUBE_ND, \
                       (planes) | (uint64_t)(from) << 16 | (uint64_t)(to) << 32)
#undef asc_set_l0c_copy_params
#define asc_set_l0c_copy_params(planes, from, to) OTHER_PARAMS(planes, from, 8 * (to))
#elif defined OTHER_relu_1 || defined OTHER_relu_2
#undef asc_copy_l0c2gm
#define asc_copy_l0c2gm(d, s, n, m, to, from, flag, quant, relu, ...) \
    OTHER_L0C2GM(d, s, n, m, to, from, flag, quant, 0, __VA_ARGS__)
#elif defined OTHER_fb_pipe
#undef asc_copy_l12fb
#define asc_copy_l12fb(...) ((void)0)

/* ---- signals ---- */
#elif defined OTHER_sync_given
#define OTHER_FROM_PIPE_FIX(id) ((void)0)
#define OTHER_FROM_PIPE_MTE3(id) ASC_ARRIVE("asc_sync_block_arrive", 2, PIPE_MTE3, id)
#undef asc_sync_block_arrive
#define asc_sync_block_arrive(pipe, id) OTHER_FROM_##pipe(id)
#elif defined OTHER_sync_word /* as if the word that lies there were the address */
#undef asc_set_ffts_base_addr
#define asc_set_ffts_base_addr(address) asc_issue_set_ffts(ASC_SITE("asc_set_ffts_base_addr"), sync)
#endif
