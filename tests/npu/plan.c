/* The Unified Buffer's planner on problems whose plan is known, what it refuses, and
 * what a plan costs. */
#include <time.h>

#include <tigon/npu.h>

#include <tigon/npu.h>

#include "../common/test.h"

static const tg_ub_buffer norm_buffers[] = {
    {.name = "x", .bytes = TG_UB_DTYPE, .from = 0, .to = 2, .copies = 2},
    {.name = "x32", .bytes = 4, .from = 1, .to = 2, .when = TG_UB_16BIT},
    {.name = "squares", .bytes = 4, .from = 2, .to = 3},
    {.name = "y32", .bytes = 4, .from = 4, .to = 5},
    {.name = "rstd", .per = TG_UB_ROW, .bytes = 4, .from = 3, .to = 4},
    {.name = "weight", .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .when = TG_UB_OPTION(0)},
};
static const tg_ub_kernel norm = {.name = "norm.rows", .nbuffers = 6, .buffers = norm_buffers};

static tg_ub_problem of(int64_t rows, int64_t columns, int dtype_bytes)
{
    return (tg_ub_problem){.rows = rows,
                           .columns = columns,
                           .dtype_bytes = dtype_bytes,
                           .cores = 40,
                           .ub_bytes = tg_ub_usable_bytes(1572864)};
}

/* The reasons of a plan, in one text. */
static const char *reasons(const tg_ub_kernel *kernel, const tg_ub_problem *problem,
                           const tg_ub_layout *l)
{
    static char all[1024];
    char text[256];
    all[0] = 0;
    for (int i = 0; i < l->nwhys; i++) {
        tg_ub_reason(kernel, problem, l, i, text, sizeof text);
        strcat(strcat(all, text), "; ");
    }
    return all;
}

static void known(void)
{
    tg_ub_layout l;
    EXPECT(tg_ub_usable_bytes(1572864) == 196352 && tg_ub_usable_bytes(100) == 0, "usable");
    /* f32, 4096 columns: x twice and squares or y32, which share, 3 x 16 KiB a
     * row; rstd 32 bytes. */
    tg_ub_problem p = of(2048, 4096, 4);
    EXPECT(tg_ub_plan(&norm, &p, &l) == TG_OK, "%s", tg_last_error());
    EXPECT(l.tile_rows == 3 && l.tile_columns == 4096, "%lld x %lld", (long long)l.tile_rows,
           (long long)l.tile_columns);
    EXPECT(l.place[2].offset == l.place[3].offset, "squares and y32 do not share");
    EXPECT(!l.place[1].used && !l.place[5].used, "buffers of other problems are there");
    EXPECT(l.ub_bytes == 3 * 3 * 16384 + 32 && l.blocks == 40 && l.tasks == 683, "%lld bytes",
           (long long)l.ub_bytes);
    EXPECT(l.limiting == 0 && l.nsteps == 6, "limiting %d", l.limiting);
    EXPECT(strstr(reasons(&norm, &p, &l), "3 rows a tile: more do not fit"), "%s",
           reasons(&norm, &p, &l));
    EXPECT(strstr(reasons(&norm, &p, &l), "same memory"), "%s", reasons(&norm, &p, &l));
    p.options = TG_UB_OPTION(0);
    EXPECT(tg_ub_plan(&norm, &p, &l) == TG_OK && l.tile_rows == 3 && l.place[5].bytes == 16384,
           "with weight: %lld rows", (long long)l.tile_rows);
    p = of(2048, 4096, 2); /* x twice 2 bytes, x32 and squares 4: 12 bytes again */
    EXPECT(tg_ub_plan(&norm, &p, &l) == TG_OK && l.tile_rows == 3 && l.place[1].used, "bf16: %lld",
           (long long)l.tile_rows);

    p = of(7, 40000, 4); /* a row does not fit */
    EXPECT(tg_ub_plan(&norm, &p, &l) == TG_OK && l.tile_rows == 1 && l.column_tiles == 3 &&
               l.tile_columns == 13440 && l.tasks == 7 && l.blocks == 7,
           "%lld columns", (long long)l.tile_columns);
    EXPECT(strstr(reasons(&norm, &p, &l), "pieces of one row"), "%s", reasons(&norm, &p, &l));

    p = of(0, 4096, 4);
    EXPECT(tg_ub_plan(&norm, &p, &l) == TG_OK && l.blocks == 0 && l.tasks == 0, "no rows");
    p = of(5, 0, 4);
    EXPECT(tg_ub_plan(&norm, &p, &l) == TG_OK && l.blocks == 0, "no columns");
}

