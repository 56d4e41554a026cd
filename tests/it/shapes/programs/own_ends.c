/* Reads what it alone could write: a pair of sockets or an event counter; or writes to a full
   pipe that it alone could read. */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    char buffer[4096];
    int ends[2];
    memset(buffer, 0, sizeof buffer);
    if (!strcmp(way, "sockets")) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        return read(ends[0], buffer, 1) < 0;
    }
    if (!strcmp(way, "counter")) return read(eventfd(0, 0), buffer, 8) < 0;
    if (pipe(ends) < 0) return 1;
    for (;;)
        if (write(ends[1], buffer, sizeof buffer) < 0) return 1;
}
