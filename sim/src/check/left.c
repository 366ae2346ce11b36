/* check/left.c - lines of global memory that S of an earlier launch may have left in a core's
 * cache. Where a chip puts a block is not known, so any core may have them, and nothing but the
 * block's own flush makes sure that it has not. */
#include <stdlib.h>
#include <string.h>

#include "global.h"

/* A line, by number; where S came there last, and whether something else was
 * written behind that. */
typedef struct left_line {
    uintptr_t line;
    uint32_t tick;
    int32_t block;
    int changed;
} left_line;

typedef struct left_list {
    left_line *items; /* by line */
    size_t count, room;
} left_list;

struct check_left {
    left_list lines; /* of earlier launches */
    left_list fresh; /* of this one, in any order until it ends */
};

static void append(left_list *list, left_line line)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->items = realloc(list->items, list->room * sizeof *list->items);
    }
    list->items[list->count++] = line;
}

/* The first of a sorted list from `line` on. */
static size_t first_from(const left_list *list, uintptr_t line)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (list->items[middle].line < line)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void check_left_free(ascsim *device)
{
    if (!device->left)
        return;
    free(device->left->lines.items);
    free(device->left->fresh.items);
    free(device->left);
    device->left = NULL;
}

/* With the device's lock. */
void check_left_add(ascsim *device, uintptr_t line, int32_t block, uint32_t tick)
{
    if (!device->left)
        device->left = calloc(1, sizeof *device->left);
    append(&device->left->fresh, (left_line){line, tick, block, 0});
}

int check_left_changed(const ascsim *device, uintptr_t line)
{
    if (!device->left)
        return 0;
    const left_list *list = &device->left->lines;
    const size_t at = first_from(list, line);
    return at < list->count && list->items[at].line == line && list->items[at].changed;
}

/* Bytes of [low, high) are others now. by: the write of a block of this launch;
 * NULL: the host's. */
static void change(left_list *list, uintptr_t low, uintptr_t high, const check_interval *by)
{
    for (size_t i = first_from(list, low / CHECK_LINE);
         i < list->count && list->items[i].line <= (high - 1) / CHECK_LINE; i++)
        if (!by || by->block != list->items[i].block || by->tick > list->items[i].tick)
            list->items[i].changed = 1;
}

void sim_left_host(ascsim *device, const void *memory, size_t bytes)
{
    if (device->left && bytes)
        change(&device->left->lines, (uintptr_t)memory, (uintptr_t)memory + bytes, NULL);
}

static int by_line(const void *a, const void *b)
{
    const left_line *x = a, *y = b;
    return (x->line > y->line) - (x->line < y->line);
}

/* Both lists as one; a line that is in both is changed if either is: another core may have it. */
static void merge(struct check_left *left)
{
    left_list all = {0};
    const left_list *const a = &left->lines, *const b = &left->fresh;
    for (size_t i = 0, k = 0; i < a->count || k < b->count;) {
        const int of_b = i == a->count || (k < b->count && b->items[k].line < a->items[i].line);
        const left_line next = of_b ? b->items[k++] : a->items[i++];
        if (all.count && all.items[all.count - 1].line == next.line)
            all.items[all.count - 1].changed |= next.changed;
        else
            append(&all, next);
        all.items[all.count - 1].block = -1; /* of a launch that has ended */
    }
    free(left->lines.items);
    left->lines = all;
    left->fresh.count = 0;
}

void check_left_end(ascsim *device, const check_interval *items, size_t count)
{
    struct check_left *left = device->left;
    if (!left)
        return;
    qsort(left->fresh.items, left->fresh.count, sizeof *left->fresh.items, by_line);
    for (size_t i = 0; i < count; i++)
        if ((items[i].access & SIM_WRITE) && items[i].pipe != ASCSIM_S) {
            change(&left->lines, items[i].low, items[i].high, &items[i]);
            change(&left->fresh, items[i].low, items[i].high, &items[i]);
        }
    if (left->fresh.count)
        merge(left);
}
