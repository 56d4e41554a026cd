/* A reader of a lock wants to write while another reader, who waits for it, does not let go. */
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t both_read;

static void *upgrade(void *unused) {
    pthread_rwlock_rdlock(&lock);
    pthread_barrier_wait(&both_read);
    pthread_rwlock_wrlock(&lock);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&both_read, 0, 2);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, upgrade, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
