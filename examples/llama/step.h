/* step.h - steps: from windows of tokens to the next parameters. */
#ifndef LLAMA_STEP_H
#define LLAMA_STEP_H

#include "data.h"
#include "model.h"
#include "report.h"

/* A course as far as it has come. On a device with memory of its own the host is a step ahead: it
 * puts a step there, and then waits for the results of the one before. */
typedef struct progress {
    model *m;
    corpus *data;
    report *r;
    history *h;
    uint64_t hash;              /* of the data, for checkpoints */
    int64_t first, last, saved; /* steps: done before, to do, in the checkpoint */
    int64_t put, done;          /* steps: put on the device, and ended */
    double since;               /* when the last one ended, or the first one began; by now() */
    double spent;               /* of the run's costs, then */
    /* steps whose calls have been made one by one: these have taken all workspace */
    int64_t calls_made;
    int64_t room;           /* for documents, in these calls */
    tg_graph *gradients[2]; /* of the two places of a step; NULL: not recorded */
    tg_event *results[2];   /* they have come to the host */
} progress;

/* Reads the next step's windows; if the data are lost there are none. */
void draw_step(progress *p);
/* Puts the next step, which has been drawn, on the device; where that works in the host's memory,
 * it has ended then. */
void put_step(progress *p);
/* Waits, and reports, until no more than `ahead` steps are on the device. */
void end_steps(progress *p, int64_t ahead);
/* The next step's time begins now. */
void begin_time(progress *p);
void close_progress(progress *p);

#endif
