/* unit.c - the parts of the cost model alone: banks, L2, queues and flags, shared memory. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "time/play.h"

/* ---- banks: the eight scenarios that Ascend C's examples publish, cycles beyond 64 repeats
 * ---- */

static void test_banks(void)
{
    static const struct {
        uint32_t src0, src1, dst;
        int block, repeat, extra;
    } scenarios[] = {{0, 0x10100, 0x20000, 32, 256, 0},  {0, 0x4000, 0x10000, 32, 256, 64},
                     {0, 0x10000, 0x14100, 32, 256, 64}, {0, 0x10100, 0x4000, 32, 256, 0},
                     {0, 0x10100, 0x4020, 32, 256, 49},  {0, 0x10100, 0x10100, 32, 256, 0},
                     {0, 0x10100, 0x10100, 0, 32, 43},   {0, 0x10100, 0x10100, 0, 256, 0}};
    time_banks *banks = sim_banks_new();
    for (int i = 0; i < 8; i++) {
        time_pattern pattern;
        memset(&pattern, 0, sizeof pattern);
        pattern.access[0] = (time_access){scenarios[i].dst, 256, 32, 8, SIM_WRITE};
        pattern.access[1] =
            (time_access){scenarios[i].src0, scenarios[i].repeat, scenarios[i].block, 8, SIM_READ};
        pattern.access[2] = (time_access){scenarios[i].src1, 256, 32, 8, SIM_READ};
        pattern.count = 3;
        pattern.repeats = 64;
        pattern.per_repeat = 1;
        pattern.distance = 15;
        const time_conflict conflict = sim_banks_cycles(banks, &pattern);
        const time_conflict again = sim_banks_cycles(banks, &pattern);
        CHECK((int)conflict.cycles == 64 + scenarios[i].extra, "scenario %d: %u cycles", i + 1,
              conflict.cycles);
        CHECK(memcmp(&conflict, &again, sizeof again) == 0, "scenario %d: remembered otherwise",
              i + 1);
        CHECK((int)(conflict.group + conflict.bank) == scenarios[i].extra, "scenario %d: %u + %u",
              i + 1, conflict.group, conflict.bank);
        CHECK(i == 4 ? conflict.bank > conflict.group : conflict.bank == 0 || i == 6,
              "scenario %d: group %u, bank %u", i + 1, conflict.group, conflict.bank);
    }
    /* Eight results in one group; two cycles of arithmetic hide a conflict of two. */
    time_pattern pattern;
    memset(&pattern, 0, sizeof pattern);
    pattern.access[0] = (time_access){0x10000, 32, 144 * 32, 8, SIM_WRITE};
    pattern.access[1] = (time_access){0, 256, 32, 8, SIM_READ};
    pattern.count = 2;
    pattern.repeats = 100;
    pattern.per_repeat = 1;
    pattern.distance = 15;
    CHECK(sim_banks_cycles(banks, &pattern).cycles == 800, "%u",
          sim_banks_cycles(banks, &pattern).cycles);
    pattern.access[0].block_stride = 145 * 32;
    CHECK(sim_banks_cycles(banks, &pattern).cycles <= 110, "%u",
          sim_banks_cycles(banks, &pattern).cycles);
    pattern.access[0] = (time_access){0x20000, 256, 32, 8, SIM_WRITE};
    pattern.access[2] = (time_access){0x10000, 256, 32, 8, SIM_READ};
    pattern.count = 3;
    pattern.per_repeat = 2;
    CHECK(sim_banks_cycles(banks, &pattern).cycles == 200, "%u",
          sim_banks_cycles(banks, &pattern).cycles);
    sim_banks_free(banks);
}

/* ---- L2 ---- */

