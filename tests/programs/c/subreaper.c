// Becomes a subreaper, starts the given program and never collects anything: a bad first process
// of a container. prctl(2) PR_SET_CHILD_SUBREAPER.
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count < 2 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) return 2;
    if (!fork()) {
        execvp(arguments[1], arguments + 1);
        _exit(127);
    }
    for (;;) pause();
}
