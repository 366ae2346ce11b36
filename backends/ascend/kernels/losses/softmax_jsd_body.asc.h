/* softmax_jsd_body.asc.h - a block's rows of one type; see asc_each_type.h. */

/* A piece of both tensors as f32 in u and v. */
static inline __aicore__ uint32_t ASC_NAME(sjsd_open)(const sjsd_job *job, const asc_ring *ring,
                                                      int64_t p, int slot)
{
    const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
    __ubuf__ ASC_T *student = ASC_UB(ASC_T, ring->place[0], slot);
    __ubuf__ ASC_T *teacher = ASC_UB(ASC_T, ring->place[1], slot);
#if ASC_16BIT
    ASC_WIDEN(job->u, student, n);
    ASC_WIDEN(job->v, teacher, n);
#else
    asc_add_scalar(job->u, student, 0.0f, n);
    asc_add_scalar(job->v, teacher, 0.0f, n);
#endif
    return n;
}

/* The same, to be read: the ring's buffers are free then. */
static inline __aicore__ uint32_t ASC_NAME(sjsd_read)(const sjsd_job *job, asc_ring *ring,
                                                      int64_t p)
{
    const uint32_t n = ASC_NAME(sjsd_open)(job, ring, p, asc_ring_read(ring));
    asc_ring_has_read(ring);
    ASC_THEN();
    return n;
}

/* Maxima and sums. */
static inline __aicore__ void ASC_NAME(sjsd_sums)(const sjsd_job *job, asc_ring *ring, int64_t p)
{
    const uint32_t n = ASC_NAME(sjsd_read)(job, ring, p);
    exponentials_piece(job->u, job->u, sjsd_at(job, SJSD_MAX), sjsd_at(job, SJSD_SUM),
                       sjsd_at(job, SJSD_OLD), job->scale, n);
    exponentials_piece(job->v, job->v, sjsd_at(job, SJSD_TEACHER + SJSD_MAX),
                       sjsd_at(job, SJSD_TEACHER + SJSD_SUM), sjsd_at(job, SJSD_OLD), job->scale,
                       n);
}

/* The loss, if it is wanted, and the sum of slopes, if that is. */
static inline __aicore__ void ASC_NAME(sjsd_terms)(const sjsd_job *job, asc_ring *ring, int64_t p,
                                                   int loss, int slopes)
{
    const uint32_t n = ASC_NAME(sjsd_read)(job, ring, p);
    sjsd_log_softmax(job, job->u, 0, n);
    sjsd_log_softmax(job, job->v, SJSD_TEACHER, n);
    if (slopes) {
        sjsd_slopes(job, job->u, job->v, job->a, job->b, job->c, job->t, n);
        sjsd_add_slopes(job, n);
    }
    if (loss)
        sjsd_add_loss(job, slopes, n);
}

/* Piece p of the gradient, 0 for a row that does not count. */
static inline __aicore__ void ASC_NAME(sjsd_write)(const sjsd_job *job, asc_ring *ring, int64_t p,
                                                   int ignored, __gm__ char *to, int64_t out)
{
    const int slot = asc_ring_reread(ring);
    const uint32_t n = ASC_NAME(sjsd_open)(job, ring, p, slot);
    __ubuf__ ASC_T *piece = ASC_UB(ASC_T, ring->place[0], slot);
    ASC_THEN();
    if (ignored) {
        asc_duplicate(job->a, 0.0f, n);
        ASC_THEN();
    } else {
        sjsd_log_softmax(job, job->u, 0, n);
        sjsd_log_softmax(job, job->v, SJSD_TEACHER, n);
        sjsd_gradient(job, n);
    }
    if (out == ASC_ANY_F32)
        asc_add_scalar((__ubuf__ float *)piece, job->a, 0.0f, n);
    else if (out == ASC_ANY_BF16)
        asc_float2bfloat16_rn((__ubuf__ bfloat16_t *)piece, job->a, n);
    else
        asc_float2half_rn((__ubuf__ half *)piece, job->a, n);
    asc_ring_write(ring, to, p, asc_any_size(out), ring->place[0]);
}

/* The rows of this block, one of `blocks`, by its number. */
static inline __aicore__ void ASC_NAME(softmax_jsd_body)(int64_t block, int64_t blocks,
                                                         ASC_PARAMS(SOFTMAX_JSD))
{
    const int writes = dstudent != 0, loss = sums != 0;
    const int slopes = writes && kind != SOFTMAX_JSD_FORWARD;
    asc_ring ring = asc_ring_of(student, student_stride, student_at, sizeof(ASC_T), rows, columns,
                                piece, reads, writes);
    sjsd_job job = {0};
    asc_ring_add(&ring, teacher, teacher_stride, teacher_at, sizeof(ASC_T));
    asc_ring_rows(&ring, block, blocks, (rows - block + blocks - 1) / blocks);
    ring.slots = SOFTMAX_JSD_RING;
    asc_ring_begin();
    asc_dcci_entire_all(); /* the scalar unit reads labels and dloss */
    job.kind = kind;
    job.scale = asc_f32(scale);
    job.beta = asc_f32(beta);
    job.rest = asc_f32(rest);
    job.odds = asc_f32(odds);
    job.log_rest = asc_f32(log_rest);
    job.u = ASC_SCRATCH(u);
    job.v = ASC_SCRATCH(v);
    job.t = ASC_SCRATCH(t);
    job.a = ASC_SCRATCH(a);
    job.b = ASC_SCRATCH(b);
    job.c = ASC_SCRATCH(c);
    job.lanes = ASC_SCRATCH(lanes);
    job.factor = asc_f32(factor) * terms_share(counts, ASC_SCRATCH(counted), count_blocks) *
                 (dloss ? dloss[0] : 1.0f);
    asc_duplicate(sjsd_at(&job, SJSD_LOSS), 0.0f, ASC_LANES);
    asc_duplicate(sjsd_at(&job, SJSD_VALUE), 0.0f, 8);
    for (int64_t r = 0, row = ring.first; r < ring.rows; r++, row += ring.step) {
        const int ignored = labels && labels[row] == ignore_index;
        for (int64_t pass = 0; pass < reads; pass++) {
            const int last = pass == reads - 1;
            for (int64_t p = 0; p < ring.pieces; p++)
                if (ignored) {
                    (void)asc_ring_read(&ring);
                    asc_ring_has_read(&ring);
                } else if (pass == 0) {
                    if (p == 0)
                        sjsd_begin_row(&job);
                    ASC_NAME(sjsd_sums)(&job, &ring, p);
                } else if (slopes && !last) {
                    const uint32_t n = ASC_NAME(sjsd_read)(&job, &ring, p);
                    sjsd_best(&job, n);
                } else {
                    ASC_NAME(sjsd_terms)(&job, &ring, p, loss, slopes);
                }
            if (ignored)
                continue;
            if (pass == 0)
                sjsd_join(&job);
            else if (slopes && !last)
                sjsd_set_middle(&job);
            else if (slopes)
                sjsd_set_mean(&job);
        }
        for (int64_t p = 0; writes && p < ring.pieces; p++)
            ASC_NAME(sjsd_write)
        (&job, &ring, p, ignored,
         (__gm__ char *)dstudent + row * dstudent_stride * asc_any_size(out), out);
    }
    if (loss)
        terms_leave(sums + block * TERMS_PARTIAL, sjsd_at(&job, SJSD_PART),
                    sjsd_at(&job, SJSD_LOSS));
    asc_ring_end(&ring);
}
