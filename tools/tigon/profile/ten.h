/* tools/tigon/profile/ten.h - ten calls, measured on a card by msprof and modelled: what the files
 * of `tigon profile --compare` share. */
#ifndef TIGON_PROFILE_TEN_H
#define TIGON_PROFILE_TEN_H

enum {
#define TEN(op, type, shape, fact, tells) +1
    TEN_CALLS = 0
#include "ten.inc"
#undef TEN
    ,
    TEN_LAUNCHES = 32, /* of one call, at most */
    TEN_NAME = 96,
    TEN_FACTS = 512
};

typedef struct ten_call {
    const char *op, *type, *shape, *fact, *tells;
} ten_call;
extern const ten_call ten_calls[TEN_CALLS];

/* Pipes by what they do; NAN where it is not told. */
typedef enum ten_pipe { TEN_VECTOR, TEN_IN, TEN_OUT, TEN_PIPES } ten_pipe;

/* The third of three calls: its launches' names, and their times together. */
typedef struct ten_time {
    int launches;
    char kernel[TEN_LAUNCHES][TEN_NAME];
    double us, pipe[TEN_PIPES];
} ten_time;

/* ten.c: one of them on the model. facts: other figures of the chip (TIGON_ASCEND_FACTS), or "". 0,
 * or 1 after a message. */
int ten_model(int call, const char *soc, const char *facts, ten_time *to);

/* measured.c: what msprof's op_summary*.csv has of them, told by the names of the launches of
 * `modelled`; `launches` is 0 of one that it has not got. 0, or 1 after a message. */
int ten_unreadable(const char *csv); /* 1 after a message: asked for before the work */
int ten_measured(const char *csv, const ten_time *modelled, ten_time *to);

/* fit.c: facts with which the model would take the measured times, "name=value,...", "" if those of
 * the table do. 0, or 1 after a message. */
int ten_fit(const char *soc, const ten_time *measured, const ten_time *modelled,
            char facts[TEN_FACTS]);
/* The lines of ascsim_chips.inc with these. */
void ten_print_lines(const char *soc, const char *facts);

/* draw.c: bars of the times into a file; fitted: NULL, or with other facts. 0, or 1 after a
 * message. */
int ten_draw(const char *file, const char *soc, const ten_time *measured, const ten_time *modelled,
             const ten_time *fitted);

#endif
