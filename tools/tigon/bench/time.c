/* tools/tigon/bench/time.c - interleaved rounds: every provider and every limit once a round, so
 * that whatever else the machine does meets all of them alike.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const double shortest_sample = 200e-6; /* seconds: far above the clock's resolution */
enum { MOST_CALLS = 1000, FEWEST_ROUNDS = 3, MOST_ROUNDS = 41 };

static double sample(const timed *t)
{
    double took = 0;
    const double start = seconds();
    if (t->ctx)
        tg_time_begin(t->ctx);
    for (int i = 0; i < t->inner; i++)
        t->run(t->arg);
    if (t->ctx)
        tg_time_end(t->ctx, &took);
    if (t->wait)
        t->wait(t->arg);
    return (t->ctx ? took : seconds() - start) / t->inner;
}

/* How long one call takes, and how many make a sample. With a cold cache it is always one. */
static double calibrate(timed *list, int n, const bench_settings *s, int cold)
{
    double round = 0;
    for (int i = 0; i < n; i++) {
        timed *t = &list[i];
        t->inner = 1;
        t->once = sample(t);
        if (t->once < 0.25)
            t->once = sample(t);
        const int warm = !cold || t->warm;
        if (warm && t->once < shortest_sample)
            t->inner = (int)(shortest_sample / (t->once + 1e-9)) + 1;
        t->inner = t->inner < MOST_CALLS ? t->inner : MOST_CALLS;
        round += t->once * (t->inner + 1);
        if (!warm) {
            const double start = seconds();
            evictor_run(s->evictor);
            round += seconds() - start;
        }
    }
    return round;
}

static void prepare(const timed *t, const bench_settings *s, int cold)
{
    if (cold && !t->warm)
        evictor_run(s->evictor);
    else if (t->once < 1) {
        /* others' data may have replaced this one's in the cache; over a long run that does not
         * count */
        t->run(t->arg);
        if (t->wait)
            t->wait(t->arg);
    }
}

void bench_time_free(timed *list, int n)
{
    for (int i = 0; i < n; i++) {
        free(list[i].samples);
        list[i].samples = NULL;
    }
}

quantiles bench_quantiles(const double *samples, int n)
{
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted)
        return (quantiles){NAN, NAN, NAN};
    memcpy(sorted, samples, (size_t)n * sizeof *sorted);
    const quantiles q = {quantile(sorted, n, 0.2), quantile(sorted, n, 0.5),
                         quantile(sorted, n, 0.8)};
    free(sorted);
    return q;
}

int bench_time(timed *list, int n, const bench_settings *s, int cold)
{
    const double round = calibrate(list, n, s, cold);
    int rounds = (int)s->rounds;
    if (!rounds) {
        const double fit = s->budget / round;
        rounds = fit > MOST_ROUNDS ? MOST_ROUNDS : fit > 7 ? (int)fit : 7;
        if (round > 2)
            rounds = round > 10 ? FEWEST_ROUNDS : 5;
    }
    int made = 0;
    while (made < n && (list[made].samples = malloc((size_t)rounds * sizeof *list[made].samples)))
        made++;
    if (made < n) {
        bench_time_free(list, made);
        return 0;
    }
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < n; k++) {
            const int i = (k + r) % n; /* rotates, so that none always runs after the same one */
            prepare(&list[i], s, cold);
            list[i].samples[r] = sample(&list[i]);
        }
    for (int i = 0; i < n; i++)
        list[i].time = bench_quantiles(list[i].samples, rounds);
    return rounds;
}
