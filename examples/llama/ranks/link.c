/* link.c - llama_link: how long two ranks take to exchange messages of some sizes, both ways at
 * once, by the calls that the trainer makes. Prints a line for each: bytes, and seconds of the
 * median exchange.
 *
 * `llama_link cuda`, on any number of ranks with a card each: bytes of each card, seconds of sums
 * of them all of which a card has its part, as of gradients, and of a part to each other card, as
 * of experts' rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../run.h"
#include "cards.h"
#include "ranks.h"

enum { TIMES = 41, LARGEST = 16 << 20 };

static double exchange(transfers *t, char *out, char *in, size_t bytes)
{
    const int other = 1 - ranks_here();
    double together = 0;
    ranks_merge(&together, 1);
    const double begin = now();
    ranks_receive(t, other, in, bytes);
    ranks_send(t, other, out, bytes);
    ranks_wait(t);
    return now() - begin;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof(*seconds), ascending);
    return seconds[count / 2];
}

static void between_two(void)
{
    double seconds[TIMES];
    if (ranks_count() != 2)
        die("there are %d ranks, expected 2: mpirun -n 2 llama_link", ranks_count());
    transfers *t = ranks_transfers(2);
    char *out = take_memory(LARGEST), *in = take_memory(LARGEST);
    memset(out, 1, LARGEST); /* pages of their own */
    for (size_t bytes = 1 << 10; bytes <= LARGEST; bytes *= 4) {
        for (int i = 0; i < TIMES; i++)
            seconds[i] = exchange(t, out, in, bytes);
        const double middle = median(seconds, TIMES);
        if (ranks_here() == 0)
            printf("%zu %.9f\n", bytes, middle);
    }
}

/* ---- cards ---- */

typedef struct cards {
    run r;
    float *all, *own;
    int *counts, *starts;
} cards;

/* Of `elements` numbers of each card, all of them: sums, each card's part of them; or a part to
 * each other card, and from each. */
static double sum_or_swap(cards *c, int elements, int swaps)
{
    const int ranks = ranks_count(), here = ranks_here(), part = elements / ranks;
    double together = 0;
    for (int r = 0; r < ranks; r++) {
        c->counts[r] = part;
        c->starts[r] = r * part;
    }
    run_wait(&c->r);
    ranks_merge(&together, 1);
    const double begin = now();
    cards_begin(tg_ctx_stream(c->r.ctx));
    if (!swaps)
        cards_sum(on_device(&c->r, c->all), c->counts, c->starts, on_device(&c->r, c->own));
    for (int i = 1; i < ranks && swaps; i++) {
        const size_t bytes = (size_t)part * sizeof(float);
        const int to = (here + i) % ranks, from = (here + ranks - i) % ranks;
        cards_send(on_device(&c->r, c->all + to * part), bytes, to);
        cards_receive(on_device(&c->r, c->own + from * part), bytes, from);
    }
    cards_end();
    cards_join(tg_ctx_stream(c->r.ctx));
    run_wait(&c->r);
    return now() - begin;
}

static void between_cards(const char *device)
{
    enum { SMALLEST = 1 << 14, LARGEST_OF_CARDS = 1 << 26 }; /* elements */
    cards c = {.counts = take_memory((size_t)ranks_count() * sizeof(int)),
               .starts = take_memory((size_t)ranks_count() * sizeof(int))};
    double seconds[2][TIMES];
    run_open(&c.r, device, NULL, 0);
    cards_open();
    c.all = take_activations(&c.r, LARGEST_OF_CARDS * sizeof(float));
    c.own = take_activations(&c.r, LARGEST_OF_CARDS * sizeof(float));
    for (int elements = SMALLEST; elements <= LARGEST_OF_CARDS; elements *= 4) {
        for (int i = 0; i < 2 * TIMES; i++)
            seconds[i % 2][i / 2] = sum_or_swap(&c, elements, i % 2);
        const double sum = median(seconds[0], TIMES), swap = median(seconds[1], TIMES);
        if (ranks_here() == 0)
            printf("%zu %.9f %.9f\n", (size_t)elements * sizeof(float), sum, swap);
    }
    run_close(&c.r);
}

int main(int argc, char **argv)
{
    ranks_open();
    if (argc > 1)
        between_cards(argv[1]);
    else
        between_two();
    ranks_close();
    return 0;
}
