/* forget.c - stands before the model in a kernel's calls (LD_PRELOAD) and forgets one call that
 * synchronises, as if its line had been deleted: what tests do not notice they do not test.
 *
 *   MUTATE_FORGET=CALL  leaves that call out; CALL is FILE.H:LINE:NAME:PIPE:TARGET
 *   MUTATE_ALL=FILE     all calls, one after the other: where a call is about to be made for the
 *                       first time, a child of the process goes on without it until something fails
 *                       or all is done. A line of FILE for each, "CALL noticed" or "CALL
 *                       unnoticed"; those that are noticed there already are not asked about again.
 *
 * A child has but the thread that made it, so the model runs on one, and OMP_NUM_THREADS must be 1.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c_api/asc_calls.h"

enum { MOST = 4096, NAME = 200 };

typedef struct call {
    const asc_site *site;
    int pipe, target, forgotten;
} call;

static struct {
    call list[MOST];
    int count;
    char forgets[NAME]; /* the call that this process leaves out, in all copies of its line */
    pthread_mutex_t lock;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

ASC_CALL long sysconf(int name)
{
    static long (*next)(int);
    if (name == _SC_NPROCESSORS_ONLN && getenv("MUTATE_ALL"))
        return 1; /* of what the model takes its threads from */
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "sysconf");
    return next(name);
}

static void name_of(const call *c, char *text)
{
    static const char *const pipes[] = {
        [PIPE_S] = "S",       [PIPE_V] = "V", [PIPE_MTE2] = "MTE2", [PIPE_MTE3] = "MTE3",
        [PIPE_MTE1] = "MTE1", [PIPE_M] = "M", [PIPE_FIX] = "FIX",   [PIPE_ALL] = "ALL"};
    const char *slash = strrchr(c->site->file, '/');
    snprintf(text, NAME, "%s:%d:%s:%s:%s", slash ? slash + 1 : c->site->file, c->site->line,
             c->site->name, pipes[c->pipe], pipes[c->target]);
}

/* ---- all calls in turn ---- */

/* Another copy of the line, of another type of data, has been asked about. */
static int was_tried_as_another_type(const char *name)
{
    char other[NAME];
    for (int i = 0; i < seen.count - 1; i++) {
        name_of(&seen.list[i], other);
        if (!strcmp(name, other))
            return 1;
    }
    return 0;
}

/* The file says that the call was noticed. */
static int noticed(const char *path, const char *name)
{
    char line[2 * NAME];
    const size_t n = strlen(name);
    FILE *file = fopen(path, "r");
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file))
        found = !strncmp(line, name, n) && !strcmp(line + n, " noticed\n");
    if (file)
        fclose(file);
    return found;
}

static void answer(const char *path, const char *name, int failed)
{
    FILE *file = fopen(path, "a");
    if (!file || fprintf(file, "%s %s\n", name, failed ? "noticed" : "unnoticed") < 0 ||
        fclose(file))
        abort();
}

/* What the child says, until it has failed or ended. */
static int child_fails(pid_t child, int from)
{
    char text[8192];
    size_t used = 0;
    ssize_t n;
    int failed = 0, status = 0;
    while (!failed && (n = read(from, text + used, sizeof text - used - 1)) > 0) {
        text[used += (size_t)n] = '\0';
        failed = strstr(text, "FAILED") != NULL;
        if (used > sizeof text / 2) { /* the word may be cut */
            memmove(text, text + used - 8, 9);
            used = 8;
        }
    }
    if (failed)
        kill(child, SIGKILL);
    close(from);
    waitpid(child, &status, 0);
    return failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* A fork would lose what other threads are at. */
static void expect_one_thread(void)
{
    static pthread_t only;
    static int known;
    if (known && !pthread_equal(only, pthread_self())) {
        fputs("forget.c: the model runs on several threads, expected one\n", stderr);
        abort();
    }
    only = pthread_self();
    known = 1;
}

/* Returns in the child, which forgets the call, and in the parent when the child has ended. */
static void try_in_child(const char *path, const char *name)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends))
        abort();
    const pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        snprintf(seen.forgets, NAME, "%s", name);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        return;
    }
    close(ends[1]);
    answer(path, name, child_fails(child, ends[0]));
}

/* A call is about to be made for the first time: whether it is the one to be left out. */
static int begins_to_forget(const call *c)
{
    const char *wanted = getenv("MUTATE_FORGET"), *all = getenv("MUTATE_ALL");
    char name[NAME];
    name_of(c, name);
    if (!seen.forgets[0] && wanted)
        snprintf(seen.forgets, NAME, "%s", wanted);
    if (!seen.forgets[0] && all) {
        expect_one_thread();
        if (!was_tried_as_another_type(name) && !noticed(all, name))
            try_in_child(all, name);
    }
    return !strcmp(seen.forgets, name);
}

static int is_forgotten(const asc_site *site, int pipe, int target)
{
    pthread_mutex_lock(&seen.lock);
    int i = 0;
    while (i < seen.count && (seen.list[i].site != site || seen.list[i].pipe != pipe ||
                              seen.list[i].target != target))
        i++;
    if (i == MOST)
        abort();
    if (i == seen.count) {
        seen.list[seen.count++] = (call){site, pipe, target, 0};
        seen.list[i].forgotten = begins_to_forget(&seen.list[i]);
    }
    const int result = seen.list[i].forgotten;
    pthread_mutex_unlock(&seen.lock);
    return result;
}

/* ---- the calls ---- */

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
    if (!is_forgotten(site, pipe, target))
        next(site, op, pipe, target, event);
}

void asc_issue_barrier(const asc_site *site, pipe_t pipe)
{
    static __typeof__(&asc_issue_barrier) next;
    if (!next)
        *(void **)&next = model_function("asc_issue_barrier");
    if (!is_forgotten(site, pipe, pipe))
        next(site, pipe);
}
