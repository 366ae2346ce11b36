/* planted_process.c - faults of what a call leaves behind in the process. */
#define _GNU_SOURCE
#include "planted.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static void *volatile kept;

static tg_status leaks_memory(call *c)
{
    kept = malloc(40);
    return right(c);
}

static tg_status leaks_pages(call *c)
{
    kept = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return right(c);
}

static tg_status leaks_a_file(call *c)
{
    const int file = open("/dev/null", O_RDONLY);
    return file == -2 ? TG_EINVAL : right(c);
}

/* Something a context, which is never given back. */
static tg_status leaks_with_a_context(call *c)
{
    static const tg_ctx *last;
    static int calls;
    if (last != c->ctx || calls++ > 200)
        kept = malloc(4000);
    last = c->ctx;
    return right(c);
}

static void *waits(void *arg)
{
    pause();
    return arg;
}

static tg_status leaves_a_thread(call *c)
{
    static int calls; /* as many as a small machine has */
    pthread_t thread;
    if (calls++ < 600 && !pthread_create(&thread, NULL, waits, NULL))
        pthread_detach(thread);
    return right(c);
}

static tg_status flushes_from_now_on(call *c)
{
    const tg_status status = right(c);
    fenv_t modes;
    fegetenv(&modes);
#ifdef __x86_64__
    modes.__mxcsr |= 0x8040; /* denormals are zero, inputs and results */
#elif defined(__aarch64__)
    modes.__fpcr |= 1 << 24;
#endif
    fesetenv(&modes);
    return status;
}

static tg_status rounds_down_from_now_on(call *c)
{
    const tg_status status = right(c);
    fesetround(FE_DOWNWARD);
    return status;
}

static tg_status traps_from_now_on(call *c)
{
    const tg_status status = right(c);
    feenableexcept(FE_DIVBYZERO);
    return status;
}

static tg_status blocks_a_signal(call *c)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return right(c);
}

static tg_status takes_a_signal(call *c)
{
    signal(SIGFPE, SIG_IGN);
    return right(c);
}

static tg_status sets_a_variable(call *c)
{
    setenv("PLANTED_WAS_HERE", "1", 1);
    return right(c);
}

static tg_status sets_the_locale(call *c)
{
    setlocale(LC_ALL, "C.UTF-8");
    return right(c);
}

static tg_status sets_the_mask_of_files(call *c)
{
    umask(077);
    return right(c);
}

static tg_status goes_elsewhere(call *c)
{
    return chdir("/") ? TG_EINVAL : right(c);
}

static tg_status draws_numbers(call *c)
{
    const int number = rand();
    return number < 0 ? TG_EINVAL : right(c);
}

static tg_status prints(call *c)
{
    printf("%s\n", c->op->name);
    return right(c);
}

static tg_status sets_openmp(call *c)
{
    void (*set)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    const tg_status status = right(c);
    if (set)
        set(1);
    return status;
}

static tg_status keeps_to_one_processor(call *c)
{
    cpu_set_t set;
    const tg_status status = right(c);
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof set, &set);
    return status;
}

static tg_status starts_a_timer(call *c)
{
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_sec = 100000}}, NULL);
    return right(c);
}

static tg_status leaves_a_child(call *c)
{
    static int calls;
    if (calls++ % 500 == 0 && fork() == 0)
        _exit(0);
    usleep(calls % 500 == 1 ? 2000 : 0);
    return right(c);
}

const fault faults_of_process[] = {
    {"leaks_memory", "process", NULL, leaks_memory},
    {"leaks_pages", "process", NULL, leaks_pages},
    {"leaks_a_file", "process", NULL, leaks_a_file},
    {"leaks_with_a_context", "process", NULL, leaks_with_a_context},
    {"leaves_a_thread", "process", NULL, leaves_a_thread},
    {"leaves_a_child", "process", NULL, leaves_a_child},
    {"flushes_from_now_on", "process", NULL, flushes_from_now_on},
    {"rounds_down_from_now_on", "process", NULL, rounds_down_from_now_on},
    {"traps_from_now_on", "process", NULL, traps_from_now_on},
    {"blocks_a_signal", "process", NULL, blocks_a_signal},
    {"takes_a_signal", "process", NULL, takes_a_signal},
    {"sets_a_variable", "process", NULL, sets_a_variable},
    {"sets_the_locale", "process", NULL, sets_the_locale},
    {"sets_the_mask_of_files", "process", NULL, sets_the_mask_of_files},
    {"goes_elsewhere", "process", NULL, goes_elsewhere},
    {"draws_numbers", "process", NULL, draws_numbers},
    {"prints", "process", NULL, prints},
    {"sets_openmp", "process", NULL, sets_openmp},
    {"keeps_to_one_processor", "process", NULL, keeps_to_one_processor},
    {"starts_a_timer", "process", NULL, starts_a_timer},
    {0},
};
