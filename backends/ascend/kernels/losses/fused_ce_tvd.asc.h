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

/* HIT or NEXT_HIT, which came with a row's first piece. */
static inline __aicore__ void ASC_NAME(cetvd_take_hit)(const cetvd_job *job, int hit, uint64_t pick)
{
    __ubuf__ float *value = cetvd_at(job, CETVD_PICK);
    ASC_NAME(cetvd_open)(value, pick, 8);
    ASC_THEN();
    asc_spread(cetvd_at(job, hit), value, 1);
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

/* One of the two rows: x, where its pieces are computed, and what softmax_logp.h needs of it. */
static inline __aicore__ cetvd_row_sums ASC_NAME(cetvd_sums_of)(const cetvd_job *job,
                                                                __ubuf__ float *x, int64_t lanes_at,
                                                                __ubuf__ float *groups)
{
    cetvd_row_sums row = {0};
    row.x = x;
    row.groups = groups;
    row.sums.scale = 1.0f;
    row.sums.lanes = ASC_UB(float, lanes_at, 0);
    row.sums.t = job->d;
    row.sums.s = job->e;
    asc_duplicate(row.sums.lanes, 0.0f, CETVD_ROW_LANES * ASC_LANES);
    return row;
}

/* The next piece of both rows as powers, in x and z. first: in the first pass, of the next row,
 * with whose first piece NEXT_HIT comes and the origins are chosen. */
static inline __aicore__ uint32_t ASC_NAME(cetvd_next_powers)(cetvd_job *job, asc_ring *ring,
                                                              int64_t p, int first)
{
    const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
    const cetvd_row_sums *student = &job->of[0], *teacher = &job->of[1];
    const int slot = asc_ring_read(ring);
#if ASC_16BIT
    __ubuf__ float *x = job->x, *z = job->z;
    ASC_NAME(cetvd_open)(x, asc_place(ring->place[0], slot), n);
    ASC_NAME(cetvd_open)(z, asc_place(ring->place[1], slot), n);
#else
    __ubuf__ float *x = ASC_UB(float, ring->place[0], slot);
    __ubuf__ float *z = ASC_UB(float, ring->place[1], slot);
#endif
    if (first && p == 0)
        ASC_NAME(cetvd_take_hit)(job, CETVD_NEXT_HIT, asc_place(ring->pick_place, slot));
    ASC_THEN();
    if (first && p == 0)
        cetvd_origins(job, x, z);
    cetvd_powers(job, x, z, first ? student->next_origin : student->origin,
                 first ? teacher->next_origin : teacher->origin, n);
    asc_ring_has_read(ring);
    ASC_THEN();
    return n;
}

/* The next piece of both rows as logits. */
static inline __aicore__ uint32_t ASC_NAME(cetvd_next)(const cetvd_job *job, asc_ring *ring,
                                                       int64_t p)
{
    const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
    const int slot = asc_ring_read(ring);
    ASC_NAME(cetvd_open)(job->x, asc_place(ring->place[0], slot), n);
    ASC_NAME(cetvd_open)(job->z, asc_place(ring->place[1], slot), n);
    asc_ring_has_read(ring);
    ASC_THEN();
    return n;
}

/* Once more through both rows for those pieces that softmax_logp.h is to look at. */
static inline __aicore__ void ASC_NAME(cetvd_look_again)(cetvd_job *job, asc_ring *ring, int64_t r)
{
    asc_ring_again(ring, r);
    for (int i = 0; i < 2; i++)
        logp_begin_row(&job->of[i].sums);
    for (int64_t p = 0; p < ring->pieces; p++) {
        const uint32_t n = ASC_NAME(cetvd_next)(job, ring, p);
        for (int i = 0; i < 2; i++)
            for (uint32_t at = 0; at < n && p >= job->of[i].from && p < job->of[i].to;
                 at += CETVD_CHUNK) {
                job->of[i].sums.e = job->of[i].x + at;
                logp_add_piece(&job->of[i].sums, job->of[i].x + at,
                               (uint32_t)asc_min_of(CETVD_CHUNK, n - at));
            }
    }
}

/* Once more through both rows, for distances from differences of logarithms. */
static inline __aicore__ void ASC_NAME(cetvd_read_near)(const cetvd_job *job, asc_ring *ring,
                                                        int64_t r)
{
    asc_ring_again(ring, r);
    cetvd_begin(job);
    for (int64_t p = 0; p < ring->pieces; p++) {
        const uint32_t n = ASC_NAME(cetvd_next)(job, ring, p);
        for (uint32_t at = 0; at < n; at += CETVD_CHUNK)
            cetvd_add(job, job->x + at, job->z + at, (uint32_t)asc_min_of(CETVD_CHUNK, n - at));
    }
    cetvd_end(job);
}

/* The first pass over row r and the second over the row before it, piece by piece in turns, so that
 * memory is read all the time; counts: whether they do, 0 for a row that is not there. */
static inline __aicore__ void ASC_NAME(cetvd_read_both)(cetvd_job *job, asc_ring *ring, int64_t r,
                                                        int counts, int counted)
{
    const int64_t passes = (r > 0) + (r < ring->rows);
    if (counts)
        cetvd_begin_sums(job);
    for (int64_t i = 0; i < passes * ring->pieces; i++) {
        const asc_ring_turn turn = asc_ring_turn_of(ring, ring->at);
        if (turn.local == r ? !counts : !counted) {
            (void)asc_ring_read(ring);
            asc_ring_has_read(ring);
        } else if (turn.local == r) {
            cetvd_add_powers(job, turn.p, ring->pieces,
                             ASC_NAME(cetvd_next_powers)(job, ring, turn.p, 1));
        } else {
            cetvd_add_above(job, ASC_NAME(cetvd_next_powers)(job, ring, turn.p, 0));
        }
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
    job.of[0] = ASC_NAME(cetvd_sums_of)(&job, job.x, of_student_at, ASC_SCRATCH(groups));
    job.of[1] = ASC_NAME(cetvd_sums_of)(&job, job.z, of_teacher_at,
                                        ASC_SCRATCH(groups) + CETVD_GROUPS * ASC_LANES);
    asc_duplicate(job.lanes, 0.0f, CETVD_LANES * ASC_LANES);
    ASC_THEN();
    asc_ring ring =
        ASC_NAME(cetvd_ring)(&job, 2, 0, ASC_NAMES(CETVD_GIVEN), student_at, teacher_at, pick_at);
    int counted = 0;
    ring.behind = behind;
    for (int64_t r = 0; r <= ring.rows && ring.rows; r++) {
        const int64_t row = ring.first + r - 1, i = (r - 1) % CE_BATCH;
        const int counts = r < ring.rows && target[row + 1] != ignore_index;
        ASC_NAME(cetvd_read_both)(&job, &ring, r, counts, counted);
        if (counted) {
            if (!cetvd_end_above(&job))
                ASC_NAME(cetvd_read_near)(&job, &ring, r - 1);
            cetvd_results(&job, i);
        } else if (r > 0) {
            cetvd_ignore(&job, i);
        }
        if (counts) {
            cetvd_end_sums(&job, ring.pieces);
            if (job.of[0].to > 0 || job.of[1].to > 0)
                ASC_NAME(cetvd_look_again)(&job, &ring, r);
            cetvd_tops(&job);
        }
        counted = counts;
        if (r == 0 || (i < CE_BATCH - 1 && r < ring.rows))
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
                ASC_NAME(cetvd_take_hit)(&job, CETVD_HIT, asc_place(pick_at, slot));
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
