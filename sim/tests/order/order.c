/* order.c - races of random programs. The model must report one exactly if two accesses clash that
 * the definition leaves unordered, found here by sets of steps and not by clocks; and whenever
 * schedules (seeds) disagree about the results.
 *
 * order [PROGRAMS [FIRST]]
 */
#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ascsim.h"

extern program order_program;
void order_run(unsigned char *memory, float *result);

enum { S, V, MTE2, MTE3, PIPES };

/* ---- programs ---- */

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((state >> 33) % below);
}

static uint32_t slot(void)
{
    return draw(SLOTS) * SLOT;
}

static step data(void)
{
    step s = {.kind = (int32_t)draw(5), .dst = slot(), .a = slot(), .b = slot()};
    s.bytes = 4 * (1 + draw(s.kind == ADD ? 8 : 12));
    if (s.kind == COPY_IN)
        s.a = 4 * draw(SLOTS * SLOT / 4);
    else if (s.kind == COPY_OUT)
        s.dst = 4 * draw(SLOTS * SLOT / 4);
    if (s.kind == LOAD || s.kind == STORE) {
        s.bytes = 4;
        s.a += 4 * draw(8);
        s.dst += 4 * draw(8);
    }
    return s;
}

static void add(program *p, step s)
{
    p->steps[p->count++] = s;
}

/* A set, perhaps some data, and its wait. */
static void add_flag(program *p)
{
    const int pipe = (int)draw(PIPES), target = (pipe + 1 + (int)draw(PIPES - 1)) % PIPES;
    const step set = {.kind = SET, .pipe = pipe, .target = target};
    step wait = set;
    wait.kind = WAIT;
    add(p, set);
    for (uint32_t n = draw(3); n > 0; n--)
        add(p, data());
    add(p, wait);
}

static void make(program *p, uint64_t seed)
{
    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    const uint32_t ordered = 20 + draw(75); /* per cent of steps that order */
    p->count = 0;
    const int wanted = 3 + (int)draw(STEPS - 9);
    while (p->count < wanted) {
        if (draw(100) >= ordered)
            add(p, data());
        else if (draw(3))
            add_flag(p);
        else
            add(p, (step){.kind = BARRIER, .pipe = 1 + (int)draw(ALL)});
    }
}

/* ---- the definition: what has ended when a step begins, as a set of steps ---- */

typedef uint64_t set;

static int pipe_of(const step *s)
{
    static const int of_data[] = {MTE2, V, MTE3, S, S};
    return s->kind < SET ? of_data[s->kind] : s->kind == WAIT ? s->target : s->pipe;
}

static set before_in_pipe(const program *p, int i, int pipe)
{
    set result = 0;
    for (int k = 0; k < i; k++)
        if (pipe_of(&p->steps[k]) == pipe)
            result |= (set)1 << k;
    return result;
}

static int set_of(const program *p, int wait)
{
    int k = wait - 1;
    while (p->steps[k].kind != SET || p->steps[k].pipe != p->steps[wait].pipe ||
           p->steps[k].target != p->steps[wait].target)
        k--;
    return k;
}

static void what_has_ended(const program *p, set ended[STEPS])
{
    set known[PIPES] = {0}, sent[STEPS] = {0};
    for (int i = 0; i < p->count; i++) {
        const step *s = &p->steps[i];
        const int pipe = pipe_of(s);
        if (pipe < PIPES)
            known[pipe] |= known[S]; /* S issued it after what it waited for */
        if (s->kind == SET)
            sent[i] = known[pipe] | before_in_pipe(p, i, pipe);
        else if (s->kind == WAIT)
            known[pipe] |= sent[set_of(p, i)];
        else if (s->kind == BARRIER && pipe < PIPES)
            known[pipe] |= before_in_pipe(p, i, pipe);
        else if (s->kind == BARRIER)
            known[S] = known[V] = known[MTE2] = known[MTE3] = ((set)1 << i) - 1;
        ended[i] = pipe == S ? known[S] | before_in_pipe(p, i, S) : pipe < PIPES ? known[pipe] : 0;
    }
}

typedef struct access {
    int global, write;
    uint32_t low, high;
} access;

static int accesses(const step *s, access out[3])
{
    const uint32_t padded = (s->bytes + SLOT - 1) / SLOT * SLOT;
    switch (s->kind) {
    case COPY_IN:
        out[0] = (access){1, 0, s->a, s->a + s->bytes};
        out[1] = (access){0, 1, s->dst, s->dst + padded};
        return 2;
    case ADD:
        out[0] = (access){0, 0, s->a, s->a + s->bytes};
        out[1] = (access){0, 0, s->b, s->b + s->bytes};
        out[2] = (access){0, 1, s->dst, s->dst + s->bytes};
        return 3;
    case COPY_OUT:
        out[0] = (access){0, 0, s->a, s->a + s->bytes};
        out[1] = (access){1, 1, s->dst, s->dst + s->bytes};
        return 2;
    case LOAD:
        out[0] = (access){0, 0, s->a, s->a + 4};
        return 1;
    case STORE:
        out[0] = (access){0, 1, s->dst, s->dst + 4};
        return 1;
    default:
        return 0;
    }
}