static void test_l2(void)
{
    time_l2 *l2 = sim_l2_new(16, 128); /* four places of 512 B */
    time_use use = {0};
    sim_l2_touch(l2, 0, 1024, TIME_READS, &use); /* places 0, 1 */
    CHECK(use.lines == 8 && use.hits == 0 && use.fetched == 1024 && use.evicted == 0, "%u",
          use.fetched);
    sim_l2_touch(l2, 1024, 768, TIME_WRITES,
                 &use); /* 2 and a half of 3: nothing is fetched for a write */
    CHECK(use.lines == 14 && use.fetched == 1024 && use.evicted == 0, "%u", use.evicted);
    use = (time_use){0};
    sim_l2_touch(l2, 500, 24, TIME_READS, &use); /* across 0 and 1: now the newest */
    CHECK(use.lines == 2 && use.hits == 2 && use.fetched + use.evicted == 0, "%u", use.hits);
    sim_l2_touch(l2, 4096, 128, TIME_READS, &use); /* takes the place of 2, which is dirty */
    CHECK(use.hits == 2 && use.fetched == 128 && use.evicted == 512, "%u", use.evicted);
    use = (time_use){0};
    sim_l2_touch(l2, 4096, 512, TIME_READS, &use); /* one line of it is there */
    CHECK(use.hits == 1 && use.fetched == 384 && use.evicted == 0, "%u", use.fetched);
    use = (time_use){0};
    sim_l2_touch(l2, 1024, 512, TIME_READS,
                 &use); /* 2 has gone; takes the place of 3, half dirty */
    CHECK(use.hits == 0 && use.fetched == 512 && use.evicted == 256, "%u", use.evicted);
    use = (time_use){0};
    sim_l2_touch(l2, 0, 512, TIME_READS, &use);
    CHECK(use.hits == 4, "least recently used goes first");
    use = (time_use){0};
    for (int i = 0; i < 2; i++) {
        sim_l2_touch(l2, 1 << 20, 512, TIME_STREAMS, &use);
    }
    CHECK(use.hits == 0 && use.fetched == 1024 && use.evicted == 0,
          "what streams leaves nothing behind");
    sim_l2_touch(l2, 0, 2048, TIME_WRITES, &use);
    sim_l2_settle(l2);
    use = (time_use){0};
    sim_l2_touch(l2, 0, 512, TIME_READS, &use);
    sim_l2_touch(l2, 1 << 20, 2048, TIME_READS, &use);
    CHECK(use.hits == 4 && use.evicted == 0, "a launch finds what is there, and nothing dirty: %u",
          use.evicted);
    sim_l2_free(l2);
}

/* ---- plays of programs made by hand ---- */

enum { MOST = 64 };

typedef struct script {
    time_record record[MOST];
    int count, copies;
    asc_site site;
} script;

static time_record *add(script *to, sim_kind kind, int pipe)
{
    time_record *record = &to->record[to->count++];
    *record =
        (time_record){.site = &to->site, .kind = (uint8_t)kind, .pipe = (uint8_t)pipe, .scalar = 1};
    return record;
}

static void vector(script *to, int startup, int busy)
{
    time_record *record = add(to, SIM_COMPUTE, ASCSIM_V);
    record->startup = (uint32_t)startup;
    record->busy = (uint32_t)busy;
}

static void flag(script *to, sim_kind kind, int pipe, int target, int event)
{
    time_record *record = add(to, kind, pipe);
    record->target = (uint8_t)target;
    record->event = (uint8_t)event;
}

static void copy(script *to, int pipe, uint32_t bytes)
{
    time_record *record = add(to, SIM_COPY, pipe);
    record->busy = 21;
    record->copy.bursts = 1;
    record->copy.length = bytes;
    to->copies++;
}

static time_chip chip;
static uint64_t apart = (uint64_t)MOST << 20; /* the memory of two blocks */

