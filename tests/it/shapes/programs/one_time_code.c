/* Asks for a code that expires: waits for the terminal and for a timer at once. */
#include <poll.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

int main(void) {
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec in_an_hour = {{0, 0}, {3600, 0}};
    timerfd_settime(timer, 0, &in_an_hour, 0);
    printf("One-time code: ");
    fflush(stdout);
    struct pollfd sources[2] = {{STDIN_FILENO, POLLIN, 0}, {timer, POLLIN, 0}};
    poll(sources, 2, -1);
    return 0;
}
