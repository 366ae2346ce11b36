/* faults.c - runs the planted faults and their clean twins: faults PLANTED.so CLEAN.so SOURCE...
 *
 * The sources are the table: KERNEL(name), KERNEL_CUBE(name) or KERNEL_MIX(name), behind it perhaps
 * "blocks=PLANTED[,CLEAN]", or "launches=2" with x written anew between, and the lines marked FAULT
 * and OTHER. Of a planted one the model must
 * report that kind at that line with that other line, and nothing else; of its twin nothing; both
 * with every seed and any number of threads, and in the same words. Every kind that the model knows
 * is planted. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "ascsim.h"

enum { N = 16384 };

typedef struct plant {
    char name[64], kind[64];
    const char *file;
    int line, other; /* 0: none */
    long blocks[2];  /* planted, clean */
    int launches;
} plant;

static const struct {
    uint64_t seed;
    int threads;
} ways[] = {{0, 1}, {0, 3}, {1, 2}, {7, 2}, {1234567, 1}};

/* ---- one run ---- */

static ascsim *prepare(uint64_t seed, int threads, float *arrays[3])
{
    static const char *const names[] = {"x", "y", "z"};
    ascsim *device = ascsim_open(&(ascsim_options){
        .soc = "910B4", .seed = seed, .threads = threads, .timing = ASCSIM_TIME_NONE});
    for (int a = 0; device && a < 3; a++) {
        arrays[a] = ascsim_alloc(device, N * sizeof(float), names[a]);
        for (int i = 0; a < 2 && i < N; i++)
            arrays[a][i] = (float)(i % 13);
        if (a < 2)
            ascsim_written(device, arrays[a], N * sizeof(float));
    }
    return device;
}

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "";
}

static int at_line(const plant *p, const char *file, int line, int wanted)
{
    return line == wanted && !strcmp(base_name(file), wanted ? base_name(p->file) : "");
}

/* The model's word about one run is what the marks say. */
static int as_marked(const plant *p, const ascsim_fault *faults, int count)
{
    if (count != 1)
        return 0;
    const int anywhere = !strcmp(p->kind, "grid-limit"); /* of a launch: no line of the kernel */
    return !strcmp(faults->kind, p->kind) && strstr(faults->text, "found") &&
           strstr(faults->text, "expected") &&
           (anywhere || at_line(p, faults->file, faults->line, p->line)) &&
           at_line(p, faults->other_file, faults->other_line, p->other);
}

/* The report of the first way, which the others must repeat; NULL before it. */
static char *first_report;

static int as_before(ascsim *device)
{
    char *text = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes);
    ascsim_report_faults(device, memory);
    fclose(memory);
    if (!first_report) {
        first_report = text;
        return 1;
    }
    const int same = !strcmp(first_report, text);
    free(text);
    return same;
}

static int run(const plant *p, void *library, int planted, int way)
{
    float *arrays[3];
    ascsim *device = prepare(ways[way].seed, ways[way].threads, arrays);
    ascsim_kernel kernel = NULL;
    *(void **)&kernel = dlsym(library, p->name);
    if (!device || !kernel) {
        fprintf(stderr, "%s: %s\n", p->name, device ? "no such kernel" : ascsim_error());
        exit(2);
    }
    const ascsim_arg args[] = {ASCSIM_POINTER(arrays[0]), ASCSIM_POINTER(arrays[1]),
                               ASCSIM_POINTER(arrays[2])};
    int status = 0;
    for (int i = 0; i < p->launches; i++) {
        status |= ascsim_launch(device, p->name, kernel, p->blocks[!planted], args, 3);
        ascsim_written(device, arrays[0], N * sizeof(float));
    }
    const ascsim_fault *faults;
    const int count = ascsim_faults(device, &faults);
    const int marked = planted ? as_marked(p, faults, count) : count == 0 && status == 0;
    const int good = as_before(device) && marked;
    if (!good) {
        printf("\n%s, %s, seed %llu: expected %s at line %d, other %d; found %d:\n", p->name,
               planted ? "planted" : "clean", (unsigned long long)ways[way].seed,
               planted ? p->kind : "nothing", planted ? p->line : 0, planted ? p->other : 0, count);
        if (status)
            printf("%s\n", ascsim_error());
        ascsim_report_faults(device, stdout);
    }
    ascsim_close(device);
    return good;
}

