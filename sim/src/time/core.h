/* time/core.h - a launch while it is played.
 *
 * What happens inside a core follows from times that are known, so a core is advanced as far as it
 * can (core.c): S in program order into the queues, each queue in its order. Only the data of
 * copies needs the other cores. A copy goes through its queue, takes the latency of memory, then
 * its data flows behind the data of the copy before it (copy.c); its end is an event (play.c),
 * after which its core is advanced again. */
#ifndef SIM_TIME_CORE_H
#define SIM_TIME_CORE_H

#include "play.h"

enum { TIME_PLACES = 64, TIME_FLIGHT = 64 };

typedef struct time_entry {
    const time_record *record;
    double time; /* entered the queue; in flight: began */
    int64_t copy;
    int touched; /* L2 has been asked */
} time_entry;

typedef struct time_lane { /* a pipe of a core */
    time_entry queue[TIME_PLACES], flight[TIME_FLIGHT];
    double left[TIME_PLACES]; /* when a place of the queue became free */
    uint64_t pushed, popped, launched, landed;
    int depth;
    double free, retired, busy_until;
    int group; /* of the copy whose data flows: those that fetch the same lines past L2; 0: none */
} time_lane;

enum { TIME_SIGNALS = 16 };

/* A flag: it may be set again before the wait that takes the first has come, and then holds
 * both. */
typedef struct time_flag {
    double at[TIME_SIGNALS];
    uint64_t set, taken;
} time_flag;

/* A tile of L0C that mmad and copies hand to each other by its unit flag. */
typedef struct time_tile {
    double begins, ends; /* mmad: its first and last result is there; copy: it has read those */
    int full;            /* a copy waits until it is; mmad until it is not */
    int leaves; /* the copy that empties it is under way: the next one waits for the next mmad */
} time_tile;
enum { TIME_TILES = 128 };

/* Arrivals of a unit at flags between cores, by mode and id, and what it has taken. */
enum { TIME_MODES = 3, TIME_CROSS = 16, TIME_ARRIVALS = 32 };
typedef struct time_cross {
    double at[TIME_MODES][TIME_CROSS][TIME_ARRIVALS];
    uint64_t arrived[TIME_MODES][TIME_CROSS], taken[TIME_MODES][TIME_CROSS];
} time_cross;

typedef struct time_core {
    int index, number; /* in the play; in the chip */
    int poked;         /* another core has arrived where it may wait */
    time_tile tile[TIME_TILES];
    time_lane lane[ASCSIM_PIPES];
    double now; /* of S */
    time_flag flag[ASCSIM_PIPES][ASCSIM_PIPES][SIM_EVENTS];
    int64_t block; /* -1: none left */
    int64_t at, copy;
} time_core;

typedef struct time_wake { /* the data of the first copy in flight may begin */
    double time;
    int pipe;
} time_wake;

typedef struct time_game {
    const time_chip *chip;
    const time_block *blocks;
    int64_t count;
    sim_grid grid;
    time_cross *cross; /* of each unit; NULL: the launch has no flags between cores */
    int pessimistic;
    time_l2 *l2;
    time_stats *stats;
    const time_sink *sink;
    time_share share;
    time_core *cores;
    int core_count, wakes;
    time_wake wake[TIME_FLOWS];
} time_game;

static inline double sim_later(double a, double b)
{
    return a > b ? a : b;
}

/* core.c */
void sim_play_begin_block(time_game *play, time_core *core, int64_t block, double time);
void sim_play_end_block(time_game *play, time_core *core);
void sim_play_advance(time_game *play, time_core *core);
/* An instruction was active from start to end: overlapping ones count once. */
void sim_play_busy(time_game *play, time_core *core, int pipe, const time_record *record,
                   double start, double end);
void sim_play_wait(time_game *play, time_core *core, int pipe, const time_record *record,
                   double start, double end);
void sim_play_signal(time_game *play, time_core *core, const time_record *record, double time);
/* A flag is set, or other cores are told. */
void sim_play_tell(time_game *play, time_core *core, const time_record *record, double time);

/* pipes.c: what begins at `ready` or later; each returns when it leaves its queue */
double sim_play_vector(time_game *play, time_core *core, const time_record *record, double ready);
/* Behind another product it loses few cycles, from a standstill more. -1: it waits for a copy out
 * of its tile. */
double sim_play_cube(time_game *play, time_core *core, const time_record *record, double ready);
/* What takes a time that is known when it begins: MTE1, copies between a cube core's memories. -1:
 * it waits for a product in its tile. */
double sim_play_plain(time_game *play, time_core *core, int pipe, const time_record *record,
                      double ready);

/* cross.c */
void sim_play_arrive(time_game *play, const time_core *core, const time_record *record,
                     double time);
/* The time from which a wait for other cores goes on, or -1. */
double sim_play_await(time_game *play, const time_core *core, const time_record *record,
                      double ready);

/* copy.c */
void sim_play_fly(time_game *play, time_core *core,
                  int pipe);                 /* what is first in flight may go on */
void sim_play_wake(time_game *play, int id); /* its data begins; id: core * ASCSIM_PIPES + pipe */
void sim_play_land(time_game *play, time_core *core, int pipe); /* its data has ended */

#endif
