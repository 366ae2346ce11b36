/* asc_convert.h - conversions: (dst, src, count) or (dst, src, repeat, dst_block_stride,
 * src_block_stride, dst_repeat_stride, src_repeat_stride). A repeat is 256 B of the wider type.
 * Included by asc_simd.h. Suffixes: rn to nearest even, rna to nearest and halves away from zero,
 * rd down, ru up, rz to zero, ro to odd. */
#ifndef ASC_CONVERT_H
#define ASC_CONVERT_H

#define ASC_CONVERT(name, D, S, how, ...) \
    ASC_PICK(ASC_CONVERT_, __VA_ARGS__)("asc_" #name, D, S, ASC_WITH(how), __VA_ARGS__)
#define ASC_CONVERTED(D, S, how, dst, src) \
    (_Generic(ASC_SIGNATURE2(dst, src), ASC_FROM1(D, S)) | (how))
#define ASC_CONVERT_3(name, D, S, how, dst, src, count)                                  \
    asc_issue_vector(ASC_SITE(name), ASC_OP_convert, ASC_CONVERTED(D, S, how, dst, src), \
                     asc_needs_ubuf(dst), asc_needs_ubuf(src), NULL, 0, count)
/* asc_float2int32_rn, _rna, _rd and _ru of a float, on the scalar unit. A cast rounds to zero. */
ASC_ABSENT(asc_conversion_of_one_value);
#define ASC_CONVERT_1(name, D, S, how, value) asc_conversion_of_one_value(value)
#define ASC_CONVERT_7(name, D, S, how, dst, src, repeat, db, sb, dr, sr)                          \
    asc_issue_vector_repeat(ASC_SITE(name), ASC_OP_convert, ASC_CONVERTED(D, S, how, dst, src),   \
                            asc_needs_ubuf(dst), asc_needs_ubuf(src), NULL, 0, repeat, db, sb, 0, \
                            dr, sr, 0)
#define ASC_CONVERT_SYNC(name, D, S, how, ...) \
    ASC_SYNCED(ASC_CONVERT_3, "asc_" #name "_sync", D, S, ASC_WITH(how), __VA_ARGS__)

#define asc_half2float(...) ASC_CONVERT(half2float, FLOAT, HALF, ASC_EXACT, __VA_ARGS__)
#define asc_half2float_sync(...) ASC_CONVERT_SYNC(half2float, FLOAT, HALF, ASC_EXACT, __VA_ARGS__)
#define asc_bfloat162float(...) ASC_CONVERT(bfloat162float, FLOAT, BF16, ASC_EXACT, __VA_ARGS__)
#define asc_bfloat162float_sync(...) \
    ASC_CONVERT_SYNC(bfloat162float, FLOAT, BF16, ASC_EXACT, __VA_ARGS__)
#define asc_float2half(...) ASC_CONVERT(float2half, HALF, FLOAT, ASC_EXACT, __VA_ARGS__)
#define asc_float2half_sync(...) ASC_CONVERT_SYNC(float2half, HALF, FLOAT, ASC_EXACT, __VA_ARGS__)
#define asc_float2half_rn(...) ASC_CONVERT(float2half_rn, HALF, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2half_rn_sync(...) \
    ASC_CONVERT_SYNC(float2half_rn, HALF, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2half_rna(...) ASC_CONVERT(float2half_rna, HALF, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2half_rna_sync(...) \
    ASC_CONVERT_SYNC(float2half_rna, HALF, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2half_rd(...) ASC_CONVERT(float2half_rd, HALF, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2half_rd_sync(...) \
    ASC_CONVERT_SYNC(float2half_rd, HALF, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2half_ru(...) ASC_CONVERT(float2half_ru, HALF, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2half_ru_sync(...) \
    ASC_CONVERT_SYNC(float2half_ru, HALF, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2half_rz(...) ASC_CONVERT(float2half_rz, HALF, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2half_rz_sync(...) \
    ASC_CONVERT_SYNC(float2half_rz, HALF, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2half_ro(...) ASC_CONVERT(float2half_ro, HALF, FLOAT, ASC_RO, __VA_ARGS__)
#define asc_float2half_ro_sync(...) \
    ASC_CONVERT_SYNC(float2half_ro, HALF, FLOAT, ASC_RO, __VA_ARGS__)
#define asc_float2bfloat16_rn(...) ASC_CONVERT(float2bfloat16_rn, BF16, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2bfloat16_rn_sync(...) \
    ASC_CONVERT_SYNC(float2bfloat16_rn, BF16, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2bfloat16_rna(...) \
    ASC_CONVERT(float2bfloat16_rna, BF16, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2bfloat16_rna_sync(...) \
    ASC_CONVERT_SYNC(float2bfloat16_rna, BF16, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2bfloat16_rd(...) ASC_CONVERT(float2bfloat16_rd, BF16, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2bfloat16_rd_sync(...) \
    ASC_CONVERT_SYNC(float2bfloat16_rd, BF16, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2bfloat16_ru(...) ASC_CONVERT(float2bfloat16_ru, BF16, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2bfloat16_ru_sync(...) \
    ASC_CONVERT_SYNC(float2bfloat16_ru, BF16, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2bfloat16_rz(...) ASC_CONVERT(float2bfloat16_rz, BF16, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2bfloat16_rz_sync(...) \
    ASC_CONVERT_SYNC(float2bfloat16_rz, BF16, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2float_rn(...) ASC_CONVERT(float2float_rn, FLOAT, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2float_rn_sync(...) \
    ASC_CONVERT_SYNC(float2float_rn, FLOAT, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2float_rna(...) ASC_CONVERT(float2float_rna, FLOAT, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2float_rna_sync(...) \
    ASC_CONVERT_SYNC(float2float_rna, FLOAT, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2float_rd(...) ASC_CONVERT(float2float_rd, FLOAT, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2float_rd_sync(...) \
    ASC_CONVERT_SYNC(float2float_rd, FLOAT, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2float_ru(...) ASC_CONVERT(float2float_ru, FLOAT, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2float_ru_sync(...) \
    ASC_CONVERT_SYNC(float2float_ru, FLOAT, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2float_rz(...) ASC_CONVERT(float2float_rz, FLOAT, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2float_rz_sync(...) \
    ASC_CONVERT_SYNC(float2float_rz, FLOAT, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2int16_rn(...) ASC_CONVERT(float2int16_rn, I16, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2int16_rn_sync(...) \
    ASC_CONVERT_SYNC(float2int16_rn, I16, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2int16_rna(...) ASC_CONVERT(float2int16_rna, I16, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2int16_rna_sync(...) \
    ASC_CONVERT_SYNC(float2int16_rna, I16, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2int16_rd(...) ASC_CONVERT(float2int16_rd, I16, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2int16_rd_sync(...) \
    ASC_CONVERT_SYNC(float2int16_rd, I16, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2int16_ru(...) ASC_CONVERT(float2int16_ru, I16, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2int16_ru_sync(...) \
    ASC_CONVERT_SYNC(float2int16_ru, I16, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2int16_rz(...) ASC_CONVERT(float2int16_rz, I16, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2int16_rz_sync(...) \
    ASC_CONVERT_SYNC(float2int16_rz, I16, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2int32_rn(...) ASC_CONVERT(float2int32_rn, I32, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2int32_rn_sync(...) \
    ASC_CONVERT_SYNC(float2int32_rn, I32, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2int32_rna(...) ASC_CONVERT(float2int32_rna, I32, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2int32_rna_sync(...) \
    ASC_CONVERT_SYNC(float2int32_rna, I32, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2int32_rd(...) ASC_CONVERT(float2int32_rd, I32, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2int32_rd_sync(...) \
    ASC_CONVERT_SYNC(float2int32_rd, I32, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2int32_ru(...) ASC_CONVERT(float2int32_ru, I32, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2int32_ru_sync(...) \
    ASC_CONVERT_SYNC(float2int32_ru, I32, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2int32_rz(...) ASC_CONVERT(float2int32_rz, I32, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2int32_rz_sync(...) \
    ASC_CONVERT_SYNC(float2int32_rz, I32, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2int64_rn(...) ASC_CONVERT(float2int64_rn, I64, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2int64_rn_sync(...) \
    ASC_CONVERT_SYNC(float2int64_rn, I64, FLOAT, ASC_RN, __VA_ARGS__)
#define asc_float2int64_rna(...) ASC_CONVERT(float2int64_rna, I64, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2int64_rna_sync(...) \
    ASC_CONVERT_SYNC(float2int64_rna, I64, FLOAT, ASC_RNA, __VA_ARGS__)
#define asc_float2int64_rd(...) ASC_CONVERT(float2int64_rd, I64, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2int64_rd_sync(...) \
    ASC_CONVERT_SYNC(float2int64_rd, I64, FLOAT, ASC_RD, __VA_ARGS__)
#define asc_float2int64_ru(...) ASC_CONVERT(float2int64_ru, I64, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2int64_ru_sync(...) \
    ASC_CONVERT_SYNC(float2int64_ru, I64, FLOAT, ASC_RU, __VA_ARGS__)
#define asc_float2int64_rz(...) ASC_CONVERT(float2int64_rz, I64, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_float2int64_rz_sync(...) \
    ASC_CONVERT_SYNC(float2int64_rz, I64, FLOAT, ASC_RZ, __VA_ARGS__)
#define asc_int162float(...) ASC_CONVERT(int162float, FLOAT, I16, ASC_EXACT, __VA_ARGS__)
#define asc_int162float_sync(...) ASC_CONVERT_SYNC(int162float, FLOAT, I16, ASC_EXACT, __VA_ARGS__)
#define asc_int322float(...) ASC_CONVERT(int322float, FLOAT, I32, ASC_EXACT, __VA_ARGS__)
#define asc_int322float_sync(...) ASC_CONVERT_SYNC(int322float, FLOAT, I32, ASC_EXACT, __VA_ARGS__)
#define asc_int322float_rn(...) ASC_CONVERT(int322float_rn, FLOAT, I32, ASC_RN, __VA_ARGS__)
#define asc_int322float_rn_sync(...) \
    ASC_CONVERT_SYNC(int322float_rn, FLOAT, I32, ASC_RN, __VA_ARGS__)
#define asc_int322float_rna(...) ASC_CONVERT(int322float_rna, FLOAT, I32, ASC_RNA, __VA_ARGS__)
#define asc_int322float_rna_sync(...) \
    ASC_CONVERT_SYNC(int322float_rna, FLOAT, I32, ASC_RNA, __VA_ARGS__)
#define asc_int322float_rd(...) ASC_CONVERT(int322float_rd, FLOAT, I32, ASC_RD, __VA_ARGS__)
#define asc_int322float_rd_sync(...) \
    ASC_CONVERT_SYNC(int322float_rd, FLOAT, I32, ASC_RD, __VA_ARGS__)
#define asc_int322float_ru(...) ASC_CONVERT(int322float_ru, FLOAT, I32, ASC_RU, __VA_ARGS__)
#define asc_int322float_ru_sync(...) \
    ASC_CONVERT_SYNC(int322float_ru, FLOAT, I32, ASC_RU, __VA_ARGS__)
#define asc_int322float_rz(...) ASC_CONVERT(int322float_rz, FLOAT, I32, ASC_RZ, __VA_ARGS__)
#define asc_int322float_rz_sync(...) \
    ASC_CONVERT_SYNC(int322float_rz, FLOAT, I32, ASC_RZ, __VA_ARGS__)
#define asc_int642float_rn(...) ASC_CONVERT(int642float_rn, FLOAT, I64, ASC_RN, __VA_ARGS__)
#define asc_int642float_rn_sync(...) \
    ASC_CONVERT_SYNC(int642float_rn, FLOAT, I64, ASC_RN, __VA_ARGS__)
#define asc_int642float_rna(...) ASC_CONVERT(int642float_rna, FLOAT, I64, ASC_RNA, __VA_ARGS__)
#define asc_int642float_rna_sync(...) \
    ASC_CONVERT_SYNC(int642float_rna, FLOAT, I64, ASC_RNA, __VA_ARGS__)
#define asc_int642float_rd(...) ASC_CONVERT(int642float_rd, FLOAT, I64, ASC_RD, __VA_ARGS__)
#define asc_int642float_rd_sync(...) \
    ASC_CONVERT_SYNC(int642float_rd, FLOAT, I64, ASC_RD, __VA_ARGS__)
#define asc_int642float_ru(...) ASC_CONVERT(int642float_ru, FLOAT, I64, ASC_RU, __VA_ARGS__)
#define asc_int642float_ru_sync(...) \
    ASC_CONVERT_SYNC(int642float_ru, FLOAT, I64, ASC_RU, __VA_ARGS__)
#define asc_int642float_rz(...) ASC_CONVERT(int642float_rz, FLOAT, I64, ASC_RZ, __VA_ARGS__)
#define asc_int642float_rz_sync(...) \
    ASC_CONVERT_SYNC(int642float_rz, FLOAT, I64, ASC_RZ, __VA_ARGS__)
#define asc_half2int32_rn(...) ASC_CONVERT(half2int32_rn, I32, HALF, ASC_RN, __VA_ARGS__)
#define asc_half2int32_rn_sync(...) ASC_CONVERT_SYNC(half2int32_rn, I32, HALF, ASC_RN, __VA_ARGS__)
#define asc_half2int32_rna(...) ASC_CONVERT(half2int32_rna, I32, HALF, ASC_RNA, __VA_ARGS__)
#define asc_half2int32_rna_sync(...) \
    ASC_CONVERT_SYNC(half2int32_rna, I32, HALF, ASC_RNA, __VA_ARGS__)
#define asc_half2int32_rd(...) ASC_CONVERT(half2int32_rd, I32, HALF, ASC_RD, __VA_ARGS__)
#define asc_half2int32_rd_sync(...) ASC_CONVERT_SYNC(half2int32_rd, I32, HALF, ASC_RD, __VA_ARGS__)
#define asc_half2int32_ru(...) ASC_CONVERT(half2int32_ru, I32, HALF, ASC_RU, __VA_ARGS__)
#define asc_half2int32_ru_sync(...) ASC_CONVERT_SYNC(half2int32_ru, I32, HALF, ASC_RU, __VA_ARGS__)
#define asc_half2int32_rz(...) ASC_CONVERT(half2int32_rz, I32, HALF, ASC_RZ, __VA_ARGS__)
#define asc_half2int32_rz_sync(...) ASC_CONVERT_SYNC(half2int32_rz, I32, HALF, ASC_RZ, __VA_ARGS__)
#define asc_half2int16_rn(...) ASC_CONVERT(half2int16_rn, I16, HALF, ASC_RN, __VA_ARGS__)
#define asc_half2int16_rn_sync(...) ASC_CONVERT_SYNC(half2int16_rn, I16, HALF, ASC_RN, __VA_ARGS__)
#define asc_half2int16_rna(...) ASC_CONVERT(half2int16_rna, I16, HALF, ASC_RNA, __VA_ARGS__)
#define asc_half2int16_rna_sync(...) \
    ASC_CONVERT_SYNC(half2int16_rna, I16, HALF, ASC_RNA, __VA_ARGS__)
#define asc_half2int16_rd(...) ASC_CONVERT(half2int16_rd, I16, HALF, ASC_RD, __VA_ARGS__)
#define asc_half2int16_rd_sync(...) ASC_CONVERT_SYNC(half2int16_rd, I16, HALF, ASC_RD, __VA_ARGS__)
#define asc_half2int16_ru(...) ASC_CONVERT(half2int16_ru, I16, HALF, ASC_RU, __VA_ARGS__)
#define asc_half2int16_ru_sync(...) ASC_CONVERT_SYNC(half2int16_ru, I16, HALF, ASC_RU, __VA_ARGS__)
#define asc_half2int16_rz(...) ASC_CONVERT(half2int16_rz, I16, HALF, ASC_RZ, __VA_ARGS__)
#define asc_half2int16_rz_sync(...) ASC_CONVERT_SYNC(half2int16_rz, I16, HALF, ASC_RZ, __VA_ARGS__)
#define asc_half2int8(...) ASC_CONVERT(half2int8, I8, HALF, ASC_EXACT, __VA_ARGS__)
#define asc_half2int8_sync(...) ASC_CONVERT_SYNC(half2int8, I8, HALF, ASC_EXACT, __VA_ARGS__)
#define asc_half2int8_rn(...) ASC_CONVERT(half2int8_rn, I8, HALF, ASC_RN, __VA_ARGS__)
#define asc_half2int8_rn_sync(...) ASC_CONVERT_SYNC(half2int8_rn, I8, HALF, ASC_RN, __VA_ARGS__)
#define asc_half2int8_rna(...) ASC_CONVERT(half2int8_rna, I8, HALF, ASC_RNA, __VA_ARGS__)
#define asc_half2int8_rna_sync(...) ASC_CONVERT_SYNC(half2int8_rna, I8, HALF, ASC_RNA, __VA_ARGS__)
#define asc_half2int8_rd(...) ASC_CONVERT(half2int8_rd, I8, HALF, ASC_RD, __VA_ARGS__)
#define asc_half2int8_rd_sync(...) ASC_CONVERT_SYNC(half2int8_rd, I8, HALF, ASC_RD, __VA_ARGS__)
#define asc_half2int8_ru(...) ASC_CONVERT(half2int8_ru, I8, HALF, ASC_RU, __VA_ARGS__)
#define asc_half2int8_ru_sync(...) ASC_CONVERT_SYNC(half2int8_ru, I8, HALF, ASC_RU, __VA_ARGS__)
#define asc_half2int8_rz(...) ASC_CONVERT(half2int8_rz, I8, HALF, ASC_RZ, __VA_ARGS__)
#define asc_half2int8_rz_sync(...) ASC_CONVERT_SYNC(half2int8_rz, I8, HALF, ASC_RZ, __VA_ARGS__)
#define asc_half2uint8(...) ASC_CONVERT(half2uint8, U8, HALF, ASC_EXACT, __VA_ARGS__)
#define asc_half2uint8_sync(...) ASC_CONVERT_SYNC(half2uint8, U8, HALF, ASC_EXACT, __VA_ARGS__)
#define asc_half2uint8_rn(...) ASC_CONVERT(half2uint8_rn, U8, HALF, ASC_RN, __VA_ARGS__)
#define asc_half2uint8_rn_sync(...) ASC_CONVERT_SYNC(half2uint8_rn, U8, HALF, ASC_RN, __VA_ARGS__)
#define asc_half2uint8_rna(...) ASC_CONVERT(half2uint8_rna, U8, HALF, ASC_RNA, __VA_ARGS__)
#define asc_half2uint8_rna_sync(...) \
    ASC_CONVERT_SYNC(half2uint8_rna, U8, HALF, ASC_RNA, __VA_ARGS__)
#define asc_half2uint8_rd(...) ASC_CONVERT(half2uint8_rd, U8, HALF, ASC_RD, __VA_ARGS__)
#define asc_half2uint8_rd_sync(...) ASC_CONVERT_SYNC(half2uint8_rd, U8, HALF, ASC_RD, __VA_ARGS__)
#define asc_half2uint8_ru(...) ASC_CONVERT(half2uint8_ru, U8, HALF, ASC_RU, __VA_ARGS__)
#define asc_half2uint8_ru_sync(...) ASC_CONVERT_SYNC(half2uint8_ru, U8, HALF, ASC_RU, __VA_ARGS__)
#define asc_half2uint8_rz(...) ASC_CONVERT(half2uint8_rz, U8, HALF, ASC_RZ, __VA_ARGS__)
#define asc_half2uint8_rz_sync(...) ASC_CONVERT_SYNC(half2uint8_rz, U8, HALF, ASC_RZ, __VA_ARGS__)
#define asc_int162half(...) ASC_CONVERT(int162half, HALF, I16, ASC_EXACT, __VA_ARGS__)
#define asc_int162half_sync(...) ASC_CONVERT_SYNC(int162half, HALF, I16, ASC_EXACT, __VA_ARGS__)
#define asc_int162half_rn(...) ASC_CONVERT(int162half_rn, HALF, I16, ASC_RN, __VA_ARGS__)
#define asc_int162half_rn_sync(...) ASC_CONVERT_SYNC(int162half_rn, HALF, I16, ASC_RN, __VA_ARGS__)
#define asc_int162half_rna(...) ASC_CONVERT(int162half_rna, HALF, I16, ASC_RNA, __VA_ARGS__)
#define asc_int162half_rna_sync(...) \
    ASC_CONVERT_SYNC(int162half_rna, HALF, I16, ASC_RNA, __VA_ARGS__)
#define asc_int162half_rd(...) ASC_CONVERT(int162half_rd, HALF, I16, ASC_RD, __VA_ARGS__)
#define asc_int162half_rd_sync(...) ASC_CONVERT_SYNC(int162half_rd, HALF, I16, ASC_RD, __VA_ARGS__)
#define asc_int162half_ru(...) ASC_CONVERT(int162half_ru, HALF, I16, ASC_RU, __VA_ARGS__)
#define asc_int162half_ru_sync(...) ASC_CONVERT_SYNC(int162half_ru, HALF, I16, ASC_RU, __VA_ARGS__)
#define asc_int162half_rz(...) ASC_CONVERT(int162half_rz, HALF, I16, ASC_RZ, __VA_ARGS__)
#define asc_int162half_rz_sync(...) ASC_CONVERT_SYNC(int162half_rz, HALF, I16, ASC_RZ, __VA_ARGS__)
#define asc_int82half(...) ASC_CONVERT(int82half, HALF, I8, ASC_EXACT, __VA_ARGS__)
#define asc_int82half_sync(...) ASC_CONVERT_SYNC(int82half, HALF, I8, ASC_EXACT, __VA_ARGS__)
#define asc_uint82half(...) ASC_CONVERT(uint82half, HALF, U8, ASC_EXACT, __VA_ARGS__)
#define asc_uint82half_sync(...) ASC_CONVERT_SYNC(uint82half, HALF, U8, ASC_EXACT, __VA_ARGS__)
#define asc_bfloat162int32_rn(...) ASC_CONVERT(bfloat162int32_rn, I32, BF16, ASC_RN, __VA_ARGS__)
#define asc_bfloat162int32_rn_sync(...) \
    ASC_CONVERT_SYNC(bfloat162int32_rn, I32, BF16, ASC_RN, __VA_ARGS__)
#define asc_bfloat162int32_rna(...) ASC_CONVERT(bfloat162int32_rna, I32, BF16, ASC_RNA, __VA_ARGS__)
#define asc_bfloat162int32_rna_sync(...) \
    ASC_CONVERT_SYNC(bfloat162int32_rna, I32, BF16, ASC_RNA, __VA_ARGS__)
#define asc_bfloat162int32_rd(...) ASC_CONVERT(bfloat162int32_rd, I32, BF16, ASC_RD, __VA_ARGS__)
#define asc_bfloat162int32_rd_sync(...) \
    ASC_CONVERT_SYNC(bfloat162int32_rd, I32, BF16, ASC_RD, __VA_ARGS__)
#define asc_bfloat162int32_ru(...) ASC_CONVERT(bfloat162int32_ru, I32, BF16, ASC_RU, __VA_ARGS__)
#define asc_bfloat162int32_ru_sync(...) \
    ASC_CONVERT_SYNC(bfloat162int32_ru, I32, BF16, ASC_RU, __VA_ARGS__)
#define asc_bfloat162int32_rz(...) ASC_CONVERT(bfloat162int32_rz, I32, BF16, ASC_RZ, __VA_ARGS__)
#define asc_bfloat162int32_rz_sync(...) \
    ASC_CONVERT_SYNC(bfloat162int32_rz, I32, BF16, ASC_RZ, __VA_ARGS__)
#define asc_int322int16(...) ASC_CONVERT(int322int16, I16, I32, ASC_EXACT, __VA_ARGS__)
#define asc_int322int16_sync(...) ASC_CONVERT_SYNC(int322int16, I16, I32, ASC_EXACT, __VA_ARGS__)
#define asc_int322int64(...) ASC_CONVERT(int322int64, I64, I32, ASC_EXACT, __VA_ARGS__)
#define asc_int322int64_sync(...) ASC_CONVERT_SYNC(int322int64, I64, I32, ASC_EXACT, __VA_ARGS__)
#define asc_int642int32(...) ASC_CONVERT(int642int32, I32, I64, ASC_EXACT, __VA_ARGS__)
#define asc_int642int32_sync(...) ASC_CONVERT_SYNC(int642int32, I32, I64, ASC_EXACT, __VA_ARGS__)

#endif