/* ---- the table ---- */

static void read_line(plant *plants, int *count, const char *file, const char *text, int line)
{
    const char *name = strchr(text, '('), *fault = strstr(text, "// FAULT: ");
    if (name && strncmp(text, "KERNEL", 6) == 0) {
        plant *p = &plants[(*count)++];
        *p = (plant){.file = file, .blocks = {1, 1}, .launches = 1};
        sscanf(name, "(%63[^)]", p->name);
        const char *blocks = strstr(text, "blocks="), *launches = strstr(text, "launches=");
        if (launches)
            sscanf(launches, "launches=%d", &p->launches);
        if (blocks && sscanf(blocks, "blocks=%ld,%ld", &p->blocks[0], &p->blocks[1]) == 1)
            p->blocks[1] = p->blocks[0];
    }
    if (*count && fault) {
        sscanf(fault, "// FAULT: %63s", plants[*count - 1].kind);
        plants[*count - 1].line = line;
    }
    if (*count && strstr(text, "// OTHER"))
        plants[*count - 1].other = line;
}

static int read_source(plant *plants, int count, const char *path)
{
    char text[512];
    FILE *source = fopen(path, "r");
    if (!source) {
        perror(path);
        exit(2);
    }
    for (int line = 1; fgets(text, sizeof text, source); line++)
        read_line(plants, &count, path, text, line);
    fclose(source);
    return count;
}

static int all_ways(const plant *p, void *library, int planted)
{
    const int all = sizeof ways / sizeof *ways;
    const int count = p->blocks[0] > 10000 ? 2 : all; /* a large grid takes its time */
    int good = 0;
    for (int way = 0; way < count; way++)
        good += run(p, library, planted, way);
    free(first_report);
    first_report = NULL;
    return good == count;
}

static int never_planted(const plant *plants, int count)
{
    static const char *const kinds[] = {
#define SIM_FAULT(name, meaning) name,
#include "../../src/report/faults.inc"
#undef SIM_FAULT
    };
    int missing = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int i = 0;
        while (i < count && strcmp(plants[i].kind, kinds[k]))
            i++;
        if (i == count)
            printf("%s: no kernel plants it\n", kinds[k]);
        missing += i == count;
    }
    return missing;
}

int main(int argc, char **argv)
{
    enum { MOST = 400 };
    static plant plants[MOST];
    int count = 0, wrong = 0;
    void *planted = argc > 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *clean = argc > 3 ? dlopen(argv[2], RTLD_NOW) : NULL;
    if (!planted || !clean) {
        fprintf(stderr, "faults PLANTED.so CLEAN.so SOURCE...: %s\n", argc > 3 ? dlerror() : "");
        return 2;
    }
    for (int i = 3; i < argc; i++)
        count = read_source(plants, count, argv[i]);
    printf("%-26s %-22s %5s %5s  %-8s %s\n", "kernel", "fault", "line", "other", "planted",
           "clean");
    for (int i = 0; i < count; i++) {
        const plant *p = &plants[i];
        const int said = all_ways(p, planted, 1), silent = all_ways(p, clean, 0);
        printf("%-26s %-22s %5d %5d  %-8s %s\n", p->name, p->kind, p->line, p->other,
               said ? "reported" : "MISSED", silent ? "silent" : "NOISY");
        wrong += !said || !silent;
    }
    wrong += never_planted(plants, count);
    printf("%d planted faults with their twins, %d ways each: %d wrong\n", count,
           (int)(sizeof ways / sizeof *ways), wrong);
    return wrong != 0 || count < 40;
}
