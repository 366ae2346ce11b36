/* tools/tigon/profile/profile.h - what the files of `tigon profile` share. */
#ifndef TIGON_PROFILE_H
#define TIGON_PROFILE_H

#include <stddef.h>

typedef struct profile_request {
    const char *op, *device, *soc, *out, *text, *size, *type;
    int as_json, trace;
    int whole; /* text says all of the case, not what is laid over a size of the benchmark */
} profile_request;

typedef struct profile_called { /* one call */
    int launches;
    double us; /* of the model, of all of them */
} profile_called;

/* profile.c: calls the operators whose names begin with q->op until the steady state, in this
 * process; 0, or 1 after a message. The file `to` gets a profile_called of each call. */
int profile_call(const profile_request *q, int to);
/* Runs fn(arg, to) in a process of its own and takes what it writes to the file `to`, `size` bytes
 * at most. Returns its exit status; 1 after a message if there is none. */
int profile_apart(int (*fn)(const void *arg, int to), const void *arg, void *into, size_t size,
                  size_t *got);
/* Prints what the model wrote into a folder of STEADY_CALLS calls of each operator; 0, or 1 if it
 * wrote nothing. */
int profile_report(const char *folder, const profile_called *calls, int ncalls, int as_json);

/* Calls that others have published times of: a table beside the model's, into `document` between
 * its marks if there is one. 0, or 1 after a message. */
int profile_published(const char *document, int as_json);

/* ten.c: ten calls on a device, three times each, for msprof to watch; 0, or 1 after a message. */
int profile_ten(const char *device);
/* The same on the model beside what msprof has measured, an op_summary*.csv: tables, lines of the
 * model's table of chips that would fit, and compare.svg in a folder. */
int profile_compare(const char *csv, const char *soc, const char *folder);

#endif
