/* asc_move.h - copies between GM and UB, atomic stores. Included by asc_simd.h. */
#ifndef ASC_MOVE_H
#define ASC_MOVE_H

/* Whole blocks of 32 B: (dst, src, bytes), which drops what is beyond the last whole block, or
 * (dst, src, n_burst, len_burst, src_gap, dst_gap), all in blocks. */
#define ASC_COPY(op, to, from, ...) \
    ASC_PICK(ASC_COPY_, __VA_ARGS__)("asc_" #op, ASC_OP_##op, to, from, __VA_ARGS__)
#define ASC_COPY_3(name, op, to, from, dst, src, size) \
    asc_issue_copy_size(ASC_SITE(name), op, to(dst), from(src), size)
#define ASC_COPY_6(name, op, to, from, dst, src, n_burst, len_burst, src_gap, dst_gap)           \
    asc_issue_copy(ASC_SITE(name), op, 0, to(dst), from(src), n_burst, len_burst, 0, 0, src_gap, \
                   dst_gap)
#define ASC_COPY_SYNC(op, to, from, ...) \
    ASC_SYNCED(ASC_COPY_3, "asc_" #op "_sync", ASC_OP_##op, to, from, __VA_ARGS__)
#define asc_copy_gm2ub(...) ASC_COPY(copy_gm2ub, asc_needs_ubuf, asc_needs_gm, __VA_ARGS__)
#define asc_copy_gm2ub_sync(...) \
    ASC_COPY_SYNC(copy_gm2ub, asc_needs_ubuf, asc_needs_gm, __VA_ARGS__)
#define asc_copy_ub2gm(...) ASC_COPY(copy_ub2gm, asc_needs_gm, asc_needs_ubuf, __VA_ARGS__)
#define asc_copy_ub2gm_sync(...) \
    ASC_COPY_SYNC(copy_ub2gm, asc_needs_gm, asc_needs_ubuf, __VA_ARGS__)
#define asc_copy_ub2ub(...) ASC_COPY(copy_ub2ub, asc_needs_ubuf, asc_needs_ubuf, __VA_ARGS__)
#define asc_copy_ub2ub_sync(...) \
    ASC_COPY_SYNC(copy_ub2ub, asc_needs_ubuf, asc_needs_ubuf, __VA_ARGS__)

/* Any number of bytes: (dst, src, bytes) or (dst, src, n_burst, len_burst in bytes, left and right
 * padding in elements, src_gap, dst_gap); a gap is bytes in GM and blocks in UB. A piece in UB
 * always fills whole blocks. */
#define ASC_MOVED_IN(d, s)                                                           \
    _Generic(ASC_SIGNATURE2(d, s), ASC_IN(int8_t), ASC_IN(uint8_t), ASC_IN(int16_t), \
             ASC_IN(uint16_t), ASC_IN(half), ASC_IN(bfloat16_t), ASC_IN(int32_t),    \
             ASC_IN(uint32_t), ASC_IN(float))
#define ASC_MOVED_OUT(d, s)                                                             \
    _Generic(ASC_SIGNATURE2(d, s), ASC_OUT(int8_t), ASC_OUT(uint8_t), ASC_OUT(int16_t), \
             ASC_OUT(uint16_t), ASC_OUT(half), ASC_OUT(bfloat16_t), ASC_OUT(int32_t),   \
             ASC_OUT(uint32_t), ASC_OUT(float), ASC_OUT(int64_t), ASC_OUT(uint64_t),    \
             ASC_OUT(double))
#define ASC_IN(T) void (*)(__ubuf__ T *, __gm__ T *) : (int)sizeof(T)
#define ASC_OUT(T) void (*)(__gm__ T *, __ubuf__ T *) : (int)sizeof(T)
#define ASC_ALIGN(op, types, to, from, ...) \
    ASC_PICK(ASC_ALIGN_, __VA_ARGS__)("asc_" #op, ASC_OP_##op, types, to, from, __VA_ARGS__)
#define ASC_ALIGN_3(name, op, types, to, from, dst, src, size) \
    asc_issue_copy(ASC_SITE(name), op, types(dst, src), to(dst), from(src), 1, size, 0, 0, 0, 0)
#define ASC_ALIGN_8(name, op, types, to, from, dst, src, n_burst, len_burst, left, right, src_gap, \
                    dst_gap)                                                                       \
    asc_issue_copy(ASC_SITE(name), op, types(dst, src), to(dst), from(src), n_burst, len_burst,    \
                   left, right, src_gap, dst_gap)
#define ASC_ALIGN_SYNC(op, types, to, from, ...) \
    ASC_SYNCED(ASC_ALIGN_3, "asc_" #op "_sync", ASC_OP_##op, types, to, from, __VA_ARGS__)
#define asc_copy_gm2ub_align(...) \
    ASC_ALIGN(copy_gm2ub_align, ASC_MOVED_IN, asc_needs_ubuf, asc_needs_gm, __VA_ARGS__)
#define asc_copy_gm2ub_align_sync(...) \
    ASC_ALIGN_SYNC(copy_gm2ub_align, ASC_MOVED_IN, asc_needs_ubuf, asc_needs_gm, __VA_ARGS__)
#define asc_copy_ub2gm_align(...) \
    ASC_ALIGN(copy_ub2gm_align, ASC_MOVED_OUT, asc_needs_gm, asc_needs_ubuf, __VA_ARGS__)
#define asc_copy_ub2gm_align_sync(...) \
    ASC_ALIGN_SYNC(copy_ub2gm_align, ASC_MOVED_OUT, asc_needs_gm, asc_needs_ubuf, __VA_ARGS__)

/* What left and right padding are filled with. */
#define asc_set_copy_pad_val(value)                                                           \
    asc_issue_set_pad(ASC_SITE("asc_set_copy_pad_val"), _Generic((value), half                \
                                                                 : asc_bits_half, float       \
                                                                 : asc_bits_float, bfloat16_t \
                                                                 : asc_bits_bf16, int8_t      \
                                                                 : asc_bits_i8, uint8_t       \
                                                                 : asc_bits_u16, int16_t      \
                                                                 : asc_bits_i16, uint16_t     \
                                                                 : asc_bits_u16, int32_t      \
                                                                 : asc_bits_i32, uint32_t     \
                                                                 : asc_bits_u32)(value))

/* What stores from UB to GM do to the element there, until asc_set_atomic_none(). */
#define ASC_SET_ATOMIC(name, kind, type) \
    asc_issue_set_atomic(ASC_SITE("asc_set_atomic_" name), kind, type)
#define asc_set_atomic_none() ASC_SET_ATOMIC("none", ASC_ATOMIC_NONE, ASC_FLOAT)
#define asc_set_atomic_add_float() ASC_SET_ATOMIC("add_float", ASC_ATOMIC_ADD, ASC_FLOAT)
#define asc_set_atomic_add_float16() ASC_SET_ATOMIC("add_float16", ASC_ATOMIC_ADD, ASC_HALF)
#define asc_set_atomic_add_bfloat() ASC_SET_ATOMIC("add_bfloat", ASC_ATOMIC_ADD, ASC_BF16)
#define asc_set_atomic_add_int() ASC_SET_ATOMIC("add_int", ASC_ATOMIC_ADD, ASC_I32)
#define asc_set_atomic_add_int16() ASC_SET_ATOMIC("add_int16", ASC_ATOMIC_ADD, ASC_I16)
#define asc_set_atomic_add_int8() ASC_SET_ATOMIC("add_int8", ASC_ATOMIC_ADD, ASC_I8)
#define asc_set_atomic_max_float() ASC_SET_ATOMIC("max_float", ASC_ATOMIC_MAX, ASC_FLOAT)
#define asc_set_atomic_max_float16() ASC_SET_ATOMIC("max_float16", ASC_ATOMIC_MAX, ASC_HALF)
#define asc_set_atomic_max_bfloat() ASC_SET_ATOMIC("max_bfloat", ASC_ATOMIC_MAX, ASC_BF16)
#define asc_set_atomic_max_int() ASC_SET_ATOMIC("max_int", ASC_ATOMIC_MAX, ASC_I32)
#define asc_set_atomic_max_int16() ASC_SET_ATOMIC("max_int16", ASC_ATOMIC_MAX, ASC_I16)
#define asc_set_atomic_max_int8() ASC_SET_ATOMIC("max_int8", ASC_ATOMIC_MAX, ASC_I8)
#define asc_set_atomic_min_float() ASC_SET_ATOMIC("min_float", ASC_ATOMIC_MIN, ASC_FLOAT)
#define asc_set_atomic_min_float16() ASC_SET_ATOMIC("min_float16", ASC_ATOMIC_MIN, ASC_HALF)
#define asc_set_atomic_min_bfloat() ASC_SET_ATOMIC("min_bfloat", ASC_ATOMIC_MIN, ASC_BF16)
#define asc_set_atomic_min_int() ASC_SET_ATOMIC("min_int", ASC_ATOMIC_MIN, ASC_I32)
#define asc_set_atomic_min_int16() ASC_SET_ATOMIC("min_int16", ASC_ATOMIC_MIN, ASC_I16)
#define asc_set_atomic_min_int8() ASC_SET_ATOMIC("min_int8", ASC_ATOMIC_MIN, ASC_I8)

#endif
