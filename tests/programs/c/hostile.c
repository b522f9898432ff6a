/* Points environ at something no honest program has, reports "ready" and waits for stdin's end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

static const size_t page = 4096;

/* Memory whose end is followed by a page that cannot be read. */
static char *walled(size_t size)
{
    char *memory = mmap(NULL, size + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        _exit(3);
    mprotect(memory + size, page, PROT_NONE);
    return memory;
}

static char **array_of(size_t count)
{
    return (char **)walled((count * sizeof(char *) + page) & ~(page - 1));
}

static void fill(char **array, size_t count, char *entry)
{
    for (size_t n = 0; n < count; n++)
        array[n] = entry;
}

static void scribble(const char *how)
{
    char **array = array_of(1000000);
    if (strcmp(how, "million") == 0) {
        fill(array, 1000000, "SAME=1");
    } else if (strcmp(how, "many") == 0) {
        fill(array, 50000, "SAME=1");
    } else if (strcmp(how, "cycle") == 0) {
        fill(array, 1000, (char *)array);
    } else if (strcmp(how, "wild") == 0) {
        array[0] = "GOOD=1";
        array[1] = (char *)0x10;
    } else if (strcmp(how, "kernel") == 0) {
        array[0] = (char *)0xffffffffff600000;
    } else if (strcmp(how, "noncanonical") == 0) {
        array[0] = (char *)0x7fffffffffffffff;
    } else if (strcmp(how, "unterminated-string") == 0) {
        char *text = walled(page);
        memset(text, 'x', page);
        memcpy(text, "NAME=", 5);
        array[0] = text;
    } else if (strcmp(how, "unterminated-name") == 0) {
        char *text = walled(page);
        memset(text, 'x', page);
        array[0] = text;
    } else if (strcmp(how, "endless-value") == 0) {
        char *text = walled(64 << 20);
        memset(text, 'x', 64 << 20);
        memcpy(text, "NAME=", 5);
        array[0] = text;
    } else if (strcmp(how, "scattered") == 0) {
        for (size_t n = 0; n < 50000; n++) {
            char *text = walled(page);
            if (n % 1000 == 999)
                break;
            memcpy(text, "A=", 3);
            array[n] = text;
        }
        fill(array + 999, 49000, array[0]);
    } else if (strcmp(how, "unterminated-array") == 0) {
        array = (char **)walled(page);
        fill(array, page / sizeof(char *), "A=1");
    } else if (strcmp(how, "misaligned") == 0) {
        array = (char **)((char *)array + 1);
    } else if (strcmp(how, "wild-array") == 0) {
        array = (char **)0x7fff00000000dea8;
    } else if (how[0] == '/') { /* a string in this mapped file */
        int file = open(how, O_RDONLY);
        char *text = mmap(NULL, page, PROT_READ, MAP_SHARED, file, 0);
        if (file < 0 || text == MAP_FAILED)
            _exit(7);
        array[0] = text;
    } else {
        _exit(4);
    }
    environ = array;
}

int main(int argc, char **argv)
{
    char byte;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (argc > 1)
        scribble(argv[1]);
    if (write(1, "ready\n", 6) != 6)
        _exit(5);
    while (read(0, &byte, 1) > 0)
        ;
    _exit(0);
}
