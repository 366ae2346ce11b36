/* link.c - llama_link: how long two ranks take to exchange messages of some sizes, both ways
 * at once, by the calls that the trainer makes. Prints a line for each: bytes, and seconds of
 * the median exchange. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../run.h"
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

int main(void)
{
    double seconds[TIMES];
    ranks_open();
    if (ranks_count() != 2)
        die("there are %d ranks, expected 2: mpirun -n 2 llama_link", ranks_count());
    transfers *t = ranks_transfers(2);
    char *out = take_memory(LARGEST), *in = take_memory(LARGEST);
    memset(out, 1, LARGEST); /* pages of their own */
    for (size_t bytes = 1 << 10; bytes <= LARGEST; bytes *= 4) {
        for (int i = 0; i < TIMES; i++)
            seconds[i] = exchange(t, out, in, bytes);
        qsort(seconds, TIMES, sizeof(*seconds), ascending);
        if (ranks_here() == 0)
            printf("%zu %.9f\n", bytes, seconds[TIMES / 2]);
    }
    ranks_close();
    return 0;
}
