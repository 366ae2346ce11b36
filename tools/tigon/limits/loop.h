/* tools/tigon/limits/loop.h - the plain loops of memory.c, included once per instruction set.
 * LOOP(name) gives the name, LINE the vector type, STREAM(p, v) the streaming store.
 */

/* Vector by vector through equal streams: w_j[i] = r_0[i] ^ r_1[i] ^ ... */
static inline LOOP_TARGET __attribute__((always_inline)) void
LOOP(together)(const loop_args *a, int nr, int nw, int stream)
{
    const int64_t n = a->bytes / (int64_t)sizeof(LINE);
    const LINE *r[MEMORY_STREAMS];
    LINE *w[MEMORY_STREAMS];
    for (int j = 0; j < nr; j++)
        r[j] = (const LINE *)a->r[j];
    for (int j = 0; j < nw; j++)
        w[j] = (LINE *)a->w[j];
    LINE sum = {0}, other = {0};
    int64_t i = 0;
    for (; i + 1 < n; i += 2) {
        LINE v = {0}, u = {0};
        for (int j = 0; j < nr; j++) {
            v ^= r[j][i];
            u ^= r[j][i + 1];
        }
        for (int j = 0; j < nw; j++) {
            if (stream) {
                STREAM(&w[j][i], v);
                STREAM(&w[j][i + 1], u);
            } else {
                w[j][i] = v;
                w[j][i + 1] = u;
            }
        }
        if (!nw) {
            sum ^= v;
            other ^= u;
        }
    }
    for (; i < n; i++) {
        LINE v = {0};
        for (int j = 0; j < nr; j++)
            v ^= r[j][i];
        for (int j = 0; j < nw; j++)
            w[j][i] = v;
        sum ^= v;
    }
    sum ^= other;
    __asm__ volatile("" : : "m"(sum));
}

/* Stream by stream, first the reads and then the writes. */
static inline LOOP_TARGET __attribute__((always_inline)) void
LOOP(apart)(const loop_args *a, int nr, int nw, int stream)
{
    LINE part[4] = {{0}};
    const int64_t n = a->bytes / (int64_t)sizeof(LINE);
    for (int j = 0; j < nr; j++) {
        const LINE *r = (const LINE *)a->r[j];
        int64_t i = 0;
        for (; i + 3 < n; i += 4)
            for (int k = 0; k < 4; k++)
                part[k] ^= r[i + k];
        for (; i < n; i++)
            part[0] ^= r[i];
    }
    const LINE sum = part[0] ^ part[1] ^ part[2] ^ part[3];
    __asm__ volatile("" : : "m"(sum));
    for (int j = 0; j < nw; j++) {
        LINE *w = (LINE *)a->w[j];
        if (stream)
            for (int64_t i = 0; i < n; i++)
                STREAM(&w[i], sum);
        else
            for (int64_t i = 0; i < n; i++)
                w[i] = sum;
    }
}

#define LOOP_CASE(nr, nw)                 \
    case (nr)*8 + (nw):                   \
        if (stream)                       \
            LOOP(together)(a, nr, nw, 1); \
        else                              \
            LOOP(together)(a, nr, nw, 0); \
        break;

static LOOP_TARGET void LOOP(move)(const loop_args *a, int apart, int stream)
{
    if (apart) {
        if (stream)
            LOOP(apart)(a, a->reads, a->writes, 1);
        else
            LOOP(apart)(a, a->reads, a->writes, 0);
        return;
    }
    switch (a->reads * 8 + a->writes) {
        LOOP_CASE(0, 1)
        LOOP_CASE(1, 0)
        LOOP_CASE(1, 1)
        LOOP_CASE(1, 2)
        LOOP_CASE(2, 0)
        LOOP_CASE(2, 1)
        LOOP_CASE(2, 2)
        LOOP_CASE(3, 1)
        LOOP_CASE(3, 2)
        LOOP_CASE(3, 3)
        LOOP_CASE(4, 1)
        LOOP_CASE(4, 3)
        LOOP_CASE(4, 4)
    default:
        LOOP(together)(a, a->reads, a->writes, stream);
    }
}
#undef LOOP_CASE
#undef LOOP
#undef LINE
#undef STREAM
#undef LOOP_TARGET
