/* move.c - copies byte by byte against what their arguments say, atomic stores in the order of
 * blocks. */
#include "move.h"

#include <stdio.h>
#include <stdlib.h>

#include "ascsim.h"
#include "value.h"

void move_kernel(void); /* move_kernels.c */
void atomic_kernel(void);

enum { MOVES = 512, BLOCK = 32, POISON = 0x7b, BLOCKS = 24 };

static void choose(move *m)
{
    static const int elements[3] = {1, 2, 4};
    *m = (move){
        .out = random_below(2), .form = random_below(MOVE_FORMS), .n_burst = 1 + random_below(8)};
    const int within = m->form >= MOVE_WITHIN_SIZE,
              align = m->form == MOVE_ALIGN || m->form == MOVE_ALIGN_SIZE;
    m->out &= !within;
    m->element = elements[random_below(3)];
    m->size = (uint32_t)(within  ? BLOCK
                         : align ? m->element
                                 : 1) *
              (1 + (uint32_t)random_below(within ? 40 : 500));
    m->len_burst = align ? m->element * (1 + random_below(100)) : 1 + random_below(10);
    m->src_gap = random_below(4);
    m->dst_gap = random_below(4);
    m->ub = (uint32_t)(BLOCK * random_below(8));
    m->gm = (uint32_t)(within ? BLOCK * random_below(8) : m->element * random_below(100));
    if (m->form == MOVE_ALIGN && !m->out) {
        m->pad = 1 + random_below(100);
        m->left = random_below(1 + BLOCK / m->element);
        m->right = random_below(1 + BLOCK / m->element);
    }
}

static void put_pads(const move *m, uint8_t *to, int count)
{
    static const type_id types[5] = {0, T_int8_t, T_half, 0, T_float};
    for (int i = 0; i < count; i++)
        put_value(types[m->element], to + i * m->element, m->pad, RN, 1);
}

/* One piece; what it filled of UB, which is whole blocks. */
static int move_piece(const move *m, uint8_t *ub, uint8_t *there, int bytes)
{
    if (m->out) {
        memcpy(there, ub, (size_t)bytes);
        return (bytes + BLOCK - 1) / BLOCK * BLOCK;
    }
    const int left = m->left * m->element, right = m->right * m->element;
    put_pads(m, ub, m->left);
    memcpy(ub + left, there, (size_t)bytes);
    put_pads(m, ub + left + bytes, m->right);
    const int used = left + bytes + right, filled = (used + BLOCK - 1) / BLOCK * BLOCK;
    memset(ub + used, POISON, (size_t)(filled - used));
    return filled;
}

static void expect(const move *m, uint8_t *ub, uint8_t *gm)
{
    uint8_t *here = ub + m->ub, *there = (m->form >= MOVE_WITHIN_SIZE ? ub + UB_BYTES : gm) + m->gm;
    const int align = m->form == MOVE_ALIGN, in_gm = align ? 1 : BLOCK;
    switch (m->form) {
    case MOVE_SIZE:
    case MOVE_WITHIN_SIZE: /* whole blocks alone */
        move_piece(m, here, there, (int)m->size / BLOCK * BLOCK);
        return;
    case MOVE_ALIGN_SIZE:
        move_piece(m, here, there, (int)m->size);
        return;
    }
    const int bytes = m->len_burst * in_gm;
    for (int i = 0; i < m->n_burst; i++) {
        const int filled = move_piece(m, here, there, bytes);
        here += filled + (m->out ? m->src_gap : m->dst_gap) * BLOCK;
        there += bytes + (m->out ? m->dst_gap : m->src_gap) * in_gm;
    }
}

static int differs(const char *what, const move *m, const uint8_t *found, const uint8_t *expected,
                   int bytes)
{
    for (int at = 0; at < bytes; at++)
        if (found[at] != expected[at]) {
            printf("form %d out %d: %s[%d] is %02x, expected %02x (n_burst %d, len %d, size %u, "
                   "gaps %d %d)\n",
                   m->form, m->out, what, at, found[at], expected[at], m->n_burst, m->len_burst,
                   m->size, m->src_gap, m->dst_gap);
            return 1;
        }
    return 0;
}

static void *global(ascsim *device, size_t bytes, const char *name)
{
    uint8_t *memory = ascsim_alloc(device, bytes, name);
    if (!memory) {
        fprintf(stderr, "%s\n", ascsim_error());
        exit(1);
    }
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)random_bits();
    ascsim_written(device, memory, bytes);
    return memory;
}

