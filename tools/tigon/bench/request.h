/* tools/tigon/bench/request.h - what the command line of `tigon bench` asks for. */
#ifndef TIGON_BENCH_REQUEST_H
#define TIGON_BENCH_REQUEST_H

#include "bench.h"
#include "share/types.h"

enum { BENCH_WORDS = 16, BENCH_POINTS = 64 };

typedef struct bench_request {
    char **operands;
    int noperands;
    const char *device, *size, *shape, *dtype, *mode, *provider, *cache, *csv, *sweep, *baseline,
        *clock;
    double allow;
    int64_t threads, rounds;
    int as_json, dispatch, no_check, no_limit, overwrite;

    /* read from these */
    int types[TYPES_LISTED], ntypes;
    int modes[BENCH_MODES];
    char size_text[PB_TEXT], *sizes[BENCH_WORDS];
    int nsizes;
    int warm, cold; /* both 0: small sizes warm, all others cold */
    char sweep_dim[PB_NAME];
    double sweep_at[BENCH_POINTS];
    int sweep_points;
} bench_request;

/* Reads the lists; 0, or the exit status after a message. */
int bench_request_read(const cli_usage *u, bench_request *q);
/* 1 if a group's mode is asked for. */
int bench_wants(const bench_request *q, const char *group, int mode);
/* Contexts of the providers; 0, or the exit status after a message. */
int bench_settings_open(const cli_usage *u, bench_settings *s, const bench_request *q);
void bench_settings_close(bench_settings *s);

#endif
