/* tests/threads/executor.h - an executor of pthreads, which ThreadSanitizer understands; libgomp is
 * not instrumented. */
#ifndef TESTS_EXECUTOR_H
#define TESTS_EXECUTOR_H

/* A tg_executor: a thread for each task but the first. */
void run_on_pthreads(void *user, int tasks, void (*task)(void *arg, int index), void *arg);

#endif
