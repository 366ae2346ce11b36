/* softmax_kl_div.asc.h - the kernel of one type; see asc_each_type.h. */

/* n elements of both tensors, at these places, as f32 in x and v. ASC_THEN() is left to the
 * caller. */
static inline __aicore__ void ASC_NAME(skl_open)(const skl_job *job, __ubuf__ float *x,
                                                 uint64_t logits, uint64_t target, uint32_t n)
{
#if ASC_16BIT
    ASC_WIDEN(x, (__ubuf__ ASC_T *)logits, n);
#else
    asc_add_scalar(x, (__ubuf__ float *)logits, 0.0f, n);
#endif
    if (job->target_type == ASC_ANY_F32)
        asc_add_scalar(job->v, (__ubuf__ float *)target, 0.0f, n);
    else
        asc_any_widen(job->v, target, job->target_type, n);
}

/* The sums of piece p of the row that is read. */
static inline __aicore__ void ASC_NAME(skl_read)(const skl_job *job, asc_ring *ring, int64_t p,
                                                 int ignored)
{
    const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
    const int slot = asc_ring_read(ring);
    if (!ignored) {
        skl_begin_piece(job);
        ASC_NAME(skl_open)
        (job, job->u, asc_place(ring->place[0], slot), asc_place(ring->place[1], slot), n);
    }
    asc_ring_has_read(ring);
    ASC_THEN();
    if (!ignored)
        skl_add_piece(job, n);
}

/* Piece p of the row that is written: its gradient, 0 if it does not count. */
static inline __aicore__ void ASC_NAME(skl_write)(const skl_job *job, asc_ring *ring, int64_t p,
                                                  int ignored, __gm__ void *to)
{
    const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
    const int slot = asc_ring_reread(ring);
    const uint64_t piece = asc_place(ring->place[0], slot);
    if (ignored) {
        asc_duplicate(job->a, 0.0f, n);
        ASC_THEN();
    } else {
        ASC_NAME(skl_open)(job, job->a, piece, asc_place(ring->place[1], slot), n);
        ASC_THEN();
        skl_gradient(job, n);
    }
    if (job->out == ASC_ANY_F32)
        asc_add_scalar((__ubuf__ float *)piece, job->a, 0.0f, n);
    else if (job->out == ASC_ANY_BF16)
        asc_float2bfloat16_rn((__ubuf__ bfloat16_t *)piece, job->a, n);
    else
        asc_float2half_rn((__ubuf__ half *)piece, job->a, n);
    ASC_THEN();
    asc_ring_write(ring, to, p, asc_any_size(job->out), ring->place[0]);
}

/* Piece p of a row, copied past the ring, as f32 in u and v: what is not f32 comes by way of a. */
static inline __aicore__ void ASC_NAME(skl_fetch)(const skl_job *job, const asc_ring *ring,
                                                  int64_t row, int64_t p)
{
    const int64_t n = asc_ring_columns(ring, p);
    const uint64_t half = (uint64_t)(ASC_16BIT ? 2 * asc_round_up(n, 16) : 0);
    const uint64_t at[ASC_RING_TENSORS] = {
        ASC_16BIT ? (uint64_t)job->a : (uint64_t)job->u,
        job->target_type == ASC_ANY_F32 ? (uint64_t)job->v : (uint64_t)job->a + half};
    asc_sync();
    for (int i = 0; i < ASC_RING_TENSORS; i++) {
        const int64_t bytes = n * ring->size[i];
        asc_copy_rows_in(at[i], asc_ring_row(ring, i, row) + p * ring->piece * ring->size[i], 1,
                         bytes, bytes, asc_round_up(bytes, 32));
    }
    asc_sync();
    skl_begin_piece(job);
    ASC_NAME(skl_open)(job, job->u, at[0], at[1], (uint32_t)n);
    ASC_THEN();
}

/* What a row that counts has left in its lanes becomes its numbers, and its loss is added. One that
 * is NaN may be so by terms that are 0: they are added up again. */