static int test_moves(ascsim *device)
{
    move *moves = global(device, MOVES * sizeof *moves, "moves");
    uint8_t *before = global(device, MOVES * 2 * UB_BYTES, "before"),
            *gm = global(device, MOVES * GM_BYTES, "gm");
    uint8_t *after = global(device, MOVES * UB_BYTES, "after"),
            *expected = malloc(MOVES * GM_BYTES);
    memcpy(expected, gm, MOVES * GM_BYTES);
    for (int i = 0; i < MOVES; i++)
        choose(&moves[i]);
    const ascsim_arg args[] = {ASCSIM_POINTER(moves), ASCSIM_POINTER(before), ASCSIM_POINTER(gm),
                               ASCSIM_POINTER(after)};
    if (ascsim_launch(device, "moves", move_kernel, MOVES, args, 4)) {
        printf("%s\n", ascsim_error());
        return 1;
    }
    int wrong = 0;
    for (int i = 0; i < MOVES; i++) {
        expect(&moves[i], before + i * 2 * UB_BYTES, expected + i * GM_BYTES);
        wrong +=
            differs("ub", &moves[i], after + i * UB_BYTES, before + i * 2 * UB_BYTES, UB_BYTES);
        wrong += differs("gm", &moves[i], gm + i * GM_BYTES, expected + i * GM_BYTES, GM_BYTES);
    }
    free(expected);
    return wrong;
}

static void combine(int kind, type_id type, uint8_t *total, const uint8_t *row)
{
    for (int at = 0; at < ROW; at += size_of(type)) {
        const long double a = get_value(type, total + at), b = get_value(type, row + at);
        const long double result = kind == ATOMIC_ADD   ? a + b
                                   : kind == ATOMIC_MAX ? fmaxl(a, b)
                                                        : fminl(a, b);
        put_value(type, total + at, result, RN, 0);
    }
}

static int test_atomic(ascsim *device, int kind, int atomic, type_id type)
{
    uint8_t *rows = global(device, BLOCKS * ROW, "rows"), *total = global(device, ROW, "total"),
            *own = global(device, BLOCKS * ROW, "own");
    uint8_t expected[ROW];
    for (int at = 0; at < BLOCKS * ROW; at += size_of(type))
        put_value(type, rows + at, (random_below(2001) - 1000) * 0.125L, RN, 1);
    memcpy(total, rows, ROW);
    memcpy(expected, total, ROW);
    for (int i = 0; i < BLOCKS; i++)
        combine(kind, type, expected, rows + i * ROW);
    const ascsim_arg args[] = {ASCSIM_POINTER(rows), ASCSIM_POINTER(total), ASCSIM_POINTER(own),
                               ASCSIM_I32(kind), ASCSIM_I32(atomic)};
    int wrong = ascsim_launch(device, "atomic", atomic_kernel, BLOCKS, args, 5) != 0;
    for (int at = 0; at < ROW && !wrong; at += size_of(type))
        if (!same_value(type, total + at, expected + at, 0)) {
            printf("atomic %d of type %d: at %d %Lg, expected %Lg\n", kind, type, at,
                   get_value(type, total + at), get_value(type, expected + at));
            wrong = 1;
        }
    wrong |= memcmp(own, rows, BLOCKS * ROW) != 0;
    ascsim_free(device, rows);
    ascsim_free(device, total);
    ascsim_free(device, own);
    return wrong;
}

int main(int argc, char **argv)
{
    random_seed(argc > 1 ? strtoull(argv[1], NULL, 0) : 1);
    ascsim *device = ascsim_open(&(ascsim_options){.timing = ASCSIM_TIME_NONE});
    if (!device)
        return fprintf(stderr, "%s\n", ascsim_error()), 1;
    int wrong = test_moves(device);
    for (int kind = ATOMIC_ADD; kind <= ATOMIC_MIN; kind++) {
#define USE(name, T) wrong += test_atomic(device, kind, ATOMIC_##T, T_##T);
        ATOMIC_TYPES(USE)
    }
    /* A plain form that drops a tail is reported, and that padding is copied out to be looked at;
     * nothing else is. */
    const ascsim_fault *faults;
    const int count = ascsim_faults(device, &faults);
    int other = 0;
    for (int i = 0; i < count; i++)
        other += strcmp(faults[i].kind, "copy-truncated") && strcmp(faults[i].kind, "ub-padding");
    if (other)
        ascsim_report_faults(device, stdout);
    ascsim_close(device);
    printf("%d copies, 18 atomics, %d wrong, %d unexpected faults\n", MOVES, wrong, other);
    return wrong || other;
}
