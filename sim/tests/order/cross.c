/* cross.c - made-up programs of a cube core and its two vector cores: the model reports a race
 * between cores exactly where sets of steps, computed straight from the rules, leave two accesses
 * unordered; without races every seed has the same results.
 *   cross [PROGRAMS] */
#include "cross.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ascsim.h"

void cross_run(void);
extern cross_program cross_now;

typedef uint64_t set; /* of steps */

static uint64_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) * below >> 31);
}

/* ---- programs ---- */

static void add(cross_program *p, cross_step step)
{
    if (p->count < CROSS_STEPS)
        p->steps[p->count++] = step;
}

/* Who arrives and who waits: the cube core for both others, both for it, both for both. */
static const struct {
    uint8_t mode, from, to; /* bits of cores */
} signals[] = {{2, 1, 6}, {2, 6, 1}, {1, 6, 6}};

static void make(cross_program *p)
{
    enum { IDS = 12 };
    const int room = 6 + (int)draw(CROSS_STEPS - 12);
    const uint32_t busy = 1 + draw(4), writes = 2 + draw(8); /* a tenth each; one in so many */
    p->count = 0;
    int id = 0, open_id = -1, open_kind = 0, arrived = 0;
    const uint32_t barriers = draw(3);
    while (p->count < room) {
        const uint32_t what = draw(10);
        const uint8_t core = (uint8_t)draw(CORES);
        if (what < busy) {
            add(p, (cross_step){.core = core,
                                .kind = draw(writes) ? READ : WRITE,
                                .slot = (uint8_t)draw(CROSS_SLOTS)});
        } else if (what < busy + barriers) {
            add(p, (cross_step){.core = core, .kind = SYNC});
        } else if (open_id < 0 && id < IDS) {
            open_id = id++;
            open_kind = (int)draw(3);
            arrived = 0;
        } else if (open_id >= 0 && arrived < CORES) { /* one after the other of those that must */
            if (signals[open_kind].from >> arrived & 1)
                add(p, (cross_step){.core = (uint8_t)arrived,
                                    .kind = ARRIVE,
                                    .pipe = (uint8_t)draw(2),
                                    .mode = signals[open_kind].mode,
                                    .id = (uint8_t)open_id});
            arrived++;
        } else if (open_id >= 0 && arrived < 2 * CORES) {
            if (signals[open_kind].to >> (arrived - CORES) & 1)
                add(p, (cross_step){.core = (uint8_t)(arrived - CORES),
                                    .kind = AWAIT,
                                    .mode = signals[open_kind].mode,
                                    .id = (uint8_t)open_id});
            arrived++;
        } else {
            open_id = -1;
        }
    }
    for (; open_id >= 0 && arrived < 2 * CORES; arrived++) { /* what has begun is ended */
        const int wait = arrived >= CORES, core = arrived % CORES;
        if ((wait ? signals[open_kind].to : signals[open_kind].from) >> core & 1)
            add(p, (cross_step){.core = (uint8_t)core,
                                .kind = wait ? AWAIT : ARRIVE,
                                .mode = signals[open_kind].mode,
                                .id = (uint8_t)open_id});
    }
}

/* ---- the rules ---- */

static int is_access(const cross_step *s)
{
    return s->kind == READ || s->kind == WRITE;
}

/* Steps of the core before i that an arrival by that pipe stands for: of its pipe all, of the other
 * those before a barrier. */
static set behind(const cross_program *p, int i)
{
    const cross_step *arrival = &p->steps[i];
    set known = 0, unsure = 0;
    for (int k = 0; k < i; k++) {
        const cross_step *s = &p->steps[k];
        if (s->core != arrival->core)
            continue;
        if (s->kind == SYNC) {
            known |= unsure;
            unsure = 0;
        } else if (is_access(s) && (s->kind == WRITE) == arrival->pipe) {
            known |= (set)1 << k;
        } else if (is_access(s)) {
            unsure |= (set)1 << k;
        }
    }
    return known;
}

/* What each step knows to have ended, of other cores. */
static void follow(const cross_program *p, set knows[CROSS_STEPS])
{
    set core[CORES] = {0}, sent[16] = {0};
    for (int i = 0; i < p->count; i++) {
        const cross_step *s = &p->steps[i];
        if (s->kind == ARRIVE)
            sent[s->id] |= behind(p, i) | core[s->core];
        else if (s->kind == AWAIT)
            core[s->core] |= sent[s->id];
        knows[i] = core[s->core];
    }
}

