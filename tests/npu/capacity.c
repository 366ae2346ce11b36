/* tg_ub_capacity_bits: the caller, then ASCEND_UB_CAPACITY_BITS, then CANN,
 * then the table of chips.
 *   npu_capacity CARDS       the library path has the libascendcl.so of ascendcl.c */
#include <tigon/npu.h>

#include "../common/test.h"

#define CHIPS "910B1, 910B2, 910B3, 910B4, 910C"
#define REGISTERS "is of architecture 3510, whose vector cores compute in registers"

static void expect(int64_t given, const char *soc, int64_t expected, const char *from)
{
    int64_t bits = 0;
    const char *source = "";
    EXPECT(tg_ub_capacity_bits(given, soc, &bits, &source) == TG_OK, "%s", tg_last_error());
    EXPECT(bits == expected, "%lld bits, expected %lld from %s", (long long)bits,
           (long long)expected, from);
    EXPECT(!strcmp(source, from), "from \"%s\", expected \"%s\"", source, from);
}

static void fail(int64_t given, const char *soc, tg_status status, const char *message)
{
    int64_t bits = 0;
    EXPECT(tg_ub_capacity_bits(given, soc, &bits, NULL) == status, "another status: %s", message);
    EXPECT(!strcmp(tg_last_error(), message), "%s; expected: %s", tg_last_error(), message);
}

static void environment(int64_t without, const char *from)
{
    static const struct {
        const char *text;
        int64_t bits; /* 0: ignored */
    } settings[] = {{"786432", 786432},
                    {" +786432\n", 786432},
                    {"1_572_864", 1572864},
                    {"1", 1},
                    {"0", 0},
                    {"-5", 0},
                    {"", 0},
                    {"12x", 0},
                    {"0x10", 0},
                    {"1.5", 0},
                    {"_1", 0},
                    {"1__0", 0},
                    {"1_", 0},
                    {"99999999999999999999", 0}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        setenv("ASCEND_UB_CAPACITY_BITS", settings[i].text, 1);
        if (settings[i].bits)
            expect(0, NULL, settings[i].bits, "ASCEND_UB_CAPACITY_BITS");
        else
            expect(0, NULL, without, from);
        expect(4096, NULL, 4096, "given");
    }
    unsetenv("ASCEND_UB_CAPACITY_BITS");
}

static void without_card(void)
{
    expect(0, NULL, 1572864, "the table of chips, 910B4");
    expect(0, "Ascend910B1", 1572864, "the table of chips, 910B1");
    setenv("TIGON_SOC", "910B3", 1);
    expect(0, NULL, 1572864, "the table of chips, 910B3");
    expect(0, "910b2", 1572864, "the table of chips, 910B2");
    expect(0, "Ascend910_9391", 1572864, "the table of chips, 910C");
    setenv("TIGON_SOC", "950", 1);
    fail(0, NULL, TG_ENOTFOUND,
         "TIGON_SOC is \"950\", which " REGISTERS ", expected one of " CHIPS);
    unsetenv("TIGON_SOC");
    fail(0, "910B", TG_ENOTFOUND, "soc is \"910B\", expected one of " CHIPS);
    fail(-1, NULL, TG_EINVAL, "explicit_bits is -1, expected 0 or more");
    environment(1572864, "the table of chips, 910B4");
}

static void with_card(void)
{
    setenv("CARD_UB", "262144", 1);
    setenv("CARD_NAME", "Ascend910B2", 1);
    expect(0, NULL, 2097152, "CANN");
    expect(0, "910B4", 2097152, "CANN"); /* the card is what will run it */
    environment(2097152, "CANN");
    static const char *const silent[] = {"-1", "0", "-7"};
    for (int i = 0; i < 3; i++) { /* then its name counts */
        setenv("CARD_UB", silent[i], 1);
        expect(0, "910B4", 1572864, "the table of chips, 910B2");
    }
    setenv("CARD_NAME", "Ascend950", 1);
    fail(0, NULL, TG_ENOTFOUND,
         "the card's name is \"Ascend950\", which " REGISTERS ", expected one of " CHIPS);
    unsetenv("CARD_NAME");
    expect(0, "910B3", 1572864, "the table of chips, 910B3");
}

static void chips(void)
{
    for (int i = 0; i < tg_npu_chip_count(); i++) {
        const tg_npu_chip *c = tg_npu_chip_at(i);
        EXPECT(tg_npu_chip_find(c->name) == c, "%s", c->name);
        EXPECT(c->vector_cores > 0 && c->ub_bytes == 196608 && c->clock_mhz >= 1500, "%s", c->name);
    }
    EXPECT(tg_npu_chip_count() == 5 && !tg_npu_chip_at(5) && !tg_npu_chip_at(-1), "chips");
    EXPECT(tg_npu_chip_find("Ascend910B4-1") == tg_npu_chip_find("910B4"), "910B4-1");
    EXPECT(!tg_npu_chip_find("910B41") && !tg_npu_chip_find("Ascend") && !tg_npu_chip_find(NULL),
           "none");
    EXPECT(tg_npu_chip_find("ascend910_9362") == tg_npu_chip_find("910C"), "an A3");
    EXPECT(tg_npu_chip_refused("Ascend950PR") && !strcmp(tg_npu_chip_refused("950"), REGISTERS) &&
               tg_npu_chip_refused("Ascend910_9579") && !tg_npu_chip_find("Ascend910_9579"),
           "chips of another architecture");
    EXPECT(!tg_npu_chip_refused("910B4") && !tg_npu_chip_refused("Ascend910_9391") &&
               !tg_npu_chip_refused("310P") && !tg_npu_chip_refused(NULL),
           "chips that are of the table, or unknown");
}

/* How the kernels were compiled: 8 KiB of UB are theirs or not. Other text says nothing. */
static void reserved(void)
{
    static const struct {
        const char *text;
        int64_t usable;
    } settings[] = {{"1", 188160}, {"0", 196352}, {"", 196352}, {"yes", 196352}, {"11", 196352}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        setenv("TIGON_ASCEND_RESERVED_UBUF", settings[i].text, 1);
        EXPECT(tg_ub_usable_bytes(1572864) == settings[i].usable, "%s: %lld", settings[i].text,
               (long long)tg_ub_usable_bytes(1572864));
    }
    setenv("TIGON_ASCEND_RESERVED_UBUF", "1", 1);
    EXPECT(tg_ub_usable_bytes(8 * 8448) == 0 && tg_ub_usable_bytes(8 * 8449) == 1, "at least 0");
    unsetenv("TIGON_ASCEND_RESERVED_UBUF");
    EXPECT(tg_ub_usable_bytes(1572864) == 196352, "as this build passes the option");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    setenv("CARDS", argv[1], 1);
    unsetenv("ASCEND_UB_CAPACITY_BITS");
    unsetenv("TIGON_SOC");
    unsetenv("TIGON_ASCEND_RESERVED_UBUF");
    if (atoi(argv[1]))
        with_card();
    else
        without_card();
    chips();
    reserved();
    return report();
}
