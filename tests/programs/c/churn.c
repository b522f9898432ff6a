/* Sets variables without end while STABLE stays as it is; ends with stdin.
 *
 * "move" makes the array itself move on each round, "replace" only the strings.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char name[32], value[32];
    int move = argc > 1 && strcmp(argv[1], "move") == 0;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (write(1, "ready\n", 6) != 6)
        _exit(4);
    for (unsigned round = 0; round % 4096 || poll(&input, 1, 0) == 0; round++) {
        snprintf(name, sizeof name, "CHURN_%u", round % 16);
        snprintf(value, sizeof value, "%u", round);
        if (move && round % 64 == 0) {
            size_t count = 0;
            while (environ[count])
                count++;
            char **other = malloc((count + 1) * sizeof *other);
            memcpy(other, environ, (count + 1) * sizeof *other);
            environ = other; /* the old one leaks: a reader may still be in it */
        }
        setenv(name, value, 1);
    }
    return 0;
}