static inline __aicore__ void ASC_NAME(skl_end_row)(skl_job *job, const asc_ring *ring, int64_t row)
{
    __ubuf__ float *loss = skl_at(job, SKL_LOSS);
    skl_join(job);
    if (!job->loss)
        return;
    if (!job->careful && skl_is_nan(job)) {
        job->careful = 1;
        skl_begin_row(job);
        for (int64_t p = 0; p < ring->pieces; p++) {
            ASC_NAME(skl_fetch)(job, ring, row, p);
            skl_add_piece(job, (uint32_t)asc_ring_columns(ring, p));
        }
        skl_join(job);
    }
    asc_add(loss, loss, skl_at(job, SKL_ROW), 1);
    ASC_THEN();
}

/* All rows of a block. */
static inline __aicore__ void ASC_NAME(skl_rows)(skl_job *job, asc_ring *ring,
                                                 __gm__ int64_t *labels, int64_t ignore_index,
                                                 int behind, __gm__ char *to, int64_t to_stride)
{
    const int writes = (int)ring->writes;
    int gone = 0; /* the row that is written does not count */
    for (int64_t r = 0, row = ring->first; r < ring->rows + behind; r++, row += ring->step) {
        const int reads = r < ring->rows, closes = behind && r > 0;
        const int ignored = reads && labels && labels[row] == ignore_index;
        if (reads && !ignored)
            skl_begin_row(job);
        for (int64_t p = 0; p < ring->pieces; p++)
            for (int turn = 0; turn < 2; turn++)
                if (reads && !asc_ring_writes_at(ring, turn))
                    ASC_NAME(skl_read)(job, ring, p, ignored);
                else if (closes && asc_ring_writes_at(ring, turn))
                    ASC_NAME(skl_write)(job, ring, p, gone, to);
        if (closes)
            to += ring->step * to_stride;
        if (reads && !ignored)
            ASC_NAME(skl_end_row)(job, ring, row);
        gone = ignored;
        if (behind || !writes)
            continue;
        for (int64_t p = 0; p < ring->pieces; p++)
            ASC_NAME(skl_write)(job, ring, p, gone, to);
        to += ring->step * to_stride;
    }
}

ASC_KERNEL ASC_NAME(softmax_kl_div)(ASC_PARAMS(SOFTMAX_KL_DIV))
{
    const int64_t of_target = asc_any_size(target_type), size = sizeof(ASC_T);
    const int64_t to_stride = dlogits_stride * asc_any_size(out);
    const int64_t at = size + of_target == 4   ? pieces_at
                       : size + of_target == 6 ? pieces_of_6_at
                                               : pieces_of_8_at;
    asc_ring ring =
        asc_ring_of(logits, logits_stride, at, size, rows, columns, piece, 1, dlogits != 0);
    skl_job job = {0};
    asc_ring_add(&ring, target, target_stride, at + asc_round_up(piece, 16) * size, of_target);
    ring.slots = SKL_RING;
    if (behind)
        asc_ring_behind(&ring);
    asc_ring_begin();
    asc_dcci_entire_all(); /* the scalar unit reads labels and dloss */
    job.target_type = target_type;
    job.out = out;
    job.loss = sums != 0;
    job.scale = asc_f32(scale);
    job.least = asc_f32(least);
    job.u = ASC_SCRATCH(u);
    job.v = ASC_SCRATCH(v);
    job.a = ASC_SCRATCH(a);
    job.lanes = ASC_SCRATCH(lanes);
    job.factor = asc_f32(factor) * terms_share(counts, ASC_SCRATCH(counted), count_blocks) *
                 (dloss ? dloss[0] : 1.0f);
    asc_duplicate(skl_at(&job, SKL_LOSS), 0.0f, ASC_LANES);
    asc_duplicate(skl_at(&job, SKL_VALUE), 0.0f, 8);
    ASC_NAME(skl_rows)
    (&job, &ring, labels, ignore_index, (int)behind,
     (__gm__ char *)dlogits + ring.first * to_stride, to_stride);
    if (job.loss)
        terms_leave(sums + asc_get_block_idx() * TERMS_PARTIAL, skl_at(&job, SKL_PART),
                    skl_at(&job, SKL_LOSS));
    asc_ring_end(&ring);
}
