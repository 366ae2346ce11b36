/* time/share.c - copies in flight share HBM and L2.
 *
 * Each copy has a rate of its own, what it would get if it were alone. When all that are in flight
 * ask for more than HBM can give, all that use it are slowed by the same factor; when they ask L2
 * for too much, those that do not wait for HBM are; the cores of either kind, cube and vector, have
 * ways to L2 of their own. So a copy ends when its class has gone a given way, whatever the factors
 * were meanwhile: one clock a class, one sorted list.
 *
 * Dirty lines that make room wait until HBM has nothing to read, and hold up nobody before too many
 * of them wait.
 *
 * Requests for one line that L2 does not keep are served one after the other. So a group of copies
 * that fetch the same lines gets a given number of requests a cycle, however many they are: a class
 * for each group, with a factor of its own. */
#include <math.h>
#include <string.h>

#include "play.h"

void sim_share_init(time_share *share, const time_chip *chip)
{
    memset(share, 0, sizeof *share);
    share->hbm_per_cycle = chip->hbm_bytes_per_second;
    share->most_waiting = chip->write_back_bytes;
    share->group_requests = chip->same_line_requests_per_cycle;
    share->classes = TIME_GROUPED;
}

typedef struct factors {
    double of[TIME_FLOW_CLASSES];
    double growth; /* of what waits to be written back, a cycle */
} factors;

/* The part of its requests that copies of the same lines are served in a cycle: less than 1 if they
 * ask for more than L2 gives. */
static double lines_allow(const time_share *share, int class)
{
    const double wanted = share->requests[class];
    return wanted > share->group_requests ? share->group_requests / wanted : 1;
}

/* What copies from memory get of L2, of what they ask for. They ask for little of it, which is why
 * they come first; but for no more than half, or their share if that is more. */
static double l2_allows(double fetches, double others)
{
    const double all = fetches + others;
    return all > 1 ? fmin(1, fmax(1 / all, 0.5 / fetches)) : 1;
}

/* What cores of a kind ask L2 for beside what they fetch from memory. */
static double others_of(const time_share *share, int kind, double evicts)
{
    return share->l2[TIME_HITS + kind][kind] + share->l2[TIME_EVICTS + kind][kind] * evicts;
}

static factors factors_now(const time_share *share)
{
    const int behind = share->waiting >= share->most_waiting * (1 - 1e-9);
    double fetched = 0, evicted = 0, l2[TIME_KINDS] = {0}, first = 1;
    factors now;
    for (int kind = 0; kind < TIME_KINDS; kind++) {
        evicted += share->evicted[TIME_EVICTS + kind];
    }
    for (int class = TIME_FETCHES; class < share->classes; class ++) {
        now.of[class] = class >= TIME_GROUPED ? lines_allow(share, class) : 1;
        fetched += share->fetched[class] * now.of[class];
        evicted += share->evicted[class] * now.of[class];
        for (int kind = 0; kind < TIME_KINDS; kind++) {
            l2[kind] += share->l2[class][kind] * now.of[class];
        }
    }
    const double wanted = fetched + (behind ? evicted : 0);
    const double hbm = wanted > share->hbm_per_cycle ? share->hbm_per_cycle / wanted : 1;
    const double evicts = behind ? hbm : 1;
    for (int kind = 0; kind < TIME_KINDS; kind++) {
        first = fmin(first, l2_allows(l2[kind] * hbm, others_of(share, kind, evicts)));
    }
    for (int class = TIME_FETCHES; class < share->classes; class ++) {
        now.of[class] *= hbm * first;
    }
    for (int kind = 0; kind < TIME_KINDS; kind++) {
        const double others = others_of(share, kind, evicts), left = 1 - l2[kind] * hbm * first;
        const double rest = others > 0 && others > left ? left / others : 1;
        now.of[TIME_HITS + kind] = rest;
        now.of[TIME_EVICTS + kind] = evicts * rest;
    }
    now.growth = -share->hbm_per_cycle;
    for (int class = 0; class < share->classes; class ++) {
        now.growth += (share->fetched[class] + share->evicted[class]) * now.of[class];
    }
    return now;
}

void sim_share_advance(time_share *share, double now)
{
    const factors factors = factors_now(share);
    const double time = now - share->now;
    for (int class = 0; class < share->classes; class ++) {
        share->way[class] += time * factors.of[class];
    }
    share->waiting += time * factors.growth;
    share->waiting = share->waiting < 0 ? 0 : fmin(share->waiting, share->most_waiting);
    share->now = now;
}

int sim_share_new_group(time_share *share)
{
    int class = TIME_GROUPED;
    while (class < share->classes && share->count[class]) {
        class ++;
    }
    share->classes += class == share->classes;
    return class - TIME_GROUPED + 1;
}

static int class_of(const time_flow *flow)
{
    if (flow->group) {
        return TIME_GROUPED + flow->group - 1;
    }
    if (flow->fetched > 0) {
        return TIME_FETCHES;
    }
    return (flow->evicted > 0 ? TIME_EVICTS : TIME_HITS) + flow->cube;
}

void sim_share_add(time_share *share, const time_flow *flow)
{
    const int class = class_of(flow);
    time_flow *flows = share->flow[class];
    time_flow added = *flow;
    added.end = share->way[class] + flow->cycles;
    int at = share->count[class]++;
    for (; at > 0 && flows[at - 1].end < added.end; at--) {
        flows[at] = flows[at - 1]; /* the next to end stands last */
    }
    flows[at] = added;
    share->evicted[class] += flow->evicted / flow->cycles;
    share->fetched[class] += flow->fetched / flow->cycles;
    share->l2[class][flow->cube] += flow->l2_cycles / flow->cycles;
    share->requests[class] += flow->group ? flow->requests / flow->cycles : 0;
}

double sim_share_next(const time_share *share, int *class)
{
    const factors factors = factors_now(share);
    double next = INFINITY;
    for (int c = 0; c < share->classes; c++) {
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
    share->evicted[class] -= done.evicted / done.cycles;
    share->fetched[class] -= done.fetched / done.cycles;
    share->l2[class][done.cube] -= done.l2_cycles / done.cycles;
    share->requests[class] -= done.group ? done.requests / done.cycles : 0;
    if (share->count[class] == 0) { /* no rounding is carried along */
        memset(share->l2[class], 0, sizeof share->l2[class]);
        share->fetched[class] = share->evicted[class] = share->requests[class] = 0;
    }
    return done.pipe;
}