static int clash(const step *x, const step *y)
{
    access of_x[3], of_y[3];
    const int n = accesses(x, of_x), m = accesses(y, of_y);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            if (of_x[i].global == of_y[k].global && (of_x[i].write || of_y[k].write) &&
                of_x[i].low < of_y[k].high && of_y[k].low < of_x[i].high)
                return 1;
    return 0;
}

static int races(const program *p)
{
    set ended[STEPS];
    int count = 0;
    what_has_ended(p, ended);
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < i; k++)
            count += clash(&p->steps[k], &p->steps[i]) && !(ended[i] >> k & 1);
    return count;
}

/* ---- the model ---- */

typedef struct outcome {
    int races, others; /* reported: kinds of races, other kinds */
    float result[SPACE / 4 + 1];
    unsigned char memory[SPACE];
} outcome;

enum { SEEDS = 6 };

static void run(ascsim *device, unsigned char *memory, float *result, outcome *out)
{
    const ascsim_arg args[] = {ASCSIM_POINTER(memory), ASCSIM_POINTER(result)};
    for (int i = 0; i < SPACE; i++)
        memory[i] = (unsigned char)(i / 4 % 2 ? 0x3f : i % 4 == 3 ? 0x40 : 0);
    memset(out, 0, sizeof *out);
    if (ascsim_launch(device, "order", (ascsim_kernel)order_run, 1, args, 2)) {
        fprintf(stderr, "%s\n", ascsim_error());
        exit(2);
    }
    const ascsim_fault *faults;
    const int count = ascsim_faults(device, &faults);
    for (int i = 0; i < count; i++) {
        const int race = !strncmp(faults[i].kind, "missing-", 8);
        out->races += race;
        out->others += !race && strcmp(faults[i].kind, "event-set-twice") &&
                       strcmp(faults[i].kind, "ub-padding");
    }
    ascsim_clear_faults(device);
    memcpy(out->result, result, sizeof out->result);
    memcpy(out->memory, memory, sizeof out->memory);
}

static void print(const program *p)
{
    static const char *const names[] = {"copy in", "add", "copy out", "load",
                                        "store",   "set", "wait",     "barrier"};
    for (int i = 0; i < p->count; i++) {
        const step *s = &p->steps[i];
        if (s->kind < SET)
            printf("%3d %s dst %u a %u b %u bytes %u\n", i, names[s->kind], s->dst, s->a, s->b,
                   s->bytes);
        else
            printf("%3d %s %d %d\n", i, names[s->kind], s->pipe, s->target);
    }
}

static int differ(const outcome *x, const outcome *y)
{
    return memcmp(x->result, y->result, sizeof x->result) ||
           memcmp(x->memory, y->memory, sizeof x->memory);
}

int main(int argc, char **argv)
{
    const long programs = argc > 1 ? atol(argv[1]) : 2000, first = argc > 2 ? atol(argv[2]) : 0;
    ascsim *devices[SEEDS];
    unsigned char *memory[SEEDS];
    float *results[SEEDS];
    for (int d = 0; d < SEEDS; d++) {
        devices[d] = ascsim_open(
            &(ascsim_options){.threads = 1, .seed = (uint64_t)d * 77, .timing = ASCSIM_TIME_NONE});
        memory[d] = ascsim_alloc(devices[d], SPACE, "memory");
        results[d] = ascsim_alloc(devices[d], SPACE + 4, "result");
        ascsim_written(devices[d], memory[d], SPACE);
    }
    long racy = 0, exposed = 0, wrong = 0;
    for (long n = first; n < first + programs; n++) {
        static outcome outcomes[SEEDS];
        make(&order_program, (uint64_t)n);
        const int expected = races(&order_program);
        int varies = 0, bad = 0;
        for (int d = 0; d < SEEDS; d++) {
            run(devices[d], memory[d], results[d], &outcomes[d]);
            varies |= differ(&outcomes[0], &outcomes[d]);
            bad |= (outcomes[d].races > 0) != (expected > 0) ||
                   outcomes[d].races != outcomes[0].races || outcomes[d].others;
        }
        bad |= varies && !outcomes[0].races;
        if (bad) {
            printf("program %ld: %d races by definition, %d kinds reported, %d other faults, "
                   "results %s\n",
                   n, expected, outcomes[0].races, outcomes[0].others, varies ? "vary" : "agree");
            print(&order_program);
        }
        racy += expected > 0;
        exposed += varies;
        wrong += bad;
    }
    printf("%ld programs, %ld with races, %ld with other results under %d seeds: %ld wrong\n",
           programs, racy, exposed, SEEDS, wrong);
    for (int d = 0; d < SEEDS; d++)
        ascsim_close(devices[d]);
    return wrong != 0 || racy == 0 || racy == programs;
}
