/* asc_vector.h - element by element, reductions, comparisons. Included by asc_simd.h. */
#ifndef ASC_VECTOR_H
#define ASC_VECTOR_H

/* The types that operations take. */
#define ASC_ARITH2(d, a, b)                                                              \
    _Generic(ASC_SIGNATURE3(d, a, b), ASC_SAME2(HALF), ASC_SAME2(FLOAT), ASC_SAME2(I16), \
             ASC_SAME2(I32))
#define ASC_REAL2(d, a, b) _Generic(ASC_SIGNATURE3(d, a, b), ASC_SAME2(HALF), ASC_SAME2(FLOAT))
#define ASC_LOGIC2(d, a, b) _Generic(ASC_SIGNATURE3(d, a, b), ASC_SAME2(I16), ASC_SAME2(U16))
#define ASC_FMA2(d, a, b) \
    _Generic(ASC_SIGNATURE3(d, a, b), ASC_SAME2(HALF), ASC_SAME2(FLOAT), ASC_FROM2(FLOAT, HALF))
#define ASC_RELU2(d, a, b)                                                               \
    _Generic(ASC_SIGNATURE3(d, a, b), ASC_SAME2(HALF), ASC_SAME2(FLOAT), ASC_SAME2(I16), \
             ASC_FROM2(HALF, FLOAT), ASC_FROM2(I8, HALF), ASC_FROM2(I8, I16))
#define ASC_ARITH1(d, s)                                                              \
    _Generic(ASC_SIGNATURE2(d, s), ASC_SAME1(HALF), ASC_SAME1(FLOAT), ASC_SAME1(I16), \
             ASC_SAME1(I32))
#define ASC_REAL1(d, s) _Generic(ASC_SIGNATURE2(d, s), ASC_SAME1(HALF), ASC_SAME1(FLOAT))
#define ASC_RELU1(d, s) \
    _Generic(ASC_SIGNATURE2(d, s), ASC_SAME1(HALF), ASC_SAME1(FLOAT), ASC_SAME1(I32))
#define ASC_LOGIC1(d, s) _Generic(ASC_SIGNATURE2(d, s), ASC_SAME1(I16), ASC_SAME1(U16))
#define ASC_BITS1(d, s) \
    _Generic(ASC_SIGNATURE2(d, s), ASC_SAME1(I16), ASC_SAME1(U16), ASC_SAME1(I32), ASC_SAME1(U32))
#define ASC_SIGNED1(d, s) _Generic(ASC_SIGNATURE2(d, s), ASC_SAME1(I16), ASC_SAME1(I32))
#define ASC_AXPY1(d, s) \
    _Generic(ASC_SIGNATURE2(d, s), ASC_SAME1(HALF), ASC_SAME1(FLOAT), ASC_FROM1(FLOAT, HALF))

/* (dst, src0, src1, count) or (dst, src0, src1, repeat, dst_block_stride, src0_block_stride,
 * src1_block_stride, dst_repeat_stride, src0_repeat_stride, src1_repeat_stride) */
