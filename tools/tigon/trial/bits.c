/* tools/tigon/trial/bits.c - the bytes of a problem's buffers: copied, compared. */
#include <stdlib.h>
#include <string.h>

#include "trial.h"

unsigned char *bits_copy(const problem *p)
{
    size_t bytes = 1;
    for (int i = 0; i < p->nbuffers; i++)
        bytes += p->buffer[i].bytes;
    unsigned char *bits = malloc(bytes), *at = bits;
    for (int i = 0; bits && i < p->nbuffers; at += p->buffer[i++].bytes)
        memcpy(at, p->buffer[i].base, p->buffer[i].bytes);
    return bits;
}

int64_t bits_differ(const problem *p, const unsigned char *bits)
{
    int64_t first = 0;
    for (int i = 0; i < p->nbuffers; i++) {
        const pb_buffer *b = &p->buffer[i];
        if (memcmp(bits + first, b->base, b->bytes)) {
            size_t at = 0;
            while (bits[first + (int64_t)at] == b->base[at])
                at++;
            return first + (int64_t)at;
        }
        first += (int64_t)b->bytes;
    }
    return -1;
}

const char *bits_tensor(const problem *p, const unsigned char *bits)
{
    int64_t at = bits_differ(p, bits);
    int buffer = 0;
    while (at >= 0 && buffer < p->nbuffers - 1 && at >= (int64_t)p->buffer[buffer].bytes)
        at -= (int64_t)p->buffer[buffer++].bytes;
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->tensor[i].present && p->tensor[i].buffer == buffer)
            return p->op->tensor[i].name;
    return "nothing";
}