/* Elements that are independent: one row is shared by all cores, in tiles that overlap. */
static void flat(void)
{
    static const tg_ub_buffer buffers[] = {
        {.name = "a", .bytes = 4, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW},
        {.name = "b", .bytes = 4, .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH},
        {.name = "c", .bytes = 4, .from = 1, .to = 2, .copies = 2}};
    static const tg_ub_kernel kernel = {
        .name = "swiglu.flat", .nbuffers = 3, .buffers = buffers, .flat = 1, .column_multiple = 64};
    tg_ub_layout l;
    tg_ub_problem p = of(1, 16 << 20, 4);
    EXPECT(tg_ub_plan(&kernel, &p, &l) == TG_OK && l.blocks == 40 && l.tasks <= 53 * 40,
           "%lld blocks of %lld tasks", (long long)l.blocks, (long long)l.tasks);
    EXPECT(l.tile_columns % 128 == 0 && l.tile_columns > 7000, "%lld columns",
           (long long)l.tile_columns);
    EXPECT((l.place[0].offset - l.place[1].offset) % 512 != 0, "a and b in the same banks");
    p = of(1, 100000, 4); /* would fit thirteen blocks; goes to all */
    EXPECT(tg_ub_plan(&kernel, &p, &l) == TG_OK && l.blocks == 40, "%lld blocks",
           (long long)l.blocks);
    p = of(1, 100, 4); /* too little to share */
    EXPECT(tg_ub_plan(&kernel, &p, &l) == TG_OK && l.blocks == 1, "%lld blocks",
           (long long)l.blocks);
}

/* 48000 elements of four bytes, twice: what a compiler rejected with these very numbers. */
static void overflow(void)
{
    const tg_ub_buffer x = {.name = "x", .bytes = 4, .to = TG_UB_LAST, .copies = 2};
    const tg_ub_kernel kernel = {.name = "triton", .nbuffers = 1, .buffers = &x, .whole_rows = 1};
    tg_ub_problem p = of(1, 48000, 4);
    tg_ub_layout l;
    p.ub_bytes = 1572864 / 8;
    EXPECT(tg_ub_plan(&kernel, &p, &l) == TG_ENOMEM, "it fits");
    EXPECT(!strcmp(tg_last_error(),
                   "triton: the smallest tile, 1 x 48000, wants 3072000 bits of the UB, "
                   "1572864 available; most is for x: 192000 bytes, 2 of them"),
           "%s", tg_last_error());
    EXPECT(tg_ub_plan_tile(&kernel, &p, 1, 24576, &l) == TG_OK && l.ub_bytes == l.available, "%lld",
           (long long)l.ub_bytes);
}

static void refused(const tg_ub_kernel *kernel, const tg_ub_problem *problem, const char *message)
{
    tg_ub_layout l;
    EXPECT(tg_ub_plan(kernel, problem, &l) == TG_EINVAL, "accepted; expected: %s", message);
    EXPECT(!strcmp(tg_last_error(), message), "%s; expected: %s", tg_last_error(), message);
}

static void wrong(void)
{
    tg_ub_buffer b = {.name = "x", .align = 24};
    tg_ub_kernel k = {.name = "k", .nbuffers = 1, .buffers = &b};
    tg_ub_problem p = of(4, 4, 4);
    refused(&k, &p, "k: x: align is 24, expected a power of two");
    b = (tg_ub_buffer){.name = "x", .from = 3, .to = 2};
    refused(&k, &p, "k: x: to is 2, expected 3 ... 31");
    b = (tg_ub_buffer){.name = "x", .per = TG_UB_ROW, .every = 8};
    refused(&k, &p, "k: x: every is 8, expected 0: it is of elements and columns alone");
    b = (tg_ub_buffer){.name = "x", .bank = TG_UB_BANK_HIGH, .align = 512};
    refused(&k, &p, "k: x: align is 512, expected at most 256 with TG_UB_BANK_HIGH");
    b = (tg_ub_buffer){.name = "x"};
    p.cores = 0;
    refused(&k, &p, "k: cores is 0, expected 1 ... 65535");
    p = of(4, -1, 4);
    refused(&k, &p, "k: columns is -1, expected 0 ... 1099511627776");
    p = of(4, 4, 8);
    refused(&k, &p, "k: dtype_bytes is 8, expected 2 or 4");
    p = of(4, 4, 4);
    p.options = 1;
    refused(&k, &p, "k: options is 0x1, expected bits of TG_UB_OPTION alone");
    p.options = 0;
    k.max_columns = 4;
    refused(&k, &p, "k: max_columns is 4, expected at least 8, a step of columns");
    k.max_columns = 8;
    k.whole_rows = 1;
    p.columns = 9;
    refused(&k, &p, "k: columns is 9, expected at most 8, in a row that is not cut");
    k.nbuffers = 33;
    refused(&k, &p, "k: nbuffers is 33, expected 1 ... 32");
}

static void speed(void)
{
    struct timespec begin, end;
    tg_ub_problem p = of(2048, 4096, 2);
    tg_ub_layout l;
    enum { TIMES = 20000 };
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (int i = 0; i < TIMES; i++) {
        p.rows = 1000 + i;
        tg_ub_plan(&norm, &p, &l);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    printf("%.2f us a plan\n", ((double)(end.tv_sec - begin.tv_sec) * 1e6 +
                                (double)(end.tv_nsec - begin.tv_nsec) / 1e3) /
                                   TIMES);
}

int main(void)
{
    known();
    flat();
    overflow();
    wrong();
    speed();
    return report();
}
