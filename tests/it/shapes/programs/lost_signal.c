/* A thread waits for a condition that nothing signals; the main thread waits for the thread. */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void *wait_for_ever(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) pthread_cond_wait(&condition, &lock);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, wait_for_ever, 0);
    pthread_join(thread, 0);
    return 0;
}
