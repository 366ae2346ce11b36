/* flash_sequence.h - a sequence of attention, for its kernels and their host. */
#ifndef FLASH_SEQUENCE_H
#define FLASH_SEQUENCE_H

#include <stdint.h>

#ifndef FLASH_CODE
#define FLASH_CODE static inline
#endif

/* Rows that see each other, up to their ends: of a batch or, where rows are packed, between two
 * boundaries. Query i sees the keys from i + lo up to i + hi, i + hi itself not. */
typedef struct flash_sequence {
    int64_t batch, query, query_end, key, key_end, lo, hi;
} flash_sequence;

/* Of a sequence the queries that see a key, and the keys that are seen: the last ones of both. */
FLASH_CODE flash_sequence flash_seeing(flash_sequence s)
{
    const int64_t query = s.key < s.key_end ? s.key - s.hi + 1 : s.query_end;
    if (query > s.query)
        s.query = query < s.query_end ? query : s.query_end;
    const int64_t key = s.query < s.query_end ? s.query + s.lo : s.key_end;
    if (key > s.key)
        s.key = key < s.key_end ? key : s.key_end;
    return s;
}

#endif
