/* A program whose writable data are 64 MiB. */
#include <sys/prctl.h>
#include <unistd.h>

static volatile char data[64 << 20];

int main(void)
{
    char byte;
    data[12345678] = 1;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (write(1, "ready\n", 6) != 6)
        return 4;
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
