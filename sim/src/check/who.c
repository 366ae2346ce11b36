/* check/who.c - who does an access, as the small numbers that the shadows keep. */
#include <stdlib.h>

#include "parts.h"

typedef struct sites_entry {
    const void *key; /* an asc_site, or a place in a kernel's code */
    const asc_site *site;
    const char *name;
} sites_entry;

struct check_sites {
    sites_entry *entries; /* a number is an index */
    uint32_t count, room;
    uint32_t *table, mask; /* hash: 0 empty, else index + 1 */
};

check_sites *check_sites_new(void)
{
    check_sites *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->room = 512;
    s->mask = 1023;
    s->entries = malloc(s->room * sizeof *s->entries);
    s->table = calloc(s->mask + 1, sizeof *s->table);
    if (!s->entries || !s->table) {
        check_sites_free(s);
        return NULL;
    }
    return s;
}

void check_sites_free(check_sites *s)
{
    if (!s)
        return;
    free(s->entries);
    free(s->table);
    free(s);
}

static uint32_t hash(const void *key)
{
    return (uint32_t)((uintptr_t)key * 0x9E3779B97F4A7C15u >> 32);
}

static void grow(check_sites *s)
{
    s->room *= 2;
    s->mask = 2 * s->mask + 1;
    s->entries = realloc(s->entries, s->room * sizeof *s->entries);
    free(s->table);
    s->table = calloc(s->mask + 1, sizeof *s->table);
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t at = hash(s->entries[i].key) & s->mask;
        while (s->table[at])
            at = (at + 1) & s->mask;
        s->table[at] = i + 1;
    }
}

static uint32_t number(check_sites *s, const void *key, const asc_site *site, const char *name)
{
    uint32_t at = hash(key) & s->mask;
    for (; s->table[at]; at = (at + 1) & s->mask)
        if (s->entries[s->table[at] - 1].key == key)
            return s->table[at] - 1;
    s->entries[s->count] = (sites_entry){key, site, name};
    s->table[at] = ++s->count;
    const uint32_t result = s->count - 1;
    if (s->count == s->room)
        grow(s);
    return result;
}

uint32_t check_who(sim_shadow *shadow, const asc_site *site)
{
    return number(shadow->sites, site, site, NULL);
}

uint32_t check_who_scalar(sim_shadow *shadow, const void *pc, int write)
{
    return number(shadow->sites, pc, NULL, write ? "store" : "load");
}

const asc_site *check_site(const sim_shadow *shadow, uint32_t who)
{
    sites_entry *entry = &shadow->sites->entries[who];
    if (!entry->site)
        entry->site = sim_site_later(entry->key, entry->name);
    return entry->site;
}
