/* sample.c - decoding. The rows of qkv that a pass leaves behind are the cache of keys and values:
 * position p is computed from row p on, and attends to rows 0 .. p. */
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"

/* Logits of the token behind `count` tokens at positions from `first` on. */
static const float *predict(model *m, const int64_t *tokens, int64_t first, int64_t count)
{
    model_bind(m, (extent){1, first, count, WHOLE});
    memcpy(m->input_data, tokens + first, (size_t)count * sizeof(*tokens));
    model_forward(m);
    weight *head = m->o->untied ? &m->head : &m->embed;
    CALL(m->r, gemm, .a = &m->last.t, .b = &head->p.t, .c = &m->logits.t, .trans_b = 1);
    from_device(m->r, m->logits_data, (size_t)m->o->vocab * sizeof(*m->logits_data));
    return m->logits_data;
}

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The smallest logit that may be drawn. */
static float threshold(const float *logits, int64_t n, int64_t top_k)
{
    if (top_k == 0 || top_k >= n)
        return -INFINITY;
    float *sorted = malloc((size_t)n * sizeof(*sorted));
    if (!sorted)
        die("out of memory");
    memcpy(sorted, logits, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), descending);
    const float least = sorted[top_k - 1];
    free(sorted);
    return least;
}

static int64_t draw(const options *o, const float *logits, uint64_t random)
{
    int64_t best = 0;
    for (int64_t i = 1; i < o->vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    if (o->temperature == 0)
        return best;
    const float least = threshold(logits, o->vocab, o->top_k);
    double sum = 0;
    for (int64_t i = 0; i < o->vocab; i++)
        if (logits[i] >= least)
            sum += exp((double)(logits[i] - logits[best]) / o->temperature);
    double left = (double)(random >> 11) / 9007199254740992.0 * sum;
    for (int64_t i = 0; i < o->vocab; i++)
        if (logits[i] >= least) {
            left -= exp((double)(logits[i] - logits[best]) / o->temperature);
            if (left < 0)
                return i;
        }
    return best;
}

static void put(const options *o, int64_t token)
{
    if (o->tokens)
        printf("%lld ", (long long)token);
    else if (token == '\n' || token == '\t' || (token >= 32 && token != 127))
        putchar((int)token);
    else
        putchar('?');
}

void sample_text(model *m)
{
    const options *o = m->o;
    const int64_t room = m->rows < o->seq ? m->rows : o->seq;
    int64_t *tokens = malloc((size_t)room * sizeof(*tokens));
    if (!tokens)
        die("out of memory");
    const char *prompt = o->prompt ? o->prompt : "\n";
    int64_t count = 0, done = 0;
    for (; prompt[count] && count < room; count++) {
        tokens[count] = (unsigned char)prompt[count];
        put(o, tokens[count]);
    }
    for (int64_t i = 0; i < o->sample && !ferror(stdout); i++) {
        if (count == room) { /* full: go on from the later half */
            count = room - room / 2;
            memmove(tokens, tokens + room / 2, (size_t)count * sizeof(*tokens));
            done = 0;
        }
        const float *logits = predict(m, tokens, done, count - done);
        done = count;
        tokens[count] = draw(o, logits, hash_at((uint64_t)o->seed ^ 0x7e47, (uint64_t)i));
        put(o, tokens[count++]);
        fflush(stdout);
    }
    putchar('\n');
    free(tokens);
}
