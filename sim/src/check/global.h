/* check/global.h - one block's global memory, page by page: shared by global.c, pages.c and
 * cache.c. */
#ifndef SIM_CHECK_GLOBAL_H
#define SIM_CHECK_GLOBAL_H

#include "parts.h"

typedef struct check_record {
    uint16_t low, high; /* within the page */
    check_mark mark;
} check_record;

/* Ticks; 0: not. A flush of all lines counts for those before it. */
typedef struct check_line {
    uint32_t cached, dirty, dirty_who;
    int clean; /* the block has flushed this line */
} check_line;

typedef struct check_page {
    uintptr_t number;
    uint32_t epoch, count, room;
    check_record *records;
    check_line *lines; /* NULL until S comes here */
} check_page;

struct check_global {
    check_page *pages; /* open addressing */
    uint32_t mask;
    uint32_t *used; /* of this block, in order */
    uint32_t used_count, used_room;
    uint32_t flushed; /* tick of the last flush of all */
    int stores;       /* S has stored to global memory in this block */
};

/* pages.c: the page of this number, without accesses before the block's first one there. */
check_page *check_page_of(sim_shadow *shadow, uintptr_t number);
/* S touches [low, high) of one line of the page. */
void check_scalar_line(const check_access *access, check_page *page, uint32_t low, uint32_t high);
/* A copy touches [low, high) of the page. */
void check_copy_lines(const check_access *access, const check_page *page, uint32_t low,
                      uint32_t high);

/* ---- left.c: lines that an earlier launch has left in the cache ---- */

void check_left_add(ascsim *device, uintptr_t line, int32_t block, uint32_t tick);
/* 1: something else has been written to this line since. */
int check_left_changed(const ascsim *device, uintptr_t line);

#endif
