/* grow SIZE: sets HUGE to a value of SIZE bytes, longer than execve would hand over. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    char *value = malloc(size + 1), byte;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    memset(value, 'g', size);
    value[size] = '\0';
    setenv("HUGE", value, 1);
    if (write(1, "ready\n", 6) != 6)
        return 4;
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
