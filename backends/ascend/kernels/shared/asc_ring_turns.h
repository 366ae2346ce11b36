/* asc_ring_turns.h - which piece of which row is copied in when: the order in which a ring of
 * asc_ring.h goes through its rows. */
#ifndef ASC_RING_TURNS_H
#define ASC_RING_TURNS_H

#include "asc_common.h"

enum { ASC_RING_TENSORS = 2 };

/* Positions count the pieces in the order in which they are copied in: see asc_ring_turn_of(). */
typedef struct asc_ring {
    __gm__ char *from[ASC_RING_TENSORS];  /* the tensors of which a buffer holds a piece each */
    asc_groups rows_at[ASC_RING_TENSORS]; /* in bytes */
    int64_t size[ASC_RING_TENSORS];       /* of an element */
    int64_t place[ASC_RING_TENSORS];
    __gm__ int64_t
        *pick; /* of each row the column of one element that comes with the first piece; or 0. A row
                  whose column there is not is not copied in: its buffers hold anything */
    int64_t pick_place;
    __gm__ int64_t
        *picks; /* columns of further elements of every row, so many; in the blocks before
                              that one's */
    int64_t npicks;
    int64_t start;    /* columns are counted from this one on */
    int64_t sliced;   /* a row is copied in wherever its column is, */
    int64_t left_out; /* but for this one */
    int64_t slots, first, step, rows, columns, piece, pieces;
    int64_t reads, writes, behind, at, loaded, total;
    int64_t again_at, again_row, again; /* where such a pass begins, over which row; all of them */
} asc_ring;

/* A position: piece p of the row with this local number, copied in to be read alone
 * or to be written. */
typedef struct asc_ring_turn {
    int64_t local, p;
    int writes;
} asc_ring_turn;

/* Which of the two turns that a piece has is that of the row that is written. */
static inline __aicore__ int asc_ring_writes_at(const asc_ring *ring, int64_t turn)
{
    return turn == ring->first % 2;
}

/* The same where `behind` pieces of the row that is gone through again come with one of the next
 * row until there are none left, from the position within both rows' pieces. */
static inline __aicore__ asc_ring_turn asc_ring_turn_of_many(const asc_ring *ring, int64_t at)
{
    const int64_t run = ring->behind + 1, runs = ring->pieces / ring->behind;
    const int64_t left = at - runs * run, odd = ring->pieces % ring->behind;
    asc_ring_turn turn = {0};
    turn.writes = left < 0 ? at % run < ring->behind : left < odd;
    if (left >= 0)
        turn.p = turn.writes ? ring->pieces - odd + left : runs + left - odd;
    else
        turn.p = turn.writes ? at / run * ring->behind + at % run : at / run;
    return turn;
}

/* Row by row, each once or first to be read and then to be written; or, behind, the first row's
 * reads, then its writes in turns with the next row's reads, and so on. Every other block takes its
 * turns the other way round, so that half of them read memory while half read L2. */
static inline __aicore__ asc_ring_turn asc_ring_turn_of(const asc_ring *ring, int64_t position)
{
    const int64_t in_again = position - ring->again_at;
    const int64_t in_turn = position - ring->again * ring->pieces;
    const int64_t pass = in_turn / ring->pieces, passes = ring->reads + ring->writes;
    const int64_t pair = 2 * ring->pieces, after = in_turn - ring->pieces;
    asc_ring_turn turn;
    if (ring->again && in_again >= 0 && in_again < ring->pieces) {
        turn.local = ring->again_row;
        turn.p = in_again;
        turn.writes = 0;
    } else if (!ring->behind || pass == 0 || pass == 2 * ring->rows - 1) {
        turn.local = pass / passes;
        turn.p = in_turn % ring->pieces;
        turn.writes = pass % passes >= ring->reads;
    } else if (ring->behind == 1) {
        turn.writes = asc_ring_writes_at(ring, after % 2);
        turn.local = after / pair + !turn.writes;
        turn.p = after % pair / 2;
    } else {
        turn = asc_ring_turn_of_many(ring, after % pair);
        turn.local = after / pair + !turn.writes;
    }
    return turn;
}

#endif
