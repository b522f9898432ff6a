/* restart PROGRAM: executes itself (PROGRAM) without end, with its name and environment as they are.
 *
 * It reports "ready" the first time. Each image lives for a quarter of a millisecond, so that a
 * reader meets both: images, and the moments between them.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    char *again[] = {argv[0], argv[1], "again", 0};
    if (argc < 2)
        return 2;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (argc == 2 && write(1, "ready\n", 6) != 6)
        return 3;
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec < 250000);
    execve(argv[1], again, environ);
    return 4;
}