/* Units of a grid, of which the cube cores run one program and the vector cores another. */
static double play_grid(const script *cube, const script *vector, sim_grid grid, int units,
                        int pessimistic, time_stats *stats)
{
    const script *scripts[] = {vector, cube};
    time_record records[2][MOST];
    time_program program[2];
    for (int kind = 0; kind < 2; kind++) {
        memcpy(records[kind], scripts[kind]->record, sizeof records[kind]);
        program[kind] =
            (time_program){records[kind], scripts[kind]->count, scripts[kind]->copies, 0};
    }
    time_block *block = calloc((size_t)units, sizeof *block);
    for (int i = 0; i < units; i++) {
        const script *script = scripts[sim_is_cube(grid, i)];
        block[i].program = &program[sim_is_cube(grid, i)];
        block[i].address = calloc(MOST, sizeof *block->address);
        block[i].use = calloc(MOST, sizeof *block->use);
        for (int k = 0; k < script->copies; k++) {
            block[i].address[k] = (uint64_t)i * apart + ((uint64_t)k << 20);
        }
    }
    time_l2 *l2 = sim_l2_new(400000, 128);
    const double cycles = sim_time_play(&chip, block, units, grid, pessimistic, l2, stats, NULL);
    sim_l2_free(l2);
    for (int i = 0; i < units; i++) {
        free(block[i].address);
        free(block[i].use);
    }
    free(block);
    return cycles;
}

static double play(const script *script, int blocks, int pessimistic, time_stats *stats)
{
    return play_grid(script, script, (sim_grid){0, 1, 0}, blocks, pessimistic, stats);
}

static void near(const char *what, double found, double expected, double part)
{
    CHECK(fabs(found - expected) <= part * expected + 1e-6, "%s: %.1f, expected %.1f", what, found,
          expected);
}

static void test_vector_queue(void)
{
    static time_stats stats[64];
    script a = {.site = {"t.c", 1, "asc_add"}};
    for (int i = 0; i < 10; i++) {
        vector(&a, 22, 64);
    }
    near("independent, optimistic", play(&a, 1, 0, stats), 1 + 10 * 64 + 22, 0);
    near("independent, pessimistic", play(&a, 1, 1, stats), 1 + 10 * 86, 0);
    near("busy", stats[0].busy[ASCSIM_V], 860, 0);
    script b = {.site = {"t.c", 1, "asc_add"}};
    for (int i = 0; i < 10; i++) {
        vector(&b, 22, 64);
        add(&b, SIM_BARRIER, ASCSIM_V);
    }
    near("dependent", play(&b, 1, 0, stats), 1 + 10 * 86, 0);
    near("blocks after each other on a core", play(&b, (int)chip.vector_cores + 1, 0, stats),
         2 * (1 + 10 * 86), 0);
    /* A queue of 64: S cannot run ahead of it. */
    script c = {.site = {"t.c", 1, "asc_add"}};
    for (int i = 0; i < 63; i++) {
        vector(&c, 0, 1000);
    }
    chip.vector_queue = 4;
    play(&c, 1, 0, stats);
    near("S waits for a place", stats[0].full_queue, 1 + 58 * 1000 - 63, 0.001);
    sim_time_chip(&chip, "910B1");
}

static void test_flags(void)
{
    time_stats stats[1];
    script a = {.site = {"t.c", 1, "asc_sync_notify"}};
    vector(&a, 22, 100);
    flag(&a, SIM_SET, ASCSIM_V, ASCSIM_S, 0);
    flag(&a, SIM_WAIT, ASCSIM_V, ASCSIM_S, 0);
    near("V to S", play(&a, 1, 0, stats), 1 + 122 + chip.flag_latency, 0);
    near("S waited", stats[0].wait[ASCSIM_S], 1 + 122 + chip.flag_latency - 3, 0);
    flag(&a, SIM_WAIT, ASCSIM_MTE2, ASCSIM_V, 0);
    vector(&a, 22, 100);
    near("a flag that nobody sets ends the block", play(&a, 1, 0, stats),
         1 + 122 + chip.flag_latency + 2, 0);
    /* MTE2 sets a flag twice while V is busy before its first wait. */
    script twice = {.site = {"t.c", 1, "asc_sync_notify"}};
    vector(&twice, 22, 10000);
    for (int i = 0; i < 2; i++) {
        flag(&twice, SIM_SET, ASCSIM_MTE2, ASCSIM_V, 0);
        flag(&twice, SIM_WAIT, ASCSIM_MTE2, ASCSIM_V, 0);
        vector(&twice, 22, 100);
    }
    CHECK(play(&twice, 1, 0, stats) > 10200 && stats[0].vector_instructions == 3,
          "%d of 3 instructions of V ran", (int)stats[0].vector_instructions);
    script b = {.site = {"t.c", 1, "asc_sync_pipe"}};
    copy(&b, ASCSIM_MTE2, 8192);
    vector(&b, 22, 100);
    add(&b, SIM_BARRIER, ASCSIM_PIPES);
    near("barrier of all pipes", play(&b, 1, 0, stats),
         1 + chip.read_hbm_latency + 8192 / chip.read_hbm_bytes_per_cycle + chip.all_barrier,
         0.001);
}