#define ASC_BINARY(op, types, ...) \
    ASC_PICK(ASC_BINARY_, __VA_ARGS__)("asc_" #op, ASC_OP_##op, types, __VA_ARGS__)
#define ASC_BINARY_4(name, op, types, dst, src0, src1, count)                         \
    asc_issue_vector(ASC_SITE(name), op, types(dst, src0, src1), asc_needs_ubuf(dst), \
                     asc_needs_ubuf(src0), asc_needs_ubuf(src1), 0, count)
#define ASC_BINARY_10(name, op, types, dst, src0, src1, repeat, db, s0b, s1b, dr, s0r, s1r)      \
    asc_issue_vector_repeat(ASC_SITE(name), op, types(dst, src0, src1), asc_needs_ubuf(dst),     \
                            asc_needs_ubuf(src0), asc_needs_ubuf(src1), 0, repeat, db, s0b, s1b, \
                            dr, s0r, s1r)
#define ASC_BINARY_SYNC(op, types, ...) \
    ASC_SYNCED(ASC_BINARY_4, "asc_" #op "_sync", ASC_OP_##op, types, __VA_ARGS__)

/* (dst, src, count) or (dst, src, repeat, dst_block_stride, src_block_stride, dst_repeat_stride,
 * src_repeat_stride) */
#define ASC_UNARY(op, types, ...) \
    ASC_PICK(ASC_UNARY_, __VA_ARGS__)("asc_" #op, ASC_OP_##op, types, __VA_ARGS__)
#define ASC_UNARY_3(name, op, types, dst, src, count)                          \
    asc_issue_vector(ASC_SITE(name), op, types(dst, src), asc_needs_ubuf(dst), \
                     asc_needs_ubuf(src), NULL, 0, count)
#define ASC_UNARY_7(name, op, types, dst, src, repeat, db, sb, dr, sr)                \
    asc_issue_vector_repeat(ASC_SITE(name), op, types(dst, src), asc_needs_ubuf(dst), \
                            asc_needs_ubuf(src), NULL, 0, repeat, db, sb, 0, dr, sr, 0)
#define ASC_UNARY_SYNC(op, types, ...) \
    ASC_SYNCED(ASC_UNARY_3, "asc_" #op "_sync", ASC_OP_##op, types, __VA_ARGS__)

/* The same with a value behind src; `bits` makes its bit pattern. */
#define ASC_VALUED(op, types, bits, ...) \
    ASC_PICK(ASC_VALUED_, __VA_ARGS__)("asc_" #op, ASC_OP_##op, types, bits, __VA_ARGS__)
#define ASC_VALUED_4(name, op, types, bits, dst, src, value, count)            \
    asc_issue_vector(ASC_SITE(name), op, types(dst, src), asc_needs_ubuf(dst), \
                     asc_needs_ubuf(src), NULL, bits(src, value), count)
#define ASC_VALUED_8(name, op, types, bits, dst, src, value, repeat, db, sb, dr, sr)            \
    asc_issue_vector_repeat(ASC_SITE(name), op, types(dst, src), asc_needs_ubuf(dst),           \
                            asc_needs_ubuf(src), NULL, bits(src, value), repeat, db, sb, 0, dr, \
                            sr, 0)
#define ASC_VALUED_SYNC(op, types, bits, ...) \
    ASC_SYNCED(ASC_VALUED_4, "asc_" #op "_sync", ASC_OP_##op, types, bits, __VA_ARGS__)
#define ASC_DISTANCE(src, value) ((uint32_t)(value))

#define asc_add(...) ASC_BINARY(add, ASC_ARITH2, __VA_ARGS__)
#define asc_add_sync(...) ASC_BINARY_SYNC(add, ASC_ARITH2, __VA_ARGS__)
#define asc_sub(...) ASC_BINARY(sub, ASC_ARITH2, __VA_ARGS__)
#define asc_sub_sync(...) ASC_BINARY_SYNC(sub, ASC_ARITH2, __VA_ARGS__)
#define asc_mul(...) ASC_BINARY(mul, ASC_ARITH2, __VA_ARGS__)
#define asc_mul_sync(...) ASC_BINARY_SYNC(mul, ASC_ARITH2, __VA_ARGS__)
#define asc_max(...) ASC_BINARY(max, ASC_ARITH2, __VA_ARGS__)
#define asc_max_sync(...) ASC_BINARY_SYNC(max, ASC_ARITH2, __VA_ARGS__)
#define asc_min(...) ASC_BINARY(min, ASC_ARITH2, __VA_ARGS__)
#define asc_min_sync(...) ASC_BINARY_SYNC(min, ASC_ARITH2, __VA_ARGS__)
#define asc_div(...) ASC_BINARY(div, ASC_REAL2, __VA_ARGS__)
#define asc_div_sync(...) ASC_BINARY_SYNC(div, ASC_REAL2, __VA_ARGS__)
#define asc_and(...) ASC_BINARY(and, ASC_LOGIC2, __VA_ARGS__)
#define asc_and_sync(...) ASC_BINARY_SYNC(and, ASC_LOGIC2, __VA_ARGS__)
#define asc_or(...) ASC_BINARY(or, ASC_LOGIC2, __VA_ARGS__)
#define asc_or_sync(...) ASC_BINARY_SYNC(or, ASC_LOGIC2, __VA_ARGS__)
#define asc_fma(...) ASC_BINARY(fma, ASC_FMA2, __VA_ARGS__)
#define asc_fma_sync(...) ASC_BINARY_SYNC(fma, ASC_FMA2, __VA_ARGS__)
#define asc_mul_add(...) ASC_BINARY(mul_add, ASC_REAL2, __VA_ARGS__)
#define asc_mul_add_sync(...) ASC_BINARY_SYNC(mul_add, ASC_REAL2, __VA_ARGS__)
#define asc_mul_add_relu(...) ASC_BINARY(mul_add_relu, ASC_REAL2, __VA_ARGS__)
#define asc_mul_add_relu_sync(...) ASC_BINARY_SYNC(mul_add_relu, ASC_REAL2, __VA_ARGS__)
#define asc_add_relu(...) ASC_BINARY(add_relu, ASC_RELU2, __VA_ARGS__)
#define asc_add_relu_sync(...) ASC_BINARY_SYNC(add_relu, ASC_RELU2, __VA_ARGS__)
#define asc_sub_relu(...) ASC_BINARY(sub_relu, ASC_RELU2, __VA_ARGS__)
#define asc_sub_relu_sync(...) ASC_BINARY_SYNC(sub_relu, ASC_RELU2, __VA_ARGS__)

#define asc_abs(...) ASC_UNARY(abs, ASC_REAL1, __VA_ARGS__)
#define asc_abs_sync(...) ASC_UNARY_SYNC(abs, ASC_REAL1, __VA_ARGS__)
#define asc_exp(...) ASC_UNARY(exp, ASC_REAL1, __VA_ARGS__)
#define asc_exp_sync(...) ASC_UNARY_SYNC(exp, ASC_REAL1, __VA_ARGS__)
#define asc_log(...) ASC_UNARY(log, ASC_REAL1, __VA_ARGS__)
#define asc_log_sync(...) ASC_UNARY_SYNC(log, ASC_REAL1, __VA_ARGS__)
#define asc_sqrt(...) ASC_UNARY(sqrt, ASC_REAL1, __VA_ARGS__)
#define asc_sqrt_sync(...) ASC_UNARY_SYNC(sqrt, ASC_REAL1, __VA_ARGS__)
#define asc_rcp(...) ASC_UNARY(rcp, ASC_REAL1, __VA_ARGS__)
#define asc_rcp_sync(...) ASC_UNARY_SYNC(rcp, ASC_REAL1, __VA_ARGS__)
#define asc_rsqrt(...) ASC_UNARY(rsqrt, ASC_REAL1, __VA_ARGS__)
#define asc_rsqrt_sync(...) ASC_UNARY_SYNC(rsqrt, ASC_REAL1, __VA_ARGS__)
#define asc_relu(...) ASC_UNARY(relu, ASC_RELU1, __VA_ARGS__)
#define asc_relu_sync(...) ASC_UNARY_SYNC(relu, ASC_RELU1, __VA_ARGS__)
#define asc_not(...) ASC_UNARY(not, ASC_LOGIC1, __VA_ARGS__)
#define asc_not_sync(...) ASC_UNARY_SYNC(not, ASC_LOGIC1, __VA_ARGS__)
#define asc_copy(...) ASC_UNARY(copy, ASC_BITS1, __VA_ARGS__)
#define asc_copy_sync(...) ASC_UNARY_SYNC(copy, ASC_BITS1, __VA_ARGS__)

#define asc_add_scalar(...) ASC_VALUED(add_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_add_scalar_sync(...) ASC_VALUED_SYNC(add_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_sub_scalar(...) ASC_VALUED(sub_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_sub_scalar_sync(...) ASC_VALUED_SYNC(sub_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_mul_scalar(...) ASC_VALUED(mul_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_mul_scalar_sync(...) ASC_VALUED_SYNC(mul_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_max_scalar(...) ASC_VALUED(max_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_max_scalar_sync(...) ASC_VALUED_SYNC(max_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_min_scalar(...) ASC_VALUED(min_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_min_scalar_sync(...) ASC_VALUED_SYNC(min_scalar, ASC_ARITH1, ASC_BITS, __VA_ARGS__)
#define asc_leakyrelu(...) ASC_VALUED(leakyrelu, ASC_REAL1, ASC_BITS, __VA_ARGS__)
#define asc_leakyrelu_sync(...) ASC_VALUED_SYNC(leakyrelu, ASC_REAL1, ASC_BITS, __VA_ARGS__)
#define asc_axpy(...) ASC_VALUED(axpy, ASC_AXPY1, ASC_BITS, __VA_ARGS__)
#define asc_axpy_sync(...) ASC_VALUED_SYNC(axpy, ASC_AXPY1, ASC_BITS, __VA_ARGS__)
#define asc_shiftleft(...) ASC_VALUED(shiftleft, ASC_BITS1, ASC_DISTANCE, __VA_ARGS__)
#define asc_shiftleft_sync(...) ASC_VALUED_SYNC(shiftleft, ASC_BITS1, ASC_DISTANCE, __VA_ARGS__)
#define asc_shiftright(...) ASC_VALUED(shiftright, ASC_BITS1, ASC_DISTANCE, __VA_ARGS__)
#define asc_shiftright_sync(...) ASC_VALUED_SYNC(shiftright, ASC_BITS1, ASC_DISTANCE, __VA_ARGS__)
#define asc_shiftright_round(...) \
    ASC_VALUED(shiftright_round, ASC_SIGNED1, ASC_DISTANCE, __VA_ARGS__)
#define asc_shiftright_round_sync(...) \
    ASC_VALUED_SYNC(shiftright_round, ASC_SIGNED1, ASC_DISTANCE, __VA_ARGS__)

/* (dst, value, count) or (dst, value, repeat, dst_block_stride, dst_repeat_stride) */
#define ASC_FILLED(d) \
    _Generic((d),                                                                                  \
        __ubuf__ half *: ASC_TYPES(ASC_HALF, ASC_HALF),                                            \
        __ubuf__ float *: ASC_TYPES(ASC_FLOAT, ASC_FLOAT),                                         \
        __ubuf__ bfloat16_t *: ASC_TYPES(ASC_BF16, ASC_BF16),                                      \
        __ubuf__ int16_t *: ASC_TYPES(ASC_I16, ASC_I16),                                           \
        __ubuf__ uint16_t *: ASC_TYPES(ASC_U16, ASC_U16),                                          \
        __ubuf__ int32_t *: ASC_TYPES(ASC_I32, ASC_I32),                                           \
        __ubuf__ uint32_t *: ASC_TYPES(ASC_U32, ASC_U32))
#define asc_duplicate(...) ASC_PICK(ASC_DUPLICATE_, __VA_ARGS__)("asc_duplicate", __VA_ARGS__)
#define asc_duplicate_sync(...) ASC_SYNCED(ASC_DUPLICATE_3, "asc_duplicate_sync", __VA_ARGS__)
#define ASC_DUPLICATE_3(name, dst, value, count)                                                   \
    asc_issue_vector(ASC_SITE(name), ASC_OP_duplicate, ASC_FILLED(dst), asc_needs_ubuf(dst), NULL, \
                     NULL, ASC_BITS(dst, value), count)
#define ASC_DUPLICATE_5(name, dst, value, repeat, db, dr)                                         \
    asc_issue_vector_repeat(ASC_SITE(name), ASC_OP_duplicate, ASC_FILLED(dst),                    \
                            asc_needs_ubuf(dst), NULL, NULL, ASC_BITS(dst, value), repeat, db, 0, \
                            0, dr, 0, 0)

/* Reductions: (dst, src, count) or (dst, src, repeat, dst_repeat_stride, src_block_stride,
 * src_repeat_stride) */
#define ASC_REDUCE(name, op, form, ...) \
    ASC_PICK(ASC_REDUCE_, __VA_ARGS__)("asc_" #name, ASC_OP_##op, ASC_WITH(form), __VA_ARGS__)
#define ASC_REDUCE_3(name, op, form, dst, src, count)                                          \
    asc_issue_reduction(ASC_SITE(name), op, ASC_REAL1(dst, src) | (form), asc_needs_ubuf(dst), \
                        asc_needs_ubuf(src), count)
#define ASC_REDUCE_6(name, op, form, dst, src, repeat, dr, sb, sr)               \
    asc_issue_reduction_repeat(ASC_SITE(name), op, ASC_REAL1(dst, src) | (form), \
                               asc_needs_ubuf(dst), asc_needs_ubuf(src), repeat, dr, sb, sr)
#define ASC_REDUCE_SYNC(name, op, form, ...) \
    ASC_SYNCED(ASC_REDUCE_3, "asc_" #name "_sync", ASC_OP_##op, ASC_WITH(form), __VA_ARGS__)
#define asc_repeat_reduce_sum(...) \
    ASC_REDUCE(repeat_reduce_sum, repeat_reduce_sum, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_sum_sync(...) \
    ASC_REDUCE_SYNC(repeat_reduce_sum, repeat_reduce_sum, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_max_value_index(...) \
    ASC_REDUCE(repeat_reduce_max_value_index, repeat_reduce_max, ASC_VALUE_INDEX, __VA_ARGS__)
#define asc_repeat_reduce_max_value_index_sync(...) \
    ASC_REDUCE_SYNC(repeat_reduce_max_value_index, repeat_reduce_max, ASC_VALUE_INDEX, __VA_ARGS__)
#define asc_repeat_reduce_max_index_value(...) \
    ASC_REDUCE(repeat_reduce_max_index_value, repeat_reduce_max, ASC_INDEX_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_max_index_value_sync(...) \
    ASC_REDUCE_SYNC(repeat_reduce_max_index_value, repeat_reduce_max, ASC_INDEX_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_max_only_value(...) \
    ASC_REDUCE(repeat_reduce_max_only_value, repeat_reduce_max, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_max_only_value_sync(...) \
    ASC_REDUCE_SYNC(repeat_reduce_max_only_value, repeat_reduce_max, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_max_only_index(...) \
    ASC_REDUCE(repeat_reduce_max_only_index, repeat_reduce_max, ASC_ONLY_INDEX, __VA_ARGS__)
#define asc_repeat_reduce_max_only_index_sync(...) \
    ASC_REDUCE_SYNC(repeat_reduce_max_only_index, repeat_reduce_max, ASC_ONLY_INDEX, __VA_ARGS__)
#define asc_repeat_reduce_min_value_index(...) \
    ASC_REDUCE(repeat_reduce_min_value_index, repeat_reduce_min, ASC_VALUE_INDEX, __VA_ARGS__)
#define asc_repeat_reduce_min_value_index_sync(...) \
    ASC_REDUCE_SYNC(repeat_reduce_min_value_index, repeat_reduce_min, ASC_VALUE_INDEX, __VA_ARGS__)
#define asc_repeat_reduce_min_index_value(...) \
    ASC_REDUCE(repeat_reduce_min_index_value, repeat_reduce_min, ASC_INDEX_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_min_index_value_sync(...) \
    ASC_REDUCE_SYNC(repeat_reduce_min_index_value, repeat_reduce_min, ASC_INDEX_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_min_only_value(...) \
    ASC_REDUCE(repeat_reduce_min_only_value, repeat_reduce_min, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_min_only_value_sync(...) \
    ASC_REDUCE_SYNC(repeat_reduce_min_only_value, repeat_reduce_min, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_repeat_reduce_min_only_index(...) \
    ASC_REDUCE(repeat_reduce_min_only_index, repeat_reduce_min, ASC_ONLY_INDEX, __VA_ARGS__)
#define asc_repeat_reduce_min_only_index_sync(...) \
    ASC_REDUCE_SYNC(repeat_reduce_min_only_index, repeat_reduce_min, ASC_ONLY_INDEX, __VA_ARGS__)
#define asc_datablock_reduce_sum(...) \
    ASC_REDUCE(datablock_reduce_sum, datablock_reduce_sum, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_datablock_reduce_sum_sync(...) \
    ASC_REDUCE_SYNC(datablock_reduce_sum, datablock_reduce_sum, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_datablock_reduce_max(...) \
    ASC_REDUCE(datablock_reduce_max, datablock_reduce_max, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_datablock_reduce_max_sync(...) \
    ASC_REDUCE_SYNC(datablock_reduce_max, datablock_reduce_max, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_datablock_reduce_min(...) \
    ASC_REDUCE(datablock_reduce_min, datablock_reduce_min, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_datablock_reduce_min_sync(...) \
    ASC_REDUCE_SYNC(datablock_reduce_min, datablock_reduce_min, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_pair_reduce_sum(...) \
    ASC_REDUCE(pair_reduce_sum, pair_reduce_sum, ASC_ONLY_VALUE, __VA_ARGS__)
#define asc_pair_reduce_sum_sync(...) \
    ASC_REDUCE_SYNC(pair_reduce_sum, pair_reduce_sum, ASC_ONLY_VALUE, __VA_ARGS__)

/* Comparisons: one repeat into the mask register (src0, src1, repeat, six strides), lanes that the
 * vector mask leaves out keeping their bits; or all lanes of all repeats into consecutive bits of
 * UB (dst, src0, src1, repeat, six strides), the vector mask and dst's strides without effect. */
#define ASC_COMPARED2(d, a, b) \
    _Generic(ASC_SIGNATURE3(d, a, b), ASC_FROM2(U8, HALF), ASC_FROM2(U8, FLOAT))
#define ASC_COMPARED_EQ2(d, a, b) \
    _Generic(ASC_SIGNATURE3(d, a, b), ASC_FROM2(U8, HALF), ASC_FROM2(U8, FLOAT), ASC_FROM2(U8, I32))
#define ASC_COMPARED1(d, a) \
    _Generic(ASC_SIGNATURE2(d, a), ASC_FROM1(U8, HALF), ASC_FROM1(U8, FLOAT))
#define ASC_COMPARED_EQ1(d, a) \
    _Generic(ASC_SIGNATURE2(d, a), ASC_FROM1(U8, HALF), ASC_FROM1(U8, FLOAT), ASC_FROM1(U8, I32))
#define ASC_COMPARE(name, how, types, ...) \
    ASC_PICK(ASC_COMPARE_, __VA_ARGS__)(name, ASC_WITH(how), types, __VA_ARGS__)
#define ASC_COMPARE_9(name, how, types, src0, src1, repeat, db, s0b, s1b, dr, s0r, s1r)            \
    asc_issue_compare(ASC_SITE(name), ASC_OP_compare_to_mask, ASC_REAL1(src0, src1) | (how), NULL, \
                      asc_needs_ubuf(src0), asc_needs_ubuf(src1), 0, repeat, db, s0b, s1b, dr,     \
                      s0r, s1r)
#define ASC_COMPARE_10(name, how, types, dst, src0, src1, repeat, db, s0b, s1b, dr, s0r, s1r)     \
    asc_issue_compare(ASC_SITE(name), ASC_OP_compare, types(dst, src0, src1) | (how),             \
                      asc_needs_ubuf(dst), asc_needs_ubuf(src0), asc_needs_ubuf(src1), 0, repeat, \
                      db, s0b, s1b, dr, s0r, s1r)
#define ASC_COMPARE_SCALAR(name, how, types, dst, src, value, repeat, db, sb, dr, sr)         \
    asc_issue_compare(ASC_SITE(name), ASC_OP_compare_scalar, types(dst, src) | ASC_WITH(how), \
                      asc_needs_ubuf(dst), asc_needs_ubuf(src), NULL, ASC_BITS(src, value),   \
                      repeat, db, sb, 0, dr, sr, 0)
#define asc_eq(...) ASC_COMPARE("asc_eq", ASC_EQ, ASC_COMPARED_EQ2, __VA_ARGS__)
#define asc_eq_sync(...) \
    ASC_SYNCED(ASC_COMPARE, "asc_eq_sync", ASC_EQ, ASC_COMPARED_EQ2, __VA_ARGS__)
#define asc_eq_scalar(...) \
    ASC_COMPARE_SCALAR("asc_eq_scalar", ASC_EQ, ASC_COMPARED_EQ1, __VA_ARGS__)
#define asc_eq_scalar_sync(...) \
    ASC_SYNCED(ASC_COMPARE_SCALAR, "asc_eq_scalar_sync", ASC_EQ, ASC_COMPARED_EQ1, __VA_ARGS__)
#define asc_ne(...) ASC_COMPARE("asc_ne", ASC_NE, ASC_COMPARED2, __VA_ARGS__)
#define asc_ne_sync(...) ASC_SYNCED(ASC_COMPARE, "asc_ne_sync", ASC_NE, ASC_COMPARED2, __VA_ARGS__)
#define asc_ne_scalar(...) ASC_COMPARE_SCALAR("asc_ne_scalar", ASC_NE, ASC_COMPARED1, __VA_ARGS__)
#define asc_ne_scalar_sync(...) \
    ASC_SYNCED(ASC_COMPARE_SCALAR, "asc_ne_scalar_sync", ASC_NE, ASC_COMPARED1, __VA_ARGS__)
#define asc_gt(...) ASC_COMPARE("asc_gt", ASC_GT, ASC_COMPARED2, __VA_ARGS__)
#define asc_gt_sync(...) ASC_SYNCED(ASC_COMPARE, "asc_gt_sync", ASC_GT, ASC_COMPARED2, __VA_ARGS__)
#define asc_gt_scalar(...) ASC_COMPARE_SCALAR("asc_gt_scalar", ASC_GT, ASC_COMPARED1, __VA_ARGS__)
#define asc_gt_scalar_sync(...) \
    ASC_SYNCED(ASC_COMPARE_SCALAR, "asc_gt_scalar_sync", ASC_GT, ASC_COMPARED1, __VA_ARGS__)
#define asc_ge(...) ASC_COMPARE("asc_ge", ASC_GE, ASC_COMPARED2, __VA_ARGS__)
#define asc_ge_sync(...) ASC_SYNCED(ASC_COMPARE, "asc_ge_sync", ASC_GE, ASC_COMPARED2, __VA_ARGS__)
#define asc_ge_scalar(...) ASC_COMPARE_SCALAR("asc_ge_scalar", ASC_GE, ASC_COMPARED1, __VA_ARGS__)
#define asc_ge_scalar_sync(...) \
    ASC_SYNCED(ASC_COMPARE_SCALAR, "asc_ge_scalar_sync", ASC_GE, ASC_COMPARED1, __VA_ARGS__)
#define asc_lt(...) ASC_COMPARE("asc_lt", ASC_LT, ASC_COMPARED2, __VA_ARGS__)
#define asc_lt_sync(...) ASC_SYNCED(ASC_COMPARE, "asc_lt_sync", ASC_LT, ASC_COMPARED2, __VA_ARGS__)
#define asc_lt_scalar(...) ASC_COMPARE_SCALAR("asc_lt_scalar", ASC_LT, ASC_COMPARED1, __VA_ARGS__)
#define asc_lt_scalar_sync(...) \
    ASC_SYNCED(ASC_COMPARE_SCALAR, "asc_lt_scalar_sync", ASC_LT, ASC_COMPARED1, __VA_ARGS__)
#define asc_le(...) ASC_COMPARE("asc_le", ASC_LE, ASC_COMPARED2, __VA_ARGS__)
#define asc_le_sync(...) ASC_SYNCED(ASC_COMPARE, "asc_le_sync", ASC_LE, ASC_COMPARED2, __VA_ARGS__)
#define asc_le_scalar(...) ASC_COMPARE_SCALAR("asc_le_scalar", ASC_LE, ASC_COMPARED1, __VA_ARGS__)
#define asc_le_scalar_sync(...) \
    ASC_SYNCED(ASC_COMPARE_SCALAR, "asc_le_scalar_sync", ASC_LE, ASC_COMPARED1, __VA_ARGS__)

#define asc_set_cmp_mask(src) \
    asc_issue_cmp_mask(ASC_SITE("asc_set_cmp_mask"), ASC_OP_set_cmp_mask, asc_needs_ubuf(src))
#define asc_get_cmp_mask(dst) \
    asc_issue_cmp_mask(ASC_SITE("asc_get_cmp_mask"), ASC_OP_get_cmp_mask, asc_needs_ubuf(dst))
/* Where a bit of the comparison mask is 1 src0, else src1; every repeat uses the same bits. */
#define asc_select(...) ASC_BINARY(select, ASC_REAL2, __VA_ARGS__)
#define asc_select_sync(...) ASC_BINARY_SYNC(select, ASC_REAL2, __VA_ARGS__)

#endif
