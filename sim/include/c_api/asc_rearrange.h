/* asc_rearrange.h - broadcast, gather, compaction, transposition, sorting. Included by
 * asc_simd.h. */
#ifndef ASC_REARRANGE_H
#define ASC_REARRANGE_H

#define ASC_UNSIGNED1(d, s) _Generic(ASC_SIGNATURE2(d, s), ASC_SAME1(U16), ASC_SAME1(U32))
#define ASC_UNSIGNED2(d, a, b) _Generic(ASC_SIGNATURE3(d, a, b), ASC_SAME2(U16), ASC_SAME2(U32))

/* Eight elements of src to eight blocks of dst, each filled with one. */
#define ASC_BRCB(name, dst, src, db, dr, repeat)                                 \
    asc_issue_brcb(ASC_SITE(name), ASC_UNSIGNED1(dst, src), asc_needs_ubuf(dst), \
                   asc_needs_ubuf(src), db, dr, repeat)
#define asc_brcb(...) ASC_BRCB("asc_brcb", __VA_ARGS__)
#define asc_brcb_sync(...) ASC_SYNCED(ASC_BRCB, "asc_brcb_sync", __VA_ARGS__)

/* (dst, src, offsets in bytes, count) or (dst, src, offsets, dst_repeat_stride, repeat) */
#define ASC_GATHERED(d, s)                                                           \
    _Generic(ASC_SIGNATURE2(d, s), ASC_SAME1(HALF), ASC_SAME1(BF16), ASC_SAME1(I16), \
             ASC_SAME1(U16), ASC_SAME1(FLOAT), ASC_SAME1(I32), ASC_SAME1(U32))
#define asc_gather(...) ASC_PICK(ASC_GATHER_, __VA_ARGS__)("asc_gather", __VA_ARGS__)
#define asc_gather_sync(...) ASC_SYNCED(ASC_GATHER_4, "asc_gather_sync", __VA_ARGS__)
#define ASC_GATHER_4(name, dst, src, offsets, count)                              \
    asc_issue_gather(ASC_SITE(name), ASC_GATHERED(dst, src), asc_needs_ubuf(dst), \
                     asc_needs_ubuf(src), asc_needs_ubuf_offsets(offsets), count)
#define ASC_GATHER_5(name, dst, src, offsets, dr, repeat)                                \
    asc_issue_gather_repeat(ASC_SITE(name), ASC_GATHERED(dst, src), asc_needs_ubuf(dst), \
                            asc_needs_ubuf(src), asc_needs_ubuf_offsets(offsets), dr, repeat)
/* Eight blocks a repeat. */
#define ASC_GATHER_DATABLOCK(name, dst, src, offsets, dr, db, repeat)                        \
    asc_issue_gather_datablock(ASC_SITE(name), ASC_UNSIGNED1(dst, src), asc_needs_ubuf(dst), \
                               asc_needs_ubuf(src), asc_needs_ubuf_offsets(offsets), dr, db, \
                               repeat)
#define asc_gather_datablock(...) ASC_GATHER_DATABLOCK("asc_gather_datablock", __VA_ARGS__)
#define asc_gather_datablock_sync(...) \
    ASC_SYNCED(ASC_GATHER_DATABLOCK, "asc_gather_datablock_sync", __VA_ARGS__)

/* Compaction: (dst, src0, src1, count), by the bits of src1, or (dst, src0, src1, repeat,
 * src0_block_stride, pattern, src0_repeat_stride, src1_repeat_stride). asc_get_rsvd_count() is how
 * many were kept. */
#define asc_reduce(...) ASC_PICK(ASC_COMPACT_, __VA_ARGS__)("asc_reduce", __VA_ARGS__)
#define asc_reduce_sync(...) ASC_SYNCED(ASC_COMPACT_4, "asc_reduce_sync", __VA_ARGS__)
#define ASC_COMPACT_4(name, dst, src0, src1, count)                                        \
    asc_issue_compact(ASC_SITE(name), ASC_UNSIGNED2(dst, src0, src1), asc_needs_ubuf(dst), \
                      asc_needs_ubuf(src0), asc_needs_ubuf(src1), count)
#define ASC_COMPACT_8(name, dst, src0, src1, repeat, s0b, pattern, s0r, s1r)                      \
    asc_issue_compact_repeat(ASC_SITE(name), ASC_UNSIGNED2(dst, src0, src1), asc_needs_ubuf(dst), \
                             asc_needs_ubuf(src0), asc_needs_ubuf(src1), repeat, s0b, pattern,    \
                             s0r, s1r)

/* A square of 16 x 16. */
#define ASC_TRANSPOSE(name, dst, src)                                                       \
    asc_issue_transpose(ASC_SITE(name),                                                     \
                        _Generic(ASC_SIGNATURE2(dst, src), ASC_SAME1(I16), ASC_SAME1(U16)), \
                        asc_needs_ubuf(dst), asc_needs_ubuf(src))
#define asc_transpose(...) ASC_TRANSPOSE("asc_transpose", __VA_ARGS__)
#define asc_transpose_sync(...) ASC_SYNCED(ASC_TRANSPOSE, "asc_transpose_sync", __VA_ARGS__)

/* 32 scores and indices a repeat become records of 8 B, the largest score first. */
#define ASC_BITSORT(name, dst, scores, index, repeat)                              \
    asc_issue_bitsort(ASC_SITE(name), ASC_REAL1(dst, scores), asc_needs_ubuf(dst), \
                      asc_needs_ubuf(scores), asc_needs_ubuf_offsets(index), repeat)
#define asc_bitsort(...) ASC_BITSORT("asc_bitsort", __VA_ARGS__)
#define asc_bitsort_sync(...) ASC_SYNCED(ASC_BITSORT, "asc_bitsort_sync", __VA_ARGS__)

#define ASC_C_API_MRGSORT_ELEMENT_LEN 4
/* Up to four sorted lists of records become one. */
#define ASC_MRGSORT4(name, dst, src, repeat, l0, l1, l2, l3, stop, valid)             \
    asc_issue_mrgsort4(ASC_SITE(name), ASC_REAL1(dst, (src)[0]), asc_needs_ubuf(dst), \
                       (void *const *)(src), repeat, l0, l1, l2, l3, stop, valid)
#define asc_mrgsort4(...) ASC_MRGSORT4("asc_mrgsort4", __VA_ARGS__)
#define asc_mrgsort4_sync(...) ASC_SYNCED(ASC_MRGSORT4, "asc_mrgsort4_sync", __VA_ARGS__)

#endif
