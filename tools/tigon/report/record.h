/* tools/tigon/report/record.h - what launches of an operator did, as the library tells of it: the
 * calls of the vector core's API that became instructions, and the files that they stand in. */
#ifndef TIGON_REPORT_RECORD_H
#define TIGON_REPORT_RECORD_H

#include <tigon/npu.h>

enum { RECORD_SOURCES = 32 };

/* A place in a kernel's source, for one operator. Sums are of the launches that counted. */
typedef struct record_place {
    int op;
    tg_npu_call call;
} record_place;

typedef struct record {
    int broken; /* memory was short */
    int n, room;
    record_place *place;
    int nsources;
    const char *source[RECORD_SOURCES]; /* the hosts' files */
} record;

/* Adds the calls of a launch; where counts is 0 their places alone. */
void record_add(record *r, int op, const tg_npu_record *launch, int counts);
/* The sums of the operator begin anew. */
void record_restart(record *r, int op);
/* By operator, call, pipe, file and line: one entry a place. */
void record_sort(record *r);
void record_free(record *r);

#endif
