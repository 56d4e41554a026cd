/* Waits that something outside, a signal or a timer can end, however much they look like a
   deadlock. */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static sem_t woken;

static void wake(int signal) {
    (void)signal;
    sem_post(&woken);
}

static void *sleep_long(void *unused) {
    sleep(300);
    return unused;
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    uint64_t number;
    if (!strcmp(way, "handler")) {
        sem_init(&woken, 0, 0);
        signal(SIGUSR1, wake);
        while (sem_wait(&woken) < 0) {}
    } else if (!strcmp(way, "timer")) {
        int timer = timerfd_create(CLOCK_MONOTONIC, 0);
        struct itimerspec late = {{0, 0}, {300, 0}};
        timerfd_settime(timer, 0, &late, 0);
        return read(timer, &number, sizeof number) < 0;
    } else if (!strcmp(way, "signals")) {
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR1);
        sigprocmask(SIG_BLOCK, &signals, 0);
        struct signalfd_siginfo told;
        return read(signalfd(-1, &signals, 0), &told, sizeof told) < 0;
    } else if (!strcmp(way, "shared")) {
        /* Any process that maps the file can wake it. */
        int file = open("shared", O_RDWR | O_CREAT, 0600);
        if (ftruncate(file, 4096) < 0) return 1;
        sem_t *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        sem_init(shared, 1, 0);
        while (sem_wait(shared) < 0) {}
    } else if (!strcmp(way, "messages")) {
        int queue = msgget(ftok(".", 'a'), IPC_CREAT | 0600);
        struct { long kind; char text[8]; } message;
        int got = msgrcv(queue, &message, sizeof message.text, 0, 0);
        msgctl(queue, IPC_RMID, 0);
        return got < 0;
    } else if (!strcmp(way, "semaphore")) {
        int set = semget(ftok(".", 'b'), 1, IPC_CREAT | 0600);
        struct sembuf down = {0, -1, 0};
        return semop(set, &down, 1) < 0;
    } else if (!strcmp(way, "remove")) {
        /* What the two before have left in this directory's name. */
        msgctl(msgget(ftok(".", 'a'), 0), IPC_RMID, 0);
        semctl(semget(ftok(".", 'b'), 1, 0), 0, IPC_RMID);
    } else if (!strcmp(way, "sleeper")) {
        /* The main thread waits for a lock whose holder sleeps. */
        pthread_t thread;
        pthread_create(&thread, 0, sleep_long, 0);
        pthread_join(thread, 0);
    }
    return 0;
}
