/* busy MODE FILE [MAPPINGS]: works without end, counting rounds in the first eight bytes of FILE.
 *
 * "loop" only computes; "faults" maps, touches and unmaps memory, which needs the lock of the address
 * space for writing; "idle" does nothing at all. It has MAPPINGS more mappings than it needs, reports "ready", and ends with its
 * parent.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PAGES = 64, PAGE = 4096, WORK = 20000 };

static void compute(void)
{
    volatile unsigned sum = 0;
    for (unsigned n = 0; n < WORK; n++)
        sum += n;
}

static void fault(void)
{
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(5);
    for (int page = 0; page < PAGES; page++)
        memory[page * PAGE] = 1;
    munmap(memory, PAGES * PAGE);
}

/* Neighbours differ in their protection, so that the kernel keeps each page as a mapping of its own. */
static void spread(size_t count)
{
    char *memory = mmap(NULL, count * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(6);
    for (size_t page = 0; page < count; page += 2)
        if (mprotect(memory + page * PAGE, PAGE, PROT_READ | PROT_WRITE))
            _exit(7);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    if (argc > 3)
        spread(strtoul(argv[3], NULL, 10));
    int file = open(argv[2], O_RDWR);
    volatile uint64_t *rounds = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (rounds == MAP_FAILED)
        return 3;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (write(1, "ready\n", 6) != 6)
        return 4;
    while (strcmp(argv[1], "idle") == 0)
        pause();
    void (*round)(void) = strcmp(argv[1], "faults") == 0 ? fault : compute;
    for (;;) {
        round();
        ++*rounds;
    }
}
