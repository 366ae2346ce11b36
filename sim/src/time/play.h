/* time/play.h - playing the records of a launch against the chip. */
#ifndef SIM_TIME_PLAY_H
#define SIM_TIME_PLAY_H

#include "parts.h"
#include "report/report.h"

/* ---- share.c: copies in flight ---- */

enum { TIME_FLOWS = 192 }; /* two pipes each of at most 96 cores */

typedef struct time_flow {
    int pipe;                /* whose copy: handed back when it ends */
    double cycles;           /* that it would take alone */
    double fetched, evicted; /* bytes from HBM; dirty bytes that make room for them in L2 */
    double l2_cycles;        /* of the ways to L2 that its kind of core has */
    int cube;                /* its kind */
    double requests;         /* for lines past L2 */
    int group;               /* of copies that fetch the same lines past L2; 0: it is in none */
    double end;              /* on the clock of its class */
} time_flow;

/* What can slow a copy: L2 alone, or HBM too: making room when it cannot keep up with writing back,
 * of either kind of core; or fetching from it. Behind these a class for each group of copies that
 * fetch the same lines past L2. */
enum {
    TIME_KINDS = 2,
    TIME_HITS = 0,
    TIME_EVICTS = TIME_HITS + TIME_KINDS,
    TIME_FETCHES = TIME_EVICTS + TIME_KINDS,
    TIME_GROUPED,
    TIME_FLOW_CLASSES = TIME_GROUPED + TIME_FLOWS / 2
};

typedef struct time_share {
    double now;
    double hbm_per_cycle, most_waiting, group_requests;
    double waiting; /* dirty bytes that HBM has still to take */
    /* asked for a cycle by what is in flight */
    double fetched[TIME_FLOW_CLASSES], evicted[TIME_FLOW_CLASSES];
    double l2[TIME_FLOW_CLASSES][TIME_KINDS], requests[TIME_FLOW_CLASSES];
    double way[TIME_FLOW_CLASSES];
    int classes; /* of these, the first that have been used */
    int count[TIME_FLOW_CLASSES];
    time_flow flow[TIME_FLOW_CLASSES][TIME_FLOWS];
} time_share;

void sim_share_init(time_share *share, const time_chip *chip);
void sim_share_advance(time_share *share, double now);
void sim_share_add(time_share *share, const time_flow *flow);
int sim_share_new_group(time_share *share); /* one that no copy in flight is in */
/* When something happens if nothing else begins: a copy of *class ends, or (*class < 0) HBM falls
 * behind with writing back. INFINITY: nothing is in flight. */
double sim_share_next(const time_share *share, int *class);
int sim_share_end(time_share *share,
                  int class); /* of the copy whose turn it is; now must have been advanced to */

/* ---- what a play tells ---- */

typedef struct time_event { /* one instruction */
    const time_record *record;
    double start, end; /* cycles */
    int32_t block;
    int16_t core, pipe; /* core: of the chip */
} time_event;

/* Where a play reports to. note() sees every instruction with its start and end; flags: waits that
 * had to wait. */
typedef struct time_sink {
    void (*note)(void *to, const time_event *event);
    void *to;
} time_sink;

/* Plays all units; pessimistic: an instruction of V starts only when the one before it has retired.
 * l2: NULL to take what the first play found. Returns the cycles until the last block ends, or -1
 * without memory. */
double sim_time_play(const time_chip *chip, const time_block *units, int64_t count, sim_grid grid,
                     int pessimistic, time_l2 *l2, time_stats *stats, const time_sink *sink);

#endif
