/* time_share.c - copies in flight share HBM and L2.
 *
 * Each copy has a rate of its own, what it would get if it were alone. When all that are in flight ask for more than
 * HBM or L2 can give, all that use it are slowed by the same factor. So a copy ends when its class (those that miss
 * L2, those that do not) has gone a given way, whatever the factors were meanwhile: one clock a class, one sorted list. */
#include <math.h>
#include <string.h>

#include "time_play.h"

void sim_share_init(time_share *share, const time_chip *chip)
{
    memset(share, 0, sizeof *share);
    share->hbm_per_cycle = chip->hbm_bytes_per_second;
}

static void rates(const time_share *share, double factor[2])
{
    const double hbm =
        share->hbm[1] > share->hbm_per_cycle ? share->hbm_per_cycle / share->hbm[1] : 1;
    const double l2 = share->l2[0] + share->l2[1] * hbm;
    factor[0] = l2 > 1 ? 1 / l2 : 1;
    factor[1] = hbm * factor[0];
}

void sim_share_advance(time_share *share, double now)
{
    double factor[2];
    rates(share, factor);
    share->way[0] += (now - share->now) * factor[0];
    share->way[1] += (now - share->now) * factor[1];
    share->now = now;
}

void sim_share_add(time_share *share, const time_flow *flow)
{
    const int class = flow->hbm_bytes > 0;
    time_flow *flows = share->flow[class];
    time_flow added = *flow;
    added.end = share->way[class] + flow->cycles;
    int at = share->count[class]++;
    for (; at > 0 && flows[at - 1].end < added.end; at--) {
        flows[at] = flows[at - 1]; /* the next to end stands last */
    }
    flows[at] = added;
    share->hbm[class] += flow->hbm_bytes / flow->cycles;
    share->l2[class] += flow->l2_cycles / flow->cycles;
}

/* When the next copy ends if nothing else begins; INFINITY: none is in flight. */
double sim_share_next(const time_share *share, int *class)
{
    double factor[2], next = INFINITY;
    rates(share, factor);
    for (int c = 0; c < 2; c++) {
        if (share->count[c]) {
            const double left = share->flow[c][share->count[c] - 1].end - share->way[c];
            const double end = share->now + (left > 0 ? left / factor[c] : 0);
            if (end < next) {
                next = end;
                *class = c;
            }
        }
    }
    return next;
}

int sim_share_end(time_share *share, int class)
{
    const time_flow done = share->flow[class][--share->count[class]];
    const int empty = share->count[class] == 0; /* no rounding is carried along */
    share->hbm[class] = empty ? 0 : share->hbm[class] - done.hbm_bytes / done.cycles;
    share->l2[class] = empty ? 0 : share->l2[class] - done.l2_cycles / done.cycles;
    return done.pipe;
}