static void test_memory(void)
{
    time_stats stats[64];
    script a = {.site = {"t.c", 1, "asc_copy_gm2ub"}};
    copy(&a, ASCSIM_MTE2, 8192);
    copy(&a, ASCSIM_MTE2, 8192);
    flag(&a, SIM_SET, ASCSIM_MTE2, ASCSIM_V, 0);
    flag(&a, SIM_WAIT, ASCSIM_MTE2, ASCSIM_V, 0);
    const double alone = 1 + chip.read_hbm_latency + 16384 / chip.read_hbm_bytes_per_cycle;
    near("two copies: the latency once", play(&a, 1, 0, stats), alone + chip.flag_latency, 0.001);
    const double together = play(&a, 48, 0, stats);
    near("48 cores share HBM", together,
         1 + chip.read_hbm_latency + 48 * 16384 / chip.hbm_bytes_per_second + chip.flag_latency,
         0.01);
    near("bytes", (double)stats[47].bytes[0], 16384, 0);
    script b = {.site = {"t.c", 1, "asc_copy_ub2gm"}};
    copy(&b, ASCSIM_MTE3, 28000);
    near("out", play(&b, 1, 0, stats), 1 + chip.write_latency + 28000 / chip.write_bytes_per_cycle,
         0.001);
    near("48 cores share L2", play(&b, 48, 0, stats),
         1 + chip.write_latency + 48 * 28000 / chip.l2_write_bytes_per_second, 0.01);
    script out = {.site = {"t.c", 1, "asc_copy_l0c2gm"}};
    copy(&out, ASCSIM_FIX, 28000);
    out.record[0].copy.least = 28000 / chip.fix_bytes_per_cycle;
    near("copies out of L0C share L2 at a rate of their own", play(&out, 48, 0, stats),
         1 + chip.write_latency + 48 * 28000 / chip.l2_fix_bytes_per_second, 0.01);
    time_stats mixed[72];
    near("cube cores leave vector cores their way to L2",
         play_grid(&out, &b, (sim_grid){1, 2, 1}, 72, 0, mixed),
         1 + chip.write_latency + 48 * 28000 / chip.l2_write_bytes_per_second, 0.01);
    near("and the other way round", mixed[0].busy[ASCSIM_FIX], 28000 / chip.fix_bytes_per_cycle,
         0.01);
    script c = a;
    copy(&c, ASCSIM_MTE3, 8192);
    CHECK(play(&c, 48, 0, stats) >= together, "reads and writes contend");
    time_stats again[64];
    play(&c, 48, 0, again);
    CHECK(memcmp(stats, again, sizeof again[0] * 48) == 0, "a play is repeatable");
    script d = {.site = {"t.c", 1, "asc_copy_gm2ub"}};
    copy(&d, ASCSIM_MTE2, 16384);
    copy(&d, ASCSIM_MTE3, 28000);
    play(&d, 48, 0, stats);
    near("writes that L2 takes do not hold up what HBM brings", stats[0].busy[ASCSIM_MTE2],
         chip.read_hbm_latency + 48 * 16384 / chip.hbm_bytes_per_second, 0.01);
    const uint64_t usual = apart;
    apart += 64;
    play(&b, 2, 0, stats);
    CHECK(stats[1].hbm_bytes[0] == 0, "a write that begins anywhere brings nothing");
    play(&a, 2, 0, stats);
    CHECK(stats[1].hbm_bytes[0] > 2 * 8192, "a read that begins anywhere does");
    apart = usual;
}

