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
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static sem_t woken;
static char much[1 << 22];
static int ends[2];

static void wake(int signal) {
    (void)signal;
    sem_post(&woken);
}

static void answer(int signal) {
    (void)signal;
    if (write(ends[1], "x", 1) < 0) _exit(1);
}

/* A timer of the process that sends this signal after five minutes. */
static void send_late(int signal) {
    struct sigevent event;
    struct itimerspec late = {{0, 0}, {300, 0}};
    timer_t timer;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = signal;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &late, 0);
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
    } else if (!strcmp(way, "receive") || !strcmp(way, "send")) {
        /* A socket whose other end nothing uses, for five minutes. */
        struct timeval limit = {300, 0};
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (way[0] == 'r') return recv(ends[0], much, 1, 0) < 0;
        return send(ends[0], much, sizeof much, 0) < 0;
    } else if (!strcmp(way, "named")) {
        /* Any process can open it, though the C library has made it under another name. */
        sem_unlink("/zsh-tool-shapes");
        return sem_wait(sem_open("/zsh-tool-shapes", O_CREAT, 0600, 0)) < 0;
    } else if (!strcmp(way, "unnamed")) {
        sem_unlink("/zsh-tool-shapes-2");
        sem_t *alone = sem_open("/zsh-tool-shapes-2", O_CREAT, 0600, 0);
        sem_unlink("/zsh-tool-shapes-2");
        return sem_wait(alone) < 0;
    } else if (!strcmp(way, "forget")) {
        sem_unlink("/zsh-tool-shapes");
    } else if (!strcmp(way, "ended") || !strcmp(way, "answered")) {
        /* A timer's signal ends the program, or its handler writes to the pipe. */
        if (pipe(ends) < 0) return 1;
        if (way[0] == 'a') signal(SIGRTMIN + 1, answer);
        send_late(SIGRTMIN + 1);
        return read(ends[0], much, 1) < 0;
    } else if (!strcmp(way, "sleeper")) {
        /* The main thread waits for a lock whose holder sleeps. */
        pthread_t thread;
        pthread_create(&thread, 0, sleep_long, 0);
        pthread_join(thread, 0);
    }
    return 0;
}
