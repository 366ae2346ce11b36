/* fused_ce_tvd.asc.h - the kernels of one type; see asc_each_type.h. */

/* n elements as f32. ASC_THEN() is left to the caller. */
static inline __aicore__ void ASC_NAME(cetvd_open)(__ubuf__ float *x, uint64_t piece, uint32_t n)
{
#if ASC_16BIT
    ASC_WIDEN(x, (__ubuf__ ASC_T *)piece, n);
#else
    asc_add_scalar(x, (__ubuf__ float *)piece, 0.0f, n);
#endif
}

/* HIT, which came with a row's first piece. */
static inline __aicore__ void ASC_NAME(cetvd_take_hit)(const cetvd_job *job, uint64_t pick)
{
    __ubuf__ float *value = cetvd_at(job, CETVD_PICK);
    ASC_NAME(cetvd_open)(value, pick, 8);
    ASC_THEN();
    asc_spread(cetvd_at(job, CETVD_HIT), value, 1);
    ASC_THEN();
}

static inline __aicore__ asc_ring ASC_NAME(cetvd_ring)(const cetvd_job *job, int64_t reads,
                                                       int64_t writes, ASC_PARAMS(CETVD_GIVEN),
                                                       int64_t student_at, int64_t teacher_at,
                                                       int64_t pick_at)
{
    const int64_t first = asc_get_block_idx() * share;
    asc_ring ring = asc_ring_of(student, student_stride, student_at, sizeof(ASC_T), rows, columns,
                                piece, reads, writes);
    asc_ring_add(&ring, teacher, teacher_stride, teacher_at, sizeof(ASC_T));
    ring.pick = target;
    ring.pick_place = pick_at;
    ring.left_out = job->ignore_index;
    if (writes)
        ring.slots = CETVD_RING;
    asc_ring_rows(&ring, first, 1, asc_min_of(first + share, rows) - first);
    (void)student_lse, (void)teacher_lse, (void)sigma, (void)planned_columns, (void)one_row;
    (void)ignore_index;
    return ring;
}

/* A row of logits as the student's or the teacher's sums are made of it. */
static inline __aicore__ logp_job ASC_NAME(cetvd_sums_of)(const cetvd_job *job, int64_t lanes_at)
{
    logp_job sums = {0};
    sums.scale = 1.0f;
    sums.lanes = ASC_UB(float, lanes_at, 0);
    sums.e = job->x;
    sums.t = job->e;
    sums.s = job->t;
    asc_duplicate(sums.lanes, 0.0f, CETVD_ROW_LANES * ASC_LANES);
    return sums;
}

/* Both passes over a row that counts. */
static inline __aicore__ void ASC_NAME(cetvd_read_row)(const cetvd_job *job, asc_ring *ring)
{
    logp_begin_row(&job->student);
    logp_begin_row(&job->teacher);
    for (int64_t p = 0; p < ring->pieces; p++) {
        const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
        const int slot = asc_ring_read(ring);
        if (p == 0)
            ASC_NAME(cetvd_take_hit)(job, asc_place(ring->pick_place, slot));
        ASC_NAME(cetvd_open)(job->x, asc_place(ring->place[0], slot), n);
        ASC_NAME(cetvd_open)(job->z, asc_place(ring->place[1], slot), n);
        asc_ring_has_read(ring);
        ASC_THEN();
        logp_add_piece(&job->student, job->x, n);
        logp_add_piece(&job->teacher, job->z, n);
    }
    cetvd_join(job);
    for (int64_t p = 0; p < ring->pieces; p++) {
        const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
        const int slot = asc_ring_read(ring);
        ASC_NAME(cetvd_open)(job->x, asc_place(ring->place[0], slot), n);
        ASC_NAME(cetvd_open)(job->z, asc_place(ring->place[1], slot), n);
        asc_ring_has_read(ring);
        ASC_THEN();
        cetvd_add_piece(job, n);
    }
}