/* Rows of 1024 B, 128 B of each: what the 48 cores read begins a given way apart. */
static void test_same_lines(void)
{
    static const struct {
        const char *what;
        uint64_t apart;
        int group; /* cores whose copies have lines in common */
    } cases[] = {{"the same bytes past L2", 0, 48},
                 {"bytes of the same lines past L2", 128, 24},
                 {"either half of rows past L2", 512, 24},
                 {"lines of one's own past L2", 1 << 20, 1}};
    enum { BURSTS = 128, LENGTH = 128 };
    const uint64_t usual = apart;
    time_stats stats[64];
    script a = {.site = {"t.c", 1, "asc_copy_gm2ub"}};
    copy(&a, ASCSIM_MTE2, LENGTH);
    a.record[0].copy.bursts = BURSTS;
    a.record[0].copy.stride = 1024;
    for (int i = 0; i < 4; i++) {
        const double lines = cases[i].group * BURSTS / chip.same_line_requests_per_cycle,
                     hbm = 48 * BURSTS * LENGTH / chip.hbm_bytes_per_second;
        apart = cases[i].apart;
        a.record[0].streams = 1;
        near(cases[i].what, play(&a, 48, 0, stats),
             1 + chip.read_hbm_latency + (lines > hbm ? lines : hbm), 0.001);
        near("one core", play(&a, 1, 0, stats),
             1 + chip.read_hbm_latency + BURSTS * LENGTH / chip.read_hbm_bytes_per_cycle, 0.001);
    }
    apart = 0;
    a.record[0].streams = 0;
    const double kept = play(&a, 48, 0, stats);
    CHECK(kept < 1000, "what L2 keeps is not fetched again: %.1f", kept);
    /* Groups end, others begin: the next copies have memory of their own. */
    script b = a;
    b.record[0].streams = 1;
    b.record[0].busy = 1;
    b.record[1] = b.record[0];
    b.count = b.copies = 2;
    near("one group after the other", play(&b, 48, 0, stats),
         1 + chip.read_hbm_latency + 2 * 48 * BURSTS / chip.same_line_requests_per_cycle, 0.01);
    apart = usual;
}

int sim_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    return -1;
}

/* One tile of L0C, handed from mmad to the copy out and back by its unit flag: no copy takes what
 * another one is still taking, and every product is made. */
static void test_unit_flag(void)
{
    enum { TIMES = 3, OUT = 5000, IN = 1 << 20 };
    script s = {.site = {"t.c", 1, "asc_mmad"}};
    time_stats stats[1];
    for (int i = 0; i < TIMES; i++) {
        if (i == 1) { /* it comes late */
            copy(&s, ASCSIM_MTE2, IN);
            flag(&s, SIM_SET, ASCSIM_MTE2, ASCSIM_M, 0);
            flag(&s, SIM_WAIT, ASCSIM_MTE2, ASCSIM_M, 0);
        }
        add(&s, SIM_COMPUTE, ASCSIM_M)->unit_flag = 3;
        copy(&s, ASCSIM_FIX, 28000);
        s.record[s.count - 1].unit_flag = 3;
        s.record[s.count - 1].copy.least = OUT;
    }
    const double least = IN / chip.read_hbm_bytes_per_cycle + (TIMES - 1) * OUT;
    const double took = play(&s, 1, 0, stats);
    CHECK(took >= least, "%.1f cycles, expected at least %.1f", took, least);
}

int main(void)
{
    sim_time_chip(&chip, "910B1");
    test_banks();
    test_l2();
    test_vector_queue();
    test_flags();
    test_memory();
    test_same_lines();
    test_unit_flag();
    printf("%s\n", failures ? "FAILED" : "time: all as expected");
    return failures != 0;
}
