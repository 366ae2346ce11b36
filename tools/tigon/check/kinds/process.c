/* tools/tigon/check/kinds/process.c - what belongs to the process and its threads, and a call
 * must leave as it was. */
#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kinds.h"

enum { SIGNALS = 65, TEXT = 1024 };

struct process_state {
    fenv_t modes;
    sigset_t mask;
    struct sigaction action[SIGNALS];
    struct itimerval timer[3];
    cpu_set_t processors;
    mode_t umask;
    int nice, openmp;
    char folder[TEXT], locale[TEXT], thread[16], **environment;
    int output, outputs[2]; /* a file in the place of stdout and stderr, and those themselves */
};

extern char **environ;

/* ---- parts ---- */

/* Of the floating-point environment the modes alone: the flags of what has
 * happened are nobody's. */
static int modes_differ(const fenv_t *a, const fenv_t *b)
{
#if defined(__x86_64__)
    enum { FLAGS = 0x3f };
    return (a->__mxcsr & ~FLAGS) != (b->__mxcsr & ~FLAGS) || a->__control_word != b->__control_word;
#elif defined(__aarch64__)
    return a->__fpcr != b->__fpcr;
#else
    (void)a, (void)b;
    return 0;
#endif
}

/* The OpenMP that the library brought along, if it did. */
static int openmp_threads(void)
{
    int (*get)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    return get ? get() : 0;
}

static void set_openmp_threads(int n)
{
    void (*set)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (set && n)
        set(n);
}

static mode_t umask_now(void)
{
    const mode_t mask = umask(0);
    umask(mask);
    return mask;
}

static char **copy_environment(void)
{
    int n = 0;
    while (environ && environ[n])
        n++;
    char **copy = calloc((size_t)n + 1, sizeof *copy);
    for (int i = 0; copy && i < n; i++)
        copy[i] = strdup(environ[i]);
    return copy;
}

static int environment_differs(char **saved)
{
    int i = 0;
    while (saved[i] && environ && environ[i] && !strcmp(saved[i], environ[i]))
        i++;
    return saved[i] || (environ && environ[i]);
}

/* The numbers of rand() that a program would get next. */
enum { SEED = 12345 };

static int first_random(void)
{
    srand(SEED);
    const int first = rand();
    srand(SEED);
    return first;
}

/* ---- the whole ---- */

static void take_outputs(process_state *s)
{
    fflush(stdout);
    fflush(stderr);
    s->output = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    for (int i = 0; i < 2 && s->output >= 0; i++) {
        s->outputs[i] = dup(1 + i);
        dup2(s->output, 1 + i);
    }
}

/* Returns how much was written meanwhile. */
static int64_t give_outputs(process_state *s)
{
    struct stat file = {0};
    fflush(stdout);
    fflush(stderr);
    for (int i = 0; i < 2 && s->output >= 0; i++) {
        dup2(s->outputs[i], 1 + i);
        close(s->outputs[i]);
    }
    if (s->output >= 0 && !fstat(s->output, &file))
        close(s->output);
    return file.st_size;
}

process_state *process_save(void)
{
    process_state *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    fegetenv(&s->modes);
    pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
    for (int i = 1; i < SIGNALS; i++)
        sigaction(i, NULL, &s->action[i]);
    for (int i = 0; i < 3; i++)
        getitimer(i, &s->timer[i]);
    sched_getaffinity(0, sizeof s->processors, &s->processors);
    s->umask = umask_now();
    s->nice = getpriority(PRIO_PROCESS, 0);
    s->openmp = openmp_threads();
    if (!getcwd(s->folder, sizeof s->folder))
        s->folder[0] = 0;
    snprintf(s->locale, sizeof s->locale, "%s", setlocale(LC_ALL, NULL));
    prctl(PR_GET_NAME, s->thread);
    s->environment = copy_environment();
    return s;
}

