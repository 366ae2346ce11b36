/* forget.c - stands before the model in a kernel's calls (LD_PRELOAD) and forgets one call that synchronises, as if its line
 * had been deleted: what tests do not notice they do not test. mutate.sh goes through all of them.
 *
 *   MUTATE_LIST=FILE    at exit, appends the calls that were made: FILE.H:LINE:NAME:PIPE:TARGET, one a line
 *   MUTATE_FORGET=CALL  leaves out every call that is named so
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c_api/asc_calls.h"

enum { MOST = 4096 };

typedef struct call {
    const asc_site *site;
    int pipe, target, forgotten;
} call;

static struct {
    call list[MOST];
    int count;
    pthread_mutex_t lock;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void name_of(const call *c, char *text, size_t size)
{
    static const char *const pipes[] = {"S", "V", "MTE2", "MTE3", "ALL"};
    const char *slash = strrchr(c->site->file, '/');
    snprintf(text, size, "%s:%d:%s:%s:%s", slash ? slash + 1 : c->site->file, c->site->line,
             c->site->name, pipes[c->pipe], pipes[c->target]);
}

static int forgotten(const asc_site *site, int pipe, int target)
{
    pthread_mutex_lock(&seen.lock);
    int i = 0;
    while (i < seen.count && (seen.list[i].site != site || seen.list[i].pipe != pipe ||
                              seen.list[i].target != target))
        i++;
    if (i == MOST) {
        fputs("forget.c: MOST calls and more\n", stderr);
        abort();
    }
    if (i == seen.count) {
        const char *wanted = getenv("MUTATE_FORGET");
        char name[512];
        call *new = &seen.list[seen.count++];
        *new = (call){site, pipe, target, 0};
        name_of(new, name, sizeof name);
        new->forgotten = wanted && !strcmp(wanted, name);
    }
    const int answer = seen.list[i].forgotten;
    pthread_mutex_unlock(&seen.lock);
    return answer;
}

static void *model_function(const char *name)
{
    void *library = dlopen("libascsim.so", RTLD_NOW | RTLD_NOLOAD);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        fprintf(stderr, "forget.c: %s\n", dlerror());
        abort();
    }
    return function;
}

void asc_issue_flag(const asc_site *site, asc_op op, pipe_t pipe, pipe_t target, int64_t event)
{
    static __typeof__(&asc_issue_flag) next;
    if (!next)
        *(void **)&next = model_function("asc_issue_flag");
    if (!forgotten(site, pipe, target))
        next(site, op, pipe, target, event);
}

void asc_issue_barrier(const asc_site *site, pipe_t pipe)
{
    static __typeof__(&asc_issue_barrier) next;
    if (!next)
        *(void **)&next = model_function("asc_issue_barrier");
    if (!forgotten(site, pipe, pipe))
        next(site, pipe);
}

__attribute__((destructor)) static void list(void)
{
    const char *path = getenv("MUTATE_LIST");
    FILE *file = path && seen.count ? fopen(path, "a") : NULL;
    char name[512];
    for (int i = 0; file && i < seen.count; i++) {
        name_of(&seen.list[i], name, sizeof name);
        fprintf(file, "%s\n", name);
    }
    if (file)
        fclose(file);
}
