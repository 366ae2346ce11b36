/* stand_in_record.c - the record of all calls, and what handles stand for. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

thing things[SLOTS];
int initialised, violations;
_Thread_local int device_is_set;
_Thread_local int32_t current_device;
static const char *const kinds[] = {"nothing", "memory", "binary", "function",
                                    "args",    "event",  "stream"};

/* ---- the record ---- */

void record(const char *format, ...)
{
    const char *path = getenv("STAND_IN_RECORD");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    va_list values;
    va_start(values, format);
    vfprintf(f, format, values);
    va_end(values);
    fputc('\n', f);
    fclose(f);
}

int violation(const char *function, const char *what)
{
    violations++;
    record("VIOLATION %s: %s", function, what);
    return INVALID;
}

int64_t number(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

int fails(const char *function)
{
    static struct {
        char name[64];
        int calls;
    } seen[SLOTS];
    const char *wanted = getenv("STAND_IN_FAIL");
    int i = 0;
    while (i < SLOTS - 1 && *seen[i].name && strcmp(seen[i].name, function) != 0)
        i++;
    snprintf(seen[i].name, sizeof seen->name, "%s", function);
    seen[i].calls++;
    const size_t n = strlen(function);
    if (!wanted || strncmp(wanted, function, n) != 0 || (wanted[n] && wanted[n] != ':'))
        return 0;
    return !wanted[n] || atoi(wanted + n + 1) == seen[i].calls;
}

/* ---- things ---- */

void *create(kind is)
{
    for (int i = 0; i < SLOTS; i++)
        if (things[i].is == NOTHING) {
            memset(&things[i], 0, sizeof things[i]);
            things[i].is = is;
            things[i].device = current_device;
            return (void *)((uintptr_t)&things[i] + moved);
        }
    return NULL;
}

thing *find(const void *handle, kind is)
{
    for (int i = 0; i < SLOTS; i++)
        if (things[i].is == is && handle == (void *)((uintptr_t)&things[i] + moved))
            return &things[i];
    return NULL;
}

int destroy(const char *function, void *handle, kind is)
{
    thing *t = find(handle, is);
    if (!t)
        return violation(function, "an unknown handle, or one that was given back before");
    t->is = NOTHING;
    return 0;
}

int is_here(const char *function, const thing *t)
{
    if (!t || t->device == current_device)
        return 1;
    violation(function, "a handle of another device than the thread's");
    return 0;
}

size_t room_at(uint64_t address)
{
    for (int i = 0; i < SLOTS; i++) {
        const uint64_t base = things[i].words[0];
        if (things[i].is == MEMORY && address >= base && address < base + things[i].bytes)
            return (size_t)(base + things[i].bytes - address);
    }
    return 0;
}

/* ---- the end of the process: what is left over ---- */

__attribute__((destructor)) static void end(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (things[i].is == MEMORY || things[i].is == EVENT || things[i].is == BINARY ||
            (things[i].is == ARGS && !getenv("STAND_IN_FAIL")))
            record("VIOLATION at the end: %s is left", kinds[things[i].is]);
    record("end, %d violations", violations);
}
