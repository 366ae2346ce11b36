/* The stand-in notices what the run time forbids: each rule broken once, on purpose. */
#include <dlfcn.h>

#include "../common/test.h"

static void *library;

static void *function(const char *name)
{
    void *f = dlsym(library, name);
    if (!f)
        printf("the stand-in has no %s\n", name);
    return f;
}

/* How many lines of the record tell of a broken rule with this text. */
static int count_lines_with(const char *text)
{
    char line[4096];
    int n = 0;
    FILE *f = fopen(getenv("STAND_IN_RECORD"), "r");
    while (f && fgets(line, sizeof line, f))
        n += !strncmp(line, "VIOLATION", 9) && strstr(line, text);
    if (f)
        fclose(f);
    return n;
}

#define REFUSED(call, text)                                                                      \
    do {                                                                                         \
        const int before = count_lines_with(text);                                               \
        EXPECT((call) != 0 && count_lines_with(text) == before + 1, "\"%s\" is not told", text); \
    } while (0)

int main(void)
{
    remove(getenv("STAND_IN_RECORD"));
    library = dlopen("libascendcl.so", RTLD_NOW);
    int (*init)(const char *), (*set_device)(int), (*allocate)(void **, size_t, int);
    int (*release)(void *), (*copy)(void *, size_t, const void *, size_t, int);
    int (*get)(const void *, const char *, void **), (*begin)(void *, void **), (*finish)(void *);
    int (*append)(void *, void *, size_t, void **), (*load)(const char *, void *, void **);
    int (*launch)(void *, uint32_t, void *, void *, void *, void *), (*record)(void *, void *);
    *(void **)&init = function("aclInit");
    *(void **)&set_device = function("aclrtSetDevice");
    *(void **)&allocate = function("aclrtMalloc");
    *(void **)&release = function("aclrtFree");
    *(void **)&copy = function("aclrtMemcpy");
    *(void **)&get = function("aclrtBinaryGetFunction");
    *(void **)&begin = function("aclrtKernelArgsInit");
    *(void **)&append = function("aclrtKernelArgsAppend");
    *(void **)&finish = function("aclrtKernelArgsFinalize");
    *(void **)&launch = function("aclrtLaunchKernelWithConfig");
    *(void **)&load = function("aclrtBinaryLoadFromFile");
    *(void **)&record = function("aclrtRecordEvent");
    static char nothing[64];
    void *memory, *other, *kernel, *args, *parameter;
    uint64_t value = (uint64_t)1 << 60; /* no address of the device */

    REFUSED(set_device(0), "aclInit was not called");
    init(NULL);
    REFUSED(allocate(&memory, 64, 0), "no device is set");
    REFUSED(set_device(7), "there is no such device");
    set_device(0);
    REFUSED(allocate(&memory, 0, 0), "expected bytes");
    allocate(&memory, 64, 0);
    REFUSED(copy(memory, 64, nothing, 65, 1), "do not fit the kind of copy");
    REFUSED(copy(memory, 64, nothing, 64, 2), "do not fit the kind of copy");
    release(memory);
    REFUSED(release(memory), "was freed before");
    REFUSED(get(nothing, "k", &kernel), "the binary is not loaded");
    REFUSED(begin(nothing, &args), "an unknown function");
    REFUSED(load("/nonexistent", NULL, &other), "there is no such file");
    REFUSED(load(getenv("STAND_IN_RECORD"), NULL, &other), "the magic of the file's cores");
    REFUSED(record(nothing, NULL), "an unknown event");

    struct {
        int kind;
        uint32_t value[4];
    } magic = {2, {0x41415246u}};
    struct {
        void *list;
        size_t count;
    } options = {&magic, 1};
    load(getenv("STAND_IN_RECORD"), &options, &other);
    EXPECT(get(other, "k", &kernel) == 0 && begin(kernel, &args) == 0, "no arguments");
    REFUSED(append(args, &value, 4, &parameter), "not of 8 bytes");
    append(args, &value, 8, &parameter);
    REFUSED(launch(kernel, 1, NULL, NULL, args, NULL), "not final");
    finish(args);
    REFUSED(append(args, &value, 8, &parameter), "final or full");
    REFUSED(launch(kernel, 0, NULL, NULL, args, NULL), "blocks");
    REFUSED(launch(kernel, 65536, NULL, NULL, args, NULL), "blocks");
    REFUSED(launch(kernel, 1, NULL, NULL, args, NULL), "a pointer to no memory");
    return report();
}
