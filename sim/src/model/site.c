/* model/site.c - places in a kernel's code become lines, through addr2line, many in one run of it,
 * when somebody asks. */
#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

typedef struct place {
    const void *pc;
    asc_site *site;
    struct place *next; /* of one hash */
} place;

enum { BUCKETS = 1024, BATCH = 200 };

static struct {
    pthread_mutex_t lock;
    place *buckets[BUCKETS];
    place **waiting; /* their lines are not known yet */
    int waits, room;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The address as the file of the module counts it; the call itself stands before its return
 * address. */
static uintptr_t in_module(const Dl_info *module, const void *pc)
{
    const Elf64_Ehdr *header = module->dli_fbase;
    const uintptr_t call = (uintptr_t)pc - 1;
    return header->e_type == ET_EXEC ? call : call - (uintptr_t)module->dli_fbase;
}

/* "path:line" or "path:line (discriminator 2)". */
static void read_line(asc_site *site, char *text)
{
    text[strcspn(text, "\n")] = 0;
    char *colon = strrchr(text, ':');
    if (!colon || text[0] == '?')
        return;
    *colon = 0;
    site->file = strdup(text);
    site->line = atoi(colon + 1);
}

/* Finds file and line of all waiting places of one module. */
static void find_lines(const char *module, place *const places[], int count)
{
    char command[512 + 20 * BATCH], text[4096];
    int at = snprintf(command, 512, "addr2line -e '%s'", module);
    if (at >= 512 || strchr(module, '\''))
        return;
    for (int i = 0; i < count; i++) {
        Dl_info info;
        dladdr(places[i]->pc, &info);
        at += sprintf(command + at, " %#lx", (unsigned long)in_module(&info, places[i]->pc));
    }
    FILE *pipe = popen(command, "r");
    for (int i = 0; pipe && i < count && fgets(text, sizeof text, pipe); i++)
        read_line(places[i]->site, text);
    if (pipe)
        pclose(pipe);
}

static void resolve(void)
{
    while (table.waits) {
        place *same[BATCH];
        int count = 0, kept = 0;
        Dl_info first, info;
        const int known = dladdr(table.waiting[0]->pc, &first);
        for (int i = 0; i < table.waits; i++) {
            place *p = table.waiting[i];
            const int here =
                known && count < BATCH && dladdr(p->pc, &info) && info.dli_fbase == first.dli_fbase;
            if (i == 0 || here)
                same[count++] = p;
            else
                table.waiting[kept++] = p;
        }
        table.waits = kept;
        if (known)
            find_lines(first.dli_fname, same, count);
        for (int i = 0; i < count; i++)
            if (!same[i]->site->file)
                same[i]->site->file = known ? first.dli_fname : "?";
    }
}

void sim_sites_resolve(void)
{
    pthread_mutex_lock(&table.lock);
    resolve();
    pthread_mutex_unlock(&table.lock);
}

static void wait_for_line(place *p)
{
    if (table.waits == table.room) {
        table.room = table.room ? 2 * table.room : 64;
        table.waiting = realloc(table.waiting, (size_t)table.room * sizeof *table.waiting);
    }
    table.waiting[table.waits++] = p;
}

const asc_site *sim_site_later(const void *pc, const char *name)
{
    pthread_mutex_lock(&table.lock);
    place **bucket = &table.buckets[((uintptr_t)pc * 0x9E3779B97F4A7C15u >> 40) % BUCKETS];
    place *p = *bucket;
    while (p && p->pc != pc)
        p = p->next;
    if (!p) {
        p = malloc(sizeof *p);
        asc_site *site = malloc(sizeof *site);
        *site = (asc_site){NULL, 0, name};
        *p = (place){pc, site, *bucket};
        *bucket = p;
        wait_for_line(p);
    }
    pthread_mutex_unlock(&table.lock);
    return p->site;
}
