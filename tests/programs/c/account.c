/* Reports "ready"; on the first byte of stdin, lists what dl_iterate_phdr(3) tells, ended by ".". */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static int tell(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    printf("%s %lx\n", info->dlpi_name, (unsigned long)info->dlpi_addr);
    return 0;
}

int main(void)
{
    char byte;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {
        dl_iterate_phdr(tell, NULL);
        printf(".\n");
        fflush(stdout);
    }
    return 0;
}