static int signals_differ(const process_state *s)
{
    for (int i = 1; i < SIGNALS; i++) {
        struct sigaction now = {0};
        if (sigaction(i, NULL, &now))
            continue;
        const int flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER | SA_RESETHAND;
        if (now.sa_handler != s->action[i].sa_handler ||
            (now.sa_flags ^ s->action[i].sa_flags) & flags)
            return i;
    }
    return 0;
}

static int mask_differs(const process_state *s)
{
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    for (int i = 1; i < SIGNALS; i++)
        if (sigismember(&now, i) != sigismember(&s->mask, i))
            return i;
    return 0;
}

static int timers_differ(const process_state *s)
{
    for (int i = 0; i < 3; i++) {
        struct itimerval now;
        getitimer(i, &now);
        if (timerisset(&now.it_value) != timerisset(&s->timer[i].it_value))
            return 1;
    }
    return 0;
}

static int differs_as_text(const process_state *s, const char **what)
{
    char folder[TEXT] = "", thread[16] = "";
    *what = !getcwd(folder, sizeof folder) || strcmp(folder, s->folder) ? "the current folder"
            : strcmp(setlocale(LC_ALL, NULL), s->locale)                ? "the locale"
            : prctl(PR_GET_NAME, thread) || strcmp(thread, s->thread)   ? "the thread's name"
            : s->environment && environment_differs(s->environment)     ? "the environment"
                                                                        : NULL;
    return *what != NULL;
}

static int differs_as_number(const process_state *s, const char **what)
{
    fenv_t modes;
    cpu_set_t processors;
    siginfo_t child;
    fegetenv(&modes);
    sched_getaffinity(0, sizeof processors, &processors);
    const int random = rand(), expected = first_random();
    *what = modes_differ(&modes, &s->modes) ? "the floating-point modes (rounding, flushing, traps)"
            : timers_differ(s)              ? "a timer of the process"
            : !CPU_EQUAL(&processors, &s->processors) ? "the processors that the thread may use"
            : umask_now() != s->umask                 ? "the mask of new files"
            : getpriority(PRIO_PROCESS, 0) != s->nice ? "the priority"
            : openmp_threads() != s->openmp           ? "OpenMP's number of threads"
            : !waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) ? "a child process"
            : random != expected                                     ? "the numbers of rand()"
                                                                     : NULL;
    return *what != NULL;
}

static void restore(const process_state *s)
{
    fesetenv(&s->modes);
    pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
    for (int i = 1; i < SIGNALS; i++)
        sigaction(i, &s->action[i], NULL);
    for (int i = 0; i < 3; i++)
        setitimer(i, &s->timer[i], NULL);
    sched_setaffinity(0, sizeof s->processors, &s->processors);
    umask(s->umask);
    setpriority(PRIO_PROCESS, 0, s->nice);
    set_openmp_threads(s->openmp);
    setlocale(LC_ALL, s->locale);
    prctl(PR_SET_NAME, s->thread);
    if (s->environment && environment_differs(s->environment)) {
        clearenv(); /* the copies stay: somebody may have asked for them */
        for (int i = 0; s->environment[i]; i++)
            putenv(s->environment[i]);
    }
    if (s->folder[0] && chdir(s->folder))
        return;
}

void process_begin(process_state *s)
{
    restore(s);
    take_outputs(s);
    first_random();
}

int process_end(process_state *s, char *what, size_t size)
{
    const char *name;
    const int64_t text = give_outputs(s);
    const int action = signals_differ(s), mask = mask_differs(s);
    if (action)
        snprintf(what, size, "the handler of signal %d (%s)", action, strsignal(action));
    else if (mask)
        snprintf(what, size, "the thread's mask of signals: %d (%s)", mask, strsignal(mask));
    else if (differs_as_number(s, &name) || differs_as_text(s, &name))
        snprintf(what, size, "%s", name);
    else if (text)
        snprintf(what, size, "text on stdout or stderr");
    else
        return 0;
    restore(s);
    return 1;
}
