/*
 * poll(2) as XNU has it, for Linux: preloaded into the server and the test binary, it shows what
 * would wait forever on macOS (make test-xnu-poll).
 *
 * XNU watches a descriptor by the events that it is asked for. Asked for none, it reports none,
 * not even the end of the other side. Character devices other than terminals cannot be polled.
 *
 * Only those two programs are changed. Others drop the variable, so that commands have the
 * environment that the tests expect.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* Major numbers of Linux: null, zero, random and their like; /dev/tty and /dev/console. */
enum { MEMORY_DEVICES = 1, TTY_DEVICES = 5 };

static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
static bool is_meant;

static bool begins_with(const char *text, const char *beginning) {
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

__attribute__((constructor)) static void begin(void) {
    real_ppoll = dlsym(RTLD_NEXT, "ppoll");
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    is_meant = begins_with(name, "zsh-tool") || begins_with(name, "zsh_tool-") ||
               begins_with(name, "it-");
    if (!is_meant)
        unsetenv("LD_PRELOAD");
}

static bool cannot_be_polled(int fd) {
    struct stat found;
    if (fstat(fd, &found) != 0 || !S_ISCHR(found.st_mode))
        return false;
    return major(found.st_rdev) == MEMORY_DEVICES ||
           (major(found.st_rdev) == TTY_DEVICES && minor(found.st_rdev) == 0);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask) {
    if (!is_meant)
        return real_ppoll(fds, count, limit, mask);
    struct pollfd *watched = calloc(count ? count : 1, sizeof *watched);
    if (!watched) {
        errno = ENOMEM;
        return -1;
    }
    int refused = 0;
    for (nfds_t i = 0; i < count; i++) {
        watched[i] = fds[i];
        fds[i].revents = 0;
        if (fds[i].fd < 0 || fds[i].events == 0) {
            watched[i].fd = -1;
        } else if (cannot_be_polled(fds[i].fd)) {
            watched[i].fd = -1;
            fds[i].revents = POLLNVAL;
            refused++;
        }
    }
    const struct timespec at_once = {0, 0};
    int ready = real_ppoll(watched, count, refused ? &at_once : limit, mask);
    if (ready >= 0) {
        for (nfds_t i = 0; i < count; i++) {
            if (watched[i].fd >= 0)
                fds[i].revents = watched[i].revents;
        }
        ready += refused;
    }
    int error = errno;
    free(watched);
    errno = error;
    return ready;
}

int poll(struct pollfd *fds, nfds_t count, int milliseconds) {
    struct timespec limit = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    return ppoll(fds, count, milliseconds < 0 ? NULL : &limit, NULL);
}
