/* asc_pipeline.asc.h - a kernel on rows, of one type: all but its copies and its arithmetic.
 * Rows that fit in UB are taken whole, several to a tile. Wider ones are gone through twice in
 * pieces, for their sums and for what is written. Included for each such kernel by what
 * asc_each_type.h includes, after
 *
 *   #define ASC_PIPELINE(step) ASC_NAME(softmax_forward_rows##step)    the kernel, and the names of
 *                                                                      its steps
 *   #define ASC_PIPELINE_ARGS SOFTMAX_FORWARD_ROWS                     what it is given; its grid
 *                                                                      has the usual names
 *   #define ASC_PIPELINE_STEP (32 / sizeof(ASC_T))                     rows lie multiples of it
 *                                                                      apart in UB; ASC_LANES if it
 *                                                                      is left out
 *   #define ASC_PIPELINE_GROUPS height                                 rows come in groups of so
 *                                                                      many, and tiles have rows of
 *                                                                      one; left out: in one
 *
 * and its steps. Each is a function of all that the kernel is given, ASC_STEP(); the middle ones
 * know the piece that it is about:
 *
 *   _begin    what comes before the first piece: what is cleared, vectors of the columns
 *   _in       copies in, to copy p->slot of the buffers
 *   _tile     the arithmetic of p->sums, of p->writes, or of both. For each piece it says
 *             ASC_HAS_READ(p->slot) once, as soon as what was copied in has been read. If it
 *             writes, it says ASC_MAY_WRITE(p->slot) once, before it does; the piece is written
 *             then, and V has nothing left to wait for
 *   _out      copies out
 *   _end      what comes behind the last piece; only with #define ASC_PIPELINE_ENDS
 */
#ifndef ASC_PIPELINE_STEP
#define ASC_PIPELINE_STEP ASC_LANES
#endif
#ifndef ASC_PIPELINE_GROUPS
#define ASC_PIPELINE_GROUPS 0
#endif
ASC_KERNEL ASC_PIPELINE()(ASC_PARAMS(ASC_PIPELINE_ARGS))
{
    asc_piece p = {0};
    p.whole = tile_columns >= columns;
    ASC_PIPELINE(_begin)(&p, ASC_NAMES(ASC_PIPELINE_ARGS));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t i = 0; asc_piece_rows(&p, i, rows, ASC_PIPELINE_GROUPS, tile_rows);
         i++, p.turn ^= 1) {
        for (int pass = p.whole; pass < 2; pass++)
            for (p.column = 0; p.column < columns; p.column += tile_columns, p.slot ^= 1) {
                p.columns = asc_min_of(tile_columns, columns - p.column);
                p.pitch = asc_round_up(p.columns, (int64_t)ASC_PIPELINE_STEP);
                p.n = (uint32_t)(p.rows * p.pitch);
                p.first = p.column == 0;
                p.last = p.column + p.columns == columns;
                p.writes = pass;
                p.sums = p.whole || !pass;
                ASC_MAY_FILL(p.slot);
                ASC_PIPELINE(_in)(&p, ASC_NAMES(ASC_PIPELINE_ARGS));
                ASC_HAS_FILLED(p.slot);
                ASC_PIPELINE(_tile)(&p, ASC_NAMES(ASC_PIPELINE_ARGS));
                if (!p.writes)
                    continue;
                ASC_HAS_WRITTEN(p.slot);
                ASC_PIPELINE(_out)(&p, ASC_NAMES(ASC_PIPELINE_ARGS));
                ASC_HAS_LEFT(p.slot);
            }
    }
#ifdef ASC_PIPELINE_ENDS
    ASC_PIPELINE(_end)(&p, ASC_NAMES(ASC_PIPELINE_ARGS));
#endif
    asc_pipeline_end();
}

#undef ASC_PIPELINE
#undef ASC_PIPELINE_ARGS
#undef ASC_PIPELINE_STEP
#undef ASC_PIPELINE_GROUPS
#undef ASC_PIPELINE_ENDS
