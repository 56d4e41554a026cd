/* A daemon's main loop: everything happens in signal handlers. */
#include <signal.h>

int main(void) {
    sigset_t none;
    sigemptyset(&none);
    for (;;) sigsuspend(&none);
}
