/* time_share.c - copies in flight share HBM and L2.
 *
 * Each copy has a rate of its own, what it would get if it were alone. When all that are in flight ask for more than
 * HBM or L2 can give, all that use it are slowed by the same factor. So a copy ends when its class has gone a given way,
 * whatever the factors were meanwhile: one clock a class, one sorted list.
 *
 * Dirty lines that make room wait until HBM has nothing to read, and hold up nobody before too many of them wait. */
#include <math.h>
#include <string.h>

#include "time_play.h"

void sim_share_init(time_share *share, const time_chip *chip)
{
    memset(share, 0, sizeof *share);
    share->hbm_per_cycle = chip->hbm_bytes_per_second;
    share->most_waiting = chip->write_back_bytes;
}

typedef struct factors {
    double of[TIME_FLOW_CLASSES];
    double growth; /* of what waits to be written back, a cycle */
} factors;

static factors factors_now(const time_share *share)
{
    const int behind = share->waiting >= share->most_waiting * (1 - 1e-9);
    const double wanted = share->fetched + (behind ? share->evicted : 0);
    const double hbm = wanted > share->hbm_per_cycle ? share->hbm_per_cycle / wanted : 1;
    const double evicts = behind ? hbm : 1;
    const double l2 =
        share->l2[TIME_HITS] + share->l2[TIME_FETCHES] * hbm + share->l2[TIME_EVICTS] * evicts;
    const double all = l2 > 1 ? 1 / l2 : 1;
    const double evicted = share->evicted * evicts * all;
    return (factors){{all, hbm * all, evicts * all},
                     evicted - (share->hbm_per_cycle - share->fetched * hbm * all)};
}

void sim_share_advance(time_share *share, double now)
{
    const factors factors = factors_now(share);
    const double time = now - share->now;
    for (int class = 0; class < TIME_FLOW_CLASSES; class ++) {
        share->way[class] += time * factors.of[class];
    }
    share->waiting += time * factors.growth;
    share->waiting = share->waiting < 0 ? 0 : fmin(share->waiting, share->most_waiting);
    share->now = now;
}

void sim_share_add(time_share *share, const time_flow *flow)
{
    const int class =
        flow->fetched > 0 ? TIME_FETCHES : (flow->evicted > 0 ? TIME_EVICTS : TIME_HITS);
    time_flow *flows = share->flow[class];
    time_flow added = *flow;
    added.end = share->way[class] + flow->cycles;
    int at = share->count[class]++;
    for (; at > 0 && flows[at - 1].end < added.end; at--) {
        flows[at] = flows[at - 1]; /* the next to end stands last */
    }
    flows[at] = added;
    share->fetched += flow->fetched / flow->cycles;
    share->evicted += flow->evicted / flow->cycles;
    share->l2[class] += flow->l2_cycles / flow->cycles;
}

double sim_share_next(const time_share *share, int *class)
{
    const factors factors = factors_now(share);
    double next = INFINITY;
    for (int c = 0; c < TIME_FLOW_CLASSES; c++) {
        if (share->count[c]) {
            const double left = share->flow[c][share->count[c] - 1].end - share->way[c];
            const double end = share->now + (left > 0 ? left / factors.of[c] : 0);
            if (end < next) {
                next = end;
                *class = c;
            }
        }
    }
    const double room = share->most_waiting - share->waiting;
    if (factors.growth > 0 && room > share->most_waiting * 1e-9 &&
        share->now + room / factors.growth < next) {
        next = share->now + room / factors.growth;
        *class = -1;
    }
    return next;
}

int sim_share_end(time_share *share, int class)
{
    const time_flow done = share->flow[class][--share->count[class]];
    share->fetched -= done.fetched / done.cycles;
    share->evicted -= done.evicted / done.cycles;
    share->l2[class] -= done.l2_cycles / done.cycles;
    if (share->count[class] == 0) { /* no rounding is carried along */
        share->l2[class] = 0;
        share->fetched = share->count[TIME_FETCHES] ? share->fetched : 0;
        share->evicted =
            share->count[TIME_FETCHES] + share->count[TIME_EVICTS] ? share->evicted : 0;
    }
    return done.pipe;
}