static int races(const cross_program *p)
{
    set knows[CROSS_STEPS];
    follow(p, knows);
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < i; k++) {
            const cross_step *a = &p->steps[k], *b = &p->steps[i];
            if (is_access(a) && is_access(b) && a->core != b->core && a->slot == b->slot &&
                (a->kind == WRITE || b->kind == WRITE) && !(knows[i] >> k & 1) &&
                !(knows[k] >> i & 1))
                return 1;
        }
    return 0;
}

/* ---- the model ---- */

enum { MEMORY = CROSS_SLOTS * CROSS_SLOT, SEEN = CROSS_STEPS * CROSS_SLOT };

typedef struct outcome {
    int between, other; /* faults between cores; faults that are neither those nor within a core */
    uint8_t memory[MEMORY + SEEN];
} outcome;

static void run(const cross_program *p, uint64_t seed, outcome *to)
{
    ascsim *device =
        ascsim_open(&(ascsim_options){.seed = seed, .threads = 1, .timing = ASCSIM_TIME_NONE});
    uint8_t *memory = ascsim_alloc(device, MEMORY, "memory"),
            *seen = ascsim_alloc(device, SEEN, "seen");
    for (int i = 0; i < MEMORY; i++)
        memory[i] = (uint8_t)(i / CROSS_SLOT + 64);
    memset(seen, 0, SEEN);
    ascsim_written(device, memory, MEMORY);
    cross_now = *p;
    const ascsim_arg args[] = {ASCSIM_POINTER(memory), ASCSIM_POINTER(seen)};
    *to = (outcome){0};
    to->other = ascsim_launch(device, "cross", (ascsim_kernel)cross_run, 1, args, 2) != 0;
    const ascsim_fault *faults;
    const int count = ascsim_faults(device, &faults);
    for (int i = 0; i < count; i++) {
        to->between += !strncmp(faults[i].kind, "cross-", 6);
        to->other += strncmp(faults[i].kind, "cross-", 6) && strncmp(faults[i].kind, "missing-", 8);
    }
    if (to->other)
        ascsim_report_faults(device, stdout);
    memcpy(to->memory, memory, MEMORY);
    memcpy(to->memory + MEMORY, seen, SEEN);
    ascsim_close(device);
}

/* Steps within one core that only a barrier orders, and that clash. */
static int local_races(const cross_program *p)
{
    for (int i = 0; i < p->count; i++)
        for (int k = i - 1; k >= 0; k--) {
            const cross_step *a = &p->steps[k], *b = &p->steps[i];
            if (a->core == b->core && a->kind == SYNC)
                break;
            if (a->core == b->core && is_access(a) && is_access(b) && a->slot == b->slot &&
                (a->kind == WRITE || b->kind == WRITE))
                return 1;
        }
    return 0;
}

static void print(const cross_program *p)
{
    static const char *const names[] = {"read", "write", "arrive", "wait", "barrier"};
    for (int i = 0; i < p->count; i++)
        printf("%3d core %d %s slot %d pipe %d mode %d id %d\n", i, p->steps[i].core,
               names[p->steps[i].kind], p->steps[i].slot, p->steps[i].pipe, p->steps[i].mode,
               p->steps[i].id);
}

int main(int argc, char **argv)
{
    static const uint64_t seeds[] = {0, 1, 2, 77};
    const int programs = argc > 1 ? atoi(argv[1]) : 600;
    int racing = 0, different = 0, wrong = 0;
    for (int i = 0; i < programs && wrong < 3; i++) {
        cross_program p;
        make(&p);
        const int expected = races(&p), clean = !expected && !local_races(&p);
        outcome first, next;
        run(&p, seeds[0], &first);
        int bad = !!first.between != expected || first.other, varies = 0;
        for (int s = 1; s < 4; s++) {
            run(&p, seeds[s], &next);
            bad |= next.between != first.between || next.other;
            varies |= memcmp(next.memory, first.memory, sizeof next.memory) != 0;
        }
        bad |= clean && varies;
        racing += expected;
        different += varies;
        if (bad) {
            printf("program %d: %d faults between cores, expected %s%s\n", i, first.between,
                   expected ? "some" : "none", clean && varies ? "; results differ" : "");
            print(&p);
            wrong++;
        }
    }
    printf("%d programs of three cores, %d with races between them, %d with other results under 4 "
           "seeds: %d wrong\n",
           programs, racing, different, wrong);
    return wrong != 0;
}