ASC_KERNEL ASC_NAME(fused_ce_tvd_forward)(ASC_PARAMS(CETVD_FORWARD))
{
    cetvd_job job = {0};
    asc_ring_begin();
    asc_dcci_entire_all(); /* the scalar unit reads targets */
    job.ignore_index = ignore_index;
    job.lanes = ASC_SCRATCH(lanes);
    job.x = ASC_SCRATCH(x);
    job.z = ASC_SCRATCH(z);
    job.d = ASC_SCRATCH(d);
    job.e = ASC_SCRATCH(e);
    job.t = ASC_SCRATCH(t);
    job.student = ASC_NAME(cetvd_sums_of)(&job, of_student_at);
    job.teacher = ASC_NAME(cetvd_sums_of)(&job, of_teacher_at);
    asc_duplicate(job.lanes, 0.0f, CETVD_LANES * ASC_LANES);
    ASC_THEN();
    asc_ring ring =
        ASC_NAME(cetvd_ring)(&job, 2, 0, ASC_NAMES(CETVD_GIVEN), student_at, teacher_at, pick_at);
    const int64_t first = ring.first, end = ring.first + ring.rows;
    for (int64_t row = first; row < end; row++) {
        const int64_t i = (row - first) % CE_BATCH;
        if (target[row] == ignore_index) {
            for (int64_t p = 0; p < 2 * ring.pieces; p++) {
                (void)asc_ring_read(&ring);
                asc_ring_has_read(&ring);
            }
            cetvd_ignore(&job, i);
        } else {
            ASC_NAME(cetvd_read_row)(&job, &ring);
            cetvd_results(&job, i);
        }
        if (i < CE_BATCH - 1 && row < end - 1)
            continue;
        asc_sync();
        cetvd_leave(&job, CETVD_ROWS_CE, ce, row - i, i + 1);
        cetvd_leave(&job, CETVD_ROWS_TVD, tvd, row - i, i + 1);
        cetvd_leave(&job, CETVD_ROWS_STUDENT, student_lse, row - i, i + 1);
        cetvd_leave(&job, CETVD_ROWS_TEACHER, teacher_lse, row - i, i + 1);
        cetvd_leave(&job, CETVD_ROWS_SIGMA, sigma, row - i, i + 1);
        asc_sync();
    }
    asc_ring_end(&ring);
}

/* The gradient of a piece of both rows, in that of the student's, 0 if the row is ignored; the
 * target is its element y, if that is one. */
static inline __aicore__ void ASC_NAME(cetvd_write)(const cetvd_job *job, const cetvd_row *row,
                                                    int ignored, uint64_t student, uint64_t teacher,
                                                    int64_t y, uint32_t n)
{
    if (ignored) {
        asc_duplicate(job->x, 0.0f, n);
    } else {
        ASC_NAME(cetvd_open)(job->x, student, n);
        ASC_NAME(cetvd_open)(job->z, teacher, n);
        ASC_THEN();
        cetvd_gradient(job, row, y, n);
    }
    ASC_THEN();
#if ASC_16BIT
    ASC_NARROW((__ubuf__ ASC_T *)student, job->x, n);
#else
    asc_add_scalar((__ubuf__ float *)student, job->x, 0.0f, n);
#endif
    ASC_THEN();
}

ASC_KERNEL ASC_NAME(fused_ce_tvd_backward)(ASC_PARAMS(CETVD_BACKWARD))
{
    cetvd_job job = {0};
    asc_ring_begin();
    asc_dcci_entire_all(); /* the scalar unit reads what each row has one of */
    job.ignore_index = ignore_index;
    job.lanes = ASC_SCRATCH(lanes);
    job.x = ASC_SCRATCH(x);
    job.z = ASC_SCRATCH(z);
    job.e = ASC_SCRATCH(e);
    asc_duplicate(job.lanes, 0.0f, CETVD_LANES * ASC_LANES);
    ASC_THEN();
    asc_ring ring =
        ASC_NAME(cetvd_ring)(&job, 0, 1, ASC_NAMES(CETVD_GIVEN), student_at, teacher_at, pick_at);
    for (int64_t row = ring.first; row < ring.first + ring.rows; row++) {
        const cetvd_row r =
            cetvd_row_of(target[row], student_lse[row], teacher_lse[row], sigma[row],
                         dce ? dce[row] : 0.0f, dtvd ? dtvd[row] : 0.0f, dtvd != 0);
        const int ignored = r.target == ignore_index;
        for (int64_t p = 0; p < ring.pieces; p++) {
            /* whole blocks: zeros were copied in behind a row, and asc_spread() reads them */
            const uint32_t n = (uint32_t)asc_round_up(asc_ring_columns(&ring, p), 8);
            const int slot = asc_ring_read(&ring);
            const uint64_t at = asc_place(ring.place[0], slot);
            if (p == 0 && !ignored) {
                ASC_NAME(cetvd_take_hit)(&job, asc_place(pick_at, slot));
                cetvd_shares(&job, &r);
            }
            ASC_NAME(cetvd_write)
            (&job, &r, ignored, at, asc_place(ring.place[1], slot), r.target - p * piece, n);
            asc_ring_write(&ring, dstudent + row * dstudent_stride, p, sizeof(ASC_T),
                           ring.place[0]);
        }
    }
    asc_ring_end(&ring);
}
