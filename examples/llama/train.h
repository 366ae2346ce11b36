/* train.h - the course: steps, held-out losses, checkpoints, a sample at the end. */
#ifndef LLAMA_TRAIN_H
#define LLAMA_TRAIN_H

#include "report.h"

/* What a run is besides its options. */
typedef struct course {
    const char *label; /* in front of its lines */
    const char *impl;  /* backends in order, or NULL */
    int sample;        /* write a sample at the end */
} course;

/* Runs the course and fills the history. Returns the status to leave with. */
int train(const options *o, const course *c, history *h);

/* The same course with unfused operators and with the default ones, in turn. */
int compare(const options *o);

#endif
